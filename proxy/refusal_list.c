#include "proxy/refusal_list.h"

#include <stdio.h>
#include <stdlib.h>

#include "conf/date.h"
#include "proxy/clock.h"

#define SHOWN_MAX (6 * REFUSAL_LIST_TEXT_MAX + 2)

enum { TEXT_HOST, TEXT_PROTOCOL, TEXT_METHOD, TEXT_PATH, TEXT_RULE, TEXT_REASON, TEXTS };

/* The texts lie behind each other in one allocation, which is as long as they are. */
struct entry {
	struct entry *next;
	uint64_t key;
	uint64_t count;
	uint64_t first, last;	/* microseconds */
	enum refusal_step step;
	uint16_t port;
	char id[17];
	const char *retry;
	struct str text[TEXTS];
	char bytes[];
};

struct refusal_list {
	struct entry *newest;
	size_t n;
};

static const char *const step_names[] = {
	[REFUSED_DNS] = "dns", [REFUSED_CONNECT] = "connect", [REFUSED_TLS] = "tls",
	[REFUSED_HTTP] = "http",
};

/* ---- what is like what ---- */

static struct str cut(struct str s)
{
	return str_n(s.p, s.n < REFUSAL_LIST_TEXT_MAX ? s.n : REFUSAL_LIST_TEXT_MAX);
}

static void texts_of(const struct refusal_note *n, struct str out[TEXTS])
{
	out[TEXT_HOST] = cut(n->host);
	out[TEXT_PROTOCOL] = cut(n->protocol);
	out[TEXT_METHOD] = cut(n->method);
	out[TEXT_PATH] = cut(n->path);
	out[TEXT_RULE] = cut(n->rule);
	out[TEXT_REASON] = cut(n->reason);
}

/* FNV-1a, with each text's length, so that no text can run into the next. */
static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const unsigned char *b = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * UINT64_C(1099511628211);
	return h;
}

static uint64_t key_of(const struct refusal_note *n, const struct str text[TEXTS])
{
	uint64_t h = mix(UINT64_C(14695981039346656037), &n->step, sizeof(n->step));

	h = mix(h, &n->port, sizeof(n->port));
	for (size_t i = n->any_host ? TEXT_PROTOCOL : TEXT_HOST; i < TEXTS; i++) {
		h = mix(h, &text[i].n, sizeof(text[i].n));
		h = mix(h, text[i].p, text[i].n);
	}
	return h;
}

static bool is_like(const struct entry *e, const struct refusal_note *n, uint64_t key,
		    const struct str text[TEXTS])
{
	if (e->key != key || e->step != n->step || e->port != n->port)
		return false;
	for (size_t i = n->any_host ? TEXT_PROTOCOL : TEXT_HOST; i < TEXTS; i++)
		if (!str_eq(e->text[i], text[i]))
			return false;
	return true;
}

/* ---- the list ---- */

static struct entry *entry_new(const struct refusal_note *n, const struct str text[TEXTS])
{
	struct entry *e;
	size_t bytes = 0;

	for (size_t i = 0; i < TEXTS; i++)
		bytes += text[i].n;
	e = calloc(1, sizeof(*e) + bytes);
	if (!e)
		return NULL;
	bytes = 0;
	for (size_t i = 0; i < TEXTS; i++) {
		if (text[i].n)
			memcpy(e->bytes + bytes, text[i].p, text[i].n);
		e->text[i] = str_n(e->bytes + bytes, text[i].n);
		bytes += text[i].n;
	}
	e->step = n->step;
	e->port = n->port;
	e->retry = n->retry;
	e->last = e->first = clock_wall_us();
	return e;
}

/* Takes the entry that is like @n out of the list. */
static struct entry *take_like(struct refusal_list *l, const struct refusal_note *n, uint64_t key,
			       const struct str text[TEXTS])
{
	for (struct entry **at = &l->newest; *at; at = &(*at)->next) {
		struct entry *e = *at;

		if (!is_like(e, n, key, text))
			continue;
		*at = e->next;
		l->n--;
		return e;
	}
	return NULL;
}

static void drop_oldest(struct refusal_list *l)
{
	struct entry **at = &l->newest;

	while ((*at)->next)
		at = &(*at)->next;
	free(*at);
	*at = NULL;
	l->n--;
}

void refusal_list_note(struct refusal_list *l, const struct refusal_note *n)
{
	struct str text[TEXTS];
	struct entry *e, *like;
	uint64_t key;

	if (!l)
		return;
	texts_of(n, text);
	key = key_of(n, text);
	like = take_like(l, n, key, text);
	/* A new one even where there is one like it, if it may show another name. */
	e = like && !n->any_host ? like : entry_new(n, text);
	if (!e) {
		free(like);
		return;
	}
	e->count = like ? like->count + 1 : 1;
	e->first = like ? like->first : e->first;
	if (like != e)
		free(like);
	e->key = key;
	e->last = clock_wall_us();
	snprintf(e->id, sizeof(e->id), "%s", n->id);
	if (l->n == REFUSAL_LIST_MAX)
		drop_oldest(l);
	e->next = l->newest;
	l->newest = e;
	l->n++;
}

struct refusal_list *refusal_list_new(void)
{
	return calloc(1, sizeof(struct refusal_list));
}

void refusal_list_free(struct refusal_list *l)
{
	if (!l)
		return;
	while (l->newest) {
		struct entry *e = l->newest;

		l->newest = e->next;
		free(e);
	}
	free(l);
}

/* ---- telling ---- */

static void put_known(struct json *j, const char *key, struct str s)
{
	if (s.n)
		json_put_str(j, key, s);
}

static void put_entry(const struct entry *e, struct json *j)
{
	char text[DATE_TEXT_MAX];

	json_object(j);
	json_put_str(j, "id", str_of(e->id));
	date_format(e->last, text);
	json_put_str(j, "time", str_of(text));
	if (e->count > 1) {
		date_format(e->first, text);
		json_put_str(j, "first", str_of(text));
	}
	json_put_u64(j, "count", e->count);
	json_put_str(j, "step", str_of(step_names[e->step]));
	put_known(j, "host", e->text[TEXT_HOST]);
	if (e->port)
		json_put_u64(j, "port", e->port);
	put_known(j, "protocol", e->text[TEXT_PROTOCOL]);
	put_known(j, "method", e->text[TEXT_METHOD]);
	put_known(j, "path", e->text[TEXT_PATH]);
	put_known(j, "rule", e->text[TEXT_RULE]);
	put_known(j, "reason", e->text[TEXT_REASON]);
	json_put_str(j, "retry", str_of(e->retry));
	json_object_end(j);
}

void refusal_list_json(const struct refusal_list *l, struct json *j)
{
	json_array(j);
	for (const struct entry *e = l ? l->newest : NULL; e; e = e->next)
		put_entry(e, j);
	json_array_end(j);
}

/* As JSON escapes it: no byte of a box's drives whoever reads this. */
static void put_plain(struct buf *out, const char *before, struct str s)
{
	struct buf shown;
	struct json j;

	if (s.n == 0)
		return;
	buf_init(&shown, SHOWN_MAX);
	json_init(&j, &shown);
	json_str(&j, s);
	buf_put_str(out, str_of(before));
	buf_put(out, shown.p + 1, shown.n - 2);
	buf_free(&shown);
}

static void put_line(const struct entry *e, struct buf *out)
{
	char text[DATE_TEXT_MAX];

	date_format(e->last, text);
	buf_printf(out, "%s  %s ", text, step_names[e->step]);
	put_plain(out, " ", e->text[TEXT_PROTOCOL]);
	put_plain(out, " ", e->text[TEXT_METHOD]);
	put_plain(out, " ", e->text[TEXT_HOST]);
	if (e->port)
		buf_printf(out, " port %u", e->port);
	put_plain(out, " ", e->text[TEXT_PATH]);
	buf_put_c(out, '\n');
	put_plain(out, "    rule ", e->text[TEXT_RULE]);
	put_plain(out, e->text[TEXT_RULE].n ? ": " : "    ", e->text[TEXT_REASON]);
	buf_printf(out, "\n    refusal %s, %llu time%s, retry: %s\n", e->id,
		   (unsigned long long)e->count, e->count == 1 ? "" : "s", e->retry);
}

void refusal_list_text(const struct refusal_list *l, struct buf *out)
{
	if (!l || !l->newest)
		buf_put_str(out, STR("Nothing was refused so far.\n"));
	for (const struct entry *e = l ? l->newest : NULL; e; e = e->next)
		put_line(e, out);
}
