/* A box's query, form or JSON, as the notice page reads it: the first byte says which. What was read is within its
 * limits, is text, and reads the same when it is written down again; a URL in it is read as explain reads it. */
#include <stdlib.h>

#include "conf/json.h"
#include "conf/utf8.h"
#include "policy/request_text.h"
#include "proxy/params.h"

#define URL_MAX 256
#define METHOD_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void init(struct params *p)
{
	*p = (struct params){ 0 };
	params_add(p, "method", METHOD_MAX);
	params_add(p, "url", URL_MAX);
}

static void check_text(struct str s, size_t max)
{
	uint32_t c;

	if (s.n > max)
		abort();
	while (s.n) {
		size_t n = utf8_next(s, &c);

		if (n == 0 || c < 0x20)
			abort();
		s = str_from(s, n);
	}
}

static void write_form(const struct params *p, struct buf *out)
{
	for (size_t i = 0; i < p->n; i++) {
		struct str v = buf_str(&p->v[i].value);

		if (!p->v[i].given)
			continue;
		buf_printf(out, "%s%s=", out->n ? "&" : "", p->v[i].name);
		for (size_t k = 0; k < v.n; k++)
			buf_printf(out, "%%%02X", (unsigned char)v.p[k]);
	}
}

static void write_json(const struct params *p, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_object(&j);
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].given)
			json_put_str(&j, p->v[i].name, buf_str(&p->v[i].value));
	json_object_end(&j);
}

static void check_again(const struct params *p, bool json)
{
	struct params again;
	struct buf text;

	init(&again);
	buf_init(&text, 1u << 20);
	(json ? write_json : write_form)(p, &text);
	if (json ? params_read_json(&again, buf_str(&text)) : params_read_form(&again, buf_str(&text)))
		abort();
	for (size_t i = 0; i < p->n; i++)
		if (again.v[i].given != p->v[i].given ||
		    !str_eq(buf_str(&again.v[i].value), buf_str(&p->v[i].value)))
			abort();
	buf_free(&text);
	params_free(&again);
}

static void check_url(struct str method, struct str url)
{
	struct explain_request request;
	struct request_text parts;

	buf_init(&parts.path, 3 * URL_MAX);
	if (!request_text_url(method, url, &parts, &request) &&
	    (request.facts.port == 0 || request.facts.literal == (request.facts.host.n != 0)))
		abort();
	buf_free(&parts.path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data + 1, size ? size - 1 : 0);
	bool json = size && data[0] == '{';
	struct params p;
	const char *why;

	if (size == 0)
		return 0;
	init(&p);
	why = json ? params_read_json(&p, str_n((const char *)data, size)) : params_read_form(&p, text);
	if (!why) {
		check_text(params_get(&p, "method"), METHOD_MAX);
		check_text(params_get(&p, "url"), URL_MAX);
		check_again(&p, json);
		check_url(params_get(&p, "method"), params_get(&p, "url"));
	}
	params_free(&p);
	return 0;
}
