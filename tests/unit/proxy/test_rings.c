/* The rings as a recorder and its successors are told of them. */
#include "tests/unit/proxy/appliance_rig.h"

static struct fake recorder;

static void on_message(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_ring_end *m = msg;

	assert_int_equal(type, MSG_RING_ENDED);
	channel_close_fds(fds, n_fds);
	rings_ended(p->a, m->number);
}

static const struct part_hooks hooks = { .message = on_message };

static int setup(void **state)
{
	(void)state;
	rig_open();
	memset(&recorder, 0, sizeof(recorder));
	part_init(&rig, &rig.recorder, ROLE_RECORDER, &hooks, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_free(&recorder);
	rig_close();
	return 0;
}

static void recorder_lives(void)
{
	fake_adopt(&recorder, &rig.recorder);
	fake_ready(&recorder, &rig.recorder);
}

static void lose_recorder(void)
{
	pid_t pid = recorder.pid;

	fake_free(&recorder);
	rig_reap(pid, WEXITED);
	assert_int_equal(rig.recorder.state, PART_NONE);
}

static unsigned heard(uint16_t type)
{
	unsigned n = 0;

	for (unsigned i = 0; i < recorder.n; i++)
		n += recorder.heard[i] == type;
	return n;
}

static void tell_ended(uint32_t number)
{
	struct msg_ring_end m = { .number = number };

	assert_int_equal(channel_send(recorder.c, MSG_RING_ENDED, &m, NULL, 0), OK);
	rig_turn();
}

static void a_ring_is_given_when_it_is_made(void **state)
{
	struct ring_slot *r;

	(void)state;
	recorder_lives();
	r = rings_add(&rig, ROLE_WORKER, "box", STR("abc"));
	assert_non_null(r);
	rig_until(recorder.n == 1);
	assert_int_equal(recorder.heard[0], MSG_RING);
	assert_int_equal(recorder.ring.number, r->number);
	assert_int_equal(recorder.ring.role, ROLE_WORKER);
	assert_string_equal(recorder.text, "abc");
}

static void none_is_given_to_a_recorder_that_is_not_ready(void **state)
{
	(void)state;
	fake_adopt(&recorder, &rig.recorder);
	assert_non_null(rings_add(&rig, ROLE_WORKER, "box", STR("abc")));
	rig_turn();
	assert_int_equal(recorder.n, 0);
	fake_ready(&recorder, &rig.recorder);
	rings_give_all(&rig);
	rig_until(heard(MSG_RING) == 1);
}

static void numbers_are_not_used_again(void **state)
{
	struct ring_slot *first, *second;
	uint32_t number;

	(void)state;
	recorder_lives();
	first = rings_add(&rig, ROLE_WORKER, "box", STR_NONE);
	number = first->number;
	rings_end(&rig, first);
	tell_ended(number);
	assert_null(rig.rings);
	second = rings_add(&rig, ROLE_WORKER, "box", STR_NONE);
	assert_int_not_equal(second->number, number);
}

static void a_ring_is_kept_until_it_is_read_to_its_end(void **state)
{
	struct ring_slot *r;
	uint32_t number;

	(void)state;
	recorder_lives();
	r = rings_add(&rig, ROLE_WORKER, "box", STR_NONE);
	number = r->number;
	tell_ended(number);	/* it was not asked for that */
	assert_ptr_equal(rig.rings, r);
	rings_end(&rig, r);
	rig_until(heard(MSG_RING_END) == 1);
	assert_ptr_equal(rig.rings, r);
	tell_ended(number + 1);
	assert_ptr_equal(rig.rings, r);
	tell_ended(number);
	assert_null(rig.rings);
}

/* What its writer and its end have said while no recorder was there. */
static void a_successor_is_given_all_with_ends_and_both_policies(void **state)
{
	struct ring_slot *living, *ending;

	(void)state;
	recorder_lives();
	living = rings_add(&rig, ROLE_WORKER, "box", STR("one"));
	ending = rings_add(&rig, ROLE_DIALER, "", STR_NONE);
	rig_until(heard(MSG_RING) == 2);
	lose_recorder();
	rings_set_policy(&rig, living, STR("two"));
	rings_end(&rig, ending);
	recorder_lives();
	rings_give_all(&rig);
	rig_until(recorder.n == 4);
	assert_int_equal(heard(MSG_RING), 2);
	assert_int_equal(heard(MSG_RING_END), 1);
	assert_int_equal(heard(MSG_RING_POLICY), 1);
	assert_string_equal(living->policy_before, "one");
	assert_string_equal(living->policy, "two");
	tell_ended(ending->number);
	assert_ptr_equal(rig.rings, living);
	assert_null(living->next);
}

static void a_policy_is_told_to_who_reads_now(void **state)
{
	struct ring_slot *r;

	(void)state;
	recorder_lives();
	r = rings_add(&rig, ROLE_WORKER, "box", STR("one"));
	rings_set_policy(&rig, r, STR("two"));
	rig_until(heard(MSG_RING_POLICY) == 1);
	assert_string_equal(recorder.text, "two");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_ring_is_given_when_it_is_made),
		CASE(none_is_given_to_a_recorder_that_is_not_ready),
		CASE(numbers_are_not_used_again),
		CASE(a_ring_is_kept_until_it_is_read_to_its_end),
		CASE(a_successor_is_given_all_with_ends_and_both_policies),
		CASE(a_policy_is_told_to_who_reads_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
