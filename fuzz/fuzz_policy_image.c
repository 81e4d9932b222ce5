/* Policy images: bytes as a hostile compiler could send. What is taken can be asked anything. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const hosts[] = { "", "a.test", "b.a.test", "x.c.b.a.test", "..", "A" };

/* Touches each byte, so that a text out of bounds is seen. */
static size_t touch(struct str s)
{
	volatile unsigned char sum = 0;

	for (size_t i = 0; i < s.n; i++)
		sum = (unsigned char)(sum + (unsigned char)s.p[i]);
	return sum;
}

static bool see(void *arg, struct addr addr, uint16_t port)
{
	unsigned *seen = arg;

	if (!addr.family || !port || ++*seen > POLICY_LITERALS_MAX)
		abort();
	return true;
}

static void look_at_rule(const struct policy *p, struct rule_ref ref)
{
	struct rule_info r = policy_rule(p, ref);
	struct credential_info c = policy_credential(p, ref.image, r.credential);

	touch(r.id);
	touch(r.reason);
	touch(r.file);
	touch(c.name);
	touch(c.secret);
	touch(c.header);
	touch(c.format);
	touch(c.user);
	policy_credential_bound(p, ref.image, r.credential, STR("x.a.test"));
}

static void ask(const struct policy *p, const struct facts *f)
{
	struct decision d = policy_decide(p, f);
	struct addr private = addr_v4(0x0a000001);
	struct rule_ref limited[2];

	if (d.verdict == VERDICT_ALLOW && policy_rule(p, d.rule).deny)
		abort();
	look_at_rule(p, d.rule);
	if (policy_limits(p, f, limited, 2) > 0)
		look_at_rule(p, limited[0]);
	policy_resolve_ok(p, f, &private);
	for (uint32_t i = 0; i < policy_rules(p, 0) && i < 64; i++)
		policy_ask_rule(p, (struct rule_ref){ 0, i }, f);
}

static void ask_all(const struct policy *p)
{
	uint16_t ports[16];
	unsigned seen = 0;

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		struct facts f = { .host = str_of(hosts[i]) };

		ask(p, &f);
		f.addr = addr_v4(0xcb007107);
		f.port = 443;
		f.proto = PROTO_HTTPS;
		ask(p, &f);
		f.method = STR("GET");
		f.path = STR("/a/b/c%20d");
		ask(p, &f);
		f.literal = true;
		ask(p, &f);
		policy_has_paths(p, f.host);
		policy_ports(p, f.host, ports, 16);
	}
	policy_literals(p, see, &seen);
	touch(policy_digest(p));
	policy_explains(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct policy *p = NULL;

	if (fd < 0)
		return 0;
	if (write(fd, data, n) == (ssize_t)n &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0 &&
	    policy_map(&fd, 1, &p) == OK)
		ask_all(p);
	policy_free(p);
	close(fd);
	return 0;
}
