/* proxy/verbs.h - commands that are one question to an appliance: a table says what each takes
 *
 * "exeat sandbox start NAME --policy FILE -- COMMAND": a verb has options, a number of words, and may
 * have a command behind "--". Every verb takes --socket PATH, --json and --help as well.
 *
 * Ownership   borrows argv; what is in a call lives as long.
 * Blocking    never by itself.
 * Failure     a wrong command line is 64 after proxy/usage.h has said what is wrong.
 * Limits      VERB_OPTIONS_MAX of a verb's own options.
 * Tests       tests/unit/proxy/test_verbs.c
 */
#ifndef PROXY_VERBS_H
#define PROXY_VERBS_H

#include <stdbool.h>

#include "conf/buf.h"
#include "proxy/control_client.h"

#define VERB_OPTIONS_MAX 8u

struct verb_option {
	const char *name;
	bool takes;			/* a value */
};

struct verb_call {
	const char *command;		/* "exeat sandbox start" */
	/* As the verb's options. NULL: it was not given; of one that takes none: "" */
	const char *value[VERB_OPTIONS_MAX];
	char **words;
	unsigned n;
	char **behind;			/* NULL-ended, behind "--"; NULL: nothing stood there */
	const char *socket;
	bool json;
};

struct verb {
	const char *name;		/* NULL: the command itself is the verb */
	char *command;			/* all of its words; for getopt(), which wants it so */
	struct verb_option options[VERB_OPTIONS_MAX];
	unsigned min, max;		/* words */
	const char *words;		/* what they are, for who left them out */
	bool behind;			/* a command may stand behind "--" */
	int (*run)(const struct verb_call *call);
};

struct verbs {
	const char *command, *usage;
	const struct verb *verbs;
	unsigned n;
};

/* argv[0] is the command's own name. Returns the exit status. */
int verbs_run(const struct verbs *v, int argc, char **argv);

/* ---- for verbs ---- */
/* Asks, shows the answer with @show (--json: as it is), and says the exit status. */
int verb_ask(const struct verb_call *call, const struct control_ask *ask,
	     void (*show)(const struct json_t *answer));
/* The same with a body that has one member, the value of an option that is called as it; NULL: it
 * was not given, and neither is the member. */
int verb_ask_with(const struct verb_call *call, struct control_ask *ask, const char *member,
		  const char *value, void (*show)(const struct json_t *answer));
/* A file's path from its '/', as an appliance needs it. False: the folder that it starts from is
 * not known; said on stderr. */
bool verb_path(const struct verb_call *call, const char *path, struct buf *out);

#endif
