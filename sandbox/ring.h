/* sandbox/ring.h - a byte ring in shared memory: one role writes audit records, the recorder reads
 *
 * A memfd of fixed size, sealed against resizing, mapped by both sides. The writer copies a whole
 * record in and then publishes it; the reader advances the tail only after its own write to the log
 * file, so neither's death loses one. Each side trusts nothing of the other: positions are copied
 * once, checked against the size, and what does not hold ends the ring (ERR_SYNTAX).
 *
 * @wake is an eventfd that the reader waits on, @room one that a writer which met a full ring, or
 * waits for the disk, waits on.
 *
 * Beside each record there is room for a stamp of the reader's, for a successor of it to find.
 *
 * Ownership   ring_create() makes three descriptors for the caller to pass and close;
 *             ring_open_*() take theirs over, also when they fail. ring_close() releases map and
 *             descriptors.
 * Blocking    never.
 * Failure     ring_write(): ERR_FULL when there is no room (ask for @room), ERR_DENIED while the
 *             recorder says that the log cannot be written (fail closed).
 * Limits      RING_BYTES, RING_RECORD_MAX.
 * Tests       tests/unit/sandbox/test_ring.c
 */
#ifndef SANDBOX_RING_H
#define SANDBOX_RING_H

#include "conf/err.h"
#include "conf/str.h"

#define RING_BYTES (1u << 20)
#define RING_RECORD_MAX 16384u

struct ring_fds {
	int memory, wake, room;
};

struct ring;

must_use enum err ring_create(struct ring_fds *out);
must_use enum err ring_open_writer(const struct ring_fds *fds, struct ring **out);
must_use enum err ring_open_reader(const struct ring_fds *fds, struct ring **out);
void ring_close(struct ring *r);

/* ---- the writer ---- */
must_use enum err ring_write(struct ring *r, struct str record);
/* The end of what has its begin in the log or in the ring: taken while the log cannot be written,
 * too, so that it is there when it can be again. */
must_use enum err ring_write_end(struct ring *r, struct str record);
/* Can a record of @n bytes be written now, and does the recorder keep up? */
bool ring_has_room(const struct ring *r, size_t n);
/* Where the record ends that was written last: ring_synced() may be asked for that. */
uint64_t ring_written(const struct ring *r);
/* Is all before @position on the disk? If not, @room says when to ask again. */
bool ring_synced(const struct ring *r, uint64_t position);
/* Has the recorder said that the log cannot be written? */
bool ring_refuses(const struct ring *r);
/* For the event loop: readable when room was made. ring_room_seen() clears it. */
int ring_room_fd(const struct ring *r);
void ring_room_seen(struct ring *r);

/* ---- the reader ---- */
/* The next record, copied into the ring's own scratch (valid until the next call). ERR_AGAIN: none;
 * ERR_SYNTAX: the writer broke the ring, nothing more will come of it. */
must_use enum err ring_next(struct ring *r, struct str *record);
/* Where the record stands that ring_next() gave last. */
uint64_t ring_position(const struct ring *r);
/* Was it there already when the ring was opened? Then a reader before this one may have had it. */
bool ring_is_old(const struct ring *r);
/* The stamp of the record that ring_next() gave last: 0, or what some reader has put there (the
 * writer could, too). */
uint64_t ring_stamp(const struct ring *r);
/* @position: a record that was given, and at which or before which the tail still is. */
void ring_set_stamp(struct ring *r, uint64_t position, uint64_t stamp);
/* All that ring_next() gave is done with: the tail moves there, but not past what is kept. */
void ring_advance(struct ring *r);
/* What stands at @position and after it stays in the ring, for whoever may have to read it again;
 * RING_KEEP_NOTHING ends that. Takes effect at the next ring_advance(). */
#define RING_KEEP_NOTHING UINT64_MAX
void ring_keep(struct ring *r, uint64_t position);
/* Is over half of the ring taken? */
bool ring_pressed(const struct ring *r);
/* Forgets what ring_next() gave since the last ring_advance(): it will be given again. */
void ring_rewind(struct ring *r);
void ring_set_refusing(struct ring *r, bool refuse);
/* All that ring_advance() is done with is on the disk. */
void ring_set_synced(struct ring *r);
/* The reader looks again by itself, soon: until it says otherwise it is woken only when there is
 * much to read. Takes effect when ring_next() finds nothing. */
void ring_linger(struct ring *r, bool linger);
int ring_wake_fd(const struct ring *r);
void ring_wake_seen(struct ring *r);

#endif
