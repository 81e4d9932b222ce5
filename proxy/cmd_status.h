/* proxy/cmd_status.h - the command "exeat status"
 *
 * Ownership   borrows argv.       Blocking  until the appliance has answered.
 * Failure     exit statuses as its --help says.
 * Tests       tests/unit/proxy/test_cmd_control.c, tests/e2e/test_control.py
 */
#ifndef PROXY_CMD_STATUS_H
#define PROXY_CMD_STATUS_H

int cmd_status(int argc, char **argv);

#endif
