/* proxy/cmd_policy.h - `exeat policy check` and `exeat policy explain`
 *
 *     exeat policy check FILE [--settings FILE]
 *     exeat policy explain FILE REQUEST [--settings FILE]
 *
 * REQUEST is "GET https://HOST[:PORT]/PATH", "connect HOST:PORT" or "resolve NAME", as one argument
 * or as two.
 *
 * Ownership   none.
 * Blocking    runs the reader and waits for it.
 * Failure     the exit status: 0 done, 1 the policy (or the settings) does not load, 64 (EX_USAGE)
 *             for a command line or a REQUEST that cannot be read.
 * Tests       tests/unit/proxy/test_cmd_policy.c, tests/policy/run.sh
 */
#ifndef PROXY_CMD_POLICY_H
#define PROXY_CMD_POLICY_H

#include "conf/buf.h"
#include "policy/explain.h"
#include "policy/name.h"

/* argv[0] is "policy". */
int cmd_policy(int argc, char **argv);

/* Where a REQUEST's parts lie while it is asked about. */
struct request_text {
	struct buf path;
	struct name host;
};

/* Reads a REQUEST strictly. NULL, or what is wrong (static text). @out borrows from both. */
const char *cmd_policy_request(struct str text, struct request_text *parts,
			       struct explain_request *out);

#endif
