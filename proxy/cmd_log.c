#include "proxy/cmd_log.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/log_path.h"
#include "proxy/log_tail.h"
#include "proxy/log_verify.h"
#include "proxy/usage.h"

#define LINES_DEFAULT 10

static const char usage_text[] =
	"usage: exeat log verify [--last HASH] [FILE]\n"
	"       exeat log tail [-f] [-n LINES] [--json] [FILE]\n"
	"\n"
	"verify   holds every line against the hash in the next one, and says the first that is wrong\n"
	"tail     shows the last lines\n"
	"\n"
	"  --last HASH          some line must have this hash: one that an earlier verify printed\n"
	"  -f, --follow         go on with what is added\n"
	"  -n, --lines LINES    so many (10)\n"
	"  --json               as they are in the file\n"
	"  FILE                 the log; if not given, $XDG_STATE_HOME/exeat/audit.jsonl, else\n"
	"                       ~/.local/state/exeat/audit.jsonl\n"
	"\n"
	"The exit status is 0; 1 if the log is not whole or cannot be read, 64 for a wrong command line.\n";

static char verify_name[] = "exeat log verify", tail_name[] = "exeat log tail";

/* The file that is meant; NULL after a message. */
static const char *file_of(int argc, char **argv, char room[PATH_MAX])
{
	enum err e;

	if (optind < argc)
		return argv[optind];
	e = log_default_path(room, PATH_MAX);
	if (!e)
		return room;
	fprintf(stderr, "%s: no default file: %s\n", argv[0],
		e == ERR_NOTFOUND ? "neither XDG_STATE_HOME nor HOME is an absolute path" : err_text(e));
	return NULL;
}

/* ---- verify ---- */

static bool is_hash(const char *text)
{
	return strlen(text) == LOG_HASH_HEX && strspn(text, "0123456789abcdef") == LOG_HASH_HEX;
}

static int tell(const char *path, enum err e, const struct log_verdict *v)
{
	if (!e) {
		printf("%s: whole: %" PRIu64 " line%s, the last one has hash %s\n", path, v->lines,
		       v->lines == 1 ? "" : "s", v->last_hash);
		return fflush(stdout) == 0 ? 0 : 1;
	}
	if (e == ERR_SYNTAX)
		fprintf(stderr, "%s: %s:%" PRIu64 ": this line is wrong: %s; %" PRIu64 " before it are right\n",
			verify_name, path, v->bad_line, v->why, v->lines);
	else if (e == ERR_NOTFOUND)
		fprintf(stderr, "%s: %s: no line has the hash that was asked for: its end was cut off or changed "
			"(%" PRIu64 " lines, the last one has hash %s)\n", verify_name, path, v->lines, v->last_hash);
	else
		fprintf(stderr, "%s: %s: %s\n", verify_name, path, e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return 1;
}

static int verify(int argc, char **argv)
{
	static const struct option options[] = {
		{ "last", required_argument, NULL, 'l' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	char room[PATH_MAX];
	const char *path, *last = NULL;
	struct log_verdict v;
	int fd, c, rc;

	argv[0] = verify_name;	/* for getopt's messages */
	optind = 0;	/* glibc: from the beginning */
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h')
			return usage_show(usage_text);
		if (c != 'l')
			return usage_wrong(verify_name, NULL);
		last = optarg;
	}
	if (last && !is_hash(last))
		return usage_wrong(verify_name, "--last takes a hash of 64 hexadecimal digits");
	if (argc - optind > 1)
		return usage_wrong(verify_name, "one file at a time");
	path = file_of(argc, argv, room);
	if (!path)
		return 1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return tell(path, ERR_SYSTEM, NULL);
	rc = tell(path, log_verify(fd, last, &v), &v);
	close(fd);
	return rc;
}

/* ---- tail ---- */

/* no-color.org: set to anything but nothing. */
static bool wants_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && no[0]) && !(term && strcmp(term, "dumb") == 0);
}

static int tail(int argc, char **argv)
{
	static const struct option options[] = {
		{ "follow", no_argument, NULL, 'f' }, { "lines", required_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	struct log_tail t = { .lines = LINES_DEFAULT, .to = stdout, .colour = wants_colour() };
	char room[PATH_MAX];
	enum err e;
	int c;

	argv[0] = tail_name;	/* for getopt's messages */
	optind = 0;	/* glibc: from the beginning */
	while ((c = getopt_long(argc, argv, "fhn:", options, NULL)) != -1) {
		if (c == 'h')
			return usage_show(usage_text);
		if (c == 'f')
			t.follow = true;
		else if (c == 'j')
			t.json = true;
		else if (c != 'n')
			return usage_wrong(tail_name, NULL);
		else if (!str_to_u64(str_of(optarg), INT32_MAX, &t.lines))
			return usage_wrong(tail_name, "-n takes a number of lines");
	}
	if (argc - optind > 1)
		return usage_wrong(tail_name, "one file at a time");
	t.path = file_of(argc, argv, room);
	if (!t.path)
		return 1;
	e = log_tail(&t);
	if (!e || (e == ERR_SYSTEM && errno == EPIPE))
		return 0;
	fprintf(stderr, "%s: %s: %s\n", tail_name, t.path, e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return 1;
}

int cmd_log(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = { { "verify", verify }, { "tail", tail } };

	if (argc < 2)
		return usage_wrong("exeat log", "verify or tail?");
	if (usage_asked(argv[1]))
		return usage_show(usage_text);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return usage_wrong("exeat log", "no command \"%s\": it is verify or tail", argv[1]);
}
