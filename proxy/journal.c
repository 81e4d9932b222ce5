/* Theory of operation
 *
 * A batch takes records from the rings in turn, TURN_RECORDS at a time, makes lines of them and
 * writes all with one write. Only then do the rings' tails move. A batch that could not be written
 * is forgotten and the rings are rewound: the records come again with the next.
 *
 * A request's begin is held: in memory to be matched with its end, and in its ring (the tail does
 * not pass it), so that a successor of this process reads it again. It becomes a line of its own
 * when its end is over RECORD_BEGIN_HOLD_MS away, when its ring is over half full, when all is
 * wanted, and at once when its slot of the table is taken. What a batch does to the table holds
 * only once the batch is written: lines of held begins are marked, and the mark is taken back when
 * it fails. A begin whose end was seen is dropped at once: a rewind gives the end again, and the
 * end says all that the begin did. The held begins of a ring are in a list, the first due first.
 *
 * No record becomes two lines, whenever this process dies. Before a batch is written, each record's
 * place in its ring is stamped with the beginning of its line's hash. A successor gets the rings as
 * they were left, and for a record that has a stamp and was there before it, looks whether a line
 * of that hash is in the file: then it is written already. The lines are looked at once, when the
 * first such record comes, and forgotten when no ring has any left. Before a file is ended nothing
 * is held, so that no tail is behind its lines.
 *
 * Checkpoints count this process's lines. One, and what ends a file, fit into every batch.
 * A role that breaks its ring or the tables of record.h is not read any more: its ring refuses for
 * good, which stops its traffic, and a line of kind log_fault says why. A writer could put stamps
 * of other lines on records that it left for a successor: those, its own, would be missing.
 */
#include "proxy/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>

#include "conf/json.h"
#include "proxy/allowance.h"
#include "proxy/clock.h"

#define TURN_RECORDS 64
#define STAMP_MAX 65
#define NOTE_MAX 256
#define RECALL_BYTES (LOG_RECALL_MAX / 8)	/* no line is shorter than 64 bytes */

/* The longest record as JSON, each byte escaped to six, and the stamps. */
static_assert(6 * RING_RECORD_MAX + 4096 < LOG_LINE_MAX, "every record fits into a line");

struct held {
	TAILQ_ENTRY(held) order;
	bool writing;		/* is in the batch that is being made */
	uint64_t exchange, position, due;
	size_t n;
	char bytes[];
};

struct source {
	struct ring *ring;
	enum role role;
	char sandbox[STAMP_MAX], policy[STAMP_MAX], policy_before[STAMP_MAX];
	const char *fault;	/* why it is not read any more; NULL: it is */
	bool fault_told, fault_in_batch, fault_is_new;
	struct allowance allowance;
	bool over, ending;	/* that is used up, the rest waits; its writer is gone */
	bool empty;		/* the last batch found nothing more in it */
	struct held **table;	/* by exchange; NULL until one is held */
	TAILQ_HEAD(held_list, held) held;
};

struct journal {
	struct log_file *log;
	struct journal_config config;
	struct source *sources[JOURNAL_RINGS_MAX];	/* NULL: free */
	size_t n;		/* behind the last one in use */
	size_t first;		/* whose turn is first in the next batch */
	bool refusing, lingers;
	uint64_t torn;		/* bytes cut off, not told yet */
	char note[NOTE_MAX];
	bool sync_failed;
	bool unsynced;		/* lines are in the file that are perhaps not on the disk */
	bool has_written;
	uint64_t since_checkpoint, checkpoint_due;
	struct buf recalled;	/* stamps of the lines that were there */
	bool recalls;
	struct {		/* the batch that is being made */
		uint64_t lines, records, since_checkpoint;
		bool found;	/* something in a ring */
		bool checkpoint, rotated, note, torn;
	} batch;
};

/* ---- life ---- */

enum err journal_new(struct log_file *log, const struct journal_config *config,
		     struct journal **out)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return ERR_NOMEM;
	j->log = log;
	j->config = *config;
	j->checkpoint_due = JOURNAL_NEVER;
	j->unsynced = config->synced;	/* what one before this one may have left */
	buf_init(&j->recalled, RECALL_BYTES);
	*out = j;
	return OK;
}

static void let_go(struct source *s, struct held *h)
{
	TAILQ_REMOVE(&s->held, h, order);
	s->table[h->exchange % JOURNAL_HELD_MAX] = NULL;
	free(h);
}

static void source_free(struct source *s)
{
	while (!TAILQ_EMPTY(&s->held))
		let_go(s, TAILQ_FIRST(&s->held));
	free(s->table);
	ring_close(s->ring);
	free(s);
}

void journal_free(struct journal *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			source_free(j->sources[i]);
	buf_free(&j->recalled);
	free(j);
}

static size_t free_number(const struct journal *j)
{
	size_t i = 0;

	while (i < j->n && j->sources[i])
		i++;
	return i;
}

enum err journal_add(struct journal *j, const struct ring_fds *fds,
		     const struct journal_writer *writer, size_t *number)
{
	struct ring *ring = NULL;
	struct source *s;
	enum err e = ring_open_reader(fds, &ring);

	if (e)
		return e;
	*number = free_number(j);
	if (*number == JOURNAL_RINGS_MAX || writer->role >= ROLE_COUNT ||
	    writer->sandbox.n >= STAMP_MAX || writer->policy.n >= STAMP_MAX) {
		ring_close(ring);
		return *number == JOURNAL_RINGS_MAX ? ERR_FULL : ERR_LIMIT;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		ring_close(ring);
		return ERR_NOMEM;
	}
	s->ring = ring;
	s->role = writer->role;
	TAILQ_INIT(&s->held);
	allowance_init(&s->allowance, writer->sandbox.n ? j->config.sandbox_bytes : 0, 0);
	snprintf(s->sandbox, sizeof(s->sandbox), "%.*s", STR_ARG(writer->sandbox));
	snprintf(s->policy, sizeof(s->policy), "%.*s", STR_ARG(writer->policy));
	ring_set_refusing(ring, j->refusing);
	ring_linger(ring, j->lingers);
	j->sources[*number] = s;
	if (*number == j->n)
		j->n++;
	return OK;
}

void journal_end(struct journal *j, size_t number)
{
	j->sources[number]->ending = true;
	j->sources[number]->empty = false;	/* as far as is known */
}

bool journal_ended(const struct journal *j, size_t number)
{
	const struct source *s = j->sources[number];

	return s->ending && TAILQ_EMPTY(&s->held) && (s->fault ? s->fault_told : s->empty);
}

void journal_remove(struct journal *j, size_t number)
{
	source_free(j->sources[number]);
	j->sources[number] = NULL;
	while (j->n && !j->sources[j->n - 1])
		j->n--;
}

enum err journal_policy(struct journal *j, size_t number, struct str policy)
{
	struct source *s = j->sources[number];

	if (policy.n >= STAMP_MAX)
		return ERR_LIMIT;
	memcpy(s->policy_before, s->policy, sizeof(s->policy));
	snprintf(s->policy, sizeof(s->policy), "%.*s", STR_ARG(policy));
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

/* @position: where the record stands in its ring. */
static enum err put_record(struct journal *j, struct source *s, struct str bytes, uint64_t position)
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

/* ---- what a process before this one has written ---- */

/* Is the record that ring_next() gave last in the file already? */
static enum err is_written(struct journal *j, const struct source *s, bool *yes)
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

static void forget_recalled(struct journal *j)
{
	if (!j->recalls)
		return;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i] && !j->sources[i]->empty && ring_is_old(j->sources[i]->ring))
			return;
	buf_free(&j->recalled);
	buf_init(&j->recalled, RECALL_BYTES);
	j->recalls = false;
}

/* ---- begins that wait for their ends ---- */

/* False: not this one, not now. */
static bool hold(struct source *s, const struct record_head *head, struct str bytes,
		 uint64_t now_ms)
{
	struct held **slot, *h;

	if (!s->table)
		s->table = calloc(JOURNAL_HELD_MAX, sizeof(struct held *));
	slot = s->table ? &s->table[head->exchange % JOURNAL_HELD_MAX] : NULL;
	if (!slot || *slot)
		return false;
	h = malloc(sizeof(*h) + bytes.n);
	if (!h)
		return false;
	*h = (struct held){ .exchange = head->exchange, .position = ring_position(s->ring),
			    .due = now_ms + RECORD_BEGIN_HOLD_MS, .n = bytes.n };
	memcpy(h->bytes, bytes.p, bytes.n);
	TAILQ_INSERT_TAIL(&s->held, h, order);
	*slot = h;
	return true;
}

static void end_seen(struct source *s, uint64_t exchange)
{
	struct held *h = s->table ? s->table[exchange % JOURNAL_HELD_MAX] : NULL;

	if (h && h->exchange == exchange && !h->writing)
		let_go(s, h);
}

/* Does nothing of this ring wait any longer? */
static bool is_hurried(const struct source *s, enum journal_want want)
{
	return want >= JOURNAL_ALL || s->ending || s->fault || ring_pressed(s->ring);
}

static enum err put_due(struct journal *j, struct source *s, uint64_t now_ms,
			enum journal_want want)
{
	bool everything = is_hurried(s, want);
	struct held *h;

	TAILQ_FOREACH(h, &s->held, order) {
		enum err e;

		if (log_batch_full(j->log) || (!everything && h->due > now_ms))
			return OK;
		if (h->writing)
			continue;
		e = put_record(j, s, str_n(h->bytes, h->n), h->position);
		if (e)
			return e;
		h->writing = true;
	}
	return OK;
}

static enum err put_all_due(struct journal *j, uint64_t now_ms, enum journal_want want)
{
	enum err e = OK;

	for (size_t i = 0; !e && i < j->n; i++)
		if (j->sources[i])
			e = put_due(j, j->sources[i], now_ms, want);
	return e;
}

uint64_t journal_due(const struct journal *j)
{
	uint64_t due = j->checkpoint_due;

	for (size_t i = 0; i < j->n; i++) {
		const struct source *s = j->sources[i];
		const struct held *h = s ? TAILQ_FIRST(&s->held) : NULL;

		if (h && h->due < due)
			due = h->due;
		if (s && s->over && allowance_due(&s->allowance) < due)
			due = allowance_due(&s->allowance);
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
static enum err take_one(struct journal *j, struct source *s, uint64_t now_ms,
			 enum journal_want want)
{
	struct record_head head;
	struct str bytes;
	bool written;
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
	j->batch.found = true;
	if (head.ends && head.has_exchange)
		end_seen(s, head.exchange);
	e = is_written(j, s, &written);
	if (e || written)
		return e;
	/* The end of an old one may be in the file. */
	if (head.begins && head.has_exchange && !j->config.synced &&
	    (ring_is_old(s->ring) || !is_hurried(s, want)) && hold(s, &head, bytes, now_ms))
		return OK;
	return put_record(j, s, bytes, ring_position(s->ring));
}

static enum err take_turn(struct journal *j, struct source *s, uint64_t now_ms,
			  enum journal_want want)
{
	for (unsigned i = 0; i < TURN_RECORDS; i++) {
		enum err e;

		s->empty = false;
		s->over = want < JOURNAL_ALL && !s->ending && !allowance_has(&s->allowance, now_ms);
		if (s->over || log_batch_full(j->log))
			return OK;
		e = take_one(j, s, now_ms, want);
		s->empty = e == ERR_AGAIN;
		if (e)
			return e == ERR_AGAIN ? OK : e;
	}
	return OK;
}

static enum err take_records(struct journal *j, uint64_t now_ms, enum journal_want want, bool *more)
{
	bool busy = true;

	while (busy) {
		busy = false;
		for (size_t i = 0; i < j->n; i++) {
			struct source *s = j->sources[(j->first + i) % j->n];
			enum err e = s ? take_turn(j, s, now_ms, want) : OK;

			if (e)
				return e;
			busy |= s && !s->empty && !s->over;
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

static enum err put_last(struct journal *j, uint64_t now_ms, enum journal_want want)
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

/* Nothing is held that is not in the batch. */
static bool all_are_out(const struct journal *j)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct source *s = j->sources[i];
		const struct held *last = s ? TAILQ_LAST(&s->held, held_list) : NULL;

		if (last && !last->writing)
			return false;
	}
	return true;
}

/* A file ends with a batch behind which nothing is held, whatever the rings have got meanwhile. */
static enum err make_batch(struct journal *j, uint64_t now_ms, enum journal_want want, bool *more)
{
	enum err e = want == JOURNAL_ROTATE ? put_all_due(j, now_ms, want) : OK;

	if (!e)
		e = take_records(j, now_ms, want, more);
	if (!e)
		e = put_all_due(j, now_ms, want);
	if (!e)
		e = put_faults(j);
	if (e)
		return e;
	*more = want == JOURNAL_ROTATE ? !all_are_out(j) : *more || log_batch_full(j->log);
	return put_last(j, now_ms, *more ? JOURNAL_NORMAL : want);
}

/* What is written leaves the table, and the tail passes it. */
static void source_is_written(struct source *s)
{
	struct held *h = TAILQ_FIRST(&s->held);

	while (h) {
		struct held *next = TAILQ_NEXT(h, order);

		if (h->writing)
			let_go(s, h);
		h = next;
	}
	h = TAILQ_FIRST(&s->held);
	s->fault_told |= s->fault_in_batch;
	allowance_settle(&s->allowance);
	ring_keep(s->ring, h ? h->position : RING_KEEP_NOTHING);
	ring_advance(s->ring);
}

static void batch_is_written(struct journal *j, uint64_t now_ms)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			source_is_written(j->sources[i]);
	if (j->batch.torn)
		j->torn = 0;
	if (j->batch.note)
		j->note[0] = '\0';
	j->has_written = (j->has_written || j->batch.records) && !j->batch.rotated;
	j->since_checkpoint = j->batch.since_checkpoint;
	if (!j->config.signer || j->since_checkpoint == 0)
		j->checkpoint_due = JOURNAL_NEVER;
	else if (j->checkpoint_due == JOURNAL_NEVER || j->batch.checkpoint)
		j->checkpoint_due = now_ms + JOURNAL_CHECKPOINT_MS;
	forget_recalled(j);
	if (j->n)
		j->first = (j->first + 1) % j->n;
}

/* What it wrote before its fault comes again, and then the fault; begins, too, but for those
 * that an earlier batch has left behind. */
static void source_has_failed(struct source *s)
{
	struct held *h = TAILQ_FIRST(&s->held);

	if (s->fault_is_new)
		s->fault = NULL;
	allowance_give_back(&s->allowance);
	ring_rewind(s->ring);
	while (h) {
		struct held *next = TAILQ_NEXT(h, order);

		h->writing = false;
		if (h->position >= ring_position(s->ring))
			let_go(s, h);
		h = next;
	}
}

static void batch_has_failed(struct journal *j)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			source_has_failed(j->sources[i]);
	journal_refuse(j);
}

/* The lines are in the file; now to the disk with them, where that is wanted. */
static enum err bring_to_disk(struct journal *j)
{
	if (!j->config.synced || (!j->unsynced && j->batch.lines == 0))
		return OK;
	j->unsynced = true;
	if (log_sync(j->log) != OK) {
		int code = errno;

		if (!j->sync_failed)	/* once, not at each try */
			journal_note(j, "the disk did not take what was written: lines before this one may be "
					"lost when the machine stops");
		j->sync_failed = true;
		journal_refuse(j);
		errno = code;
		return ERR_SYSTEM;
	}
	j->unsynced = j->sync_failed = false;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			ring_set_synced(j->sources[i]->ring);
	return OK;
}

static void go_on(struct journal *j)
{
	if (!j->refusing)
		return;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i] && !j->sources[i]->fault)
			ring_set_refusing(j->sources[i]->ring, false);
	j->refusing = false;
}

static void batch_begins(struct journal *j)
{
	memset(&j->batch, 0, sizeof(j->batch));
	j->batch.since_checkpoint = j->since_checkpoint;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			j->sources[i]->fault_in_batch = j->sources[i]->fault_is_new = false;
}

enum err journal_batch(struct journal *j, uint64_t now_ms, enum journal_want want, bool *more)
{
	enum err e = log_batch_begin(j->log);
	int code;

	*more = false;
	if (e == ERR_AGAIN || e == ERR_CLOSED)
		return e;
	batch_begins(j);
	if (!e)
		e = make_batch(j, now_ms, want, more);
	if (!e && j->batch.lines)
		e = log_batch_end(j->log);
	else
		log_batch_drop(j->log);
	if (e) {
		code = errno;
		batch_has_failed(j);
		errno = code;
		return e;
	}
	batch_is_written(j, now_ms);
	e = bring_to_disk(j);
	if (!e)
		go_on(j);
	return e;
}

bool journal_idle(const struct journal *j)
{
	return !j->batch.found;
}

void journal_linger(struct journal *j, bool linger)
{
	j->lingers = linger && !j->config.synced;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			ring_linger(j->sources[i]->ring, j->lingers);
}

bool journal_has_written(const struct journal *j)
{
	return j->has_written;
}

void journal_note(struct journal *j, const char *text)
{
	snprintf(j->note, sizeof(j->note), "%s", text);
}

void journal_refuse(struct journal *j)
{
	j->refusing = true;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			ring_set_refusing(j->sources[i]->ring, true);
}
