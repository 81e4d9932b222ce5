#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>

#include "sandbox/netlink.h"

/* Asks for a link that is not there: refused, whoever asks. */
static void add_refused(struct netlink *n, const char *what)
{
	struct nlmsghdr *h = netlink_message(n, RTM_NEWLINK, 0, what);
	struct ifinfomsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));

	m->ifi_index = 0x7ffffff0;
}

static void add_accepted(struct netlink *n, const char *what)
{
	/* NLMSG_NOOP is acknowledged and does nothing. */
	(void)netlink_message(n, NLMSG_NOOP, 0, what);
}

static void empty_batch_is_done_at_once(void **state)
{
	struct wire_error why = { "", 0 };
	struct netlink *n;

	(void)state;
	assert_int_equal(netlink_open(NETLINK_ROUTE, &n), OK);
	assert_int_equal(netlink_commit(n, &why), OK);
	netlink_close(n);
}

static void first_refused_step_is_named(void **state)
{
	struct wire_error why = { "", 0 };
	struct netlink *n;

	(void)state;
	assert_int_equal(netlink_open(NETLINK_ROUTE, &n), OK);
	add_accepted(n, "one");
	add_refused(n, "two");
	add_refused(n, "three");
	assert_int_equal(netlink_commit(n, &why), ERR_SYSTEM);
	assert_string_equal(why.what, "two");
	assert_true(why.code == ENODEV || why.code == EPERM);
	netlink_close(n);
}

static void answers_of_a_failed_batch_do_not_count_for_the_next(void **state)
{
	struct wire_error why = { "", 0 };
	struct netlink *n;

	(void)state;
	assert_int_equal(netlink_open(NETLINK_ROUTE, &n), OK);
	for (int i = 0; i < 3; i++)
		add_refused(n, "refused");
	assert_int_equal(netlink_commit(n, &why), ERR_SYSTEM);
	add_accepted(n, "accepted");
	assert_int_equal(netlink_commit(n, &why), OK);
	netlink_close(n);
}

static void batch_over_its_limit_is_not_sent_and_the_next_is(void **state)
{
	struct wire_error why = { "", 0 };
	struct netlink *n;

	(void)state;
	assert_int_equal(netlink_open(NETLINK_ROUTE, &n), OK);
	for (int i = 0; i <= NETLINK_BATCH_STEPS; i++)
		add_refused(n, "refused");
	assert_int_equal(netlink_commit(n, &why), ERR_LIMIT);
	assert_int_equal(why.code, EMSGSIZE);
	add_accepted(n, "accepted");
	assert_int_equal(netlink_commit(n, &why), OK);
	netlink_close(n);
}

static void discarded_batch_is_not_sent(void **state)
{
	struct wire_error why = { "", 0 };
	struct netlink *n;

	(void)state;
	assert_int_equal(netlink_open(NETLINK_ROUTE, &n), OK);
	add_refused(n, "refused");
	netlink_discard(n);
	assert_int_equal(netlink_commit(n, &why), OK);
	netlink_close(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_batch_is_done_at_once),
		cmocka_unit_test(first_refused_step_is_named),
		cmocka_unit_test(answers_of_a_failed_batch_do_not_count_for_the_next),
		cmocka_unit_test(batch_over_its_limit_is_not_sent_and_the_next_is),
		cmocka_unit_test(discarded_batch_is_not_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
