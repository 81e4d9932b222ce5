#include "proxy/access_table.h"

#include <stdlib.h>

#include "conf/utf8.h"
#include "policy/request_text.h"
#include "proxy/record.h"

#define MINUTE_US UINT64_C(60000000)
#define STALE_US (ACCESS_STALE_DAYS * 24 * 60 * MINUTE_US)

/* The texts lie behind the row; the note, which comes later, does not. */
struct row {
	struct access a;
	struct row *next;
	struct buf note;
	char bytes[];
};

struct access_table {
	struct row *first, **last;
	size_t n;
	uint32_t numbers;
};

/* ---- what may be asked for ---- */

/* A method that a rule can name (policy/load.h). */
static bool is_method(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'A' && s.p[i] <= 'Z') || s.p[i] == '-' || s.p[i] == '_'))
			return false;
	return s.n > 0 && s.n <= ACCESS_METHOD_MAX;
}

static bool is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

static bool is_text(struct str s)
{
	while (s.n) {
		uint32_t c = 0;
		size_t n = utf8_next(s, &c);

		if (n == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
			return false;
		s = str_from(s, n);
	}
	return true;
}

static const char *check(const struct msg_access *m)
{
	struct explain_request request;
	struct request_text parts;
	const char *why;

	if (!is_method(m->method))
		return "the method is none that a rule can name: upper case, 32 letters at most";
	if (str_eq(m->method, STR("CONNECT")) || str_eq(m->method, STR("TRACE")))
		return "CONNECT and TRACE are always refused";
	if (!is_visible(m->url))
		return "the URL is empty, or holds what a URL does not";
	if (!is_text(m->reason))
		return "the reason is no text";
	buf_init(&parts.path, 3 * MSG_URL_MAX);
	why = request_text_url(m->method, m->url, &parts, &request);
	buf_free(&parts.path);
	return why;
}

/* ---- the table ---- */

static struct row *row_new(struct str sandbox, const struct msg_access *m)
{
	const struct str from[] = { sandbox, m->method, m->url, m->reason };
	struct row *r = calloc(1, sizeof(*r) + sandbox.n + m->method.n + m->url.n + m->reason.n);
	struct str *to[4];
	char *at;

	if (!r)
		return NULL;
	at = r->bytes;
	to[0] = &r->a.sandbox;
	to[1] = &r->a.method;
	to[2] = &r->a.url;
	to[3] = &r->a.reason;
	for (size_t i = 0; i < 4; i++) {
		if (from[i].n)
			memcpy(at, from[i].p, from[i].n);
		*to[i] = str_n(at, from[i].n);
		at += from[i].n;
	}
	buf_init(&r->note, ACCESS_NOTE_MAX);
	return r;
}

static void row_free(struct row *r)
{
	buf_free(&r->note);
	free(r);
}

static struct row *find(const struct access_table *t, uint32_t number)
{
	struct row *r = t->first;

	while (r && r->a.number != number)
		r = r->next;
	return r;
}

static struct row *find_like(const struct access_table *t, struct str sandbox,
			     const struct msg_access *m)
{
	for (struct row *r = t->first; r; r = r->next)
		if (r->a.open && str_eq(r->a.sandbox, sandbox) && str_eq(r->a.method, m->method) &&
		    str_eq(r->a.url, m->url))
			return r;
	return NULL;
}

static void drop(struct access_table *t, struct row **at)
{
	struct row *r = *at;

	*at = r->next;
	if (t->last == &r->next)
		t->last = at;
	t->n--;
	row_free(r);
}

/* Rows stand in the order in which they came. */
static bool make_room(struct access_table *t, uint64_t now_us)
{
	if (t->n < ACCESS_MAX)
		return true;
	for (struct row **at = &t->first; *at; at = &(*at)->next) {
		if (!(*at)->a.open) {
			drop(t, at);
			return true;
		}
	}
	if (now_us < t->first->a.asked_us + STALE_US)
		return false;
	drop(t, &t->first);
	return true;
}

static const char *check_quota(const struct access_table *t, struct str sandbox, uint64_t now_us)
{
	size_t open = 0, minute = 0;

	for (const struct row *r = t->first; r; r = r->next) {
		if (!str_eq(r->a.sandbox, sandbox))
			continue;
		open += r->a.open;
		minute += now_us < r->a.asked_us + MINUTE_US;
	}
	if (open >= ACCESS_SANDBOX_MAX)
		return "too many requests of this sandbox wait for an answer";
	return minute >= ACCESS_PER_MINUTE ? "too many requests in a minute" : NULL;
}

static enum err put_record(struct ring *ring, const struct access *a, const char *event)
{
	struct record r;

	record_begin(&r, RECORD_access_request);
	record_str(&r, REC_sandbox, a->sandbox);
	record_str(&r, REC_event, str_of(event));
	record_u64(&r, REC_number, a->number);
	record_str(&r, REC_method, a->method);
	record_str(&r, REC_url, a->url);
	record_str(&r, REC_reason, a->reason);
	record_str(&r, REC_note, a->note);
	return record_commit(&r, ring);
}

static const char *take(struct access_table *t, struct ring *ring, struct row *r, uint64_t now_us)
{
	r->a.number = t->numbers + 1;
	r->a.open = true;
	r->a.asked_us = now_us;
	if (!make_room(t, now_us))
		return "too many requests wait for an answer";
	if (put_record(ring, &r->a, "asked") != OK)
		return "the audit log cannot be written";
	t->numbers++;
	*t->last = r;
	t->last = &r->next;
	t->n++;
	return NULL;
}

void access_table_ask(struct access_table *t, struct ring *ring, struct str sandbox,
		      const struct msg_access *m, uint64_t now_us, struct msg_access_taken *answer)
{
	const char *why = check(m);
	struct row *r = why ? NULL : find_like(t, sandbox, m);

	answer->number = 0;
	answer->why = STR_NONE;
	if (!why && !r) {
		why = check_quota(t, sandbox, now_us);
		r = why ? NULL : row_new(sandbox, m);
		if (!why)
			why = r ? take(t, ring, r, now_us) : "out of memory";
		if (why && r)
			row_free(r);
	}
	if (why)
		answer->why = str_of(why);
	else
		answer->number = r->a.number;
}

const struct access *access_table_find(const struct access_table *t, uint32_t number)
{
	const struct row *r = find(t, number);

	return r ? &r->a : NULL;
}

/* By number, so that an entry that has gone meanwhile does no harm. */
const struct access *access_table_next(const struct access_table *t, const struct access *after)
{
	const struct row *r = t->first;

	while (r && after && r->a.number <= after->number)
		r = r->next;
	return r ? &r->a : NULL;
}

enum err access_table_close(struct access_table *t, struct ring *ring, uint32_t number,
			    struct str note, uint64_t now_us)
{
	struct row *r = find(t, number);
	struct access closed;
	enum err e;

	if (!r || !r->a.open)
		return ERR_NOTFOUND;
	r->note.n = 0;
	buf_put_str(&r->note, str_n(note.p, note.n < ACCESS_NOTE_MAX ? note.n : ACCESS_NOTE_MAX));
	closed = r->a;
	closed.open = false;
	closed.closed_us = now_us;
	closed.note = buf_str(&r->note);
	e = put_record(ring, &closed, "closed");
	if (!e)
		r->a = closed;
	return e;
}

/* ---- life ---- */

struct access_table *access_table_new(void)
{
	struct access_table *t = calloc(1, sizeof(*t));

	if (t)
		t->last = &t->first;
	return t;
}

void access_table_free(struct access_table *t)
{
	if (!t)
		return;
	while (t->first)
		drop(t, &t->first);
	free(t);
}
