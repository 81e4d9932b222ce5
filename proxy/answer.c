#include "proxy/answer.h"

#define ANSWER_FIELDS_MAX 8192
#define ANSWER_BODY_MAX 65536

void answer_refusal(struct exchange *x)
{
	const struct exchange_env *env = x->env;
	struct fields fields;
	struct buf body, phrase;
	struct reply a = { .status = refusal_status(x->refusal.reason), .fields = &fields };
	bool head_only = str_eq(buf_str(&x->method), STR("HEAD"));

	fields_init(&fields, ANSWER_FIELDS_MAX);
	buf_init(&body, ANSWER_BODY_MAX);
	buf_init(&phrase, REFUSAL_PHRASE_MAX);
	refusal_answer(&x->refusal, &fields, &body);
	refusal_phrase(&x->refusal, &phrase);
	a.reason = buf_str(&phrase);
	x->status = a.status;
	if (body.failed || phrase.failed || fields_failed(&fields)) {
		env->box->abort(env->box_port);
	} else {
		a.body = head_only ? BODY_NONE : BODY_LENGTH;
		a.length = body.n;
		env->box->head(env->box_port, &a);
		if (!head_only)
			env->box->body(env->box_port, buf_str(&body));
		env->box->end(env->box_port, NULL);
	}
	fields_free(&fields);
	buf_free(&body);
	buf_free(&phrase);
}
