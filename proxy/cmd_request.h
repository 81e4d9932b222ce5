/* proxy/cmd_request.h - the command "exeat request": what boxes have asked for
 *
 * Ownership   borrows argv.       Blocking  until the appliance has answered.
 * Failure     exit statuses as its --help says.
 * Tests       tests/unit/proxy/test_cmd_control.c, tests/e2e/test_control.py
 */
#ifndef PROXY_CMD_REQUEST_H
#define PROXY_CMD_REQUEST_H

int cmd_request(int argc, char **argv);

#endif
