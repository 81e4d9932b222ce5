/* Theory of operation
 *
 * A batch takes records from the rings in turn, TURN_RECORDS at a time, makes lines of them and
 * writes all with one write. Only then do the rings' tails move. A batch that could not be written
 * is forgotten and the rings are rewound: the records come again with the next.
 *
 * A request's begin is held: in memory to be matched with its end, and in its ring (the tail does
 * not pass it), so that a successor of this process reads it again. It becomes a line of its own
 * when its end is over RECORD_BEGIN_HOLD_MS away, when its ring is over half full, when all is
 * wanted, and at once when its slot of the table is taken. So a successor may write a record twice,
 * but none is missing. What a batch does to the table holds only once the batch is written: lines
 * of held begins are marked, and the mark is taken back when it fails. A begin whose end was seen
 * is dropped at once: a rewind gives the end again, and the end says all that the begin did.
 *
 * A role that breaks its ring or the tables of record.h is not read any more: its ring refuses for
 * good, which stops its traffic, and a line of kind log_fault says why.
 */
#include "proxy/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "conf/json.h"

#define TURN_RECORDS 64
#define STAMP_MAX 65

/* The longest record as JSON, each byte escaped to six, and the stamps. */
static_assert(6 * RING_RECORD_MAX + 4096 < LOG_LINE_MAX, "every record fits into a line");

struct held {
	bool writing;		/* is in the batch that is being made */
	struct record_head head;
	uint64_t position, due;
	char *bytes;		/* NULL: the slot is free */
	size_t n;
};

struct source {
	struct ring *ring;
	enum role role;
	char sandbox[STAMP_MAX], policy[STAMP_MAX];
	const char *fault;	/* why it is not read any more; NULL: it is */
	bool fault_told, fault_in_batch, fault_is_new;
	size_t n_held;
	struct held held[JOURNAL_HELD_MAX];
};

struct journal {
	struct log_file *log;
	struct source *sources[JOURNAL_RINGS_MAX];
	size_t n;
	size_t first;		/* whose turn is first in the next batch */
	bool refusing, lingers;
	uint64_t torn;		/* bytes cut off, not told yet */
	size_t lines, taken;	/* put into and taken from rings for the batch that is being made */
};

/* ---- life ---- */

enum err journal_new(struct log_file *log, struct journal **out)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return ERR_NOMEM;
	j->log = log;
	*out = j;
	return OK;
}

static void source_free(struct source *s)
{
	for (size_t i = 0; i < JOURNAL_HELD_MAX; i++)
		free(s->held[i].bytes);
	ring_close(s->ring);
	free(s);
}

void journal_free(struct journal *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n; i++)
		source_free(j->sources[i]);
	free(j);
}

enum err journal_add(struct journal *j, const struct ring_fds *fds,
		     const struct journal_writer *writer, size_t *number)
{
	struct ring *ring = NULL;
	struct source *s;
	enum err e = ring_open_reader(fds, &ring);

	if (e)
		return e;
	if (j->n == JOURNAL_RINGS_MAX || writer->role >= ROLE_COUNT ||
	    writer->sandbox.n >= STAMP_MAX || writer->policy.n >= STAMP_MAX) {
		ring_close(ring);
		return j->n == JOURNAL_RINGS_MAX ? ERR_FULL : ERR_LIMIT;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		ring_close(ring);
		return ERR_NOMEM;
	}
	s->ring = ring;
	s->role = writer->role;
	snprintf(s->sandbox, sizeof(s->sandbox), "%.*s", STR_ARG(writer->sandbox));
	snprintf(s->policy, sizeof(s->policy), "%.*s", STR_ARG(writer->policy));
	ring_set_refusing(ring, j->refusing);
	ring_linger(ring, j->lingers);
	*number = j->n;
	j->sources[j->n++] = s;
	return OK;
}

int journal_wake_fd(const struct journal *j, size_t number)
{
	return ring_wake_fd(j->sources[number]->ring);
}

void journal_wake_seen(struct journal *j, size_t number)
{
	ring_wake_seen(j->sources[number]->ring);
}

/* ---- lines ---- */

struct record_line {
	const struct source *source;
	const struct record_head *head;
	struct str bytes;
};

static void record_fields(void *arg, struct json *json)
{
	const struct record_line *r = arg;
	struct str policy = r->source->policy[0] ? str_of(r->source->policy) : r->head->policy;

	if (policy.n)
		json_put_str(json, "policy", policy);
	record_write_fields(r->bytes, json);
}

static enum err put_record(struct journal *j, const struct source *s,
			   const struct record_head *head, struct str bytes)
{
	struct record_line r = { s, head, bytes };
	struct log_line line = { .time_us = head->time_us, .kind = record_kind_name(head->kind),
				 .sandbox = s->sandbox[0] ? str_of(s->sandbox) : head->sandbox,
				 .fields = record_fields, .arg = &r };
	enum err e = log_batch_line(j->log, &line);

	if (!e)
		j->lines++;
	return e;
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
	struct timespec now;
	struct log_line line = { .kind = record_kind_name(RECORD_log_fault),
				 .sandbox = f->source ? str_of(f->source->sandbox) : STR_NONE,
				 .fields = fault_fields, .arg = f };
	enum err e;

	clock_gettime(CLOCK_REALTIME, &now);
	line.time_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	e = log_batch_line(j->log, &line);
	if (!e)
		j->lines++;
	return e;
}

/* ---- begins that wait for their ends ---- */

static struct held *slot_of(struct source *s, uint64_t exchange)
{
	return &s->held[exchange % JOURNAL_HELD_MAX];
}

static void let_go(struct source *s, struct held *h)
{
	free(h->bytes);
	*h = (struct held){ 0 };
	s->n_held--;
}

/* False: not this one, not now. */
static bool hold(struct source *s, const struct record_head *head, struct str bytes,
		 uint64_t now_ms)
{
	struct held *h = slot_of(s, head->exchange);

	if (h->bytes && (h->head.exchange != head->exchange || h->writing))
		return false;
	if (h->bytes)	/* given again after a rewind */
		let_go(s, h);
	h->bytes = malloc(bytes.n);
	if (!h->bytes)
		return false;
	memcpy(h->bytes, bytes.p, bytes.n);
	h->n = bytes.n;
	h->head = *head;
	h->position = ring_position(s->ring);
	h->due = now_ms + RECORD_BEGIN_HOLD_MS;
	s->n_held++;
	return true;
}

static void end_seen(struct source *s, uint64_t exchange)
{
	struct held *h = slot_of(s, exchange);

	if (h->bytes && h->head.exchange == exchange && !h->writing)
		let_go(s, h);
}

/* The head's texts lie in the copy that is held. */
static enum err put_held(struct journal *j, struct source *s, struct held *h)
{
	struct record_head head;
	struct str bytes = str_n(h->bytes, h->n);
	enum err e = record_check(bytes, s->role, &head);

	if (!e)
		e = put_record(j, s, &head, bytes);
	h->writing = !e;
	return e;
}

static enum err put_due(struct journal *j, struct source *s, uint64_t now_ms, bool all)
{
	bool everything = all || ring_pressed(s->ring) || s->fault;

	for (size_t i = 0; s->n_held && i < JOURNAL_HELD_MAX && !log_batch_full(j->log); i++) {
		struct held *h = &s->held[i];
		enum err e;

		if (!h->bytes || h->writing || (!everything && h->due > now_ms))
			continue;
		e = put_held(j, s, h);
		if (e)
			return e;
	}
	return OK;
}

uint64_t journal_due(const struct journal *j)
{
	uint64_t due = JOURNAL_NEVER;

	for (size_t i = 0; i < j->n; i++) {
		const struct source *s = j->sources[i];

		for (size_t k = 0; s->n_held && k < JOURNAL_HELD_MAX; k++)
			if (s->held[k].bytes && s->held[k].due < due)
				due = s->held[k].due;
	}
	return due;
}

/* ---- a batch ---- */

static void stop_reading(struct source *s, const char *why)
{
	fprintf(stderr, "exeat-recorder: %s%s%s: %s\n", role_name(s->role), s->sandbox[0] ? " of " : "",
		s->sandbox, why);
	s->fault = why;
	s->fault_is_new = true;
	ring_set_refusing(s->ring, true);
}

/* OK, ERR_AGAIN when the source has nothing more, else the batch has failed. */
static enum err take_one(struct journal *j, struct source *s, uint64_t now_ms, bool all)
{
	struct record_head head;
	struct str bytes;
	enum err e;

	if (s->fault)
		return ERR_AGAIN;
	e = ring_next(s->ring, &bytes);
	if (e == ERR_SYNTAX)
		stop_reading(s, "its ring was broken: it is not read any more");
	else if (!e && record_check(bytes, s->role, &head) != OK)
		stop_reading(s, "it wrote a record that it may not write: it is not read any more");
	if (e || s->fault)
		return ERR_AGAIN;
	j->taken++;
	if (head.ends && head.has_exchange)
		end_seen(s, head.exchange);
	if (head.begins && head.has_exchange && !all && !ring_pressed(s->ring) &&
	    hold(s, &head, bytes, now_ms))
		return OK;
	return put_record(j, s, &head, bytes);
}

static enum err take_turn(struct journal *j, struct source *s, uint64_t now_ms, bool all,
			  bool *idle)
{
	for (unsigned i = 0; i < TURN_RECORDS; i++) {
		enum err e;

		*idle = false;
		if (log_batch_full(j->log))
			return OK;
		e = take_one(j, s, now_ms, all);
		*idle = e == ERR_AGAIN;
		if (e)
			return e == ERR_AGAIN ? OK : e;
	}
	return OK;
}

static enum err take_records(struct journal *j, uint64_t now_ms, bool all, bool *more)
{
	bool busy = true;

	while (busy) {
		busy = false;
		for (size_t i = 0; i < j->n; i++) {
			bool idle;
			enum err e =
				take_turn(j, j->sources[(j->first + i) % j->n], now_ms, all, &idle);

			if (e)
				return e;
			busy |= !idle;
		}
		if (log_batch_full(j->log)) {
			*more = busy;
			return OK;
		}
	}
	return OK;
}

static enum err put_faults(struct journal *j)
{
	struct fault torn = { NULL, "a line without an end was cut off: its writer died while it wrote", 0 };
	enum err e;

	j->torn += log_take_torn(j->log);
	torn.bytes = j->torn;
	if (j->torn && (e = put_fault(j, &torn)) != OK)
		return e;
	for (size_t i = 0; i < j->n && !log_batch_full(j->log); i++) {
		struct source *s = j->sources[i];
		struct fault f = { s, s->fault, 0 };

		if (!s->fault || s->fault_told)
			continue;
		e = put_fault(j, &f);
		if (e)
			return e;
		s->fault_in_batch = true;
	}
	return OK;
}

static enum err make_batch(struct journal *j, uint64_t now_ms, bool all, bool *more)
{
	enum err e = take_records(j, now_ms, all, more);

	for (size_t i = 0; !e && i < j->n; i++)
		e = put_due(j, j->sources[i], now_ms, all);
	if (!e)
		e = put_faults(j);
	*more |= log_batch_full(j->log);
	return e;
}

static void batch_is_written(struct journal *j)
{
	for (size_t i = 0; i < j->n; i++) {
		struct source *s = j->sources[i];
		uint64_t keep = RING_KEEP_NOTHING;

		for (size_t k = 0; s->n_held && k < JOURNAL_HELD_MAX; k++) {
			struct held *h = &s->held[k];

			if (h->bytes && h->writing)
				let_go(s, h);
			else if (h->bytes && h->position < keep)
				keep = h->position;
		}
		s->fault_told |= s->fault_in_batch;
		ring_keep(s->ring, keep);
		ring_advance(s->ring);
		if (j->refusing && !s->fault)
			ring_set_refusing(s->ring, false);
	}
	j->refusing = false;
	j->torn = 0;
	if (j->n)
		j->first = (j->first + 1) % j->n;
}

static void batch_has_failed(struct journal *j)
{
	for (size_t i = 0; i < j->n; i++) {
		struct source *s = j->sources[i];

		for (size_t k = 0; s->n_held && k < JOURNAL_HELD_MAX; k++)
			s->held[k].writing = false;
		/* What it wrote before its fault comes again, and then the fault. */
		if (s->fault_is_new)
			s->fault = NULL;
		ring_rewind(s->ring);
	}
	journal_refuse(j);
}

enum err journal_batch(struct journal *j, uint64_t now_ms, bool all, bool *more)
{
	enum err e = log_batch_begin(j->log);
	int code;

	*more = false;
	if (e == ERR_AGAIN)
		return e;
	j->lines = j->taken = 0;
	for (size_t i = 0; i < j->n; i++)
		j->sources[i]->fault_in_batch = j->sources[i]->fault_is_new = false;
	if (!e)
		e = make_batch(j, now_ms, all, more);
	if (!e && j->lines)
		e = log_batch_end(j->log);
	else
		log_batch_drop(j->log);
	code = errno;
	if (e)
		batch_has_failed(j);
	else
		batch_is_written(j);
	errno = code;
	return e;
}

bool journal_idle(const struct journal *j)
{
	return j->taken == 0;
}

void journal_linger(struct journal *j, bool linger)
{
	j->lingers = linger;
	for (size_t i = 0; i < j->n; i++)
		ring_linger(j->sources[i]->ring, linger);
}

void journal_refuse(struct journal *j)
{
	j->refusing = true;
	for (size_t i = 0; i < j->n; i++)
		ring_set_refusing(j->sources[i]->ring, true);
}
