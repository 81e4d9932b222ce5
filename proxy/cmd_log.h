/* proxy/cmd_log.h - "exeat log": verify and tail; query and summary are cmd_log_read.h's
 *
 * Ownership   borrows argv: argv[0] is "log".
 * Blocking    reads files; tail -f until it is interrupted.
 * Failure     the exit code: 0, 1 (the log is wrong or cannot be read; one line on stderr says
 *             why), 64 (usage).
 * Tests       tests/unit/proxy/test_cmd_log.c
 */
#ifndef PROXY_CMD_LOG_H
#define PROXY_CMD_LOG_H

int cmd_log(int argc, char **argv);

#endif
