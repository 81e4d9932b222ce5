/* proxy/cmd_reload.h - the command "exeat policy reload"
 *
 * Ownership   borrows argv.       Blocking  until the appliance has answered.
 * Failure     exit statuses as its --help says.
 * Tests       tests/unit/proxy/test_cmd_control.c, tests/e2e/test_control.py
 */
#ifndef PROXY_CMD_RELOAD_H
#define PROXY_CMD_RELOAD_H

/* argv[0] is "reload". */
int cmd_reload(int argc, char **argv);

#endif
