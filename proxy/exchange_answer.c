/* Theory of operation
 *
 * The way back. What came from an origin is passed on without its hop-by-hop fields, without marks
 * that only Exeat's own answers bear (proxy/refusal.h), without Alt-Svc (it would point around the
 * gateway). Where a credential was put on, fields, trailers and body are searched for it
 * (broker/scrub.h); an answer in a coding cannot be searched and is refused.
 */

#include "proxy/clock.h"
#include "proxy/exchange_state.h"

bool exchange_wants_answer(struct exchange *x)
{
	return !x->answer_ended && !x->refused && !x->abandoned && x->head_sent &&
	       !x->env->box->full(x->env->box_port);
}

bool exchange_answers_head(const struct exchange *x)
{
	return str_eq(buf_str(&x->method), STR("HEAD"));
}

static void scrub_fields(struct exchange *x, struct fields *f)
{
	for (size_t i = 0; x->scrub && i < f->n; i++)
		scrub_text(x->scrub, fields_value_mut(f, i), fields_value(f, i).n);
}

static void clean_fields(struct exchange *x, struct fields *f)
{
	fields_drop_hop_by_hop(f);
	fields_remove(f, STR("alt-svc"));
	refusal_strip_marks(f);
	scrub_fields(x, f);
}

/* Can the body be searched as it comes? */
static bool is_plain(const struct reply *a)
{
	struct str coding;

	if (a->body == BODY_NONE || !fields_get(a->fields, STR("content-encoding"), &coding))
		return true;
	return coding.n == 0 || str_eq_nocase(coding, STR("identity"));
}

static void interim(struct exchange *x, struct reply *a)
{
	if (a->status == 100 && x->continued)
		return;
	if (a->status == 100)
		x->continued = true;
	if (x->request.minor == 0)
		return;
	clean_fields(x, a->fields);
	a->reason = STR_NONE;
	x->env->box->interim(x->env->box_port, a);
}

void exchange_answer_head(struct exchange *x, struct reply *a)
{
	char reason[128];
	size_t n = a->reason.n < sizeof(reason) ? a->reason.n : sizeof(reason);

	if (!x->first_byte)
		x->first_byte = clock_ms();
	if (a->status == 101) {
		exchange_refuse(x, REFUSAL_upgrade_unsupported, STR_NONE);
		return;
	}
	if (a->status < 200 && ++x->interims > EXCHANGE_INTERIM_MAX) {
		exchange_refuse(x, REFUSAL_response_malformed, STR("too many interim answers"));
		return;
	}
	if (a->status < 200) {
		interim(x, a);
		return;
	}
	if (a->body == BODY_LENGTH && !exchange_download_fits(x, a->length))
		return;
	if (x->scrub && !is_plain(a)) {
		exchange_refuse(x, REFUSAL_answer_undecodable, STR_NONE);
		return;
	}
	clean_fields(x, a->fields);
	if (n)
		memcpy(reason, a->reason.p, n);
	if (x->scrub)
		scrub_text(x->scrub, reason, n);
	a->reason = str_n(reason, n);
	x->status = a->status;
	x->answer_begun = true;
	x->env->box->head(x->env->box_port, a);
}

void exchange_answer_body(struct exchange *x, struct str piece)
{
	if (!exchange_download_fits(x, x->bytes_down + piece.n))
		return;
	if (!x->scrub) {
		x->bytes_down += piece.n;
		x->env->box->body(x->env->box_port, piece);
		return;
	}
	scrub_feed(x->scrub, piece, &x->scrubbed);
	if (x->scrubbed.failed) {
		exchange_refuse(x, REFUSAL_internal, STR("out of memory"));
		return;
	}
	x->bytes_down += x->scrubbed.n;
	x->env->box->body(x->env->box_port, buf_str(&x->scrubbed));
	x->scrubbed.n = 0;
}

/* What stands in a trailer section may not say how the message is framed, routed or authorised
 * (RFC 9110 6.5.1). */
static void keep_trailers(struct exchange *x, const struct fields *trailers)
{
	for (size_t i = 0; i < trailers->n; i++)
		fields_add(&x->trailers, fields_name(trailers, i), fields_value(trailers, i));
	clean_fields(x, &x->trailers);
	fields_remove(&x->trailers, STR("content-length"));
	fields_remove(&x->trailers, STR("content-encoding"));
}

void exchange_answer_end(struct exchange *x, const struct fields *trailers)
{
	if (x->refused)
		return;
	if (x->scrub) {
		scrub_finish(x->scrub, &x->scrubbed);
		x->bytes_down += x->scrubbed.n;
		x->env->box->body(x->env->box_port, buf_str(&x->scrubbed));
		x->scrubbed.n = 0;
	}
	if (trailers)
		keep_trailers(x, trailers);
	if (x->scrubbed.failed || fields_failed(&x->trailers))
		exchange_refuse(x, REFUSAL_internal, STR("out of memory"));
	x->answer_ended = true;
}
