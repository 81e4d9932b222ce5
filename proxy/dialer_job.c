#include "proxy/dialer_state.h"

#include <stdlib.h>

#include "conf/buf.h"
#include "proxy/dial.h"

/* ---- jobs ---- */

struct job *dialer_job_new(struct box *b, bool dials, uint32_t id)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->box = b;
	j->dials = dials;
	j->id = id;
	j->next = b->jobs;
	j->prev = &b->jobs;
	if (j->next)
		j->next->prev = &j->next;
	b->jobs = j;
	*(dials ? &b->dials : &b->resolves) += 1;
	b->dialer->dials += dials;
	return j;
}

void dialer_job_free(struct job *j)
{
	resolver_cancel(j->wait);
	dial_cancel(j->dial);
	*j->prev = j->next;
	if (j->next)
		j->next->prev = j->prev;
	*(j->dials ? &j->box->dials : &j->box->resolves) -= 1;
	j->box->dialer->dials -= j->dials;
	free(j);
}

/* ---- RESOLVE ---- */

size_t dialer_job_vet(const struct box *b, const struct facts *f, const struct resolver_answer *a,
		       struct addr *out, size_t max, struct buf *why)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n && n < max; i++) {
		const char *objection =
			dialer_objection(&b->dialer->ranges, b->policy, f, &a->addrs[i]);
		char text[ADDR_TEXT_MAX];

		if (!objection)
			out[n++] = a->addrs[i];
		else if (why->n == 0)
			buf_printf(why, "%s: %s", addr_format(&a->addrs[i], text), objection);
	}
	return n;
}

static void answer_resolve(struct box *b, uint32_t id, enum resolve_status status)
{
	struct msg_resolved m = { .id = id, .status = (uint8_t)status };

	dialer_tell_worker(b, MSG_RESOLVED, &m, NULL, 0);
}

static void finish_resolve(struct box *b, uint32_t id, struct str name,
			   const struct resolver_answer *a)
{
	const struct facts f = { .host = name };
	struct msg_resolved m = { .id = id, .status = (uint8_t)a->status, .cached = a->cached,
				  .ttl = a->ttl, .ms = a->ms, .server = str_of(a->server) };
	struct addr good[MSG_ADDRS_MAX];
	char packed[MSG_ADDRS_MAX * ADDR_PACKED];
	struct buf why;
	size_t n;

	buf_init(&why, JOB_WHY_MAX);
	n = dialer_job_vet(b, &f, a, good, MSG_ADDRS_MAX, &why);
	for (size_t i = 0; i < n; i++)
		addr_pack(&good[i], packed + i * ADDR_PACKED);
	m.addrs = str_n(packed, n * ADDR_PACKED);
	if (a->status == RESOLVE_OK && n == 0) {
		m.status = RESOLVE_PROHIBITED;
		m.why = buf_str(&why);
	}
	dialer_tell_worker(b, MSG_RESOLVED, &m, NULL, 0);
	buf_free(&why);
}

static bool is_denied(const struct box *b, struct str name)
{
	const struct facts f = { .host = name };

	return policy_decide(b->policy, &f).verdict == VERDICT_DENY;
}

/* The policy may be another than the one that the question began with. */
static void on_resolved(void *arg, const struct resolver_answer *a)
{
	struct job *j = arg;
	struct box *b = j->box;
	struct name name = j->name;
	uint32_t id = j->id;

	j->wait = NULL;
	dialer_job_free(j);
	if (is_denied(b, name_str(&name)))
		answer_resolve(b, id, RESOLVE_DENIED);
	else
		finish_resolve(b, id, name_str(&name), a);
}

bool dialer_job_take_name(struct str text, struct name *out)
{
	return name_canon(text, out) == NAME_OK && str_eq(name_str(out), text);
}

void dialer_on_resolve(struct box *b, const struct msg_resolve *m)
{
	const struct resolver_answer *known;
	struct name name;
	struct job *j;

	if (!dialer_job_take_name(m->name, &name) || is_denied(b, m->name)) {
		answer_resolve(b, m->id, RESOLVE_DENIED);
		return;
	}
	known = resolver_known(b->dialer->resolver, m->name);
	if (known) {
		finish_resolve(b, m->id, m->name, known);
		return;
	}
	j = b->resolves < DIALER_RESOLVES_MAX ? dialer_job_new(b, false, m->id) : NULL;
	if (j) {
		j->name = name;
		j->wait = resolver_ask(b->dialer->resolver, m->name, on_resolved, j);
		if (j->wait)
			return;
		dialer_job_free(j);
	}
	answer_resolve(b, m->id, RESOLVE_QUOTA);
}
