#include "tests/unit/proxy/dns_packets.h"
#include "tests/unit/proxy/names_world.h"

#include "proxy/dns_listen.h"

static struct world world;
static struct dns_listen *listener;
static struct dns_asker *askers[256];
static size_t n_askers, replied;
static uint16_t port;
static int client;

static void on_packet(void *arg, struct dns_asker *from, struct str packet)
{
	(void)arg;
	(void)packet;
	assert_true(n_askers < 256);
	askers[n_askers++] = from;
}

static void reply_all(size_t n)
{
	uint8_t answer[1232] = { 0 };

	while (replied < n_askers)
		dns_reply(askers[replied++], answer, n);
}

static void open_at(uint32_t address)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };
	int on = 1, udp, tcp, wide;

	bound_pair(&port, &udp, &tcp);
	if (address != INADDR_LOOPBACK) {
		close(udp);
		wide = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		at.sin_port = htons(port);
		assert_int_equal(bind(wide, (struct sockaddr *)&at, sizeof(at)), 0);
		udp = wide;
	}
	assert_int_equal(setsockopt(udp, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)), 0);
	listener = dns_listen_new(world.base, udp, tcp, 0, on_packet, NULL);
	assert_non_null(listener);
}

static int setup(void **state)
{
	(void)state;
	n_askers = replied = 0;
	client = -1;
	world_open(&world);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	reply_all(0);
	dns_listen_free(listener);
	if (client >= 0)
		close(client);
	world_close(&world);
	return 0;
}

static void a_query_is_answered_from_the_address_that_was_asked(void **state)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000035) };
	char got[64];
	ssize_t n;

	(void)state;
	open_at(INADDR_ANY);
	to.sin_port = htons(port);
	client = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* connected: an answer from any other address would not be given to us */
	assert_int_equal(connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(client, "x", 1, 0), 1);
	WAIT_UNTIL(&world, n_askers == 1);
	reply_all(12);
	WAIT_UNTIL(&world, (n = recv(client, got, sizeof(got), MSG_DONTWAIT)) >= 0);
	assert_int_equal(n, 12);
}

static void send_frames(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(send(client, "\0\1x", 3, 0), 3);
}

/* F41 */
static void a_connection_is_not_read_from_while_its_pipeline_is_full(void **state)
{
	(void)state;
	open_at(INADDR_LOOPBACK);
	client = connected_socket(SOCK_STREAM, port);
	send_frames(100);
	WAIT_UNTIL(&world, n_askers == DNS_PIPELINE_MAX);
	for (unsigned i = 0; i < 10; i++)
		event_base_loop(world.base, EVLOOP_NONBLOCK);
	assert_int_equal(n_askers, DNS_PIPELINE_MAX);
	while (n_askers < 100) {
		reply_all(12);
		turn(&world);
	}
	reply_all(12);
	assert_int_equal(n_askers, 100);
}

static void answers_that_are_not_taken_stop_the_reading_and_all_come_in_the_end(void **state)
{
	int small = 4096;
	size_t want = 200 * (2 + 1232), got = 0;
	static char room[65536];
	ssize_t n;

	(void)state;
	open_at(INADDR_LOOPBACK);
	client = connected_socket(SOCK_STREAM, port);
	setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	send_frames(200);
	while (got < want) {
		event_base_loop(world.base, EVLOOP_NONBLOCK);
		reply_all(1232);
		n = recv(client, room, 512, MSG_DONTWAIT);
		assert_true(n != 0);
		if (n > 0)
			got += (size_t)n;
	}
	assert_int_equal(got, want);
}

static void a_connection_that_ends_early_takes_nothing_with_it(void **state)
{
	(void)state;
	open_at(INADDR_LOOPBACK);
	client = connected_socket(SOCK_STREAM, port);
	send_frames(3);
	WAIT_UNTIL(&world, n_askers == 3);
	setsockopt(client, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
	close(client);
	client = -1;
	for (unsigned i = 0; i < 10; i++)
		event_base_loop(world.base, EVLOOP_NONBLOCK);
	reply_all(12);
	assert_int_equal(replied, 3);
}

static void tcp_takes_longer_answers_than_udp(void **state)
{
	struct dns_query q = { .udp_size = 512 };

	(void)state;
	open_at(INADDR_LOOPBACK);
	client = connected_socket(SOCK_STREAM, port);
	send_frames(1);
	WAIT_UNTIL(&world, n_askers == 1);
	assert_int_equal(dns_asker_max(askers[0], &q), DNS_MESSAGE_MAX);
	close(client);
	client = connected_socket(SOCK_DGRAM, port);
	assert_int_equal(send(client, "x", 1, 0), 1);
	WAIT_UNTIL(&world, n_askers == 2);
	assert_int_equal(dns_asker_max(askers[1], &q), 512);
}

/* A byte now and then keeps nothing open: the time runs from one whole query to the next. */
static void a_connection_that_asks_nothing_whole_is_closed(void **state)
{
	char room[16];
	ssize_t n;

	(void)state;
	open_at(INADDR_LOOPBACK);
	client = connected_socket(SOCK_STREAM, port);
	assert_int_equal(send(client, "\0\5abc", 5, 0), 5);
	WAIT_UNTIL(&world, (n = recv(client, room, sizeof(room), MSG_DONTWAIT)) >= 0);
	assert_int_equal(n, 0);
	assert_int_equal(n_askers, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_query_is_answered_from_the_address_that_was_asked),
		CASE(a_connection_is_not_read_from_while_its_pipeline_is_full),
		CASE(answers_that_are_not_taken_stop_the_reading_and_all_come_in_the_end),
		CASE(a_connection_that_ends_early_takes_nothing_with_it),
		CASE(tcp_takes_longer_answers_than_udp),
		CASE(a_connection_that_asks_nothing_whole_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
