/* sandbox/bundle.h - the OCI bundle's config.json: the lock-down, written down
 *
 * One place that says what a box may do (OCI runtime specification 1.0). seccomp_profile.c holds
 * the list of refused system calls, bundle.c everything else.
 *
 * Ownership   all arguments are borrowed for the call.
 * Blocking    never: writes into a buffer.
 * Failure     sticky in the buffer.
 * Tests       tests/unit/sandbox/test_bundle.c, test_box.c
 */
#ifndef SANDBOX_BUNDLE_H
#define SANDBOX_BUNDLE_H

#include "conf/buf.h"
#include "sandbox/box.h"

#define BUNDLE_MAX (1u << 20)
/* The user inside. Root inside is a number that nothing runs as. */
#define BOX_UID 1000
#define BOX_GID 1000
#define BOX_HOME "/home/box"
#define BOX_WORKSPACE "/workspace"
#define BOX_INIT "/etc/exeat/init"
#define BOX_COMMAND "/etc/exeat/command"	/* its arguments, each with its NUL */
#define BOX_CA_BUNDLE "/etc/exeat/ca-bundle.pem"	/* the system's and Exeat's */
#define BOX_CA_ONLY "/etc/exeat/ca.pem"		/* for programs that add it to their own */
#define BOX_JAVA_STORE "/etc/exeat/cacerts"
/* Where 1024 is usual: counts only while others want the processor, too. */
#define BOX_CPU_SHARES 512
/* A machine out of memory takes it from a box, before it takes the roles that watch over one. */
#define BOX_OOM_SCORE 500
#define BOX_CGROUP_PREFIX "exeat-"	/* before the box's id */
/* Descriptor of the pipe whose end tells init that the keeper is gone. */
#define BOX_LIFE_FD 3

struct json;

struct bundle {
	const struct box_spec *spec;
	const char *root;		/* path of the root */
	const char *netns;		/* path of the network namespace */
	uint32_t root_uid, uid, gid;	/* the numbers outside; none of them 0 */
	uint32_t limit_processes;	/* 0: not limited */
	bool limit_cpu;
	uint64_t limit_memory;		/* bytes; 0: not limited */
};

void bundle_write(const struct bundle *b, struct buf *out);
/* {"env": [...]}, as it stands there: what a further command in the box is told. */
void bundle_write_environment(const struct box_spec *spec, struct buf *out);
/* The value of the configuration's "seccomp". */
void seccomp_profile_write(struct json *j);
/* Puts the same on the calling process, which gains no privileges any more. */
must_use enum err seccomp_profile_load(void);

#endif
