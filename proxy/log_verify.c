#include "proxy/log_verify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/hex.h"
#include "conf/sort.h"
#include "policy/digest.h"
#include "proxy/log_query.h"
#include "proxy/log_read.h"

struct kept {
	uint64_t seq;
	char prev[LOG_HASH_HEX];
};

struct log_kept {
	struct kept *v;
	size_t n, room;
};

/* What is being looked at. */
struct check {
	const struct log_question *q;
	struct log_verdict *v;
	size_t kept_at;			/* the next one that is looked for */
	bool found;
};

static enum err say(struct log_verdict *v, enum err e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static enum err say(struct log_verdict *v, enum err e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->why, sizeof(v->why), fmt, ap);
	va_end(ap);
	return e;
}

/* ---- one line ---- */

static bool is_kind(const struct log_head *h, const char *kind)
{
	return str_eq(h->kind, str_of(kind));
}

/* A head that cannot be read: which part is it? */
static enum err bad_head(struct log_verdict *v, const json_t *object)
{
	const json_t *seq = json_object_get(object, "seq");
	uint64_t time_us;

	if (!json_is_integer(seq))
		return say(v, ERR_SYNTAX, "it has no number (seq)");
	if (json_integer_value(seq) != (json_int_t)v->last_seq + 1)
		return say(v, ERR_SYNTAX, "its number is %" JSON_INTEGER_FORMAT ", not %" PRIu64,
			   json_integer_value(seq), v->last_seq + 1);
	if (!str_eq(log_text(object, "prev"), str_of(v->last_hash)))
		return say(v, ERR_SYNTAX, "it does not %s", v->lines ? "continue the chain" : "start a chain");
	if (!date_parse(log_text(object, "time"), &time_us))
		return say(v, ERR_SYNTAX, "its time is not RFC 3339 in UTC with microseconds");
	if (log_text(object, "kind").n == 0)
		return say(v, ERR_SYNTAX, "it has no kind");
	return say(v, ERR_SYNTAX, "its first members are not seq, prev, time, kind");
}

/* The first line of the first file. */
static enum err check_first(struct log_verdict *v, const struct log_head *h)
{
	v->first_seq = h->seq;
	if (h->seq == 1 && str_eq(h->prev, str_n(v->last_hash, LOG_HASH_HEX)))
		return OK;
	if (h->seq > 1 && is_kind(h, "continued"))
		return OK;
	if (h->seq == 1)
		return say(v, ERR_SYNTAX, "it does not start a chain");
	return say(v, ERR_SYNTAX, "its number is %" PRIu64 ", not 1 (lines before it were removed)", h->seq);
}

static enum err check_place(struct check *c, const struct log_head *h)
{
	struct log_verdict *v = c->v;

	if (v->lines == 0)
		return check_first(v, h);
	if (h->seq != v->last_seq + 1)
		return say(v, ERR_SYNTAX, "its number is %" PRIu64 ", not %" PRIu64
			   " (a line was removed, added or moved)", h->seq, v->last_seq + 1);
	if (!str_eq(h->prev, str_of(v->last_hash)))
		return say(v, ERR_SYNTAX, "it does not continue the chain: line number %" PRIu64
			   " was changed, or this one", v->last_seq);
	return OK;
}

static enum err check_signature(struct check *c, const struct log_head *h, const json_t *object)
{
	struct str id = log_text(object, "key");

	c->v->checkpoints++;
	if (!c->q->keys)
		return OK;
	switch (log_signature_check(c->q->keys, id, log_text(object, "signature"), h->seq, h->prev)) {
	case LOG_SIGNATURE_GOOD:
		c->v->signatures++;
		return OK;
	case LOG_SIGNATURE_OF_ANOTHER:
		return say(c->v, ERR_SYNTAX, "it is signed with a key that was not given (%.*s)",
			   id.n > LOG_KEY_ID_HEX ? LOG_KEY_ID_HEX : (int)id.n, id.n ? id.p : "");
	case LOG_SIGNATURE_BAD:
		break;
	}
	return say(c->v, ERR_SYNTAX, "its signature is wrong: a line was changed and all after it were written anew");
}

/* @kept is about a line that the log has: with the same line before it? */
static enum err check_kept(struct check *c, const struct log_head *h)
{
	const struct log_kept *kept = c->q->kept;

	while (kept && c->kept_at < kept->n && kept->v[c->kept_at].seq <= h->seq) {
		const struct kept *k = &kept->v[c->kept_at++];

		if (k->seq < h->seq)
			c->v->kept_older++;
		else if (!is_kind(h, "checkpoint") || !str_eq(h->prev, str_n(k->prev, LOG_HASH_HEX)))
			return say(c->v, ERR_SYNTAX, "it is not the checkpoint of this number that was kept: "
				   "the log was written anew");
	}
	return OK;
}

static enum err hash_line(struct str line, char out[LOG_HASH_HEX + 1])
{
	uint8_t hash[DIGEST_BYTES];

	if (!digest_sha256(line.p, line.n, hash))
		return ERR_CRYPTO;
	hex_text(hash, DIGEST_BYTES, out);
	return OK;
}

static enum err check_object(struct check *c, struct str line, const json_t *object)
{
	struct log_head h;
	enum err e;

	if (!json_is_object(object))
		return say(c->v, ERR_SYNTAX, object ? "it is not a JSON object" : "it is not JSON");
	if (!log_line_head(line, &h))
		return bad_head(c->v, object);
	e = check_place(c, &h);
	if (!e && is_kind(&h, "checkpoint"))
		e = check_signature(c, &h, object);
	if (!e)
		e = check_kept(c, &h);
	if (!e)
		e = hash_line(line, c->v->last_hash);
	if (e)
		return e;
	c->v->last_seq = h.seq;
	c->v->lines++;
	c->found = c->found || strcmp(c->v->last_hash, c->q->must_have) == 0;
	return OK;
}

static enum err check_line(struct check *c, struct str line)
{
	json_t *object = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	enum err e = check_object(c, line, object);

	json_decref(object);
	return e;
}

/* ---- the log ---- */

static enum err check_end(struct check *c)
{
	const struct log_kept *kept = c->q->kept;

	if (!c->found)
		return say(c->v, ERR_NOTFOUND, "no line has the hash that was asked for: its end was cut off or "
			   "changed");
	if (kept && c->kept_at < kept->n)
		return say(c->v, ERR_NOTFOUND, "checkpoint %" PRIu64 " was kept and is not there: the log's end was "
			   "cut off", kept->v[c->kept_at].seq);
	return OK;
}

enum err log_verify(const struct log_question *q, struct log_verdict *v)
{
	struct check c = { .q = q, .v = v, .found = !q->must_have };
	struct str line;
	enum err e = OK;

	*v = (struct log_verdict){ 0 };
	memset(v->last_hash, '0', LOG_HASH_HEX);
	while (!e) {
		e = log_files_next(q->files, &line);
		if (!e)
			e = check_line(&c, line);
	}
	if (e == ERR_TRUNCATED)
		return say(v, ERR_SYNTAX, "it has no end (its writer died while it wrote)");
	if (e == ERR_LIMIT)
		return say(v, ERR_SYNTAX, "it is longer than %u bytes", LOG_LINE_MAX);
	return e == ERR_AGAIN ? check_end(&c) : e;
}

/* ---- what was kept elsewhere ---- */

static int by_seq(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static enum err keep(struct log_kept *k, const struct log_head *h)
{
	if (k->n == LOG_KEPT_MAX)
		return ERR_LIMIT;
	if (k->n == k->room) {
		size_t room = k->room ? 2 * k->room : 64;
		struct kept *v = realloc(k->v, room * sizeof(*v));

		if (!v)
			return ERR_NOMEM;
		k->v = v;
		k->room = room;
	}
	k->v[k->n].seq = h->seq;
	memcpy(k->v[k->n++].prev, h->prev.p, LOG_HASH_HEX);
	return OK;
}

static enum err keep_line(struct log_kept *k, const struct log_keys *keys, struct str line)
{
	json_t *object = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	struct log_head h;
	enum err e = ERR_SYNTAX;

	if (json_is_object(object) && log_line_head(line, &h) && is_kind(&h, "checkpoint") &&
	    (!keys || log_signature_check(keys, log_text(object, "key"), log_text(object, "signature"), h.seq,
					  h.prev) == LOG_SIGNATURE_GOOD))
		e = keep(k, &h);
	json_decref(object);
	return e;
}

static enum err read_kept(struct log_kept *k, const struct log_keys *keys, int fd,
			  uint64_t *line_number)
{
	struct log_reader *r;
	struct str line;
	enum err e = log_reader_open(fd, &r);

	if (e)
		return e;
	for (*line_number = 1; !e; (*line_number)++) {
		e = log_reader_next(r, &line);
		if (!e)
			e = keep_line(k, keys, line);
		if (e)
			break;
	}
	log_reader_close(r);
	return e == ERR_AGAIN ? OK : e == ERR_TRUNCATED ? ERR_SYNTAX : e;
}

enum err log_kept_open(const char *path, const struct log_keys *keys, struct log_kept **out,
		       uint64_t *bad_line)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct log_kept *k;
	enum err e;

	if (fd < 0)
		return ERR_SYSTEM;
	k = calloc(1, sizeof(*k));
	e = k ? read_kept(k, keys, fd, bad_line) : ERR_NOMEM;
	close(fd);
	if (e) {
		log_kept_close(k);
		return e;
	}
	if (k->n)
		sort_items(k->v, k->n, sizeof(*k->v), by_seq);
	*out = k;
	return OK;
}

void log_kept_close(struct log_kept *k)
{
	if (!k)
		return;
	free(k->v);
	free(k);
}
