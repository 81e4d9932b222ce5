/* Connections to origins: which request goes out on which, and what becomes of those that are idle. */
#include <sys/resource.h>

#include "proxy/pool.h"
#include "tests/unit/proxy/engine_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"

static size_t heads(const struct peer *p)
{
	const char *at = p->got.p, *end = p->got.p + p->got.n;
	size_t n = 0;

	while (at && at < end && (at = memmem(at, (size_t)(end - at), "\r\n\r\n", 4))) {
		at += 4;
		n++;
	}
	return n;
}

static void answer_all(struct peer *p)
{
	for (; p->requests < heads(p); p->requests++)
		buf_put_str(stream_out(p->stream), str_of(p->rig->reply));
}

static void open_rig(struct rig *r)
{
	rig_open(r);
	r->script = answer_all;
}

static void say_nothing(struct peer *p)
{
	(void)p;
}

static void let_all_answer(struct rig *r)
{
	r->script = answer_all;
	for (size_t i = 0; i < r->n_origins; i++) {
		r->origin[i].script = answer_all;
		answer_all(&r->origin[i]);
		stream_settle(r->origin[i].stream);
	}
}

static size_t asked(const struct rig *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_origins; i++)
		n += heads(&r->origin[i]);
	return n;
}

static void a_new_connection_of_the_box_goes_on_with_one_that_is_there(void **state)
{
	struct rig r;
	struct peer a, b;

	(void)state;
	open_rig(&r);
	ask_plain(&r, &a, "web.test", GET, "\r\n\r\nhi");
	peer_close(&a);
	ask_plain(&r, &b, "web.test", GET, "\r\n\r\nhi");
	assert_int_equal(r.dials, 1);
	assert_int_equal(pool_count(r.w.upstreams), 1);
	peer_close(&b);
	rig_close(&r);
}

static void another_name_gets_another_connection(void **state)
{
	struct rig r;
	struct peer a, b;

	(void)state;
	open_rig(&r);
	ask_plain(&r, &a, "web.test", GET, "\r\n\r\nhi");
	ask_plain(&r, &b, "api.test", "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", "HTTP/1.1 ");
	assert_true(pool_count(r.w.upstreams) <= r.dials);
	assert_int_equal(heads(&r.origin[0]), 1);
	peer_close(&a);
	peer_close(&b);
	rig_close(&r);
}

static void one_request_at_a_time_is_on_a_connection(void **state)
{
	struct rig r;
	struct peer a, b;

	(void)state;
	open_rig(&r);
	r.script = say_nothing;
	client_plain(&r, &a, "web.test");
	client_plain(&r, &b, "web.test");
	peer_send(&a, GET);
	peer_send(&b, GET);
	rig_until(&r, asked(&r) == 2);
	assert_int_equal(r.dials, 2);
	let_all_answer(&r);
	rig_until(&r, peer_has(&a, "\r\n\r\nhi") && peer_has(&b, "\r\n\r\nhi"));
	rig_until(&r, pool_idle(r.w.upstreams) == 2);
	peer_close(&a);
	peer_close(&b);
	rig_close(&r);
}

static void an_idle_one_that_the_origin_closes_is_gone_at_once(void **state)
{
	struct rig r;
	struct peer a;

	(void)state;
	open_rig(&r);
	ask_plain(&r, &a, "web.test", GET, "\r\n\r\nhi");
	rig_until(&r, pool_idle(r.w.upstreams) == 1);
	peer_close(&r.origin[0]);
	rig_until(&r, pool_count(r.w.upstreams) == 0);
	rig_until(&r, r.hangups == 1);
	peer_close(&a);
	rig_close(&r);
}

static void an_idle_one_that_speaks_without_being_asked_is_used_no_more(void **state)
{
	struct rig r;
	struct peer a;

	(void)state;
	open_rig(&r);
	ask_plain(&r, &a, "web.test", GET, "\r\n\r\nhi");
	rig_until(&r, pool_idle(r.w.upstreams) == 1);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	rig_until(&r, pool_count(r.w.upstreams) == 0);
	peer_close(&a);
	rig_close(&r);
}

static void a_request_that_is_broken_off_takes_its_connection_along(void **state)
{
	struct rig r;
	struct peer a;

	(void)state;
	open_rig(&r);
	r.script = say_nothing;
	client_plain(&r, &a, "web.test");
	peer_send(&a, GET);
	rig_until(&r, asked(&r) == 1);
	peer_reset(&a);
	rig_until(&r, pool_count(r.w.upstreams) == 0);
	rig_close(&r);
}

/* One more than may be idle to one site are used at once, and then are all done. */
static void so_many_and_no_more_are_idle_to_one_site(void **state)
{
	struct rlimit many = { 4096, 4096 };
	struct peer *box = calloc(POOL_SITE_IDLE_MAX + 1, sizeof(*box));
	struct rig r;

	(void)state;
	assert_non_null(box);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &many), 0);
	open_rig(&r);
	r.w.max_connections = 2 * POOL_SITE_IDLE_MAX;
	r.script = say_nothing;
	for (size_t i = 0; i <= POOL_SITE_IDLE_MAX; i++) {
		client_plain(&r, &box[i], "web.test");
		peer_send(&box[i], GET);
		rig_until(&r, asked(&r) == i + 1);
	}
	assert_int_equal(pool_count(r.w.upstreams), POOL_SITE_IDLE_MAX + 1);
	let_all_answer(&r);
	for (size_t i = 0; i <= POOL_SITE_IDLE_MAX; i++)
		rig_until(&r, peer_has(&box[i], "\r\n\r\nhi"));
	assert_int_equal(pool_idle(r.w.upstreams), POOL_SITE_IDLE_MAX);
	assert_int_equal(pool_count(r.w.upstreams), POOL_SITE_IDLE_MAX);
	for (size_t i = 0; i <= POOL_SITE_IDLE_MAX; i++)
		peer_close(&box[i]);
	rig_close(&r);
	free(box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_connection_of_the_box_goes_on_with_one_that_is_there),
		cmocka_unit_test(another_name_gets_another_connection),
		cmocka_unit_test(one_request_at_a_time_is_on_a_connection),
		cmocka_unit_test(an_idle_one_that_the_origin_closes_is_gone_at_once),
		cmocka_unit_test(an_idle_one_that_speaks_without_being_asked_is_used_no_more),
		cmocka_unit_test(a_request_that_is_broken_off_takes_its_connection_along),
		cmocka_unit_test(so_many_and_no_more_are_idle_to_one_site),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
