#include "proxy/box_exec.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/box.h"
#include "sandbox/enter.h"

#define BEGIN_MS 10000
#define RETRY_MS 10

/* 0: the box has not begun, or has ended. */
static int read_first(const char *folder)
{
	char path[PATH_MAX];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/" BOX_FIRST_PROCESS, folder);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &pid) != 1)
		pid = 0;
	if (f)
		fclose(f);
	return pid;
}

/* For the appliance a box runs once it may begin; its first process is there a moment later. */
static int wait_for_first(const char *folder)
{
	int pid = read_first(folder);

	for (int ms = 0; pid <= 0 && ms < BEGIN_MS && access(folder, F_OK) == 0; ms += RETRY_MS) {
		poll(NULL, 0, RETRY_MS);
		pid = read_first(folder);
	}
	return pid;
}

/* {"env": [...]}; NULL: it cannot be read. */
static json_t *read_environment(const char *folder)
{
	char path[PATH_MAX];
	json_t *j;

	snprintf(path, sizeof(path), "%s/" BOX_ENVIRONMENT, folder);
	j = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_array(json_object_get(j, "env")))
		return j;
	json_decref(j);
	return NULL;
}

static char **list_of(const json_t *texts)
{
	char **out = calloc(json_array_size(texts) + 1, sizeof(*out));
	const json_t *one;
	size_t i, n = 0;

	if (!out)
		return NULL;
	json_array_foreach(texts, i, one)
		if (json_is_string(one))
			out[n++] = (char *)json_string_value(one);
	return out;
}

int box_exec(const char *command, const struct json_t *answer, char *const *words)
{
	const char *id = json_string_value(json_object_get(answer, "container")),
		   *folder = json_string_value(json_object_get(answer, "state")), *what = "";
	struct enter_spec spec = { .id = id, .command = words };
	json_t *environment = NULL;
	char **list = NULL;
	int status = EXIT_FAILURE;
	enum err e;

	if (id && folder && folder[0] == '/') {
		spec.first = wait_for_first(folder);
		environment = read_environment(folder);
		list = list_of(json_object_get(environment, "env"));
	}
	if (spec.first <= 0 || !environment || !list) {
		fprintf(stderr, "%s: the box has not begun, or has ended\n", command);
	} else {
		spec.environment = list;
		e = enter_box(&spec, &status, &what);
		if (e)
			fprintf(stderr, "%s: %s cannot be joined: %s\n", command, what,
				e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	}
	free(list);
	json_decref(environment);
	return status;
}
