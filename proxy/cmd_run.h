/* proxy/cmd_run.h - `exeat run`: one command in one box, no daemon
 *
 * Ownership   borrows argv.       Blocking  until the command has ended.
 * Failure     the process's exit status: the command's own, 1 where the policy does not load,
 *             125 where it was not run for another reason, 64 for a wrong command line.
 * Tests       tests/e2e
 */
#ifndef PROXY_CMD_RUN_H
#define PROXY_CMD_RUN_H

int cmd_run(int argc, char **argv);

#endif
