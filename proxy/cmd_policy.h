/* proxy/cmd_policy.h - `exeat policy check` and `exeat policy explain`
 *
 *     exeat policy check FILE [--settings FILE]
 *     exeat policy explain FILE REQUEST [--settings FILE]
 *
 * REQUEST is a text as policy/request_text.h reads it, as one argument or as two.
 *
 * Ownership   none.
 * Blocking    runs the reader and waits for it.
 * Failure     the exit status: 0 done, 1 the policy (or the settings) does not load, 64 (EX_USAGE)
 *             for a command line or a REQUEST that cannot be read.
 * Tests       tests/policy/run.sh
 */
#ifndef PROXY_CMD_POLICY_H
#define PROXY_CMD_POLICY_H

/* argv[0] is "policy". */
int cmd_policy(int argc, char **argv);

#endif
