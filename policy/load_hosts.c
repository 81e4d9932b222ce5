#include <libpsl.h>
#include <stdio.h>

#include "policy/load_parts.h"
#include "policy/pattern.h"

#define ADVICE_MAX 512

struct wrong {
	const char *text;
	char advice[ADVICE_MAX];
};

static bool has(struct str text, const char *chars)
{
	for (; *chars; chars++)
		if (str_find(text, *chars) < text.n)
			return true;
	return false;
}

/* "https://HOST/path", "HOST:443", "user@HOST": what was meant is plain, so say where it goes. */
static bool judge_url(struct str text, struct wrong *w)
{
	size_t colon = str_find(text, ':');

	if (text.n && text.p[0] == '@') {
		w->text = "this version does not have groups";
		snprintf(w->advice, ADVICE_MAX, "write the hosts of %.*s out", STR_ARG(text));
	} else if (has(text, "/")) {
		w->text = "a host is a name, without scheme or path";
		snprintf(w->advice, ADVICE_MAX,
			 "write the name alone; what follows it belongs in \"paths\"");
	} else if (has(text, "@")) {
		w->text = "a host has no user";
		snprintf(w->advice, ADVICE_MAX, "write \"%.*s\"",
			 STR_ARG(str_from(text, str_find(text, '@') + 1)));
	} else if (colon < text.n && str_find(str_from(text, colon + 1),
					      ':') == text.n - colon - 1) {
		w->text = "a host has no port";
		snprintf(w->advice, ADVICE_MAX, "write \"%.*s\", and ports: [%.*s]",
			 STR_ARG(str_n(text.p, colon)), STR_ARG(str_from(text, colon + 1)));
	} else {
		return false;
	}
	return true;
}

static bool judge_stars(struct str text, struct wrong *w)
{
	struct str base;
	enum pattern_kind kind = pattern_kind(text, &base);

	if (str_eq(text, STR("*"))) {
		w->text = "\"*\" is no host";
		snprintf(w->advice, ADVICE_MAX, "any host at all is written \"**\"");
	} else if (kind != PATTERN_ANY && (base.n == 0 || (base.n == 1 && base.p[0] == '.'))) {
		w->text = text.n ? "nothing stands after the dots and stars" : "an empty host";
		snprintf(w->advice, ADVICE_MAX, "write a name; any host at all is written \"**\"");
	} else if (str_find(base, '*') < base.n) {
		w->text = "a '*' stands only as the whole leftmost label";
		snprintf(w->advice, ADVICE_MAX,
			 "\"*.example.com\" is one label before example.com, "
			 "\"**.example.com\" one or more");
	} else {
		return false;
	}
	return true;
}

static void judge_name(struct str base, enum name_result r, struct wrong *w)
{
	w->text = name_result_text(r);
	if (r == NAME_UNICODE)
		snprintf(w->advice, ADVICE_MAX, "write the A-label, the form that is looked up: "
			 "\"xn--bcher-kva.example\" for b\xc3\xbc" "cher.example");
	else if (r == NAME_LITERAL)
		snprintf(w->advice, ADVICE_MAX, "an address goes into addresses: [\"%.*s\"]",
			 STR_ARG(base.p[0] == '[' ? str_n(base.p + 1, base.n - 2) : base));
	else if (r == NAME_NUMERIC)
		snprintf(w->advice, ADVICE_MAX,
			 "an address goes into \"addresses\", as four decimal numbers");
}

/* @name: canonical, and ends in a NUL. A suffix that the list does not know counts as one. */
static bool is_public_suffix(struct str name)
{
	return psl_is_public_suffix2(psl_builtin(), name.p, PSL_TYPE_ANY) != 0;
}

static bool judge_breadth(const struct host_pattern *p, struct hosts_rules rules, struct wrong *w)
{
	struct str base;
	enum pattern_kind kind = pattern_kind(str_n(p->s, p->n), &base);

	if (kind == PATTERN_ANY && rules.use != HOSTS_DENY && !rules.any_host) {
		w->text = "any host at all";
		snprintf(w->advice, ADVICE_MAX, "%s", rules.use == HOSTS_ALLOW
			 ? "name the hosts, or say any_host: true"
			 : "a credential goes to hosts that are named");
		return true;
	}
	if ((kind != PATTERN_ONE && kind != PATTERN_DEEP) || rules.use == HOSTS_DENY ||
	    rules.any_tenant || !is_public_suffix(base))
		return false;
	w->text = "a wildcard directly under a public suffix lets in everybody who registers a name there";
	snprintf(w->advice, ADVICE_MAX, "%s", rules.use == HOSTS_ALLOW
		 ? "name the owner's domain (\"*.owner.example\"), or say any_tenant: true"
		 : "a credential goes to the hosts of one owner: name its domain");
	return true;
}

/* Reads one pattern into @out. False: @w says what is wrong. */
static bool read_pattern(struct load *l, struct str text, struct hosts_rules rules, struct str *out,
			 struct wrong *w)
{
	struct host_pattern pattern;
	enum name_result r = pattern_canon(text, &pattern);
	struct str base;

	(void)pattern_kind(text, &base);
	if (r == NAME_LITERAL)
		judge_name(base, r, w);
	if (r == NAME_LITERAL || judge_url(text, w) || judge_stars(text, w))
		return false;
	if (r != NAME_OK) {
		judge_name(base, r, w);
		return false;
	}
	if (judge_breadth(&pattern, rules, w))
		return false;
	*out = arena_copy(&l->arena, str_n(pattern.s, pattern.n));
	return true;
}

void load_hosts(struct load *l, const struct yaml_node *list, struct hosts_rules rules,
		struct load_hosts *out)
{
	size_t n = schema_count(list);

	out->v = arena_take(&l->arena, n, sizeof(*out->v));
	out->at = arena_take(&l->arena, n, sizeof(*out->at));
	for (const struct yaml_node *i = list ? list->first : NULL; i && out->v &&
	     out->at; i = i->next) {
		struct wrong w = { 0 };

		if (read_pattern(l, i->text, rules, &out->v[out->n], &w))
			out->at[out->n++] = i->at;
		else
			diag_error(l->diags, i->at, w.advice[0] ? w.advice : NULL,
				   "host \"%.*s\": %s", STR_ARG(i->text), w.text);
	}
}

/* ---- hints ---- */

/* Lists this long were made by a program, which needs no hints. */
#define HINT_HOSTS_MAX 64
#define HINT_RULES_MAX 256

static bool is_allowed(const struct load *l, struct str host)
{
	for (size_t r = 0; r < l->n_rules; r++)
		for (size_t i = 0; !l->rules[r].b.deny && i < l->rules[r].hosts.n; i++)
			if (pattern_covers(l->rules[r].hosts.v[i], host))
				return true;
	return false;
}

/* The name that somebody registered, whose "www" is mostly meant, too. */
static bool is_registered(struct str host)
{
	struct str parent = name_parent(host);

	return parent.n && psl_is_public_suffix2(psl_builtin(), parent.p, PSL_TYPE_ICANN) != 0;
}

/* One hint a rule at most: of a long list the first says it all. */
static bool hint_host(struct load *l, const struct load_rule *r, size_t i)
{
	char www[PATTERN_MAX_LEN + 5];
	struct str base;
	enum pattern_kind kind = pattern_kind(r->hosts.v[i], &base);

	if (kind == PATTERN_ONE || kind == PATTERN_DEEP) {
		if (is_allowed(l, base))
			return false;
		diag_add(l->diags, DIAG_NOTE, r->hosts.at[i], NULL,
			 "\"%.*s\" does not match %.*s itself",
			 STR_ARG(r->hosts.v[i]), STR_ARG(base));
		return true;
	}
	if (kind == PATTERN_ANY || !is_registered(base))
		return false;
	snprintf(www, sizeof(www), "www.%.*s", STR_ARG(base));
	if (is_allowed(l, str_of(www)))
		return false;
	diag_add(l->diags, DIAG_NOTE, r->hosts.at[i], NULL,
		 "\"%.*s\" is that name alone: %s is another", STR_ARG(base), www);
	return true;
}

void load_hosts_hints(struct load *l)
{
	for (size_t r = 0; r < l->n_rules && l->n_rules <= HINT_RULES_MAX; r++) {
		const struct load_rule *rule = &l->rules[r];

		if (rule->b.deny || rule->hosts.n > HINT_HOSTS_MAX)
			continue;
		for (size_t i = 0; i < rule->hosts.n; i++)
			if (hint_host(l, rule, i))
				break;
	}
}
