#include "proxy/runtime_exec.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* NULL: it is not there, or is no whole path where it has to be one. */
static const char *text_of(const json_t *answer, const char *member, bool path)
{
	const char *text = json_string_value(json_object_get(answer, member));

	return text && path && text[0] != '/' ? NULL : text;
}

/* The file's process with our arguments and our terminal, in memory. -1 after a message. */
static int make_process(const char *command, const char *file, char *const *words)
{
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	json_t *process = json_load_file(file, JSON_REJECT_DUPLICATES, NULL), *arguments = json_array();
	int memory = memfd_create("process", 0), failed = 0;	/* the runtime has to find it open */

	for (; *words; words++)
		failed |= json_array_append_new(arguments, json_string(*words));
	failed |= json_object_set(process, "args", arguments);
	failed |= json_object_set_new(process, "terminal", json_boolean(terminal));
	if (!failed && memory >= 0)
		failed = json_dumpfd(process, memory, 0);
	if (failed && memory >= 0) {
		close(memory);
		memory = -1;
	}
	if (memory < 0)
		fprintf(stderr, "%s: %s: what the box's commands run as cannot be read, or a word is no UTF-8\n",
			command, file);
	json_decref(arguments);
	json_decref(process);
	return memory;
}

int runtime_exec(const char *command, const struct json_t *answer, char *const *words)
{
	const char *runtime = text_of(answer, "runtime", true), *state = text_of(answer, "state", true),
		   *container = text_of(answer, "container", false),
		   *file = text_of(answer, "process", true);
	char process[32];
	int memory;

	if (!runtime || !state || !container || !file) {
		fprintf(stderr, "%s: the appliance does not say how to enter the box\n", command);
		return EXIT_FAILURE;
	}
	memory = make_process(command, file, words);
	if (memory < 0)
		return EXIT_FAILURE;
	snprintf(process, sizeof(process), "/proc/self/fd/%d", memory);
	execl(runtime, runtime, "--root", state, "exec", "--process", process, container, (char *)NULL);
	fprintf(stderr, "%s: %s: %s\n", command, runtime, strerror(errno));
	close(memory);
	return EXIT_FAILURE;
}
