#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/names_world.h"

#include <fcntl.h>

#include "proxy/worker.h"

static const struct test_rule rules[] = {
	{ .id = "api", .hosts = { LIST("api.test") }, .ports = { LIST("443", "8080") } },
};

static struct world world;
static struct worker worker;
static struct channel *far_end;
static struct {
	unsigned resolved, dialed, leased, granted, leafs, hangups, taken;
	uint8_t status;
	int fd;
	uint64_t hung_up;
} got;

static void on_resolved(void *arg, const struct msg_resolved *m)
{
	(void)arg;
	got.resolved++;
	got.status = m->status;
}

static void on_leased(void *arg, const struct msg_leased *m)
{
	(void)arg;
	got.leased++;
	got.status = m->ok;
}

static void on_dialed(void *arg, const struct msg_dialed *m, int fd)
{
	(void)arg;
	got.dialed++;
	got.status = m->status;
	got.fd = fd;
}

static void on_leaf(void *arg, const struct msg_leaf_is *m)
{
	(void)arg;
	got.leafs++;
	got.status = m->ok;
}

static void on_granted(void *arg, const struct msg_granted *m)
{
	(void)arg;
	got.granted++;
	got.status = m->status;
}

static void on_access(void *arg, const struct msg_access_taken *m)
{
	(void)arg;
	got.taken++;
	got.status = m->number != 0;
	assert_true(m->number != 0 || m->why.n != 0);
}

static void on_far(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	(void)fds;
	(void)n_fds;
	if (type != MSG_HANGUP)
		return;
	got.hangups++;
	got.hung_up = ((const struct msg_hangup *)msg)->ticket;
}

static int setup(void **state)
{
	const struct channel_peer here = { .self = ROLE_WORKER, .other = ROLE_DIALER, .table = exeat_messages };
	const struct channel_peer there = { .self = ROLE_DIALER, .other = ROLE_WORKER, .table = exeat_messages,
					    .on_message = on_far };
	int fds[2];

	(void)state;
	memset(&worker, 0, sizeof(worker));
	memset(&got, 0, sizeof(got));
	got.fd = -1;
	world_open(&world);
	worker.base = world.base;
	worker.policy = MAKE_POLICY(rules);
	assert_int_equal(channel_pair(fds), OK);
	worker.dialer = channel_new(world.base, fds[0], &here);
	far_end = channel_new(world.base, fds[1], &there);
	channel_set_phase(worker.dialer, PHASE_RUN);
	channel_set_phase(far_end, PHASE_RUN);
	worker.asks = asks_new(&worker);
	assert_non_null(worker.asks);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	asks_free(worker.asks);
	channel_free(worker.dialer);
	channel_free(far_end);
	policy_free(worker.policy);
	world_close(&world);
	return 0;
}

static int some_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void an_answer_reaches_who_asked_once(void **state)
{
	struct msg_resolved m = { .status = RESOLVE_NODATA };

	(void)state;
	m.id = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
	assert_true(m.id != 0);
	assert_true(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	assert_int_equal(got.resolved, 1);
	assert_int_equal(got.status, RESOLVE_NODATA);
	assert_false(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	assert_int_equal(got.resolved, 1);
}

static void a_request_for_access_that_was_not_sent_has_no_answer(void **state)
{
	struct msg_access_taken m = { .number = 7 };

	(void)state;
	m.id = ask_access(&worker, STR("GET"), STR("https://x.test/"), STR("why"), on_access, NULL);
	/* Nobody was there to hear it: what comes now is no answer to it. */
	assert_false(asks_answer(&worker, MSG_ACCESS_TAKEN, &m, NULL, 0));
	assert_int_equal(got.taken, 0);
}

static void an_id_is_not_soon_used_again(void **state)
{
	ask_id first = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
	struct msg_resolved m = { .id = first };

	(void)state;
	assert_true(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	for (unsigned i = 0; i < 1000; i++) {
		m.id = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
		assert_true(m.id != first);
		assert_true(asks_answer(&worker, MSG_RESOLVED, &m, NULL, 0));
	}
}

static void an_answer_of_another_kind_is_nobodys(void **state)
{
	struct msg_dialed m = { .status = DIAL_OK, .ticket = 99 };
	int fd = some_fd();

	(void)state;
	m.id = ask_resolve(&worker, STR("api.test"), on_resolved, NULL);
	assert_false(asks_answer(&worker, MSG_DIALED, &m, &fd, 1));
	assert_int_equal(got.resolved + got.dialed, 0);
	assert_false(is_open(fd));
	WAIT_UNTIL(&world, got.hangups == 1);
	assert_true(got.hung_up == 99);
}

static void a_connection_comes_with_its_descriptor(void **state)
{
	struct msg_dialed m = { .status = DIAL_OK, .ticket = 7 };
	int fd = some_fd();

	(void)state;
	m.id = ask_dial(&worker, STR("api.test"), false, 443, on_dialed, NULL);
	assert_true(asks_answer(&worker, MSG_DIALED, &m, &fd, 1));
	assert_int_equal(got.fd, fd);
	close(fd);
}

static void a_connection_without_descriptor_is_a_failure(void **state)
{
	struct msg_dialed m = { .status = DIAL_OK, .ticket = 8 };

	(void)state;
	m.id = ask_dial(&worker, STR("api.test"), false, 443, on_dialed, NULL);
	assert_true(asks_answer(&worker, MSG_DIALED, &m, NULL, 0));
	assert_int_equal(got.status, DIAL_FAILED);
	assert_int_equal(got.fd, -1);
	WAIT_UNTIL(&world, got.hangups == 1);
}

static void what_was_cancelled_is_closed_and_hung_up_when_it_comes(void **state)
{
	struct msg_dialed m = { .status = DIAL_OK, .ticket = 9 };
	int fd = some_fd();

	(void)state;
	m.id = ask_dial(&worker, STR("api.test"), false, 443, on_dialed, NULL);
	ask_cancel(&worker, m.id);
	assert_true(asks_answer(&worker, MSG_DIALED, &m, &fd, 1));
	assert_int_equal(got.dialed, 0);
	assert_false(is_open(fd));
	WAIT_UNTIL(&world, got.hangups == 1);
	assert_true(got.hung_up == 9);
	assert_false(asks_answer(&worker, MSG_DIALED, &m, NULL, 0));
}

static void a_question_that_cannot_be_sent_fails_from_the_loop(void **state)
{
	(void)state;
	assert_true(ask_lease(&worker, STR("api.test"), on_leased, NULL) != 0);
	assert_true(ask_leaf(&worker, STR("api.test"), false, on_leaf, NULL) != 0);
	assert_true(ask_grant(&worker, 1, PROTO_HTTPS, STR("GET"), STR("/"), on_granted, NULL) != 0);
	assert_true(ask_access(&worker, STR("GET"), STR("https://x.test/"), STR_NONE, on_access, NULL) != 0);
	assert_int_equal(got.leased + got.leafs + got.granted + got.taken, 0);
	WAIT_UNTIL(&world, got.leased && got.leafs && got.granted && got.taken);
	assert_int_equal(got.status == GRANT_OK, 0);
}

static void a_failure_that_was_cancelled_does_not_come(void **state)
{
	(void)state;
	ask_cancel(&worker, ask_lease(&worker, STR("api.test"), on_leased, NULL));
	event_base_loop(world.base, EVLOOP_NONBLOCK);
	assert_int_equal(got.leased, 0);
}

static void past_the_limit_a_question_fails_as_over_quota(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ASKS_MAX; i++)
		assert_true(ask_resolve(&worker, STR("api.test"), on_resolved, NULL) != 0);
	assert_true(ask_resolve(&worker, STR("api.test"), on_resolved, NULL) != 0);
	WAIT_UNTIL(&world, got.resolved == 1);
	assert_int_equal(got.status, RESOLVE_QUOTA);
}

static void no_more_failures_wait_than_there_are_slots(void **state)
{
	unsigned n = 0;

	(void)state;
	while (n <= 2 * ASKS_MAX && ask_lease(&worker, STR("api.test"), on_leased, NULL))
		n++;
	assert_int_equal(n, 2 * ASKS_MAX);
	WAIT_UNTIL(&world, got.leased == n);
	assert_true(ask_lease(&worker, STR("api.test"), on_leased, NULL) != 0);
}

static void a_question_that_nobody_answers_fails_in_time_and_its_late_answer_is_known(void **state)
{
	const struct channel_peer here = { .self = ROLE_WORKER, .other = ROLE_SUPERVISOR,
					   .table = exeat_messages };
	struct msg_leased m = { .ok = 1 };
	int fds[2];

	(void)state;
	assert_int_equal(channel_pair(fds), OK);
	worker.supervisor = channel_new(world.base, fds[0], &here);
	channel_set_phase(worker.supervisor, PHASE_RUN);
	m.id = ask_lease(&worker, STR("api.test"), on_leased, NULL);
	WAIT_UNTIL(&world, got.leased == 1);
	assert_int_equal(got.status, 0);
	assert_true(asks_answer(&worker, MSG_LEASED, &m, NULL, 0));
	assert_false(asks_answer(&worker, MSG_LEASED, &m, NULL, 0));
	assert_int_equal(got.leased, 1);
	channel_free(worker.supervisor);
	close(fds[1]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_answer_reaches_who_asked_once),
		CASE(a_request_for_access_that_was_not_sent_has_no_answer),
		CASE(an_id_is_not_soon_used_again),
		CASE(an_answer_of_another_kind_is_nobodys),
		CASE(a_connection_comes_with_its_descriptor),
		CASE(a_connection_without_descriptor_is_a_failure),
		CASE(what_was_cancelled_is_closed_and_hung_up_when_it_comes),
		CASE(a_question_that_cannot_be_sent_fails_from_the_loop),
		CASE(a_failure_that_was_cancelled_does_not_come),
		CASE(past_the_limit_a_question_fails_as_over_quota),
		CASE(no_more_failures_wait_than_there_are_slots),
		CASE(a_question_that_nobody_answers_fails_in_time_and_its_late_answer_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
