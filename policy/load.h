/* policy/load.h - reads a policy file: YAML text to image, or every error in it
 *
 * Ownership   borrows the text and the environment for the call.
 * Blocking    writes to the memfd only; reads no other file.
 * Failure     false, and the reasons are in @diags, each with line, column, caret and advice; all
 *             of a file's errors at once. Warnings and notes may be there when it loads, too.
 * Limits      POLICY_FILE_MAX bytes; conf/yaml.h bounds depth and nodes.
 * Tests       tests/unit/policy/test_load.c, tests/policy/{good,bad}, fuzz/fuzz_policy_load.c
 */
#ifndef POLICY_LOAD_H
#define POLICY_LOAD_H

#include "conf/diag.h"
#include "policy/policy.h"

#define POLICY_FILE_MAX (64u << 20)

/* A secret that the operator's settings declare: the most hosts it may go to. */
struct secret_bound {
	struct str name;
	const struct str *hosts;	/* patterns as in a policy */
	size_t n_hosts;
};

struct load_env {
	const struct secret_bound *secrets;
	size_t n_secrets;
	/* False (`policy check` without settings): bindings are not checked, a note says so. */
	bool secrets_known;
};

bool policy_load(struct str file, struct str text, const struct load_env *env, int memfd,
		 struct diags *diags);

#endif
