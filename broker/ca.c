/* Theory of operation
 *
 * A sandbox's first connection to each name waits for a leaf, so leaves are made with nothing of
 * OpenSSL's but the signature: its certificate objects encode and decode the public key each time,
 * which costs ten signatures. What leaves for one key have in common is DER already (struct mold,
 * made by OpenSSL once a key); the rest is written around it (broker/der.h).
 */
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

#include "broker/der.h"
#include "conf/hex.h"
#include "policy/name.h"

#define CN_MAX 64		/* ub-common-name, RFC 5280 appendix A.1 */
#define SERIAL_BYTES 16
#define BACKDATE_SECONDS 3600
#define CERTIFICATE_MAX 8192
#define LEAF_ROOM 4096		/* of it, less than 2,000 for the longest name */
#define SIGNATURE_MAX 80	/* two numbers of 33 bytes and three heads */

/* What all leaves for one key have in common, as DER. */
struct mold {
	struct buf spki;
	struct buf issuer, extensions;
	time_t ends;		/* the CA's own end */
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
static bool make_serial(unsigned char out[SERIAL_BYTES])
{
	if (RAND_bytes(out, SERIAL_BYTES) != 1)
		return false;
	out[0] = (unsigned char)((out[0] & 0x7f) | 0x40);
	return true;
}

static bool set_serial(X509 *x)
{
	unsigned char bytes[SERIAL_BYTES];

	return make_serial(bytes) &&
	       ASN1_STRING_set(X509_get_serialNumber(x), bytes, sizeof(bytes)) == 1;
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
	buf_free(&m->spki);
	buf_free(&m->issuer);
	buf_free(&m->extensions);
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

/* Appends DER that an encoder of OpenSSL has made, and frees it. */
static bool put_encoded(int n, unsigned char *der, struct buf *out)
{
	if (n > 0)
		buf_put(out, der, (size_t)n);
	OPENSSL_free(der);
	return n > 0 && !out->failed;
}

static bool mold_extension(struct mold *m, X509 *x, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *e = make_extension(x, issuer, nid, value);
	unsigned char *der = NULL;
	int n = e ? i2d_X509_EXTENSION(e, &der) : 0;

	X509_EXTENSION_free(e);
	return put_encoded(n, der, &m->extensions);
}

static bool mold_extensions(struct mold *m, EVP_PKEY *key, X509 *issuer)
{
	static const struct {
		int nid;
		const char *value;
	} rows[] = {
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid:always" },
	};
	X509 *x = X509_new();
	bool ok = x && X509_set_pubkey(x, key);

	for (size_t i = 0; ok && i < sizeof(rows) / sizeof(rows[0]); i++)
		ok = mold_extension(m, x, issuer, rows[i].nid, rows[i].value);
	X509_free(x);
	return ok;
}

static bool mold_make(struct mold *m, struct str spki, EVP_PKEY *key, X509 *issuer)
{
	unsigned char *name = NULL;
	int n = i2d_X509_NAME(X509_get_subject_name(issuer), &name);
	struct tm ends;

	buf_init(&m->spki, CERTIFICATE_MAX);
	buf_init(&m->issuer, CERTIFICATE_MAX);
	buf_init(&m->extensions, CERTIFICATE_MAX);
	buf_put_str(&m->spki, spki);
	if (!put_encoded(n, name, &m->issuer) ||
	    !ASN1_TIME_to_tm(X509_get0_notAfter(issuer), &ends))
		return false;
	m->ends = timegm(&ends);
	return mold_extensions(m, key, issuer) && !m->spki.failed;
}

/* The mold for @spki; a key is checked when it is new. */
static enum err mold_for(struct ca *c, struct str spki)
{
	struct mold *m = &c->mold;
	EVP_PKEY *key;
	bool ok;

	if (m->spki.n && str_eq(buf_str(&m->spki), spki))
		return OK;
	mold_empty(m);
	key = read_key(spki);
	if (!key)
		return ERR_SYNTAX;
	ok = mold_make(m, spki, key, c->cert);
	EVP_PKEY_free(key);
	if (!ok)
		mold_empty(m);
	return ok ? OK : ERR_CRYPTO;
}

static const char ecdsa_with_sha256[] = "\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
#define ECDSA_WITH_SHA256 str_n(ecdsa_with_sha256, sizeof(ecdsa_with_sha256) - 1)

enum { EXTENSIONS_TAG = 0xa3, DNS_NAME_TAG = 0x82, IP_ADDRESS_TAG = 0x87 };

/* Critical where it is all that names the subject (RFC 5280 4.2.1.6). */
static void put_san(struct der *d, const struct subject *s, bool critical)
{
	size_t end = der_left(d);

	if (s->literal)
		der_value(d, IP_ADDRESS_TAG, str_n((const char *)s->addr.b, addr_len(&s->addr)));
	else
		der_value(d, DNS_NAME_TAG, s->name);
	der_wrap(d, DER_SEQUENCE, end);
	der_wrap(d, DER_OCTET_STRING, end);
	if (critical)
		der_put(d, STR("\x01\x01\xff"));
	der_put(d, STR("\x06\x03\x55\x1d\x11"));	/* 2.5.29.17 */
	der_wrap(d, DER_SEQUENCE, end);
}

/* A common name, or an empty subject. */
static void put_subject(struct der *d, const struct subject *s, bool has_cn)
{
	size_t end = der_left(d);

	if (has_cn) {
		der_value(d, DER_UTF8_STRING, s->name);
		der_put(d, STR("\x06\x03\x55\x04\x03"));	/* 2.5.4.3 */
		der_wrap(d, DER_SEQUENCE, end);
		der_wrap(d, DER_SET, end);
	}
	der_wrap(d, DER_SEQUENCE, end);
}

static void put_validity(struct der *d, const struct mold *m)
{
	time_t from = time(NULL) - BACKDATE_SECONDS, until = from + LEAF_DAYS * 86400;
	size_t end = der_left(d);

	der_time(d, until < m->ends ? until : m->ends);
	der_time(d, from);
	der_wrap(d, DER_SEQUENCE, end);
}

/* TBSCertificate (RFC 5280 4.1) */
static void put_tbs(struct der *d, const struct mold *m, const struct subject *s,
		    const unsigned char serial[SERIAL_BYTES])
{
	bool has_cn = s->name.n <= CN_MAX;
	size_t end = der_left(d);

	put_san(d, s, !has_cn);
	der_put(d, buf_str(&m->extensions));
	der_wrap(d, DER_SEQUENCE, end);
	der_wrap(d, EXTENSIONS_TAG, end);
	der_put(d, buf_str(&m->spki));
	put_subject(d, s, has_cn);
	put_validity(d, m);
	der_put(d, buf_str(&m->issuer));
	der_put(d, ECDSA_WITH_SHA256);
	der_value(d, DER_INTEGER, str_n((const char *)serial, SERIAL_BYTES));
	der_put(d, STR("\xa0\x03\x02\x01\x02"));	/* version 3 */
	der_wrap(d, DER_SEQUENCE, end);
}

/* 0: failed. */
static size_t sign(const struct ca *c, struct str tbs, unsigned char out[SIGNATURE_MAX])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	size_t n = SIGNATURE_MAX;
	bool ok = md && EVP_DigestSignInit(md, NULL, EVP_sha256(), NULL, c->key) == 1 &&
		  EVP_DigestSign(md, out, &n, (const unsigned char *)tbs.p, tbs.n) == 1;

	EVP_MD_CTX_free(md);
	return ok ? n : 0;
}

static enum err make_leaf(const struct ca *c, const struct subject *s, struct buf *out)
{
	char tbs_room[LEAF_ROOM], room[LEAF_ROOM];
	unsigned char serial[SERIAL_BYTES], signature[SIGNATURE_MAX];
	struct der tbs, d;
	size_t n, end;

	if (!make_serial(serial))
		return ERR_CRYPTO;
	der_init(&tbs, tbs_room, sizeof(tbs_room));
	put_tbs(&tbs, &c->mold, s, serial);
	n = tbs.failed ? 0 : sign(c, der_str(&tbs), signature);
	if (n == 0)
		return ERR_CRYPTO;
	der_init(&d, room, sizeof(room));
	end = der_left(&d);
	der_put(&d, str_n((const char *)signature, n));
	der_put(&d, STR("\0"));		/* no unused bits */
	der_wrap(&d, DER_BIT_STRING, end);
	der_put(&d, ECDSA_WITH_SHA256);
	der_put(&d, der_str(&tbs));
	der_wrap(&d, DER_SEQUENCE, end);
	if (d.failed)
		return ERR_CRYPTO;
	buf_put_str(out, der_str(&d));
	return out->failed ? ERR_NOMEM : OK;
}

enum err ca_leaf(struct ca *c, struct str name, struct str spki, struct buf *out)
{
	struct subject subject;
	enum err e = read_subject(name, &subject) ? mold_for(c, spki) : ERR_SYNTAX;

	return e ? e : make_leaf(c, &subject, out);
}
