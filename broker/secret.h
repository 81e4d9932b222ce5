/* broker/secret.h - a value that must not get out: locked, not dumpable, wiped
 *
 * A value is what a header field can carry in one way only: printable ASCII without outer spaces.
 *
 * Ownership   secret_new() copies and the caller wipes its source; secret_free() wipes.
 * Blocking    no; secret_read() as long as its descriptor does.
 * Failure     ERR_NOMEM, also where the memory cannot be locked; ERR_SYNTAX for a value that cannot
 *             be one. secret_read() also: ERR_DENIED (owner, mode, kind of file), ERR_SYSTEM.
 * Printing    there is no way to format one, on purpose.
 * Limits      SECRET_MIN to SECRET_MAX bytes.
 * Tests       tests/unit/broker/test_secret.c
 */
#ifndef BROKER_SECRET_H
#define BROKER_SECRET_H

#include "conf/err.h"
#include "conf/str.h"

#define SECRET_MIN 8		/* shorter values would be found everywhere in an answer */
#define SECRET_MAX 16384

struct secret;

must_use enum err secret_new(struct str value, struct secret **out);
void secret_free(struct secret *s);
/* Borrowed; never to be copied into memory that is not a secret's. */
struct str secret_value(const struct secret *s);

/* @value without one trailing newline (LF or CR LF). */
struct str secret_trim(struct str value);
/* Why a value cannot be one (static text: empty, too short, has a control byte, ...), or NULL. */
const char *secret_objection(struct str value);

/* Reads a secret's source: a descriptor of a file or pipe, trims and checks it. *objection (static)
 * says what is wrong with owner, mode or value; it never holds a byte of the value. @check_mode: it
 * must be a regular file that belongs to root or this process's real user, and that neither group
 * nor others can read or write. */
must_use enum err secret_read(int fd, bool check_mode, struct secret **out, const char **objection);

#endif
