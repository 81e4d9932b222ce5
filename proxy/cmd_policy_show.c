#include "proxy/cmd_policy_show.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf/buf.h"
#include "proxy/log_path.h"
#include "proxy/log_tail.h"
#include "proxy/policy_store.h"
#include "proxy/usage.h"

static const char usage_text[] =
	"usage: exeat policy show DIGEST [--log FILE]\n"
	"\n"
	"Prints the policy file that records name by DIGEST (field \"policy\"), as it was when it was put in\n"
	"force. It is kept beside the log, in FILE.policies; the last 256 are.\n"
	"\n"
	"  DIGEST        or its beginning, four digits at least\n"
	"  --log FILE    the log; if not given, $XDG_STATE_HOME/exeat/audit.jsonl, else\n"
	"                ~/.local/state/exeat/audit.jsonl\n"
	"\n"
	"The exit status is 0; 1 if no such policy is kept, 64 for a wrong command line.\n";

static char command_name[] = "exeat policy show";

static const char *why(enum err e)
{
	switch (e) {
	case ERR_SYSTEM:   return strerror(errno);
	case ERR_NOTFOUND: return "no such policy is kept beside the log ";
	case ERR_FULL:	   return "several begin like that: give more digits";
	case OK: case ERR_SYNTAX:
	case ERR_NOMEM: case ERR_AGAIN: case ERR_LIMIT: case ERR_PROTOCOL: case ERR_CLOSED:
	case ERR_TRUNCATED: case ERR_DENIED: case ERR_CRYPTO: case ERR_BUG:
		break;
	}
	return err_text(e);
}

/* As it is; but a terminal is not told what to do. */
static bool print_block(const char *p, size_t n)
{
	struct buf shown;
	bool ok;

	if (!isatty(STDOUT_FILENO))
		return fwrite(p, 1, n, stdout) == n;
	buf_init(&shown, 8 * n);
	for (struct str rest = str_n(p, n); rest.n;) {
		size_t line = str_find(rest, '\n');

		log_tail_escape(str_n(rest.p, line), &shown);
		if (line < rest.n)
			buf_put_c(&shown, '\n');
		rest = str_from(rest, line < rest.n ? line + 1 : line);
	}
	ok = !shown.failed && fwrite(shown.p, 1, shown.n, stdout) == shown.n;
	buf_free(&shown);
	return ok;
}

static int print(int fd)
{
	char block[65536];
	ssize_t n;

	while ((n = read(fd, block, sizeof(block))) > 0)
		if (!print_block(block, (size_t)n))
			return 1;
	return n == 0 && fflush(stdout) == 0 ? 0 : 1;
}

static int show(const char *digest, const char *log)
{
	char room[PATH_MAX];
	int fd, rc;
	enum err e = log ? OK : log_default_path(room, sizeof(room));

	if (e) {
		fprintf(stderr, "%s: no default log: neither XDG_STATE_HOME nor HOME is an absolute path\n",
			command_name);
		return 1;
	}
	e = policy_store_find(log ? log : room, str_of(digest), &fd);
	if (e == ERR_SYNTAX)
		return usage_wrong(command_name, "\"%s\" is no digest: it has 4 to 64 lower-case hexadecimal digits", digest);
	if (e) {
		fprintf(stderr, "%s: %s: %s%s\n", command_name, digest, why(e), e == ERR_NOTFOUND ? log ? log : room : "");
		return 1;
	}
	rc = print(fd);
	close(fd);
	return rc;
}

int cmd_policy_show(int argc, char **argv)
{
	static const struct option options[] = {
		{ "log", required_argument, NULL, 'l' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	const char *log = NULL;
	int c;

	argv[0] = command_name;	/* for getopt's messages */
	optind = 0;	/* glibc: from the beginning */
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h')
			return usage_show(usage_text);
		if (c != 'l')
			return usage_wrong(command_name, NULL);
		log = optarg;
	}
	if (argc - optind != 1)
		return usage_wrong(command_name, "one DIGEST: the field \"policy\" of a record");
	return show(argv[optind], log);
}
