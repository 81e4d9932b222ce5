#include "proxy/control_records.h"

#include <stdio.h>

#include "proxy/clock.h"
#include "proxy/supervisor_records.h"

void control_records_init(struct control_records *r, struct ring *ring)
{
	*r = (struct control_records){ .ring = ring };
	allowance_init(&r->refusals, CONTROL_REFUSALS_A_SECOND, clock_ms());
}

/* What only looked and was answered is not on record. */
static bool is_silent(const struct control_done *done)
{
	return str_eq(done->method, STR("GET")) && done->status < 400;
}

/* True: it is counted, and has no record of its own. */
static bool suppress(struct control_records *r, const struct control_done *done)
{
	if (done->status < 400 || done->peer.uid == 0)
		return false;
	if (!allowance_has(&r->refusals, clock_ms())) {
		r->suppressed++;
		return true;
	}
	allowance_take(&r->refusals, 1);
	return false;
}

void control_records_done(struct control_records *r, const struct control_done *done)
{
	if (is_silent(done) || suppress(r, done))
		return;
	if (put_control(r->ring, done) != OK)
		fprintf(stderr, "exeat: a control request of user %u cannot be recorded: %.*s %.*s (%u)\n",
			(unsigned)done->peer.uid, STR_ARG(done->method), STR_ARG(done->path),
			done->status);
}

void control_records_tell(struct control_records *r, bool last)
{
	if (r->suppressed == 0 || (!last && !allowance_has(&r->refusals, clock_ms())))
		return;
	allowance_take(&r->refusals, 1);
	if (put_control_suppressed(r->ring, r->suppressed) == OK)
		r->suppressed = 0;
}
