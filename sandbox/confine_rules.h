/* sandbox/confine_rules.h - which system calls each role may make, with which arguments
 *
 * One table. A call that has no row for a role kills its process; a row may instead answer with an
 * errno: for what libraries try and can do without. Arguments are compared as the kernel reads
 * them: 32 bits of an int.
 *
 * Ownership   static.       Blocking  never.       Failure  none.
 * Tests       tests/confine/confine_test.c
 */
#ifndef SANDBOX_CONFINE_RULES_H
#define SANDBOX_CONFINE_RULES_H

#include <seccomp.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/roles.h"

#define CONFINE_ARGS_MAX 2

struct confine_rule {
	int call;
	unsigned roles;			/* bit per enum role */
	int refused_with;		/* 0: allowed; else the errno that the caller sees */
	bool own_process;		/* first argument must be the caller's own process id */
	unsigned n_args;
	struct scmp_arg_cmp args[CONFINE_ARGS_MAX];
};

extern const struct confine_rule confine_rules[];
extern const size_t confine_rules_n;

#endif
