#include "proxy/log_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOG_NAME "exeat/audit.jsonl"

/* Relative paths are to be ignored (XDG Base Directory Specification, "basics"). */
static const char *absolute(const char *variable)
{
	const char *v = getenv(variable);

	return v && v[0] == '/' ? v : NULL;
}

enum err log_default_path(char *out, size_t n)
{
	const char *state = absolute("XDG_STATE_HOME"), *home = absolute("HOME");
	int len;

	if (state)
		len = snprintf(out, n, "%s/" LOG_NAME, state);
	else if (home)
		len = snprintf(out, n, "%s/.local/state/" LOG_NAME, home);
	else
		return ERR_NOTFOUND;
	return len < 0 || (size_t)len >= n ? ERR_LIMIT : OK;
}

static enum err make_parents(const char *path)
{
	char dir[PATH_MAX];
	size_t n = strlen(path);

	if (n >= sizeof(dir))
		return ERR_LIMIT;
	memcpy(dir, path, n + 1);
	for (size_t i = 1; i < n; i++) {
		if (dir[i] != '/')
			continue;
		dir[i] = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			return ERR_SYSTEM;
		dir[i] = '/';
	}
	return OK;
}

enum err log_path_open(const char *path, int *fd)
{
	enum err e = make_parents(path);

	if (e)
		return e;
	*fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	return *fd < 0 ? ERR_SYSTEM : OK;
}
