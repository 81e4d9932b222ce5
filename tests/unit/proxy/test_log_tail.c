#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/log_tail.h"

static const char *shown(const char *line, bool colour)
{
	static char text[4096];
	struct buf out;

	buf_init(&out, sizeof(text) - 1);
	log_tail_line(str_of(line), colour, &out);
	assert_false(out.failed);
	memcpy(text, out.p, out.n);
	text[out.n] = '\0';
	buf_free(&out);
	return text;
}

#define TIME "\"time\":\"2026-01-01T00:00:00.000001Z\""
#define AT "2026-01-01T00:00:00.000001Z "

static void lines_are_shown_in_columns(void **state)
{
	static const struct {
		const char *line, *text;
	} cases[] = {
		{ "{" TIME ",\"kind\":\"request\",\"sandbox\":\"box\",\"verdict\":\"deny\",\"method\":\"GET\","
		  "\"scheme\":\"https\",\"host\":\"a.test\",\"path\":\"/x\",\"rule\":\"r\",\"rule_at\":\"p.yaml:3\","
		  "\"status\":403}",
		  AT "box          deny  GET https://a.test/x 403  (rule r, p.yaml:3)\n" },
		{ "{" TIME ",\"kind\":\"dns\",\"name\":\"a.test\",\"rule\":\"default\"}",
		  AT "-            -     dns a.test  (rule default)\n" },
		{ "{" TIME ",\"kind\":\"dns\",\"name\":\"a.test\",\"type\":\"A\",\"rcode\":\"NXDOMAIN\"}",
		  AT "-            -     dns a.test A NXDOMAIN\n" },
		{ "{" TIME ",\"kind\":\"connect\",\"destination\":\"192.0.2.1\",\"port\":22,\"count\":3}",
		  AT "-            -     connect 192.0.2.1 port 22 x3\n" },
		{ "{" TIME ",\"kind\":\"access_request\",\"event\":\"asked\",\"number\":1,\"method\":\"GET\","
		  "\"url\":\"https://a.test/\",\"reason\":\"because\"}",
		  AT "-            -     request 1 asked: GET https://a.test/ because\n" },
		{ "{" TIME ",\"kind\":\"access_request\",\"event\":\"closed\",\"number\":1,\"url\":\"x\",\"note\":\"no\"}",
		  AT "-            -     request 1 closed: x (no)\n" },
		{ "{" TIME ",\"kind\":\"unheard_of\",\"reason\":\"because\"}",
		  AT "-            -     unheard_of because\n" },
		{ "{" TIME "}", AT "-            -     \n" },
		{ "{}", "-                           -            -     \n" },
		{ "no json", "? no json\n" },
		{ "[1]", "? [1]\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(shown(cases[i].line, false), cases[i].text);
}

static void what_a_box_sent_cannot_drive_the_terminal(void **state)
{
	static const char *const evil[] = {
		"{\"kind\":\"dns\",\"name\":\"\\u001b[31m\\u0007\\r\\n\\u0000\\u007f\\u009b2J\"}",
		"{\"kind\":\"\\u001b]0;x\\u0007\",\"sandbox\":\"\\u001b[2J\",\"verdict\":\"\\u001b\",\"time\":\"\\u001b\"}",
		"\x1b[31m raw \x9b \xc2\x9b \x7f",
		"{\"kind\":\"dns\",\"name\":\"\\u202egpj.exe\\u2066\\u200f\"}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(evil) / sizeof(evil[0]); i++) {
		const char *text = shown(evil[i], false);

		for (size_t k = 0; k + 1 < strlen(text); k++)
			assert_true((unsigned char)text[k] >= 0x20 && (unsigned char)text[k] < 0x7f);
	}
}

static void other_scripts_are_shown_as_they_are(void **state)
{
	(void)state;
	assert_non_null(strstr(shown("{\"kind\":\"dns\",\"name\":\"b\xc3\xbc""cher.\xe4\xbe\x8b\"}", false),
			       "b\xc3\xbc""cher.\xe4\xbe\x8b"));
}

static void colour_comes_only_when_it_is_wanted(void **state)
{
	const char *line = "{\"kind\":\"dns\",\"verdict\":\"deny\"}";

	(void)state;
	assert_null(strchr(shown(line, false), '\033'));
	assert_non_null(strstr(shown(line, true), "\033[31mdeny"));
	assert_non_null(strstr(shown("{\"verdict\":\"allow\"}", true), "\033[32mallow"));
	assert_non_null(strstr(shown("{\"verdict\":\"would_deny\"}", true), "\033[33mwould_deny"));
}

static void escaping_keeps_json_the_same_text(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 256);
	log_tail_escape(STR("a\x7f\xc2\x85\xe2\x80\xae\xff z\xf0\x9f\x99\x82"), &out);
	assert_true(str_eq(buf_str(&out), STR("a\\u007f\\u0085\\u202e\\ufffd z\xf0\x9f\x99\x82")));
	buf_free(&out);
}

/* ---- files ---- */

static char dir[] = "/tmp/exeat-tail-XXXXXX";
static char path[64], other[64];

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/log", dir);
	snprintf(other, sizeof(other), "%s/old", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlink(path);
	unlink(other);
	return rmdir(dir);
}

static void put(const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void the_last_lines_of_a_file_are_shown(void **state)
{
	struct log_tail t = { .path = path, .lines = 2, .json = true };
	char *text = NULL;
	size_t n;

	(void)state;
	put("{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n", O_TRUNC);
	t.to = open_memstream(&text, &n);
	assert_int_equal(log_tail(&t), OK);
	fclose(t.to);
	assert_string_equal(text, "{\"a\":2}\n{\"a\":3}\n");
	free(text);
}

static void a_file_that_is_not_there_is_an_error(void **state)
{
	struct log_tail t = { .path = "/nothing-of-that-name", .lines = 2, .to = stdout };

	(void)state;
	assert_int_equal(log_tail(&t), ERR_SYSTEM);
}

static void must_show(int fd, const char *text)
{
	char out[256];
	size_t have = 0;

	while (have < strlen(text)) {
		ssize_t n;

		assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10000), 1);
		n = read(fd, out + have, sizeof(out) - 1 - have);
		assert_true(n > 0);
		have += (size_t)n;
	}
	out[have] = '\0';
	assert_string_equal(out, text);
}

static void following_goes_on_across_truncation_and_rename(void **state)
{
	int fds[2], status;
	pid_t child;

	(void)state;
	put("{\"a\":1}\n{\"a\":2}\n", O_TRUNC);
	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		struct log_tail t = { .path = path, .lines = 1, .json = true, .follow = true,
				      .to = fdopen(fds[1], "w") };

		_exit(log_tail(&t) == OK ? 0 : 1);
	}
	close(fds[1]);
	must_show(fds[0], "{\"a\":2}\n");
	put("{\"a\":3}\n{\"a\"", O_APPEND);
	must_show(fds[0], "{\"a\":3}\n");
	put(":4}\n", O_APPEND);
	must_show(fds[0], "{\"a\":4}\n");
	put("{\"a\":5}\n", O_TRUNC);
	must_show(fds[0], "{\"a\":5}\n");
	assert_int_equal(rename(path, other), 0);
	put("{\"a\":6}\n", O_APPEND);
	must_show(fds[0], "{\"a\":6}\n");
	put("{\"a\":7}\n", O_APPEND);
	must_show(fds[0], "{\"a\":7}\n");
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_shown_in_columns),
		cmocka_unit_test(what_a_box_sent_cannot_drive_the_terminal),
		cmocka_unit_test(other_scripts_are_shown_as_they_are),
		cmocka_unit_test(colour_comes_only_when_it_is_wanted),
		cmocka_unit_test(escaping_keeps_json_the_same_text),
		cmocka_unit_test(the_last_lines_of_a_file_are_shown),
		cmocka_unit_test(a_file_that_is_not_there_is_an_error),
		cmocka_unit_test(following_goes_on_across_truncation_and_rename),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
