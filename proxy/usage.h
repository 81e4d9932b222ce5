/* proxy/usage.h - how every command says that it was called wrongly, and how it is called
 *
 * Ownership   borrows every text.       Blocking  writes to stdout or stderr.
 * Failure     the exit status is the answer: 0 for help that was shown, 1 where it could not be
 *             written, 64 (EX_USAGE) for a wrong command line.
 * Tests       tests/unit/proxy/test_usage.c
 */
#ifndef PROXY_USAGE_H
#define PROXY_USAGE_H

#include <stdbool.h>

/* "--help", "-h" or "help". */
bool usage_asked(const char *word);
/* What --help shows, on stdout. */
int usage_show(const char *text);
/* One line with what is wrong (NULL: it has been said) and one with where help is. @command is all
 * of its words: "exeat log tail". */
int usage_wrong(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
