#include "proxy/cmd_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "policy/path.h"
#include "proxy/reader_client.h"

#define REQUEST_MAX 65536

struct options {
	const char *verb, *file, *settings;
	struct buf request;
};

static int usage(void)
{
	fputs("usage: exeat policy check FILE [--settings FILE]\n"
	      "       exeat policy explain FILE REQUEST [--settings FILE]\n"
	      "       REQUEST: \"GET https://HOST/PATH\", \"connect HOST:PORT\" or \"resolve NAME\"\n", stderr);
	return EX_USAGE;
}

/* ---- REQUEST ---- */

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

static const char *read_url(struct str method, struct str url, struct request_text *parts,
			    struct explain_request *out)
{
	struct facts *f = &out->facts;
	struct str rest = url;
	size_t end;
	const char *wrong;

	if (!str_is_token(method))
		return "the method is no token (RFC 9110 5.6.2)";
	f->proto = str_starts(url, STR("https://")) ? PROTO_HTTPS
		 : str_starts(url, STR("http://")) ? PROTO_HTTP : PROTO_UNKNOWN;
	if (f->proto == PROTO_UNKNOWN)
		return "a URL starts with https:// or http://";
	rest = str_from(rest, f->proto == PROTO_HTTPS ? 8 : 7);
	end = str_find(str_n(rest.p, str_find(str_n(rest.p, str_find(rest, '#')), '?')), '/');
	if (str_find(str_n(rest.p, end), '@') < end)
		return "a URL with a user in it is never sent";
	wrong = read_authority(str_n(rest.p, end), f->proto == PROTO_HTTPS ? 443 : 80, parts, f);
	if (wrong)
		return wrong;
	f->method = method;
	out->kind = EXPLAIN_REQUEST;
	return read_path(str_from(rest, end), parts, f);
}

const char *cmd_policy_request(struct str text, struct request_text *parts,
			       struct explain_request *out)
{
	struct str rest = text, verb = str_cut(&rest, ' ');
	const char *wrong;

	*out = (struct explain_request){ .url = rest };
	if (rest.n == 0 || str_find(rest, ' ') < rest.n)
		return "two words are wanted";
	if (str_eq(verb, STR("resolve"))) {
		out->kind = EXPLAIN_RESOLVE;
		wrong = read_host(rest, parts, &out->facts);
		return !wrong && out->facts.literal ? "an address is not resolved: ask \"connect\"" : wrong;
	}
	if (str_eq(verb, STR("connect"))) {
		out->kind = EXPLAIN_CONNECT;
		return read_authority(rest, 0, parts, &out->facts);
	}
	return read_url(verb, rest, parts, out);
}

/* ---- commands ---- */

static bool take_word(struct options *o, const char *word)
{
	if (!o->verb)
		o->verb = word;
	else if (!o->file)
		o->file = word;
	else {
		if (o->request.n)
			buf_put_c(&o->request, ' ');
		buf_put_str(&o->request, str_of(word));
	}
	return !o->request.failed;
}

static bool parse_options(int argc, char **argv, struct options *o)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--settings") == 0 && i + 1 < argc && !o->settings)
			o->settings = argv[++i];
		else if (strncmp(argv[i], "--", 2) == 0 || !take_word(o, argv[i]))
			return false;
	}
	if (!o->verb || !o->file)
		return false;
	return strcmp(o->verb, "check") == 0 ? o->request.n == 0
	     : strcmp(o->verb, "explain") == 0 && o->request.n > 0;
}

static struct policy *load_policy(const struct options *o, unsigned *warnings)
{
	struct settings *settings = o->settings ? settings_load(o->settings) : NULL;
	struct policy *p = NULL;
	int memfd = -1;
	enum err e;

	if ((o->settings && !settings) || !reader_compile(o->file, settings, &memfd, warnings))
		goto out;
	e = policy_map(&memfd, 1, &p);
	if (e != OK) {
		fprintf(stderr, "exeat: %s: the image that was compiled of it is not valid: %s\n",
			o->file,
			err_text(e));
		p = NULL;
	}
	close(memfd);
out:
	settings_free(settings);
	return p;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static int check(const struct options *o)
{
	unsigned warnings = 0;
	struct policy *p = load_policy(o, &warnings);
	size_t allows = 0, denies = 0;

	if (!p)
		return EXIT_FAILURE;
	for (uint32_t i = 0; i < policy_rules(p, 0); i++) {
		if (policy_rule(p, (struct rule_ref){ .rule = i }).deny)
			denies++;
		else
			allows++;
	}
	printf("%s: loads: %zu allow rule%s, %zu deny rule%s, %u warning%s\n", o->file, allows,
	       plural(allows),
	       denies, plural(denies), warnings, plural(warnings));
	policy_free(p);
	return EXIT_SUCCESS;
}

static int explain(const struct options *o)
{
	struct request_text parts;
	struct explain_request request;
	const char *wrong;
	struct policy *p = NULL;
	int status = EX_USAGE;

	buf_init(&parts.path, REQUEST_MAX);
	wrong = cmd_policy_request(buf_str(&o->request), &parts, &request);
	if (wrong) {
		fprintf(stderr, "exeat: \"%.*s\": %s\n", STR_ARG(buf_str(&o->request)), wrong);
		goto out;
	}
	status = EXIT_FAILURE;
	p = load_policy(o, NULL);
	if (!p)
		goto out;
	(void)policy_explain(p, &request, stdout);
	status = fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
out:
	policy_free(p);
	buf_free(&parts.path);
	return status;
}

int cmd_policy(int argc, char **argv)
{
	struct options o = { 0 };
	int status;

	buf_init(&o.request, REQUEST_MAX);
	if (!parse_options(argc, argv, &o))
		status = usage();
	else
		status = strcmp(o.verb, "check") == 0 ? check(&o) : explain(&o);
	buf_free(&o.request);
	return status;
}
