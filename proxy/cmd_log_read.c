#include "proxy/cmd_log_read.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proxy/clock.h"
#include "proxy/log_files.h"
#include "proxy/log_path.h"
#include "proxy/log_query.h"
#include "proxy/log_summary.h"
#include "proxy/log_tail.h"
#include "proxy/record.h"
#include "proxy/usage.h"

#define LINE_SHOWN_MAX (8u * LOG_LINE_MAX)
#define TOP_DEFAULT 10

#define FILTERS_TEXT                                                                               \
	"  --sandbox NAME       of this sandbox\n"                                                 \
	"  --host NAME          about this host; \"*.NAME\": about any below it\n"                 \
	"  --rule ID            decided by this rule\n"                                            \
	"  --verdict VERDICT    allow or deny\n"                                                   \
	"  --credential NAME    with this credential\n"                                            \
	"  --kind KIND[,KIND]   of these kinds, with commas between them: request, dns,\n"        \
	"                       connect, connection, dial, credential, sandbox_start, sandbox_stop,\n" \
	"                       policy_load, policy_reject, access_request, control, worker_lost,\n" \
	"                       start, stop, checkpoint, rotated, continued, log_fault\n"        \
	"  --since TIME         not before then: 2026-01-31, 2026-01-31T12:00:00Z (a fraction and an\n" \
	"                       offset like +01:00 may be there), or so long ago: 45s, 10m, 2h, 7d\n" \
	"  --until TIME         before then\n"

#define FILE_TEXT                                                                                  \
	"  FILE                 the log, with the files of it that were put aside; if not given,\n" \
	"                       $XDG_STATE_HOME/exeat/audit.jsonl, else ~/.local/state/exeat/audit.jsonl.\n" \
	"                       Of several, just these are read. The appliance's log is\n"        \
	"                       /var/log/exeat/audit.jsonl, unless its settings say otherwise\n"   \
	"\n"                                                                                       \
	"The exit status is 0, also where nothing matches; 1 if a file cannot be read, 64 for a wrong\n" \
	"command line.\n"

static const char query_text[] =
	"usage: exeat log query [--sandbox NAME] [--host NAME] [--rule ID] [--verdict VERDICT]\n"
	"                       [--credential NAME] [--kind KIND] [--since TIME] [--until TIME]\n"
	"                       [--format json|text] [FILE ...]\n"
	"\n"
	"Prints the lines of the audit log that fit all that is asked for, oldest first.\n"
	"\n"
	FILTERS_TEXT
	"  --format FORMAT      json: as they are in the file (the default); text: for people\n"
	FILE_TEXT;

static const char summary_text[] =
	"usage: exeat log summary [--top NUMBER] [--json] [filters as of exeat log query] [FILE ...]\n"
	"\n"
	"Counts, over the lines of the audit log that fit: requests, refusals and bytes by host and by\n"
	"sandbox, refusals by rule, uses of credentials. A line that stands for several counts as several.\n"
	"\n"
	"  --top NUMBER         so many of each (10)\n"
	"  --json               one JSON object\n"
	FILTERS_TEXT
	FILE_TEXT;

static char query_name[] = "exeat log query", summary_name[] = "exeat log summary";

struct reading {
	struct log_query query;
	bool text, json;
	uint64_t top;
	struct log_summary *summary;	/* NULL: lines are printed */
	struct buf shown;
};

static const struct option query_options[] = {
	{ "sandbox", required_argument, NULL, 's' }, { "host", required_argument, NULL, 'h' },
	{ "rule", required_argument, NULL, 'r' },    { "verdict", required_argument, NULL, 'v' },
	{ "credential", required_argument, NULL, 'c' }, { "kind", required_argument, NULL, 'k' },
	{ "since", required_argument, NULL, 'S' },   { "until", required_argument, NULL, 'U' },
	{ "format", required_argument, NULL, 'f' },  { "help", no_argument, NULL, 'H' },
	{ 0 },
};

static const struct option summary_options[] = {
	{ "sandbox", required_argument, NULL, 's' }, { "host", required_argument, NULL, 'h' },
	{ "rule", required_argument, NULL, 'r' },    { "verdict", required_argument, NULL, 'v' },
	{ "credential", required_argument, NULL, 'c' }, { "kind", required_argument, NULL, 'k' },
	{ "since", required_argument, NULL, 'S' },   { "until", required_argument, NULL, 'U' },
	{ "top", required_argument, NULL, 't' },     { "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'H' },	     { 0 },
};

/* ---- the command line ---- */

/* Where an option's text goes; NULL: it is no text. */
static struct str *text_slot(struct log_query *q, int c)
{
	switch (c) {
	case 's': return &q->sandbox;
	case 'h': return &q->host;
	case 'r': return &q->rule;
	case 'v': return &q->verdict;
	case 'c': return &q->credential;
	case 'k': return &q->kinds;
	default:  return NULL;
	}
}

static int wrong_value(const char *name, const char *option, const char *value, const char *takes)
{
	return usage_wrong(name, "%s \"%s\": it takes %s", option, value, takes);
}

/* A word that no record has would find nothing, and look as if nothing had happened. */
static int check_verdict(const char *name, struct str verdict)
{
	return str_eq(verdict, STR("allow")) || str_eq(verdict, STR("deny"))
		       ? 0
		       : wrong_value(name, "--verdict", verdict.p, "allow or deny");
}

static bool is_kind(struct str word)
{
	for (size_t k = 0; k < RECORD_KIND_COUNT; k++)
		if (str_eq(word, str_of(record_kind_name((enum record_kind)k))))
			return true;
	return false;
}

static int check_kinds(const char *name, struct str kinds)
{
	while (true) {
		size_t end = str_find(kinds, ',');

		if (!is_kind(str_n(kinds.p, end)))
			return usage_wrong(name, "--kind: no record is of kind \"%.*s\"", (int)end, kinds.p);
		if (end == kinds.n)
			return 0;
		kinds = str_from(kinds, end + 1);
	}
}

/* 0, or the exit status of a command line that is wrong. */
static int take_option(struct reading *r, const char *name, int c)
{
	struct str *text = text_slot(&r->query, c);

	if (text) {
		*text = str_of(optarg);
		if (text->n == 0)
			return usage_wrong(name, "an option's value is empty: leave it out to ask for all");
		if (c == 'v')
			return check_verdict(name, *text);
		return c == 'k' ? check_kinds(name, *text) : 0;
	}
	if (c == 'S' || c == 'U')
		return log_query_time(str_of(optarg), clock_wall_us(),
				      c == 'S' ? &r->query.since_us : &r->query.until_us)
			       ? 0
			       : wrong_value(name, c == 'S' ? "--since" : "--until", optarg,
					     "a time like 2026-01-31T12:00:00Z or 10m");
	if (c == 'f') {
		r->text = strcmp(optarg, "text") == 0;
		return r->text || strcmp(optarg, "json") == 0 ? 0 : wrong_value(name, "--format", optarg, "json or text");
	}
	if (c == 't')
		return str_to_u64(str_of(optarg), SUMMARY_ROWS_MAX, &r->top) && r->top
			       ? 0
			       : wrong_value(name, "--top", optarg, "a number from 1 on");
	r->json = c == 'j';
	return c == 'j' ? 0 : usage_wrong(name, NULL);
}

/* ---- reading ---- */

static enum err show(struct reading *r, struct str line)
{
	r->shown.n = 0;
	r->shown.failed = false;
	if (r->text) {
		log_tail_line(line, false, &r->shown);
	} else {
		log_tail_escape(line, &r->shown);
		buf_put_c(&r->shown, '\n');
	}
	if (r->shown.failed)
		return ERR_NOMEM;
	return fwrite(r->shown.p, 1, r->shown.n, stdout) == r->shown.n ? OK : ERR_SYSTEM;
}

static enum err read_line(struct reading *r, struct str line)
{
	json_t *object = log_query_match(&r->query, line);
	enum err e = OK;

	if (object)
		e = r->summary ? log_summary_add(r->summary, line, object) : show(r, line);
	json_decref(object);
	return e;
}

/* A line that its writer has not ended yet is none. */
static enum err read_lines(struct reading *r, struct log_files *files)
{
	struct str line;
	enum err e = OK;

	while (!e) {
		e = log_files_next(files, &line);
		if (!e)
			e = read_line(r, line);
	}
	if (e != ERR_AGAIN && e != ERR_TRUNCATED)
		return e;
	if (r->summary)
		return log_summary_print(r->summary, r->top, r->json, stdout);
	return fflush(stdout) == 0 ? OK : ERR_SYSTEM;
}

static enum err open_files(int argc, char **argv, char room[PATH_MAX], struct log_files **files)
{
	enum err e;

	if (argc - optind > 1)
		return log_files_open_list(argv + optind, (size_t)(argc - optind), files);
	if (argc - optind == 1) {
		snprintf(room, PATH_MAX, "%s", argv[optind]);
		return log_files_open(argv[optind], files);
	}
	e = log_default_path(room, PATH_MAX);
	return e ? e : log_files_open(room, files);
}

static int cannot(const char *name, const char *path, enum err e)
{
	if (e == ERR_SYSTEM && errno == EPIPE)
		return 0;
	fprintf(stderr, "%s: %s: %s\n", name, path,
		e == ERR_SYSTEM	    ? strerror(errno)
		: e == ERR_NOTFOUND ? "no default file: neither XDG_STATE_HOME nor HOME is an absolute path"
				    : err_text(e));
	return 1;
}

static int read_log(struct reading *r, const char *name, int argc, char **argv)
{
	char room[PATH_MAX] = "log";
	struct log_files *files = NULL;
	enum err e = open_files(argc, argv, room, &files);
	int rc = 0;

	if (e)
		return cannot(name, room, e);
	buf_init(&r->shown, LINE_SHOWN_MAX);
	e = read_lines(r, files);
	if (e)
		rc = cannot(name, log_files_name(files), e);
	buf_free(&r->shown);
	log_files_close(files);
	return rc;
}

/* Negative: go on; else the command ends here with that. */
static int parse(struct reading *r, char *name, const struct option *options, const char *help,
		 int argc, char **argv)
{
	int c, wrong;

	argv[0] = name;	/* for getopt's messages */
	optind = 0;	/* glibc: from the beginning */
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'H')
			return usage_show(help);
		wrong = take_option(r, name, c);
		if (wrong)
			return wrong;
	}
	return -1;
}

int cmd_log_query(int argc, char **argv)
{
	struct reading r = { 0 };
	int rc = parse(&r, query_name, query_options, query_text, argc, argv);

	return rc >= 0 ? rc : read_log(&r, query_name, argc, argv);
}

int cmd_log_summary(int argc, char **argv)
{
	struct reading r = { .top = TOP_DEFAULT };
	int rc = parse(&r, summary_name, summary_options, summary_text, argc, argv);

	if (rc >= 0)
		return rc;
	r.summary = log_summary_new();
	if (!r.summary)
		return cannot(summary_name, "log", ERR_NOMEM);
	rc = read_log(&r, summary_name, argc, argv);
	log_summary_free(r.summary);
	return rc;
}
