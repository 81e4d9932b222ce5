#include <stdio.h>

#include "proxy/audit.h"
#include "proxy/clock.h"
#include "proxy/connection.h"

static const char *protocol(const struct connection *c)
{
	switch (c->env.site.proto) {
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

static void put_connection(struct record *r, const struct connection *c, const char *phase)
{
	char text[ADDR_TEXT_MAX];

	record_str(r, REC_phase, str_of(phase));
	record_u64(r, REC_connection, c->id);
	record_str(r, REC_destination, c->env.site.name);
	if (c->destination.family)
		record_str(r, c->env.site.literal ? REC_address : REC_synthetic,
			   str_of(addr_format(&c->destination, text)));
	record_u64(r, REC_port, c->env.site.port);
	record_str(r, REC_protocol, str_of(protocol(c)));
	record_str(r, REC_sni, str_n(c->hello.sni, c->hello.sni_n));
}

static void put_verdict(struct record *r, const struct connection *c)
{
	bool by_rule = !c->refused || c->refusal.reason == REFUSAL_policy;

	if (by_rule && c->env.site.name.n) {
		audit_decision(r, c->w->policy, c->decision);
	} else if (c->refused) {
		record_str(r, REC_verdict, STR("deny"));
		record_str(r, REC_reason, str_of(c->ended));
	}
	if (c->refused)
		record_str(r, REC_refusal, str_of(c->refusal.id));
}

bool connection_record_open(struct connection *c, bool *denied)
{
	struct record r;
	enum err e;

	*denied = false;
	if (c->open_recorded)
		return true;
	record_begin(&r, RECORD_connection);
	put_connection(&r, c, "open");
	put_verdict(&r, c);
	e = audit_commit(c->w, &r);
	*denied = e && e != ERR_FULL;
	c->open_recorded = e == OK;
	return e != ERR_FULL;
}

bool connection_record_close(struct connection *c)
{
	char text[ADDR_TEXT_MAX];
	struct record r;
	enum err e;

	record_begin(&r, RECORD_connection);
	put_connection(&r, c, "close");
	put_verdict(&r, c);
	if (c->dialled.family && !c->env.site.literal)
		record_str(&r, REC_address, str_of(addr_format(&c->dialled, text)));
	record_str(&r, REC_upstream_cert, str_of(c->cert));
	record_str(&r, REC_tls, str_of(c->tls));
	record_str(&r, REC_alpn, str_of(c->alpn));
	record_u64(&r, REC_bytes_up, c->bytes_up);
	record_u64(&r, REC_bytes_down, c->bytes_down);
	record_u64(&r, REC_ms_tls, c->ms_tls);
	record_u64(&r, REC_ms, clock_ms() - c->opened);
	record_str(&r, REC_ended, str_of(c->ended));
	e = audit_commit_end(c->w, &r, c->open_recorded);
	c->close_recorded = e != ERR_FULL;
	return c->close_recorded;
}
