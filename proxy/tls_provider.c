/* Theory of operation
 *
 * A provider (provider(7)) is asked for the algorithms of each operation. Ours is asked by the
 * library context that TLS uses, and answers with what the default provider says, which is loaded
 * in a second context: all of it, or for two operations a list of what is kept of it. The
 * algorithms' functions are the default provider's, and get its own context, as if it had been
 * asked.
 *
 * What the default provider has does not change, so the lists are made once a process; they and the
 * second context live as long as it.
 */
#include "proxy/tls_provider.h"

#include <openssl/core_dispatch.h>
#include <openssl/crypto.h>
#include <openssl/provider.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NAME "exeat-tls"
#define KEPT_MAX 32

/* An algorithm by the first of its names, and a part of its properties. */
struct row {
	const char *name, *property;
};

static const struct row decoders[] = {
	{ "RSA", "input=der,structure=SubjectPublicKeyInfo" },
	{ "RSA-PSS", "input=der,structure=SubjectPublicKeyInfo" },
	{ "EC", "input=der,structure=SubjectPublicKeyInfo" },
	{ "ED25519", "input=der,structure=SubjectPublicKeyInfo" },
	{ "ED448", "input=der,structure=SubjectPublicKeyInfo" },
	{ "DER", "input=der,structure=SubjectPublicKeyInfo" },	/* says which of them it is */
};

static const struct row key_types[] = {
	{ "RSA", "" },	   { "RSA-PSS", "" }, { "EC", "" },	{ "ED25519", "" }, { "ED448", "" },
	{ "X25519", "" },  { "X448", "" },	/* key exchange */
	{ "DH", "" },	   { "HMAC", "" },	/* of TLS 1.2's older suites */
};
#define ROWS(table) table, sizeof(table) / sizeof(table[0])

struct tls_provider {
	OSSL_LIB_CTX *context;
	OSSL_PROVIDER *loaded;
};

static OSSL_PROVIDER *behind;
static OSSL_ALGORITHM kept_decoders[KEPT_MAX + 1], kept_key_types[KEPT_MAX + 1];

static bool is_row(const struct row *row, const OSSL_ALGORITHM *a)
{
	size_t n = strlen(row->name);

	return strncmp(a->algorithm_names, row->name, n) == 0 &&
	       (a->algorithm_names[n] == ':' || a->algorithm_names[n] == '\0') &&
	       strstr(a->property_definition, row->property);
}

/* What of an operation's algorithms is in the table; ended by one without a name. */
static void keep(int operation, const struct row *rows, size_t n, OSSL_ALGORITHM *kept)
{
	int no_cache;
	const OSSL_ALGORITHM *a = OSSL_PROVIDER_query_operation(behind, operation, &no_cache);
	size_t found = 0;

	for (; a && a->algorithm_names; a++)
		for (size_t i = 0; i < n && found < KEPT_MAX; i++)
			if (is_row(&rows[i], a))
				kept[found++] = *a;
}

static const OSSL_ALGORITHM *query(void *context, int operation, int *no_cache)
{
	(void)context;
	*no_cache = 0;
	switch (operation) {
	case OSSL_OP_DECODER:
		return kept_decoders;
	case OSSL_OP_KEYMGMT:
		return kept_key_types;
	default:
		return OSSL_PROVIDER_query_operation(behind, operation, no_cache);
	}
}

static int capabilities(void *context, const char *what, OSSL_CALLBACK *tell, void *arg)
{
	(void)context;
	return OSSL_PROVIDER_get_capabilities(behind, what, tell, arg);
}

static const OSSL_DISPATCH functions[] = {
	{ OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query },
	{ OSSL_FUNC_PROVIDER_GET_CAPABILITIES, (void (*)(void))capabilities },
	{ 0, NULL },
};

static int init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out,
		void **context)
{
	(void)handle;
	(void)in;
	*out = functions;
	*context = OSSL_PROVIDER_get0_provider_ctx(behind);
	return 1;
}

static bool load_behind(void)
{
	OSSL_LIB_CTX *own = OSSL_LIB_CTX_new();

	behind = own ? OSSL_PROVIDER_load(own, "default") : NULL;
	if (!behind) {
		OSSL_LIB_CTX_free(own);
		return false;
	}
	keep(OSSL_OP_DECODER, ROWS(decoders), kept_decoders);
	keep(OSSL_OP_KEYMGMT, ROWS(key_types), kept_key_types);
	return true;
}

struct tls_provider *tls_provider_new(void)
{
	struct tls_provider *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->context = behind || load_behind() ? OSSL_LIB_CTX_new() : NULL;
	if (p->context && OSSL_PROVIDER_add_builtin(p->context, NAME, init) == 1)
		p->loaded = OSSL_PROVIDER_load(p->context, NAME);
	if (p->loaded)
		return p;
	tls_provider_free(p);
	return NULL;
}

void tls_provider_free(struct tls_provider *p)
{
	if (!p)
		return;
	if (p->loaded)
		OSSL_PROVIDER_unload(p->loaded);
	OSSL_LIB_CTX_free(p->context);
	free(p);
}

OSSL_LIB_CTX *tls_provider_context(const struct tls_provider *p)
{
	return p->context;
}
