/* What a decision costs: nanoseconds of processor time a call, for a host that a rule names and one
 * that none does, by number of rules (one host each) and for one rule with a million hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "policy/build.h"

#define CALLS 1000000u
#define NAMES 4096u	/* asked in turn, so that caches do not hold the one answer */
#define NAME_ROOM 32

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "policy_decide: %s\n", what);
	exit(1);
}

static struct str name_of(char *text, const char *kind, unsigned i)
{
	return str_n(text, (size_t)snprintf(text, NAME_ROOM, "h%u.%s.d%u.test", i, kind, i % 1000));
}

static struct build_rule https_rule(const struct str *hosts, size_t n)
{
	static const struct port_range https = { 443, 443 };
	static const struct str methods[] = { { "GET", 3 }, { "HEAD", 4 } };
	static const struct str paths[] = { { "/repos/acme/**", 14 }, { "/search/*", 9 } };

	return (struct build_rule){ .id = STR("rule"), .line = 1, .hosts = hosts, .n_hosts = n,
				    .ports = &https, .n_ports = 1, .protos = PROTO_HTTPS,
				    .methods = methods, .n_methods = 2, .paths = paths,
				    .n_paths = 2,
				    .credential = NO_CREDENTIAL };
}

static void add_rules(struct policy_build *b, unsigned rules)
{
	char text[NAME_ROOM];

	for (unsigned i = 0; i < rules; i++) {
		struct str host = name_of(text, "yes", i);
		struct build_rule r = https_rule(&host, 1);

		if (policy_build_rule(b, &r) != OK)
			die("rule");
	}
}

static void add_hosts(struct policy_build *b, unsigned n)
{
	struct str *hosts = calloc(n, sizeof(*hosts));
	char *text = malloc((size_t)n * NAME_ROOM);
	struct build_rule r = https_rule(hosts, n);

	if (!hosts || !text)
		die("memory");
	for (unsigned i = 0; i < n; i++)
		hosts[i] = name_of(text + (size_t)i * NAME_ROOM, "yes", i);
	if (policy_build_rule(b, &r) != OK)
		die("hosts");
	free(hosts);
	free(text);
}

static double time_calls(const struct policy *p, const char *kind, unsigned n,
			 enum verdict expected)
{
	char (*texts)[NAME_ROOM] = calloc(NAMES, sizeof(*texts));
	struct str *names = calloc(NAMES, sizeof(*names));
	struct facts f = { .port = 443, .proto = PROTO_HTTPS, .method = STR("GET"),
			   .path = STR("/repos/acme/site/pulls") };
	double start;

	if (!texts || !names)
		die("memory");
	for (unsigned i = 0; i < NAMES; i++)
		names[i] = name_of(texts[i], kind, (unsigned)((i * 2654435761u) % n));
	start = now();
	for (unsigned i = 0; i < CALLS; i++) {
		f.host = names[i % NAMES];
		if (policy_decide(p, &f).verdict != expected)
			die("verdict");
	}
	start = now() - start;
	free(texts);
	free(names);
	return start / CALLS;
}

static void measure(const char *what, unsigned rules, unsigned hosts)
{
	struct policy_build *b = policy_build_new(STR("bench.yaml"), false);
	int fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct policy *p = NULL;
	double start = now(), built, mapped;
	struct stat st;

	if (!b || fd < 0)
		die("builder");
	add_rules(b, rules);
	if (hosts)
		add_hosts(b, hosts);
	if (policy_build_finish(b, fd) != OK)
		die("finish");
	policy_build_free(b);
	built = now();
	if (policy_map(&fd, 1, &p) != OK || fstat(fd, &st) < 0)
		die("map");
	mapped = now();
	printf("%-16s %8.0f ns hit %8.0f ns miss %9.1f ms build %8.1f ms map %8.2f MiB\n", what,
	       time_calls(p, "yes", hosts ? hosts : rules, VERDICT_ALLOW),
	       time_calls(p, "no", hosts ? hosts : rules, VERDICT_DENY), (built - start) / 1e6,
	       (mapped - built) / 1e6, (double)st.st_size / (1 << 20));
	policy_free(p);
	close(fd);
}

int main(void)
{
	measure("10 rules", 10, 0);
	measure("1,000 rules", 1000, 0);
	measure("100,000 rules", 100000, 0);
	measure("1,000,000 hosts", 0, 1000000);
	return 0;
}
