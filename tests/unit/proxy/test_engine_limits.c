/* What rules leave to requests, where the engine has to know what counts. */
#include "tests/unit/proxy/engine_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"
#define RULE(...)                                                                                 \
	{ .id = "web", .host = "web.test", .protos = PROTO_HTTP, .foreign = -1, .limits = { __VA_ARGS__ } }

static void turns(struct rig *r)
{
	for (int i = 0; i < 20; i++)
		event_base_loop(r->base, EVLOOP_NONBLOCK);
}

/* A length is no content (RFC 9110 8.6): what has none is not too long. */
static void what_has_no_content_is_not_too_long(void **state)
{
	static const struct {
		const char *method, *reply, *until;
	} cases[] = {
		{ "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "HTTP/1.1 200 " },
		{ "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000000\r\n\r\n", "HTTP/1.1 304 " },
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", "0123456789" },
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a",
		  "urn:exeat:refusal:download-too-large" },
	};
	const struct rig_rule small = RULE(.download = 10);
	char request[128];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig r;
		struct peer c;

		rig_open_with(&r, &small, 1, false);
		r.reply = cases[i].reply;
		snprintf(request, sizeof(request), "%s / HTTP/1.1\r\nHost: web.test\r\n\r\n", cases[i].method);
		ask_plain(&r, &c, "web.test", request, cases[i].until);
		peer_close(&c);
		rig_close(&r);
	}
}

/* It has not gone out yet, and is judged anew, as often as policies come: it is one request. */
static void a_request_that_meets_new_policies_is_counted_once(void **state)
{
	const struct rig_rule once = RULE(.requests = 1, .per_s = 3600, .concurrent = 1);
	struct rig r;
	struct peer c, d;

	(void)state;
	rig_open_with(&r, &once, 1, false);
	rig_lose(&r, ROLE_DIALER);
	client_plain(&r, &c, "web.test");
	peer_send(&c, GET);
	rig_until(&r, log_has(&r, "\"phase\":\"open\""));
	turns(&r);
	for (int i = 0; i < 3; i++)
		rig_new_policy(&r, &once, 1);
	rig_replace(&r, ROLE_DIALER);
	rig_until(&r, peer_has(&c, "HTTP/1.1 200 "));
	ask_plain(&r, &d, "web.test", GET, "HTTP/1.1 429 ");
	assert_true(peer_has(&d, "Retry-After: 3") || peer_has(&d, "retry-after: 3"));
	peer_close(&c);
	peer_close(&d);
	rig_close(&r);
}

static void more_limits_than_can_be_held_to_let_nothing_out(void **state)
{
	struct rig_rule rules[POLICY_LIMITS_MAX + 1];
	struct rig r;
	struct peer c;

	(void)state;
	for (size_t i = 0; i <= POLICY_LIMITS_MAX; i++)
		rules[i] = (struct rig_rule)RULE(.concurrent = 8);
	rig_open_with(&r, rules, POLICY_LIMITS_MAX + 1, false);
	ask_plain(&r, &c, "web.test", GET, "HTTP/1.1 429 ");
	rig_until(&r, log_has(&r, "more limits than can be held to"));
	assert_int_equal(r.dials, 0);
	peer_close(&c);
	rig_new_policy(&r, rules, POLICY_LIMITS_MAX);
	ask_plain(&r, &c, "web.test", GET, "HTTP/1.1 200 ");
	peer_close(&c);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_no_content_is_not_too_long),
		cmocka_unit_test(a_request_that_meets_new_policies_is_counted_once),
		cmocka_unit_test(more_limits_than_can_be_held_to_let_nothing_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
