/* Theory of operation
 *
 * The kernel steers port 80 of the gateway's own address to the worker's listener like any admitted
 * address (sandbox/wire.h); the worker sees by the destination that the connection is for itself
 * and hands it over here. From then on it has nothing in common with a proxied one: no name, no
 * policy, no upstream. Its only ways out of this process are two questions with answers: the CA's
 * certificate from the broker, and a request for access to the supervisor.
 *
 * Each request is on record as kind "request", host exeat.internal, without an address that was
 * dialled. They can be as many as a box likes to send, so what repeats is counted (proxy/tally.h);
 * where the ring takes no record now, it is told with the next count. Nothing leaves the box by
 * these requests, so no answer waits for its record.
 */
#include <stdlib.h>

#include "proxy/audit.h"
#include "proxy/clock.h"
#include "proxy/notice_state.h"
#include "proxy/tally.h"

/* ---- limits ---- */

bool notice_allowed(struct notice_bucket *b, uint64_t per_minute, uint64_t most, unsigned *wait_s)
{
	const uint64_t minute = 60000, one = 1000;
	uint64_t now = clock_ms(), passed = b->since ? now - b->since : 0;

	if (b->since == 0 || passed >= minute * most / per_minute)
		b->tokens = most * one;
	else
		b->tokens += passed * per_minute * one / minute;
	if (b->tokens > most * one)
		b->tokens = most * one;
	b->since = now;
	*wait_s = 0;
	if (b->tokens >= one) {
		b->tokens -= one;
		return true;
	}
	*wait_s = (unsigned)((one - b->tokens) * minute / (per_minute * one * 1000) + 1);
	return false;
}

/* ---- records ---- */

/* A kind of request: this, the method, and the path, as far as there is room. */
struct key_head {
	uint16_t status;
	uint8_t refused;	/* enum refusal_reason */
	uint8_t method_n;
};

#define KEY_METHOD_MAX 32u
#define KEY_PATH_MAX (TALLY_KEY_MAX - sizeof(struct key_head) - KEY_METHOD_MAX)

_Static_assert(REFUSAL_COUNT <= UINT8_MAX, "a reason is one byte");

static enum err put_record(struct notice *n, const struct tally_line *line)
{
	struct key_head head;
	struct str method, path;
	struct record r;

	memcpy(&head, line->key.p, sizeof(head));
	method = str_n(line->key.p + sizeof(head), head.method_n);
	path = str_from(line->key, sizeof(head) + head.method_n);
	record_begin(&r, RECORD_request);
	if (head.refused == REFUSAL_COUNT) {
		record_str(&r, REC_verdict, STR("allow"));
	} else {
		record_str(&r, REC_verdict, STR("deny"));
		record_str(&r, REC_reason, str_of(refusal_name((enum refusal_reason)head.refused)));
	}
	record_str(&r, REC_method, method);
	record_str(&r, REC_scheme, STR("http"));
	record_str(&r, REC_host, STR(NOTICE_NAME));
	record_str(&r, REC_path, path);
	record_u64(&r, REC_port, 80);
	record_u64(&r, REC_status, head.status);
	if (line->count)
		record_u64(&r, REC_count, line->count);
	return audit_commit(n->w, line->policy, &r);
}

static bool tell_repeats(void *arg, const struct tally_line *line, uint64_t suppressed)
{
	struct notice *n = arg;
	struct record r;

	if (line)
		return put_record(n, line) == OK;
	record_begin(&r, RECORD_request);
	record_str(&r, REC_verdict, STR("allow"));
	record_str(&r, REC_host, STR(NOTICE_NAME));
	record_u64(&r, REC_suppressed, suppressed);
	return audit_commit(n->w, n->w->policy, &r) == OK;
}

void notice_record(struct notice *n, struct str method, struct str path,
		   const struct notice_reply *r)
{
	static const char no_id[17];
	const struct decision none = { VERDICT_ALLOW, { 0, RULE_DEFAULT } };
	struct key_head head = { .status = (uint16_t)r->status, .refused = (uint8_t)r->refused };
	const struct tally_line *line;
	struct buf key;

	if (method.n > KEY_METHOD_MAX)
		method.n = KEY_METHOD_MAX;
	if (path.n > KEY_PATH_MAX)
		path.n = KEY_PATH_MAX;
	head.method_n = (uint8_t)method.n;
	buf_init(&key, TALLY_KEY_MAX);
	buf_put(&key, &head, sizeof(head));
	buf_put_str(&key, method);
	buf_put_str(&key, path);
	if (!key.failed && tally_note(n->tally, buf_str(&key), none, no_id, &line) == TALLY_FIRST &&
	    put_record(n, line) != OK)
		tally_retry(n->tally, buf_str(&key));
	buf_free(&key);
}

/* ---- connections ---- */

bool notice_take(struct notice *n, int fd)
{
	struct notice_connection *c;

	if (!notice_has_room(n))
		return false;
	c = notice_connection_new(n, fd);
	if (c)
		notice_connection_pump(c);
	return true;
}

bool notice_has_room(const struct notice *n)
{
	return n->n < NOTICE_CONNECTIONS_MAX;
}

void notice_take_stream(struct notice *n, struct stream *stream)
{
	struct notice_connection *c = notice_connection_adopt(n, stream);

	if (c)
		notice_connection_pump(c);
}

/* ---- life ---- */

struct notice *notice_new(struct worker *w, struct str contact)
{
	struct notice *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->w = w;
	buf_init(&n->contact, MSG_CONTACT_MAX);
	buf_init(&n->ca, MSG_PEM_MAX);
	buf_init(&n->policy_page[FORM_JSON], NOTICE_ANSWER_MAX);
	buf_init(&n->policy_page[FORM_TEXT], NOTICE_ANSWER_MAX);
	buf_put_str(&n->contact, contact);
	n->tally = tally_new(w->base, &w->policy, tell_repeats, n);
	if (!n->tally || n->contact.failed) {
		notice_free(n);
		return NULL;
	}
	return n;
}

void notice_free(struct notice *n)
{
	if (!n)
		return;
	while (n->first)
		notice_connection_free(n->first);
	if (n->tally)
		tally_flush(n->tally);
	tally_free(n->tally);
	buf_free(&n->contact);
	buf_free(&n->ca);
	buf_free(&n->policy_page[FORM_JSON]);
	buf_free(&n->policy_page[FORM_TEXT]);
	free(n);
}
