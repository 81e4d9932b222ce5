/* Theory of operation
 *
 * A query is read once, front to back, by a cursor that cannot leave the packet. The question's
 * name has to stand there in full: a compression pointer in it could only point into the header
 * (RFC 1035 4.1.4), so it is malformed, and no pointer is ever followed anywhere. Further records
 * are stepped over; the one that is looked into is OPT (RFC 6891 6.1).
 *
 * An answer has at most one record of data, the SOA that makes a negative answer cacheable (RFC
 * 2308 3), and OPT with one Extended DNS Error (RFC 8914). The SOA's owner is the root, which is
 * above every name there is. What does not fit loses first the error's text, then everything but
 * the question, with TC set.
 */
#include "proxy/dns_msg.h"

#include <stdio.h>

#include "policy/name.h"

#define WIRE_NAME_MAX 255
#define CLASS_IN 1
#define FLAG_QR 0x8000u
#define FLAG_TC 0x0200u
#define FLAG_RD 0x0100u
#define FLAG_RA 0x0080u
#define FLAG_CD 0x0010u
#define OPTION_EDE 15
#define EDE_TEXT_MAX 256
#define ANSWER_MAX 1024		/* question, one record, SOA, OPT: each at its longest */
#define QUESTION_AT 0xc00cu	/* a pointer to the question's name */

/* ---- reading ---- */

struct cursor {
	const uint8_t *p;
	size_t n, at;
	bool bad;
};

static unsigned get(struct cursor *c, size_t bytes)
{
	unsigned v = 0;

	if (c->bad || c->n - c->at < bytes) {
		c->bad = true;
		return 0;
	}
	while (bytes--)
		v = v << 8 | c->p[c->at++];
	return v;
}

static void skip(struct cursor *c, size_t bytes)
{
	if (c->bad || c->n - c->at < bytes)
		c->bad = true;
	else
		c->at += bytes;
}

/* A name that is of no interest; it may end in a pointer, which is not followed. */
static bool skip_name(struct cursor *c)
{
	size_t start = c->at;

	for (;;) {
		unsigned len = get(c, 1);

		if (c->bad || c->at - start > WIRE_NAME_MAX)
			return false;
		if (len == 0)
			return true;
		if (len >= 0xc0) {
			skip(c, 1);
			return !c->bad;
		}
		if (len > NAME_LABEL_MAX)
			return false;
		skip(c, len);
	}
}

struct name_text {
	char plain[WIRE_NAME_MAX + 1];	/* labels joined by dots */
	size_t n;
	bool dotted;			/* a label has a dot of its own: no text says it */
	char *shown;
	size_t shown_n, shown_max;
};

static void show(struct name_text *t, uint8_t byte)
{
	size_t room = t->shown_max - t->shown_n;
	int n;

	if (byte == '.' || byte == '\\')
		n = snprintf(t->shown + t->shown_n, room, "\\%c", byte);
	else if (byte > ' ' && byte < 0x7f)
		n = snprintf(t->shown + t->shown_n, room, "%c", byte);
	else
		n = snprintf(t->shown + t->shown_n, room, "\\%03u", byte);
	if (n > 0 && (size_t)n < room)
		t->shown_n += (size_t)n;
}

static void add_label(struct name_text *t, const uint8_t *label, size_t n)
{
	if (t->n) {
		t->plain[t->n++] = '.';
		snprintf(t->shown + t->shown_n, t->shown_max - t->shown_n, ".");
		t->shown_n++;
	}
	for (size_t i = 0; i < n; i++) {
		t->plain[t->n++] = (char)label[i];
		t->dotted |= label[i] == '.';
		show(t, label[i]);
	}
}

static bool get_name(struct cursor *c, struct name_text *t)
{
	size_t start = c->at;

	for (;;) {
		unsigned len = get(c, 1);

		if (c->bad || len > NAME_LABEL_MAX || c->at - start + len > WIRE_NAME_MAX)
			return false;
		if (len == 0)
			return true;
		if (c->n - c->at < len)
			return false;
		add_label(t, c->p + c->at, len);
		skip(c, len);
	}
}

static bool get_question(struct cursor *c, struct dns_query *q)
{
	struct name_text t = { .shown = q->shown, .shown_max = sizeof(q->shown) };
	size_t start = c->at;

	if (!get_name(c, &t))
		return false;
	q->type = (uint16_t)get(c, 2);
	q->class = (uint16_t)get(c, 2);
	if (c->bad)
		return false;
	if (t.n == 0)
		snprintf(q->shown, sizeof(q->shown), ".");
	q->question_n = (uint16_t)(c->at - start);
	memcpy(q->question, c->p + start, q->question_n);
	q->name_ok = t.n && !t.dotted && name_canon(str_n(t.plain, t.n), &q->name) == NAME_OK;
	return true;
}

/* The options of OPT: codes and lengths that fill its data exactly. */
static bool options_hold(struct cursor *c, size_t n)
{
	size_t end = c->at + n;

	while (!c->bad && c->at < end) {
		skip(c, 2);
		skip(c, get(c, 2));
	}
	return !c->bad && c->at == end;
}

/* One record behind the question. */
static bool get_record(struct cursor *c, struct dns_query *q, enum dns_rcode *rcode)
{
	size_t owner = c->at;
	unsigned type, class, ttl, n;

	if (!skip_name(c))
		return false;
	type = get(c, 2);
	class = get(c, 2);
	ttl = get(c, 4);
	n = get(c, 2);
	if (c->bad || c->n - c->at < n)
		return false;
	if (type != DNS_OPT) {
		skip(c, n);
		return true;
	}
	if (q->edns || c->p[owner] != 0)
		return false;
	q->edns = true;
	q->udp_size = (uint16_t)(class < DNS_UDP_PLAIN ? DNS_UDP_PLAIN :
				 class > DNS_UDP_MAX ? DNS_UDP_MAX : class);
	if ((ttl >> 16 & 0xff) != 0)
		*rcode = DNS_BADVERS;
	return options_hold(c, n);
}

static enum dns_parse_result refuse(enum dns_rcode *rcode, enum dns_rcode with)
{
	*rcode = with;
	return DNS_ANSWER_ERROR;
}

static bool get_records(struct cursor *c, unsigned n, struct dns_query *q, enum dns_rcode *rcode)
{
	while (n--)
		if (!get_record(c, q, rcode))
			return false;
	return c->at == c->n;
}

enum dns_parse_result dns_parse(struct str packet, struct dns_query *q, enum dns_rcode *rcode)
{
	struct cursor c = { .p = (const uint8_t *)packet.p, .n = packet.n };
	unsigned flags, questions, records;

	memset(q, 0, sizeof(*q));
	q->udp_size = DNS_UDP_PLAIN;
	*rcode = DNS_NOERROR;
	q->id = (uint16_t)get(&c, 2);
	flags = get(&c, 2);
	questions = get(&c, 2);
	records = get(&c, 2);
	records += get(&c, 2);
	records += get(&c, 2);
	if (c.bad || (flags & FLAG_QR))
		return DNS_IGNORE;
	q->opcode = (uint8_t)(flags >> 11 & 15);
	q->rd = flags & FLAG_RD;
	q->cd = flags & FLAG_CD;
	if (q->opcode != 0)
		return refuse(rcode, DNS_NOTIMP);
	if (questions != 1 || (flags & FLAG_TC) || !get_question(&c, q))
		return refuse(rcode, DNS_FORMERR);
	if (!get_records(&c, records, q, rcode))
		return refuse(rcode, DNS_FORMERR);
	if (*rcode != DNS_NOERROR)
		return DNS_ANSWER_ERROR;
	if (q->class != CLASS_IN)
		return refuse(rcode, DNS_REFUSED);
	return DNS_QUERY;
}

/* ---- writing ---- */

struct writer {
	uint8_t p[ANSWER_MAX];
	size_t n;
};

static void put(struct writer *w, size_t bytes, uint32_t v)
{
	if (ANSWER_MAX - w->n < bytes)
		return;
	while (bytes--)
		w->p[w->n++] = (uint8_t)(v >> (8 * bytes));
}

static void put_bytes(struct writer *w, const void *p, size_t n)
{
	if (n && ANSWER_MAX - w->n >= n) {
		memcpy(w->p + w->n, p, n);
		w->n += n;
	}
}

static void put_name(struct writer *w, struct str name)
{
	while (name.n) {
		struct str label = str_cut(&name, '.');

		put(w, 1, (uint32_t)label.n);
		put_bytes(w, label.p, label.n);
	}
	put(w, 1, 0);
}

static size_t name_wire_len(struct str name)
{
	return name.n ? name.n + 2 : 1;
}

static void put_data(struct writer *w, const struct dns_answer *a)
{
	put(w, 2, QUESTION_AT);
	put(w, 2, a->ptr.n ? DNS_PTR : DNS_A);
	put(w, 2, CLASS_IN);
	put(w, 4, a->ttl);
	if (a->ptr.n) {
		put(w, 2, (uint32_t)name_wire_len(a->ptr));
		put_name(w, a->ptr);
	} else {
		put(w, 2, 4);
		put_bytes(w, a->addr.b, 4);
	}
}

static void put_soa(struct writer *w, uint32_t ttl)
{
	struct str server = STR("exeat.internal"), mail = STR("hostmaster.exeat.internal");

	put(w, 1, 0);
	put(w, 2, DNS_SOA);
	put(w, 2, CLASS_IN);
	put(w, 4, ttl);
	put(w, 2, (uint32_t)(name_wire_len(server) + name_wire_len(mail) + 5 * 4));
	put_name(w, server);
	put_name(w, mail);
	put(w, 4, 1);		/* serial */
	put(w, 4, 3600);	/* refresh, retry, expire: nobody transfers this zone */
	put(w, 4, 600);
	put(w, 4, 86400);
	put(w, 4, ttl);		/* minimum: how long the negative answer lives */
}

static void put_opt(struct writer *w, enum dns_rcode rcode, enum dns_ede ede, struct str text)
{
	put(w, 1, 0);
	put(w, 2, DNS_OPT);
	put(w, 2, DNS_UDP_MAX);
	put(w, 4, (uint32_t)rcode >> 4 << 24);
	put(w, 2, ede == EDE_NONE ? 0 : (uint32_t)(6 + text.n));
	if (ede == EDE_NONE)
		return;
	put(w, 2, OPTION_EDE);
	put(w, 2, (uint32_t)(2 + text.n));
	put(w, 2, (uint32_t)ede);
	put_bytes(w, text.p, text.n);
}

static void put_answer(struct writer *w, const struct dns_query *q, const struct dns_answer *a,
		       struct str ede_text)
{
	bool data = !a->truncated && (a->ptr.n || a->addr.family == 4) && q->question_n;
	bool soa = !a->truncated && a->soa;
	enum dns_ede ede = a->truncated ? EDE_NONE : a->ede;

	w->n = 0;
	put(w, 2, q->id);
	put(w, 2, FLAG_QR | (uint32_t)q->opcode << 11 | (a->truncated ? FLAG_TC : 0) |
	    (q->rd ? FLAG_RD : 0) | FLAG_RA | (q->cd ? FLAG_CD : 0) | ((uint32_t)a->rcode & 15));
	put(w, 2, q->question_n ? 1 : 0);
	put(w, 2, data);
	put(w, 2, soa);
	put(w, 2, q->edns);
	put_bytes(w, q->question, q->question_n);
	if (data)
		put_data(w, a);
	if (soa)
		put_soa(w, a->ttl);
	if (q->edns)
		put_opt(w, a->rcode, ede, ede_text);
}

size_t dns_build(const struct dns_query *q, const struct dns_answer *a, uint8_t *out, size_t max)
{
	struct writer w;
	struct str text = a->ede_text;
	struct dns_answer cut = *a;

	if (text.n > EDE_TEXT_MAX)
		text.n = EDE_TEXT_MAX;
	put_answer(&w, q, a, text);
	if (w.n > max)
		put_answer(&w, q, a, STR_NONE);
	if (w.n > max) {
		cut.truncated = true;
		put_answer(&w, q, &cut, STR_NONE);
	}
	if (w.n > max)
		return 0;
	memcpy(out, w.p, w.n);
	return w.n;
}

/* ---- names of numbers ---- */

const char *dns_type_name(uint16_t type, char out[16])
{
	static const struct { uint16_t type; const char *name; } types[] = {
		{ DNS_A, "A" }, { DNS_NS, "NS" }, { DNS_CNAME, "CNAME" }, { DNS_SOA, "SOA" },
		{ DNS_PTR, "PTR" }, { DNS_MX, "MX" }, { DNS_TXT, "TXT" }, { DNS_AAAA, "AAAA" },
		{ DNS_SRV, "SRV" }, { DNS_OPT, "OPT" }, { DNS_SVCB, "SVCB" }, { DNS_HTTPS, "HTTPS" },
		{ DNS_ANY, "ANY" },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].type == type)
			return types[i].name;
	snprintf(out, 16, "TYPE%u", type);	/* RFC 3597 5 */
	return out;
}

const char *dns_rcode_name(enum dns_rcode rcode)
{
	switch (rcode) {
	case DNS_NOERROR:
		return "NOERROR";
	case DNS_FORMERR:
		return "FORMERR";
	case DNS_SERVFAIL:
		return "SERVFAIL";
	case DNS_NXDOMAIN:
		return "NXDOMAIN";
	case DNS_NOTIMP:
		return "NOTIMP";
	case DNS_REFUSED:
		return "REFUSED";
	case DNS_BADVERS:
		return "BADVERS";
	}
	return "UNKNOWN";
}
