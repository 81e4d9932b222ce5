#include "proxy/cmd_policy.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "policy/request_text.h"
#include "proxy/cmd_policy_show.h"
#include "proxy/cmd_reload.h"
#include "proxy/reader_client.h"
#include "proxy/usage.h"

#define REQUEST_MAX 65536

struct options {
	const char *file, *settings;
	struct buf request;
};

static const char usage_text[] =
	"usage: exeat policy check FILE [--settings FILE]\n"
	"       exeat policy explain FILE REQUEST [--settings FILE]\n"
	"       exeat policy show DIGEST [--log FILE]\n"
	"       exeat policy reload ...\n"
	"\n"
	"check    says whether the policy loads, and if not, what to write instead\n"
	"explain  says what the policy does to a request, step by step, and which rule does it\n"
	"show     prints the policy that records of the log name by its digest\n"
	"reload   has the appliance read its policies again: exeat policy reload --help\n"
	"\n"
	"check and explain are for root only: they lock up the process that reads the policy.\n"
	"\n"
	"  REQUEST            \"GET https://HOST/PATH\", \"tcp://HOST:PORT\", \"connect HOST:PORT\" or\n"
	"                     \"resolve NAME\"\n"
	"  --settings FILE    also check the policy's secrets against what these settings let go where\n"
	"\n"
	"The exit status is 0, also where the request would be denied; 1 if a file does not load, 64 for a\n"
	"wrong command line.\n";

/* ---- commands ---- */

static bool take_words(struct options *o, int n, char **words)
{
	o->file = n > 0 ? words[0] : NULL;
	for (int i = 1; i < n; i++) {
		if (o->request.n)
			buf_put_c(&o->request, ' ');
		buf_put_str(&o->request, str_of(words[i]));
	}
	return !o->request.failed;
}

/* False: the command ends here, with *status. */
static bool parse_options(int argc, char **argv, char *name, bool wants_request, struct options *o,
			  int *status)
{
	static const struct option options[] = {
		{ "settings", required_argument, NULL, 's' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	int c;

	argv[0] = name;	/* for getopt's messages */
	optind = 0;	/* glibc: from the beginning, also after a parse that was not ended */
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c != 's') {
			*status = c == 'h' ? usage_show(usage_text) : usage_wrong(name, NULL);
			return false;
		}
		o->settings = optarg;
	}
	if (!take_words(o, argc - optind, argv + optind))
		*status = usage_wrong(name, "the request is too long");
	else if (!o->file)
		*status = usage_wrong(name, "which policy? FILE is missing");
	else if (wants_request && o->request.n == 0)
		*status = usage_wrong(name, "which request? such as \"GET https://HOST/PATH\"");
	else if (!wants_request && o->request.n)
		*status = usage_wrong(name, "one file at a time");
	else
		return true;
	return false;
}

static struct policy *load_policy(const struct options *o, unsigned *warnings)
{
	struct settings *settings = o->settings ? settings_load(o->settings) : NULL;
	struct policy *p = NULL;
	int source = -1, memfd = -1;
	enum err e;

	if (geteuid() != 0) {	/* it would fail, less clearly */
		fprintf(stderr, "exeat policy: must be root, to lock up the process that reads the policy: "
				"start it with sudo\n");
		goto out;
	}
	if (o->settings && !settings)
		goto out;
	source = reader_source_told(o->file);
	if (source < 0 ||
	    !reader_compile(&(struct reader_job){ .file = o->file, .source = source,
						  .settings = settings }, &memfd, warnings, NULL))
		goto out;
	e = policy_map(&memfd, 1, &p);
	if (e != OK) {
		fprintf(stderr, "exeat: %s: the image that was compiled of it is not valid: %s\n",
			o->file,
			err_text(e));
		p = NULL;
	}
	close(memfd);
out:
	if (source >= 0)
		close(source);
	settings_free(settings);
	return p;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static int check(const struct options *o)
{
	unsigned warnings = 0;
	struct policy *p = load_policy(o, &warnings);
	size_t allows = 0, denies = 0;

	if (!p)
		return EXIT_FAILURE;
	for (uint32_t i = 0; i < policy_rules(p, 0); i++) {
		if (policy_rule(p, (struct rule_ref){ .rule = i }).deny)
			denies++;
		else
			allows++;
	}
	printf("%s: loads: %zu allow rule%s, %zu deny rule%s, %u warning%s\n", o->file, allows,
	       plural(allows),
	       denies, plural(denies), warnings, plural(warnings));
	policy_free(p);
	return EXIT_SUCCESS;
}

static int explain(const struct options *o)
{
	struct request_text parts;
	struct explain_request request;
	const char *wrong;
	struct policy *p = NULL;
	int status = EX_USAGE;

	buf_init(&parts.path, REQUEST_MAX);
	wrong = request_text_read(buf_str(&o->request), &parts, &request);
	if (wrong) {
		fprintf(stderr, "exeat policy explain: \"%.*s\": %s\n", STR_ARG(buf_str(&o->request)),
			wrong);
		goto out;
	}
	status = EXIT_FAILURE;
	p = load_policy(o, NULL);
	if (!p)
		goto out;
	(void)policy_explain(p, &request, stdout);
	status = fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
out:
	policy_free(p);
	buf_free(&parts.path);
	return status;
}

int cmd_policy(int argc, char **argv)
{
	static struct {
		const char *verb;
		char name[24];
		bool wants_request;
		int (*run)(const struct options *o);
	} commands[] = {
		{ "check", "exeat policy check", false, check },
		{ "explain", "exeat policy explain", true, explain },
	};
	struct options o = { 0 };
	int status;

	if (argc < 2)
		return usage_wrong("exeat policy", "check, explain, show or reload?");
	if (usage_asked(argv[1]))
		return usage_show(usage_text);
	if (strcmp(argv[1], "show") == 0)
		return cmd_policy_show(argc - 1, argv + 1);
	if (strcmp(argv[1], "reload") == 0)
		return cmd_reload(argc - 1, argv + 1);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].verb) != 0)
			continue;
		buf_init(&o.request, REQUEST_MAX);
		if (parse_options(argc - 1, argv + 1, commands[i].name, commands[i].wants_request,
				  &o, &status))
			status = commands[i].run(&o);
		buf_free(&o.request);
		return status;
	}
	return usage_wrong("exeat policy", "no command \"%s\": it is check, explain, show or reload", argv[1]);
}
