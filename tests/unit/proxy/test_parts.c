/* A role's process from its order to its end, by a launcher and a nursery that the test speaks for. */
#include "tests/unit/proxy/appliance_rig.h"

#include <stdlib.h>

static struct part dialer;
static struct fake launcher[2], nursery, it;
static struct {
	unsigned started, ready, lost, ended, messages;
	bool refuse_start;
	char why[128];
	int status;
	pid_t gone;
} said;

/* ---- hooks ---- */

static bool on_started(struct part *p)
{
	(void)p;
	said.started++;
	return !said.refuse_start;
}

static void on_ready(struct part *p)
{
	assert_int_equal(p->state, PART_READY);
	said.ready++;
}

static void on_heard(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	if (type == MSG_LAUNCHED) {
		parts_launched(p, msg, fds, n_fds);
		return;
	}
	channel_close_fds(fds, n_fds);
	said.messages++;
}

static void on_lost(struct part *p)
{
	assert_int_equal(p->state, PART_NONE);
	assert_null(p->channel);
	said.lost++;
	said.status = p->status;
	said.gone = p->gone;
	snprintf(said.why, sizeof(said.why), "%s", p->why ? p->why : "");
}

static void on_ended(struct part *p)
{
	assert_int_equal(p->state, PART_NONE);
	said.ended++;
}

static const struct part_hooks hooks = { .started = on_started, .ready = on_ready, .message = on_heard,
					 .lost = on_lost, .ended = on_ended };
static const struct part_hooks starter_hooks = { .message = on_heard };

/* ---- the world ---- */

static int setup(void **state)
{
	(void)state;
	rig_open();
	memset(&said, 0, sizeof(said));
	memset(launcher, 0, sizeof(launcher));
	memset(&nursery, 0, sizeof(nursery));
	memset(&it, 0, sizeof(it));
	part_init(&rig, &rig.launcher[0], ROLE_LAUNCHER, &starter_hooks, NULL);
	part_init(&rig, &rig.launcher[1], ROLE_LAUNCHER, &starter_hooks, NULL);
	part_init(&rig, &rig.nursery, ROLE_NURSERY, &starter_hooks, NULL);
	part_init(&rig, &dialer, ROLE_DIALER, &hooks, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_free(&launcher[0]);
	fake_free(&launcher[1]);
	fake_free(&nursery);
	fake_free(&it);
	rig_close();
	return 0;
}

static void launcher_ready(unsigned i)
{
	fake_adopt(&launcher[i], &rig.launcher[i]);
	fake_ready(&launcher[i], &rig.launcher[i]);
}

/* @by says that it has started the process it was last asked for. The role's end is @f's. */
static void launched(struct fake *by, struct fake *f, enum role role)
{
	struct msg_launched m = { .id = by->launch.id, .pid = (uint32_t)rig_child() };
	int ends[2];

	assert_int_equal(channel_pair(ends), OK);
	fake_take(f, role, ends[1], (pid_t)m.pid);
	assert_int_equal(channel_send(by->c, MSG_LAUNCHED, &m, ends, 1), OK);
	close(ends[0]);
}

/* The dialer, ready. */
static void live(void)
{
	fake_adopt(&it, &dialer);
	fake_ready(&it, &dialer);
}

static void past(struct part *p, uint64_t ms)
{
	p->since_ms -= ms;
	if (p->pinged_ms)
		p->pinged_ms -= ms;
}

/* ---- cases: the order ---- */

static void an_order_goes_to_a_launcher_and_a_workers_to_the_nursery(void **state)
{
	struct part worker;

	(void)state;
	launcher_ready(1);
	part_want(&dialer);
	rig_until(launcher[1].n == 1);
	assert_int_equal(launcher[1].launch.role, ROLE_DIALER);
	part_init(&rig, &worker, ROLE_WORKER, &hooks, NULL);
	part_want(&worker);
	rig_turn();
	assert_int_equal(launcher[1].n, 1);
	fake_adopt(&nursery, &rig.nursery);
	fake_ready(&nursery, &rig.nursery);
	parts_order_wanted(&rig);
	rig_until(nursery.n == 1);
	assert_int_equal(nursery.launch.role, ROLE_WORKER);
	assert_int_equal(launcher[1].n, 1);
	part_end(&worker);
	part_remove(&worker);
}

static void what_is_wanted_is_ordered_once_when_somebody_can_start_it(void **state)
{
	(void)state;
	part_want(&dialer);
	assert_int_equal(dialer.state, PART_WANTED);
	parts_order_wanted(&rig);
	assert_null(dialer.orderer);
	launcher_ready(0);
	parts_order_wanted(&rig);
	parts_order_wanted(&rig);
	rig_until(launcher[0].n == 1);
	rig_turn();
	assert_int_equal(launcher[0].n, 1);
}

static void it_is_started_then_ready(void **state)
{
	(void)state;
	launcher_ready(0);
	part_want(&dialer);
	rig_until(launcher[0].n == 1);
	launched(&launcher[0], &it, ROLE_DIALER);
	rig_until(dialer.state == PART_STARTING);
	assert_int_equal(said.started, 1);
	assert_int_equal(said.ready, 0);
	assert_int_equal(dialer.pid, it.pid);
	fake_ready(&it, &dialer);
	assert_int_equal(said.ready, 1);
	assert_int_equal(said.lost, 0);
}

static void one_that_cannot_be_told_its_start_is_lost(void **state)
{
	(void)state;
	said.refuse_start = true;
	fake_adopt(&it, &dialer);
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.lost, 1);
	assert_string_equal(said.why, "could not be told its start");
	assert_int_equal(said.gone, it.pid);
}

static void one_that_cannot_be_started_is_lost_with_the_reason(void **state)
{
	struct msg_launched m = { .code = ENOENT };

	(void)state;
	launcher_ready(0);
	part_want(&dialer);
	rig_until(launcher[0].n == 1);
	m.id = launcher[0].launch.id;
	assert_int_equal(channel_send(launcher[0].c, MSG_LAUNCHED, &m, NULL, 0), OK);
	rig_until(said.lost);
	assert_string_equal(said.why, "cannot be started: No such file or directory");
	assert_int_equal(said.gone, 0);
	assert_int_equal(said.started, 0);
}

/* Its death was signalled while nobody knew of it. */
static void one_that_died_before_it_was_told_of_is_lost(void **state)
{
	pid_t pid;
	int ends[2];
	struct msg_launched m;

	(void)state;
	launcher_ready(0);
	part_want(&dialer);
	rig_until(launcher[0].n == 1);
	pid = rig_child();
	kill(pid, SIGKILL);
	rig_reap(pid, WEXITED);
	assert_int_equal(said.lost, 0);
	m = (struct msg_launched){ .id = launcher[0].launch.id, .pid = (uint32_t)pid };
	assert_int_equal(channel_pair(ends), OK);
	assert_int_equal(channel_send(launcher[0].c, MSG_LAUNCHED, &m, ends, 1), OK);
	close(ends[0]);
	close(ends[1]);
	rig_until(said.lost == 1);
	assert_int_equal(dialer.state, PART_NONE);
	assert_int_equal(said.gone, pid);
	assert_int_equal(WTERMSIG(said.status), SIGKILL);
}

static void one_that_is_not_wanted_any_more_is_killed(void **state)
{
	(void)state;
	launcher_ready(0);
	part_want(&dialer);
	rig_until(launcher[0].n == 1);
	part_end(&dialer);
	assert_int_equal(said.ended, 1);
	launched(&launcher[0], &it, ROLE_DIALER);
	rig_until(it.closed);
	assert_int_equal(kill(it.pid, 0), -1);	/* reaped, too */
	it.pid = 0;
	assert_int_equal(said.started + said.lost, 0);
	assert_int_equal(dialer.state, PART_NONE);
}

static void an_answer_from_who_was_not_asked_ends_who_gave_it(void **state)
{
	(void)state;
	launcher_ready(0);
	launcher_ready(1);
	part_want(&dialer);
	rig_until(launcher[0].n == 1);
	launcher[1].launch = launcher[0].launch;
	launched(&launcher[1], &it, ROLE_DIALER);
	rig_until(rig.launcher[1].state == PART_ENDING);
	assert_string_equal(rig.launcher[1].why, "a process that was not ordered");
	assert_int_equal(said.started, 0);
	assert_int_equal(dialer.state, PART_WANTED);
}

static void what_a_launcher_had_promised_the_other_starts(void **state)
{
	struct fake late;

	(void)state;
	launcher_ready(0);
	launcher_ready(1);
	part_want(&dialer);
	rig_until(launcher[0].n == 1);
	kill(launcher[0].pid, SIGKILL);
	rig_reap(launcher[0].pid, WEXITED);
	launcher[0].pid = 0;
	assert_null(dialer.orderer);
	parts_order_wanted(&rig);
	rig_until(launcher[1].n == 1);
	assert_int_not_equal(launcher[1].launch.id, launcher[0].launch.id);
	launched(&launcher[1], &late, ROLE_DIALER);
	rig_until(dialer.state == PART_STARTING);
	assert_int_equal(dialer.pid, late.pid);
	fake_free(&late);
}

/* Started by a launcher that died before it could say so. */
static void a_child_that_nobody_told_of_is_reaped(void **state)
{
	pid_t child;
	siginfo_t info;

	(void)state;
	launcher_ready(0);
	part_want(&dialer);
	child = rig_child();
	kill(child, SIGKILL);
	rig_reap(child, WEXITED);
	/* It may be the one that was ordered. */
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT | WNOHANG), 0);
	kill(launcher[0].pid, SIGKILL);
	rig_reap(launcher[0].pid, WEXITED);
	launcher[0].pid = 0;
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT | WNOHANG), -1);
}

/* ---- cases: the end ---- */

static void one_that_died_is_lost_with_how(void **state)
{
	(void)state;
	live();
	kill(it.pid, SIGUSR1);
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.lost, 1);
	assert_true(WIFSIGNALED(said.status));
	assert_int_equal(WTERMSIG(said.status), SIGUSR1);
	assert_string_equal(said.why, "");
	assert_int_equal(said.gone, it.pid);
	assert_int_equal(dialer.pid, 0);
	it.pid = 0;
}

static void one_that_exits_is_lost_with_its_status(void **state)
{
	pid_t pid = fork();
	int ends[2];

	(void)state;
	if (pid == 0)
		_exit(3);
	assert_int_equal(channel_pair(ends), OK);
	fake_take(&it, ROLE_DIALER, ends[1], 0);
	part_adopt(&dialer, ends[0], pid);
	rig_reap(pid, WEXITED);
	assert_int_equal(said.lost, 1);
	assert_true(WIFEXITED(said.status));
	assert_int_equal(WEXITSTATUS(said.status), 3);
}

static void one_whose_channel_ends_is_killed(void **state)
{
	(void)state;
	live();
	channel_free(it.c);
	it.c = NULL;
	rig_until(dialer.state == PART_ENDING);
	assert_int_equal(said.lost, 0);		/* until it is reaped */
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.lost, 1);
	assert_string_equal(said.why, "");	/* how it died says more */
}

static void one_that_is_stopped_is_killed(void **state)
{
	(void)state;
	live();
	kill(it.pid, SIGSTOP);
	rig_reap(it.pid, WSTOPPED);
	assert_int_equal(dialer.state, PART_ENDING);
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.lost, 1);
	assert_string_equal(said.why, "was stopped by a signal");
	assert_int_equal(WTERMSIG(said.status), SIGKILL);
}

static void one_that_ends_as_asked_is_not_lost(void **state)
{
	(void)state;
	live();
	part_end(&dialer);
	assert_int_equal(dialer.state, PART_ENDING);
	rig_until(it.closed);
	kill(it.pid, SIGTERM);
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.ended, 1);
	assert_int_equal(said.lost, 0);
}

static void one_that_does_not_end_as_asked_is_killed(void **state)
{
	(void)state;
	live();
	part_end(&dialer);
	parts_tick(&rig);
	assert_int_equal(kill(it.pid, 0), 0);
	past(&dialer, ROLE_END_MS);
	parts_tick(&rig);
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.ended, 1);
	assert_int_equal(said.lost, 0);
}

static void who_is_told_what_it_cannot_take_is_lost(void **state)
{
	struct msg_ping m = { 0 };

	(void)state;
	live();
	channel_free(it.c);
	it.c = NULL;
	assert_int_not_equal(part_send(&dialer, MSG_PING, &m, NULL, 0), OK);
	assert_int_equal(dialer.state, PART_ENDING);
	assert_int_equal(part_send(&dialer, MSG_PING, &m, NULL, 0), ERR_CLOSED);
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.lost, 1);
}

/* ---- cases: ages ---- */

static void one_that_answers_is_asked_again_and_left_alone(void **state)
{
	struct msg_ping m = { 0 };

	(void)state;
	live();
	parts_tick(&rig);
	assert_int_equal(dialer.pinged_ms, 0);
	for (unsigned i = 1; i <= 3; i++) {
		past(&dialer, PING_MS);
		parts_tick(&rig);
		assert_int_not_equal(dialer.pinged_ms, 0);
		rig_until(it.n == i);
		assert_int_equal(it.heard[i - 1], MSG_PING);
		past(&dialer, PING_PATIENCE_MS / 2);
		parts_tick(&rig);
		assert_int_equal(dialer.state, PART_READY);
		assert_int_equal(channel_send(it.c, MSG_PONG, &m, NULL, 0), OK);
		rig_until(dialer.pinged_ms == 0);
	}
	assert_int_equal(said.messages, 0);
}

static void one_that_does_not_answer_is_killed(void **state)
{
	(void)state;
	live();
	past(&dialer, PING_MS);
	parts_tick(&rig);
	rig_until(it.n == 1);
	past(&dialer, PING_PATIENCE_MS);
	parts_tick(&rig);
	assert_int_equal(it.n, 1);	/* asked once */
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.lost, 1);
	assert_string_equal(said.why, "does not answer");
	assert_int_equal(WTERMSIG(said.status), SIGKILL);
}

static void one_that_does_not_get_ready_is_killed(void **state)
{
	(void)state;
	fake_adopt(&it, &dialer);
	past(&dialer, ROLE_READY_MS - 1000);
	parts_tick(&rig);
	assert_int_equal(dialer.state, PART_STARTING);
	past(&dialer, 1000);
	parts_tick(&rig);
	rig_reap(it.pid, WEXITED);
	assert_int_equal(said.lost, 1);
	assert_string_equal(said.why, "did not get ready");
}

/* As a worker, until dialer and broker are there. */
static void one_that_waits_for_others_has_its_time_from_when_it_is_told(void **state)
{
	(void)state;
	fake_adopt(&it, &dialer);
	dialer.waiting = true;
	past(&dialer, 10 * ROLE_READY_MS);
	parts_tick(&rig);
	assert_int_equal(dialer.state, PART_STARTING);
	part_told(&dialer);
	parts_tick(&rig);
	assert_int_equal(dialer.state, PART_STARTING);
	past(&dialer, ROLE_READY_MS);
	parts_tick(&rig);
	assert_int_equal(dialer.state, PART_ENDING);
	rig_reap(it.pid, WEXITED);
}

static void deaths_are_counted_within_a_window(void **state)
{
	struct part p = { .a = &rig };

	(void)state;
	assert_false(part_crashed(&p, 3));
	assert_false(part_crashed(&p, 3));
	assert_true(part_crashed(&p, 3));
	for (size_t i = 0; i < SHARED_CRASHES_MAX; i++)
		p.crashes[i] = p.crashes[i] ? p.crashes[i] - CRASH_WINDOW_MS : 0;
	assert_false(part_crashed(&p, 3));
	assert_false(part_crashed(&p, 3));
	assert_true(part_crashed(&p, 3));
	assert_false(part_crashed(&p, SHARED_CRASHES_MAX));
	assert_true(part_crashed(&p, SHARED_CRASHES_MAX));
}

/* ---- what hooks may do ---- */

static struct part *passing;

static void free_it(struct part *p)
{
	said.lost++;
	part_remove(p);
	free(p);
	passing = NULL;
}

static void a_hook_may_free_its_part(void **state)
{
	static const struct part_hooks passing_hooks = { .lost = free_it, .ended = free_it };

	(void)state;
	for (unsigned asked = 0; asked < 2; asked++) {
		struct fake f;

		passing = calloc(1, sizeof(*passing));
		part_init(&rig, passing, ROLE_READER, &passing_hooks, NULL);
		fake_adopt(&f, passing);
		if (asked)
			part_end(passing);
		kill(f.pid, SIGKILL);
		rig_reap(f.pid, WEXITED);
		assert_int_equal(said.lost, asked + 1);
		assert_null(passing);
		f.pid = 0;
		fake_free(&f);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_order_goes_to_a_launcher_and_a_workers_to_the_nursery),
		CASE(what_is_wanted_is_ordered_once_when_somebody_can_start_it),
		CASE(it_is_started_then_ready),
		CASE(one_that_cannot_be_told_its_start_is_lost),
		CASE(one_that_cannot_be_started_is_lost_with_the_reason),
		CASE(one_that_died_before_it_was_told_of_is_lost),
		CASE(one_that_is_not_wanted_any_more_is_killed),
		CASE(an_answer_from_who_was_not_asked_ends_who_gave_it),
		CASE(what_a_launcher_had_promised_the_other_starts),
		CASE(a_child_that_nobody_told_of_is_reaped),
		CASE(one_that_died_is_lost_with_how),
		CASE(one_that_exits_is_lost_with_its_status),
		CASE(one_whose_channel_ends_is_killed),
		CASE(one_that_is_stopped_is_killed),
		CASE(one_that_ends_as_asked_is_not_lost),
		CASE(one_that_does_not_end_as_asked_is_killed),
		CASE(who_is_told_what_it_cannot_take_is_lost),
		CASE(one_that_answers_is_asked_again_and_left_alone),
		CASE(one_that_does_not_answer_is_killed),
		CASE(one_that_does_not_get_ready_is_killed),
		CASE(one_that_waits_for_others_has_its_time_from_when_it_is_told),
		CASE(deaths_are_counted_within_a_window),
		CASE(a_hook_may_free_its_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
