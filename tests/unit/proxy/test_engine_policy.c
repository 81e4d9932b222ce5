/* A new policy comes while the engine is at work. */
#include "tests/unit/proxy/engine_rig.h"

#define GET(host) "GET / HTTP/1.1\r\nHost: " host "\r\n\r\n"
#define OUTLAWED "\"reason\":\"a new policy denies it"
#define NEW_POLICY(r, rules) rig_new_policy(r, rules, sizeof(rules) / sizeof((rules)[0]))

static const struct rig_rule nothing[] = {
	{ .id = "closed", .host = "*.test", .deny = true, .foreign = -1 },
};

/* Allows what the usual rules allow, by other rules. */
static const struct rig_rule other[] = {
	{ .id = "all-web", .host = "web.test", .protos = PROTO_HTTP, .foreign = -1 },
	{ .id = "all-api", .host = "api.test", .protos = PROTO_HTTPS, .foreign = -1 },
	{ .id = "open", .host = "secret.test", .protos = PROTO_HTTPS, .foreign = -1 },
};

static const struct rig_rule second[] = {
	{ .id = "second", .host = "web.test", .protos = PROTO_HTTP, .foreign = -1 },
};

static const struct rig_rule not_that_address[] = {
	{ .id = "all-web", .host = "web.test", .protos = PROTO_HTTP, .foreign = -1 },
	{ .id = "not-there", .address = "203.0.113.0/24", .deny = true, .foreign = -1 },
};

static const struct rig_rule public_only[] = {
	{ .id = "public", .host = "web.test", .protos = PROTO_HTTP, .path = "/pub/**", .foreign = -1 },
};

static void answer_half(struct peer *p)
{
	if (!p->requests++)
		buf_put_str(stream_out(p->stream), STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"));
}

static void answer_nothing(struct peer *p)
{
	(void)p;
}

static void turns(struct rig *r)
{
	for (int i = 0; i < 20; i++)
		event_base_loop(r->base, EVLOOP_NONBLOCK);
}

/* The digest of the policy in force, as records bear it. */
static const char *digest_in(const struct rig *r, char out[96])
{
	snprintf(out, 96, "\"policy\":\"%.*s\"", STR_ARG(policy_digest(r->w.policy)));
	return out;
}

static size_t count(const struct rig *r, const char *text)
{
	size_t n = 0;
	const char *at = r->log.p;

	while (at && (at = memmem(at, r->log.n - (size_t)(at - r->log.p), text, strlen(text)))) {
		at += strlen(text);
		n++;
	}
	return n;
}

/* The line of the log with the text in it. */
static struct str line_with(struct rig *r, const char *text)
{
	struct str rest = buf_str(&r->log), line = STR_NONE;

	while (rest.n) {
		line = str_cut(&rest, '\n');
		if (memmem(line.p, line.n, text, strlen(text)))
			return line;
	}
	fail_msg("no line with %s", text);
	return line;
}

static bool has(struct str line, const char *text)
{
	return memmem(line.p, line.n, text, strlen(text)) != NULL;
}

static void an_answer_under_way_that_is_denied_now_is_seen_to_break_off(void **state)
{
	struct rig r;
	struct peer c;
	char digest[96];
	struct str line;

	(void)state;
	for (int tls = 0; tls < 2; tls++) {
		rig_open(&r);
		r.script = answer_half;
		r.origin_tls = tls;
		if (tls)
			ask_tls(&r, &c, "api.test", GET("api.test"), "half");
		else
			ask_plain(&r, &c, "web.test", GET("web.test"), "half");
		NEW_POLICY(&r, nothing);
		rig_until(&r, c.ended);
		assert_false(c.clean);
		assert_false(peer_has(&c, "\r\n0\r\n"));
		rig_until(&r, r.origin[0].ended);
		rig_until(&r, log_has(&r, "\"phase\":\"close\""));
		line = line_with(&r, "\"phase\":\"end\"");
		assert_true(has(line, OUTLAWED ": because\""));
		assert_true(has(line, "\"verdict\":\"deny\",\"rule\":\"closed\""));
		assert_true(has(line, digest_in(&r, digest)));
		line = line_with(&r, "\"phase\":\"close\"");
		assert_true(has(line, OUTLAWED));
		assert_true(has(line, digest));
		peer_close(&c);
		rig_close(&r);
	}
}

static void a_request_without_answer_that_is_denied_now_is_refused_in_words(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.script = answer_nothing;
	client_plain(&r, &c, "web.test");
	peer_send(&c, GET("web.test"));
	rig_until(&r, r.n_origins && peer_has(&r.origin[0], "\r\n\r\n"));
	NEW_POLICY(&r, nothing);
	rig_until(&r, peer_has(&c, "a new policy denies it: because"));
	assert_true(peer_has(&c, "HTTP/1.1 403 "));
	assert_true(log_has(&r, OUTLAWED ": because\""));
	rig_until(&r, r.origin[0].ended);
	peer_close(&c);
	rig_close(&r);
}

static void an_answer_that_is_still_allowed_goes_on_under_its_old_policy(void **state)
{
	struct rig r;
	struct peer c;
	char before[96], after[96];

	(void)state;
	rig_open(&r);
	r.script = answer_half;
	ask_plain(&r, &c, "web.test", GET("web.test"), "half");
	digest_in(&r, before);
	NEW_POLICY(&r, other);
	digest_in(&r, after);
	assert_string_not_equal(before, after);
	peer_send(&r.origin[0], "4\r\nfull\r\n0\r\n\r\n");
	rig_until(&r, peer_has(&c, "full\r\n0\r\n\r\n"));
	assert_true(log_has(&r, "\"phase\":\"end\""));
	assert_true(has(line_with(&r, "\"phase\":\"end\""), "\"rule\":\"web\""));
	assert_true(has(line_with(&r, "\"phase\":\"end\""), before));
	r.log.n = 0;
	c.got.n = r.origin[0].got.n = 0;
	r.origin[0].requests = 0;
	peer_send(&c, GET("web.test"));
	rig_until(&r, peer_has(&c, "half"));
	assert_int_equal(r.dials, 1);
	assert_true(log_has(&r, "\"rule\":\"all-web\""));
	assert_true(has(line_with(&r, "\"phase\":\"begin\""), after));
	peer_send(&r.origin[0], "0\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n0\r\n\r\n"));
	peer_close(&c);
	rig_until(&r, log_has(&r, "\"phase\":\"close\""));
	assert_true(has(line_with(&r, "\"phase\":\"close\""), after));
	rig_close(&r);
}

static void an_answer_that_outlives_two_policies_ends_under_the_third(void **state)
{
	struct rig r;
	struct peer c;
	char last[96];

	(void)state;
	rig_open(&r);
	r.script = answer_half;
	ask_plain(&r, &c, "web.test", GET("web.test"), "half");
	NEW_POLICY(&r, second);
	NEW_POLICY(&r, other);
	digest_in(&r, last);
	peer_send(&r.origin[0], "0\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n0\r\n\r\n"));
	assert_true(log_has(&r, "\"phase\":\"end\""));
	assert_true(has(line_with(&r, "\"phase\":\"end\""), "\"verdict\":\"allow\",\"rule\":\"all-web\""));
	assert_true(has(line_with(&r, "\"phase\":\"end\""), last));
	peer_close(&c);
	rig_close(&r);
}

static void an_idle_connection_to_a_host_that_is_denied_now_ends_cleanly(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	for (int tls = 0; tls < 2; tls++) {
		rig_open(&r);
		r.origin_tls = tls;
		if (tls)
			ask_tls(&r, &c, "api.test", GET("api.test"), "\r\n\r\nhi");
		else
			ask_plain(&r, &c, "web.test", GET("web.test"), "\r\n\r\nhi");
		NEW_POLICY(&r, nothing);
		rig_until(&r, c.ended);
		assert_true(c.clean);
		rig_until(&r, r.origin[0].ended);
		peer_close(&c);
		rig_until(&r, log_has(&r, "\"phase\":\"close\""));
		assert_true(has(line_with(&r, "\"phase\":\"close\""), OUTLAWED));
		rig_close(&r);
	}
}

static void an_idle_connection_that_is_still_allowed_stays(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", GET("web.test"), "\r\n\r\nhi");
	NEW_POLICY(&r, other);
	turns(&r);
	assert_false(c.ended);
	peer_close(&c);
	rig_close(&r);
}

static void an_idle_upstream_is_closed_by_a_new_policy(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", GET("web.test"), "\r\n\r\nhi");
	NEW_POLICY(&r, not_that_address);
	rig_until(&r, r.origin[0].ended);
	turns(&r);
	assert_false(c.ended);
	peer_close(&c);
	rig_close(&r);
}

static void a_hello_that_waits_for_its_leaf_is_refused_by_an_alert(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	rig_lose(&r, ROLE_BROKER);
	client_tls(&r, &c, "api.test");
	rig_until(&r, log_has(&r, "\"phase\":\"open\""));
	NEW_POLICY(&r, nothing);
	rig_until(&r, c.ended);
	assert_int_equal(stream_trouble(c.stream), STREAM_ALERT);
	peer_close(&c);
	rig_until(&r, log_has(&r, "\"phase\":\"close\""));
	assert_true(has(line_with(&r, "\"phase\":\"close\""), OUTLAWED));
	rig_close(&r);
}

/* The pool keeps a connection that is whole: it is ended first, so that a new one is made. */
static void ask_over_a_new_upstream(struct rig *r, unsigned n, const char *until)
{
	struct peer c;

	ask_tls(r, &c, "api.test", GET("api.test"), until);
	peer_close(&c);
	rig_until(r, log_has(r, "\"phase\":\"close\"") && count(r, "\"phase\":\"close\"") == n);
	SSL_shutdown(stream_ssl(r->origin[n - 1].stream));
	turns(r);
	assert_int_equal(r->dials, n);
}

static void a_new_policy_has_the_name_proved_again_by_box_and_origin(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	ask_over_a_new_upstream(&r, 1, "\r\n\r\nhi");
	ask_over_a_new_upstream(&r, 2, "\r\n\r\nhi");
	assert_int_equal(r.leafs, 1);
	assert_false(SSL_session_reused(stream_ssl(r.origin[0].stream)));
	assert_true(SSL_session_reused(stream_ssl(r.origin[1].stream)));
	NEW_POLICY(&r, other);
	ask_over_a_new_upstream(&r, 3, "\r\n\r\nhi");
	assert_int_equal(r.leafs, 2);
	assert_false(SSL_session_reused(stream_ssl(r.origin[2].stream)));
	rig_close(&r);
}

static void a_request_of_which_nothing_went_out_is_judged_by_the_new_policy_alone(void **state)
{
	struct rig r;
	struct peer c;
	char digest[96];

	(void)state;
	rig_open(&r);
	rig_lose(&r, ROLE_DIALER);
	client_plain(&r, &c, "web.test");
	peer_send(&c, GET("web.test"));
	rig_until(&r, log_has(&r, "\"phase\":\"open\""));
	turns(&r);
	NEW_POLICY(&r, nothing);
	rig_until(&r, peer_has(&c, "HTTP/1.1 403 "));
	assert_false(peer_has(&c, "a new policy"));
	assert_true(log_has(&r, "\"rule\":\"closed\""));
	assert_true(has(line_with(&r, "\"rule\":\"closed\""), digest_in(&r, digest)));
	rig_replace(&r, ROLE_DIALER);
	turns(&r);
	assert_int_equal(r.dials, 0);
	peer_close(&c);
	rig_close(&r);
}

static void a_request_that_waits_for_its_credential_goes_without_where_the_new_policy_has_none(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	origin_certificate(&r, "secret.test");
	ask_tls(&r, &c, "secret.test", GET("secret.test"), "\r\n\r\nhi");
	assert_true(peer_has(&r.origin[0], SECRET));
	rig_lose(&r, ROLE_BROKER);
	r.origin[0].got.n = c.got.n = 0;
	r.origin[0].requests = 0;
	peer_send(&c, GET("secret.test"));
	turns(&r);
	assert_int_equal(r.origin[0].got.n, 0);
	NEW_POLICY(&r, other);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	assert_false(peer_has(&r.origin[0], SECRET));
	assert_true(log_has(&r, "\"rule\":\"open\""));
	peer_close(&c);
	rig_close(&r);
}

static void a_path_that_the_old_policy_did_not_look_at_is_read_for_the_new_one(void **state)
{
	static const struct {
		const char *path;
		bool goes_on;
	} paths[] = { { "/pub/a", true }, { "/pub/x/../a", true }, { "/pub/../a", false }, { "/%70ub/a", true },
		      { "/pub//a", false }, { "/a", false } };
	struct rig r;
	struct peer c;
	char request[128];

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		rig_open_with(&r, other, sizeof(other) / sizeof(other[0]), false);
		r.script = answer_half;
		snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: web.test\r\n\r\n", paths[i].path);
		ask_plain(&r, &c, "web.test", request, "half");
		NEW_POLICY(&r, public_only);
		turns(&r);
		if (c.ended == paths[i].goes_on)
			fail_msg("%s", paths[i].path);
		peer_close(&c);
		rig_close(&r);
	}
}

static void what_was_refused_is_allowed_by_a_policy_that_allows_it(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open_with(&r, nothing, 1, false);
	ask_plain(&r, &c, "web.test", GET("web.test"), "HTTP/1.1 403 ");
	peer_close(&c);
	NEW_POLICY(&r, other);
	ask_plain(&r, &c, "web.test", GET("web.test"), "\r\n\r\nhi");
	peer_close(&c);
	rig_close(&r);
}

static void a_request_that_is_coming_in_is_waited_for_and_refused_in_words(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	client_plain(&r, &c, "web.test");
	peer_send(&c, "GET / HTTP/1.1\r\n");
	rig_until(&r, log_has(&r, "\"phase\":\"open\""));
	turns(&r);
	NEW_POLICY(&r, nothing);
	turns(&r);
	assert_false(c.ended);
	peer_send(&c, "Host: web.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "HTTP/1.1 403 "));
	peer_close(&c);
	rig_close(&r);
}

static void repetitions_are_told_under_the_policy_that_refused_them(void **state)
{
	static const struct rig_rule also_nothing[] = {
		{ .id = "closed-too", .host = "*.test", .deny = true, .foreign = -1 },
	};
	struct rig r;
	struct peer c;
	char before[96];

	(void)state;
	rig_open_with(&r, nothing, 1, false);
	digest_in(&r, before);
	for (int i = 0; i < 3; i++) {
		ask_plain(&r, &c, "web.test", GET("web.test"), "HTTP/1.1 403 ");
		peer_close(&c);
	}
	NEW_POLICY(&r, also_nothing);
	ask_plain(&r, &c, "web.test", GET("web.test"), "HTTP/1.1 403 ");
	assert_true(peer_has(&c, "closed-too"));
	peer_close(&c);
	rig_until(&r, log_has(&r, "\"count\":2"));
	assert_true(has(line_with(&r, "\"count\":2"), "\"rule\":\"closed\""));
	assert_true(has(line_with(&r, "\"count\":2"), before));
	assert_true(count(&r, "\"rule\":\"closed-too\"") >= 1);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_under_way_that_is_denied_now_is_seen_to_break_off),
		cmocka_unit_test(a_request_without_answer_that_is_denied_now_is_refused_in_words),
		cmocka_unit_test(an_answer_that_is_still_allowed_goes_on_under_its_old_policy),
		cmocka_unit_test(an_answer_that_outlives_two_policies_ends_under_the_third),
		cmocka_unit_test(an_idle_connection_to_a_host_that_is_denied_now_ends_cleanly),
		cmocka_unit_test(an_idle_connection_that_is_still_allowed_stays),
		cmocka_unit_test(an_idle_upstream_is_closed_by_a_new_policy),
		cmocka_unit_test(a_new_policy_has_the_name_proved_again_by_box_and_origin),
		cmocka_unit_test(a_hello_that_waits_for_its_leaf_is_refused_by_an_alert),
		cmocka_unit_test(a_request_of_which_nothing_went_out_is_judged_by_the_new_policy_alone),
		cmocka_unit_test(a_request_that_waits_for_its_credential_goes_without_where_the_new_policy_has_none),
		cmocka_unit_test(a_path_that_the_old_policy_did_not_look_at_is_read_for_the_new_one),
		cmocka_unit_test(what_was_refused_is_allowed_by_a_policy_that_allows_it),
		cmocka_unit_test(a_request_that_is_coming_in_is_waited_for_and_refused_in_words),
		cmocka_unit_test(repetitions_are_told_under_the_policy_that_refused_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
