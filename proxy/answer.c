#include "proxy/answer.h"

#define ANSWER_FIELDS_MAX 8192
#define ANSWER_BODY_MAX 65536

bool answer_make(const struct refusal *r, struct answer_parts *out)
{
	fields_init(&out->fields, ANSWER_FIELDS_MAX);
	buf_init(&out->body, ANSWER_BODY_MAX);
	buf_init(&out->phrase, REFUSAL_PHRASE_MAX);
	refusal_answer(r, &out->fields, &out->body);
	refusal_phrase(r, &out->phrase);
	return !out->body.failed && !out->phrase.failed && !fields_failed(&out->fields);
}

void answer_free(struct answer_parts *parts)
{
	fields_free(&parts->fields);
	buf_free(&parts->body);
	buf_free(&parts->phrase);
}

static bool is_grpc(const struct exchange *x)
{
	struct str type;

	return fields_get(&x->fields, STR("content-type"), &type) && type.n >= 16 &&
	       str_eq_nocase(str_n(type.p, 16), STR("application/grpc"));
}

/* A gRPC client reads its own status, not HTTP's: an answer that is a head alone. */
static void answer_grpc(struct exchange *x)
{
	const struct exchange_env *env = x->env;
	struct fields fields;
	struct reply a = { .status = 200, .fields = &fields, .body = BODY_LENGTH };

	fields_init(&fields, ANSWER_FIELDS_MAX);
	refusal_grpc(&x->refusal, &fields);
	x->status = a.status;
	if (fields_failed(&fields)) {
		env->box->abort(env->box_port);
	} else {
		env->box->head(env->box_port, &a);
		env->box->end(env->box_port, NULL);
	}
	fields_free(&fields);
}

void answer_refusal(struct exchange *x)
{
	const struct exchange_env *env = x->env;
	struct answer_parts parts;
	struct reply a = { .status = refusal_status(x->refusal.reason), .fields = &parts.fields };
	bool head_only = str_eq(buf_str(&x->method), STR("HEAD"));

	if (is_grpc(x)) {
		answer_grpc(x);
		return;
	}
	x->status = a.status;
	if (!answer_make(&x->refusal, &parts)) {
		env->box->abort(env->box_port);
	} else {
		a.reason = buf_str(&parts.phrase);
		a.body = head_only ? BODY_NONE : BODY_LENGTH;
		a.length = parts.body.n;
		env->box->head(env->box_port, &a);
		if (!head_only)
			env->box->body(env->box_port, buf_str(&parts.body));
		env->box->end(env->box_port, NULL);
	}
	answer_free(&parts);
}
