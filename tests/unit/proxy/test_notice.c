/* The notice page: a real worker's engine, with the box on one side and stand-ins for broker and supervisor on the
 * other. */
#include "tests/unit/proxy/engine_rig.h"

#include "proxy/notice_state.h"
#include "proxy/refusal_list.h"

#define GATEWAY 0x7f500001u	/* 127.80.0.1 */
#define GET(path) "GET " path " HTTP/1.1\r\nHost: exeat.internal\r\n\r\n"

static struct rig r;
static struct channel *supervisor;
static struct msg_access_taken taken;
static char asked[4096];
static unsigned asks;
static bool silent;

static void on_supervisor(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_access *m = msg;

	(void)arg;
	(void)fds;
	(void)n_fds;
	assert_int_equal(type, MSG_ACCESS);
	asks++;
	snprintf(asked, sizeof(asked), "%.*s|%.*s|%.*s", STR_ARG(m->method), STR_ARG(m->url), STR_ARG(m->reason));
	taken.id = m->id;
	if (!silent)
		assert_int_equal(channel_send(supervisor, MSG_ACCESS_TAKEN, &taken, NULL, 0), OK);
}

static void on_answer(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	assert_true(asks_answer(&r.w, type, msg, fds, n_fds));
}

static void open_supervisor(void)
{
	struct channel_peer mine = { .self = ROLE_WORKER, .other = ROLE_SUPERVISOR, .table = exeat_messages,
				     .on_message = on_answer };
	struct channel_peer theirs = { .self = ROLE_SUPERVISOR, .other = ROLE_WORKER, .table = exeat_messages,
				       .on_message = on_supervisor };
	int fds[2];

	assert_int_equal(channel_pair(fds), OK);
	r.w.supervisor = channel_new(r.base, fds[0], &mine);
	supervisor = channel_new(r.base, fds[1], &theirs);
	assert_true(r.w.supervisor && supervisor);
	channel_set_phase(r.w.supervisor, PHASE_RUN);
	channel_set_phase(supervisor, PHASE_RUN);
}

static int setup(void **state)
{
	(void)state;
	rig_open(&r);
	r.w.gateway = GATEWAY;
	open_supervisor();
	r.w.refusals = refusal_list_new();
	r.w.notice = notice_new(&r.w, STR("Ask in #sandboxes."));
	assert_non_null(r.w.notice);
	taken = (struct msg_access_taken){ .number = 5 };
	asks = 0;
	silent = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	notice_free(r.w.notice);
	r.w.notice = NULL;
	rig_close(&r);
	channel_free(r.w.supervisor);
	channel_free(supervisor);
	refusal_list_free(r.w.refusals);
	return 0;
}

static void come(struct peer *c)
{
	peer_open(c, &r, connect_to(&r, GATEWAY), NULL, NULL, false);
}

/* One request on a connection of its own, until the answer has @until in it. */
static void ask(struct peer *c, const char *request, const char *until)
{
	come(c);
	peer_send(c, request);
	rig_until(&r, peer_has(c, until));
}

static void ask_once(const char *request, const char *status, const char *until)
{
	struct peer c;

	ask(&c, request, until);
	if (!peer_has(&c, status))
		fail_msg("no %s in %.*s", status, STR_ARG(buf_str(&c.got)));
	peer_close(&c);
}

static void the_first_page_is_text_and_says_whom_to_ask(void **state)
{
	struct peer c;

	(void)state;
	ask(&c, GET("/"), "Ask in #sandboxes.\n");
	assert_true(peer_has(&c, "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n"));
	assert_true(peer_has(&c, "cache-control: no-store\r\nx-content-type-options: nosniff\r\n"));
	assert_false(peer_has(&c, "access-control"));
	assert_true(log_has(&r, "\"verdict\":\"allow\",\"method\":\"GET\",\"scheme\":\"http\",\"host\":\"exeat.internal\","
				"\"path\":\"/\",\"port\":80,\"status\":200"));
	assert_int_equal(r.dials, 0);
	peer_close(&c);
}

static void requests_of_one_connection_are_answered_in_turn(void **state)
{
	struct peer c;

	(void)state;
	ask(&c, GET("/refusals") GET("/nothing") "HEAD /policy HTTP/1.1\r\nHost: exeat.internal\r\n\r\n"
	    "GET /refusals?format=text HTTP/1.1\r\nHost: exeat.internal\r\nConnection: close\r\n\r\n", "so far.\n");
	rig_until(&r, c.ended);
	assert_true(c.clean);
	assert_true(peer_has(&c, "{\"refusals\":[]}\nHTTP/1.1 404 Not Found\r\n"));
	assert_true(peer_has(&c, "/ca.pem\"}\nHTTP/1.1 200 OK\r\n"));
	assert_true(peer_has(&c, "nosniff\r\n\r\nHTTP/1.1 200 OK\r\n"));
	assert_true(peer_has(&c, "connection: close\r\n\r\nNothing was refused so far.\n"));
	peer_close(&c);
}

static void http_1_0_is_served_without_host_and_closed(void **state)
{
	struct peer c;

	(void)state;
	ask(&c, "GET /refusals HTTP/1.0\r\n\r\n", "[]}\n");
	rig_until(&r, c.ended && c.clean);
	peer_close(&c);
	ask_once("GET /refusals HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "connection: keep-alive\r\n", "[]}\n");
}

static void only_who_means_this_host_is_served(void **state)
{
	static const char *const here[] = { "exeat.internal", "EXEAT.internal.", "exeat.internal:80", "127.80.0.1",
					    "127.80.0.1:80" };
	static const char *const elsewhere[] = { "evil.test", "exeat.internal.evil.test", "127.80.0.2", "127.0.0.1",
						 "exeat.internal:8080", "localhost", "", "2130706433", "[::1]" };
	char request[256];

	(void)state;
	for (size_t i = 0; i < sizeof(here) / sizeof(*here); i++) {
		snprintf(request, sizeof(request), "GET /refusals HTTP/1.1\r\nHost: %s\r\n\r\n", here[i]);
		ask_once(request, "HTTP/1.1 200 OK\r\n", "[]}\n");
	}
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(*elsewhere); i++) {
		snprintf(request, sizeof(request), "GET /refusals HTTP/1.1\r\nHost: %s\r\n\r\n", elsewhere[i]);
		ask_once(request, "HTTP/1.1 421 Misdirected Request\r\n", "}\n");
	}
	ask_once("GET http://evil.test/refusals HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", " 421 ", "}\n");
	ask_once("GET http://exeat.internal/refusals HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", " 200 ", "[]}\n");
	ask_once("GET https://exeat.internal/ HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", " 421 ", "}\n");
	assert_true(log_has(&r, "\"verdict\":\"deny\",\"reason\":\"host-mismatch\""));
}

static void pages_of_other_origins_are_refused(void **state)
{
	(void)state;
	ask_once("POST /request HTTP/1.1\r\nHost: exeat.internal\r\nOrigin: http://evil.test\r\nContent-Length: 0\r\n\r\n",
		 " 403 ", "}\n");
	ask_once("GET /refusals HTTP/1.1\r\nHost: exeat.internal\r\nOrigin: null\r\n\r\n", " 403 ", "}\n");
	ask_once("GET /refusals HTTP/1.1\r\nHost: exeat.internal\r\nOrigin: http://exeat.internal\r\n\r\n", " 200 ", "[]}\n");
	assert_int_equal(asks, 0);
}

static void a_wrong_method_is_told_the_right_ones(void **state)
{
	(void)state;
	ask_once("POST / HTTP/1.1\r\nHost: exeat.internal\r\nContent-Length: 3\r\n\r\nabc", "allow: GET, HEAD\r\n", "}\n");
	ask_once(GET("/request"), "allow: POST\r\n", "}\n");
	ask_once("OPTIONS /policy HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", " 405 ", "}\n");
	ask_once("OPTIONS * HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", " 400 ", "}\n");
	ask_once("CONNECT exeat.internal:80 HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", " 400 ", "}\n");
}

/* ---- what cannot be read ---- */

static void what_is_no_request_ends_the_connection_with_a_problem(void **state)
{
	static const struct {
		const char *request, *status;
	} cases[] = {
		{ "\x16\x03\x01 hello\r\n\r\n", " 400 " }, { "GET / HTTP/1.1\r\n\r\n", " 400 " },
		{ "GET / HTTP/2.0\r\nHost: exeat.internal\r\n\r\n", " 505 " },
		{ "POST /request HTTP/1.1\r\nHost: exeat.internal\r\nContent-Length: 32769\r\n\r\n", " 413 " },
		{ "POST /request HTTP/1.1\r\nHost: exeat.internal\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", " 501 " },
		{ "GET / HTTP/1.1\r\nHost: exeat.internal\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", " 400 " },
	};
	struct peer c;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		ask(&c, cases[i].request, "}\n");
		if (!peer_has(&c, cases[i].status))
			fail_msg("%s: %.*s", cases[i].request, STR_ARG(buf_str(&c.got)));
		assert_true(peer_has(&c, "connection: close\r\n"));
		rig_until(&r, c.ended);
		peer_close(&c);
	}
	assert_true(log_has(&r, "\"verdict\":\"deny\",\"reason\":\"bad-request\""));
}

static void a_body_that_grows_over_the_limit_is_refused(void **state)
{
	static char request[2 * NOTICE_BODY_MAX];
	int n = snprintf(request, sizeof(request), "POST /request HTTP/1.1\r\nHost: exeat.internal\r\n"
			 "Transfer-Encoding: chunked\r\n\r\n%x\r\n", NOTICE_BODY_MAX + 1);

	(void)state;
	memset(request + n, 'a', NOTICE_BODY_MAX + 1);
	ask_once(request, " 413 ", "}\n");
	assert_int_equal(asks, 0);
}

static void a_target_over_the_limit_is_refused(void **state)
{
	static char request[40000];

	(void)state;
	snprintf(request, sizeof(request), "GET /check?url=%020000u HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", 1);
	ask_once(request, " 414 ", "}\n");
}

static void connections_over_the_limit_are_reset(void **state)
{
	struct peer c[NOTICE_CONNECTIONS_MAX + 1];
	struct peer *last = &c[NOTICE_CONNECTIONS_MAX];

	(void)state;
	for (size_t i = 0; i < NOTICE_CONNECTIONS_MAX; i++)
		ask(&c[i], GET("/refusals"), "[]}\n");
	come(last);
	rig_until(&r, last->ended);
	assert_int_equal(last->got.n, 0);
	peer_close(last);
	peer_close(&c[0]);
	rig_until(&r, r.w.notice->n == NOTICE_CONNECTIONS_MAX - 1);
	ask(&c[0], GET("/refusals"), "too-many-connections");
	for (size_t i = 0; i < NOTICE_CONNECTIONS_MAX; i++)
		peer_close(&c[i]);
}

static void past_the_rate_a_request_is_told_when_to_come_again(void **state)
{
	struct peer c;
	unsigned n = 0;

	(void)state;
	come(&c);
	while (!peer_has(&c, "HTTP/1.1 429 Too Many Requests\r\n") && n++ < 10 * NOTICE_BURST) {
		c.got.n = 0;
		peer_send(&c, GET("/refusals"));
		rig_until(&r, peer_has(&c, "}\n"));
	}
	assert_true(n >= NOTICE_BURST);
	assert_true(peer_has(&c, "retry-after: 1\r\n"));
	peer_close(&c);
}

static void a_bucket_gives_what_it_holds_and_says_when_there_is_more(void **state)
{
	struct notice_bucket b = { 0 };
	unsigned wait_s;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_true(notice_allowed(&b, 6, 3, &wait_s));
	assert_false(notice_allowed(&b, 6, 3, &wait_s));
	assert_in_range(wait_s, 9, 11);
	b.since -= 10000;
	assert_true(notice_allowed(&b, 6, 3, &wait_s));
	assert_false(notice_allowed(&b, 6, 3, &wait_s));
	b.since -= 3600000;
	for (unsigned i = 0; i < 3; i++)
		assert_true(notice_allowed(&b, 6, 3, &wait_s));
	assert_false(notice_allowed(&b, 6, 3, &wait_s));
}

static size_t lines(const char *part)
{
	size_t n = 0;

	read_log(&r);
	for (const char *at = r.log.p; at && (at = memmem(at, r.log.n - (size_t)(at - r.log.p), part, strlen(part))); at++)
		n++;
	return n;
}

static void what_repeats_is_one_line_and_a_count(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		ask_once(GET("/refusals"), " 200 ", "[]}\n");
	assert_true(lines("\"path\":\"/refusals\"") <= 3);
	notice_free(r.w.notice);
	r.w.notice = notice_new(&r.w, STR_NONE);
	assert_true(lines("\"path\":\"/refusals\"") >= 2);
	assert_true(log_has(&r, "\"count\":"));
}

/* ---- the pages ---- */

static void a_refused_request_is_on_the_list_with_its_id(void **state)
{
	struct peer c;
	char id[32];
	const char *at;

	(void)state;
	ask_plain(&r, &c, "web.test", "GET /gists/1?secret=x HTTP/1.1\r\nHost: web.test\r\n\r\n", "}\n");
	assert_true(peer_has(&c, "\"help\":\"http://exeat.internal/refusals\""));
	at = memmem(c.got.p, c.got.n, "\"refusal\":\"", 11);
	assert_non_null(at);
	snprintf(id, sizeof(id), "\"id\":\"%.16s\"", at + 11);
	peer_close(&c);
	ask(&c, GET("/refusals"), "]}\n");
	assert_true(peer_has(&c, id));
	assert_true(peer_has(&c, "\"step\":\"http\",\"host\":\"web.test\""));
	assert_true(peer_has(&c, "\"path\":\"/gists/1\",\"rule\":\"no-gists\",\"reason\":\"because\",\"retry\":\"ask\""));
	assert_false(peer_has(&c, "secret=x"));
	peer_close(&c);
}

static void the_policy_is_told_in_both_forms_and_without_its_secrets(void **state)
{
	struct peer c;

	(void)state;
	ask(&c, GET("/policy"), "\"complete\":true}\n");
	assert_true(peer_has(&c, "{\"id\":\"read\",\"hosts\":[\"paths.test\"]"));
	assert_true(peer_has(&c, "\"protocols\":[\"http\"],\"methods\":[\"GET\"],\"paths\":[\"/pub/**\"]}"));
	assert_true(peer_has(&c, "\"deny\":[{\"id\":\"no-gists\",\"reason\":\"because\",\"hosts\":[\"web.test\"]"));
	assert_true(peer_has(&c, "{\"id\":\"secret\",\"hosts\":[\"secret.test\"]"));
	assert_true(peer_has(&c, "\"credential\":true}"));
	assert_true(peer_has(&c, "{\"id\":\"literal\",\"addresses\":[\"127.0.0.9\"]"));
	assert_false(peer_has(&c, "token"));
	assert_false(peer_has(&c, "test.yaml"));
	peer_close(&c);
	ask(&c, "GET /policy HTTP/1.1\r\nHost: exeat.internal\r\nAccept: text/html, text/plain;q=0.5\r\n\r\n", "named in them.\n");
	assert_true(peer_has(&c, "  no-gists: because\n    hosts: web.test\n"));
	assert_true(peer_has(&c, "content-type: text/plain"));
	peer_close(&c);
}

static void a_new_policy_is_told_from_then_on(void **state)
{
	const struct rig_rule other[] = { { .id = "other", .host = "other.test", .protos = PROTO_HTTPS, .foreign = -1 } };

	(void)state;
	ask_once(GET("/policy"), "\"id\":\"api\"", "}\n");
	policy_free(r.w.policy);
	r.w.policy = make_policy(other, 1, r.port, false);
	ask_once(GET("/policy"), "\"allow\":[{\"id\":\"other\",", "}\n");
}

static void a_large_policy_is_cut_with_a_note_and_totals(void **state)
{
	static struct rig_rule rules[9000];
	static char ids[9000][64], hosts[9000][128];

	(void)state;
	for (unsigned i = 0; i < 9000; i++) {
		snprintf(ids[i], sizeof(ids[i]), "rule-%u-with-a-name-that-is-rather-long", i);
		snprintf(hosts[i], sizeof(hosts[i]), "host-%u.with.a.name.that.is.rather.long.example.test", i);
		rules[i] = (struct rig_rule){ .id = ids[i], .host = hosts[i], .protos = PROTO_HTTPS, .foreign = -1 };
	}
	policy_free(r.w.policy);
	r.w.policy = make_policy(rules, 9000, r.port, false);
	ask_once(GET("/policy"), "\"total\":{\"allow\":9000,\"deny\":0,\"hosts\":9000},\"complete\":false,\"note\":\"Not all", "}\n");
	ask_once(GET("/policy?format=text"), "9000 allow rules, 0 deny rules, 9000 hosts", "any one request.\n");
}

static void a_check_is_explained_for_the_box(void **state)
{
	char request[256];
	struct peer c;

	(void)state;
	snprintf(request, sizeof(request), "GET /check?method=GET&url=http%%3a%%2f%%2fweb.test:%u%%2Fgists%%2F1 HTTP/1.1\r\n"
		 "Host: exeat.internal\r\n\r\n", r.port);
	ask(&c, request, "}\n");
	assert_true(peer_has(&c, "{\"verdict\":\"deny\",\"rule\":\"no-gists\",\"reason\":\"because\",\"retry\":\"ask\",\"explanation\":["));
	assert_true(peer_has(&c, "\"verdict        deny\"]}"));
	assert_false(peer_has(&c, "test.yaml"));
	peer_close(&c);
	ask_once(GET("/check?url=https://evil.test/&format=text"), "    default: no allow rule matches\n", "verdict        deny\n");
	ask_once(GET("/check"), "url: is missing", "}\n");
	ask_once(GET("/check?url=https://x.test/%zz"), "url has a % that no two hex digits follow", "}\n");
	ask_once(GET("/check?url=https://x.test/%20a"), "url: holds what a URL does not", "}\n");
	ask_once(GET("/check?url=x&format=yaml"), "format is text or json", "}\n");
	ask_once(GET("/check?method=a%20b&url=https://x.test/"), " 400 ", "}\n");
}

/* ---- asking ---- */

/* One request at a time. */
static const char *post(const char *type, const char *body)
{
	static char request[1024];

	snprintf(request, sizeof(request), "POST /request HTTP/1.1\r\nHost: exeat.internal\r\nContent-Type: %s\r\n"
		 "Content-Length: %zu\r\n\r\n%s", type, strlen(body), body);
	return request;
}

static void a_request_for_access_gets_its_number(void **state)
{
	(void)state;
	ask_once(post("application/json", "{\"url\":\"https://new.test/x\",\"reason\":\"because \\u20ac\"}"),
		 "HTTP/1.1 202 Accepted\r\n", "{\"number\":5,\"state\":\"open\"");
	assert_string_equal(asked, "GET|https://new.test/x|because \xe2\x82\xac");
	ask_once(post("application/x-www-form-urlencoded; charset=utf-8", "method=PUT&url=https%3A%2F%2Fnew.test%2Fx"),
		 " 202 ", "\"number\":5");
	assert_string_equal(asked, "PUT|https://new.test/x|");
	assert_int_equal(asks, 2);
}

static void expecting_to_go_on_is_answered(void **state)
{
	struct peer c;

	(void)state;
	ask(&c, "POST /request HTTP/1.1\r\nHost: exeat.internal\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n");
	peer_send(&c, "1c\r\n{\"url\":\"https://new.test/x\"}\r\n0\r\n\r\n");
	rig_until(&r, peer_has(&c, "\"number\":5"));
	peer_close(&c);
}

static void what_is_no_request_for_access_is_not_passed_on(void **state)
{
	(void)state;
	ask_once(post("text/plain", "url=https://new.test/"), " 415 ", "}\n");
	ask_once(post("application/json", "[]"), " 400 ", "}\n");
	ask_once(post("application/json", "{\"url\":\"x\"}"), " 400 ", "}\n");
	ask_once(post("application/x-www-form-urlencoded", "reason=x"), "url: is missing", "}\n");
	assert_int_equal(asks, 0);
}

static void what_is_not_taken_is_told_in_the_supervisors_words(void **state)
{
	(void)state;
	taken = (struct msg_access_taken){ .why = STR("too many requests wait for an answer") };
	ask_once(post("application/json", "{\"url\":\"https://new.test/x\"}"), "retry-after: 60\r\n",
		 "too many requests wait for an answer");
}

static void who_asks_too_often_is_told_when_to_come_again(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		ask_once(post("application/json", "{\"url\":\"https://new.test/x\"}"), " 202 ", "\"number\":5");
	ask_once(post("application/json", "{\"url\":\"https://new.test/x\"}"), "HTTP/1.1 429 Too Many Requests\r\n", "retry-after: ");
	assert_int_equal(asks, 10);
}

static void who_leaves_while_it_is_asked_harms_nobody(void **state)
{
	struct peer c;

	(void)state;
	silent = true;
	come(&c);
	peer_send(&c, post("application/json", "{\"url\":\"https://new.test/x\"}"));
	rig_until(&r, asks == 1);
	notice_free(r.w.notice);
	r.w.notice = notice_new(&r.w, STR_NONE);
	assert_int_equal(channel_send(supervisor, MSG_ACCESS_TAKEN, &taken, NULL, 0), OK);
	rig_until(&r, c.ended);
	ask_once(GET("/refusals"), " 200 ", "[]}\n");
	peer_close(&c);
}

static void the_certificate_is_asked_for_once(void **state)
{
	(void)state;
	ask_once(GET("/ca.pem"), "content-type: application/x-pem-file\r\n", "-----END CERTIFICATE-----\n");
	ask_once(GET("/ca.pem"), "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n");
	assert_int_equal(r.leafs, 1);
}

static void without_a_certificate_it_is_said_to_come_later(void **state)
{
	(void)state;
	r.no_leaf = true;
	ask_once(GET("/ca.pem"), "HTTP/1.1 503 Service Unavailable\r\n", "retry-after: 5\r\n");
	r.no_leaf = false;
	ask_once(GET("/ca.pem"), " 200 ", "-----END CERTIFICATE-----\n");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(the_first_page_is_text_and_says_whom_to_ask),
		CASE(requests_of_one_connection_are_answered_in_turn),
		CASE(http_1_0_is_served_without_host_and_closed),
		CASE(only_who_means_this_host_is_served),
		CASE(pages_of_other_origins_are_refused),
		CASE(a_wrong_method_is_told_the_right_ones),
		CASE(what_is_no_request_ends_the_connection_with_a_problem),
		CASE(a_body_that_grows_over_the_limit_is_refused),
		CASE(a_target_over_the_limit_is_refused),
		CASE(connections_over_the_limit_are_reset),
		CASE(past_the_rate_a_request_is_told_when_to_come_again),
		CASE(a_bucket_gives_what_it_holds_and_says_when_there_is_more),
		CASE(what_repeats_is_one_line_and_a_count),
		CASE(a_refused_request_is_on_the_list_with_its_id),
		CASE(the_policy_is_told_in_both_forms_and_without_its_secrets),
		CASE(a_new_policy_is_told_from_then_on),
		CASE(a_large_policy_is_cut_with_a_note_and_totals),
		CASE(a_check_is_explained_for_the_box),
		CASE(a_request_for_access_gets_its_number),
		CASE(expecting_to_go_on_is_answered),
		CASE(what_is_no_request_for_access_is_not_passed_on),
		CASE(what_is_not_taken_is_told_in_the_supervisors_words),
		CASE(who_asks_too_often_is_told_when_to_come_again),
		CASE(who_leaves_while_it_is_asked_harms_nobody),
		CASE(the_certificate_is_asked_for_once),
		CASE(without_a_certificate_it_is_said_to_come_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
