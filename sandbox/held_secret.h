/* sandbox/held_secret.h - bytes that the supervisor holds for others and has not in its memory
 *
 * They lie in a pipe whose writing end is closed. Each role that is to read them gets a pipe of its
 * own with the same bytes (tee(2)): what it reads there stays in the one that is held, for the
 * role's successor. A process that was taken over would still have to read() them, which nothing in
 * the supervisor does.
 *
 * Ownership   descriptors are the caller's, close-on-exec. The caller wipes @bytes.
 * Blocking    never.
 * Failure     -1, errno says why: E2BIG over the limit, EIO where the pipe has not the room.
 * Limits      HELD_SECRET_MAX bytes.
 * Needs       pipe2, tee, ioctl FIONREAD.
 * Tests       tests/unit/sandbox/test_held_secret.c
 */
#ifndef SANDBOX_HELD_SECRET_H
#define SANDBOX_HELD_SECRET_H

#include <stddef.h>

#define HELD_SECRET_MAX 16384

int held_secret_new(const void *bytes, size_t n);
int held_secret_copy(int held);

#endif
