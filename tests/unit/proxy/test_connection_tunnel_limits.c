/* What ends what is not opened: limits, a new policy, and other roles. */
#include "tests/unit/proxy/tunnel_rig.h"

/* ---- limits ---- */

#define LIMITED(...) { { .id = "limited", .host = "*.test", .protos = PROTO_TCP, .foreign = -1, \
			 .limits = { __VA_ARGS__ } } }

static void bytes_past_a_limit_end_it_by_a_reset(void **state)
{
	static const struct rig_rule upload[] = LIMITED(.upload = 4), download[] = LIMITED(.download = 4);
	struct rig r;
	struct peer c;

	(void)state;
	OPEN_RIG(&r, upload);
	r.script = NULL;
	start_raw(&r, &c);
	peer_send(&c, "12");
	rig_until(&r, peer_has(&r.origin[0], "up12"));
	peer_send(&c, "3");
	rig_until(&r, is_reset(&c) && is_reset(&r.origin[0]));
	rig_until(&r, log_has(&r, "\"verdict\":\"deny\",\"rule\":\"limited\",\"rule_at\":\"test.yaml:1\","
				  "\"reason\":\"limit-reached: upload of 4 bytes\""));
	assert_true(log_has(&r, "\"bytes_up\":4,"));
	peer_close(&c);
	rig_close(&r);
	OPEN_RIG(&r, download);
	r.script = greet;
	client_plain(&r, &c, "raw.test");
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "limit-reached: download of 4 bytes"));
	peer_close(&c);
	rig_close(&r);
}

static void so_many_at_once_and_no_more(void **state)
{
	static const struct rig_rule two[] = LIMITED(.concurrent = 2);
	struct rig r;
	struct peer c[4];

	(void)state;
	OPEN_RIG(&r, two);
	r.script = NULL;
	start_raw(&r, &c[0]);
	start_raw(&r, &c[1]);
	client_plain(&r, &c[2], "other.test");
	rig_until(&r, is_reset(&c[2]));
	rig_until(&r, log_has(&r, "limit-reached: 2 at once, by limited"));
	assert_int_equal(r.dials, 2);
	peer_reset(&c[0]);
	rig_until(&r, r.hangups == 1);
	start_raw(&r, &c[3]);
	for (int i = 1; i < 4; i++)
		peer_close(&c[i]);
	rig_close(&r);
}

static void time_limits_of_the_rule_end_it(void **state)
{
	static const struct rig_rule idle[] = LIMITED(.idle_s = 1), total[] = LIMITED(.total_s = 1);
	struct rig r;
	struct peer c;

	(void)state;
	OPEN_RIG(&r, idle);
	r.script = NULL;
	start_raw(&r, &c);
	rig_until(&r, is_reset(&c) && is_reset(&r.origin[0]));
	rig_until(&r, log_has(&r, "limit-reached: 1 seconds without a byte"));
	peer_close(&c);
	rig_close(&r);
	OPEN_RIG(&r, total);
	r.script = NULL;
	start_raw(&r, &c);
	while (!c.ended) {
		peer_send(&c, "x");
		event_base_loop(r.base, EVLOOP_ONCE);
	}
	rig_until(&r, log_has(&r, "limit-reached: 1 seconds in all"));
	peer_close(&c);
	rig_close(&r);
}

static void without_a_limit_of_its_rule_the_settings_idle_holds(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	r.w.idle_ms = 100;
	start_raw(&r, &c);
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "\"ended\":\"idle\""));
	peer_close(&c);
	rig_close(&r);
}

/* ---- a new policy ---- */

static const struct rig_rule nothing[] = {
	{ .id = "closed", .host = "*.test", .deny = true, .foreign = -1 },
};

static void what_a_new_policy_denies_is_reset(void **state)
{
	static const struct rig_rule by_address[] = {
		RAW, SEALED, { .id = "closed", .address = "203.0.113.10/32", .deny = true, .foreign = -1 },
	};
	struct rig r;
	struct peer c[2];

	(void)state;
	for (int by = 0; by < 2; by++) {
		open_rig(&r);
		start_raw(&r, &c[0]);
		start_sealed(&r, &c[1], "api.test");
		rig_until(&r, r.n_origins == 2 && r.origin[1].got.n);
		if (by)
			NEW_POLICY(&r, by_address);
		else
			NEW_POLICY(&r, nothing);
		for (int i = 0; i < 2; i++) {
			rig_until(&r, is_reset(&c[i]) && is_reset(&r.origin[i]));
			peer_close(&c[i]);
		}
		rig_until(&r, log_has(&r, "\"verdict\":\"deny\",\"rule\":\"closed\",\"rule_at\":\"test.yaml:1\","
					  "\"reason\":\"a new policy denies it: because\""));
		rig_close(&r);
	}
}

static void what_a_new_policy_allows_goes_on(void **state)
{
	struct rig r;
	struct peer c[2];

	(void)state;
	open_rig(&r);
	start_raw(&r, &c[0]);
	start_sealed(&r, &c[1], "api.test");
	rig_until(&r, r.n_origins == 2 && r.origin[1].got.n);
	NEW_POLICY(&r, rules);
	NEW_POLICY(&r, rules);
	for (int i = 0; i < 2; i++) {
		peer_send(&r.origin[i], "still");
		rig_until(&r, peer_has(&c[i], "still"));
		peer_close(&c[i]);
	}
	rig_close(&r);
}

static void a_new_policy_that_would_open_it_ends_it(void **state)
{
	static const struct rig_rule opened[] = {
		{ .id = "opened", .host = "api.test", .protos = PROTO_HTTPS, .foreign = -1 },
	};
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	start_sealed(&r, &c, "api.test");
	rig_until(&r, r.n_origins == 1 && r.origin[0].got.n);
	NEW_POLICY(&r, opened);
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "\"verdict\":\"deny\",\"rule\":\"opened\""));
	peer_close(&c);
	rig_close(&r);
}

static void a_new_policy_while_it_is_dialled_is_told_by_reset_or_alert(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	for (int sealed = 0; sealed < 2; sealed++) {
		open_rig(&r);
		fill_ring(&r);	/* so that it stays where it is */
		if (sealed)
			start_sealed(&r, &c, "api.test");
		else
			client_plain(&r, &c, "raw.test");
		rig_until(&r, r.dials == 1 && r.n_origins == 1);
		turns(&r);
		NEW_POLICY(&r, nothing);
		rig_until(&r, sealed ? is_alert(&c, 49) : is_reset(&c));
		rig_until(&r, r.hangups == 1);
		assert_int_equal(r.origin[0].got.n, 0);
		rig_until(&r, log_has(&r, "a new policy denies it: because"));
		peer_close(&c);
		rig_close(&r);
	}
}

static void new_limits_hold_for_what_runs(void **state)
{
	static const struct rig_rule free_rule[] = LIMITED(.concurrent = 9),
				     upload[] = LIMITED(.upload = 3, .concurrent = 1);
	struct rig r;
	struct peer c[2];

	(void)state;
	OPEN_RIG(&r, free_rule);
	r.script = NULL;
	start_raw(&r, &c[0]);
	start_raw(&r, &c[1]);
	NEW_POLICY(&r, upload);
	turns(&r);
	assert_false(c[0].ended || c[1].ended);
	peer_send(&c[1], "12");
	rig_until(&r, is_reset(&c[1]));
	assert_false(c[0].ended);
	peer_close(&c[0]);
	peer_close(&c[1]);
	rig_close(&r);
}

/* ---- other roles ---- */

static void a_dialer_that_dies_takes_no_tunnel_along(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	start_raw(&r, &c);
	rig_lose(&r, ROLE_DIALER);
	rig_replace(&r, ROLE_DIALER);
	peer_send(&r.origin[0], "alive");
	rig_until(&r, peer_has(&c, "alive"));
	peer_close(&c);
	start_raw(&r, &c);
	peer_close(&c);
	rig_close(&r);
}

static void who_goes_while_it_is_dialled_is_no_tunnel(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	client_plain(&r, &c, "raw.test");
	peer_reset(&c);
	rig_until(&r, log_has(&r, "\"phase\":\"close\""));
	rig_until(&r, r.hangups == 1);
	rig_until(&r, r.n_origins == 1 && r.origin[0].ended);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_past_a_limit_end_it_by_a_reset),
		cmocka_unit_test(so_many_at_once_and_no_more),
		cmocka_unit_test(time_limits_of_the_rule_end_it),
		cmocka_unit_test(without_a_limit_of_its_rule_the_settings_idle_holds),
		cmocka_unit_test(what_a_new_policy_denies_is_reset),
		cmocka_unit_test(what_a_new_policy_allows_goes_on),
		cmocka_unit_test(a_new_policy_that_would_open_it_ends_it),
		cmocka_unit_test(a_new_policy_while_it_is_dialled_is_told_by_reset_or_alert),
		cmocka_unit_test(new_limits_hold_for_what_runs),
		cmocka_unit_test(a_dialer_that_dies_takes_no_tunnel_along),
		cmocka_unit_test(who_goes_while_it_is_dialled_is_no_tunnel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
