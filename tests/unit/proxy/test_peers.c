/* Dialers and brokers that die under a worker that works: the whole engine, and their successors. */
#include "tests/unit/proxy/engine_rig.h"

#define GET(host) "GET / HTTP/1.1\r\nHost: " host "\r\n\r\n"

/* A second request on the client's connection; its answer alone is in c->got afterwards. */
static void ask_more(struct rig *r, struct peer *c, const char *request)
{
	c->got.n = 0;
	for (size_t i = 0; i < r->n_origins; i++) {
		r->origin[i].got.n = 0;
		r->origin[i].requests = 0;
	}
	peer_send(c, request);
	rig_until(r, peer_has(c, "\r\n\r\nhi"));
}

static void a_request_waits_for_a_dialer_that_is_away(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	rig_lose(&r, ROLE_DIALER);
	client_plain(&r, &c, "web.test");
	peer_send(&c, GET("web.test"));
	rig_until(&r, log_has(&r, "\"phase\":\"open\""));
	rig_replace(&r, ROLE_DIALER);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	assert_int_equal(r.dials, 1);
	peer_close(&c);
	rig_close(&r);
}

static void a_handshake_waits_for_a_broker_which_hears_the_key_first(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	rig_lose(&r, ROLE_BROKER);
	client_tls(&r, &c, "api.test");
	peer_send(&c, GET("api.test"));
	rig_until(&r, log_has(&r, "\"phase\":\"open\""));
	assert_int_equal(r.keys, 0);
	rig_replace(&r, ROLE_BROKER);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	assert_int_equal(r.keys, 1);
	assert_int_equal(r.leafs, 1);
	peer_close(&c);
	rig_close(&r);
}

static void an_idle_upstream_ends_with_its_dialer(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", GET("web.test"), "\r\n\r\nhi");
	ask_more(&r, &c, GET("web.test"));
	assert_int_equal(r.dials, 1);
	rig_lose(&r, ROLE_DIALER);
	rig_replace(&r, ROLE_DIALER);
	rig_until(&r, r.origin[0].ended);
	ask_more(&r, &c, GET("web.test"));
	assert_int_equal(r.dials, 2);
	peer_close(&c);
	rig_close(&r);
}

static void answer_half(struct peer *p)
{
	if (!p->requests++)
		buf_put_str(stream_out(p->stream), STR("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf"));
}

static void an_answer_under_way_outlives_its_dialer_and_its_connection_does_not(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.script = answer_half;
	ask_plain(&r, &c, "web.test", GET("web.test"), "half");
	rig_lose(&r, ROLE_DIALER);
	rig_lose(&r, ROLE_BROKER);
	rig_replace(&r, ROLE_DIALER);
	rig_replace(&r, ROLE_BROKER);
	peer_send(&r.origin[0], "full");
	rig_until(&r, peer_has(&c, "halffull"));
	rig_until(&r, r.origin[0].ended);
	r.script = answer_each;
	ask_more(&r, &c, GET("web.test"));
	assert_int_equal(r.dials, 2);
	assert_false(c.ended);
	peer_close(&c);
	rig_close(&r);
}

static void a_credential_for_a_void_ticket_is_asked_for_a_new_connection(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	origin_certificate(&r, "secret.test");
	r.void_tickets = 1;
	ask_tls(&r, &c, "secret.test", GET("secret.test"), "\r\n\r\nhi");
	assert_int_equal(r.dials, 2);
	assert_int_equal(r.grants, 2);
	assert_true(peer_has(&r.origin[1], SECRET));
	assert_false(peer_has(&r.origin[0], SECRET));
	peer_close(&c);
	rig_close(&r);
}

static void a_broker_that_knows_no_ticket_at_all_is_not_asked_for_ever(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	origin_certificate(&r, "secret.test");
	r.void_tickets = 99;
	ask_tls(&r, &c, "secret.test", GET("secret.test"), "HTTP/1.1 502");
	assert_int_equal(r.grants, 2);
	peer_close(&c);
	rig_close(&r);
}

static void a_grant_that_a_broker_died_over_is_asked_of_the_next(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	origin_certificate(&r, "secret.test");
	ask_tls(&r, &c, "secret.test", GET("secret.test"), "\r\n\r\nhi");
	rig_lose(&r, ROLE_BROKER);
	r.origin[0].got.n = c.got.n = 0;
	r.origin[0].requests = 0;
	peer_send(&c, GET("secret.test"));
	for (int i = 0; i < 20; i++)
		event_base_loop(r.base, EVLOOP_NONBLOCK);
	assert_int_equal(r.grants, 1);
	rig_replace(&r, ROLE_BROKER);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	assert_int_equal(r.grants, 2);
	assert_true(peer_has(&r.origin[0], SECRET));
	peer_close(&c);
	rig_close(&r);
}

static void a_successor_may_come_before_its_predecessors_end_is_seen(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", GET("web.test"), "\r\n\r\nhi");
	rig_replace(&r, ROLE_DIALER);
	rig_replace(&r, ROLE_BROKER);
	assert_int_equal(r.w.dialers, 1);
	ask_more(&r, &c, GET("web.test"));
	assert_int_equal(r.dials, 2);
	peer_close(&c);
	rig_close(&r);
}

static void a_peer_that_breaks_the_rules_ends_the_loop(void **state)
{
	static const enum role roles[] = { ROLE_DIALER, ROLE_BROKER };
	struct msg_leaf_is leaf = { .id = 12345 };
	struct msg_resolved resolved = { .id = 12345 };
	struct rig r;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		rig_open(&r);
		if (roles[i] == ROLE_DIALER)
			assert_int_equal(channel_send(r.dialer, MSG_RESOLVED, &resolved, NULL, 0), OK);
		else
			assert_int_equal(channel_send(r.broker, MSG_LEAF_IS, &leaf, NULL, 0), OK);
		/* Once for it to go out, once for it to be read. */
		for (int turn = 0; turn < 2 && !event_base_got_break(r.base); turn++)
			assert_int_equal(event_base_loop(r.base, EVLOOP_ONCE), 0);
		assert_true(event_base_got_break(r.base));
		rig_close(&r);
	}
}

static void a_mere_end_does_not_end_the_loop(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r);
	rig_lose(&r, ROLE_DIALER);
	rig_lose(&r, ROLE_BROKER);
	assert_false(event_base_got_break(r.base));
	rig_close(&r);
}

static void nobody_elses_channel_is_taken(void **state)
{
	const struct msg_peer m = { .role = ROLE_RECORDER };
	struct rig r;
	struct channel *dialer, *broker;
	int fds[2];

	(void)state;
	rig_open(&r);
	dialer = r.w.dialer;
	broker = r.w.broker;
	assert_int_equal(channel_pair(fds), OK);
	peers_replace(&r.w, &m, fds[0]);
	assert_int_equal(fcntl(fds[0], F_GETFD), -1);
	assert_ptr_equal(r.w.dialer, dialer);
	assert_ptr_equal(r.w.broker, broker);
	close(fds[1]);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_waits_for_a_dialer_that_is_away),
		cmocka_unit_test(a_handshake_waits_for_a_broker_which_hears_the_key_first),
		cmocka_unit_test(an_idle_upstream_ends_with_its_dialer),
		cmocka_unit_test(an_answer_under_way_outlives_its_dialer_and_its_connection_does_not),
		cmocka_unit_test(a_credential_for_a_void_ticket_is_asked_for_a_new_connection),
		cmocka_unit_test(a_broker_that_knows_no_ticket_at_all_is_not_asked_for_ever),
		cmocka_unit_test(a_grant_that_a_broker_died_over_is_asked_of_the_next),
		cmocka_unit_test(a_successor_may_come_before_its_predecessors_end_is_seen),
		cmocka_unit_test(a_peer_that_breaks_the_rules_ends_the_loop),
		cmocka_unit_test(a_mere_end_does_not_end_the_loop),
		cmocka_unit_test(nobody_elses_channel_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
