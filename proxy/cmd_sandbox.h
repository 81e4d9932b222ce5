/* proxy/cmd_sandbox.h - the command "exeat sandbox": an appliance's boxes
 *
 * Ownership   borrows argv.       Blocking  until the appliance has answered; with --wait until the
 *             sandbox has ended.
 * Failure     exit statuses as its --help says.
 * Tests       tests/unit/proxy/test_cmd_control.c, tests/e2e/test_control.py
 */
#ifndef PROXY_CMD_SANDBOX_H
#define PROXY_CMD_SANDBOX_H

int cmd_sandbox(int argc, char **argv);

#endif
