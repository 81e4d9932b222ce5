#include "proxy/grant.h"

#include "policy/path.h"

struct str ticket_destination(const struct ticket *k, char room[ADDR_TEXT_MAX])
{
	return k->literal ? str_of(addr_format(&k->addr, room)) : name_str(&k->host);
}

static void refuse(struct grant *g, enum grant_status status, const char *why)
{
	g->status = status;
	g->why = why;
}

/* Where paths count, the worker's has to be the one reading of itself, as it was decided on. */
static bool path_is_normal(const struct policy *policy, struct str host, struct str path)
{
	struct buf again;
	const char *why;
	bool ok;

	if (!policy_has_paths(policy, host))
		return true;
	buf_init(&again, MSG_URL_PATH_MAX);
	ok = path_normalise(path, &again, &why) == PATH_OK && str_eq(buf_str(&again), path);
	buf_free(&again);
	return ok;
}

static bool read_facts(const struct msg_grant *m, const struct ticket *k, struct facts *out)
{
	if (m->proto != PROTO_HTTPS && m->proto != PROTO_HTTP)
		return false;
	*out = (struct facts){ .literal = k->literal, .addr = k->addr, .port = k->port,
			       .proto = m->proto, .method = m->method, .path = m->path };
	if (!k->literal)
		out->host = name_str(&k->host);
	return m->method.n && m->path.n;
}

/* The rule's credential: its bounds, then its value. */
static void take_credential(const struct grant_ground *ground, const struct msg_grant *m,
			    struct rule_ref ref, struct grant *g)
{
	char room[ADDR_TEXT_MAX];
	struct str host = ticket_destination(g->ticket, room);
	const struct table_secret *secret;

	g->credential = policy_credential(ground->policy, ref.image, g->rule.credential);
	if (!policy_credential_bound(ground->policy, ref.image, g->rule.credential, host)) {
		refuse(g, GRANT_DENIED, "the policy does not bind the credential to this host");
		return;
	}
	secret = secret_table_find(ground->secrets, g->credential.secret);
	if (!secret) {
		refuse(g, GRANT_UNAVAILABLE, "the settings declare no such secret");
		return;
	}
	g->source = table_secret_source(secret);
	if (!table_secret_may_go_to(secret, host)) {
		refuse(g, GRANT_DENIED, "the settings do not let the secret go to this host");
		return;
	}
	if (m->proto == PROTO_HTTP && !g->rule.plaintext) {
		refuse(g, GRANT_PLAINTEXT, "over plain HTTP, and the rule does not say plaintext");
		return;
	}
	g->value = table_secret_value(secret);
	if (g->value)
		g->status = GRANT_OK;
	else
		refuse(g, GRANT_UNAVAILABLE, "the secret has no usable value");
}

/* Would the same rule allow it, whatever its method and path? */
static bool whatever_is_asked(const struct policy *policy, const struct facts *f,
			      const struct decision *d)
{
	struct facts less = *f;
	struct decision again;

	less.method = less.path = STR_NONE;
	again = policy_decide(policy, &less);
	return again.verdict == VERDICT_ALLOW && again.rule.image == d->rule.image &&
	       again.rule.rule == d->rule.rule;
}

void grant_decide(const struct grant_ground *ground, const struct msg_grant *m, struct grant *out)
{
	struct decision d;
	struct facts f;

	*out = (struct grant){ .ticket = tickets_find(ground->tickets, m->ticket) };
	if (!out->ticket) {
		refuse(out, GRANT_NO_TICKET, "no such live connection");
		return;
	}
	if (!read_facts(m, out->ticket, &f)) {
		refuse(out, GRANT_DENIED, "no HTTP request");
		return;
	}
	if (!path_is_normal(ground->policy, f.host, f.path)) {
		refuse(out, GRANT_DENIED, "the path is not in its normal form");
		return;
	}
	d = policy_decide(ground->policy, &f);
	out->rule = policy_rule(ground->policy, d.rule);
	if (d.verdict != VERDICT_ALLOW)
		refuse(out, GRANT_DENIED, "the policy does not allow the request");
	else if (out->rule.credential == NO_CREDENTIAL)
		out->status = GRANT_NONE;
	else
		take_credential(ground, m, d.rule, out);
	out->lasts = out->status == GRANT_OK && whatever_is_asked(ground->policy, &f, &d);
}
