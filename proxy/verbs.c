#include "proxy/verbs.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "conf/json.h"
#include "proxy/control.h"
#include "proxy/control_api.h"
#include "proxy/show.h"
#include "proxy/usage.h"

enum { OPT_OWN, OPT_SOCKET = VERB_OPTIONS_MAX, OPT_JSON, OPT_HELP, OPT_COUNT };

/* ---- command lines ---- */

/* What getopt() is to see ends at "--": what is behind it is somebody else's. */
static int split(int argc, char **argv, struct verb_call *call)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		call->behind = argv + i + 1;
		argv[i] = NULL;
		return i;
	}
	return argc;
}

static void fill_options(const struct verb *verb, struct option out[OPT_COUNT + 1])
{
	unsigned n = 0;

	for (unsigned i = 0; i < VERB_OPTIONS_MAX && verb->options[i].name; i++) {
		int takes = verb->options[i].takes ? required_argument : no_argument;

		out[n++] = (struct option){ verb->options[i].name, takes, NULL, (int)i };
	}
	out[n++] = (struct option){ "socket", required_argument, NULL, OPT_SOCKET };
	out[n++] = (struct option){ "json", no_argument, NULL, OPT_JSON };
	out[n++] = (struct option){ "help", no_argument, NULL, OPT_HELP };
	out[n] = (struct option){ 0 };
}

static int check_words(const struct verb *verb, const struct verb_call *call)
{
	if (call->n < verb->min)
		return usage_wrong(verb->command, "%s is missing", verb->words);
	if (call->n > verb->max && verb->behind)
		return usage_wrong(verb->command, "\"%s\" is one word too many: a command stands behind --",
				   call->words[verb->max]);
	if (call->n > verb->max)
		return usage_wrong(verb->command, "\"%s\" is one word too many", call->words[verb->max]);
	if (call->behind && !verb->behind)
		return usage_wrong(verb->command, "it takes nothing behind --");
	if (call->behind && !call->behind[0])
		return usage_wrong(verb->command, "no command stands behind --");
	return EX_OK;
}

static int run_verb(const struct verbs *v, const struct verb *verb, int argc, char **argv)
{
	struct verb_call call = { .command = verb->command, .socket = CONTROL_SOCKET };
	struct option options[OPT_COUNT + 1];
	int c, wrong;

	argc = split(argc, argv, &call);
	argv[0] = verb->command;
	fill_options(verb, options);
	optind = 0;	/* glibc: from the beginning */
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == OPT_HELP || c == 'h')
			return usage_show(v->usage);
		if (c == '?')
			return usage_wrong(verb->command, NULL);
		if (c == OPT_SOCKET)
			call.socket = optarg;
		else if (c == OPT_JSON)
			call.json = true;
		else
			call.value[c] = optarg ? optarg : "";
	}
	call.words = argv + optind;
	call.n = (unsigned)(argc - optind);
	wrong = check_words(verb, &call);
	return wrong ? wrong : verb->run(&call);
}

/* "start, stop or list" */
static void put_names(const struct verbs *v, struct buf *out)
{
	for (unsigned i = 0; i < v->n; i++)
		buf_printf(out, "%s%s", i == 0 ? "" : i + 1 < v->n ? ", " : " or ", v->verbs[i].name);
	buf_put_c(out, '\0');
}

static int wrong_verb(const struct verbs *v, const char *word)
{
	struct buf names;
	int status;

	buf_init(&names, 256);
	put_names(v, &names);
	if (names.failed)
		status = usage_wrong(v->command, NULL);
	else if (word)
		status = usage_wrong(v->command, "no command \"%s\": it is %s", word, names.p);
	else
		status = usage_wrong(v->command, "%s?", names.p);
	buf_free(&names);
	return status;
}

int verbs_run(const struct verbs *v, int argc, char **argv)
{
	if (!v->verbs[0].name)
		return run_verb(v, &v->verbs[0], argc, argv);
	if (argc < 2)
		return wrong_verb(v, NULL);
	if (usage_asked(argv[1]))
		return usage_show(v->usage);
	for (unsigned i = 0; i < v->n; i++)
		if (strcmp(argv[1], v->verbs[i].name) == 0)
			return run_verb(v, &v->verbs[i], argc - 1, argv + 1);
	return wrong_verb(v, argv[1]);
}

/* ---- for verbs ---- */

int verb_ask(const struct verb_call *call, const struct control_ask *ask,
	     void (*show)(const struct json_t *answer))
{
	struct control_reply reply;
	int status = control_ask(ask, &reply);

	if (status == EX_OK && call->json) {
		show_text(stdout, buf_str(&reply.text));
		fputc('\n', stdout);
	} else if (status == EX_OK) {
		show(reply.json);
	}
	if (status == EX_OK && (fflush(stdout) != 0 || ferror(stdout)))
		status = EXIT_FAILURE;
	control_reply_free(&reply);
	return status;
}

int verb_ask_with(const struct verb_call *call, struct control_ask *ask, const char *member,
		  const char *value, void (*show)(const struct json_t *answer))
{
	struct buf body;
	struct json j;
	int status;

	buf_init(&body, CONTROL_BODY_MAX);
	json_init(&j, &body);
	json_object(&j);
	if (value)
		json_put_str(&j, member, str_of(value));
	json_object_end(&j);
	ask->body = buf_str(&body);
	status = body.failed ? usage_wrong(call->command, "--%s is too long", member)
			     : verb_ask(call, ask, show);
	buf_free(&body);
	return status;
}

bool verb_path(const struct verb_call *call, const char *path, struct buf *out)
{
	char here[PATH_MAX];

	if (path[0] != '/') {
		if (!getcwd(here, sizeof(here))) {
			fprintf(stderr, "%s: %s: this folder: %s\n", call->command, path, strerror(errno));
			return false;
		}
		buf_put_str(out, str_of(here));
		buf_put_c(out, '/');
	}
	buf_put_str(out, str_of(path));
	return true;
}
