/* A sandbox's way to its end where those that it needs do not come. Nobody makes wires or boxes here. */
#include "tests/unit/proxy/appliance_rig.h"

#include <errno.h>
#include <stdlib.h>

static struct settings settings;
static struct policy_file policy = { .refs = 1000, .path = "policy.yaml", .image = -1, .digest = "abc" };
static struct fake launcher, nursery;
static unsigned ended;
static char why_ended[256];

static void on_end(struct appliance *a, struct sandbox *s)
{
	(void)a;
	ended++;
	snprintf(why_ended, sizeof(why_ended), "%s", s->why);
}

static const struct part_hooks none = { 0 };

static int setup(void **state)
{
	struct ring_fds own;

	(void)state;
	rig_open();
	if (policy.image < 0)	/* a sandbox begins only where descriptors like this one find room */
		policy.image = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(policy.image >= 0);
	ended = 0;
	why_ended[0] = '\0';
	memset(&launcher, 0, sizeof(launcher));
	memset(&nursery, 0, sizeof(nursery));
	settings = (struct settings){ .max_leases = 10, .max_sandboxes = 10 };
	assert_true(addr_range_parse(STR("100.64.0.0/28"), &settings.link_pool));	/* 0 to 3 */
	rig.settings = &settings;
	rig.on_sandbox_end = on_end;
	part_init(&rig, &rig.launcher[0], ROLE_LAUNCHER, &none, NULL);
	part_init(&rig, &rig.launcher[1], ROLE_LAUNCHER, &none, NULL);
	part_init(&rig, &rig.nursery, ROLE_NURSERY, &none, NULL);
	part_init(&rig, &rig.recorder, ROLE_RECORDER, &none, NULL);
	part_init(&rig, &rig.dialer, ROLE_DIALER, &none, NULL);
	part_init(&rig, &rig.broker, ROLE_BROKER, &none, NULL);
	rig.own_ring = rings_add(&rig, ROLE_SUPERVISOR, "", STR_NONE);
	own = (struct ring_fds){ dup(rig.own_ring->fds.memory), dup(rig.own_ring->fds.wake),
				 dup(rig.own_ring->fds.room) };
	assert_int_equal(ring_open_writer(&own, &rig.ring), OK);
	rig.confined = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	while (rig.sandboxes) {
		part_end(&rig.sandboxes->worker);
		sandbox_free(rig.sandboxes);
	}
	fake_free(&launcher);
	fake_free(&nursery);
	ring_close(rig.ring);
	rig_close();
	return 0;
}

static struct sandbox *create(const char *name)
{
	static char *const command[] = { "sh", NULL };
	struct sandbox_spec spec = { .name = name, .policy = &policy, .command = command,
				     .stdio = { 0, 1, 2 }, .netns = -1 };
	char why[256] = "";
	struct sandbox *s = sandbox_create(&rig, &spec, why, sizeof(why));

	assert_non_null(s);
	assert_string_equal(why, "");
	return s;
}

static void a_name_is_one_sandboxs(void **state)
{
	struct sandbox_spec spec = { .name = "box", .policy = &policy, .netns = -1 };
	char why[256] = "";

	(void)state;
	create("box");
	assert_null(sandbox_create(&rig, &spec, why, sizeof(why)));
	assert_string_equal(why, "a sandbox of that name is there");
}

static void a_number_is_used_again_when_all_others_were(void **state)
{
	struct sandbox *a = create("a");

	(void)state;
	assert_int_equal(a->number, 1);
	sandbox_stop(a, true, "stopped");
	assert_int_equal(a->state, SANDBOX_ENDED);
	assert_int_equal(create("b")->number, 2);
	assert_int_equal(create("c")->number, 3);
	assert_int_equal(create("d")->number, 1);
	/* None is free: its wire will be refused. */
	assert_int_equal(create("e")->number, wire_links(&settings.link_pool));
}

static void one_that_does_not_start_in_time_is_ended_with_what_was_missing(void **state)
{
	static const char *const missing[] = { "its wire is not there", "its worker is not ready",
					       "the broker has made no certificate",
					       "its box is not there" };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct sandbox *s = create("box");

		s->wired = i > 0;
		s->worker.state = i > 1 ? PART_READY : PART_WANTED;
		if (i > 2)
			buf_put_str(&s->ca_pem, STR("pem"));
		sandbox_tick(s, s->created_ms + SANDBOX_START_MS - 1);
		assert_int_equal(s->state, SANDBOX_STARTING);
		s->maker = &rig.launcher[0];	/* at work: the end waits for it */
		s->wire_order = 1;
		sandbox_tick(s, s->created_ms + SANDBOX_START_MS);
		assert_int_equal(s->state, SANDBOX_STOPPING);
		assert_true(s->failed);
		assert_non_null(strstr(s->why, "not started within 30 s"));
		assert_non_null(strstr(s->why, missing[i]));
		s->wired = false;
		s->worker.state = PART_WANTED;
		sandboxes_maker_lost(&rig, &rig.launcher[0]);
		assert_int_equal(s->state, SANDBOX_ENDED);
		assert_int_equal(ended, i + 1);
		assert_int_equal(s->status, 125);
		sandbox_free(s);
	}
}

static void one_that_runs_has_no_such_time(void **state)
{
	struct sandbox *s = create("box");

	(void)state;
	s->state = SANDBOX_RUNNING;
	sandbox_tick(s, s->created_ms + 100 * SANDBOX_START_MS);
	assert_int_equal(s->state, SANDBOX_RUNNING);
	s->state = SANDBOX_STARTING;
	rig.confined = false;	/* the appliance itself is not there yet */
	sandbox_tick(s, s->created_ms + 100 * SANDBOX_START_MS);
	assert_int_equal(s->state, SANDBOX_STARTING);
}

static void one_whose_maker_dies_is_ended(void **state)
{
	struct sandbox *s = create("box"), *other = create("other");

	(void)state;
	s->maker = &rig.launcher[0];
	s->wire_order = 7;
	other->maker = &rig.launcher[1];
	other->wire_order = 8;
	sandboxes_maker_lost(&rig, &rig.launcher[0]);
	assert_int_equal(s->state, SANDBOX_ENDED);
	assert_string_equal(why_ended, "the launcher died while it made its wire or box");
	assert_int_equal(other->state, SANDBOX_STARTING);
}

/* It had been waiting for what the launcher would say. */
static void one_that_was_being_stopped_ends_when_its_maker_dies(void **state)
{
	struct sandbox *s = create("box");

	(void)state;
	s->maker = &rig.launcher[0];
	s->box_order = 7;
	sandbox_stop(s, true, "stopped");
	assert_int_equal(s->state, SANDBOX_STOPPING);
	assert_int_equal(ended, 0);
	sandboxes_maker_lost(&rig, &rig.launcher[0]);
	assert_int_equal(s->state, SANDBOX_ENDED);
	assert_int_equal(ended, 1);
	assert_string_equal(why_ended, "stopped");
}

static void one_that_was_being_stopped_ends_when_it_hears_that_there_is_no_wire_or_box(void **state)
{
	const struct msg_wired wired = { .id = 7, .code = ENOSPC, .what = STR("veth") };
	const struct msg_boxed boxed = { .id = 8, .text = STR("no box") };
	struct sandbox *s = create("box"), *other = create("other");

	(void)state;
	s->maker = other->maker = &rig.launcher[0];
	s->wire_order = 7;
	other->box_order = 8;
	sandbox_stop(s, true, "stopped");
	sandbox_stop(other, true, "stopped");
	assert_int_equal(ended, 0);
	sandbox_wired(&rig.launcher[0], &wired, NULL, 0);
	assert_int_equal(s->state, SANDBOX_ENDED);
	sandbox_boxed(&rig.launcher[0], &boxed, NULL, 0);
	assert_int_equal(other->state, SANDBOX_ENDED);
	assert_int_equal(ended, 2);
}

/* ---- its worker ---- */

static void lose_worker(struct sandbox *s, struct fake *f)
{
	uint32_t ring = s->ring->number;

	fake_adopt(f, &s->worker);
	kill(f->pid, SIGKILL);
	rig_reap(f->pid, WEXITED);
	f->pid = 0;
	fake_free(f);
	if (s->ring)
		assert_int_not_equal(s->ring->number, ring);	/* a successor does not write where it wrote */
}

static void the_third_death_of_its_worker_is_its_end(void **state)
{
	struct sandbox *s = create("box"), *other = create("other");
	struct fake worker;

	(void)state;
	fake_adopt(&nursery, &rig.nursery);
	fake_ready(&nursery, &rig.nursery);
	s->state = SANDBOX_RUNNING;
	lose_worker(s, &worker);
	assert_int_equal(s->state, SANDBOX_RUNNING);
	assert_int_equal(s->worker.state, PART_WANTED);
	assert_null(s->worker.orderer);			/* not of this nursery any more */
	assert_int_equal(rig.nursery.state, PART_ENDING);
	lose_worker(s, &worker);
	assert_int_equal(s->state, SANDBOX_RUNNING);
	lose_worker(s, &worker);
	assert_int_equal(s->state, SANDBOX_ENDED);
	assert_string_equal(why_ended, "its worker died 3 times in a minute");
	assert_int_equal(other->state, SANDBOX_STARTING);
}

static void give_up(struct part *by, uint32_t sandbox, uint32_t join)
{
	const struct msg_sandbox_lost m = { .sandbox = sandbox, .join = join, .why = STR("its dialer's word") };
	const struct part_hooks *hooks = by == &rig.dialer ? &dialer_hooks : &broker_hooks;

	hooks->message(by, MSG_SANDBOX_LOST, &m, NULL, 0);
}

static void what_is_said_of_the_worker_before_does_not_hit_the_next(void **state)
{
	struct part *const by[] = { &rig.dialer, &rig.broker };
	struct sandbox *s = create("box");
	struct fake worker;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fake_adopt(&worker, &s->worker);
		fake_ready(&worker, &s->worker);
		s->join = 7;
		give_up(by[i], s->number, 6);
		give_up(by[i], s->number, 8);
		assert_int_equal(s->worker.state, PART_READY);
		sandbox_forget(s);	/* its worker is gone, and the next one not joined yet */
		give_up(by[i], s->number, 7);
		assert_int_equal(s->worker.state, PART_READY);
		s->join = 9;
		give_up(by[i], s->number, 9);
		assert_int_equal(s->worker.state, PART_ENDING);
		assert_string_equal(s->worker.why, "its dialer's word");
		rig_reap(worker.pid, WEXITED);
		worker.pid = 0;
		fake_free(&worker);
	}
}

static void each_join_has_a_number_of_its_own(void **state)
{
	struct fake dialer, broker, worker;
	struct sandbox *s = create("box"), *other = create("other");
	uint32_t before;

	(void)state;
	fake_adopt(&dialer, &rig.dialer);
	fake_ready(&dialer, &rig.dialer);
	fake_adopt(&broker, &rig.broker);
	fake_ready(&broker, &rig.broker);
	rig.last_join = UINT32_MAX - 1;
	s->leases_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s->wire = (struct wire_box){ .netns = -1, .tproxy = dup(0), .dns_udp = dup(0), .dns_tcp = dup(0), .nflog = dup(0) };
	fake_adopt(&worker, &s->worker);
	assert_true(sandbox_join(s));
	before = s->join;
	assert_int_equal(before, UINT32_MAX);
	rig_until(dialer.n >= 1 && broker.n >= 1);
	assert_int_equal(dialer.join, before);
	assert_int_equal(broker.join, before);
	sandbox_forget(s);
	assert_int_equal(s->join, 0);
	assert_true(sandbox_join(s));
	assert_int_equal(s->join, 1);	/* 0 would be none */
	assert_int_equal(other->join, 0);
	rig_until(dialer.join == 1 && broker.join == 1);
	fake_free(&worker);
	fake_free(&dialer);
	fake_free(&broker);
}

/* ---- the broker ---- */

static void tell_ca(uint32_t number, struct str pem)
{
	struct msg_sandbox_ca m = { .sandbox = number, .pem = pem, .sealed = STR("sealed") };

	sandbox_ca(&rig.broker, &m);
}

static void asked(struct sandbox *s, unsigned times)
{
	s->ca_awaited += times;
}

static void its_authority_is_taken_once_and_must_stay(void **state)
{
	struct sandbox *s = create("box"), *other = create("other");

	(void)state;
	asked(s, 3);
	asked(other, 1);
	tell_ca(s->number, STR("of the worker that died before it"));
	assert_int_equal(s->ca_pem.n, 0);
	tell_ca(s->number, STR("of another"));
	assert_int_equal(s->ca_pem.n, 0);
	tell_ca(s->number, STR("pem"));
	assert_true(str_eq(buf_str(&s->ca_pem), STR("pem")));
	asked(s, 1);
	tell_ca(s->number, STR("pem"));
	tell_ca(3, STR("pem"));		/* of one that has ended */
	assert_int_equal(s->state, SANDBOX_STARTING);
	asked(s, 1);
	tell_ca(s->number, STR("another"));
	assert_int_equal(s->state, SANDBOX_ENDED);
	assert_string_equal(why_ended, "the broker has lost its certificate authority");
	tell_ca(other->number, STR_NONE);
	assert_int_equal(other->state, SANDBOX_ENDED);
	assert_string_equal(why_ended, "the broker made no certificate");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_name_is_one_sandboxs),
		CASE(a_number_is_used_again_when_all_others_were),
		CASE(one_that_does_not_start_in_time_is_ended_with_what_was_missing),
		CASE(one_that_runs_has_no_such_time),
		CASE(one_whose_maker_dies_is_ended),
		CASE(one_that_was_being_stopped_ends_when_its_maker_dies),
		CASE(one_that_was_being_stopped_ends_when_it_hears_that_there_is_no_wire_or_box),
		CASE(the_third_death_of_its_worker_is_its_end),
		CASE(what_is_said_of_the_worker_before_does_not_hit_the_next),
		CASE(each_join_has_a_number_of_its_own),
		CASE(its_authority_is_taken_once_and_must_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
