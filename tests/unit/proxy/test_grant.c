#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "proxy/grant.h"
#include "tests/unit/proxy/made_policy.h"

static struct policy *policy;
static struct tickets *tickets;
static struct secret_table *secrets;

static void add_secret(struct str name, struct str text, struct str hosts)
{
	struct msg_secret m = { .name = name, .source = SECRET_FROM_ENV, .hosts = hosts };
	const char *why;
	int fd = made_source(text);

	assert_int_equal(secret_table_read(secrets, &m, fd, &why), text.n ? OK : ERR_SYNTAX);
	close(fd);
}

static void add_ticket(uint64_t number, const char *name, uint16_t port)
{
	struct addr a = { .family = 4, .b = { 203, 0, 113, 7 } };
	char packed[ADDR_PACKED];
	struct msg_ticket m = { .ticket = number, .name = str_of(name), .port = port,
				.addr = made_packed(&a, packed) };

	m.literal = strcmp(name, "203.0.113.7") == 0;
	assert_int_equal(tickets_add(tickets, &m), OK);
}

static const struct { const char *name; uint16_t port; } connections[] = {
	{ "api.test", 443 }, { "mine.test", 443 }, { "plain.test", 80 }, { "clear.test", 80 },
	{ "basic.test", 443 }, { "a.wide.test", 443 }, { "a.b.wide.test", 443 }, { "elsewhere.test", 443 },
	{ "empty.test", 443 }, { "undeclared.test", 443 }, { "203.0.113.7", 443 }, { "refused.test", 443 },
	{ "api.test", 8443 }, { "header.test", 443 },
};

static int set_up(void **state)
{
	int fd = made_policy(false);

	(void)state;
	assert_int_equal(policy_map(&fd, 1, &policy), OK);
	close(fd);
	tickets = tickets_new();
	secrets = secret_table_new();
	add_secret(STR("pat"), STR(MADE_SECRET), STR(MADE_HOSTS));
	add_secret(STR("empty"), STR(""), STR(MADE_HOSTS));
	for (size_t i = 0; i < sizeof(connections) / sizeof(connections[0]); i++)
		add_ticket(i + 1, connections[i].name, connections[i].port);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	policy_free(policy);
	tickets_free(tickets);
	secret_table_free(secrets);
	return 0;
}

static uint64_t ticket_to(const char *name)
{
	for (size_t i = 0; i < sizeof(connections) / sizeof(connections[0]); i++)
		if (strcmp(connections[i].name, name) == 0)
			return i + 1;
	return 0;
}

static struct grant decide(uint64_t ticket, enum proto proto, const char *method, const char *path)
{
	const struct grant_ground ground = { policy, tickets, secrets };
	struct msg_grant m = { .ticket = ticket, .proto = (uint8_t)proto, .method = str_of(method),
			       .path = str_of(path) };
	struct grant g;

	grant_decide(&ground, &m, &g);
	assert_int_equal(g.value != NULL, g.status == GRANT_OK);
	assert_int_equal(g.why == NULL, g.status == GRANT_OK || g.status == GRANT_NONE);
	return g;
}

static void assert_status(const char *host, enum grant_status want)
{
	assert_int_equal(decide(ticket_to(host), PROTO_HTTPS, "GET", "/v1/x").status, want);
}

static void an_allowed_request_gets_its_rules_credential(void **state)
{
	struct grant g = decide(ticket_to("api.test"), PROTO_HTTPS, "GET", "/v1/user");

	(void)state;
	assert_int_equal(g.status, GRANT_OK);
	assert_true(str_eq(g.credential.name, STR("api")));
	assert_true(str_eq(g.rule.id, STR("api-read")));
	assert_true(str_eq(secret_value(g.value), STR(MADE_SECRET)));
}

static void a_rule_without_a_credential_gives_none(void **state)
{
	(void)state;
	assert_status("mine.test", GRANT_NONE);
}

static void a_grant_lasts_where_neither_method_nor_path_can_change_it(void **state)
{
	(void)state;
	assert_true(decide(ticket_to("basic.test"), PROTO_HTTPS, "GET", "/").lasts);
	assert_false(decide(ticket_to("api.test"), PROTO_HTTPS, "GET", "/v1/user").lasts);
	assert_false(decide(ticket_to("mine.test"), PROTO_HTTPS, "GET", "/").lasts);
	assert_false(decide(ticket_to("empty.test"), PROTO_HTTPS, "GET", "/").lasts);
}

static void no_ticket_no_grant(void **state)
{
	struct grant g = decide(999, PROTO_HTTPS, "GET", "/v1/user");

	(void)state;
	assert_int_equal(g.status, GRANT_NO_TICKET);
	assert_null(g.ticket);
}

/* The worker may say any path it likes; where it goes is the dialer's word. */
static void a_ticket_for_another_host_gets_nothing_of_this_one(void **state)
{
	(void)state;
	assert_int_equal(decide(ticket_to("mine.test"), PROTO_HTTPS, "GET", "/v1/user").status, GRANT_NONE);
	assert_int_equal(decide(ticket_to("refused.test"), PROTO_HTTPS, "GET", "/v1/user").status, GRANT_DENIED);
	assert_int_equal(decide(13, PROTO_HTTPS, "GET", "/v1/user").status, GRANT_DENIED);
}

static void what_the_policy_does_not_allow_gets_nothing(void **state)
{
	uint64_t api = ticket_to("api.test");

	(void)state;
	assert_int_equal(decide(api, PROTO_HTTPS, "POST", "/v1/user").status, GRANT_DENIED);
	assert_int_equal(decide(api, PROTO_HTTPS, "GET", "/v2/user").status, GRANT_DENIED);
	assert_int_equal(decide(api, PROTO_HTTP, "GET", "/v1/user").status, GRANT_DENIED);
}

static void a_deny_wins_here_too(void **state)
{
	struct grant g = decide(ticket_to("api.test"), PROTO_HTTPS, "GET", "/v1/gists/1");

	(void)state;
	assert_int_equal(g.status, GRANT_DENIED);
	assert_true(str_eq(g.rule.id, STR("no-gists")));
}

static void an_undecided_request_is_denied(void **state)
{
	uint64_t api = ticket_to("api.test");

	(void)state;
	assert_int_equal(decide(api, PROTO_HTTPS, "", "/v1/user").status, GRANT_DENIED);
	assert_int_equal(decide(api, PROTO_HTTPS, "GET", "").status, GRANT_DENIED);
	assert_int_equal(decide(api, PROTO_UNKNOWN, "GET", "/v1/user").status, GRANT_DENIED);
	assert_int_equal(decide(api, PROTO_TCP, "GET", "/v1/user").status, GRANT_DENIED);
	assert_int_equal(decide(api, 3, "GET", "/v1/user").status, GRANT_DENIED);
	assert_int_equal(decide(api, 255, "GET", "/v1/user").status, GRANT_DENIED);
}

static void a_path_with_two_readings_is_denied_where_paths_count(void **state)
{
	static const char *const paths[] = { "/v1/../v2/x", "/v1/%2e%2e/x", "/v1/%67ists/1", "/v1/%2fgists",
					     "/v1/./gists/1", "v1/x", "/v1/a\\b" };

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (decide(ticket_to("api.test"), PROTO_HTTPS, "GET", paths[i]).status != GRANT_DENIED)
			fail_msg("%s", paths[i]);
	assert_int_equal(decide(ticket_to("basic.test"), PROTO_HTTPS, "GET", "/a/%2fb").status, GRANT_OK);
}

static void plain_http_needs_the_rules_word(void **state)
{
	(void)state;
	assert_int_equal(decide(ticket_to("plain.test"), PROTO_HTTP, "GET", "/").status, GRANT_PLAINTEXT);
	assert_int_equal(decide(ticket_to("clear.test"), PROTO_HTTP, "GET", "/").status, GRANT_OK);
}

static void a_credential_stays_inside_its_own_hosts(void **state)
{
	(void)state;
	assert_status("a.wide.test", GRANT_OK);
	assert_status("a.b.wide.test", GRANT_DENIED);
	assert_status("203.0.113.7", GRANT_DENIED);
}

static void a_secret_stays_inside_the_settings_hosts(void **state)
{
	(void)state;
	assert_status("elsewhere.test", GRANT_DENIED);
}

static void a_secret_without_a_value_is_unavailable(void **state)
{
	struct grant g = decide(ticket_to("empty.test"), PROTO_HTTPS, "GET", "/");

	(void)state;
	assert_int_equal(g.status, GRANT_UNAVAILABLE);
	assert_true(str_eq(g.credential.name, STR("empty")));
	assert_status("undeclared.test", GRANT_UNAVAILABLE);
}

static void a_destination_is_shown_as_it_was_asked_for(void **state)
{
	char room[ADDR_TEXT_MAX];

	(void)state;
	assert_true(str_eq(ticket_destination(tickets_find(tickets, 1), room), STR("api.test")));
	assert_true(str_eq(ticket_destination(tickets_find(tickets, ticket_to("203.0.113.7")), room),
			   STR("203.0.113.7")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_allowed_request_gets_its_rules_credential),
		cmocka_unit_test(a_rule_without_a_credential_gives_none),
		cmocka_unit_test(a_grant_lasts_where_neither_method_nor_path_can_change_it),
		cmocka_unit_test(no_ticket_no_grant),
		cmocka_unit_test(a_ticket_for_another_host_gets_nothing_of_this_one),
		cmocka_unit_test(what_the_policy_does_not_allow_gets_nothing),
		cmocka_unit_test(a_deny_wins_here_too),
		cmocka_unit_test(an_undecided_request_is_denied),
		cmocka_unit_test(a_path_with_two_readings_is_denied_where_paths_count),
		cmocka_unit_test(plain_http_needs_the_rules_word),
		cmocka_unit_test(a_credential_stays_inside_its_own_hosts),
		cmocka_unit_test(a_secret_stays_inside_the_settings_hosts),
		cmocka_unit_test(a_secret_without_a_value_is_unavailable),
		cmocka_unit_test(a_destination_is_shown_as_it_was_asked_for),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
