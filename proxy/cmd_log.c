#include "proxy/cmd_log.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "proxy/log_path.h"
#include "proxy/log_tail.h"
#include "proxy/log_verify.h"

#define LINES_DEFAULT 10

static const char usage_text[] =
	"usage: exeat log verify [--last HASH] [FILE]\n"
	"       exeat log tail [-f] [-n LINES] [--json] [FILE]\n"
	"\n"
	"FILE is $XDG_STATE_HOME/exeat/audit.jsonl or ~/.local/state/exeat/audit.jsonl if not given.\n"
	"\n"
	"verify   holds every line against the hash in the next one, and says the first that is wrong\n"
	"  --last HASH    some line must have this hash: one that an earlier verify printed\n"
	"tail     shows the last lines\n"
	"  -f, --follow   and goes on with what is added\n"
	"  -n, --lines N  so many (10)\n"
	"  --json         as they are in the file\n";

static int usage(const char *why)
{
	if (why)
		fprintf(stderr, "exeat log: %s\n", why);
	fputs(usage_text, stderr);
	return EX_USAGE;
}

/* The file that is meant; NULL after a message. */
static const char *file_of(int argc, char **argv, char room[PATH_MAX])
{
	enum err e;

	if (optind < argc)
		return argv[optind];
	e = log_default_path(room, PATH_MAX);
	if (!e)
		return room;
	fprintf(stderr, "exeat log: no default file: %s\n",
		e == ERR_NOTFOUND ? "neither XDG_STATE_HOME nor HOME is set" : err_text(e));
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
		fprintf(stderr, "%s:%" PRIu64 ": this line is wrong: %s; %" PRIu64 " before it are right\n",
			path, v->bad_line, v->why, v->lines);
	else if (e == ERR_NOTFOUND)
		fprintf(stderr, "%s: no line has the hash that was asked for: its end was cut off or changed "
			"(%" PRIu64 " lines, the last one has hash %s)\n", path, v->lines, v->last_hash);
	else
		fprintf(stderr, "exeat log: %s: %s\n", path, e == ERR_SYSTEM ? strerror(errno) : err_text(e));
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

	optind = 1;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h')
			return fputs(usage_text, stdout) < 0;
		if (c != 'l')
			return usage(NULL);
		last = optarg;
	}
	if (last && !is_hash(last))
		return usage("--last takes a hash of 64 hexadecimal digits");
	if (argc - optind > 1)
		return usage("one file at a time");
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

	optind = 1;
	while ((c = getopt_long(argc, argv, "fhn:", options, NULL)) != -1) {
		if (c == 'h')
			return fputs(usage_text, stdout) < 0;
		if (c == 'f')
			t.follow = true;
		else if (c == 'j')
			t.json = true;
		else if (c != 'n')
			return usage(NULL);
		else if (!str_to_u64(str_of(optarg), INT32_MAX, &t.lines))
			return usage("-n takes a number of lines");
	}
	if (argc - optind > 1)
		return usage("one file at a time");
	t.path = file_of(argc, argv, room);
	if (!t.path)
		return 1;
	e = log_tail(&t);
	if (!e || (e == ERR_SYSTEM && errno == EPIPE))
		return 0;
	fprintf(stderr, "exeat log: %s: %s\n", t.path, e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return 1;
}

int cmd_log(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = { { "verify", verify }, { "tail", tail } };

	if (argc < 2)
		return usage("verify or tail?");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return fputs(usage_text, stdout) < 0;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return usage("no such command");
}
