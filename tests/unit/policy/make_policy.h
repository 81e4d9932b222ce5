/* Policies for tests, made from C initialisers through the real builder and the real map. */
#ifndef TEST_MAKE_POLICY_H
#define TEST_MAKE_POLICY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/build.h"

#define LIST(...) .v = (const char *const[]){ __VA_ARGS__, NULL }

struct texts {
	const char *const *v;
};

/* Texts as a policy file has them; ports "443" or "8000-8099". */
struct test_rule {
	bool deny;
	const char *id, *reason;
	struct texts hosts, addresses, methods, paths, resolves_to, ports;
	unsigned protos;
	uint32_t credential;	/* plus one; 0: none */
	bool passthrough;
	struct rule_limits limits;
};

#define TEST_ITEMS 16

static inline size_t texts_to_strs(struct texts t, struct str *out)
{
	size_t n = 0;

	for (; t.v && t.v[n]; n++) {
		assert_true(n < TEST_ITEMS);
		out[n] = str_of(t.v[n]);
	}
	return n;
}

static inline size_t texts_to_ranges(struct texts t, struct addr_range *out)
{
	size_t n = 0;

	for (; t.v && t.v[n]; n++) {
		assert_true(n < TEST_ITEMS);
		assert_true(addr_range_parse(str_of(t.v[n]), &out[n]));
	}
	return n;
}

static inline size_t texts_to_ports(struct texts t, struct port_range *out)
{
	size_t n = 0;

	for (; t.v && t.v[n]; n++) {
		char *end;

		assert_true(n < TEST_ITEMS);
		out[n].first = out[n].last = (uint16_t)strtoul(t.v[n], &end, 10);
		if (*end == '-')
			out[n].last = (uint16_t)strtoul(end + 1, &end, 10);
		assert_int_equal(*end, '\0');
	}
	return n;
}

static inline enum err add_rule(struct policy_build *b, const struct test_rule *t, uint32_t line)
{
	struct str hosts[TEST_ITEMS], methods[TEST_ITEMS], paths[TEST_ITEMS];
	struct addr_range addresses[TEST_ITEMS], resolves_to[TEST_ITEMS];
	struct port_range ports[TEST_ITEMS];
	struct build_rule r = { .deny = t->deny, .line = line, .protos = t->protos,
				.id = str_of(t->id), .reason = str_of(t->reason),
				.hosts = hosts, .addresses = addresses, .ports = ports,
				.methods = methods, .paths = paths, .resolves_to = resolves_to,
				.passthrough = t->passthrough, .limits = t->limits,
				.credential = t->credential ? t->credential - 1 : NO_CREDENTIAL };

	r.n_hosts = texts_to_strs(t->hosts, hosts);
	r.n_methods = texts_to_strs(t->methods, methods);
	r.n_paths = texts_to_strs(t->paths, paths);
	r.n_addresses = texts_to_ranges(t->addresses, addresses);
	r.n_resolves_to = texts_to_ranges(t->resolves_to, resolves_to);
	r.n_ports = texts_to_ports(t->ports, ports);
	return policy_build_rule(b, &r);
}

static inline int new_memfd(void)
{
	int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	return fd;
}

/* Rule i is in line 10 * (i + 1). */
static inline int make_image(const struct test_rule *rules, size_t n)
{
	struct policy_build *b = policy_build_new(STR("test.yaml"), false);
	int fd = new_memfd();

	assert_non_null(b);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(add_rule(b, &rules[i], (uint32_t)(10 * (i + 1))), OK);
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	return fd;
}

static inline struct policy *map_images(const int *fds, size_t n)
{
	struct policy *p = NULL;

	assert_int_equal(policy_map(fds, n, &p), OK);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	return p;
}

static inline struct policy *make_policy(const struct test_rule *rules, size_t n)
{
	int fd = make_image(rules, n);

	return map_images(&fd, 1);
}

#define MAKE_POLICY(rules) make_policy(rules, sizeof(rules) / sizeof((rules)[0]))

static inline struct facts request(const char *host, const char *method, const char *path)
{
	return (struct facts){ .host = str_of(host), .port = 443, .proto = PROTO_HTTPS,
			       .method = str_of(method), .path = str_of(path) };
}

static inline struct facts literal(const char *addr, uint16_t port)
{
	struct facts f = { .literal = true, .port = port, .proto = PROTO_TCP };

	assert_true(addr_parse(str_of(addr), &f.addr));
	return f;
}

static inline void assert_decides(const struct policy *p, struct facts f, enum verdict verdict,
				  const char *rule)
{
	struct decision d = policy_decide(p, &f);
	struct str id = policy_rule(p, d.rule).id;

	assert_int_equal(d.verdict, verdict);
	assert_int_equal(id.n, strlen(rule));
	assert_memory_equal(id.p, rule, id.n);
}

#endif
