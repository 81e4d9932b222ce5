#include "proxy/access_rule.h"

#include <stdio.h>

#include "conf/date.h"
#include "conf/json.h"
#include "policy/path.h"
#include "policy/request_text.h"

#define RULE_PATH_MAX 2048u	/* the longest that a policy file may have */

/* A JSON text is a double-quoted scalar of YAML, too. */
static void put_list(struct buf *out, const char *key, struct str item)
{
	struct json j;

	buf_printf(out, "    %s: ", key);
	json_init(&j, out);
	json_array(&j);
	json_str(&j, item);
	json_array_end(&j);
	buf_put_c(out, '\n');
}

/* In a pattern a star is a wildcard, and its escape a plain star. */
static void put_path(struct buf *out, struct str path)
{
	struct buf pattern;

	buf_init(&pattern, 3 * RULE_PATH_MAX);
	for (size_t i = 0; i < path.n; i++) {
		if (path.p[i] == '*')
			buf_put_str(&pattern, STR("%2A"));
		else
			buf_put_c(&pattern, path.p[i]);
	}
	put_list(out, "paths", buf_str(&pattern));
	out->failed |= pattern.failed;
	buf_free(&pattern);
}

static void put_head(const struct access *a, struct buf *out)
{
	struct json j;

	buf_printf(out, "  # request %u of ", a->number);
	json_init(&j, out);
	json_str(&j, a->sandbox);
	buf_put_str(out, STR(": "));
	buf_put_str(out, a->method);
	buf_put_c(out, ' ');
	buf_put_str(out, a->url);
	buf_put_c(out, '\n');
}

static bool put_effect(const struct policy *p, const struct facts *f, struct buf *out)
{
	struct decision d = policy_decide(p, f);
	struct rule_info rule = policy_rule(p, d.rule);

	if (d.verdict == VERDICT_ALLOW)
		buf_printf(out, "  # rule %.*s allows it by now\n", STR_ARG(rule.id));
	else if (d.verdict == VERDICT_DENY && d.rule.rule != RULE_DEFAULT)
		buf_printf(out, "  # rule %.*s denies it, and a deny wins: a rule that allows it changes nothing\n",
			   STR_ARG(rule.id));
	return d.verdict != VERDICT_ALLOW;
}

static void put_rule(const struct access *a, const struct facts *f, struct buf *out)
{
	/* Raw TCP has none. */
	uint16_t usual = f->proto == PROTO_HTTP ? 80 : f->proto == PROTO_HTTPS ? 443 : 0;
	char date[DATE_TEXT_MAX], address[ADDR_TEXT_MAX];

	date_format(a->asked_us, date);
	buf_printf(out, "  - id: request-%.4s%.2s%.2s-%u\n", date, date + 5, date + 8, a->number);
	if (f->literal)
		put_list(out, "addresses", str_of(addr_format(&f->addr, address)));
	else
		put_list(out, "hosts", f->host);
	if (f->port != usual)
		buf_printf(out, "    ports: [%u]\n", f->port);
	if (f->proto == PROTO_TCP) {
		buf_put_str(out, STR("    protocol: tcp\n"));
		return;
	}
	if (f->proto == PROTO_HTTP)
		buf_put_str(out, STR("    protocol: http\n"));
	put_list(out, "methods", f->method);
	put_path(out, f->path);
}

void access_rule_put(const struct access *a, const struct policy *p, struct buf *out)
{
	struct explain_request request;
	struct request_text parts;
	const char *why;

	buf_init(&parts.path, 3 * MSG_URL_MAX);
	why = request_text_url(a->method, a->url, &parts, &request);
	put_head(a, out);
	if (!why && request.kind == EXPLAIN_REQUEST && request.facts.path.n == 0)
		why = "its path can be read in more than one way";
	if (!why && parts.path.n > RULE_PATH_MAX)
		why = "its path is longer than a rule's may be";
	if (why)
		buf_printf(out, "  # no rule can allow just that: %s\n", why);
	else if (!p || put_effect(p, &request.facts, out))
		put_rule(a, &request.facts, out);
	buf_free(&parts.path);
}
