/* tests/unit/proxy/made_policy.h - one policy for the tests of grants and of the broker */
#ifndef MADE_POLICY_H
#define MADE_POLICY_H

#include <sys/mman.h>
#include <unistd.h>

#include "policy/build.h"

#define LIST(...) .hosts = (const struct str[]){ __VA_ARGS__ }, \
		  .n_hosts = sizeof((const struct str[]){ __VA_ARGS__ }) / sizeof(struct str)

enum { MADE_API, MADE_BASIC, MADE_WIDE, MADE_ELSEWHERE, MADE_EMPTY, MADE_UNDECLARED, MADE_ADDRESS,
       MADE_HEADER, MADE_CREDENTIALS };

#define MADE_HOSTS "api.test plain.test clear.test basic.test **.wide.test empty.test header.test 203.0.113.7"
#define MADE_SECRET "s3cret-token-value"

static const struct port_range made_443 = { 443, 443 }, made_80 = { 80, 80 };
static const struct str made_get = { "GET", 3 }, made_v1 = { "/v1/**", 6 }, made_gists = { "/v1/gists/**", 12 };

#define HTTPS_RULE(id_, credential_, ...) { .id = STR(id_), .line = 7, .ports = &made_443, .n_ports = 1, \
	.protos = PROTO_HTTPS, .credential = (credential_), __VA_ARGS__ }
#define HTTP_RULE(id_, credential_, ...) { .id = STR(id_), .line = 8, .ports = &made_80, .n_ports = 1, \
	.protos = PROTO_HTTP, .credential = (credential_), __VA_ARGS__ }

static const struct addr_range made_net = { .net = { .family = 4, .b = { 203, 0, 113, 0 } }, .bits = 24 };

static void made_add_credentials(struct policy_build *b)
{
	const struct build_credential credentials[] = {
		[MADE_API] = { .name = STR("api"), .secret = STR("pat"), .kind = CREDENTIAL_BEARER,
			       .header = STR("authorization"), LIST(STR("api.test"), STR("plain.test"), STR("clear.test")) },
		[MADE_BASIC] = { .name = STR("basic"), .secret = STR("pat"), .kind = CREDENTIAL_BASIC,
				 .header = STR("authorization"), .user = STR("u"), LIST(STR("basic.test")) },
		[MADE_WIDE] = { .name = STR("wide"), .secret = STR("pat"), .kind = CREDENTIAL_BEARER,
				.header = STR("authorization"), LIST(STR("*.wide.test")) },
		[MADE_ELSEWHERE] = { .name = STR("elsewhere"), .secret = STR("pat"), .kind = CREDENTIAL_BEARER,
				     .header = STR("authorization"), LIST(STR("elsewhere.test")) },
		[MADE_EMPTY] = { .name = STR("empty"), .secret = STR("empty"), .kind = CREDENTIAL_BEARER,
				 .header = STR("authorization"), LIST(STR("empty.test")) },
		[MADE_UNDECLARED] = { .name = STR("undeclared"), .secret = STR("nobody"),
				      .kind = CREDENTIAL_BEARER, .header = STR("authorization"),
				      LIST(STR("undeclared.test")) },
		[MADE_ADDRESS] = { .name = STR("address"), .secret = STR("pat"), .kind = CREDENTIAL_BEARER,
				   .header = STR("authorization"), LIST(STR("nowhere.test")) },
		[MADE_HEADER] = { .name = STR("header"), .secret = STR("pat"), .kind = CREDENTIAL_HEADER,
					 .header = STR("x-key"), .format = STR("k={}"), LIST(STR("header.test")) },
	};
	uint32_t index;

	for (uint32_t i = 0; i < MADE_CREDENTIALS; i++) {
		assert_int_equal(policy_build_credential(b, &credentials[i], &index), OK);
		assert_int_equal(index, i);
	}
}

static void made_add_rules(struct policy_build *b)
{
	const struct build_rule rules[] = {
		HTTPS_RULE("api-read", MADE_API, LIST(STR("api.test")), .methods = &made_get, .n_methods = 1,
			   .paths = &made_v1, .n_paths = 1),
		HTTPS_RULE("mine", NO_CREDENTIAL, LIST(STR("mine.test"))),
		HTTP_RULE("plain", MADE_API, LIST(STR("plain.test"))),
		HTTP_RULE("clear", MADE_API, LIST(STR("clear.test")), .plaintext = true),
		HTTPS_RULE("basic", MADE_BASIC, LIST(STR("basic.test"))),
		HTTPS_RULE("wide", MADE_WIDE, LIST(STR("**.wide.test"))),
		HTTPS_RULE("elsewhere", MADE_ELSEWHERE, LIST(STR("elsewhere.test"))),
		HTTPS_RULE("empty", MADE_EMPTY, LIST(STR("empty.test"))),
		HTTPS_RULE("undeclared", MADE_UNDECLARED, LIST(STR("undeclared.test"))),
		HTTPS_RULE("header", MADE_HEADER, LIST(STR("header.test"))),
		HTTPS_RULE("address", MADE_ADDRESS, .addresses = &made_net, .n_addresses = 1),
		{ .deny = true, .id = STR("no-gists"), .reason = STR("Ask first."), .line = 9,
		  LIST(STR("api.test")), .paths = &made_gists, .n_paths = 1, .credential = NO_CREDENTIAL },
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		assert_int_equal(policy_build_rule(b, &rules[i]), OK);
}

/* A sealed memfd. */
static int made_policy(bool explain)
{
	struct policy_build *b = policy_build_new(STR("policy.yaml"), explain);
	int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_non_null(b);
	assert_true(fd >= 0);
	made_add_credentials(b);
	made_add_rules(b);
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	return fd;
}

/* A descriptor to read @text from. */
static int made_source(struct str text)
{
	int fd = memfd_create("secret", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text.p, text.n), (ssize_t)text.n);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static struct str made_packed(const struct addr *a, char out[ADDR_PACKED])
{
	out[0] = (char)a->family;
	memcpy(out + 1, a->b, 16);
	return str_n(out, ADDR_PACKED);
}

#endif
