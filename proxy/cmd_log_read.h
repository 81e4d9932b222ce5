/* proxy/cmd_log_read.h - "exeat log query" and "exeat log summary": lines of a log that are asked for
 *
 * Ownership   borrows argv: argv[0] is "query" or "summary".
 * Blocking    reads files.
 * Failure     the exit code: 0 (also where nothing matches), 1 (a file cannot be read; one line on
 *             stderr says why), 64 (usage).
 * Tests       tests/unit/proxy/test_cmd_log.c, tests/e2e/test_log.py
 */
#ifndef PROXY_CMD_LOG_READ_H
#define PROXY_CMD_LOG_READ_H

int cmd_log_query(int argc, char **argv);
int cmd_log_summary(int argc, char **argv);

#endif
