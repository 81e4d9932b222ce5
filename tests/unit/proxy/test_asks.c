#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/names_world.h"

#include <fcntl.h>

#include "proxy/clock.h"
#include "proxy/worker.h"

static const struct test_rule rules[] = {
	{ .id = "api", .hosts = { LIST("api.test") }, .ports = { LIST("443", "8080") } },
};

static struct world world;
static struct worker worker;
static struct channel *far_end;
static struct {
	unsigned resolved, dialed, leased, granted, leafs, hangups, taken;
	uint8_t status;
	int fd;
	uint64_t hung_up;
} got;

/* What has arrived at the far end. */
static struct {
	unsigned n;
	uint16_t type;
	uint32_t id;
	char words[128];
} heard;

static void on_resolved(void *arg, const struct msg_resolved *m)
{
	(void)arg;
	got.resolved++;
	got.status = m->status;
}

static void on_leased(void *arg, const struct msg_leased *m)
{
	(void)arg;
	got.leased++;
	got.status = m->ok;
}

static void on_dialed(void *arg, const struct msg_dialed *m, int fd)
{
	(void)arg;
	got.dialed++;
	got.status = m->status;
	got.fd = fd;
}

static void on_leaf(void *arg, const struct msg_leaf_is *m)
{
	(void)arg;
	got.leafs++;
	got.status = m->ok;
}

static void on_granted(void *arg, const struct msg_granted *m)
{
	(void)arg;
	got.granted++;
	got.status = m->status;
}

static void note(uint16_t type, uint32_t id, const char *fmt, ...)
{
	va_list ap;

	heard.n++;
	heard.type = type;
	heard.id = id;
	va_start(ap, fmt);
	vsnprintf(heard.words, sizeof(heard.words), fmt, ap);
	va_end(ap);
}

static void on_access(void *arg, const struct msg_access_taken *m)
{
	(void)arg;
	got.taken++;
	got.status = m->number != 0;
	assert_true(m->number != 0 || m->why.n != 0);
}

static void on_far(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_resolve *resolve = msg;
	const struct msg_dial *dial = msg;
	const struct msg_leaf *leaf = msg;
	const struct msg_grant *grant = msg;
	const struct msg_access *access = msg;

	(void)arg;
	(void)fds;
	(void)n_fds;
	if (type == MSG_HANGUP) {
		got.hangups++;
		got.hung_up = ((const struct msg_hangup *)msg)->ticket;
	} else if (type == MSG_RESOLVE) {
		note(type, resolve->id, "%.*s", STR_ARG(resolve->name));
	} else if (type == MSG_DIAL) {
		note(type, dial->id, "%.*s %u %u", STR_ARG(dial->name), dial->literal, dial->port);
	} else if (type == MSG_LEAF) {
		note(type, leaf->id, "%.*s %u", STR_ARG(leaf->name), leaf->literal);
	} else if (type == MSG_GRANT) {
		note(type, grant->id, "%llu %u %.*s %.*s", (unsigned long long)grant->ticket, grant->proto,
		     STR_ARG(grant->method), STR_ARG(grant->path));
	} else if (type == MSG_ACCESS) {
		note(type, access->id, "%.*s|%.*s|%.*s", STR_ARG(access->method), STR_ARG(access->url),
		     STR_ARG(access->reason));
	}
}

/* A channel to the role; its other end is far_end. */
static struct channel *connect_role(enum role role)
{
	const struct channel_peer here = { .self = ROLE_WORKER, .other = role, .table = exeat_messages };
	const struct channel_peer there = { .self = role, .other = ROLE_WORKER, .table = exeat_messages,
					    .on_message = on_far };
	struct channel *c;
	int fds[2];

	assert_int_equal(channel_pair(fds), OK);
	c = channel_new(world.base, fds[0], &here);
	far_end = channel_new(world.base, fds[1], &there);
	channel_set_phase(c, PHASE_RUN);
	channel_set_phase(far_end, PHASE_RUN);
	return c;
}

static int setup(void **state)
{
	(void)state;
	memset(&heard, 0, sizeof(heard));
	memset(&worker, 0, sizeof(worker));
	memset(&got, 0, sizeof(got));
	got.fd = -1;
	world_open(&world);
	worker.base = world.base;
	worker.policy = MAKE_POLICY(rules);
	worker.dialer = connect_role(ROLE_DIALER);
	worker.asks = asks_new(&worker);
	assert_non_null(worker.asks);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	asks_free(worker.asks);
	channel_free(worker.dialer);
	channel_free(worker.broker);
	channel_free(far_end);
	policy_free(worker.policy);
	world_close(&world);
	return 0;
}

static int some_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void an_answer_reaches_who_asked_once(void **state)
{
	struct msg_resolved m = { .status = RESOLVE_NODATA };

	(void)state;
	m.id = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
	assert_true(m.id != 0);
	assert_true(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	assert_int_equal(got.resolved, 1);
	assert_int_equal(got.status, RESOLVE_NODATA);
	assert_false(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	assert_int_equal(got.resolved, 1);
}

static void a_request_for_access_that_was_not_sent_has_no_answer(void **state)
{
	struct msg_access_taken m = { .number = 7 };

	(void)state;
	m.id = ask_access(&worker, STR("GET"), STR("https://x.test/"), STR("why"), on_access, NULL);
	/* Nobody was there to hear it: what comes now is no answer to it. */
	assert_false(asks_answer(&worker, MSG_ACCESS_TAKEN, &m, NULL, 0));
	assert_int_equal(got.taken, 0);
}

static void a_request_for_access_goes_to_the_supervisor_in_its_words(void **state)
{
	struct channel *dialer_end = far_end;
	struct msg_access_taken m = { .number = 7 };

	(void)state;
	worker.supervisor = connect_role(ROLE_SUPERVISOR);
	m.id = ask_access(&worker, STR("GET"), STR("https://x.test/"), STR("to build"), on_access, NULL);
	WAIT_UNTIL(&world, heard.n == 1);
	assert_int_equal(heard.type, MSG_ACCESS);
	assert_string_equal(heard.words, "GET|https://x.test/|to build");
	assert_true(asks_answer(&worker, MSG_ACCESS_TAKEN, &m, NULL, 0));
	assert_int_equal(got.taken, 1);
	assert_int_equal(got.status, 1);
	channel_free(worker.supervisor);
	channel_free(far_end);
	far_end = dialer_end;
}

static void an_id_is_not_soon_used_again(void **state)
{
	ask_id first = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
	struct msg_resolved m = { .id = first };

	(void)state;
	assert_true(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	for (unsigned i = 0; i < 1000; i++) {
		m.id = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
		assert_true(m.id != first);
		assert_true(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	}
}

static void an_answer_of_another_kind_is_nobodys(void **state)
{
	struct msg_dialed m = { .status = DIAL_OK, .ticket = 99 };
	int fd = some_fd();

	(void)state;
	m.id = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
	assert_false(asks_answer(&worker, MSG_DIALED, &m, &fd, 1));
	assert_int_equal(got.resolved + got.dialed, 0);
	assert_false(is_open(fd));
	WAIT_UNTIL(&world, got.hangups == 1);
	assert_true(got.hung_up == 99);
}

static void a_connection_comes_with_its_descriptor(void **state)
{
	struct msg_dialed m = { .status = DIAL_OK, .ticket = 7 };
	int fd = some_fd();

	(void)state;
	m.id = ask_dial(&worker, STR("api.test"), false, 443, on_dialed, NULL);
	assert_true(asks_answer(&worker, MSG_DIALED, &m, &fd, 1));
	assert_int_equal(got.fd, fd);
	close(fd);
}

static void a_connection_without_descriptor_is_a_failure(void **state)
{
	struct msg_dialed m = { .status = DIAL_OK, .ticket = 8 };

	(void)state;
	m.id = ask_dial(&worker, STR("api.test"), false, 443, on_dialed, NULL);
	assert_true(asks_answer(&worker, MSG_DIALED, &m, NULL, 0));
	assert_int_equal(got.status, DIAL_FAILED);
	assert_int_equal(got.fd, -1);
	WAIT_UNTIL(&world, got.hangups == 1);
}

static void what_was_cancelled_is_closed_and_hung_up_when_it_comes(void **state)
{
	struct msg_dialed m = { .status = DIAL_OK, .ticket = 9 };
	int fd = some_fd();

	(void)state;
	m.id = ask_dial(&worker, STR("api.test"), false, 443, on_dialed, NULL);
	ask_cancel(&worker, m.id);
	assert_true(asks_answer(&worker, MSG_DIALED, &m, &fd, 1));
	assert_int_equal(got.dialed, 0);
	assert_false(is_open(fd));
	WAIT_UNTIL(&world, got.hangups == 1);
	assert_true(got.hung_up == 9);
	assert_false(asks_answer(&worker, MSG_DIALED, &m, NULL, 0));
}

static void a_question_that_cannot_be_sent_fails_from_the_loop(void **state)
{
	(void)state;
	assert_true(ask_lease(&worker, STR("api.test"), on_leased, NULL) != 0);
	assert_int_equal(got.leased, 0);
	WAIT_UNTIL(&world, got.leased);
	assert_int_equal(got.status, 0);
}

static void dialer_dies(void)
{
	channel_free(worker.dialer);
	channel_free(far_end);
	worker.dialer = far_end = NULL;
	asks_peer_gone(&worker, ROLE_DIALER);
}

static void dialer_comes(void)
{
	worker.dialer = connect_role(ROLE_DIALER);
	asks_peer_back(&worker, ROLE_DIALER);
}

static void what_a_dead_dialer_was_asked_is_asked_of_its_successor(void **state)
{
	ask_id resolve = ask_resolve(&worker, STR("api.test"), on_resolved, NULL), dial;
	struct msg_resolved m = { .id = resolve, .status = RESOLVE_OK };

	(void)state;
	WAIT_UNTIL(&world, heard.n == 1);
	dialer_dies();
	dialer_comes();
	WAIT_UNTIL(&world, heard.n == 2);
	assert_int_equal(heard.type, MSG_RESOLVE);
	assert_int_equal(heard.id, resolve);
	assert_string_equal(heard.words, "api.test");
	assert_true(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	assert_int_equal(got.resolved, 1);
	dial = ask_dial(&worker, STR("203.0.113.1"), true, 8443, on_dialed, NULL);
	WAIT_UNTIL(&world, heard.n == 3);
	dialer_dies();
	dialer_comes();
	WAIT_UNTIL(&world, heard.n == 4);
	assert_int_equal(heard.type, MSG_DIAL);
	assert_int_equal(heard.id, dial);
	assert_string_equal(heard.words, "203.0.113.1 1 8443");
}

static void what_is_asked_while_the_broker_is_away_waits_for_it(void **state)
{
	ask_id leaf, grant;

	(void)state;
	channel_free(far_end);
	leaf = ask_leaf(&worker, STR("api.test"), false, on_leaf, NULL);
	grant = ask_grant(&worker, 77, PROTO_HTTPS, STR("GET"), STR("/a"), on_granted, NULL);
	assert_true(leaf && grant);
	event_base_loop(world.base, EVLOOP_NONBLOCK);
	assert_int_equal(got.leafs + got.granted, 0);
	worker.broker = connect_role(ROLE_BROKER);
	asks_peer_back(&worker, ROLE_BROKER);
	WAIT_UNTIL(&world, heard.n == 2);
	assert_int_equal(heard.type, MSG_GRANT);
	assert_int_equal(heard.id, grant);
	assert_string_equal(heard.words, "77 1 GET /a");
}

static void who_does_not_come_back_is_waited_for_so_long_and_no_longer(void **state)
{
	uint64_t began = clock_ms();

	(void)state;
	dialer_dies();
	assert_true(ask_dial(&worker, STR("api.test"), false, 443, on_dialed, NULL) != 0);
	WAIT_UNTIL(&world, got.dialed);
	assert_int_equal(got.status, DIAL_FAILED);
	assert_true(clock_ms() - began >= PEER_WAIT_MS);
	assert_true(ask_grant(&worker, 1, PROTO_HTTPS, STR("GET"), STR("/"), on_granted, NULL) != 0);
	WAIT_UNTIL(&world, got.granted);
	assert_int_equal(got.status, GRANT_UNAVAILABLE);
}

static void what_two_dialers_died_of_is_not_asked_again(void **state)
{
	(void)state;
	assert_true(ask_resolve(&worker, STR("api.test"), on_resolved, NULL) != 0);
	dialer_dies();
	dialer_comes();
	WAIT_UNTIL(&world, heard.n == 1);
	dialer_dies();
	assert_int_equal(got.resolved, 0);
	WAIT_UNTIL(&world, got.resolved);
	assert_int_equal(got.status, RESOLVE_SERVFAIL);
	dialer_comes();
	event_base_loop(world.base, EVLOOP_NONBLOCK);
	assert_int_equal(heard.n, 1);
}

static void what_was_cancelled_is_not_asked_again_nor_may_it_be_answered(void **state)
{
	ask_id first = ask_resolve(&worker, STR("api.test"), on_resolved, NULL), second;
	struct msg_resolved m = { .id = first };

	(void)state;
	ask_cancel(&worker, first);
	dialer_dies();
	second = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
	ask_cancel(&worker, second);
	dialer_comes();
	event_base_loop(world.base, EVLOOP_NONBLOCK);
	assert_int_equal(heard.n, 0);
	assert_false(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
}

static void those_who_wait_count_as_under_way(void **state)
{
	(void)state;
	dialer_dies();
	for (unsigned i = 0; i < ASKS_MAX; i++)
		assert_true(ask_resolve(&worker, STR("api.test"), on_resolved, NULL) != 0);
	assert_true(ask_resolve(&worker, STR("api.test"), on_resolved, NULL) != 0);
	WAIT_UNTIL(&world, got.resolved == 1);
	assert_int_equal(got.status, RESOLVE_QUOTA);
}

static void access_that_the_supervisor_cannot_be_asked_for_fails_soon(void **state)
{
	channel_free(far_end);
	far_end = NULL;
	channel_free(worker.supervisor);
	worker.supervisor = NULL;
	(void)state;
	assert_true(ask_access(&worker, STR("GET"), STR("https://x.test/"), STR_NONE, on_access, NULL) != 0);
	WAIT_UNTIL(&world, got.taken);
	assert_int_equal(got.status, 0);
}

static void a_failure_that_was_cancelled_does_not_come(void **state)
{
	(void)state;
	ask_cancel(&worker, ask_lease(&worker, STR("api.test"), on_leased, NULL));
	event_base_loop(world.base, EVLOOP_NONBLOCK);
	assert_int_equal(got.leased, 0);
}

static void past_the_limit_a_question_fails_as_over_quota(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ASKS_MAX; i++)
		assert_true(ask_resolve(&worker, STR("api.test"), on_resolved, NULL) != 0);
	assert_true(ask_resolve(&worker, STR("api.test"), on_resolved, NULL) != 0);
	WAIT_UNTIL(&world, got.resolved == 1);
	assert_int_equal(got.status, RESOLVE_QUOTA);
}

static void no_more_failures_wait_than_there_are_slots(void **state)
{
	unsigned n = 0;

	(void)state;
	while (n <= 2 * ASKS_MAX && ask_lease(&worker, STR("api.test"), on_leased, NULL))
		n++;
	assert_int_equal(n, 2 * ASKS_MAX);
	WAIT_UNTIL(&world, got.leased == n);
	assert_true(ask_lease(&worker, STR("api.test"), on_leased, NULL) != 0);
}

static void a_question_that_nobody_answers_fails_in_time_and_its_late_answer_is_known(void **state)
{
	const struct channel_peer here = { .self = ROLE_WORKER, .other = ROLE_SUPERVISOR,
					   .table = exeat_messages };
	struct msg_leased m = { .ok = 1 };
	int fds[2];

	(void)state;
	assert_int_equal(channel_pair(fds), OK);
	worker.supervisor = channel_new(world.base, fds[0], &here);
	channel_set_phase(worker.supervisor, PHASE_RUN);
	m.id = ask_lease(&worker, STR("api.test"), on_leased, NULL);
	WAIT_UNTIL(&world, got.leased == 1);
	assert_int_equal(got.status, 0);
	assert_true(asks_answer(&worker, MSG_LEASED, &m, NULL, 0));
	assert_false(asks_answer(&worker, MSG_LEASED, &m, NULL, 0));
	assert_int_equal(got.leased, 1);
	channel_free(worker.supervisor);
	close(fds[1]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_answer_reaches_who_asked_once),
		CASE(a_request_for_access_that_was_not_sent_has_no_answer),
		CASE(a_request_for_access_goes_to_the_supervisor_in_its_words),
		CASE(an_id_is_not_soon_used_again),
		CASE(an_answer_of_another_kind_is_nobodys),
		CASE(a_connection_comes_with_its_descriptor),
		CASE(a_connection_without_descriptor_is_a_failure),
		CASE(what_was_cancelled_is_closed_and_hung_up_when_it_comes),
		CASE(a_question_that_cannot_be_sent_fails_from_the_loop),
		CASE(a_failure_that_was_cancelled_does_not_come),
		CASE(past_the_limit_a_question_fails_as_over_quota),
		CASE(no_more_failures_wait_than_there_are_slots),
		CASE(what_a_dead_dialer_was_asked_is_asked_of_its_successor),
		CASE(what_is_asked_while_the_broker_is_away_waits_for_it),
		CASE(who_does_not_come_back_is_waited_for_so_long_and_no_longer),
		CASE(what_two_dialers_died_of_is_not_asked_again),
		CASE(what_was_cancelled_is_not_asked_again_nor_may_it_be_answered),
		CASE(those_who_wait_count_as_under_way),
		CASE(access_that_the_supervisor_cannot_be_asked_for_fails_soon),
		CASE(a_question_that_nobody_answers_fails_in_time_and_its_late_answer_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
