#include "proxy/refusal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "conf/json.h"

#define PHRASE_TITLE_MAX 80
#define PHRASE_RULE_MAX 64
#define PHRASE_WHY_MAX 128
static_assert(PHRASE_TITLE_MAX + PHRASE_RULE_MAX + PHRASE_WHY_MAX +
	      sizeof(": rule :  (refusal 0123456789abcdef)") <= REFUSAL_PHRASE_MAX, "all parts fit");

struct row {
	const char *name, *error, *title;
	unsigned status;
	uint8_t alert;
	enum retry retry;
};

static const struct row rows[] = {
#define X(name, status, error, alert, retry, title)                                               \
	[REFUSAL_##name] = { #name, error, title, status, alert, RETRY_##retry },
	REFUSALS(X)
#undef X
};

/* The names as logged, made from the table's at the first question. */
const char *refusal_name(enum refusal_reason reason)
{
	static char names[REFUSAL_COUNT][32];
	char *name = names[reason];

	if (!name[0])
		for (size_t i = 0; rows[reason].name[i] && i < sizeof(names[0]) - 1; i++)
			name[i] = rows[reason].name[i] == '_' ? '-' : rows[reason].name[i];
	return name;
}

unsigned refusal_status(enum refusal_reason reason)
{
	return rows[reason].status;
}

bool refusal_is_trouble(enum refusal_reason reason)
{
	return reason >= REFUSAL_dns_failed || reason == REFUSAL_answer_undecodable;
}

uint8_t refusal_alert(enum refusal_reason reason)
{
	return rows[reason].alert;
}

const char *refusal_error(enum refusal_reason reason)
{
	return rows[reason].error;
}

const char *refusal_retry(enum refusal_reason reason)
{
	static const char *const texts[] = {
		[RETRY_NEVER] = "never", [RETRY_LATER] = "later", [RETRY_ASK] = "ask",
	};

	return texts[rows[reason].retry];
}

/* Not a secret: it need only not come twice. The kernel's random source does not fail once it was
 * seeded, which it was long before a box could be started. */
void refusal_id(struct refusal *r)
{
	uint64_t v;
	ssize_t n;

	do {
		n = getrandom(&v, sizeof(v), 0);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(v))
		abort();
	snprintf(r->id, sizeof(r->id), "%016llx", (unsigned long long)v);
}

/* ---- the answer ---- */

static void put_known(struct json *j, const char *key, struct str s)
{
	if (s.n)
		json_put_str(j, key, s);
}

static unsigned retry_s(const struct refusal *r)
{
	return r->retry_s ? r->retry_s : REFUSAL_RETRY_S;
}

static void write_body(const struct refusal *r, struct buf *body)
{
	const struct row *row = &rows[r->reason];
	char type[64];
	struct json j;

	snprintf(type, sizeof(type), "urn:exeat:refusal:%s", refusal_name(r->reason));
	json_init(&j, body);
	json_object(&j);
	json_put_str(&j, "type", str_of(type));
	json_put_str(&j, "title", str_of(row->title));
	json_put_u64(&j, "status", row->status);
	put_known(&j, "detail", r->why);
	json_put_str(&j, "reason", str_of(refusal_name(r->reason)));
	put_known(&j, "rule", r->rule);
	put_known(&j, "host", r->host);
	put_known(&j, "method", r->method);
	put_known(&j, "path", r->path);
	json_put_str(&j, "help", STR(REFUSAL_HELP));
	json_put_str(&j, "refusal", str_of(r->id));
	json_put_str(&j, "retry", str_of(refusal_retry(r->reason)));
	if (row->retry == RETRY_LATER)
		json_put_u64(&j, "retry_after", retry_s(r));
	json_object_end(&j);
	buf_put_c(body, '\n');
}

/* The inside of an sf-string (RFC 8941 3.3.3): printable ASCII, '"' and '\' escaped; what it cannot
 * hold becomes '?'. */
static void put_details(struct buf *out, struct str s, size_t max)
{
	for (size_t i = 0; i < s.n && i < max; i++) {
		char c = s.p[i];

		if (c == '"' || c == '\\')
			buf_put_c(out, '\\');
		buf_put_c(out, c >= 0x20 && c < 0x7f ? c : '?');
	}
}

static void write_proxy_status(const struct refusal *r, struct buf *out)
{
	const struct row *row = &rows[r->reason];

	buf_printf(out, "exeat; error=%s; details=\"", row->error);
	put_details(out, str_of(row->title), REFUSAL_DETAILS_MAX);
	if (r->rule.n) {
		buf_put_str(out, STR(": rule "));
		put_details(out, r->rule, REFUSAL_DETAILS_MAX);
	}
	if (r->why.n) {
		buf_put_str(out, STR(": "));
		put_details(out, r->why, REFUSAL_DETAILS_MAX);
	}
	buf_printf(out, " (refusal %s)\"", r->id);
}

/* What a reason phrase may hold (RFC 9112 4), within ASCII; '?' for the rest. */
/* How a byte is written that the place does not take. */
enum spelling { SPELL_PHRASE, SPELL_GRPC };

/* A status line has no way to write other bytes; a grpc-message is text with whatever is not
 * printable ASCII, and the %, escaped. */
static void put_spelled(struct buf *out, struct str s, size_t max, enum spelling as)
{
	for (size_t i = 0; i < s.n && i < max; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool plain = c >= 0x20 && c < 0x7f;

		if (plain && !(as == SPELL_GRPC && c == '%'))
			buf_put_c(out, (char)c);
		else if (as == SPELL_GRPC)
			buf_printf(out, "%%%02X", c);
		else
			buf_put_c(out, '?');
	}
}

static void put_words(const struct refusal *r, struct buf *out, enum spelling as)
{
	put_spelled(out, str_of(rows[r->reason].title), PHRASE_TITLE_MAX, as);
	if (r->rule.n) {
		buf_put_str(out, STR(": rule "));
		put_spelled(out, r->rule, PHRASE_RULE_MAX, as);
	}
	if (r->why.n) {
		buf_put_str(out, STR(": "));
		put_spelled(out, r->why, PHRASE_WHY_MAX, as);
	}
	buf_printf(out, " (refusal %s)", r->id);
}

void refusal_phrase(const struct refusal *r, struct buf *out)
{
	put_words(r, out, SPELL_PHRASE);
}

/* A no is "permission denied"; what was not to be had, or not now, is "unavailable". */
static struct str grpc_status(enum refusal_reason reason)
{
	bool later = refusal_is_trouble(reason) || rows[reason].retry == RETRY_LATER;

	return later ? STR("14") : STR("7");
}

void refusal_grpc(const struct refusal *r, struct fields *fields)
{
	struct buf message;

	buf_init(&message, 3 * REFUSAL_PHRASE_MAX);
	put_words(r, &message, SPELL_GRPC);
	fields_add(fields, STR("content-type"), STR("application/grpc"));
	fields_add(fields, STR("grpc-status"), grpc_status(r->reason));
	fields_add(fields, STR("grpc-message"), buf_str(&message));
	buf_free(&message);
}

void refusal_answer(const struct refusal *r, struct fields *fields, struct buf *body)
{
	struct buf status;
	char number[24];
	size_t before = body->n;

	buf_init(&status, 8 * REFUSAL_DETAILS_MAX);
	write_proxy_status(r, &status);
	write_body(r, body);
	fields_add(fields, STR("content-type"), STR("application/problem+json"));
	snprintf(number, sizeof(number), "%zu", body->n - before);
	fields_add(fields, STR("content-length"), str_of(number));
	fields_add(fields, STR("proxy-status"), buf_str(&status));
	fields_add(fields, STR("cache-control"), STR("no-store"));
	if (rows[r->reason].retry == RETRY_LATER) {
		snprintf(number, sizeof(number), "%u", retry_s(r));
		fields_add(fields, STR("retry-after"), str_of(number));
	}
	if (status.failed)
		body->failed = true;
	buf_free(&status);
}

/* ---- what only our own answers may bear ---- */

/* The end of the list member that begins at @s: a comma outside of quotes, or s.n. False where a
 * quote is not closed. */
static bool member_end(struct str s, size_t *end)
{
	bool quoted = false;
	size_t i;

	for (i = 0; i < s.n && (quoted || s.p[i] != ','); i++) {
		if (s.p[i] == '"')
			quoted = !quoted;
		else if (s.p[i] == '\\' && quoted)
			i++;
	}
	*end = i < s.n ? i : s.n;
	return !quoted;
}

/* The proxy that a member names: the token or the string that it begins with, whatever follows, so
 * that a lenient reader of a malformed member is not deceived either. */
static bool names_exeat(struct str member)
{
	size_t n = 0;

	if (member.p[0] == '"') {
		member = str_from(member, 1);
		return str_eq_nocase(str_trim(str_n(member.p, str_find(member, '"'))), STR("exeat"));
	}
	while (n < member.n && http_class[(unsigned char)member.p[n]] & HTTP_TOKEN)
		n++;
	return str_eq_nocase(str_n(member.p, n), STR("exeat"));
}

/* Moves the members that may stay to the value's beginning. False: nothing is left of it. */
static bool keep_others(char *value, uint32_t *n)
{
	struct str rest = str_n(value, *n);
	uint32_t kept = 0;

	while (rest.n) {
		struct str member;
		size_t end;

		if (!member_end(rest, &end))
			return false;
		member = str_trim(str_n(rest.p, end));
		rest = str_from(rest, end < rest.n ? end + 1 : end);
		if (member.n == 0 || names_exeat(member))
			continue;
		/* Where something was kept, its comma and a byte before @member are free. */
		if (kept)
			value[kept++] = ',';
		memmove(value + kept, member.p, member.n);
		kept += (uint32_t)member.n;
	}
	*n = kept;
	return kept > 0;
}

void refusal_strip_marks(struct fields *fields)
{
	const struct str name = STR("proxy-status");
	size_t i = fields_find(fields, name, 0);

	while (i < fields->n) {
		if (keep_others(fields_value_mut(fields, i), &fields->at[i].value_n))
			i++;
		else
			fields_remove_at(fields, i);
		i = fields_find(fields, name, i);
	}
}
