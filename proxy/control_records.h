/* proxy/control_records.h - what the control socket was asked for, on record
 *
 * Every change that was made is told, and every refusal of root's. Members of the socket's group
 * could fill the log with what is refused to them: beyond CONTROL_REFUSALS_A_SECOND of all of them
 * together it is counted, and the count is on record a moment later (suppressed).
 *
 * Ownership   the struct holds all.       Blocking  never.
 * Failure     a record that the ring does not take is told on stderr; a count is kept.
 * Limits      the named one.
 * Tests       tests/e2e/test_hostile_operator.py
 */
#ifndef PROXY_CONTROL_RECORDS_H
#define PROXY_CONTROL_RECORDS_H

#include "proxy/allowance.h"
#include "proxy/control.h"
#include "sandbox/ring.h"

#define CONTROL_REFUSALS_A_SECOND 20u

struct control_records {
	struct ring *ring;
	struct allowance refusals;
	uint64_t suppressed;
};

void control_records_init(struct control_records *r, struct ring *ring);
void control_records_done(struct control_records *r, const struct control_done *done);
/* Tells what was counted, where it is time; @last: whether it is or not. */
void control_records_tell(struct control_records *r, bool last);

#endif
