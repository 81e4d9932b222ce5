/* proxy/box_exec.h - runs one more command in a box, as an appliance says how
 *
 * Ownership   borrows.       Blocking  until the command has ended.
 * Failure     the exit status: the command's, or 1 after a message on stderr.
 * Tests       tests/unit/proxy/test_cmd_control.c, tests/e2e/test_control.py
 */
#ifndef PROXY_BOX_EXEC_H
#define PROXY_BOX_EXEC_H

struct json_t;

/* @answer: what POST /v1/sandboxes/{name}/exec said. @words: NULL-ended. */
int box_exec(const char *command, const struct json_t *answer, char *const *words);

#endif
