/* proxy/cmd_policy_show.h - "exeat policy show": the source of a policy that a record names
 *
 * Ownership   borrows argv: argv[0] is "show".
 * Blocking    reads files.
 * Failure     the exit code: 0, 1 (no such policy was kept; one line on stderr says why), 64
 *             (usage).
 * Tests       tests/unit/proxy/test_policy_store.c, tests/e2e/test_log.py
 */
#ifndef PROXY_CMD_POLICY_SHOW_H
#define PROXY_CMD_POLICY_SHOW_H

int cmd_policy_show(int argc, char **argv);

#endif
