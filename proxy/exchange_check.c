/* Theory of operation
 *
 * A request names its host up to three times: by the connection (the name that was resolved, the
 * SNI), by Host, and by an absolute-form target. All must be one name in its canonical form; the
 * connection's is the one that is used. Its path is judged in one reading (policy/path.h), and that
 * reading is what goes to the origin.
 */

#include "policy/name.h"
#include "policy/path.h"
#include "proxy/exchange_state.h"

/* On the refusal address only the request says which name it is about. */
struct str exchange_host(const struct exchange *x)
{
	return x->env->site.name.n ? x->env->site.name : name_str(&x->host_sent);
}

struct facts exchange_facts(const struct exchange *x)
{
	const struct exchange_env *env = x->env;
	struct facts f = { .literal = env->site.literal,
			   .port = env->site.port,
			   .proto = env->site.proto,
			   .method = buf_str(&x->method),
			   .path = buf_str(&x->path) };

	if (env->site.literal)
		f.addr = env->literal;
	else
		f.host = exchange_host(x);
	return f;
}

/* ---- host ---- */

static bool is_literal(const struct exchange *x, struct str host)
{
	struct addr a;

	if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = str_n(host.p + 1, host.n - 2);
	return addr_parse(host, &a) && addr_eq(&a, &x->env->literal);
}

/* One authority against the connection's name and port. */
static bool check_authority(struct exchange *x, struct str authority)
{
	const struct site *site = &x->env->site;
	struct str host;
	uint16_t port;
	struct name name;
	enum name_result r = name_split_authority(authority, &host, &port);

	if (r == NAME_OK || r == NAME_LITERAL)
		r = name_canon(host, &name);
	if (r != NAME_OK && r != NAME_LITERAL) {
		exchange_refuse(x, REFUSAL_bad_host, str_of(name_result_text(r)));
		return false;
	}
	if (site->name.n == 0 && r == NAME_OK)
		x->host_sent = name;
	if (port != 0 && port != site->port) {
		exchange_refuse(x, REFUSAL_host_mismatch, STR("the port is not the connection's"));
		return false;
	}
	if (site->name.n == 0)
		return true;
	if (site->literal ? !is_literal(x, host)
			  : r != NAME_OK || !str_eq(name_str(&name), site->name)) {
		exchange_refuse(x, REFUSAL_host_mismatch,
				site->literal ? STR("literal address, no rule for the name") : authority);
		return false;
	}
	return true;
}

static bool check_host(struct exchange *x, const struct http1_target *target)
{
	struct str host, scheme = x->env->site.proto == PROTO_HTTPS ? STR("https") : STR("http");

	if (fields_get(&x->fields, STR("host"), &host) && !check_authority(x, host))
		return false;
	fields_remove(&x->fields, STR("host"));
	if (target->form != TARGET_ABSOLUTE)
		return true;
	if (!str_eq_nocase(target->scheme, scheme)) {
		exchange_refuse(x, REFUSAL_host_mismatch, STR("the scheme is not the connection's"));
		return false;
	}
	return check_authority(x, target->authority);
}

/* ---- path ---- */

static bool check_path(struct exchange *x, const struct http1_target *target)
{
	const char *why = "";
	enum path_result r;

	buf_put_str(&x->query, target->query);
	if (str_eq(target->path, STR("*"))) {
		buf_put_str(&x->path, target->path);
		return true;
	}
	r = path_normalise(target->path, &x->path, &why);
	if (r != PATH_BAD && !policy_has_paths(x->policy, exchange_host(x))) {
		x->path.n = 0;	/* no rule looks at it: it passes as it came */
		buf_put_str(&x->path, target->path);
		return true;
	}
	if (r == PATH_OK)
		return true;
	exchange_refuse(x, r == PATH_AMBIGUOUS ? REFUSAL_ambiguous_path : REFUSAL_bad_request,
			str_of(why));
	return false;
}

bool exchange_check(struct exchange *x)
{
	struct str method = buf_str(&x->method);
	struct http1_target target = http1_split_target(method, buf_str(&x->target));

	if (str_eq(method, STR("CONNECT")) || str_eq(method, STR("TRACE"))) {
		exchange_refuse(x, REFUSAL_method_refused, method);
		return false;
	}
	if (target.form == TARGET_BAD || target.form == TARGET_AUTHORITY) {
		exchange_refuse(x, REFUSAL_bad_request, STR("malformed request target"));
		return false;
	}
	if (!check_host(x, &target) || !check_path(x, &target))
		return false;
	if (x->path.failed || x->query.failed || fields_failed(&x->fields)) {
		exchange_refuse(x, REFUSAL_headers_too_large, STR_NONE);
		return false;
	}
	return true;
}
