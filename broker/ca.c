#include "broker/ca.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <time.h>

#include "conf/hex.h"
#include "policy/name.h"

#define CN_MAX 64		/* ub-common-name, RFC 5280 appendix A.1 */
#define SERIAL_BYTES 16
#define BACKDATE_SECONDS 3600
#define CERTIFICATE_MAX 8192

/* What all leaves for one key have in common, made once: the key itself, read, and extensions,
 * which cost more to make than a signature. */
#define MOLD_EXTENSIONS 4
struct mold {
	struct buf spki;
	EVP_PKEY *key;
	X509_EXTENSION *extensions[MOLD_EXTENSIONS];
};

struct ca {
	EVP_PKEY *key;
	X509 *cert;
	struct mold mold;
};

/* A subject's alternative name: one of them, checked. */
struct subject {
	struct str name;
	bool literal;
	struct addr addr;
};

/* ---- parts of a certificate ---- */

/* Positive, never of fewer bytes, 126 random bits (RFC 5280 4.1.2.2: at most 20 octets). */
static bool set_serial(X509 *x)
{
	unsigned char bytes[SERIAL_BYTES];
	BIGNUM *number;
	bool ok;

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return false;
	bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
	number = BN_bin2bn(bytes, sizeof(bytes), NULL);
	ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
	BN_free(number);
	return ok;
}

static bool set_times(X509 *x, int days)
{
	time_t now = time(NULL);

	return X509_time_adj_ex(X509_getm_notBefore(x), 0, -BACKDATE_SECONDS, &now) &&
	       X509_time_adj_ex(X509_getm_notAfter(x), days, -BACKDATE_SECONDS, &now);
}

static bool add_name(X509_NAME *name, int nid, struct str text)
{
	return X509_NAME_add_entry_by_NID(name, nid, MBSTRING_ASC, (const unsigned char *)text.p,
					  (int)text.n, -1, 0) == 1;
}

/* @value is one of this file's own texts: the configuration syntax never sees a name. */
static X509_EXTENSION *make_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	return X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *e = make_extension(x, issuer, nid, value);
	bool ok = e && X509_add_ext(x, e, -1) == 1;

	X509_EXTENSION_free(e);
	return ok;
}

static enum err put_der(const X509 *x, struct buf *out)
{
	int n = i2d_X509(x, NULL);
	unsigned char *to;

	if (n <= 0 || n > CERTIFICATE_MAX)
		return ERR_CRYPTO;
	to = (unsigned char *)buf_room(out, (size_t)n);
	if (!to)
		return ERR_NOMEM;
	i2d_X509(x, &to);
	buf_grown(out, (size_t)n);
	return OK;
}

static void mold_empty(struct mold *m)
{
	EVP_PKEY_free(m->key);
	m->key = NULL;
	for (size_t i = 0; i < MOLD_EXTENSIONS; i++) {
		X509_EXTENSION_free(m->extensions[i]);
		m->extensions[i] = NULL;
	}
	buf_free(&m->spki);
}

/* ---- the CA ---- */

/* "Exeat CA NAME 0123abcd": the number tells apart CAs of sandboxes with one name. What a sandbox is
 * called can hold anything; here it is a plain word. */
static bool set_ca_name(X509_NAME *name, struct str sandbox)
{
	static const char before[] = "Exeat CA ";
	unsigned char number[4];
	char text[CN_MAX + 1];
	size_t n = sizeof(before) - 1;

	if (RAND_bytes(number, sizeof(number)) != 1)
		return false;
	memcpy(text, before, n);
	n += str_copy_plain(sandbox, CN_MAX - 9 - n, text + n);
	text[n++] = ' ';
	hex_text(number, sizeof(number), text + n);
	n += 2 * sizeof(number);
	return add_name(name, NID_organizationName, STR("Exeat")) &&
	       add_name(name, NID_commonName, str_n(text, n));
}

static bool make_ca(struct ca *c, struct str sandbox)
{
	X509 *x;

	c->key = EVP_EC_gen("P-256");
	c->cert = x = X509_new();
	return c->key && x && X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
	       set_times(x, CA_DAYS) && set_ca_name(X509_get_subject_name(x), sandbox) &&
	       X509_set_issuer_name(x, X509_get_subject_name(x)) && X509_set_pubkey(x, c->key) &&
	       add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	       add_extension(x, x, NID_subject_key_identifier, "hash") &&
	       X509_sign(x, c->key, EVP_sha256()) > 0;
}

enum err ca_new(struct str sandbox, struct ca **out)
{
	struct ca *c = calloc(1, sizeof(*c));

	if (!c)
		return ERR_NOMEM;
	if (!make_ca(c, sandbox)) {
		ca_free(c);
		return ERR_CRYPTO;
	}
	*out = c;
	return OK;
}

/* ---- the same CA again ---- */

/* OpenSSL's own form of a number: its caller's bytes are the only ones that it goes through. */
enum err ca_key(const struct ca *c, unsigned char key[CA_KEY_BYTES])
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_PRIV_KEY, key, CA_KEY_BYTES),
		OSSL_PARAM_construct_end(),
	};

	return EVP_PKEY_get_params(c->key, params) == 1 && params[0].return_size == CA_KEY_BYTES
		       ? OK : ERR_CRYPTO;
}

/* A private key and the point in a certificate; NULL where they are no pair. */
static EVP_PKEY *join_key(unsigned char key[CA_KEY_BYTES], const ASN1_BIT_STRING *point)
{
	char group[] = "P-256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point->data,
						  (size_t)point->length),
		OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_PRIV_KEY, key, CA_KEY_BYTES),
		OSSL_PARAM_construct_end(),
	};
	EVP_PKEY_CTX *make = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL), *check = NULL;
	EVP_PKEY *joined = NULL;

	if (make && EVP_PKEY_fromdata_init(make) == 1 &&
	    EVP_PKEY_fromdata(make, &joined, EVP_PKEY_KEYPAIR, params) == 1)
		check = EVP_PKEY_CTX_new_from_pkey(NULL, joined, NULL);
	if (!check || EVP_PKEY_pairwise_check(check) != 1) {
		EVP_PKEY_free(joined);
		joined = NULL;
	}
	EVP_PKEY_CTX_free(check);
	EVP_PKEY_CTX_free(make);
	return joined;
}

enum err ca_again(struct str der, unsigned char key[CA_KEY_BYTES], struct ca **out)
{
	const unsigned char *p = (const unsigned char *)der.p;
	struct ca *c = calloc(1, sizeof(*c));

	if (!c)
		return ERR_NOMEM;
	if (der.n <= CERTIFICATE_MAX)
		c->cert = d2i_X509(NULL, &p, (long)der.n);
	if (c->cert && p == (const unsigned char *)der.p + der.n)
		c->key = join_key(key, X509_get0_pubkey_bitstr(c->cert));
	if (!c->key) {
		ca_free(c);
		return ERR_SYNTAX;
	}
	*out = c;
	return OK;
}

void ca_free(struct ca *c)
{
	if (!c)
		return;
	EVP_PKEY_free(c->key);
	X509_free(c->cert);
	mold_empty(&c->mold);
	free(c);
}

enum err ca_der(const struct ca *c, struct buf *out)
{
	return put_der(c->cert, out);
}

enum err ca_pem(const struct ca *c, struct buf *out)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *text;
	long n = 0;

	if (bio && PEM_write_bio_X509(bio, c->cert) == 1)
		n = BIO_get_mem_data(bio, &text);
	if (n > 0)
		buf_put(out, text, (size_t)n);
	BIO_free(bio);
	if (n <= 0)
		return ERR_CRYPTO;
	return out->failed ? ERR_NOMEM : OK;
}

/* ---- leaves ---- */

static bool read_subject(struct str text, struct subject *out)
{
	char again[ADDR_TEXT_MAX];
	struct name name;

	out->name = text;
	out->literal = addr_parse(text, &out->addr);
	if (out->literal)
		return str_eq(str_of(addr_format(&out->addr, again)), text);
	return str_find(text, '*') == text.n && name_canon(text, &name) == NAME_OK &&
	       str_eq(name_str(&name), text);
}

static GENERAL_NAME *general_name(const struct subject *s)
{
	ASN1_STRING *value = s->literal ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
	GENERAL_NAME *g = GENERAL_NAME_new();
	const void *bytes = s->literal ? (const void *)s->addr.b : s->name.p;
	size_t n = !s->literal ? s->name.n : addr_len(&s->addr);

	if (!value || !g || ASN1_STRING_set(value, bytes, (int)n) != 1) {
		ASN1_STRING_free(value);
		GENERAL_NAME_free(g);
		return NULL;
	}
	GENERAL_NAME_set0_value(g, s->literal ? GEN_IPADD : GEN_DNS, value);
	return g;
}

/* Built, never parsed from text. Critical where it is all that names the subject (RFC
 * 5280 4.2.1.6). */
static bool add_san(X509 *x, const struct subject *s, bool critical)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *g = general_name(s);
	bool ok;

	if (!names || !g || sk_GENERAL_NAME_push(names, g) <= 0) {
		GENERAL_NAME_free(g);
		GENERAL_NAMES_free(names);
		return false;
	}
	ok = X509_add1_ext_i2d(x, NID_subject_alt_name, names, critical, X509V3_ADD_APPEND) == 1;
	GENERAL_NAMES_free(names);
	return ok;
}

/* A P-256 SubjectPublicKeyInfo with a named curve and an uncompressed point has one form only (RFC
 * 5480 2): these bytes, then the point's 64. */
static EVP_PKEY *read_key(struct str spki)
{
	static const unsigned char before[] = {
		0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
		0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04 };
	const unsigned char *p = (const unsigned char *)spki.p;

	if (spki.n != sizeof(before) + 64 || memcmp(p, before, sizeof(before)) != 0)
		return NULL;
	/* Refuses a point that is not on the curve. */
	return d2i_PUBKEY(NULL, &p, (long)spki.n);
}

enum err ca_check_key(struct str spki)
{
	EVP_PKEY *key = read_key(spki);

	EVP_PKEY_free(key);
	return key ? OK : ERR_SYNTAX;
}

static bool mold_extensions(struct mold *m, X509 *issuer)
{
	static const struct {
		int nid;
		const char *value;
	} rows[MOLD_EXTENSIONS] = {
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid:always" },
	};
	X509 *x = X509_new();
	bool ok = x && X509_set_pubkey(x, m->key);

	for (size_t i = 0; ok && i < MOLD_EXTENSIONS; i++) {
		m->extensions[i] = make_extension(x, issuer, rows[i].nid, rows[i].value);
		ok = m->extensions[i] != NULL;
	}
	X509_free(x);
	return ok;
}

/* The mold for @spki; a key is checked when it is new. */
static enum err mold_for(struct ca *c, struct str spki)
{
	struct mold *m = &c->mold;

	if (m->key && str_eq(buf_str(&m->spki), spki))
		return OK;
	mold_empty(m);
	m->key = read_key(spki);
	if (!m->key)
		return ERR_SYNTAX;
	buf_init(&m->spki, CERTIFICATE_MAX);
	buf_put_str(&m->spki, spki);
	if (!m->spki.failed && mold_extensions(m, c->cert))
		return OK;
	mold_empty(m);
	return ERR_CRYPTO;
}

static bool add_mold(X509 *x, const struct mold *m)
{
	bool ok = X509_set_pubkey(x, m->key);

	for (size_t i = 0; ok && i < MOLD_EXTENSIONS; i++)
		ok = X509_add_ext(x, m->extensions[i], -1) == 1;
	return ok;
}

static bool make_leaf(const struct ca *c, X509 *x, const struct subject *s)
{
	bool has_cn = s->name.n <= CN_MAX;

	return X509_set_version(x, X509_VERSION_3) && set_serial(x) && set_times(x, LEAF_DAYS) &&
	       (ASN1_TIME_compare(X509_get0_notAfter(x), X509_get0_notAfter(c->cert)) <= 0 ||
		X509_set1_notAfter(x, X509_get0_notAfter(c->cert))) &&
	       X509_set_issuer_name(x, X509_get_subject_name(c->cert)) &&
	       (!has_cn || add_name(X509_get_subject_name(x), NID_commonName, s->name)) &&
	       add_mold(x, &c->mold) && add_san(x, s, !has_cn) &&
	       X509_sign(x, c->key, EVP_sha256()) > 0;
}

enum err ca_leaf(struct ca *c, struct str name, struct str spki, struct buf *out)
{
	struct subject subject;
	enum err e = read_subject(name, &subject) ? mold_for(c, spki) : ERR_SYNTAX;
	X509 *x;

	if (e)
		return e;
	x = X509_new();
	e = x && make_leaf(c, x, &subject) ? put_der(x, out) : ERR_CRYPTO;
	X509_free(x);
	return e;
}
