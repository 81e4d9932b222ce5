/* sandbox/wire_sysctls.h - the kernel's switches in the namespaces of a wire
 *
 * Each sets those of the namespace that the calling thread is in.
 *
 * Ownership   nothing is kept.       Blocking  never.
 * Failure     ERR_SYSTEM with why->code, and in why->what the switch's path.
 * Tests       tests/unit/sandbox/test_wire.c
 */
#ifndef SANDBOX_WIRE_SYSCTLS_H
#define SANDBOX_WIRE_SYSCTLS_H

#include "sandbox/wire.h"

must_use enum err wire_sysctls_gateway(struct wire_error *why);
must_use enum err wire_sysctls_box(struct wire_error *why);

#endif
