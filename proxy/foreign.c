#include "proxy/foreign.h"

#include "conf/hex.h"

#define KEY_MAX 64

/* Lower case. "authorization" also where a placeholder would stand: putting on comes after. */
static const char *const foreign_fields[] = {
	"authorization",
	"proxy-authorization",
	"cookie",
	"x-api-key",
	"api-key",
	"apikey",
	"x-apikey",
	"x-auth-token",
	"x-auth-key",
	"x-access-token",
	"x-goog-api-key",
	"x-goog-iam-authorization-token",
	"x-amz-security-token",
	"x-ms-authorization-auxiliary",
	"private-token",
	"job-token",
	"deploy-token",
	"x-gitlab-token",
	"x-vault-token",
	"x-figma-token",
	"x-shopify-access-token",
	"circle-token",
	"dd-api-key",
	"dd-application-key",
	"ocp-apim-subscription-key",
	"x-rapidapi-key",
	"x-session-token",
};

/* Lower case, compared after percent-decoding and without regard to case. */
static const char *const foreign_keys[] = {
	"access_token",
	"auth_token",
	"oauth_token",
	"id_token",
	"refresh_token",
	"private_token",
	"job_token",
	"api_key",
	"apikey",
	"api-key",
	"client_secret",
	"x-amz-signature",
	"x-amz-credential",
	"x-amz-security-token",
	"x-goog-signature",
	"x-goog-credential",
	"awsaccesskeyid",
	"googleaccessid",
	"signature",
	"sig",
	"subscription-key",
	"token",
	"key",
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char *in_list(struct str name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq_nocase(name, str_of(list[i])))
			return list[i];
	return NULL;
}

/* Percent escapes and '+' as servers decode them; one that is no escape stands for itself. */
static struct str decode_key(struct str raw, char out[KEY_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < raw.n && n < KEY_MAX; i++) {
		int high = raw.p[i] == '%' && i + 2 < raw.n ? hex_value(raw.p[i + 1]) : -1;
		int low = high >= 0 ? hex_value(raw.p[i + 2]) : -1;

		if (low >= 0) {
			out[n++] = (char)(high << 4 | low);
			i += 2;
		} else {
			out[n++] = raw.p[i] == '+' ? ' ' : raw.p[i];
		}
	}
	return str_n(out, n);
}

static const char *foreign_parameter(struct str parameter)
{
	char text[KEY_MAX];
	struct str rest = parameter;
	struct str key = decode_key(str_cut(&rest, '='), text);

	return in_list(key, foreign_keys, COUNT(foreign_keys));
}

static void tell(struct foreign_found *found, const char *name)
{
	for (size_t i = 0; i < found->n && i < FOREIGN_TOLD_MAX; i++)
		if (found->names[i] == name)
			return;
	if (found->n < FOREIGN_TOLD_MAX)
		found->names[found->n] = name;
	found->n++;
}

/* Walks the parameters of @query: '&' parts them, and ';' for some servers. */
static struct str next_parameter(struct str *rest, char *separator)
{
	size_t n = 0;
	struct str parameter;

	while (n < rest->n && rest->p[n] != '&' && rest->p[n] != ';')
		n++;
	parameter = str_n(rest->p, n);
	*separator = n < rest->n ? rest->p[n] : '\0';
	*rest = n < rest->n ? str_from(*rest, n + 1) : STR_NONE;
	return parameter;
}

void foreign_find(const struct fields *f, struct str query, struct foreign_found *found)
{
	struct str rest = query.n ? str_from(query, 1) : STR_NONE;
	const char *name;

	*found = (struct foreign_found){ .n = 0 };
	for (size_t i = 0; i < f->n; i++) {
		name = in_list(fields_name(f, i), foreign_fields, COUNT(foreign_fields));
		if (name)
			tell(found, name);
	}
	while (rest.n) {
		char separator;

		name = foreign_parameter(next_parameter(&rest, &separator));
		if (name)
			tell(found, name);
	}
}

void foreign_strip(struct fields *f, struct str query, struct buf *out)
{
	struct str rest = query.n ? str_from(query, 1) : STR_NONE;
	char before = '?';

	for (size_t i = 0; i < COUNT(foreign_fields); i++)
		fields_remove(f, str_of(foreign_fields[i]));
	while (rest.n) {
		char separator;
		struct str parameter = next_parameter(&rest, &separator);

		if (foreign_parameter(parameter))
			continue;
		buf_put_c(out, before);
		buf_put_str(out, parameter);
		before = separator ? separator : '&';
	}
}
