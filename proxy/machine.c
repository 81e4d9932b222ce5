#include "proxy/machine.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include <cap-ng.h>

#include "sandbox/box.h"
#include "sandbox/spawn.h"

/* Whoever starts us may have kept some back, a container's runtime mostly. */
static bool capabilities_ok(const char *command)
{
	static const struct {
		unsigned number;
		const char *name;
	} needed[] = {
#define X(cap) { cap, #cap }
		X(CAP_NET_ADMIN), X(CAP_SYS_ADMIN), X(CAP_NET_BIND_SERVICE), X(CAP_SETUID), X(CAP_SETGID),
		X(CAP_SETPCAP), X(CAP_CHOWN), X(CAP_DAC_OVERRIDE), X(CAP_KILL),
#undef X
	};
	bool ok = true;

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		if (capng_have_capability(CAPNG_EFFECTIVE, needed[i].number))
			continue;
		if (ok)
			fprintf(stderr, "%s: missing: %s", command, needed[i].name);
		else
			fprintf(stderr, ", %s", needed[i].name);
		ok = false;
	}
	if (!ok)
		fprintf(stderr, "; give that to this container, or start exeat outside of it\n");
	return ok;
}

/* Roles and box have user numbers of their own, far up. */
static bool has_all_users(void)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned inside = 1, outside, n = 0;
	bool all = f && fscanf(f, "%u %u %u", &inside, &outside, &n) == 3 && inside == 0 && n == UINT_MAX;

	if (f)
		fclose(f);
	return all;
}

bool machine_ok(const char *command)
{
	char programs[PATH_MAX];

	if (geteuid() != 0) {
		fprintf(stderr, "%s: must be root: start it with sudo\n", command);
		return false;
	}
	if (!capabilities_ok(command))
		return false;
	if (!has_all_users()) {
		fprintf(stderr, "%s: root of a user namespace is not enough: start exeat outside of it\n", command);
		return false;
	}
	if (spawn_find_programs(programs, sizeof(programs)) != OK) {
		fprintf(stderr, "%s: exeat's other programs are neither beside it nor in ../libexec/exeat of "
				"it: make install puts all in place\n", command);
		return false;
	}
	if (!box_runtime()) {
		fprintf(stderr, "%s: no container runtime: install one: apt-get install runc\n", command);
		return false;
	}
	return true;
}
