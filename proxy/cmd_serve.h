/* proxy/cmd_serve.h - the command "exeat serve"
 *
 * Ownership   borrows argv.       Blocking  as long as the appliance runs.
 * Failure     exit statuses as its --help says.
 * Tests       tests/e2e/test_control.py
 */
#ifndef PROXY_CMD_SERVE_H
#define PROXY_CMD_SERVE_H

int cmd_serve(int argc, char **argv);

#endif
