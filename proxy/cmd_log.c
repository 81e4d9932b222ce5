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

#include "proxy/cmd_log_read.h"
#include "proxy/log_key.h"
#include "proxy/log_path.h"
#include "proxy/log_tail.h"
#include "proxy/log_verify.h"
#include "proxy/usage.h"

#define LINES_DEFAULT 10

static const char usage_text[] =
	"usage: exeat log verify [--last HASH] [--key FILE] [--checkpoint FILE] [FILE ...]\n"
	"       exeat log tail [-f] [-n LINES] [--json] [FILE]\n"
	"       exeat log query|summary [--help]\n"
	"\n"
	"verify   holds every line against the hash in the next one, and checkpoints against their\n"
	"         signatures, over all files of the log; says the first line that is wrong\n"
	"tail     shows the last lines\n"
	"query    prints the lines that are asked for; its --help says how\n"
	"summary  counts them by host, rule, credential and sandbox; likewise\n"
	"\n"
	"  --last HASH          some line must have this hash: one that an earlier verify printed\n"
	"  --key FILE           public keys that checkpoints may be signed with (FILE.pub beside the log)\n"
	"  --checkpoint FILE    lines of kind checkpoint that were kept elsewhere: they must be in the log\n"
	"  -f, --follow         go on with what is added, also when the log is rotated\n"
	"  -n, --lines LINES    so many (10)\n"
	"  --json               as they are in the file\n"
	"  FILE                 the log, with the files of it that were put aside; if not given,\n"
	"                       $XDG_STATE_HOME/exeat/audit.jsonl, else ~/.local/state/exeat/audit.jsonl.\n"
	"                       Of several, in the order of their lines, just these are read\n"
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

struct verify_options {
	const char *last, *key, *checkpoint;
};

/* A number of things, "1 line", "2 lines". */
static void put_count(const char *before, uint64_t n, const char *what)
{
	printf("%s%" PRIu64 " %s%s", before, n, what, n == 1 ? "" : "s");
}

static int tell_whole(const char *path, const struct log_question *q, const struct log_verdict *v)
{
	printf("%s: whole: ", path);
	put_count("", v->lines, "line");
	if (log_files_count(q->files) > 1)
		put_count(" in ", log_files_count(q->files), "file");
	if (v->first_seq > 1)
		printf(" from number %" PRIu64 " on (the files before it are not here)", v->first_seq);
	if (v->checkpoints)
		put_count(", ", v->checkpoints, "checkpoint");
	if (v->checkpoints)
		printf(v->signatures == v->checkpoints ? " with the right signature"
						       : " (not checked: no key)");
	if (q->kept)
		printf(", %s", v->kept_older ? "all kept checkpoints are in it that are not older than it"
					     : "all kept checkpoints are in it");
	printf(", the last one has hash %s\n", v->last_hash);
	return fflush(stdout) == 0 ? 0 : 1;
}

static int tell(const char *path, enum err e, const struct log_question *q,
		const struct log_verdict *v)
{
	if (!e)
		return tell_whole(path, q, v);
	if (e == ERR_SYNTAX)
		fprintf(stderr, "%s: %s:%" PRIu64 ": this line is wrong: %s; %" PRIu64 " before it are right\n",
			verify_name, log_files_name(q->files), log_files_line(q->files), v->why,
			v->lines);
	else if (e == ERR_NOTFOUND)
		fprintf(stderr, "%s: %s: %s (%" PRIu64 " lines, the last one has hash %s)\n", verify_name, path,
			v->why, v->lines, v->last_hash);
	else
		fprintf(stderr, "%s: %s: %s\n", verify_name, log_files_name(q->files),
			e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return 1;
}

static int cannot_use(const char *path, enum err e, const char *wrong)
{
	fprintf(stderr, "%s: %s: %s\n", verify_name, path,
		e == ERR_SYSTEM ? strerror(errno) : e == ERR_SYNTAX ? wrong : err_text(e));
	return 1;
}

/* The key that was named, or the one beside the log where it is there. */
static int open_keys(const struct verify_options *o, const char *path, struct log_keys **keys)
{
	char beside[PATH_MAX];
	const char *file = o->key;
	enum err e;

	if (!file && snprintf(beside, sizeof(beside), "%s" LOG_PUB_SUFFIX, path) < PATH_MAX &&
	    access(beside, F_OK) == 0)
		file = beside;
	if (!file)
		return 0;
	e = log_keys_open(file, keys);
	return e ? cannot_use(file, e, "no Ed25519 public key is in it") : 0;
}

static int open_kept(const char *path, const struct log_keys *keys, struct log_kept **kept)
{
	uint64_t bad_line = 0;
	enum err e = path ? log_kept_open(path, keys, kept, &bad_line) : OK;
	char wrong[80];

	snprintf(wrong, sizeof(wrong), "line %" PRIu64 " is no checkpoint that this key has signed", bad_line);
	return e ? cannot_use(path, e, wrong) : 0;
}

static int verify_files(const struct verify_options *o, struct log_question *q, const char *path)
{
	struct log_keys *keys = NULL;
	struct log_kept *kept = NULL;
	struct log_verdict v;
	int rc = open_keys(o, path, &keys);

	if (!rc)
		rc = open_kept(o->checkpoint, keys, &kept);
	if (!rc) {
		q->must_have = o->last;
		q->keys = keys;
		q->kept = kept;
		rc = tell(path, log_verify(q, &v), q, &v);
	}
	log_kept_close(kept);
	log_keys_close(keys);
	return rc;
}

static int verify(int argc, char **argv)
{
	static const struct option options[] = {
		{ "last", required_argument, NULL, 'l' }, { "key", required_argument, NULL, 'k' },
		{ "checkpoint", required_argument, NULL, 'c' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	struct verify_options o = { 0 };
	struct log_question q = { 0 };
	char room[PATH_MAX];
	const char *path;
	enum err e;
	int c, rc;

	argv[0] = verify_name;	/* for getopt's messages */
	optind = 0;	/* glibc: from the beginning */
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h')
			return usage_show(usage_text);
		if (c != 'l' && c != 'k' && c != 'c')
			return usage_wrong(verify_name, NULL);
		*(c == 'l' ? &o.last : c == 'k' ? &o.key : &o.checkpoint) = optarg;
	}
	if (o.last && !is_hash(o.last))
		return usage_wrong(verify_name, "--last takes a hash of 64 hexadecimal digits");
	if (argc - optind > 1) {
		path = argv[argc - 1];
		e = log_files_open_list(argv + optind, (size_t)(argc - optind), &q.files);
	} else {
		path = file_of(argc, argv, room);
		if (!path)
			return 1;
		e = log_files_open(path, &q.files);
	}
	if (e)
		return cannot_use(path, e, "");
	rc = verify_files(&o, &q, path);
	log_files_close(q.files);
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
	} commands[] = { { "verify", verify }, { "tail", tail }, { "query", cmd_log_query },
			{ "summary", cmd_log_summary } };

	if (argc < 2)
		return usage_wrong("exeat log", "verify, tail, query or summary?");
	if (usage_asked(argv[1]))
		return usage_show(usage_text);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return usage_wrong("exeat log", "no command \"%s\": it is verify, tail, query or summary", argv[1]);
}
