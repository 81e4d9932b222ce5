/* Theory of operation
 *
 * The page of the policy is put together once for each policy and form, and kept: reading a large
 * policy's host table takes milliseconds, which a box is not to cost its worker at will.
 *
 * It is as long as NOTICE_ANSWER_MAX lets it be. Of a rule at most ITEMS_MAX items of a kind are
 * told; a rule that is too long even so is told without them; rules that find no room are counted.
 * What there is in all stands at the end, with a note where something was left out.
 */
#include <stdio.h>

#include "conf/json.h"
#include "policy/limits_text.h"
#include "policy/list.h"
#include "proxy/notice_state.h"

#define ITEMS_MAX 100u
#define ITEM_MAX 8192u
#define RULE_MAX (64u << 10)
#define END_MAX 1024u		/* kept free for what stands at the end */

struct totals {
	size_t rules[2], told[2];	/* allow, deny */
	size_t hosts;
	bool cut;
};

struct page {
	const struct policy *p;
	struct policy_list *list;
	enum notice_form form;
	struct totals totals;
};

static const char *const kind_names[LISTED_KINDS] = {
	[LISTED_HOSTS] = "hosts", [LISTED_ADDRESSES] = "addresses", [LISTED_PORTS] = "ports",
	[LISTED_PROTOCOLS] = "protocols", [LISTED_METHODS] = "methods", [LISTED_PATHS] = "paths",
};

/* ---- items ---- */

static size_t items_told(const struct page *page, struct rule_ref ref, enum listed what)
{
	size_t kept = policy_list_kept(page->list, ref, what);

	return kept < ITEMS_MAX ? kept : ITEMS_MAX;
}

static void put_items_json(const struct page *page, struct rule_ref ref, enum listed what,
			   struct json *j)
{
	size_t n = items_told(page, ref, what);
	struct buf item;

	json_key(j, kind_names[what]);
	json_array(j);
	for (size_t i = 0; i < n; i++) {
		buf_init(&item, ITEM_MAX);
		policy_list_item(page->list, ref, what, i, &item);
		json_str(j, buf_str(&item));
		buf_free(&item);
	}
	json_array_end(j);
}

static void put_items_text(struct page *page, struct rule_ref ref, enum listed what,
			   struct buf *out)
{
	size_t n = items_told(page, ref, what), all = policy_list_count(page->list, ref, what);

	buf_printf(out, "    %s:", kind_names[what]);
	for (size_t i = 0; i < n; i++) {
		buf_put_c(out, ' ');
		policy_list_item(page->list, ref, what, i, out);
	}
	if (all > n)
		buf_printf(out, " and %zu more", all - n);
	page->totals.cut |= all > n;
	buf_put_c(out, '\n');
}

/* ---- a rule ---- */

/* Without hosts and addresses a rule is about any host (only a deny can be). */
static bool is_about_any(const struct page *page, struct rule_ref ref)
{
	return policy_list_count(page->list, ref, LISTED_HOSTS) == 0 &&
	       policy_list_count(page->list, ref, LISTED_ADDRESSES) == 0;
}

/* What is let through only so often, so much or so long: who is held to it may know. */
static void put_limits_json(const struct rule_limits *k, struct json *j)
{
	char value[LIMIT_TEXT_MAX];
	bool any = false;

	for (enum limit kind = 0; kind < LIMIT_KINDS; kind++) {
		if (!limit_value(k, kind, value))
			continue;
		if (!any) {
			json_key(j, "limits");
			json_object(j);
		}
		any = true;
		json_put_str(j, limit_name(kind), str_of(value));
	}
	if (any)
		json_object_end(j);
}

static void put_rule_json(struct page *page, struct rule_ref ref, bool items, struct buf *out)
{
	struct rule_info rule = policy_rule(page->p, ref);
	struct json j;

	json_init(&j, out);
	json_object(&j);
	json_put_str(&j, "id", rule.id);
	if (rule.reason.n)
		json_put_str(&j, "reason", rule.reason);
	if (is_about_any(page, ref))
		json_put_bool(&j, "any_host", true);
	for (enum listed what = 0; what < LISTED_KINDS; what++) {
		size_t all = policy_list_count(page->list, ref, what);

		if (all == 0)
			continue;
		if (items)
			put_items_json(page, ref, what, &j);
		if (!items || all > items_told(page, ref, what)) {
			char key[32];

			snprintf(key, sizeof(key), "%s_total", kind_names[what]);
			json_put_u64(&j, key, all);
			page->totals.cut = true;
		}
	}
	if (rule.passthrough)
		json_put_str(&j, "tls", STR("passthrough"));
	if (rule.credential != NO_CREDENTIAL)
		json_put_bool(&j, "credential", true);
	put_limits_json(&rule.limits, &j);
	json_object_end(&j);
}

static void put_rule_text(struct page *page, struct rule_ref ref, bool items, struct buf *out)
{
	struct rule_info rule = policy_rule(page->p, ref);
	struct buf limits;

	buf_printf(out, "  %.*s%s%.*s\n", STR_ARG(rule.id), rule.reason.n ? ": " : "",
		   STR_ARG(rule.reason));
	if (is_about_any(page, ref))
		buf_put_str(out, STR("    any host\n"));
	for (enum listed what = 0; what < LISTED_KINDS && items; what++)
		if (policy_list_count(page->list, ref, what))
			put_items_text(page, ref, what, out);
	if (!items)
		buf_put_str(out, STR("    too long to be told here\n"));
	page->totals.cut |= !items;
	if (rule.passthrough)
		buf_put_str(out, STR("    tls: passthrough\n"));
	if (rule.credential != NO_CREDENTIAL)
		buf_put_str(out, STR("    a credential is put on, outside of here\n"));
	buf_init(&limits, ITEM_MAX);
	limits_put(&rule.limits, &limits);
	if (limits.n)
		buf_printf(out, "    limits: %.*s\n", STR_ARG(buf_str(&limits)));
	buf_free(&limits);
}

static void put_rule(struct page *page, struct rule_ref ref, bool items, struct buf *out)
{
	if (page->form == FORM_JSON)
		put_rule_json(page, ref, items, out);
	else
		put_rule_text(page, ref, items, out);
}

/* False: it finds no room. */
static bool add_rule(struct page *page, struct rule_ref ref, bool first, struct buf *out)
{
	struct buf one;
	bool fits;

	buf_init(&one, RULE_MAX);
	put_rule(page, ref, true, &one);
	if (one.failed) {
		buf_free(&one);
		buf_init(&one, RULE_MAX);
		put_rule(page, ref, false, &one);
	}
	fits = !one.failed && out->n + one.n + END_MAX < NOTICE_ANSWER_MAX;
	if (fits && !first && page->form == FORM_JSON)
		buf_put_c(out, ',');
	if (fits)
		buf_put_str(out, buf_str(&one));
	buf_free(&one);
	return fits;
}

/* ---- the page ---- */

static void put_rules(struct page *page, bool deny, struct buf *out)
{
	for (uint16_t image = 0; image < policy_images(page->p); image++) {
		for (uint32_t rule = 0; rule < policy_rules(page->p, image); rule++) {
			struct rule_ref ref = { image, rule };

			if (policy_rule(page->p, ref).deny != deny)
				continue;
			page->totals.rules[deny]++;
			page->totals.hosts += policy_list_count(page->list, ref, LISTED_HOSTS);
			if (page->totals.told[deny] + 1 == page->totals.rules[deny] &&
			    add_rule(page, ref, page->totals.told[deny] == 0, out))
				page->totals.told[deny]++;
			else
				page->totals.cut = true;
		}
	}
}

#define CUT_NOTE "Not all of the policy is told here; /check answers for any one request."

static void put_json(struct page *page, struct buf *out)
{
	const struct totals *t = &page->totals;

	buf_printf(out, "{\"policy\":\"%.*s\",\"default\":\"deny\",\"precedence\":\"deny-over-allow\",\"allow\":[",
		   STR_ARG(policy_digest(page->p)));
	put_rules(page, false, out);
	buf_put_str(out, STR("],\"deny\":["));
	put_rules(page, true, out);
	buf_printf(out, "],\"total\":{\"allow\":%zu,\"deny\":%zu,\"hosts\":%zu},\"complete\":%s", t->rules[0],
		   t->rules[1], t->hosts, t->cut ? "false" : "true");
	if (t->cut)
		buf_put_str(out, STR(",\"note\":\"" CUT_NOTE "\""));
	buf_put_str(out, STR("}\n"));
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static void put_text(struct page *page, struct buf *out)
{
	const struct totals *t = &page->totals;

	buf_put_str(out, STR("What this sandbox may reach. A deny wins over any allow; what no rule allows is refused.\n\nallow:\n"));
	put_rules(page, false, out);
	buf_put_str(out, STR("\ndeny:\n"));
	put_rules(page, true, out);
	buf_printf(out, "\n%zu allow rule%s, %zu deny rule%s, %zu host%s named in them.\n",
		   t->rules[0], plural(t->rules[0]), t->rules[1], plural(t->rules[1]), t->hosts,
		   plural(t->hosts));
	if (t->cut)
		buf_put_str(out, STR(CUT_NOTE "\n"));
}

static void make_page(struct notice *n, enum notice_form form)
{
	struct buf *out = &n->policy_page[form];
	struct page page = { .p = n->w->policy, .form = form };

	page.list = policy_list_new(page.p);
	if (!page.list)
		return;
	if (form == FORM_JSON)
		put_json(&page, out);
	else
		put_text(&page, out);
	policy_list_free(page.list);
}

static void forget_pages(struct notice *n)
{
	for (size_t i = 0; i < 2; i++) {
		buf_free(&n->policy_page[i]);
		buf_init(&n->policy_page[i], NOTICE_ANSWER_MAX);
	}
	snprintf(n->policy_digest, sizeof(n->policy_digest), "%.*s",
		 STR_ARG(policy_digest(n->w->policy)));
}

void notice_put_policy(struct notice *n, enum notice_form form, struct buf *out)
{
	if (!str_eq(policy_digest(n->w->policy), str_of(n->policy_digest)))
		forget_pages(n);
	if (n->policy_page[form].n == 0)
		make_page(n, form);
	if (n->policy_page[form].failed || n->policy_page[form].n == 0)
		out->failed = true;
	else
		buf_put_str(out, buf_str(&n->policy_page[form]));
}
