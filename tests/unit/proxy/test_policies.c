/* Reloads of policies whose files a launcher is slow to read, or never does. The test is the launchers and the readers. */
#include "tests/unit/proxy/appliance_rig.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "policy/build.h"

#define REPORTS 4

static struct settings settings;
static struct fake launcher, second;
static const struct part_hooks none = { 0 };

static struct {
	unsigned n;
	struct reload_report report[REPORTS];	/* by the reload's argument */
	bool over[REPORTS];
	char said[REPORTS][300];
} got;

static void on_end(struct appliance *a, struct sandbox *s)
{
	(void)a;
	(void)s;
}

static int setup(void **state)
{
	struct ring_fds own;

	(void)state;
	rig_open();
	memset(&got, 0, sizeof(got));
	memset(&launcher, 0, sizeof(launcher));
	memset(&second, 0, sizeof(second));
	settings = (struct settings){ .max_leases = 10, .max_sandboxes = 10 };
	assert_true(addr_range_parse(STR("100.64.0.0/24"), &settings.link_pool));
	rig.settings = &settings;
	rig.on_sandbox_end = on_end;
	part_init(&rig, &rig.launcher[0], ROLE_LAUNCHER, &launcher_hooks, NULL);
	part_init(&rig, &rig.launcher[1], ROLE_LAUNCHER, &launcher_hooks, NULL);
	part_init(&rig, &rig.nursery, ROLE_NURSERY, &none, NULL);
	part_init(&rig, &rig.recorder, ROLE_RECORDER, &none, NULL);
	part_init(&rig, &rig.dialer, ROLE_DIALER, &none, NULL);
	part_init(&rig, &rig.broker, ROLE_BROKER, &none, NULL);
	rig.own_ring = rings_add(&rig, ROLE_SUPERVISOR, "", STR_NONE);
	own = (struct ring_fds){ dup(rig.own_ring->fds.memory), dup(rig.own_ring->fds.wake),
				 dup(rig.own_ring->fds.room) };
	assert_int_equal(ring_open_writer(&own, &rig.ring), OK);
	rig.confined = true;
	fake_adopt(&launcher, &rig.launcher[0]);
	fake_ready(&launcher, &rig.launcher[0]);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig.closing = true;
	policies_stop_asking(&rig);
	policies_abandon(&rig);
	while (rig.sandboxes) {
		part_end(&rig.sandboxes->worker);
		sandbox_free(rig.sandboxes);
	}
	fake_free(&launcher);
	fake_free(&second);
	ring_close(rig.ring);
	rig_close();
	return 0;
}

/* ---- policies ---- */

/* What a reader makes of a file that says @host. */
static void fill_image(int image, const char *host)
{
	const struct port_range https = { 443, 443 };
	const struct str name = str_of(host);
	const struct build_rule rule = { .id = STR("one"), .ports = &https, .n_ports = 1, .protos = PROTO_HTTPS,
					 .credential = NO_CREDENTIAL, .hosts = &name, .n_hosts = 1 };
	struct policy_build *b = policy_build_new(STR("policy.yaml"), false);

	assert_non_null(b);
	assert_int_equal(policy_build_rule(b, &rule), OK);
	assert_int_equal(policy_build_finish(b, image), OK);
	policy_build_free(b);
}

static struct policy_file *made_file(const char *path, const char *host)
{
	int image = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct policy_file *f;

	fill_image(image, host);
	f = policy_file_new(path, image);
	assert_non_null(f);
	close(image);
	return f;
}

static struct sandbox *create(const char *name, const char *path)
{
	struct sandbox_spec spec = { .name = name, .policy = made_file(path, "old.test"), .netns = -1 };
	char why[256] = "";
	struct sandbox *s = sandbox_create(&rig, &spec, why, sizeof(why));

	assert_string_equal(why, "");
	policy_file_release(spec.policy);
	return s;
}

static bool has(const struct sandbox *s, const char *host)
{
	struct policy_file *like = made_file("any", host);
	bool same = strcmp(s->policy->digest, like->digest) == 0;

	policy_file_release(like);
	return same;
}

/* ---- reloads ---- */

static void on_reloaded(void *arg, const struct reload_report *report)
{
	unsigned n = *(unsigned *)arg;

	got.report[n] = *report;
	snprintf(got.said[n], sizeof(got.said[n]), "%.*s", STR_ARG(report->diagnostics));
	got.over[n] = true;
	got.n++;
}

static unsigned numbers[REPORTS] = { 0, 1, 2, 3 };

static void reload(unsigned n, struct sandbox *only)
{
	assert_true(policies_reload(&rig, only, on_reloaded, &numbers[n]));
	rig_turn();
}

/* The launcher has read it, and a reader compiles it to what says @host. */
static void is_read(struct fake *by, uint32_t order, const char *host)
{
	const struct msg_source_is m = { .id = order };
	const struct msg_read_done done = { .ok = 1 };
	struct part *before = rig.parts, *reader;
	int source = memfd_create("source", MFD_CLOEXEC);
	struct fake f;

	assert_int_equal(channel_send(by->c, MSG_SOURCE_IS, &m, &source, 1), OK);
	close(source);
	rig_until(rig.parts != before);
	reader = rig.parts;
	assert_int_equal(reader->role, ROLE_READER);
	fake_adopt(&f, reader);
	rig_until(f.image > 0);
	fill_image(f.image, host);
	close(f.image);
	assert_int_equal(channel_send(f.c, MSG_READ_DONE, &done, NULL, 0), OK);
	rig_until(reader->state == PART_ENDING);
	kill(f.pid, SIGKILL);
	rig_reap(f.pid, WEXITED);
	f.pid = 0;
	fake_free(&f);
	rig_turn();
}

static void is_not_read(struct fake *by, uint32_t order, const char *why)
{
	const struct msg_source_is m = { .id = order, .why = str_of(why) };

	assert_int_equal(channel_send(by->c, MSG_SOURCE_IS, &m, NULL, 0), OK);
	rig_turn();
}

static void a_reload_that_waits_for_a_disk_holds_up_no_other_sandbox(void **state)
{
	struct sandbox *one = create("one", "/a.yaml"), *two = create("two", "/b.yaml");

	(void)state;
	reload(0, one);
	assert_int_equal(launcher.n_sources, 1);
	reload(1, two);
	assert_int_equal(launcher.n_sources, 2);
	is_read(&launcher, launcher.sources[1], "new.test");
	assert_true(got.over[1] && got.report[1].ok && got.report[1].changed == 1);
	assert_true(has(two, "new.test") && has(one, "old.test"));
	assert_false(got.over[0]);
	is_not_read(&launcher, launcher.sources[0], "the disk hangs");
	assert_true(got.over[0] && !got.report[0].ok);
	assert_string_equal(got.said[0], "the disk hangs\n");
	assert_true(has(one, "old.test"));
	/* It works again when the disk does. */
	reload(2, one);
	is_read(&launcher, launcher.sources[2], "new.test");
	assert_true(got.over[2] && got.report[2].ok && has(one, "new.test"));
}

static void what_was_read_later_stays_when_an_earlier_reload_comes_to_its_end(void **state)
{
	struct sandbox *one = create("one", "/a.yaml"), *two = create("two", "/b.yaml");

	(void)state;
	reload(0, NULL);
	assert_int_equal(launcher.n_sources, 2);
	reload(1, two);
	is_read(&launcher, launcher.sources[2], "newest.test");
	assert_true(got.over[1] && has(two, "newest.test"));
	is_read(&launcher, launcher.sources[0], "new.test");
	assert_false(got.over[0]);
	is_read(&launcher, launcher.sources[1], "new.test");
	assert_true(got.over[0] && got.report[0].ok);
	assert_int_equal(got.report[0].changed, 1);
	assert_true(has(one, "new.test") && has(two, "newest.test"));
}

/* Started while the file was being read for a reload: its policy was read after that had begun. */
static void one_that_starts_meanwhile_keeps_what_it_has(void **state)
{
	struct sandbox *one = create("one", "/a.yaml"), *late;

	(void)state;
	reload(0, NULL);
	late = create("late", "/a.yaml");
	is_read(&launcher, launcher.sources[0], "new.test");
	assert_true(got.over[0] && has(one, "new.test") && has(late, "old.test"));
}

static void reloads_of_all_and_of_the_same_one_wait_for_each_other(void **state)
{
	struct sandbox *one = create("one", "/a.yaml");

	(void)state;
	reload(0, one);
	reload(1, one);
	reload(2, NULL);
	reload(3, NULL);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(launcher.n_sources, i + 1);
		assert_int_equal(got.n, i);
		is_not_read(&launcher, launcher.sources[i], "no");
		assert_true(got.over[i]);
	}
	assert_true(has(one, "old.test"));
}

/* ---- who is asked ---- */

static void another_launcher_reads_what_a_dead_one_was_to_read(void **state)
{
	struct sandbox *one = create("one", "/a.yaml");

	(void)state;
	reload(0, one);
	fake_adopt(&second, &rig.launcher[1]);
	fake_ready(&second, &rig.launcher[1]);
	assert_int_equal(second.n_sources, 0);
	one->maker = NULL;	/* its wire is not what dies here */
	kill(launcher.pid, SIGKILL);
	rig_reap(launcher.pid, WEXITED);
	launcher.pid = 0;
	rig_until(second.n_sources == 1);
	is_read(&second, second.sources[0], "new.test");
	assert_true(got.over[0] && has(one, "new.test"));
}

static void without_a_launcher_it_waits_for_one(void **state)
{
	struct sandbox *one = create("one", "/a.yaml");

	(void)state;
	rig.launcher[0].state = PART_ENDING;	/* neither is ready */
	reload(0, one);
	assert_int_equal(launcher.n_sources, 0);
	fake_adopt(&second, &rig.launcher[1]);
	fake_ready(&second, &rig.launcher[1]);
	rig_until(second.n_sources == 1);
	is_read(&second, second.sources[0], "new.test");
	assert_true(got.over[0] && has(one, "new.test"));
	rig.launcher[0].state = PART_READY;
}

static void a_file_that_nobody_ordered_costs_the_launcher(void **state)
{
	struct sandbox *one = create("one", "/a.yaml");

	(void)state;
	reload(0, one);
	is_not_read(&launcher, launcher.sources[0] + 1, "no");
	assert_int_equal(rig.launcher[0].state, PART_ENDING);
	assert_string_equal(rig.launcher[0].why, "a file that was not ordered");
	assert_false(got.over[0]);
}

static void at_the_end_who_waits_for_a_file_hears_so(void **state)
{
	struct sandbox *one = create("one", "/a.yaml"), *two = create("two", "/b.yaml");

	(void)state;
	reload(0, one);
	reload(1, two);
	reload(2, two);
	rig.closing = true;
	policies_stop_asking(&rig);
	assert_true(got.over[0] && got.over[1] && !got.over[2]);
	assert_string_equal(got.said[0], "the appliance ends\n");
	/* What comes too late is no fault. */
	is_not_read(&launcher, launcher.sources[0], "no");
	assert_int_equal(rig.launcher[0].state, PART_READY);
	assert_int_equal(launcher.n_sources, 2);
	policies_abandon(&rig);
	assert_true(got.over[2] && !got.report[2].ok);
}

/* Else the answer's descriptor would cost the launcher. */
static void with_too_few_descriptors_nothing_is_asked(void **state)
{
	struct sandbox *one = create("one", "/a.yaml");
	struct rlimit before, few;
	int next;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	next = dup(0);
	close(next);
	few = (struct rlimit){ (rlim_t)next + 2, before.rlim_max };	/* the image's, and one more */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_true(policies_reload(&rig, one, on_reloaded, &numbers[0]));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(got.over[0] && !got.report[0].ok);
	assert_non_null(strstr(got.said[0], "too few descriptors"));
	rig_turn();
	assert_int_equal(launcher.n_sources, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_reload_that_waits_for_a_disk_holds_up_no_other_sandbox),
		CASE(what_was_read_later_stays_when_an_earlier_reload_comes_to_its_end),
		CASE(one_that_starts_meanwhile_keeps_what_it_has),
		CASE(reloads_of_all_and_of_the_same_one_wait_for_each_other),
		CASE(another_launcher_reads_what_a_dead_one_was_to_read),
		CASE(without_a_launcher_it_waits_for_one),
		CASE(a_file_that_nobody_ordered_costs_the_launcher),
		CASE(at_the_end_who_waits_for_a_file_hears_so),
		CASE(with_too_few_descriptors_nothing_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
