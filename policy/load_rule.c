#include <stdio.h>

#include "policy/load_parts.h"
#include "policy/path.h"
#include "policy/pattern.h"

#define ADVICE_MAX 512

struct rule_fields {
	struct str id, reason, credential;
	const struct yaml_node *hosts, *addresses, *ports, *methods, *paths, *resolves_to, *limits;
	unsigned protocol, tls, foreign;
	bool plaintext, any_host, any_tenant;
};

static const char *const protocols[] = { "https", "http", "tcp", NULL };
static const unsigned protos[] = { PROTO_HTTPS, PROTO_HTTP, PROTO_TCP };
static const char *const tls_forms[] = { "terminate", "passthrough", NULL };

#define FIELD(key_, type_, member, ...)                                                           \
	{ .key = key_, .type = SCHEMA_##type_, .offset = offsetof(struct rule_fields, member), \
	  __VA_ARGS__ }
#define LATER(key_) { .key = key_, .type = SCHEMA_LATER }

#define MATCHERS                                                                                  \
	FIELD("id", TEXT, id, .required = true, .check = load_check_id,                           \
	      .help = "a name for the rule, by which refusals and the log tell it"),              \
	FIELD("hosts", TEXTS, hosts, .help = "names: exact, \"*.x\" one label before, \"**.x\" one or more"), \
	FIELD("addresses", TEXTS, addresses, .help = "addresses and ranges, asked for as such"),  \
	FIELD("ports", TEXTS, ports, .help = "numbers and ranges (8000-8099)"),                   \
	FIELD("protocol", CHOICE, protocol, .choices = protocols),                                \
	FIELD("methods", TEXTS, methods, .help = "request methods, upper case"),                  \
	FIELD("paths", TEXTS, paths, .help = "paths: * in one segment, ** any number of segments"), \
	FIELD("reason", TEXT, reason, .max = LOAD_REASON_MAX, .help = "told to who is refused"),  \
	LATER("expires"), LATER("query"), LATER("headers"), LATER("grpc"), LATER("mcp"),          \
	LATER("sandboxes"), LATER("log_query"), LATER("dns")

static const struct schema_row allow_rows[] = {
	MATCHERS,
	FIELD("resolves_to", TEXTS, resolves_to, .help = "ranges that the name may resolve into"),
	FIELD("tls", CHOICE, tls, .choices = tls_forms, .help = "passthrough: it is not opened"),
	FIELD("limits", MAP, limits, .help = "how much, how often and how long"),
	FIELD("credential", TEXT, credential, .help = "what is put on the request"),
	FIELD("foreign", CHOICE, foreign, .choices = load_foreigns,
	      .help = "what is done with credentials that the box brings itself"),
	FIELD("plaintext", BOOL, plaintext, .help = "the credential may go over plain HTTP"),
	FIELD("any_host", BOOL, any_host, .help = "lets \"**\" stand in hosts"),
	FIELD("any_tenant", BOOL, any_tenant,
	      .help = "lets a wildcard stand under a public suffix"),
	{ .type = SCHEMA_END },
};

static const struct schema_row deny_rows[] = { MATCHERS, { .type = SCHEMA_END } };

const char *load_check_id(struct str id)
{
	if (id.n > LOAD_ID_MAX)
		return "longer than 64 bytes";
	if (id.n && !str_is_id(id))
		return "must be lower-case letters, digits, '_', '.' and '-', a letter or digit first";
	if (str_eq(id, STR("default")))
		return "\"default\" is what decides when no rule does";
	return id.n ? NULL : "empty";
}

/* ---- one list each ---- */

static bool parse_ports(struct str text, struct port_range *out)
{
	struct str rest = text, first = str_cut(&rest, '-');
	uint64_t a, b;

	if (!str_to_u64(first, 65535, &a))
		return false;
	b = a;
	if (rest.p && !str_to_u64(rest, 65535, &b))
		return false;
	*out = (struct port_range){ (uint16_t)a, (uint16_t)b };
	return a > 0 && a <= b;
}

static void read_ports(struct load *l, const struct yaml_node *list, struct build_rule *b)
{
	struct port_range *v = arena_take(&l->arena, schema_count(list), sizeof(*v));
	uint32_t count = 0;

	for (const struct yaml_node *i = list ? list->first : NULL; i && v; i = i->next) {
		struct port_range *r = &v[b->n_ports];

		if (!parse_ports(i->text, r)) {
			diag_error(l->diags, i->at,
				   "write a number from 1 to 65535, or a range: 8000-8099",
				   "\"%.*s\" is no port", STR_ARG(i->text));
			continue;
		}
		count += (uint32_t)(r->last - r->first) + 1;
		b->n_ports++;
		if (!b->deny && count > POLICY_PORTS_MAX) {
			diag_error(l->diags, i->at, NULL, "a rule allows at most %d ports",
				   POLICY_PORTS_MAX);
			break;
		}
	}
	b->ports = v;
}

static void default_ports(struct load *l, struct build_rule *b)
{
	struct port_range *v;

	if (b->deny || b->n_ports || b->protos == PROTO_TCP)
		return;
	v = arena_take(&l->arena, 1, sizeof(*v));
	if (!v)
		return;
	v->first = v->last = b->protos & PROTO_HTTP ? 80 : 443;
	b->ports = v;
	b->n_ports = 1;
}

static void read_methods(struct load *l, const struct yaml_node *list, struct build_rule *b)
{
	struct str *v = arena_take(&l->arena, schema_count(list), sizeof(*v));

	for (const struct yaml_node *i = list ? list->first : NULL; i && v; i = i->next) {
		char upper[LOAD_METHOD_MAX + 1], advice[ADVICE_MAX];
		bool token = i->text.n && i->text.n <= LOAD_METHOD_MAX, same = true;

		for (size_t k = 0; token && k < i->text.n; k++) {
			char c = ascii_lower(i->text.p[k]);

			token = (c >= 'a' && c <= 'z') || c == '-' || c == '_';
			upper[k] = c >= 'a' && c <= 'z' ? (char)(c - ('a' - 'A')) : c;
			same = same && upper[k] == i->text.p[k];
		}
		if (!token) {
			diag_error(l->diags, i->at, str_eq(i->text, STR("*")) ?
				   "leave \"methods\" out: then every method is meant" : NULL,
				   "\"%.*s\" is no method", STR_ARG(i->text));
		} else if (!same) {
			snprintf(advice, sizeof(advice), "write \"%.*s\"", (int)i->text.n, upper);
			diag_error(l->diags, i->at, advice,
				   "methods are compared as they are, in upper case: \"%.*s\"", STR_ARG(i->text));
		} else if (!b->deny && (str_eq(i->text, STR("CONNECT")) ||
					str_eq(i->text, STR("TRACE")))) {
			diag_error(l->diags, i->at, NULL, "%.*s is never sent to an origin",
				   STR_ARG(i->text));
		} else {
			v[b->n_methods++] = i->text;
		}
	}
	b->methods = v;
}

static void read_paths(struct load *l, const struct yaml_node *list, struct build_rule *b)
{
	struct str *v = arena_take(&l->arena, schema_count(list), sizeof(*v));

	for (const struct yaml_node *i = list ? list->first : NULL; i && v; i = i->next) {
		const char *why = "longer than the limit";
		bool bare = i->text.n && i->text.p[0] != '/' && i->text.p[0] != '*';
		char advice[ADVICE_MAX];

		if (i->text.n <= LOAD_PATH_MAX && path_pattern_valid(i->text, &why))
			v[b->n_paths++] = i->text;
		else if (str_find(i->text, '?') < i->text.n)
			diag_error(l->diags, i->at, "a path pattern is matched without the query",
				   "path \"%.*s\": '?' starts a query", STR_ARG(i->text));
		else {
			snprintf(advice, sizeof(advice), "write \"/%.*s\"",
				 i->text.n < 100 ? (int)i->text.n : 100, i->text.p);
			diag_error(l->diags, i->at, bare ? advice : NULL, "path \"%.*s\": %s",
				   STR_ARG(i->text), why);
		}
	}
	b->paths = v;
}

static const struct addr_range *read_ranges(struct load *l, const struct yaml_node *list, size_t *n)
{
	struct addr_range *v = arena_take(&l->arena, schema_count(list), sizeof(*v));

	for (const struct yaml_node *i = list ? list->first : NULL; i && v; i = i->next) {
		if (addr_range_parse(i->text, &v[*n]))
			(*n)++;
		else
			diag_error(l->diags, i->at,
				   "write 203.0.113.7 or 203.0.113.0/28, with no bits set beyond the mask",
				   "\"%.*s\" is no address or range", STR_ARG(i->text));
	}
	return v;
}

/* ---- a rule as a whole ---- */

static void check_matchers(struct load *l, const struct yaml_node *map, const struct rule_fields *f,
			   bool deny)
{
	if (!deny && !f->hosts && !f->addresses)
		diag_error(l->diags, map->at,
			   "any host at all is written hosts: [\"**\"] with any_host: true",
			   "an allow rule must name hosts or addresses");
	else if (!f->hosts && !f->addresses && !f->ports && !f->methods && !f->paths &&
		 !schema_key(map, "protocol"))
		diag_error(l->diags, map->at, "everything is denied by hosts: [\"**\"]",
			   "a rule without any matcher");
	if (!deny && f->hosts && f->addresses)
		diag_error(l->diags, schema_key(map, "addresses")->at,
			   "write two rules; the ranges that a name may resolve into are \"resolves_to\"",
			   "an allow rule admits by name or by address");
	if (f->resolves_to && !f->hosts)
		diag_error(l->diags, schema_key(map, "resolves_to")->at, NULL,
			   "\"resolves_to\" goes with \"hosts\"");
	if (!deny && f->any_host && !f->hosts)
		diag_error(l->diags, schema_key(map, "any_host")->at, NULL,
			   "\"any_host\" goes with hosts: [\"**\"]");
}

static void tell_unopened(struct load *l, const struct load_rule *r, const struct yaml_node *map,
			  const char *key, const char *advice)
{
	const struct yaml_node *at = schema_key(map, key);

	if (at)
		diag_error(l->diags, at->at, advice,
			   "\"%s\" does not go with %s, which is not opened", key,
			   r->b.passthrough ? "tls: passthrough" : "protocol: tcp");
}

/* What is not opened shows nothing of what is in it: what would have to be read there cannot be
 * asked of it, nor anything be put on it. */
static void check_unopened(struct load *l, const struct yaml_node *map, const struct load_rule *r)
{
	static const struct {
		const char *key, *advice;
	} wrong[] = {
		{ "methods", "a connection is let through or refused as a whole" },
		{ "paths", "a connection is let through or refused as a whole" },
		{ "credential", NULL }, { "foreign", NULL }, { "plaintext", NULL },
	};
	const struct yaml_node *limits = schema_key(map, "limits");

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		tell_unopened(l, r, map, wrong[i].key, wrong[i].advice);
	if (limits)
		tell_unopened(l, r, limits->next, "requests",
			      "\"concurrent\" counts connections, the others are of one connection");
}

static void check_protocol(struct load *l, const struct yaml_node *map, const struct load_rule *r)
{
	const struct yaml_node *tls = schema_key(map, "tls");

	if (tls && !r->b.deny && r->b.protos != PROTO_HTTPS)
		diag_error(l->diags, tls->at, NULL, "\"tls\" goes with protocol: https");
	else if (r->b.passthrough || r->b.protos == PROTO_TCP)
		check_unopened(l, map, r);
	if (r->b.protos == PROTO_TCP && !r->b.deny && !schema_key(map, "ports"))
		diag_error(l->diags, schema_key(map, "protocol")->at, "write ports: [5432], or whichever are meant",
			   "an allow rule with protocol: tcp must say its ports");
}

/* The box asks for these by address, and it speaks IPv4 only; each (address, port) is admitted on
 * its own. */
static void check_literals(struct load *l, const struct yaml_node *list, const struct build_rule *b)
{
	uint64_t ports = 0, addresses = 0;
	char text[ADDR_TEXT_MAX];

	if (b->deny || !list)
		return;
	for (size_t i = 0; i < b->n_ports; i++)
		ports += (uint64_t)(b->ports[i].last - b->ports[i].first) + 1;
	for (size_t i = 0; i < b->n_addresses; i++) {
		if (b->addresses[i].net.family != 4)
			diag_error(l->diags, list->at, NULL,
				   "%s: boxes speak IPv4 only: they cannot ask for an IPv6 address",
				   addr_format(&b->addresses[i].net, text));
		else
			addresses += 1ull << (32 - b->addresses[i].bits);
	}
	l->literals += addresses * ports;
	if (l->literals > POLICY_LITERALS_MAX)
		diag_error(l->diags, list->at,
			   "name the few addresses that are meant; a range counts with all its addresses",
			   "more than %d pairs of address and port are allowed so far", POLICY_LITERALS_MAX);
}

static struct load_credential *find_credential(struct load *l, struct str name)
{
	for (size_t i = 0; i < l->n_credentials; i++)
		if (str_eq(l->credentials[i].b.name, name))
			return &l->credentials[i];
	return NULL;
}

static void tell_no_credential(struct load *l, const struct yaml_node *value)
{
	const char *names[LOAD_CREDENTIALS_MAX], *near;
	char advice[ADVICE_MAX];

	for (size_t i = 0; i < l->n_credentials; i++)
		names[i] = l->credentials[i].b.name.p;	/* texts of the tree end in a NUL */
	near = diag_nearest(value->text, names, l->n_credentials);
	if (near)
		snprintf(advice, sizeof(advice), "did you mean \"%s\"?", near);
	else
		snprintf(advice, sizeof(advice), "credentials: says what it is: a kind, a secret's name, hosts");
	diag_error(l->diags, value->at, advice,
		   "no credential \"%.*s\" is declared in this file", STR_ARG(value->text));
}

static bool is_bound(const struct load_credential *c, struct str host)
{
	for (size_t i = 0; i < c->hosts.n; i++)
		if (pattern_covers(c->hosts.v[i], host))
			return true;
	return false;
}

static void check_binding(struct load *l, const struct load_rule *r)
{
	const struct load_credential *c = r->credential;

	for (size_t i = 0; i < r->hosts.n; i++)
		if (!is_bound(c, r->hosts.v[i]))
			diag_error(l->diags, r->hosts.at[i],
				   "split the rule, or add the host to the credential's hosts",
				   "the credential \"%.*s\" (line %u) may not go to \"%.*s\"", STR_ARG(c->b.name),
				   c->at.line, STR_ARG(r->hosts.v[i]));
}

static void read_credential(struct load *l, const struct yaml_node *map,
			    const struct rule_fields *f,
			    struct load_rule *r)
{
	const struct yaml_node *key = schema_key(map, "credential");

	r->b.credential = NO_CREDENTIAL;
	if (f->plaintext && !f->credential.n)
		diag_error(l->diags, schema_key(map, "plaintext")->at, NULL,
			   "\"plaintext\" goes with \"credential\"");
	if (!f->credential.n)
		return;
	r->credential = find_credential(l, f->credential);
	if (!r->credential) {
		tell_no_credential(l, key->next);
		return;
	}
	/* The rule's own word goes before its credential's. */
	if (!r->b.has_foreign)
		r->b.foreign = r->credential->b.foreign;
	r->b.has_foreign = true;
	if (f->addresses && !f->hosts)
		diag_error(l->diags, key->at, NULL,
			   "a credential goes to names, not to addresses");
	if (r->b.protos == PROTO_HTTP && !f->plaintext)
		diag_error(l->diags, key->next->at,
			   "use protocol: https, or say plaintext: true and let everybody on the way read it",
			   "a credential is not put on over plain HTTP");
	check_binding(l, r);
}

static void read_lists(struct load *l, const struct rule_fields *f, struct load_rule *r)
{
	struct hosts_rules rules = { r->b.deny ? HOSTS_DENY : HOSTS_ALLOW, f->any_host,
				    f->any_tenant };

	load_hosts(l, f->hosts, rules, &r->hosts);
	r->b.hosts = r->hosts.v;
	r->b.n_hosts = r->hosts.n;
	r->b.addresses = read_ranges(l, f->addresses, &r->b.n_addresses);
	r->b.resolves_to = read_ranges(l, f->resolves_to, &r->b.n_resolves_to);
	read_ports(l, f->ports, &r->b);
	read_methods(l, f->methods, &r->b);
	read_paths(l, f->paths, &r->b);
}

void load_rule(struct load *l, const struct yaml_node *node, bool deny, struct load_rule *r)
{
	struct rule_fields f = { 0 };
	size_t before = l->diags->errors;
	const struct yaml_node *id = schema_key(node, "id"), *foreign = schema_key(node, "foreign");
	bool says_protocol = schema_key(node, "protocol") != NULL;

	r->at = id ? id->next->at : node->at;
	r->b.deny = deny;
	r->b.line = node->at.line;
	r->b.credential = NO_CREDENTIAL;
	(void)schema_read(deny ? deny_rows : allow_rows, deny ? "a deny rule" : "an allow rule",
			  node, &f,
			  l->diags);
	if (node->kind != YAML_MAP)
		return;
	r->b.id = f.id;
	r->b.reason = f.reason;
	if (!deny || says_protocol)
		r->b.protos = protos[f.protocol];
	r->b.passthrough = f.tls == 1;
	r->b.has_foreign = foreign != NULL && !deny;
	r->b.foreign = (enum foreign)f.foreign;
	r->b.plaintext = f.plaintext;
	if (l->diags->errors == before)
		check_matchers(l, node, &f, deny);
	check_protocol(l, node, r);
	if (f.limits)
		load_limits(l, f.limits, &r->b.limits);
	read_lists(l, &f, r);
	default_ports(l, &r->b);
	check_literals(l, f.addresses, &r->b);
	read_credential(l, node, &f, r);
	r->good = l->diags->errors == before;
}
