/* Theory of operation
 *
 * Who asks is the box, by its wire; which name it means is to be said, so that a page of somebody
 * else's, open in a browser in the box, cannot read these by a name of its own that it lets resolve
 * here (DNS rebinding: its Host is not ours), nor ask for access (its Origin is not ours). No
 * answer has a field of CORS's.
 *
 * Pages come as JSON, or as text where the first kind in Accept that is known is text/plain, or
 * where ?format=text says so. What is wrong is told as a problem (RFC 9457).
 */
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/json.h"
#include "policy/name.h"
#include "policy/request_text.h"
#include "proxy/access_table.h"
#include "proxy/http1.h"
#include "proxy/notice_state.h"
#include "proxy/refusal_list.h"

#define TYPE_JSON "application/json"
#define TYPE_TEXT "text/plain; charset=utf-8"
#define PATHS "GET / (this network), GET /refusals, GET /policy, GET /check?method=METHOD&url=URL, "     \
	      "POST /request (method, url, reason), GET /ca.pem"

/* ---- replies ---- */

void notice_reply_init(struct notice_reply *r)
{
	*r = (struct notice_reply){ .status = 200, .type = TYPE_JSON, .refused = REFUSAL_COUNT };
	buf_init(&r->body, NOTICE_ANSWER_MAX);
}

void notice_reply_free(struct notice_reply *r)
{
	params_free(&r->params);
	buf_free(&r->body);
}

/* @name: what of the request the detail is about, or NULL. */
static void problem(struct notice_reply *r, unsigned status, const char *name, const char *detail)
{
	struct buf text;
	struct json j;

	buf_free(&r->body);
	buf_init(&r->body, NOTICE_ANSWER_MAX);
	buf_init(&text, 1024);
	buf_printf(&text, "%s%s%s", name ? name : "", name ? " " : "", detail);
	r->status = status;
	r->type = "application/problem+json";
	r->wait = WAIT_NONE;
	json_init(&j, &r->body);
	json_object(&j);
	json_put_str(&j, "type", STR("about:blank"));
	json_put_str(&j, "title", str_of(http1_reason(status)));
	json_put_u64(&j, "status", status);
	json_put_str(&j, "detail", buf_str(&text));
	if (r->retry_after)
		json_put_u64(&j, "retry_after", r->retry_after);
	json_object_end(&j);
	buf_put_c(&r->body, '\n');
	buf_free(&text);
}

void notice_problem(struct notice_reply *r, unsigned status, const char *detail)
{
	problem(r, status, NULL, detail);
}

/* ---- which form ---- */

static enum notice_form accepted_form(const struct fields *fields)
{
	struct str list, kind;

	if (!fields_get(fields, STR("accept"), &list))
		return FORM_JSON;
	while (list.n) {
		struct str item = str_cut(&list, ',');

		kind = str_trim(str_n(item.p, str_find(item, ';')));
		if (str_eq_nocase(kind, STR("text/plain")))
			return FORM_TEXT;
		if (str_eq_nocase(kind, STR("application/json")) || str_eq(kind, STR("*/*")))
			return FORM_JSON;
	}
	return FORM_JSON;
}

/* Reads the query into @p, to which "format" is added. False: the reply says what is wrong. */
static bool read_query(const struct notice_request *q, struct params *p, enum notice_form *form,
		       struct notice_reply *r)
{
	const char *why;
	struct str format;

	params_add(p, "format", 8);
	why = params_read_form(p, q->query);
	if (why) {
		problem(r, 400, p->wrong, why);
		return false;
	}
	format = params_get(p, "format");
	*form = accepted_form(q->fields);
	if (str_eq(format, STR("text")))
		*form = FORM_TEXT;
	else if (str_eq(format, STR("json")))
		*form = FORM_JSON;
	else if (p->v[p->n - 1].given) {
		problem(r, 400, "format", "is text or json");
		return false;
	}
	if (*form == FORM_TEXT)
		r->type = TYPE_TEXT;
	return true;
}

/* ---- pages ---- */

static const char index_text[] =
	"This is Exeat, the only way out of this sandbox.\n"
	"\n"
	"What a policy allows leaves; all else is refused. There is no other network here: no route,\n"
	"no UDP, no IPv6, and no other DNS server than this one. Nothing is gained by trying around it.\n"
	"\n"
	"A refusal is seen at once, and is no broken network:\n"
	"\n"
	"    a name that no rule allows           its address refuses every connection\n"
	"    a host, port or address not allowed  \"connection refused\", in under a millisecond\n"
	"    UDP (QUIC, too)                      port unreachable: use TCP\n"
	"    a TLS hello for another name         the alert unrecognized_name\n"
	"    a request that a rule denies         403, with the rule and its reason, as\n"
	"                                         application/problem+json and in Proxy-Status\n"
	"    an origin that fails                 502 or 504, with the exact error\n"
	"\n"
	"Each says by \"retry\" whether trying again can help: never, later, or ask. An answer without\n"
	"\"Proxy-Status: exeat\" is the origin's own.\n"
	"\n"
	"Credentials are not in here and are not needed: where a rule says so, one is put on outside.\n"
	"TLS is opened and made again on the way: the certificate that signs is at /ca.pem, and stands\n"
	"in this sandbox's store.\n"
	"\n"
	"Where to look (JSON; text with ?format=text):\n"
	"\n"
	"    " NOTICE_URL "/refusals   what was refused here last, and why\n"
	"    " NOTICE_URL "/policy     what may be reached from here\n"
	"    " NOTICE_URL "/check?method=GET&url=https%3A%2F%2Fhost%2Fpath\n"
	"                                      what would happen to a request, and what is near\n"
	"\n"
	"To ask for access, which somebody will look at, and which changes nothing until then:\n"
	"\n"
	"    curl " NOTICE_URL "/request --data-urlencode method=GET \\\n"
	"         --data-urlencode url=https://host/path --data-urlencode reason='what it is for'\n";

static void page_index(struct notice *n, const struct notice_request *q, struct notice_reply *r)
{
	(void)q;
	r->type = TYPE_TEXT;
	buf_put_str(&r->body, str_of(index_text));
	if (n->w->proxy_port)
		buf_printf(&r->body, "\nNo proxy has to be set. What only knows how to ask one finds it, "
			   "under the same rules, at\n" NOTICE_URL ":%u (CONNECT, whole URLs, SOCKS5).\n",
			   n->w->proxy_port);
	if (n->contact.n == 0)
		return;
	buf_put_str(&r->body, STR("\nWho runs this says:\n\n"));
	buf_put_str(&r->body, buf_str(&n->contact));
	buf_put_c(&r->body, '\n');
}

static void page_refusals(struct notice *n, const struct notice_request *q, struct notice_reply *r)
{
	struct params p = { 0 };
	enum notice_form form;
	struct json j;

	if (read_query(q, &p, &form, r) && form == FORM_TEXT) {
		refusal_list_text(n->w->refusals, &r->body);
	} else if (r->status == 200) {
		json_init(&j, &r->body);
		json_object(&j);
		json_key(&j, "refusals");
		refusal_list_json(n->w->refusals, &j);
		json_object_end(&j);
		buf_put_c(&r->body, '\n');
	}
	params_free(&p);
}

static void page_policy(struct notice *n, const struct notice_request *q, struct notice_reply *r)
{
	struct params p = { 0 };
	enum notice_form form;

	if (read_query(q, &p, &form, r))
		notice_put_policy(n, form, &r->body);
	params_free(&p);
}

/* ---- /check ---- */

static const char *verdict_text(enum verdict v)
{
	return v == VERDICT_ALLOW ? "allow" : v == VERDICT_DENY ? "deny" : "undecided";
}

static void put_check(const struct policy *p, const struct explain_request *e, enum verdict v,
		      struct str words, struct buf *out)
{
	struct decision d = policy_decide(p, &e->facts);
	struct rule_info rule = policy_rule(p, d.rule);
	struct json j;

	json_init(&j, out);
	json_object(&j);
	json_put_str(&j, "verdict", str_of(verdict_text(v)));
	/* No rule denies a path with two readings, or an address that a name may not have. */
	if (v == d.verdict) {
		json_put_str(&j, "rule", rule.id);
		if (rule.reason.n)
			json_put_str(&j, "reason", rule.reason);
	}
	if (v == VERDICT_DENY)
		json_put_str(&j, "retry", STR("ask"));
	json_key(&j, "explanation");
	json_array(&j);
	while (words.n)
		json_str(&j, str_cut(&words, '\n'));
	json_array_end(&j);
	json_object_end(&j);
	buf_put_c(out, '\n');
}

/* What explain has to say, in memory of its own. */
static void tell_check(struct notice *n, struct explain_request *e, enum notice_form form,
		       struct notice_reply *r)
{
	char *words = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&words, &size);
	enum verdict v;

	if (!to) {
		notice_problem(r, 503, "there is no memory for the answer");
		return;
	}
	e->for_box = true;
	v = policy_explain(n->w->policy, e, to);
	if (fclose(to) != 0)
		notice_problem(r, 503, "there is no memory for the answer");
	else if (form == FORM_TEXT)
		buf_put(&r->body, words, size);
	else
		put_check(n->w->policy, e, v, str_n(words, size), &r->body);
	free(words);
}

/* The request that @p names, or what is wrong with it. @parts: its path is inited. */
static bool read_asked(const struct params *p, struct request_text *parts,
		       struct explain_request *e, struct notice_reply *r)
{
	struct str method = params_get(p, "method"), url = params_get(p, "url");
	const char *why;

	if (method.n == 0)
		method = STR("GET");
	if (url.n == 0)
		why = "is missing: https://HOST/PATH, percent-encoded";
	else if (!http_all(url, HTTP_TARGET))
		why = "holds what a URL does not";
	else
		why = request_text_url(method, url, parts, e);
	if (why)
		problem(r, 400, "url:", why);
	return !why;
}

static void page_check(struct notice *n, const struct notice_request *q, struct notice_reply *r)
{
	struct params p = { 0 };
	struct explain_request e;
	struct request_text parts;
	enum notice_form form;

	params_add(&p, "method", ACCESS_METHOD_MAX);
	params_add(&p, "url", MSG_URL_MAX);
	buf_init(&parts.path, 3 * MSG_URL_MAX);
	if (read_query(q, &p, &form, r) && read_asked(&p, &parts, &e, r))
		tell_check(n, &e, form, r);
	buf_free(&parts.path);
	params_free(&p);
}

/* ---- /request ---- */

static bool is_type(const struct fields *fields, struct str type)
{
	struct str value;

	return fields_get(fields, STR("content-type"), &value) &&
	       str_eq_nocase(str_trim(str_n(value.p, str_find(value, ';'))), type);
}

static bool read_body(const struct notice_request *q, struct notice_reply *r)
{
	const char *why;

	params_add(&r->params, "method", ACCESS_METHOD_MAX);
	params_add(&r->params, "url", MSG_URL_MAX);
	params_add(&r->params, "reason", MSG_REASON_MAX);
	if (is_type(q->fields, STR("application/json"))) {
		why = params_read_json(&r->params, q->body);
	} else if (is_type(q->fields, STR("application/x-www-form-urlencoded"))) {
		why = params_read_form(&r->params, q->body);
	} else {
		notice_problem(r, 415, "application/json or application/x-www-form-urlencoded is wanted");
		return false;
	}
	if (why)
		problem(r, 400, r->params.wrong, why);
	return !why;
}

static void put_allowed(struct str rule, struct notice_reply *r)
{
	struct json j;

	json_init(&j, &r->body);
	json_object(&j);
	json_put_str(&j, "state", STR("allowed"));
	json_put_str(&j, "rule", rule);
	json_put_str(&j, "detail", STR("A rule allows this: nothing needs to be asked for."));
	json_object_end(&j);
	buf_put_c(&r->body, '\n');
}

static void page_request(struct notice *n, const struct notice_request *q, struct notice_reply *r)
{
	struct explain_request e;
	struct request_text parts;
	struct decision d;

	buf_init(&parts.path, 3 * MSG_URL_MAX);
	if (!read_body(q, r) || !read_asked(&r->params, &parts, &e, r))
		goto out;
	if (!r->params.v[0].given)
		buf_put_str(&r->params.v[0].value, STR("GET"));
	d = policy_decide(n->w->policy, &e.facts);
	if (d.verdict == VERDICT_ALLOW)
		put_allowed(policy_rule(n->w->policy, d.rule).id, r);
	else if (notice_allowed(&n->access, ACCESS_PER_MINUTE, ACCESS_PER_MINUTE, &r->retry_after))
		r->wait = WAIT_ACCESS;
	else
		notice_problem(r, 429, "too many requests for access in a minute");
out:
	buf_free(&parts.path);
}

void notice_answer_access(const struct msg_access_taken *m, struct notice_reply *r)
{
	struct buf why;
	struct json j;

	if (m->number == 0) {
		buf_init(&why, 1100);
		buf_put_str(&why, m->why);
		buf_put_c(&why, '\0');
		r->retry_after = 60;
		notice_problem(r, 503, why.failed ? "it was not taken" : why.p);
		buf_free(&why);
		return;
	}
	r->wait = WAIT_NONE;
	r->status = 202;
	json_init(&j, &r->body);
	json_object(&j);
	json_put_u64(&j, "number", m->number);
	json_put_str(&j, "state", STR("open"));
	json_put_str(&j, "detail",
		     STR("This is on record, and will be looked at. Until then nothing has changed."));
	json_object_end(&j);
	buf_put_c(&r->body, '\n');
}

/* ---- /ca.pem ---- */

static void put_ca(struct notice *n, struct notice_reply *r)
{
	r->type = "application/x-pem-file";
	buf_put_str(&r->body, buf_str(&n->ca));
}

static void page_ca(struct notice *n, const struct notice_request *q, struct notice_reply *r)
{
	(void)q;
	if (n->ca.n)
		put_ca(n, r);
	else
		r->wait = WAIT_CA;
}

static bool keep_ca(struct notice *n, struct str der)
{
	const unsigned char *p = (const unsigned char *)der.p;
	X509 *cert = der.n ? d2i_X509(NULL, &p, (long)der.n) : NULL;
	BIO *bio = cert ? BIO_new(BIO_s_mem()) : NULL;
	char *text = NULL;
	long size = 0;

	if (bio && PEM_write_bio_X509(bio, cert) == 1)
		size = BIO_get_mem_data(bio, &text);
	if (size > 0)
		buf_put(&n->ca, text, (size_t)size);
	BIO_free(bio);
	X509_free(cert);
	return size > 0 && !n->ca.failed;
}

void notice_answer_ca(struct notice *n, struct str der, struct notice_reply *r)
{
	r->wait = WAIT_NONE;
	if (n->ca.n || keep_ca(n, der)) {
		put_ca(n, r);
		return;
	}
	r->retry_after = REFUSAL_RETRY_S;
	notice_problem(r, 503, "the certificate cannot be had now");
}

/* ---- which page ---- */

typedef void page_fn(struct notice *n, const struct notice_request *q, struct notice_reply *r);

static const struct page {
	const char *path;
	page_fn *get, *post;
} pages[] = {
	{ "/", page_index, NULL },
	{ "/refusals", page_refusals, NULL },
	{ "/policy", page_policy, NULL },
	{ "/check", page_check, NULL },
	{ "/request", NULL, page_request },
	{ "/ca.pem", page_ca, NULL },
};

static const struct page *find_page(struct str path)
{
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		if (str_eq(str_of(pages[i].path), path))
			return &pages[i];
	return NULL;
}

static bool is_here(const struct notice *n, struct str authority)
{
	struct str host;
	struct addr a;
	struct name name;
	uint16_t port;
	enum name_result result = name_split_authority(authority, &host, &port);

	if ((result != NAME_OK && result != NAME_LITERAL) || (port != 0 && port != 80))
		return false;
	if (name_canon(host, &name) == NAME_OK)
		return str_eq(name_str(&name), STR(NOTICE_NAME));
	return addr_parse(host, &a) && a.family == 4 && addr_to_v4(&a) == n->w->gateway;
}

/* HTTP/1.0 may leave Host out; no browser does. */
static bool check_sender(struct notice *n, const struct notice_request *q, struct notice_reply *r)
{
	struct str host, origin;

	r->refused = REFUSAL_host_mismatch;
	if (fields_get(q->fields, STR("host"), &host) && !is_here(n, host)) {
		notice_problem(r, 421, "this is " NOTICE_URL "/, and no other host is here");
		return false;
	}
	if (fields_get(q->fields, STR("origin"), &origin) &&
	    !(str_starts(origin, STR("http://")) && is_here(n, str_from(origin, 7)))) {
		notice_problem(r, 403, "pages of other origins may not use this one");
		return false;
	}
	r->refused = REFUSAL_COUNT;
	return true;
}

void notice_answer(struct notice *n, const struct notice_request *q, struct notice_reply *r)
{
	const struct page *page = find_page(q->path);
	bool get = str_eq(q->method, STR("GET")) || str_eq(q->method, STR("HEAD"));
	page_fn *fn = !page ? NULL : get ? page->get : str_eq(q->method, STR("POST")) ? page->post : NULL;

	if (!check_sender(n, q, r))
		return;
	if (!page) {
		notice_problem(r, 404, "there is no such page; there are " PATHS);
	} else if (!fn) {
		r->allow = page->get ? "GET, HEAD" : "POST";
		notice_problem(r, 405, "the page has other methods, see Allow");
	} else {
		fn(n, q, r);
	}
}
