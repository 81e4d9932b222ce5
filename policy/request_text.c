#include "policy/request_text.h"

#include "policy/path.h"

static const char *read_host(struct str host, struct request_text *parts, struct facts *f)
{
	enum name_result r = name_canon(host, &parts->host);
	struct str bare = host;

	if (r == NAME_OK) {
		f->host = name_str(&parts->host);
		return NULL;
	}
	if (r != NAME_LITERAL)
		return name_result_text(r);
	if (bare.n > 2 && bare.p[0] == '[')
		bare = str_n(bare.p + 1, bare.n - 2);
	f->literal = true;
	return addr_parse(bare, &f->addr) ? NULL : name_result_text(r);
}

static const char *read_authority(struct str authority, uint16_t port_default,
				  struct request_text *parts, struct facts *f)
{
	struct str host;
	enum name_result r = name_split_authority(authority, &host, &f->port);

	if (r != NAME_OK && r != NAME_LITERAL)
		return name_result_text(r);
	if (f->port == 0)
		f->port = port_default;
	if (f->port == 0)
		return "a port is missing: HOST:PORT";
	return read_host(host, parts, f);
}

static const char *read_path(struct str rest, struct request_text *parts, struct facts *f)
{
	const char *why = NULL;
	struct str path;

	path = str_n(rest.p, str_find(str_n(rest.p, str_find(rest, '#')), '?'));
	if (path.n == 0)
		path = STR("/");
	switch (path_normalise(path, &parts->path, &why)) {
	case PATH_OK:
		f->path = buf_str(&parts->path);
		return NULL;
	case PATH_AMBIGUOUS:	/* refused where paths matter: explain tells it */
		return NULL;
	case PATH_BAD:
		break;
	}
	return why;
}

/* A raw connection: no method and no path. */
static const char *read_tcp(struct str rest, struct request_text *parts,
			    struct explain_request *out)
{
	out->kind = EXPLAIN_CONNECT;
	out->facts.proto = PROTO_TCP;
	if (str_find(rest, '@') < rest.n)
		return "a URL with a user in it is never sent";
	if (str_find(rest, '/') < rest.n || str_find(rest, '?') < rest.n ||
	    str_find(rest, '#') < rest.n)
		return "a raw connection has no path: tcp://HOST:PORT";
	return read_authority(rest, 0, parts, &out->facts);
}

const char *request_text_url(struct str method, struct str url, struct request_text *parts,
			     struct explain_request *out)
{
	struct facts *f = &out->facts;
	struct str rest = url;
	size_t end;
	const char *wrong;

	*out = (struct explain_request){ .kind = EXPLAIN_REQUEST, .url = url };
	if (!str_is_token(method))
		return "the method is no token (RFC 9110 5.6.2)";
	if (str_starts(url, STR("tcp://")))
		return read_tcp(str_from(url, 6), parts, out);
	f->proto = str_starts(url, STR("https://")) ? PROTO_HTTPS
		 : str_starts(url, STR("http://")) ? PROTO_HTTP : PROTO_UNKNOWN;
	if (f->proto == PROTO_UNKNOWN)
		return "a URL that starts with https://, http:// or tcp:// is wanted: \"GET https://HOST/PATH\"";
	rest = str_from(rest, f->proto == PROTO_HTTPS ? 8 : 7);
	end = str_find(str_n(rest.p, str_find(str_n(rest.p, str_find(rest, '#')), '?')), '/');
	if (str_find(str_n(rest.p, end), '@') < end)
		return "a URL with a user in it is never sent";
	wrong = read_authority(str_n(rest.p, end), f->proto == PROTO_HTTPS ? 443 : 80, parts, f);
	if (wrong)
		return wrong;
	f->method = method;
	return read_path(str_from(rest, end), parts, f);
}

const char *request_text_read(struct str text, struct request_text *parts,
			      struct explain_request *out)
{
	struct str rest = text, verb = str_cut(&rest, ' ');
	const char *wrong;

	*out = (struct explain_request){ .url = rest };
	if (!rest.p && str_starts(text, STR("tcp://")))
		return read_tcp(str_from(text, 6), parts, out);
	if (rest.n == 0 || str_find(rest, ' ') < rest.n)
		return "two words are wanted: \"GET https://HOST/PATH\", \"connect HOST:PORT\" or "
		       "\"resolve NAME\"; or one: \"tcp://HOST:PORT\"";
	if (str_eq(verb, STR("resolve"))) {
		out->kind = EXPLAIN_RESOLVE;
		wrong = read_host(rest, parts, &out->facts);
		return !wrong && out->facts.literal ? "an address is not resolved: ask \"connect\"" : wrong;
	}
	if (str_eq(verb, STR("connect"))) {
		out->kind = EXPLAIN_CONNECT;
		return read_authority(rest, 0, parts, &out->facts);
	}
	return request_text_url(verb, rest, parts, out);
}
