#include "policy/load.h"

#include <errno.h>

#include "conf/sort.h"
#include "policy/load_parts.h"
#include "policy/ranges.h"

/*
 * Theory of operation
 *
 * Text becomes a tree (conf/yaml.h), the tree becomes rules and credentials (load_rule.c,
 * load_credential.c), these are set against each other (load_pairs.c), and only if there was no
 * error anywhere are they handed to the builder, which writes the image. Each stage goes on past
 * errors, so that one reading tells all of them; a rule with an error is left out of what follows,
 * so that it is not told twice.
 */

struct policy_fields {
	unsigned version, precedence, mode, refusal;
	const struct yaml_node *credentials, *allow, *deny;
};

#define FIELD(key_, type_, member, ...)                                                           \
	{ .key = key_, .type = SCHEMA_##type_, .offset = offsetof(struct policy_fields, member), \
	  __VA_ARGS__ }

static const char *const versions[] = { "1", NULL };
static const char *const precedences[] = { "deny-over-allow", NULL };
static const char *const modes[] = { "enforce", NULL };
static const char *const refusals[] = { "reset", "explain", NULL };

static const struct schema_row rows[] = {
	FIELD("exeat", CHOICE, version, .choices = versions, .required = true,
	      .help = "the version of the language: write exeat: 1"),
	FIELD("precedence", CHOICE, precedence, .choices = precedences, .required = true,
	      .help = "the file says itself what it means: write precedence: deny-over-allow"),
	FIELD("mode", CHOICE, mode, .choices = modes, .later = "learn permissive"),
	FIELD("refusal", CHOICE, refusal, .choices = refusals),
	FIELD("credentials", MAP, credentials, .help = "how values are put on requests"),
	FIELD("allow", LIST, allow, .help = "what is let through"),
	FIELD("deny", LIST, deny, .help = "what is not, whatever is allowed"),
	{ .key = "include", .type = SCHEMA_LATER },
	{ .key = "within", .type = SCHEMA_LATER },
	{ .key = "groups", .type = SCHEMA_LATER, .help = "write the hosts out in each rule" },
	{ .key = "tests", .type = SCHEMA_LATER },
	{ .key = "log_query", .type = SCHEMA_LATER },
	{ .type = SCHEMA_END },
};

/* ---- reading ---- */

static void read_credentials(struct load *l, const struct yaml_node *map)
{
	size_t n = schema_count(map) / 2;

	if (n > LOAD_CREDENTIALS_MAX) {
		diag_error(l->diags, map->at, NULL, "a policy has at most %d credentials",
			   LOAD_CREDENTIALS_MAX);
		return;
	}
	l->credentials = arena_take(&l->arena, n, sizeof(*l->credentials));
	for (const struct yaml_node *key = map ? map->first : NULL; key && l->credentials;
	     key = key->next->next)
		load_credential(l, key, &l->credentials[l->n_credentials++]);
}

static void read_rules(struct load *l, const struct yaml_node *list, bool deny)
{
	for (const struct yaml_node *i = list ? list->first : NULL; i && l->rules; i = i->next)
		load_rule(l, i, deny, &l->rules[l->n_rules++]);
}

static int by_id(const void *a, const void *b)
{
	const struct load_rule *x = a, *y = b;
	struct str s = x->b.id, t = y->b.id;
	int order = s.n && t.n ? memcmp(s.p, t.p, s.n < t.n ? s.n : t.n) : 0;

	if (order == 0 && s.n != t.n)
		order = s.n < t.n ? -1 : 1;
	if (order == 0 && x->at.line != y->at.line)
		order = x->at.line < y->at.line ? -1 : 1;
	return order ? order : x->at.column < y->at.column ? -1 : 1;
}

static void find_duplicate_ids(struct load *l)
{
	const void **v = arena_take(&l->arena, l->n_rules, sizeof(*v));
	const struct load_rule *first, *rule;

	if (!v || l->n_rules == 0)
		return;
	for (size_t i = 0; i < l->n_rules; i++)
		v[i] = &l->rules[i];
	sort_pointers(v, l->n_rules, by_id);
	first = v[0];
	for (size_t i = 1; i < l->n_rules; i++) {
		rule = v[i];
		if (rule->b.id.n && str_eq(first->b.id, rule->b.id))
			diag_error(l->diags, rule->at, NULL,
				   "the id \"%.*s\" is used twice: first in line %u", STR_ARG(rule->b.id),
				   first->at.line);
		else
			first = rule;
	}
}

/* What no name may resolve into, a rule may still name: it is said, so that it is meant. */
static void hint_addresses(struct load *l, const struct load_rule *r)
{
	char text[ADDR_TEXT_MAX];

	for (size_t i = 0; !r->b.deny && i < r->b.n_addresses; i++) {
		const char *range = range_prohibited(&r->b.addresses[i].net);

		if (!range)
			continue;
		diag_add(l->diags, DIAG_NOTE, r->at, NULL,
			 "lets boxes reach %s by address, in a range that no name may resolve into: %s",
			 addr_format(&r->b.addresses[i].net, text), range);
		return;
	}
}

/* For a policy that loads: beside errors they would only be in the way. */
static void give_hints(struct load *l, const struct yaml_node *root, const struct policy_fields *f)
{
	load_hosts_hints(l);
	for (size_t r = 0; r < l->n_rules; r++)
		hint_addresses(l, &l->rules[r]);
	if (!f->allow)
		diag_add(l->diags, DIAG_WARNING, root->at, NULL,
			 "there is no allow rule: everything is refused");
	if (l->n_credentials && !l->env->secrets_known)
		diag_add(l->diags, DIAG_NOTE, f->credentials->at, "--settings FILE checks that too",
			 "no settings were read: whether the secrets exist and may go to these hosts is not checked");
}

static void read_policy(struct load *l, const struct yaml_node *root, struct policy_fields *f)
{
	(void)schema_read(rows, "a policy", root, f, l->diags);
	read_credentials(l, f->credentials);
	l->rules = arena_take(&l->arena, schema_count(f->allow) + schema_count(f->deny),
			      sizeof(*l->rules));
	read_rules(l, f->allow, false);
	read_rules(l, f->deny, true);
	find_duplicate_ids(l);
	load_pairs(l);
	if (l->diags->errors == 0)
		give_hints(l, root, f);
}

/* ---- writing ---- */

static enum err build(struct load *l, struct policy_build *b, int memfd)
{
	enum err e = OK;

	for (size_t i = 0; i < l->n_credentials && e == OK; i++)
		e = policy_build_credential(b, &l->credentials[i].b, &l->credentials[i].index);
	for (size_t i = 0; i < l->n_rules && e == OK; i++) {
		struct load_rule *r = &l->rules[i];

		if (r->credential)
			r->b.credential = r->credential->index;
		e = policy_build_rule(b, &r->b);
	}
	return e == OK ? policy_build_finish(b, memfd) : e;
}

static void write_image(struct load *l, struct str file, bool explain, int memfd)
{
	struct policy_build *b = policy_build_new(file, explain);
	enum err e = b ? build(l, b, memfd) : ERR_NOMEM;

	if (e != OK)
		diag_error(l->diags, (struct mark){ 0 }, NULL,
			   "cannot write the policy's image: %s",
			   e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	policy_build_free(b);
}

bool policy_load(struct str file, struct str text, const struct load_env *env, int memfd,
		 struct diags *diags)
{
	struct load l = { .diags = diags, .env = env };
	struct policy_fields f = { 0 };
	struct yaml *y = NULL;

	if (text.n > POLICY_FILE_MAX)
		diag_error(diags, (struct mark){ 0 }, NULL, "larger than %u MiB",
			   POLICY_FILE_MAX >> 20);
	else
		y = yaml_parse(text, diags);
	if (y)
		read_policy(&l, yaml_root(y), &f);
	if (l.arena.failed)
		diag_error(diags, (struct mark){ 0 }, NULL, "out of memory");
	if (y && diags->errors == 0)
		write_image(&l, file, f.refusal == 1, memfd);
	yaml_release(y);
	arena_free(&l.arena);
	return diags->errors == 0;
}
