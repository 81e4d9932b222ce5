#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sysexits.h>

#include <cmocka.h>

#include "proxy/control_api.h"
#include "proxy/verbs.h"
#include "tests/unit/proxy/said.h"

static struct verb_call got;
static unsigned calls;

static int run(const struct verb_call *call)
{
	got = *call;
	calls++;
	return 7;
}

static char go_name[] = "exeat test go", stay_name[] = "exeat test stay", alone_name[] = "exeat alone";
static const struct verb table[] = {
	{ .name = "go", .command = go_name, .options = { { "policy", true }, { "wait", false } }, .min = 1,
	  .max = 1, .words = "NAME", .behind = true, .run = run },
	{ .name = "stay", .command = stay_name, .run = run },
};
static const struct verbs verbs = { "exeat test", "usage\n", table, 2 };
static const struct verb alone = { .command = alone_name, .run = run };
static const struct verbs one = { "exeat alone", "usage\n", &alone, 1 };

static char said[SAID_MAX];

static int call(const struct verbs *v, const char *first, ...)
{
	static char text[16][64];
	static char *argv[17];	/* what was called keeps it */
	int argc = 1, status;
	struct said s;
	va_list ap;

	memset(argv, 0, sizeof(argv));
	argv[0] = (char *)"test";
	va_start(ap, first);
	for (const char *word = first; word; word = va_arg(ap, const char *)) {
		snprintf(text[argc], sizeof(text[argc]), "%s", word);
		argv[argc] = text[argc];
		argc++;
	}
	va_end(ap);
	calls = 0;
	memset(&got, 0, sizeof(got));
	s = said_begin();
	status = verbs_run(v, argc, argv);
	said_end(s, said);
	return status;
}

static void options_and_words_come_in_any_order(void **state)
{
	(void)state;
	assert_int_equal(call(&verbs, "go", "--wait", "dev", "--policy", "p.yaml", "--", "curl", "-4", "--json",
			      NULL), 7);
	assert_string_equal(got.command, "exeat test go");
	assert_string_equal(got.value[0], "p.yaml");
	assert_non_null(got.value[1]);
	assert_int_equal(got.n, 1);
	assert_string_equal(got.words[0], "dev");
	assert_string_equal(got.behind[0], "curl");
	assert_string_equal(got.behind[1], "-4");
	assert_string_equal(got.behind[2], "--json");
	assert_null(got.behind[3]);
	assert_false(got.json);
	assert_string_equal(got.socket, CONTROL_SOCKET);
}

static void every_verb_takes_socket_and_json(void **state)
{
	(void)state;
	assert_int_equal(call(&verbs, "stay", "--socket", "/x", "--json", NULL), 7);
	assert_string_equal(got.socket, "/x");
	assert_true(got.json);
	assert_null(got.value[0]);
	assert_null(got.behind);
	assert_int_equal(call(&one, "--json", NULL), 7);
	assert_true(got.json);
}

static void expect_wrong(int status, const char *text)
{
	assert_int_equal(status, EX_USAGE);
	assert_int_equal(calls, 0);
	if (!strstr(said, text))
		fail_msg("\"%s\" is not in %s", text, said);
}

static void a_wrong_command_line_is_told_and_runs_nothing(void **state)
{
	(void)state;
	expect_wrong(call(&verbs, NULL), "go or stay?");
	expect_wrong(call(&verbs, "leave", NULL), "no command \"leave\": it is go or stay");
	expect_wrong(call(&verbs, "go", "--policy", "p", NULL), "NAME is missing");
	expect_wrong(call(&verbs, "go", "a", "b", NULL), "\"b\" is one word too many: a command stands behind --");
	expect_wrong(call(&verbs, "stay", "b", NULL), "\"b\" is one word too many");
	expect_wrong(call(&verbs, "stay", "--", "b", NULL), "it takes nothing behind --");
	expect_wrong(call(&verbs, "go", "a", "--", NULL), "no command stands behind --");
	expect_wrong(call(&verbs, "go", "a", "--policy", NULL), "exeat test go: option '--policy' requires");
	expect_wrong(call(&verbs, "go", "a", "--wait=1", NULL), "doesn't allow an argument");
	expect_wrong(call(&verbs, "stay", "--wait", NULL), "unrecognized option");
	expect_wrong(call(&one, "word", NULL), "\"word\" is one word too many");
}

static void paths_are_taken_from_this_folder(void **state)
{
	const struct verb_call c = { .command = "exeat test" };
	char here[4096], whole[4200];
	struct buf out;

	(void)state;
	assert_non_null(getcwd(here, sizeof(here)));
	buf_init(&out, 8192);
	assert_true(verb_path(&c, "/proc/1/ns/net", &out));
	assert_true(str_eq(buf_str(&out), STR("/proc/1/ns/net")));
	out.n = 0;
	assert_true(verb_path(&c, "a/b.yaml", &out));
	snprintf(whole, sizeof(whole), "%s/a/b.yaml", here);
	assert_true(str_eq(buf_str(&out), str_of(whole)));
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_and_words_come_in_any_order),
		cmocka_unit_test(every_verb_takes_socket_and_json),
		cmocka_unit_test(a_wrong_command_line_is_told_and_runs_nothing),
		cmocka_unit_test(paths_are_taken_from_this_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
