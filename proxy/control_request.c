/* Theory of operation
 *
 * A head is judged as soon as it is there (judge()), in the order in which what is asked matters
 * less and less: can it be understood, may this user ask anything, is there such a thing, may it be
 * asked by this user, may its body come. A body is read only after all of that, and what is in it
 * only when all of it has come: so every error in it is told at once.
 */
#include "proxy/control_state.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/json.h"

#define ALLOW_MAX 64
#define DETAIL_MAX 10240	/* a policy's diagnostics, too */
#define PROBLEM_MAX (128u << 10)
#define METHOD_SHOWN 32

/* ---- answers ---- */

struct answer {
	unsigned status;
	const char *type;
	struct str body, allow;
	bool close;
};

static void answer_write(struct buf *out, const struct answer *a)
{
	struct fields fields;
	char length[24];

	fields_init(&fields, CONTROL_HEAD_MAX);
	snprintf(length, sizeof(length), "%zu", a->body.n);
	fields_add(&fields, STR("content-type"), str_of(a->type));
	fields_add(&fields, STR("content-length"), str_of(length));
	fields_add(&fields, STR("cache-control"), STR("no-store"));
	if (a->allow.n)
		fields_add(&fields, STR("allow"), a->allow);
	if (a->status == 503)
		fields_add(&fields, STR("retry-after"), STR("1"));
	if (a->close)
		fields_add(&fields, STR("connection"), STR("close"));
	http1_write_response(out, a->status, str_of(http1_reason(a->status)), &fields);
	buf_put_str(out, a->body);
	fields_free(&fields);
}

static void problem_json(struct buf *out, unsigned status, struct str why,
			 const struct control_errors *errors)
{
	struct json j;

	json_init(&j, out);
	json_object(&j);
	json_put_str(&j, "title", str_of(http1_reason(status)));
	json_put_u64(&j, "status", status);
	json_put_str(&j, "detail", why);
	if (errors && errors->n) {
		json_key(&j, "errors");
		json_array(&j);
		for (size_t i = 0; i < errors->n; i++) {
			json_object(&j);
			json_put_str(&j, "at", str_of(errors->items[i].at));
			json_put_str(&j, "detail", str_of(errors->items[i].text));
			json_object_end(&j);
		}
		json_array_end(&j);
	}
	json_object_end(&j);
}

void problem_write(struct buf *out, unsigned status, const char *why)
{
	struct answer a = { .status = status, .type = "application/problem+json", .close = true };
	struct buf body;

	buf_init(&body, PROBLEM_MAX);
	problem_json(&body, status, str_of(why), NULL);
	a.body = buf_str(&body);
	answer_write(out, &a);
	out->failed |= body.failed;
	buf_free(&body);
}

/* ---- requests ---- */

void request_free(struct control_request *rq)
{
	if (!rq)
		return;
	json_decref(rq->body);
	arena_free(&rq->arena);
	free(rq);
}

/* NULL: out of memory. */
static struct control_request *request_new(struct client *cl, struct str method, struct str path)
{
	struct control_request *rq = calloc(1, sizeof(*rq));

	if (!rq)
		return NULL;
	rq->client = cl;
	rq->peer = cl->peer;
	rq->method = arena_copy(&rq->arena, method);
	rq->path = arena_copy(&rq->arena, path);
	if (rq->arena.failed) {
		request_free(rq);
		return NULL;
	}
	cl->rq = rq;
	return rq;
}

struct control_peer control_peer(const struct control_request *rq)
{
	return rq->peer;
}

void control_about(struct control_request *rq, struct str sandbox)
{
	rq->about = arena_copy(&rq->arena, sandbox);
}

void control_on_gone(struct control_request *rq, void (*gone)(void *arg), void *arg)
{
	rq->gone = gone;
	rq->gone_arg = arg;
}

/* The end of every request. @problem is empty where it was not refused. */
static void finish(struct control_request *rq, struct answer *a, struct str problem)
{
	const struct control_done done = { .peer = rq->peer, .method = rq->method,
					   .path = rq->path, .about = rq->about,
					   .status = a->status, .problem = problem };
	struct client *cl = rq->client;

	if (cl) {
		const struct control_config *config = &cl->control->config;

		config->on_done(config->arg, &done);
		cl->rq = NULL;
		cl->keep = cl->keep && cl->whole && !cl->ended;
		a->close = !cl->keep;
		answer_write(&cl->out, a);
		if (cl->out.failed) {	/* no memory: it sees the end alone */
			buf_free(&cl->out);
			buf_init(&cl->out, CONTROL_HEAD_MAX);
			cl->keep = false;
		}
		client_send(cl);
	}
	request_free(rq);
}

void control_answer(struct control_request *rq, unsigned status, struct str json)
{
	struct answer a = { .status = status, .type = "application/json", .body = json };

	if (json.n > CONTROL_ANSWER_MAX)
		control_refuse(rq, 500, "the answer has %zu bytes, and may have %u", json.n, CONTROL_ANSWER_MAX);
	else
		finish(rq, &a, STR_NONE);
}

struct refusal_text {
	struct str why, allow;
	const struct control_errors *errors;
};

static void refuse(struct control_request *rq, unsigned status, const struct refusal_text *text)
{
	struct answer a = { .status = status, .type = "application/problem+json", .allow = text->allow };
	struct buf body;

	buf_init(&body, PROBLEM_MAX);
	problem_json(&body, status, text->why, text->errors);
	a.body = buf_str(&body);
	finish(rq, &a, text->why);
	buf_free(&body);
}

void control_refuse(struct control_request *rq, unsigned status, const char *fmt, ...)
{
	struct refusal_text text = { 0 };
	char room[DETAIL_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(room, sizeof(room), fmt, ap);
	va_end(ap);
	text.why = str_of(room);
	refuse(rq, status, &text);
}

void client_refuse(struct client *cl, unsigned status, const char *why)
{
	struct control_request *rq = cl->rq ? cl->rq : request_new(cl, STR_NONE, STR_NONE);

	cl->keep = false;
	if (rq)
		control_refuse(rq, status, "%s", why);
	else
		client_send(cl);	/* without memory for words: it is closed */
}

/* ---- heads ---- */

/* "application/json", whatever parameters follow. */
static bool is_json(struct str type)
{
	return str_eq_nocase(str_trim(str_cut(&type, ';')), STR("application/json"));
}

static bool judge_body(struct control_request *rq, const struct http1_head *head)
{
	struct str type = STR_NONE;

	if (head->framing == H1_CHUNKED) {
		control_refuse(rq, 411, "a chunked body is not taken: send it with its content-length");
		return false;
	}
	if (head->length > CONTROL_BODY_MAX) {
		control_refuse(rq, 413, "a body may have %u bytes, not %" PRIu64, CONTROL_BODY_MAX,
			       head->length);
		return false;
	}
	fields_get(head->fields, STR("content-type"), &type);
	if (head->length > 0 && !is_json(type)) {
		control_refuse(rq, 415, "a body is JSON: send content-type: application/json");
		return false;
	}
	return true;
}

/* There is nothing at the path, or not for this method. */
static void refuse_route(struct control_request *rq, enum control_found found, struct str allow)
{
	const struct control_route *routes = rq->client->control->config.routes;
	struct refusal_text text = { 0 };
	struct str method = rq->method;
	struct buf why;
	const char *before = "";

	buf_init(&why, DETAIL_MAX);
	if (found == CONTROL_BAD_TARGET) {
		buf_put_str(&why, STR("the path cannot be read: percent-encode it, as UTF-8 without controls"));
	} else if (found == CONTROL_NO_METHOD) {
		if (method.n > METHOD_SHOWN)
			method.n = METHOD_SHOWN;
		buf_printf(&why, "%.*s is not for this path: it takes %.*s", STR_ARG(method), STR_ARG(allow));
		text.allow = allow;
	} else {
		buf_put_str(&why, STR("there is nothing at this path: there are "));
		for (; routes->method; routes++) {
			if (strcmp(before, routes->pattern) != 0)
				buf_printf(&why, "%s%s", *before ? ", " : "", routes->pattern);
			before = routes->pattern;
		}
	}
	text.why = buf_str(&why);
	refuse(rq, found == CONTROL_NO_PATH ? 404 : found == CONTROL_NO_METHOD ? 405 : 400, &text);
	buf_free(&why);
}

static bool judge_route(struct control_request *rq, struct str query)
{
	const struct control_route *routes = rq->client->control->config.routes;
	struct buf allow;
	enum control_found found;
	const char *why;

	buf_init(&allow, ALLOW_MAX);
	found = control_route_find(routes, rq->method, rq->path, &rq->arena, &rq->route,
				   &rq->values, &allow);
	if (found != CONTROL_FOUND)
		refuse_route(rq, found, buf_str(&allow));
	buf_free(&allow);
	if (found != CONTROL_FOUND)
		return false;
	if (rq->route->root_only && rq->peer.uid != 0) {
		control_refuse(rq, 403, "%s %s is for root alone: you are user %u: use sudo",
			       rq->route->method, rq->route->pattern, (unsigned)rq->peer.uid);
		return false;
	}
	if (control_query_split(query, &rq->arena, &rq->query, &why))
		return true;
	control_refuse(rq, 400, "%s", why);
	return false;
}

/* False: it has been refused. */
static bool judge(struct client *cl, const struct http1_head *head)
{
	struct http1_target target = http1_split_target(head->method, head->target);
	struct str path = target.form == TARGET_ORIGIN ? target.path : STR_NONE;
	struct control_request *rq = request_new(cl, head->method, path);

	if (!rq) {
		client_refuse(cl, 503, "out of memory");
		return false;
	}
	if (head->target.n > CONTROL_TARGET_MAX) {
		control_refuse(rq, 414, "a target may have %u bytes, not %zu", CONTROL_TARGET_MAX,
			       head->target.n);
		return false;
	}
	if (target.form != TARGET_ORIGIN) {
		control_refuse(rq, 400, "the target of a request is a path: write GET /v1/status");
		return false;
	}
	if (!cl->permitted) {
		control_refuse(rq, 403, "user %u may not control this appliance: it is for root and the members "
			       "of the group that its settings name as control.group", (unsigned)rq->peer.uid);
		return false;
	}
	return judge_route(rq, target.query.n ? str_from(target.query, 1) : STR_NONE) &&
	       judge_body(rq, head);
}

static void take_head(struct client *cl)
{
	const struct http1_head *head = http1_head(cl->parser);

	cl->whole = head->framing == H1_NO_BODY ||
		    (head->framing == H1_LENGTH && head->length == 0);
	cl->keep = head->keep_alive && head->minor == 1;
	if (!judge(cl, head))
		return;
	client_enter(cl, CLIENT_BODY);
	if (head->expect_continue && !cl->whole)
		buf_put_str(&cl->out, STR("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* ---- whole requests ---- */

static void refuse_fields(struct control_request *rq, const struct control_errors *errors)
{
	const struct control_error *e = &errors->items[0];
	size_t more = errors->n + errors->dropped - 1;
	struct refusal_text r = { .errors = errors };
	struct buf why;

	buf_init(&why, DETAIL_MAX);
	buf_printf(&why, "%s %s", e->at, e->text);
	if (more)
		buf_printf(&why, "; and %zu more", more);
	r.why = buf_str(&why);
	refuse(rq, errors->denied ? 403 : 400, &r);
	buf_free(&why);
}

static void call_handler(struct client *cl, struct control_request *rq)
{
	const struct control_given given = { .path = &rq->values, .query = &rq->query,
					     .body = rq->body, .root = rq->peer.uid == 0 };
	const struct control_route *route = rq->route;
	const char *wrong = NULL;
	struct control_errors *errors = calloc(1, sizeof(*errors));
	void *args = arena_take(&rq->arena, 1, route->args_size ? route->args_size : 1);

	if (!errors || !args) {
		control_refuse(rq, 503, "out of memory");
		free(errors);
		return;
	}
	control_fields_read(route->fields, &given, &rq->arena, args, errors);
	if (!errors->n && route->check)
		wrong = route->check(args);
	if (errors->n) {
		refuse_fields(rq, errors);
	} else if (wrong) {
		control_refuse(rq, 400, "%s", wrong);
	} else {
		client_enter(cl, CLIENT_WAITS);
		route->handler(rq, args, cl->control->config.arg);
	}
	free(errors);
}

static void take_request(struct client *cl)
{
	struct control_request *rq = cl->rq;
	char why[CONTROL_WHY_MAX];

	cl->whole = true;
	if (cl->body.failed)
		control_refuse(rq, 503, "out of memory");
	else if (cl->body.n && !control_body_parse(buf_str(&cl->body), &rq->body, why))
		control_refuse(rq, 400, "%s", why);
	else
		call_handler(cl, rq);
}

static bool reads(const struct client *cl)
{
	return cl->state == CLIENT_IDLE || cl->state == CLIENT_HEAD || cl->state == CLIENT_BODY;
}

static void take_event(struct client *cl, enum http1_event e)
{
	switch (e) {
	case H1_MORE:
		if (cl->state == CLIENT_IDLE && http1_begun(cl->parser))
			client_enter(cl, CLIENT_HEAD);
		break;
	case H1_HEAD:
		take_head(cl);
		break;
	case H1_BODY:
		buf_put_str(&cl->body, http1_body(cl->parser));
		break;
	case H1_TRAILERS:	/* of chunked bodies, which are not taken */
		break;
	case H1_END:
		take_request(cl);
		break;
	case H1_ERROR:
		client_refuse(cl, http1_status(cl->parser), http1_error(cl->parser));
		break;
	}
}

void client_process(struct client *cl)
{
	enum http1_event e = H1_HEAD;

	while (reads(cl) && e != H1_MORE) {
		struct str in = buf_str(&cl->in);
		size_t before = in.n;

		e = http1_read(cl->parser, &in);
		take_event(cl, e);
		buf_drop(&cl->in, before - in.n);
	}
}
