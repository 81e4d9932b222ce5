#include "proxy/cmd_settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/schema_json.h"
#include "conf/schema_man.h"
#include "conf/schema_show.h"
#include "proxy/settings.h"
#include "proxy/settings_rows.h"
#include "proxy/usage.h"

#define OUT_MAX (4u << 20)

struct options {
	const char *settings;	/* --settings, or check's FILE; NULL: where they lie */
	bool json;
};

static const char usage_text[] =
	"usage: exeat settings show [--settings FILE] [--json]\n"
	"       exeat settings check FILE\n"
	"       exeat settings schema\n"
	"       exeat settings man\n"
	"\n"
	"show     every key with its value in force, and where it comes from; no secret is shown\n"
	"check    says whether the file loads and fits this machine, and if not, what to write instead\n"
	"schema   the keys as a JSON Schema, for editors\n"
	"man      the keys as exeat.yaml(5) has them\n"
	"\n"
	"  --settings FILE    instead of ~/.config/exeat/exeat.yaml or /etc/exeat/exeat.yaml\n"
	"  --json             as JSON\n"
	"\n"
	"The exit status is 0; 1 if the file does not load or does not fit, 64 for a wrong command line.\n";

static int write_out(struct buf *out)
{
	bool good = !out->failed && fwrite(out->p, 1, out->n, stdout) == out->n &&
		    fflush(stdout) == 0;

	buf_free(out);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int show(const struct options *o)
{
	struct settings *s = settings_load(o->settings);
	struct buf out;

	if (!s)
		return EXIT_FAILURE;
	buf_init(&out, OUT_MAX);
	schema_show(settings_rows, settings_tree(s), s->path, o->json, &out);
	settings_free(s);
	return write_out(&out);
}

static int check(const struct options *o)
{
	struct settings *s = settings_load_here(o->settings);
	struct buf out;

	if (!s)
		return EXIT_FAILURE;
	buf_init(&out, OUT_MAX);
	buf_printf(&out, "%s: loads, and fits this machine\n", o->settings);
	settings_free(s);
	return write_out(&out);
}

static int schema(const struct options *o)
{
	struct buf out;

	(void)o;
	buf_init(&out, OUT_MAX);
	schema_json(settings_rows, "The operator's settings of Exeat", &out);
	return write_out(&out);
}

static int man(const struct options *o)
{
	struct buf out;

	(void)o;
	buf_init(&out, OUT_MAX);
	schema_man(settings_rows, &out);
	return write_out(&out);
}

static const struct command {
	const char *verb, *name, *takes;	/* f: --settings FILE, j: --json, F: a FILE */
	int (*run)(const struct options *o);
} commands[] = {
	{ "show", "exeat settings show", "fj", show },
	{ "check", "exeat settings check", "F", check },
	{ "schema", "exeat settings schema", "", schema },
	{ "man", "exeat settings man", "", man },
};

/* False: the command ends here, with *status. */
static bool parse_options(int argc, char **argv, const struct command *command, struct options *o,
			  int *status)
{
	static const struct option options[] = {
		{ "settings", required_argument, NULL, 'f' }, { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' }, { 0 },
	};
	bool wants_file = strchr(command->takes, 'F') != NULL;
	int c;

	optind = 0;	/* glibc: from the beginning */
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h' || c == '?' || !strchr(command->takes, c)) {
			*status = c == 'h' ? usage_show(usage_text)
				: usage_wrong(command->name,
					      c == '?' ? NULL : "it does not take this option");
			return false;
		}
		if (c == 'f')
			o->settings = optarg;
		else
			o->json = true;
	}
	if (wants_file && optind < argc)
		o->settings = argv[optind++];
	if (wants_file && !o->settings)
		*status = usage_wrong(command->name, "which settings? FILE is missing");
	else if (optind < argc)
		*status = usage_wrong(command->name, "\"%s\" is too much", argv[optind]);
	else
		return true;
	return false;
}

int cmd_settings(int argc, char **argv)
{
	struct options o = { 0 };
	char name[32];
	int status;

	if (argc < 2)
		return usage_wrong("exeat settings", "show, check, schema or man?");
	if (usage_asked(argv[1]))
		return usage_show(usage_text);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].verb) != 0)
			continue;
		snprintf(name, sizeof(name), "%s", commands[i].name);
		argv[1] = name;	/* for getopt's messages */
		return parse_options(argc - 1, argv + 1, &commands[i], &o, &status)
			? commands[i].run(&o) : status;
	}
	return usage_wrong("exeat settings", "no command \"%s\": it is show, check, schema or man",
			   argv[1]);
}
