#include "policy/load_parts.h"
#include "policy/pattern.h"

struct credential_fields {
	struct str secret, header, format, user;
	unsigned kind, foreign;
	const struct yaml_node *hosts;
};

static const char *const kinds[] = {
	[CREDENTIAL_BEARER] = "bearer", [CREDENTIAL_HEADER] = "header", [CREDENTIAL_BASIC] = "basic",
	NULL
};
const char *const load_foreigns[] = {
	[FOREIGN_STRIP] = "strip", [FOREIGN_REFUSE] = "refuse", [FOREIGN_KEEP] = "keep", NULL
};

/* Fields that carry the message itself (RFC 9110 7.6.1, 7.2; RFC 9112 6), never a credential. */
static const char *check_header(struct str name)
{
	static const char *const framing[] = { "connection", "content-length", "expect", "host",
					       "keep-alive", "proxy-connection", "te", "trailer",
					       "transfer-encoding", "upgrade", "content-encoding" };

	if (!str_is_token(name))
		return "a byte that no field name has (RFC 9110 5.1)";
	for (size_t i = 0; i < sizeof(framing) / sizeof(*framing); i++)
		if (str_eq_nocase(name, str_of(framing[i])))
			return "this field belongs to the connection, it cannot be a credential";
	return NULL;
}

static bool has_control(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || (unsigned char)s.p[i] > 0x7e)
			return true;
	return false;
}

static const char *check_format(struct str format)
{
	size_t places = 0;

	if (has_control(format))
		return "a byte that no field value has";
	for (size_t i = 0; i + 1 < format.n; i++)
		places += format.p[i] == '{' && format.p[i + 1] == '}';
	return places == 1 ? NULL : "it must have the place of the value, {}, once";
}

static const char *check_user(struct str user)
{
	if (has_control(user))
		return "a byte that no user name has";
	return str_find(user, ':') < user.n ? "a user name has no ':' (RFC 7617 2)" : NULL;
}

static const struct schema_row rows[] = {
	{ .key = "kind", .type = SCHEMA_CHOICE, .offset = offsetof(struct credential_fields, kind),
	  .choices = kinds, .required = true, .help = "how the value is put on: bearer, header or basic",
	  .later = "query placeholder path aws-sigv4 oauth2 github-app gcp-service-account "
		   "client-certificate ssh postgres" },
	{ .key = "secret", .type = SCHEMA_TEXT, .offset = offsetof(struct credential_fields,
								   secret),
	  .required = true, .check = load_check_id, .help = "the secret's name in the operator's settings" },
	{ .key = "hosts", .type = SCHEMA_TEXTS, .offset = offsetof(struct credential_fields, hosts),
	  .required = true, .help = "the only hosts that the value may go to" },
	{ .key = "header", .type = SCHEMA_TEXT, .offset = offsetof(struct credential_fields,
								   header),
	  .max = 128, .check = check_header, .help = "kind header: the field's name" },
	{ .key = "format", .type = SCHEMA_TEXT, .offset = offsetof(struct credential_fields,
								   format),
	  .max = 256, .check = check_format, .help = "kind header: the field's value, {} stands for the secret" },
	{ .key = "user", .type = SCHEMA_TEXT, .offset = offsetof(struct credential_fields, user),
	  .max = 256, .check = check_user, .help = "kind basic: the user's name" },
	{ .key = "foreign", .type = SCHEMA_CHOICE, .offset = offsetof(struct credential_fields,
								      foreign),
	  .choices = load_foreigns, .initial = "strip",
	  .help = "what is done with credentials that the box brings itself" },
	{ .key = "ports", .type = SCHEMA_LATER,
	 .help = "narrow the rules that use the credential" },
	{ .key = "paths", .type = SCHEMA_LATER,
	 .help = "narrow the rules that use the credential" },
	{ .key = "methods", .type = SCHEMA_LATER,
	 .help = "narrow the rules that use the credential" },
	{ .key = "sandboxes", .type = SCHEMA_LATER },
	{ .key = "capture", .type = SCHEMA_LATER },
	{ .key = "unless_signed", .type = SCHEMA_LATER },
	{ .key = "body", .type = SCHEMA_LATER },
	{ .type = SCHEMA_END },
};

/* Which keys go with which kind. */
static void check_kind(struct load *l, const struct yaml_node *map, unsigned kind)
{
	static const struct {
		const char *key;
		unsigned kind;
		bool required;
	} pairs[] = { { "header", CREDENTIAL_HEADER, true }, { "format", CREDENTIAL_HEADER, false },
		      { "user", CREDENTIAL_BASIC, true } };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		const struct yaml_node *key = schema_key(map, pairs[i].key);

		if (key && pairs[i].kind != kind)
			diag_error(l->diags, key->at, NULL,
				   "\"%s\" goes with kind: %s, not with kind: %s",
				   pairs[i].key, kinds[pairs[i].kind], kinds[kind]);
		else if (!key && pairs[i].required && pairs[i].kind == kind)
			diag_error(l->diags, map->at, NULL, "a credential of kind: %s needs \"%s\"",
				   kinds[kind], pairs[i].key);
	}
}

static const struct secret_bound *find_secret(const struct load_env *env, struct str name)
{
	for (size_t i = 0; i < env->n_secrets; i++)
		if (str_eq(env->secrets[i].name, name))
			return &env->secrets[i];
	return NULL;
}

static bool is_bound(const struct secret_bound *s, struct str host)
{
	for (size_t i = 0; i < s->n_hosts; i++)
		if (pattern_covers(s->hosts[i], host))
			return true;
	return false;
}

static void check_secret(struct load *l, const struct yaml_node *map,
			 const struct load_credential *c)
{
	const struct secret_bound *s = find_secret(l->env, c->b.secret);
	const struct yaml_node *key = schema_key(map, "secret");

	if (!l->env->secrets_known || !key || c->b.secret.n == 0)
		return;
	if (!s) {
		diag_error(l->diags, key->next->at,
			   l->env->n_secrets ? "secrets are declared in the operator's settings, each with the "
					       "hosts it may go to"
					     : "they declare no secret at all: name the right ones with "
					       "--settings FILE, or write /etc/exeat/exeat.yaml",
			   "the settings have no secret \"%.*s\"", STR_ARG(c->b.secret));
		return;
	}
	for (size_t i = 0; i < c->hosts.n; i++)
		if (!is_bound(s, c->hosts.v[i]))
			diag_error(l->diags, c->hosts.at[i],
				   "only the operator can widen that, in the settings",
				   "the settings do not let the secret \"%.*s\" go to \"%.*s\"",
				   STR_ARG(c->b.secret), STR_ARG(c->hosts.v[i]));
}

static struct str lowered(struct load *l, struct str s)
{
	struct str copy = arena_copy(&l->arena, s);

	for (size_t i = 0; i < copy.n; i++)
		((char *)copy.p)[i] = ascii_lower(copy.p[i]);
	return copy;
}

void load_credential(struct load *l, const struct yaml_node *name, struct load_credential *out)
{
	const struct yaml_node *map = name->next;
	struct credential_fields f = { 0 };
	const char *wrong = load_check_id(name->text);

	out->at = name->at;
	if (wrong)
		diag_error(l->diags, name->at, NULL, "credential \"%.*s\": %s", STR_ARG(name->text),
			   wrong);
	if (schema_read(rows, "a credential", map, &f, l->diags))
		check_kind(l, map, f.kind);
	if (schema_count(f.hosts) > LOAD_CREDENTIAL_HOSTS_MAX)
		diag_error(l->diags, f.hosts->at, NULL, "a credential has at most %d hosts",
			   LOAD_CREDENTIAL_HOSTS_MAX);
	else
		load_hosts(l, f.hosts, (struct hosts_rules){ .use = HOSTS_CREDENTIAL },
			   &out->hosts);
	out->b = (struct build_credential){
		.name = name->text,
		.secret = f.secret,
		.kind = (enum credential_kind)f.kind,
		.foreign = (enum foreign)f.foreign,
		.header = f.kind == CREDENTIAL_HEADER ? lowered(l, f.header) : STR("authorization"),
		.format = f.kind != CREDENTIAL_HEADER ? STR("") : f.format.n ? f.format : STR("{}"),
		.user = f.user,
		.hosts = out->hosts.v,
		.n_hosts = out->hosts.n,
	};
	check_secret(l, map, out);
}
