/* Theory of operation
 *
 * A record is: kind (u8), time in microseconds (u64), then fields: number (u8) and value. A text is
 * a u16 length and its bytes, a number a u64, a truth value a byte; all little endian. The writer
 * puts fields in whatever order; each at most once.
 *
 * The recorder walks a record with one cursor (next_field()), once to check it and once to write
 * it: both see the same copy, which the writer can no longer reach.
 */
#include "proxy/record.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "conf/json.h"

#define HEAD_BYTES 9
/* The last microsecond that four digits of a year can name: 9999-12-31T23:59:59.999999Z */
#define TIME_US_MAX UINT64_C(253402300799999999)
#define CUT_MARK "..."

enum value_type { TYPE_STR, TYPE_U64, TYPE_BOOL };

static const struct {
	struct str key;		/* as it stands in a line */
	enum value_type type;
	size_t cap;
} fields[RECORD_FIELD_COUNT] = {
#define X(name, type, cap) { { "\"" #name "\":", sizeof("\"" #name "\":") - 1 }, TYPE_##type, cap },
	RECORD_FIELDS(X)
#undef X
};

static const struct {
	const char *name;
	unsigned by;
} kinds[RECORD_KIND_COUNT] = {
#define X(name, by) { #name, by },
	RECORD_KINDS(X)
#undef X
};

static_assert(RECORD_FIELD_COUNT <= 256 && RECORD_KIND_COUNT <= 256, "each is one byte");

const char *record_kind_name(enum record_kind k)
{
	return k < RECORD_KIND_COUNT ? kinds[k].name : "unknown";
}

/* ---- writing ---- */

static void put(struct record *r, const void *p, size_t n)
{
	if (r->error)
		return;
	if (n > sizeof(r->bytes) - r->n) {
		r->error = ERR_LIMIT;
		return;
	}
	memcpy(r->bytes + r->n, p, n);
	r->n += n;
}

static void put_le(struct record *r, uint64_t v, size_t n)
{
	unsigned char b[8];

	for (size_t i = 0; i < n; i++)
		b[i] = (unsigned char)(v >> (8 * i));
	put(r, b, n);
}

void record_begin(struct record *r, enum record_kind kind)
{
	struct timespec now;

	r->error = OK;
	r->n = 0;
	memset(r->has, 0, sizeof(r->has));
	clock_gettime(CLOCK_REALTIME, &now);
	put_le(r, kind, 1);
	put_le(r, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, 8);
}

static bool start_field(struct record *r, enum record_field f, enum value_type type)
{
	if (r->error)
		return false;
	if (f >= RECORD_FIELD_COUNT || fields[f].type != type ||
	    r->has[f / 64] & UINT64_C(1) << (f % 64)) {
		r->error = ERR_BUG;
		return false;
	}
	r->has[f / 64] |= UINT64_C(1) << (f % 64);
	put_le(r, f, 1);
	return true;
}

/* At most @n bytes, and not the first half of a character. */
static size_t cut_at(struct str s, size_t n)
{
	while (n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
		n--;
	return n;
}

void record_str(struct record *r, enum record_field f, struct str s)
{
	size_t keep = s.n;

	if (s.n == 0 || !start_field(r, f, TYPE_STR))
		return;
	if (s.n <= fields[f].cap) {
		put_le(r, s.n, 2);
		put(r, s.p, s.n);
		return;
	}
	keep = cut_at(s, fields[f].cap - (sizeof(CUT_MARK) - 1));
	put_le(r, keep + sizeof(CUT_MARK) - 1, 2);
	put(r, s.p, keep);
	put(r, CUT_MARK, sizeof(CUT_MARK) - 1);
}

void record_u64(struct record *r, enum record_field f, uint64_t v)
{
	if (start_field(r, f, TYPE_U64))
		put_le(r, v > INT64_MAX ? INT64_MAX : v, 8);
}

void record_bool(struct record *r, enum record_field f, bool v)
{
	if (start_field(r, f, TYPE_BOOL))
		put_le(r, v, 1);
}

enum err record_commit(struct record *r, struct ring *ring)
{
	if (r->error)
		return r->error;
	return ring_write(ring, str_n((const char *)r->bytes, r->n));
}

enum err record_commit_end(struct record *r, struct ring *ring)
{
	if (r->error)
		return r->error;
	return ring_write_end(ring, str_n((const char *)r->bytes, r->n));
}

/* ---- reading ---- */

struct value {
	enum record_field field;
	struct str text;
	uint64_t number;
};

static bool take_le(struct str *rest, size_t n, uint64_t *v)
{
	if (rest->n < n)
		return false;
	*v = 0;
	for (size_t i = 0; i < n; i++)
		*v |= (uint64_t)(unsigned char)rest->p[i] << (8 * i);
	*rest = str_from(*rest, n);
	return true;
}

/* The field at the start of *@rest, which is not empty, and moves past it. */
static enum err next_field(struct str *rest, struct value *v)
{
	uint64_t f, n;

	if (!take_le(rest, 1, &f) || f >= RECORD_FIELD_COUNT)
		return ERR_SYNTAX;
	*v = (struct value){ .field = (enum record_field)f };
	if (fields[f].type != TYPE_STR)
		return take_le(rest, fields[f].type == TYPE_U64 ? 8 : 1, &v->number) ? OK
										     : ERR_SYNTAX;
	if (!take_le(rest, 2, &n) || n > rest->n)
		return ERR_SYNTAX;
	if (n > fields[f].cap)
		return ERR_LIMIT;
	v->text = str_n(rest->p, n);
	*rest = str_from(*rest, n);
	return OK;
}

static enum err check_value(const struct value *v, enum role role, struct record_head *head)
{
	bool is_request = head->kind == RECORD_request;

	if (fields[v->field].type == TYPE_U64 && v->number > INT64_MAX)
		return ERR_LIMIT;
	if (fields[v->field].type == TYPE_BOOL && v->number > 1)
		return ERR_SYNTAX;
	if (v->field == REC_sandbox) {
		if (role == ROLE_WORKER)
			return ERR_DENIED;
		head->sandbox = v->text;
	} else if (v->field == REC_policy) {
		head->policy = v->text;
	} else if (v->field == REC_exchange) {
		head->exchange = v->number;
		head->has_exchange = true;
	} else if (v->field == REC_phase) {
		head->begins = is_request && str_eq(v->text, STR("begin"));
		head->ends = is_request && str_eq(v->text, STR("end"));
	}
	return OK;
}

enum err record_check(struct str bytes, enum role role, struct record_head *head)
{
	uint64_t has[(RECORD_FIELD_COUNT + 63) / 64] = { 0 };
	uint64_t kind;

	*head = (struct record_head){ 0 };
	if (!take_le(&bytes, 1, &kind) || !take_le(&bytes, 8, &head->time_us) ||
	    kind >= RECORD_KIND_COUNT)
		return ERR_SYNTAX;
	if (role >= ROLE_COUNT || !(kinds[kind].by & (1u << role)))
		return ERR_DENIED;
	if (head->time_us > TIME_US_MAX)
		return ERR_LIMIT;
	head->kind = (enum record_kind)kind;
	while (bytes.n) {
		struct value v;
		enum err e = next_field(&bytes, &v);
		uint64_t bit;

		if (!e)
			e = check_value(&v, role, head);
		if (e)
			return e;
		bit = UINT64_C(1) << (v.field % 64);
		if (has[v.field / 64] & bit)
			return ERR_SYNTAX;
		has[v.field / 64] |= bit;
	}
	return OK;
}

void record_write_fields(struct str bytes, struct json *json)
{
	struct value v;

	bytes = str_from(bytes, HEAD_BYTES);
	while (bytes.n && next_field(&bytes, &v) == OK) {
		if (v.field == REC_sandbox || v.field == REC_policy)
			continue;
		json_key_written(json, fields[v.field].key);
		if (fields[v.field].type == TYPE_STR)
			json_str(json, v.text);
		else if (fields[v.field].type == TYPE_U64)
			json_u64(json, v.number);
		else
			json_bool(json, v.number != 0);
	}
}
