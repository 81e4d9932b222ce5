/* The lines of a batch: records, faults, checkpoints; and those that are there already. */
#include "proxy/journal_state.h"

#include <assert.h>

#include "conf/json.h"
#include "proxy/clock.h"

/* The longest record as JSON, each byte escaped to six, and the stamps. */
static_assert(6 * RING_RECORD_MAX + 4096 < LOG_LINE_MAX, "every record fits into a line");

/* ---- checkpoints ---- */

struct checkpoint {
	const char *id;
	char signature[LOG_SIGNATURE_HEX + 1];
};

static void checkpoint_fields(void *arg, struct json *json)
{
	const struct checkpoint *c = arg;

	json_put_str(json, "key", str_of(c->id));
	json_put_str(json, "signature", str_of(c->signature));
}

static enum err put_checkpoint(struct journal *j)
{
	struct log_place place = log_next_place(j->log);
	struct checkpoint c = { .id = log_signer_id(j->config.signer) };
	struct log_line line = { .time_us = clock_wall_us(), .fields = checkpoint_fields, .arg = &c,
				 .kind = record_kind_name(RECORD_checkpoint), .ends_file = true };
	enum err e = log_sign(j->config.signer, place.seq, place.prev, c.signature);

	if (!e)
		e = log_batch_line(j->log, &line);
	if (e)
		return e;
	j->batch.lines++;
	j->batch.since_checkpoint = 0;
	j->batch.checkpoint = true;
	return OK;
}

static enum err put_line(struct journal *j, const struct log_line *line)
{
	enum err e = log_batch_line(j->log, line);

	if (e)
		return e;
	j->batch.lines++;
	j->batch.records++;
	j->batch.since_checkpoint++;
	return OK;
}

/* Behind a line, once its stamp was taken. */
static enum err sign_if_many(struct journal *j)
{
	if (!j->config.signer || j->batch.since_checkpoint < JOURNAL_CHECKPOINT_LINES)
		return OK;
	return put_checkpoint(j);
}

/* The policy that a record is stamped with. */
static struct str policy_of(const struct source *s, struct str said)
{
	if (!s->policy[0])
		return said;
	if (said.n && str_eq(said, str_of(s->policy_before)))
		return said;
	return str_of(s->policy);
}

struct record_line {
	const struct source *source;
	const struct record_head *head;
	struct str bytes;
};

static void record_fields(void *arg, struct json *json)
{
	const struct record_line *r = arg;
	struct str policy = policy_of(r->source, r->head->policy);

	if (policy.n)
		json_put_str(json, "policy", policy);
	record_write_fields(r->bytes, json);
}

enum err journal_put_record(struct journal *j, struct source *s, struct str bytes,
			    uint64_t position)
{
	struct record_head head;
	struct record_line r = { s, &head, bytes };
	struct log_line line = { .fields = record_fields, .arg = &r };
	enum err e = record_check(bytes, s->role, &head);

	if (e)
		return e;
	line.time_us = head.time_us;
	line.kind = record_kind_name(head.kind);
	line.sandbox = s->sandbox[0] ? str_of(s->sandbox) : head.sandbox;
	e = put_line(j, &line);
	if (e)
		return e;
	allowance_take(&s->allowance, bytes.n);
	s->taken += bytes.n;
	ring_set_stamp(s->ring, position, log_stamp(j->log));
	return sign_if_many(j);
}

struct fault {
	const struct source *source;
	const char *reason;
	uint64_t bytes;
};

static void fault_fields(void *arg, struct json *json)
{
	const struct fault *f = arg;

	if (f->source)
		json_put_str(json, "role", str_of(role_name(f->source->role)));
	json_put_str(json, "reason", str_of(f->reason));
	if (f->bytes)
		json_put_u64(json, "count", f->bytes);
}

static enum err put_fault(struct journal *j, struct fault *f)
{
	struct log_line line = { .time_us = clock_wall_us(), .fields = fault_fields, .arg = f,
				 .kind = record_kind_name(RECORD_log_fault),
				 .sandbox = f->source ? str_of(f->source->sandbox) : STR_NONE };

	return put_line(j, &line);
}

enum err journal_put_faults(struct journal *j)
{
	struct fault torn = { NULL, "a line without an end was cut off: its writer died while it wrote", 0 };
	struct fault note = { NULL, j->note, 0 };
	enum err e;

	j->torn += log_take_torn(j->log);
	torn.bytes = j->torn;
	if (j->torn && !log_batch_full(j->log)) {
		e = put_fault(j, &torn);
		if (e)
			return e;
		j->batch.torn = true;
	}
	if (j->note[0] && !log_batch_full(j->log)) {
		e = put_fault(j, &note);
		if (e)
			return e;
		j->batch.note = true;
	}
	for (size_t i = 0; i < j->n && !log_batch_full(j->log); i++) {
		struct source *s = j->sources[i];
		struct fault f = { s, s ? s->fault : NULL, 0 };

		if (!s || !s->fault || s->fault_told)
			continue;
		e = put_fault(j, &f);
		if (e)
			return e;
		s->fault_in_batch = true;
	}
	return OK;
}

static bool wants_checkpoint(const struct journal *j, uint64_t now_ms, enum journal_want want)
{
	return j->config.signer && j->batch.since_checkpoint &&
	       (want >= JOURNAL_END || j->checkpoint_due <= now_ms);
}

enum err journal_put_last(struct journal *j, uint64_t now_ms, enum journal_want want)
{
	struct log_line line = { .time_us = clock_wall_us(), .ends_file = true,
				 .kind = record_kind_name(RECORD_rotated) };
	enum err e = OK;

	if (wants_checkpoint(j, now_ms, want))
		e = put_checkpoint(j);
	if (!e && want == JOURNAL_ROTATE) {
		e = log_batch_line(j->log, &line);
		j->batch.lines++;
		j->batch.rotated = true;
	}
	return e;
}

/* ---- what a process before this one has written ---- */

enum err journal_is_written(struct journal *j, const struct source *s, bool *yes)
{
	uint64_t stamp = ring_stamp(s->ring);

	*yes = false;
	if (stamp == 0 || !ring_is_old(s->ring))
		return OK;
	if (!j->recalls) {
		enum err e = log_recall(j->log, &j->recalled);

		if (e)
			return e;
		j->recalls = true;
	}
	*yes = log_recalled(&j->recalled, stamp);
	return OK;
}

void journal_forget_recalled(struct journal *j)
{
	if (!j->recalls)
		return;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i] && !j->sources[i]->empty && ring_is_old(j->sources[i]->ring))
			return;
	buf_free(&j->recalled);
	buf_init(&j->recalled, JOURNAL_RECALL_BYTES);
	j->recalls = false;
}
