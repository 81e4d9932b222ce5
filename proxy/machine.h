/* proxy/machine.h - can boxes be run here, by who we are?
 *
 * Ownership   borrows.       Blocking  looks at files.
 * Failure     false; one line on stderr, that of @command, says what is missing and what to do.
 * Tests       tests/e2e/test_run.py
 */
#ifndef PROXY_MACHINE_H
#define PROXY_MACHINE_H

#include <stdbool.h>

bool machine_ok(const char *command);

#endif
