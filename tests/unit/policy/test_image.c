#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "make_policy.h"
#include "policy/hosts.h"

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

static const struct test_rule rules[] = {
	{ .id = "a", .hosts = { LIST("a.test", "*.b.test", "**.c.test") }, .ports = { LIST("443") },
	  .methods = { LIST("GET", "PUT") }, .paths = { LIST("/x/**") } },
	{ .deny = true, .id = "b", .addresses = { LIST("203.0.113.0/24", "10.0.0.0/8") } },
	{ .id = "c", .addresses = { LIST("203.0.113.9") }, .ports = { LIST("1-3") } },
	{ .id = "d", .hosts = { LIST("a.test") }, .resolves_to = { LIST("10.0.0.0/8") },
	  .limits = { .requests = 60, .per_s = 60, .concurrent = 8 } },
	{ .id = "e", .hosts = { LIST("b.test") }, .protos = PROTO_HTTPS, .passthrough = true,
	  .limits = { .download = 1u << 30 } },
	{ .id = "f", .hosts = { LIST("c.test") }, .ports = { LIST("5432") }, .protos = PROTO_TCP,
	  .limits = { .idle_s = 60 } },
};

enum { PASSTHROUGH = 4, TCP = 5 };

/* The bytes of a good image, to be spoilt. */
static char *good_image(size_t *n)
{
	const struct str bound = STR("**.c.test");
	const struct build_credential c = { .name = STR("k"), .kind = CREDENTIAL_BEARER, .hosts = &bound,
					    .n_hosts = 1 };
	struct policy_build *b = policy_build_new(STR("f"), false);
	int fd = new_memfd();
	uint32_t index;
	struct stat st;
	char *bytes;

	assert_int_equal(policy_build_credential(b, &c, &index), OK);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		assert_int_equal(add_rule(b, &rules[i], 1), OK);
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	assert_int_equal(fstat(fd, &st), 0);
	*n = (size_t)st.st_size;
	bytes = malloc(*n);
	assert_int_equal(pread(fd, bytes, *n, 0), *n);
	close(fd);
	return bytes;
}

static enum err map_bytes(const void *bytes, size_t n, int seals)
{
	int fd = new_memfd();
	struct policy *p = NULL;
	enum err e;

	assert_int_equal(write(fd, bytes, n), n);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	e = policy_map(&fd, 1, &p);
	assert_true((e == OK) == (p != NULL));
	policy_free(p);
	close(fd);
	return e;
}

static void each_seal_is_required(void **state)
{
	static const int one[] = { F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL };
	size_t n;
	char *bytes = good_image(&n);
	int pipe_fds[2];
	struct policy *p = NULL;

	(void)state;
	assert_int_equal(map_bytes(bytes, n, ALL_SEALS), OK);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(map_bytes(bytes, n, ALL_SEALS & ~one[i]), ERR_SYNTAX);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(policy_map(&pipe_fds[0], 1, &p), ERR_SYNTAX);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	free(bytes);
}

static void every_length_but_the_right_one_is_refused(void **state)
{
	size_t n;
	char *bytes = good_image(&n), *longer = calloc(1, n + 8);

	(void)state;
	for (size_t cut = 0; cut < n; cut++)
		assert_int_equal(map_bytes(bytes, cut, ALL_SEALS), ERR_SYNTAX);
	memcpy(longer, bytes, n);
	assert_int_equal(map_bytes(longer, n + 8, ALL_SEALS), ERR_SYNTAX);
	free(longer);
	free(bytes);
}

static void an_image_over_the_limit_is_not_even_mapped(void **state)
{
	int fd = new_memfd();
	struct policy *p = NULL;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)POLICY_IMAGE_MAX + 1), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, ALL_SEALS), 0);
	assert_int_equal(policy_map(&fd, 1, &p), ERR_SYNTAX);
	assert_null(p);
	close(fd);
}

static void a_stack_has_a_limit(void **state)
{
	int fds[POLICY_STACK_MAX + 1];
	struct policy *p = NULL;

	(void)state;
	for (size_t i = 0; i <= POLICY_STACK_MAX; i++)
		fds[i] = make_image(rules, 1);
	assert_int_equal(policy_map(fds, 0, &p), ERR_LIMIT);
	assert_int_equal(policy_map(fds, POLICY_STACK_MAX + 1, &p), ERR_LIMIT);
	assert_int_equal(policy_map(fds, POLICY_STACK_MAX, &p), OK);
	assert_int_equal(policy_images(p), POLICY_STACK_MAX);
	policy_free(p);
	for (size_t i = 0; i <= POLICY_STACK_MAX; i++)
		close(fds[i]);
}

static void images_that_are_mapped_already_are_held_once_more(void **state)
{
	int fds[] = { make_image(rules, 1), make_image(rules, 1) };
	int again = dup(fds[0]), swapped[] = { fds[1], fds[0] };
	struct policy *one, *two, *other, *stack, *turned;

	(void)state;
	assert_int_equal(policy_map(&fds[0], 1, &one), OK);
	assert_int_equal(policy_map(&again, 1, &two), OK);
	assert_ptr_equal(one, two);
	assert_int_equal(policy_map(&fds[1], 1, &other), OK);
	assert_int_equal(policy_map(fds, 2, &stack), OK);
	assert_int_equal(policy_map(swapped, 2, &turned), OK);
	assert_ptr_not_equal(one, other);
	assert_ptr_not_equal(one, stack);
	assert_ptr_not_equal(stack, turned);
	policy_free(one);
	assert_int_equal(policy_images(two), 1);
	policy_free(two);
	policy_free(stack);
	policy_free(turned);
	policy_free(other);
	/* None is left that a new one could be taken for. */
	assert_int_equal(policy_map(&fds[0], 1, &one), OK);
	policy_free(one);
	close(again);
	close(fds[0]);
	close(fds[1]);
}

static void one_bad_image_refuses_the_stack(void **state)
{
	int fds[] = { make_image(rules, 1), new_memfd() };
	struct policy *p = NULL;

	(void)state;
	assert_int_equal(fcntl(fds[1], F_ADD_SEALS, ALL_SEALS), 0);
	assert_int_equal(policy_map(fds, 2, &p), ERR_SYNTAX);
	assert_null(p);
	close(fds[0]);
	close(fds[1]);
}

/* ---- one field spoilt at a time ---- */

struct spoilt {
	char *bytes;
	size_t n;
	struct image_header *header;
	struct image_rule *rules;
	struct image_host *hosts;
	uint32_t *buckets, *refs;
	struct addr_range *ranges;
	struct image_ports *ports;
	struct image_span *methods, *paths;
	struct image_credential *credentials;
	struct image_pattern *bounds;
	struct image_limits *limits;
};

static void *section(struct spoilt *s, enum image_section which)
{
	return s->bytes + s->header->sections[which].offset;
}

static void spoil_start(struct spoilt *s)
{
	s->bytes = good_image(&s->n);
	s->header = (struct image_header *)(void *)s->bytes;
	s->rules = section(s, SECTION_RULES);
	s->hosts = section(s, SECTION_HOSTS);
	s->buckets = section(s, SECTION_BUCKETS);
	s->refs = section(s, SECTION_REFS);
	s->ranges = section(s, SECTION_RANGES);
	s->ports = section(s, SECTION_PORTS);
	s->methods = section(s, SECTION_METHODS);
	s->paths = section(s, SECTION_PATHS);
	s->credentials = section(s, SECTION_CREDENTIALS);
	s->bounds = section(s, SECTION_BOUNDS);
	s->limits = section(s, SECTION_LIMITS);
}

#define REFUSED(change)                                                                           \
	do {                                                                                      \
		struct spoilt s;                                                                  \
		struct image im;                                                                  \
		spoil_start(&s);                                                                  \
		change;                                                                           \
		if (image_open(s.bytes, s.n, &im) != ERR_SYNTAX)                                  \
			fail_msg("taken: %s", #change);                                           \
		free(s.bytes);                                                                    \
	} while (0)

static void header_and_sections_are_checked(void **state)
{
	(void)state;
	REFUSED(s.header->magic[0] = 'e');
	REFUSED(s.header->version = IMAGE_VERSION - 1);
	REFUSED(s.header->version = IMAGE_VERSION + 1);
	REFUSED(s.header->length++);
	REFUSED(s.header->explain = 2);
	REFUSED(s.header->file.first = UINT32_MAX);
	REFUSED(s.header->file.count = UINT32_MAX);
	for (enum image_section i = 0; i < SECTION_COUNT; i++) {
		REFUSED(s.header->sections[i].offset = 0);
		REFUSED(s.header->sections[i].offset += 4);
		REFUSED(s.header->sections[i].offset = (uint32_t)s.n + 8);
		REFUSED(s.header->sections[i].offset = UINT32_MAX - 7);
		REFUSED(s.header->sections[i].count = UINT32_MAX);
		REFUSED(s.header->sections[i].count = 0);
	}
}

static void rules_are_checked(void **state)
{
	(void)state;
	REFUSED(s.rules[0].id.first = UINT32_MAX);
	REFUSED(s.rules[0].id.count = POLICY_TEXT_MAX + 1);
	REFUSED(s.bytes[s.header->sections[SECTION_TEXT].offset + s.rules[0].id.first] = '\n');
	REFUSED(s.rules[0].flags |= 1u << 6);
	REFUSED(s.rules[1].flags |= RULE_ANY_HOST);
	REFUSED(s.rules[0].protos = 8);
	REFUSED(s.rules[0].foreign = FOREIGN_KEEP + 1);
	REFUSED(s.rules[0].credential = 1);
	REFUSED(s.rules[0].ports.count++);
	REFUSED(s.rules[0].methods.first++);
	REFUSED(s.rules[0].methods.count--);
	REFUSED(s.rules[0].paths.count = UINT32_MAX);
	REFUSED(s.rules[1].addresses.first = UINT32_MAX);
	REFUSED(s.rules[3].resolves_to.first--);
	REFUSED(s.methods[0].first = UINT32_MAX);
	REFUSED(s.methods[0].count = 0);
	REFUSED(s.paths[0].count = UINT32_MAX);
	REFUSED(s.ports[0].first = 0);
	REFUSED(s.ports[0].last = 442);
	REFUSED(s.ports[0].last = 443 + POLICY_PORTS_MAX);
	REFUSED(s.ranges[0].net.family = 5);
	REFUSED(s.ranges[0].bits = 33);
	REFUSED(s.ranges[1] = s.ranges[0]);
}

static void lists_of_hosts_are_checked(void **state)
{
	(void)state;
	REFUSED(s.hosts[0].first = 1);
	REFUSED(s.hosts[1].first = 0);
	REFUSED(s.hosts[0].n_exact = UINT32_MAX);
	REFUSED(s.hosts[0].n_many = UINT32_MAX);
	REFUSED(s.hosts[2].n_one++);
	REFUSED(s.hosts[0].name.count = 0);
	REFUSED(s.hosts[0].name.count = UINT32_MAX);
	REFUSED(s.bytes[s.header->sections[SECTION_TEXT].offset + s.hosts[0].name.first] = '*');
	REFUSED(s.bytes[s.header->sections[SECTION_TEXT].offset + s.hosts[0].name.first] = 'A');
	for (uint32_t i = 0; i < 6; i++)
		REFUSED(s.refs[i] = sizeof(rules) / sizeof(rules[0]));
	REFUSED(s.header->anywhere.count = UINT32_MAX);
	REFUSED(s.header->literal.first--);
	REFUSED(s.buckets[0] = 1);
	REFUSED(s.buckets[1] = UINT32_MAX);
	REFUSED(s.buckets[4] = 4);
	REFUSED(s.header->sections[SECTION_BUCKETS].count = 1);
	REFUSED(s.header->sections[SECTION_BUCKETS].count = 4);
}

/* All names in one bucket would make each look-up a search through all of them. */
static void a_bucket_over_the_limit_is_refused(void **state)
{
	enum { HOSTS = IMAGE_BUCKET_MAX + 1 };
	struct policy_build *b = policy_build_new(STR("f"), false);
	struct image im;
	int fd = new_memfd();
	char name[16], *bytes;
	uint32_t *buckets, n_buckets;
	struct stat st;

	(void)state;
	for (unsigned i = 0; i < HOSTS; i++) {
		struct str host = str_n(name, (size_t)snprintf(name, sizeof(name), "h%u.test", i));
		struct build_rule r = { .id = STR("r"), .hosts = &host, .n_hosts = 1,
					.credential = NO_CREDENTIAL };

		assert_int_equal(policy_build_rule(b, &r), OK);
	}
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	assert_int_equal(fstat(fd, &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
	close(fd);
	assert_int_equal(image_open(bytes, (size_t)st.st_size, &im), OK);
	buckets = (uint32_t *)(void *)(bytes + im.header->sections[SECTION_BUCKETS].offset);
	n_buckets = im.n_buckets;
	for (uint32_t i = 1; i <= n_buckets; i++)
		buckets[i] = HOSTS;
	assert_int_equal(image_open(bytes, (size_t)st.st_size, &im), ERR_SYNTAX);
	/* One moved on, and the first holds as many as may be. */
	buckets[1] = HOSTS - 1;
	assert_int_equal(image_open(bytes, (size_t)st.st_size, &im), OK);
	free(bytes);
}

static void credentials_are_checked(void **state)
{
	(void)state;
	REFUSED(s.credentials[0].kind = CREDENTIAL_BASIC + 1);
	REFUSED(s.credentials[0].foreign = FOREIGN_KEEP + 1);
	REFUSED(s.credentials[0].header.count = 0);
	REFUSED(s.credentials[0].format.first = UINT32_MAX);
	REFUSED(s.credentials[0].bounds.count = 2);
	REFUSED(s.credentials[0].bounds.count = 0);
	REFUSED(s.bounds[0].kind = HOST_ANY + 1);
	REFUSED(s.bounds[0].kind = HOST_ANY);
	REFUSED(s.bounds[0].name.count = 0);
}

static void limits_are_checked(void **state)
{
	(void)state;
	REFUSED(s.rules[3].limits.first++);
	REFUSED(s.rules[3].limits.first = UINT32_MAX);
	REFUSED(s.rules[3].limits.count = 0);
	REFUSED(s.rules[3].limits.count = UINT32_MAX);
	REFUSED((s.rules[3].limits.count = 2, s.rules[PASSTHROUGH].limits.count = 0,
		 s.rules[PASSTHROUGH].limits.first = 2));
	REFUSED(s.rules[3].flags |= RULE_DENY);
	REFUSED(s.limits[0].requests = 0);
	REFUSED(s.limits[0].per_s = 0);
	REFUSED(s.limits[0].per_s = 2);
	REFUSED(s.limits[0].zero = 1);
	REFUSED(s.limits[1].download = 0);
}

/* What nobody opens cannot be held to what would have to be read in it. */
static void rules_that_are_not_opened_are_checked(void **state)
{
	(void)state;
	REFUSED(s.rules[PASSTHROUGH].flags |= RULE_DENY);
	REFUSED(s.rules[PASSTHROUGH].protos = 0);
	REFUSED(s.rules[PASSTHROUGH].protos = PROTO_TCP);
	REFUSED(s.rules[PASSTHROUGH].protos |= PROTO_HTTP);
	for (size_t i = PASSTHROUGH; i <= TCP; i++) {
		REFUSED(s.rules[i].flags |= RULE_HAS_FOREIGN);
		REFUSED(s.rules[i].flags |= RULE_PLAINTEXT);
		REFUSED(s.rules[i].credential = 0);
		REFUSED((s.limits[i - PASSTHROUGH + 1].requests = 1,
			 s.limits[i - PASSTHROUGH + 1].per_s = 1));
	}
	/* With methods or paths: as an opened rule has them. */
	REFUSED(s.rules[0].protos = PROTO_TCP);
	REFUSED((s.rules[0].flags |= RULE_PASSTHROUGH, s.rules[0].protos = PROTO_HTTPS));
}

/* Whatever one byte becomes: refused, or an image that can be asked. */
static void any_byte_may_be_any_other(void **state)
{
	static const uint8_t masks[] = { 0x01, 0x80, 0xff };
	size_t n;
	char *bytes = good_image(&n);
	struct facts f = request("x.b.test", "GET", "/x/y");

	(void)state;
	for (size_t i = 0; i < n * sizeof(masks); i++) {
		struct policy p = { .n = 1 };

		bytes[i / sizeof(masks)] ^= (char)masks[i % sizeof(masks)];
		if (image_open(bytes, n, &p.images[0]) == OK) {
			struct decision d = policy_decide(&p, &f);

			assert_true(policy_rule(&p, d.rule).id.n <= POLICY_TEXT_MAX);
		}
		bytes[i / sizeof(masks)] ^= (char)masks[i % sizeof(masks)];
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_seal_is_required),
		cmocka_unit_test(every_length_but_the_right_one_is_refused),
		cmocka_unit_test(an_image_over_the_limit_is_not_even_mapped),
		cmocka_unit_test(a_stack_has_a_limit),
		cmocka_unit_test(images_that_are_mapped_already_are_held_once_more),
		cmocka_unit_test(one_bad_image_refuses_the_stack),
		cmocka_unit_test(header_and_sections_are_checked),
		cmocka_unit_test(rules_are_checked),
		cmocka_unit_test(lists_of_hosts_are_checked),
		cmocka_unit_test(a_bucket_over_the_limit_is_refused),
		cmocka_unit_test(credentials_are_checked),
		cmocka_unit_test(limits_are_checked),
		cmocka_unit_test(rules_that_are_not_opened_are_checked),
		cmocka_unit_test(any_byte_may_be_any_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
