/* Theory of operation
 *
 * The steps are asked one after the other, each with the facts that it has, until one denies or
 * the request's kind has no further one. Near misses are found by asking each allow rule alone: one
 * whose answer is no for exactly one matcher would match if that fact were another. For hosts the
 * neighbours are tried: the name above, and a name below.
 */
#include "policy/explain.h"

#include "conf/json.h"
#include "policy/image.h"
#include "policy/limits_text.h"
#include "policy/name.h"
#include "policy/ranges.h"

#define SHOWN_MAX 8192		/* bytes of one text, escaped */
#define WANTED_MAX 4		/* values that a near miss lists */

struct teller {
	const struct policy *p;
	const struct explain_request *r;
	FILE *to;
};

/* ---- printing ---- */

/* As JSON escapes it, so that no byte of a file or request drives the terminal. */
static void tell_text(struct teller *t, struct str s)
{
	struct buf shown;
	struct json j;

	buf_init(&shown, SHOWN_MAX);
	json_init(&j, &shown);
	json_str(&j, str_n(s.p, s.n < SHOWN_MAX / 6 - 1 ? s.n : SHOWN_MAX / 6 - 1));
	if (!shown.failed)
		fwrite(shown.p + 1, 1, shown.n - 2, t->to);
	buf_free(&shown);
}

static const char *proto_name(uint32_t proto)
{
	return proto == PROTO_HTTPS ? "https" : proto == PROTO_HTTP ? "http" : "tcp";
}

static const char *verdict_name(enum verdict v)
{
	return v == VERDICT_ALLOW ? "allow" : v == VERDICT_DENY ? "deny" : "undecided";
}

static void tell_target(struct teller *t, const struct facts *f)
{
	char text[ADDR_TEXT_MAX];

	if (f->literal)
		fprintf(t->to, "%s", addr_format(&f->addr, text));
	else
		tell_text(t, f->host);
	if (!f->literal && f->addr.family)
		fprintf(t->to, " at %s", addr_format(&f->addr, text));
	if (f->port)
		fprintf(t->to, " port %u", f->port);
	if (f->proto != PROTO_UNKNOWN)
		fprintf(t->to, " %s", proto_name(f->proto));
}

static void tell_step(struct teller *t, enum explain_kind kind, const struct facts *f,
		      enum verdict v)
{
	static const char *const names[] = { "name lookup", "connection", "request" };

	fprintf(t->to, "%-14s %-10s ", names[kind], verdict_name(v));
	if (kind == EXPLAIN_REQUEST) {
		tell_text(t, f->method);
		fputc(' ', t->to);
		tell_text(t, f->path.n ? f->path : t->r->url);
		fputs(" to ", t->to);
	}
	tell_target(t, f);
	fputc('\n', t->to);
}

static void tell_place(struct teller *t, struct rule_ref ref)
{
	struct rule_info info = policy_rule(t->p, ref);

	tell_text(t, info.id);
	if (t->r->for_box)
		return;
	fputs(" (", t->to);
	tell_text(t, info.file);
	if (info.line)
		fprintf(t->to, ":%u", info.line);
	fputc(')', t->to);
}

/* Only the address is missing: nothing that comes over the connection decides. */
static bool waits_for_address(enum explain_kind kind, const struct facts *f)
{
	return kind == EXPLAIN_REQUEST || f->proto == PROTO_TCP;
}

static void tell_rule(struct teller *t, enum explain_kind kind, const struct facts *f,
		      struct decision d)
{
	struct rule_info info = policy_rule(t->p, d.rule);

	fputs("    ", t->to);
	tell_place(t, d.rule);
	if (d.rule.rule == RULE_DEFAULT)
		fputs(": no allow rule matches", t->to);
	else if (d.verdict == VERDICT_UNDECIDED)
		fprintf(t->to, ": may allow it, once %s is known",
			waits_for_address(kind, f) ? "the address" : "more");
	if (info.reason.n) {
		fputs(": ", t->to);
		tell_text(t, info.reason);
	}
	fputc('\n', t->to);
}

/* ---- near misses ---- */

static void tell_wanted_texts(struct teller *t, const struct image *im, struct image_span s,
			      const struct image_span *texts)
{
	for (uint32_t i = 0; i < s.count && i < WANTED_MAX; i++) {
		fputs(i ? " or " : " ", t->to);
		tell_text(t, image_text(im, texts[s.first + i]));
	}
	if (s.count > WANTED_MAX)
		fputs(" or ...", t->to);
}

static void tell_wanted_ports(struct teller *t, const struct image *im, struct image_span s)
{
	for (uint32_t i = 0; i < s.count && i < WANTED_MAX; i++) {
		const struct image_ports *p = &im->ports[s.first + i];

		fprintf(t->to, "%s %u", i ? " or" : "", p->first);
		if (p->last != p->first)
			fprintf(t->to, "-%u", p->last);
	}
	if (s.count > WANTED_MAX)
		fputs(" or ...", t->to);
}

static void tell_wanted_protos(struct teller *t, uint32_t protos)
{
	const char *between = "";

	for (uint32_t bit = PROTO_HTTPS; bit <= PROTO_TCP; bit *= 2) {
		if (!(protos & bit))
			continue;
		fprintf(t->to, "%s %s", between, proto_name(bit));
		between = " or";
	}
}

static void tell_other_fact(struct teller *t, struct rule_ref ref, enum matcher m)
{
	const struct image *im = &t->p->images[ref.image];
	const struct image_rule *r = &im->rules[ref.rule];

	fputs("    near: ", t->to);
	tell_place(t, ref);
	fprintf(t->to, " would match if the %s were", matcher_name(m));
	if (m == MATCH_PORT)
		tell_wanted_ports(t, im, r->ports);
	else if (m == MATCH_PROTO)
		tell_wanted_protos(t, r->protos);
	else if (m == MATCH_METHOD)
		tell_wanted_texts(t, im, r->methods, im->methods);
	else if (m == MATCH_PATH)
		tell_wanted_texts(t, im, r->paths, im->paths);
	fputc('\n', t->to);
}

static bool would_match(struct teller *t, struct rule_ref ref, struct facts f, struct str host)
{
	f.host = host;
	return host.n && policy_ask_rule(t->p, ref, &f).all != ANSWER_NO;
}

/* A rule for the name above, or for names below: the two that are taken for one another. */
static bool tell_other_host(struct teller *t, struct rule_ref ref, const struct facts *f)
{
	struct str parent = name_parent(f->host);
	char below[NAME_MAX_LEN + 4] = "any.";
	size_t n = f->host.n <= NAME_MAX_LEN ? f->host.n : NAME_MAX_LEN;
	bool is_above = would_match(t, ref, *f, parent);

	memcpy(below + 4, f->host.p, n);
	if (!is_above && !would_match(t, ref, *f, str_n(below, n + 4)))
		return false;
	fputs("    near: ", t->to);
	tell_place(t, ref);
	fprintf(t->to, " would match if the host were %s", is_above ? "" : "a name below ");
	tell_text(t, is_above ? parent : f->host);
	fputs(is_above ? ": it does not cover this name below it\n"
		       : ": a wildcard does not cover the name itself\n", t->to);
	return true;
}

/* The one matcher that says no; MATCH_COUNT where there are none or more of them. */
static enum matcher only_no(const struct teller *t, struct rule_ref ref,
			    const struct rule_answer *a)
{
	const struct image_rule *r = &t->p->images[ref.image].rules[ref.rule];
	bool both = (r->flags & RULE_HAS_HOSTS) && r->addresses.count;
	bool host_no = a->each[MATCH_HOST] == ANSWER_NO;
	bool addr_no = a->each[MATCH_ADDRESS] == ANSWER_NO;
	bool target_no = both ? host_no && addr_no : host_no || addr_no;
	enum matcher only = target_no ? MATCH_HOST : MATCH_COUNT;

	for (enum matcher m = MATCH_PORT; m < MATCH_COUNT; m++) {
		if (a->each[m] != ANSWER_NO)
			continue;
		if (only != MATCH_COUNT)
			return MATCH_COUNT;
		only = m;
	}
	return only;
}

static bool tell_near(struct teller *t, struct rule_ref ref, const struct facts *f, bool quiet)
{
	struct rule_answer a = policy_ask_rule(t->p, ref, f);
	enum matcher m = only_no(t, ref, &a);

	if (policy_rule(t->p, ref).deny || m == MATCH_COUNT)
		return false;
	if (m == MATCH_HOST)
		return !quiet && !f->literal && f->host.n && tell_other_host(t, ref, f);
	if (!quiet)
		tell_other_fact(t, ref, m);
	return true;
}

static void tell_near_misses(struct teller *t, const struct facts *f)
{
	size_t found = 0;

	for (uint16_t image = 0; image < policy_images(t->p); image++)
		for (uint32_t rule = 0; rule < policy_rules(t->p, image); rule++)
			found += tell_near(t, (struct rule_ref){ image, rule }, f,
					   found >= EXPLAIN_NEAR_MAX);
	if (found > EXPLAIN_NEAR_MAX)
		fprintf(t->to, "    and %zu more near misses\n", found - EXPLAIN_NEAR_MAX);
}

/* What a deny rule has overruled. */
static void tell_overruled(struct teller *t, const struct facts *f)
{
	for (uint16_t image = 0; image < policy_images(t->p); image++) {
		for (uint32_t rule = 0; rule < policy_rules(t->p, image); rule++) {
			struct rule_ref ref = { image, rule };

			if (policy_rule(t->p, ref).deny ||
			    policy_ask_rule(t->p, ref, f).all != ANSWER_YES)
				continue;
			fputs("    overrules: ", t->to);
			tell_place(t, ref);
			fputs(" would allow it\n", t->to);
			return;
		}
	}
}

/* ---- what else refuses ---- */

/* An address that the name may not resolve to. */
static bool tell_bad_address(struct teller *t, const struct facts *f)
{
	const struct addr *a = &t->r->facts.addr;
	const char *range = range_prohibited(a);
	char text[ADDR_TEXT_MAX];

	if (!a->family || !range)
		return false;
	addr_format(a, text);
	if (f->literal) {
		fprintf(t->to, "    %s is %s: only a rule that names the address admits it\n", text,
			range);
		return false;
	}
	if (policy_resolve_ok(t->p, f, a)) {
		fprintf(t->to, "    %s is %s, and in resolves_to of a rule\n", text, range);
		return false;
	}
	fprintf(t->to, "    %s is %s: a name may resolve to it only by resolves_to of a rule that "
		"allows it\n", text, range);
	return true;
}

static bool is_bad_path(const struct teller *t, enum explain_kind kind, const struct facts *f)
{
	return kind == EXPLAIN_REQUEST && !f->path.n && policy_has_paths(t->p, f->host);
}

/* ---- what is put on ---- */

static void tell_credential(struct teller *t, struct rule_ref ref, const struct facts *f)
{
	struct rule_info rule = policy_rule(t->p, ref);
	struct credential_info c;

	if (rule.credential == NO_CREDENTIAL)
		return;
	c = policy_credential(t->p, ref.image, rule.credential);
	fputs(t->r->for_box ? "    a credential" : "    credential", t->to);
	if (!t->r->for_box) {
		fputc(' ', t->to);
		tell_text(t, c.name);
	}
	if (!policy_credential_bound(t->p, ref.image, rule.credential, f->host)) {
		fputs(" is not for this host: the request is refused\n", t->to);
		return;
	}
	if (f->proto == PROTO_HTTP && !rule.plaintext) {
		fputs(" does not go over plain HTTP (no plaintext: true): the request is refused\n",
		      t->to);
		return;
	}
	fputs(" is put on, in field ", t->to);
	tell_text(t, c.header);
	if (!t->r->for_box) {
		fputs(", from secret ", t->to);
		tell_text(t, c.secret);
	}
	fputc('\n', t->to);
}

/* ---- how it goes through ---- */

static void tell_unopened(struct teller *t, struct rule_ref ref, const struct facts *f)
{
	if (f->proto == PROTO_TCP)
		fputs("    raw TCP: goes through as it comes, unread\n", t->to);
	else if (policy_rule(t->p, ref).passthrough)
		fputs("    passthrough: TLS is not opened, so that neither method nor path is seen\n",
		      t->to);
}

static void tell_limits(struct teller *t, const struct facts *f)
{
	struct rule_ref refs[POLICY_LIMITS_MAX];
	size_t n = policy_limits(t->p, f, refs, POLICY_LIMITS_MAX);

	for (size_t i = 0; i < n && i < POLICY_LIMITS_MAX; i++) {
		struct rule_limits k = policy_rule(t->p, refs[i]).limits;
		struct buf text;

		buf_init(&text, SHOWN_MAX);
		limits_put(&k, &text);
		fputs("    limits of ", t->to);
		tell_place(t, refs[i]);
		fprintf(t->to, ": %.*s\n", STR_ARG(buf_str(&text)));
		buf_free(&text);
	}
}

/* ---- the steps ---- */

/* As a connection is asked about before its first byte: is any rule for raw TCP to there? */
static enum proto first_proto(const struct teller *t, struct facts f)
{
	f.proto = PROTO_TCP;
	for (uint16_t image = 0; image < policy_images(t->p); image++) {
		for (uint32_t rule = 0; rule < policy_rules(t->p, image); rule++) {
			struct rule_ref ref = { image, rule };

			if (!policy_rule(t->p, ref).deny &&
			    policy_ask_rule(t->p, ref, &f).all != ANSWER_NO)
				return PROTO_TCP;
		}
	}
	return PROTO_UNKNOWN;
}

static struct facts facts_at(const struct teller *t, enum explain_kind kind)
{
	const struct explain_request *r = t->r;
	struct facts f = { .host = r->facts.host };

	if (kind == EXPLAIN_RESOLVE)
		return f;
	f = r->facts;
	if (kind == EXPLAIN_CONNECT) {
		f.method = f.path = STR_NONE;
		if (r->kind != EXPLAIN_CONNECT)
			f.proto = PROTO_UNKNOWN;
		else if (f.proto == PROTO_UNKNOWN)
			f.proto = first_proto(t, f);
	}
	return f;
}

/* Nothing more will ever be known: a request, or a raw connection, whose address is known. */
static bool is_last_ever(enum explain_kind kind, const struct facts *f)
{
	return f->addr.family && waits_for_address(kind, f);
}

static enum verdict explain_step(struct teller *t, enum explain_kind kind)
{
	struct facts f = facts_at(t, kind);
	struct decision d = policy_decide(t->p, &f);
	bool refused;

	if (is_bad_path(t, kind, &f)) {
		tell_step(t, kind, &f, VERDICT_DENY);
		fputs("    the path can be read in more than one way, and a rule of this host has paths\n",
		      t->to);
		return VERDICT_DENY;
	}
	if (d.verdict == VERDICT_UNDECIDED && is_last_ever(kind, &f))
		d = (struct decision){ VERDICT_DENY, { 0, RULE_DEFAULT } };
	tell_step(t, kind, &f, d.verdict);
	tell_rule(t, kind, &f, d);
	refused = tell_bad_address(t, &f);
	if (d.verdict == VERDICT_DENY && d.rule.rule != RULE_DEFAULT)
		tell_overruled(t, &f);
	else if (d.verdict == VERDICT_DENY)
		tell_near_misses(t, &f);
	if (refused)
		return VERDICT_DENY;
	if (d.verdict == VERDICT_ALLOW && waits_for_address(kind, &f)) {
		tell_unopened(t, d.rule, &f);
		tell_credential(t, d.rule, &f);
		tell_limits(t, &f);
	}
	return d.verdict;
}

enum verdict policy_explain(const struct policy *p, const struct explain_request *r, FILE *to)
{
	struct teller t = { p, r, to };
	enum explain_kind kind = r->facts.literal ? EXPLAIN_CONNECT : EXPLAIN_RESOLVE;
	static const char *const goes_on[] = {
		": the name is answered, and each connection and request judged by itself",
		": the connection is accepted, and each request judged by itself",
		": the address that the name resolves to decides",
	};
	enum verdict v = VERDICT_UNDECIDED;
	struct facts last;

	for (; kind <= r->kind && v != VERDICT_DENY; kind++)
		v = explain_step(&t, kind);
	last = facts_at(&t, r->kind);
	fprintf(to, "%-14s %s%s\n", "verdict", verdict_name(v), v != VERDICT_UNDECIDED ? ""
		: goes_on[waits_for_address(r->kind, &last) ? EXPLAIN_REQUEST : r->kind]);
	return v;
}
