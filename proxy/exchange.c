/* Theory of operation
 *
 * An exchange goes through the steps of a table, in order. A step says NEXT, WAIT (it will be asked
 * again after any event) or DONE; none blocks and none calls itself again. What is not on record
 * does not happen: BEGIN stands before SEND, FINISH before the box is given the answer's end. A
 * refusal leaves the table wherever it is: it is recorded, then answered.
 *
 *   CHECK    what the request names: host, target, method (exchange_check.c)
 *   DECIDE   the policy, with all that is known; a deny is answered without dialling
 *   LIMITS   what the rules leave of requests and of bytes
 *   DIAL     an upstream: one of the pool's, or a new one from the dialer, TLS verified
 *   CONFIRM  the policy again, now with the address: must be an allow
 *   FOREIGN  what the box brought itself is stripped or refused
 *   GRANT    the broker's edits, where the rule names a credential
 *   BEGIN    the begin record
 *   SEND     the request's head goes upstream
 *   RELAY    bodies both ways, the answer
 *   FINISH   the end record, then the answer's end
 *
 * One retry (RFC 9110 9.2.2, RFC 9112 9.3.1): an upstream that was used before and turns out to be
 * dead gives way to a new one if nothing of the answer came and either nothing of this request went
 * out or the method is idempotent and there is no body; one that has certainly done nothing about
 * the request (RFC 9113 8.7); and one whose ticket died with its dialer, at GRANT. The exchange
 * then goes back to DIAL; its begin record holds.
 */
#include "proxy/exchange.h"

#include <stdio.h>
#include <stdlib.h>

#include "proxy/answer.h"
#include "proxy/clock.h"
#include "proxy/exchange_state.h"
#include "proxy/pool.h"
#include "proxy/refusal_list.h"

enum result { NEXT, WAIT, MOVED, DONE };

/* ---- refusing ---- */

void exchange_refuse(struct exchange *x, enum refusal_reason reason, struct str why)
{
	if (x->refused || x->over)
		return;
	x->refused = true;
	x->refusal = (struct refusal){ .reason = reason, .host = exchange_host(x),
				       .method = buf_str(&x->method), .path = buf_str(&x->path) };
	refusal_id(&x->refusal);
	str_to_z(why, x->why, sizeof(x->why));
	x->refusal.why = str_of(x->why);
	if (x->decided)
		x->refusal.rule = x->rule.id;
	str_to_z(str_of(refusal_name(reason)), x->ended, sizeof(x->ended));
}

void exchange_refuse_by_rule(struct exchange *x)
{
	exchange_refuse(x, REFUSAL_policy, x->rule.reason);
}

static void drop_upstream(struct exchange *x)
{
	if (x->grant) {
		ask_cancel(x->env->w, x->grant);
		x->grant = 0;
	}
	if (x->leg.up)
		pool_put(&x->leg, false);
}

void exchange_forget_grant(struct exchange *x)
{
	if (x->grant) {
		ask_cancel(x->env->w, x->grant);
		x->grant = 0;
	}
	fields_wipe(&x->edits);
	scrub_free(x->scrub);
	x->scrub = NULL;
	x->asked = x->granted = false;
	x->lasting.until_ms = 0;
	x->scrubbed_before = 0;
}

/* Records may have to wait for room. False: not yet. */
static bool recorded(struct exchange *x, enum err e)
{
	x->waits_for_room = e == ERR_FULL;
	return e != ERR_FULL;
}

/* For the box's own list. */
static void list_refusal(const struct exchange *x)
{
	const struct refusal *r = &x->refusal;
	struct refusal_note note = { .step = REFUSED_HTTP, .id = r->id, .host = r->host,
				     .port = x->env->site.port, .method = r->method,
				     .path = r->path, .rule = r->rule, .reason = r->why,
				     .retry = refusal_retry(r->reason) };
	char text[EXCHANGE_WHY_MAX + 64];

	if (r->reason != REFUSAL_policy) {
		snprintf(text, sizeof(text), "%s%s%s", refusal_name(r->reason),
			 r->why.n ? ": " : "", x->why);
		note.reason = str_of(text);
	} else if (r->why.n == 0) {
		note.reason = STR("no rule allows it");
	}
	refusal_list_note(x->env->w->refusals, &note);
}

static enum result finish_refusal(struct exchange *x)
{
	enum err e;

	if (!x->answer_begun)
		x->status = refusal_status(x->refusal.reason);
	e = exchange_record_refusal(x);
	if (!recorded(x, e))
		return WAIT;
	if (e)
		x->refusal.reason = REFUSAL_log_unavailable;
	list_refusal(x);
	if (x->answer_begun)
		x->env->box->abort(x->env->box_port);
	else
		answer_refusal(x);
	drop_upstream(x);
	x->clean = !x->answer_begun && x->request_ended;
	x->over = true;
	return DONE;
}

static enum result finish_abandoned(struct exchange *x)
{
	drop_upstream(x);
	if (!recorded(x, x->id ? exchange_record_end(x) : OK))
		return WAIT;
	x->over = true;
	return DONE;
}

/* ---- the steps ---- */

static enum result step_check(struct exchange *x)
{
	if (!exchange_check(x))
		return MOVED;
	/* Nothing could come of it: nobody is dialled for that. */
	if (ring_refuses(x->env->w->ring)) {
		exchange_refuse(x, REFUSAL_log_unavailable, STR_NONE);
		return MOVED;
	}
	return NEXT;
}

static enum verdict decide(struct exchange *x, const struct facts *f)
{
	x->decision = policy_decide(x->policy, f);
	x->rule = policy_rule(x->policy, x->decision.rule);
	x->decided = true;
	return x->decision.verdict;
}

static enum result step_decide(struct exchange *x)
{
	struct facts f = exchange_facts(x);

	if (decide(x, &f) == VERDICT_DENY) {
		exchange_refuse_by_rule(x);
		return MOVED;
	}
	if (x->env->refusal_address) {
		exchange_refuse(x, REFUSAL_policy, STR("the name was refused when it was looked up"));
		return MOVED;
	}
	return NEXT;
}

static enum result step_limits(struct exchange *x)
{
	return exchange_take_limits(x) ? NEXT : MOVED;
}

static bool idempotent(struct str method)
{
	static const char *const list[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE" };

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (str_eq(method, str_of(list[i])))
			return true;
	return false;
}

/* Even if the origin has had it (RFC 9110 9.2.2). */
static bool may_be_sent_again(const struct exchange *x)
{
	return x->request.body == BODY_NONE && idempotent(buf_str(&x->method));
}

static enum result step_dial(struct exchange *x)
{
	struct pool_wish wish = { .fresh = x->retried, .look = !may_be_sent_again(x) };

	if (!x->leg.up && !pool_get(x->env->w->upstreams, &x->env->site, wish, &x->leg)) {
		exchange_refuse(x, REFUSAL_internal, STR("no connection to the origin is left"));
		return MOVED;
	}
	if (upstream_failed(x->leg.up)) {
		exchange_refuse(x, x->leg.up->trouble, str_of(x->leg.up->why));
		return MOVED;
	}
	if (!upstream_ready(x->leg.up))
		return WAIT;
	/* Who is alone on it has it, or tries all the same: an origin that takes none at all is not
	 * dialled again and again. */
	if (x->leg.up->ops->has_room(x->leg.up) || x->leg.up->legs == &x->leg)
		return NEXT;
	pool_put(&x->leg, false);
	return MOVED;
}

static enum result step_confirm(struct exchange *x)
{
	struct facts f = exchange_facts(x);

	f.addr = x->leg.up->addr;
	if (decide(x, &f) != VERDICT_ALLOW) {
		exchange_refuse_by_rule(x);
		return MOVED;
	}
	if (x->rule.credential != NO_CREDENTIAL && f.proto != PROTO_HTTPS && !x->rule.plaintext) {
		exchange_refuse(x, REFUSAL_credential_plaintext, STR_NONE);
		return MOVED;
	}
	return NEXT;
}

static void strip_foreign(struct exchange *x)
{
	struct buf left;

	buf_init(&left, EXCHANGE_TEXT_MAX);
	foreign_strip(&x->fields, buf_str(&x->query), &left);
	buf_wipe(&x->query);
	buf_put_str(&x->query, buf_str(&left));
	buf_wipe(&left);
}

/* The rule's own word, else its credential's; without either the box's credentials are its
 * business. */
static enum foreign foreign_here(const struct exchange *x)
{
	if (x->rule.has_foreign)
		return x->rule.foreign;
	if (x->rule.credential == NO_CREDENTIAL)
		return FOREIGN_KEEP;
	return policy_credential(x->policy, x->decision.rule.image, x->rule.credential)
		.foreign;
}

static enum result step_foreign(struct exchange *x)
{
	enum foreign foreign = foreign_here(x);

	if (foreign == FOREIGN_KEEP)
		return NEXT;
	if (!x->foreign_looked) {
		foreign_find(&x->fields, buf_str(&x->query), &x->foreign);
		x->foreign_looked = true;
		if (x->foreign.n && foreign == FOREIGN_STRIP)
			strip_foreign(x);
	}
	if (x->foreign.n && foreign == FOREIGN_REFUSE) {
		exchange_refuse(x, REFUSAL_foreign_credential, str_of(x->foreign.names[0]));
		return MOVED;
	}
	if (x->foreign.n && !x->foreign_told) {
		enum err e = exchange_record_foreign(x);

		if (!recorded(x, e))
			return WAIT;
		if (e) {
			exchange_refuse(x, REFUSAL_log_unavailable, STR_NONE);
			return MOVED;
		}
		x->foreign_told = true;
	}
	return NEXT;
}

/* ---- the grant ---- */

static bool keep_patterns(struct exchange *x, const struct str_list *patterns)
{
	struct str names[SCRUB_PATTERNS_MAX];

	if (patterns->n == 0 || patterns->n > SCRUB_PATTERNS_MAX)
		return false;
	for (size_t i = 0; i < patterns->n; i++)
		names[i] = str_of(x->credential);
	return scrub_new(patterns->v, names, patterns->n, &x->scrub) == OK;
}

static void note_lasting(struct exchange *x)
{
	x->lasting = (struct lasting_grant){ .until_ms = clock_ms() + GRANT_LASTS_MS,
					     .rule = x->decision.rule, .policies = x->policies };
	snprintf(x->lasting.credential, sizeof(x->lasting.credential), "%s", x->credential);
}

static void on_granted(void *arg, const struct msg_granted *g)
{
	struct exchange *x = arg;

	x->grant = 0;
	x->granted = true;
	x->grant_status = g->status;
	if (g->status == GRANT_OK) {
		str_to_z(g->credential, x->credential, sizeof(x->credential));
		for (size_t i = 0; i < g->fields.n && i < g->values.n; i++)
			fields_add(&x->edits, g->fields.v[i], g->values.v[i]);
		/* An edit whose answer could not be searched is not put on. */
		if (g->fields.n != g->values.n || fields_failed(&x->edits) ||
		    !keep_patterns(x, &g->patterns))
			x->grant_status = GRANT_UNAVAILABLE;
		else if (g->lasts)
			note_lasting(x);
	}
	x->env->wake(x->env->wake_arg);
}

static enum refusal_reason grant_refusal(enum grant_status status)
{
	switch (status) {
	case GRANT_UNAVAILABLE:
		return REFUSAL_credential_unavailable;
	case GRANT_QUOTA:
		return REFUSAL_too_many_grants;
	case GRANT_PLAINTEXT:
		return REFUSAL_credential_plaintext;
	case GRANT_NO_TICKET:
		return REFUSAL_connection_terminated;
	case GRANT_NONE:
	case GRANT_DENIED:
	case GRANT_OK:
		break;
	}
	return REFUSAL_credential_denied;
}

/* The answer will be searched, so it must come as it is and whole: no coding, no ranges that would
 * cut a value in two. */
static void apply_edits(struct exchange *x)
{
	for (size_t i = 0; i < x->edits.n; i++)
		fields_remove(&x->fields, fields_name(&x->edits, i));
	fields_remove(&x->fields, STR("accept-encoding"));
	fields_remove(&x->fields, STR("range"));
	fields_remove(&x->fields, STR("if-range"));
	fields_add(&x->fields, STR("accept-encoding"), STR("identity"));
}

static void start_again(struct exchange *x)
{
	drop_upstream(x);
	exchange_forget_grant(x);
	x->head_sent = x->continued = false;
	x->retried = true;
	x->step = STEP_DIAL;
}

/* The grant of a request before this one on the same connection, if it lasts. */
static bool take_kept_grant(struct exchange *x)
{
	if (!kept_grant_take(x->leg.up->grant, x->decision.rule, x->policies, &x->lasting,
			     &x->edits, &x->scrub))
		return false;
	snprintf(x->credential, sizeof(x->credential), "%s", x->lasting.credential);
	x->scrubbed_before = scrub_count(x->scrub);
	x->asked = x->granted = true;
	x->grant_status = GRANT_OK;
	return true;
}

static enum result step_grant(struct exchange *x)
{
	if (x->rule.credential == NO_CREDENTIAL)
		return NEXT;
	if (!x->asked && !take_kept_grant(x)) {
		x->asked = true;
		x->grant = ask_grant(x->env->w, x->leg.up->ticket, x->env->site.proto,
				     buf_str(&x->method), buf_str(&x->path), on_granted, x);
	}
	if (!x->granted)
		return WAIT;
	/* The dialer that vouched for the connection is gone: one of its successor's will do. */
	if (x->grant_status == GRANT_NO_TICKET && !x->retried) {
		start_again(x);
		return MOVED;
	}
	if (x->grant_status != GRANT_OK) {
		exchange_refuse(x, grant_refusal(x->grant_status), STR_NONE);
		return MOVED;
	}
	apply_edits(x);
	return NEXT;
}

/* ---- going out ---- */

/* Where that is wanted: is the begin on the disk? */
static enum result wait_for_disk(struct exchange *x)
{
	const struct worker *w = x->env->w;

	if (!w->synced || ring_synced(w->ring, x->begin_end))
		return NEXT;
	if (ring_refuses(w->ring)) {
		exchange_refuse(x, REFUSAL_log_unavailable, STR_NONE);
		return MOVED;
	}
	x->waits_for_room = true;
	return WAIT;
}

static enum result step_begin(struct exchange *x)
{
	enum err e;

	if (x->begun_recorded)
		return wait_for_disk(x);
	e = exchange_record_begin(x);
	if (!recorded(x, e))
		return WAIT;
	if (e) {
		exchange_refuse(x, REFUSAL_log_unavailable, STR_NONE);
		return MOVED;
	}
	x->begun_recorded = true;
	x->begin_end = ring_written(x->env->w->ring);
	return wait_for_disk(x);
}

static void put_host(struct exchange *x, struct fields *out)
{
	const struct site *site = &x->env->site;
	uint16_t usual = site->proto == PROTO_HTTPS ? 443 : 80;
	bool v6 = site->literal && x->env->literal.family == 6;
	char text[NAME_MAX_LEN + 16], port[8] = "";

	if (site->port == usual && !v6) {
		fields_add(out, STR("host"), site->name);
		return;
	}
	if (site->port != usual)
		snprintf(port, sizeof(port), ":%u", site->port);
	snprintf(text, sizeof(text), "%s%.*s%s%s", v6 ? "[" : "", STR_ARG(site->name), v6 ? "]" : "", port);
	fields_add(out, STR("host"), str_of(text));
}

static enum result step_send(struct exchange *x)
{
	struct request r = x->request;
	struct fields out;
	struct buf target;
	bool bad;

	fields_init(&out, 4 * (size_t)HTTP1_HEADERS_MAX);
	buf_init(&target, EXCHANGE_TEXT_MAX);
	put_host(x, &out);
	for (size_t i = 0; i < x->fields.n; i++)
		fields_add(&out, fields_name(&x->fields, i), fields_value(&x->fields, i));
	for (size_t i = 0; i < x->edits.n; i++)
		fields_add(&out, fields_name(&x->edits, i), fields_value(&x->edits, i));
	buf_put_str(&target, buf_str(&x->path));
	buf_put_str(&target, buf_str(&x->query));
	r.method = buf_str(&x->method);
	r.target = buf_str(&target);
	r.secrets = &x->edits;
	bad = fields_failed(&out) || target.failed;
	if (bad) {
		exchange_refuse(x, REFUSAL_headers_too_large, STR_NONE);
	} else {
		x->leg.up->ops->head(&x->leg, &r, &out);
		if (x->request_ended)
			x->leg.up->ops->end(&x->leg, NULL);
		x->head_sent = true;
		x->sent_at = x->last_moved = clock_ms();
	}
	buf_wipe(&target);
	fields_wipe(&out);
	return bad ? MOVED : NEXT;
}

static enum result step_relay(struct exchange *x)
{
	bool moved = x->leg.up->ops->read(&x->leg, x);

	if (moved)
		x->last_moved = clock_ms();
	/* Refused, or sent back to DIAL. */
	if (x->refused || x->step != STEP_RELAY)
		return MOVED;
	if (x->answer_ended)
		return NEXT;
	return moved ? MOVED : WAIT;
}

static void give_back(struct exchange *x)
{
	if (x->request_ended && x->leg.up->ops->reusable(&x->leg)) {
		if (x->scrub)
			kept_grant_put(x->leg.up->grant, &x->lasting, &x->edits, &x->scrub);
		pool_put(&x->leg, true);
	}
	drop_upstream(x);
}

static enum result step_finish(struct exchange *x)
{
	const struct exchange_env *env = x->env;
	enum err e;

	str_to_z(x->request_ended ? STR("complete") : STR("answered early"), x->ended, sizeof(x->ended));
	e = exchange_record_end(x);
	env->box->hold(env->box_port, e == ERR_FULL);
	if (!recorded(x, e))
		return WAIT;
	if (e)
		env->box->abort(env->box_port);
	else
		env->box->end(env->box_port, &x->trailers);
	x->clean = !e && x->request_ended;
	give_back(x);
	x->over = true;
	return DONE;
}

static enum result (*const steps[STEP_COUNT])(struct exchange *) = {
	[STEP_CHECK] = step_check,     [STEP_DECIDE] = step_decide,
	[STEP_LIMITS] = step_limits,   [STEP_DIAL] = step_dial,
	[STEP_CONFIRM] = step_confirm, [STEP_FOREIGN] = step_foreign, [STEP_GRANT] = step_grant,
	[STEP_BEGIN] = step_begin,     [STEP_SEND] = step_send,     [STEP_RELAY] = step_relay,
	[STEP_FINISH] = step_finish,
};

bool exchange_step(struct exchange *x)
{
	bool moved = false;

	while (!x->over) {
		enum result r;

		x->waits_for_room = false;
		if (x->abandoned)
			r = finish_abandoned(x);
		else if (x->refused)
			r = finish_refusal(x);
		else
			r = steps[x->step](x);
		if (r == WAIT)
			return moved;
		moved = true;
		if (r == NEXT)
			x->step++;
	}
	return moved;
}

/* ---- a dead upstream ---- */

static bool may_retry(const struct exchange *x)
{
	if (x->retried || x->first_byte || x->answer_begun || x->bytes_up)
		return false;
	return x->leg.up->ops->unprocessed(&x->leg) || (x->leg.reused && may_be_sent_again(x));
}

void exchange_answer_failed(struct exchange *x, enum refusal_reason reason, const char *why)
{
	if (reason == REFUSAL_connection_terminated && may_retry(x))
		start_again(x);
	else
		exchange_refuse(x, reason, str_of(why));
}

/* ---- the request, as its port reads it ---- */

static void aim(struct exchange *x, const struct request *r)
{
	const char *why = "";
	enum refusal_reason reason = x->env->aim(x->env->wake_arg, r, &why);

	if (reason != REFUSAL_COUNT)
		exchange_refuse(x, reason, str_of(why));
}

void exchange_begin(struct exchange *x, const struct request *r)
{
	x->id = ++*x->env->next_exchange;
	x->request = *r;
	x->request.fields = &x->fields;
	buf_put_str(&x->method, r->method);
	buf_put_str(&x->target, r->target);
	for (size_t i = 0; i < r->fields->n; i++)
		fields_add(&x->fields, fields_name(r->fields, i), fields_value(r->fields, i));
	fields_drop_hop_by_hop(&x->fields);
	fields_remove(&x->fields, STR("content-length"));
	if (!r->expect_continue)
		fields_remove(&x->fields, STR("expect"));
	if (x->env->aim)
		aim(x, r);
	if (x->method.failed || x->target.failed || fields_failed(&x->fields))
		exchange_refuse(x, REFUSAL_headers_too_large, STR_NONE);
}

void exchange_malformed(struct exchange *x, enum refusal_reason reason, const char *why)
{
	if (!x->id)
		x->id = ++*x->env->next_exchange;
	exchange_refuse(x, reason, str_of(why));
}

bool exchange_wants_body(const struct exchange *x)
{
	return x->step == STEP_RELAY && x->head_sent && !x->refused && !x->abandoned &&
	       !x->request_ended && !x->answer_ended && !x->leg.up->ops->full(&x->leg);
}

void exchange_request_body(struct exchange *x, struct str piece)
{
	x->bytes_up += piece.n;
	x->last_moved = clock_ms();
	if (exchange_upload_fits(x))
		x->leg.up->ops->body(&x->leg, piece);
}

void exchange_request_end(struct exchange *x, const struct fields *trailers)
{
	x->request_ended = true;
	if (x->head_sent && x->leg.up && !x->refused)
		x->leg.up->ops->end(&x->leg, trailers);
}

void exchange_abandon(struct exchange *x, const char *how)
{
	if (x->over)
		return;
	x->abandoned = true;
	if (x->leg.up && x->head_sent)
		x->leg.up->ops->abort(&x->leg);
	str_to_z(str_of(how), x->ended, sizeof(x->ended));
}

/* ---- for the owner ---- */

bool exchange_over(const struct exchange *x, bool *clean)
{
	*clean = x->clean;
	return x->over;
}

bool exchange_waits_for_room(const struct exchange *x)
{
	return x->waits_for_room;
}

struct upstream *exchange_upstream(const struct exchange *x)
{
	return x->leg.up;
}

static bool expects(const struct exchange *x)
{
	return x->request.expect_continue && !x->continued && !x->answer_begun &&
	       !x->request_ended && x->bytes_up == 0;
}

/* A stream may stand still for as long as a connection may. But a body of known length is there:
 * who does not send it is broken, or means to hold the origin. */
static uint64_t patience(const struct exchange *x)
{
	uint64_t idle = x->limits.idle_s ? (uint64_t)x->limits.idle_s * 1000 : x->env->w->idle_ms;

	if (x->request.body == BODY_LENGTH && !x->answer_begun && exchange_wants_body(x) &&
	    idle > EXCHANGE_BODY_MS)
		return EXCHANGE_BODY_MS;
	return idle;
}

uint64_t exchange_deadline(const struct exchange *x)
{
	uint64_t at;

	if (x->over || x->refused || x->abandoned)
		return 0;
	if (x->step == STEP_DIAL)
		return x->leg.up ? x->leg.up->deadline : 0;
	if (x->step != STEP_RELAY)
		return 0;
	if (expects(x))
		return x->sent_at + EXCHANGE_EXPECT_MS;
	at = x->last_moved + patience(x);
	return at < exchange_last_moment(x) ? at : exchange_last_moment(x);
}

/* Who was waited for. */
static void refuse_late(struct exchange *x)
{
	enum refusal_reason reason = REFUSAL_response_timeout;
	char why[64];

	if (clock_ms() >= exchange_last_moment(x)) {
		snprintf(why, sizeof(why), "%u seconds in all", x->limits.total_s);
		exchange_refuse(x, REFUSAL_limit_reached, str_of(why));
		return;
	}
	if (!x->answer_begun && exchange_wants_body(x))
		reason = REFUSAL_request_timeout;
	else if (x->env->box->full(x->env->box_port))
		reason = REFUSAL_answer_unread;
	snprintf(why, sizeof(why), "nothing moved for %g s", (double)patience(x) / 1000);
	exchange_refuse(x, reason, str_of(why));
}

void exchange_timeout(struct exchange *x)
{
	struct reply go_on = { .status = 100, .fields = &x->trailers };

	if (x->step == STEP_DIAL && x->leg.up) {
		upstream_timeout(x->leg.up);
	} else if (expects(x)) {
		x->continued = true;
		x->env->box->interim(x->env->box_port, &go_on);
		x->last_moved = clock_ms();
	} else {
		refuse_late(x);
	}
}

/* ---- life ---- */

struct exchange *exchange_new(const struct exchange_env *env)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->env = env;
	x->leg.wake = env->wake;
	x->leg.arg = env->wake_arg;
	x->policy = policy_hold(env->w->policy);
	x->policies = env->w->policies;
	buf_init(&x->method, HTTP1_LINE_MAX);
	buf_init(&x->target, HTTP1_LINE_MAX);
	buf_init(&x->path, HTTP1_LINE_MAX);
	buf_init(&x->query, EXCHANGE_TEXT_MAX);
	buf_init(&x->scrubbed, 2 * STREAM_IN_MAX);
	fields_init(&x->fields, 2 * (size_t)HTTP1_HEADERS_MAX);
	fields_init(&x->edits, HTTP1_HEADERS_MAX);
	fields_init(&x->trailers, HTTP1_HEADERS_MAX);
	x->began = x->last_moved = clock_ms();
	return x;
}

/* All of it can have held a secret: the box's own, or the one that was put on. */
void exchange_free(struct exchange *x)
{
	if (!x)
		return;
	drop_upstream(x);
	limits_give_back(&x->holds);
	scrub_free(x->scrub);
	buf_wipe(&x->method);
	buf_wipe(&x->target);
	buf_wipe(&x->path);
	buf_wipe(&x->query);
	buf_wipe(&x->scrubbed);
	fields_wipe(&x->fields);
	fields_wipe(&x->edits);
	fields_wipe(&x->trailers);
	policy_free(x->policy);
	free(x);
}
