/* proxy/runtime_exec.h - becomes the container runtime, to run one more command in a box
 *
 * What it runs as (user, environment, no capabilities) is what the box's own command runs as: the
 * keeper has left it in a file (sandbox/box.h). The arguments are put into it, and the runtime gets
 * it as a file in memory.
 *
 * Ownership   borrows.       Blocking  reads a file.
 * Failure     returns the exit status only where the runtime could not be started; why has been said
 *             on stderr.
 * Tests       tests/unit/proxy/test_cmd_control.c, tests/e2e/test_control.py
 */
#ifndef PROXY_RUNTIME_EXEC_H
#define PROXY_RUNTIME_EXEC_H

struct json_t;

/* @answer: what POST /v1/sandboxes/{name}/exec said. @words: NULL-ended. */
int runtime_exec(const char *command, const struct json_t *answer, char *const *words);

#endif
