/* sandbox/confine.h - a role gives up all that it does not need
 *
 * Stages, each a line in confine.c's table a role: limits and dumps; namespaces and empty root;
 * user, groups and capabilities; system calls.
 *
 * Ownership   none.
 * Blocking    no.
 * Failure     an error means that the role must not go on: it is not confined. @what names the
 *             step.
 * Tests       tests/confine/ proves for each role one allowed act and each forbidden one.
 */
#ifndef SANDBOX_CONFINE_H
#define SANDBOX_CONFINE_H

#include "conf/err.h"
#include "sandbox/roles.h"

/* User and group number of a role: numbers that no system hands out. */
#define ROLE_UID_BASE 0x7fff0000u

/* What those roles may have open that serve many connections. */
#define CONFINE_MANY_DESCRIPTORS 65536

/* Cannot be undone. Descriptors that are open stay so. */
must_use enum err confine_enter(enum role role, const char **what);

#endif
