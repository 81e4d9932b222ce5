#include "proxy/repeats.h"

#include <stdlib.h>

#include "policy/digest.h"
#include "policy/name.h"
#include "proxy/audit.h"
#include "proxy/explicit.h"
#include "proxy/http1.h"
#include "proxy/tally.h"

/* A kind's key: this, and then the host. The digest is that of method, path and why, which can be
 * longer than a key. */
struct key_head {
	uint8_t kind, reason, proto, via;
	uint16_t port;
	uint8_t digest[DIGEST_BYTES];
};

#define DIGESTED_MAX (4 * HTTP1_LINE_MAX)

_Static_assert(sizeof(struct key_head) + NAME_MAX_LEN <= TALLY_KEY_MAX, "a key holds any name");

struct repeats {
	struct worker *w;
	struct tally *tally;
	char rest_id[17]; /* shared by what found no room; empty: nothing did since it was told */
};

const char *proto_name(enum proto proto)
{
	switch (proto) {
	case PROTO_HTTPS:
		return "https";
	case PROTO_HTTP:
		return "http";
	case PROTO_TCP:
		return "tcp";
	case PROTO_UNKNOWN:
		break;
	}
	return "";
}

/* False: out of memory; such a refusal is a kind of its own. */
static bool digest(const struct repeat *what, uint8_t out[DIGEST_BYTES])
{
	struct buf text;
	bool ok;

	buf_init(&text, DIGESTED_MAX);
	buf_put_str(&text, what->method);
	buf_put_c(&text, '\0');
	buf_put_str(&text, what->path);
	buf_put_c(&text, '\0');
	buf_put_str(&text, what->why);
	ok = !text.failed && digest_sha256(text.p, text.n, out);
	buf_wipe(&text);
	return ok;
}

static bool make_key(const struct repeat *what, struct buf *key)
{
	struct key_head head = { .kind = (uint8_t)what->kind, .reason = (uint8_t)what->reason,
				 .proto = (uint8_t)what->proto, .via = what->via,
				 .port = what->port };

	buf_init(key, TALLY_KEY_MAX);
	if (!digest(what, head.digest))
		return false;
	buf_put(key, &head, sizeof(head));
	buf_put_str(key, what->host);
	return !key->failed;
}

/* ---- telling ---- */

static void put_what(struct record *rec, const struct tally_line *line)
{
	struct str host = str_from(line->key, sizeof(struct key_head));
	struct key_head head;

	memcpy(&head, line->key.p, sizeof(head));
	record_begin(rec, (enum record_kind)head.kind);
	if (head.reason == REFUSAL_policy) {
		audit_decision(rec, line->policy, line->decision);
	} else {
		record_str(rec, REC_verdict, STR("deny"));
		record_str(rec, REC_reason, str_of(refusal_name((enum refusal_reason)head.reason)));
	}
	if (head.kind == RECORD_request) {
		record_str(rec, REC_host, host);
		record_str(rec, REC_scheme, str_of(proto_name((enum proto)head.proto)));
	} else {
		record_str(rec, REC_destination, host);
		record_str(rec, REC_via, str_of(explicit_via_name((enum explicit_via)head.via)));
		record_str(rec, REC_protocol, str_of(proto_name((enum proto)head.proto)));
	}
	record_u64(rec, REC_port, head.port);
}

static bool tell_rest(struct repeats *r, uint64_t suppressed)
{
	struct record rec;

	record_begin(&rec, RECORD_request);
	record_str(&rec, REC_verdict, STR("deny"));
	record_str(&rec, REC_refusal, str_of(r->rest_id));
	record_u64(&rec, REC_suppressed, suppressed);
	if (audit_commit(r->w, r->w->policy, &rec) != OK)
		return false;
	r->rest_id[0] = '\0';
	return true;
}

static bool tell(void *arg, const struct tally_line *line, uint64_t suppressed)
{
	struct repeats *r = arg;
	struct record rec;

	if (!line)
		return tell_rest(r, suppressed);
	put_what(&rec, line);
	record_str(&rec, REC_refusal, str_of(line->id));
	record_u64(&rec, REC_count, line->count);
	return audit_commit(r->w, line->policy, &rec) == OK;
}

/* ---- noting ---- */

static void share_rest(struct repeats *r, char id[17])
{
	if (r->rest_id[0])
		memcpy(id, r->rest_id, sizeof(r->rest_id));
	else
		memcpy(r->rest_id, id, sizeof(r->rest_id));
}

bool repeats_first(struct repeats *r, const struct repeat *what, char id[17])
{
	const struct tally_line *line;
	struct buf key;
	bool first = true;

	if (make_key(what, &key)) {
		switch (tally_note(r->tally, buf_str(&key), what->decision, id, &line)) {
		case TALLY_FIRST:
			break;
		case TALLY_COUNTED:
			memcpy(id, line->id, sizeof(line->id));
			first = false;
			break;
		case TALLY_NO_ROOM:
			share_rest(r, id);
			first = false;
			break;
		}
	}
	buf_free(&key);
	return first;
}

void repeats_drop(struct repeats *r, const struct repeat *what)
{
	struct buf key;

	if (make_key(what, &key))
		tally_drop(r->tally, buf_str(&key));
	buf_free(&key);
}

/* ---- life ---- */

struct repeats *repeats_new(struct worker *w)
{
	struct repeats *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->w = w;
	r->tally = tally_new(w->base, &w->policy, tell, r);
	if (!r->tally) {
		free(r);
		return NULL;
	}
	return r;
}

void repeats_free(struct repeats *r)
{
	if (!r)
		return;
	tally_flush(r->tally);
	tally_free(r->tally);
	free(r);
}
