#include "proxy/log_sign.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/hex.h"
#include "policy/digest.h"

#define SIGNATURE_BYTES 64
#define MESSAGE_MAX_BYTES 128

struct log_key {
	EVP_PKEY *key;
	char id[LOG_KEY_ID_HEX + 1];
};

struct log_signer {
	struct log_key key;
};

struct log_keys {
	struct log_key key[LOG_KEYS_MAX];
	size_t n;
};

static enum err set_key(struct log_key *k, EVP_PKEY *key)
{
	uint8_t hash[DIGEST_BYTES];
	unsigned char *der = NULL;
	int n;

	k->key = key;
	if (EVP_PKEY_get_id(key) != EVP_PKEY_ED25519)
		return ERR_SYNTAX;
	n = i2d_PUBKEY(key, &der);
	if (n <= 0 || !digest_sha256(der, (size_t)n, hash)) {
		OPENSSL_free(der);
		return ERR_CRYPTO;
	}
	OPENSSL_free(der);
	hex_text(hash, LOG_KEY_ID_HEX / 2, k->id);
	return OK;
}

static size_t message_of(uint64_t seq, struct str prev, char out[MESSAGE_MAX_BYTES])
{
	int n = snprintf(out, MESSAGE_MAX_BYTES, "exeat log %" PRIu64 " %.*s", seq, STR_ARG(prev));

	return n > 0 && n < MESSAGE_MAX_BYTES ? (size_t)n : 0;
}

/* ---- signing ---- */

static enum err read_key_file(int fd, char *out, size_t *n)
{
	ssize_t got;

	*n = 0;
	do {
		got = pread(fd, out + *n, LOG_KEY_FILE_MAX - *n, (off_t)*n);
		if (got > 0)
			*n += (size_t)got;
	} while ((got > 0 && *n < LOG_KEY_FILE_MAX) || (got < 0 && errno == EINTR));
	return got < 0 ? ERR_SYSTEM : *n == LOG_KEY_FILE_MAX ? ERR_LIMIT : OK;
}

static EVP_PKEY *read_private(const char *text, size_t n)
{
	BIO *bio = BIO_new_mem_buf(text, (int)n);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;

	BIO_free(bio);
	ERR_clear_error();
	return key;
}

enum err log_signer_open(int fd, struct log_signer **out)
{
	struct log_signer *s = calloc(1, sizeof(*s));
	char text[LOG_KEY_FILE_MAX];
	EVP_PKEY *key = NULL;
	size_t n;
	enum err e = s ? read_key_file(fd, text, &n) : ERR_NOMEM;

	close(fd);
	if (!e) {
		key = read_private(text, n);
		e = key ? set_key(&s->key, key) : ERR_SYNTAX;
	}
	explicit_bzero(text, sizeof(text));
	if (e)
		log_signer_close(s);
	else
		*out = s;
	return e;
}

void log_signer_close(struct log_signer *s)
{
	if (!s)
		return;
	EVP_PKEY_free(s->key.key);
	free(s);
}

const char *log_signer_id(const struct log_signer *s)
{
	return s->key.id;
}

enum err log_sign(const struct log_signer *s, uint64_t seq, const char *prev,
		  char out[LOG_SIGNATURE_HEX + 1])
{
	unsigned char signature[SIGNATURE_BYTES];
	char message[MESSAGE_MAX_BYTES];
	size_t n = message_of(seq, str_of(prev), message), len = sizeof(signature);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && n && EVP_DigestSignInit(ctx, NULL, NULL, NULL, s->key.key) == 1 &&
		  EVP_DigestSign(ctx, signature, &len, (unsigned char *)message, n) == 1 &&
		  len == sizeof(signature);

	EVP_MD_CTX_free(ctx);
	if (!ok)
		return ERR_CRYPTO;
	hex_text(signature, sizeof(signature), out);
	return OK;
}

/* ---- checking ---- */

static enum err read_public(FILE *f, struct log_keys *k)
{
	enum err e = OK;
	EVP_PKEY *key;

	while (!e && k->n < LOG_KEYS_MAX && (key = PEM_read_PUBKEY(f, NULL, NULL, NULL)) != NULL)
		e = set_key(&k->key[k->n++], key);
	ERR_clear_error();
	return e ? e : k->n ? OK : ERR_SYNTAX;
}

enum err log_keys_open(const char *path, struct log_keys **out)
{
	FILE *f = fopen(path, "re");
	struct log_keys *k;
	enum err e;

	if (!f)
		return ERR_SYSTEM;
	k = calloc(1, sizeof(*k));
	e = k ? read_public(f, k) : ERR_NOMEM;
	fclose(f);
	if (e)
		log_keys_close(k);
	else
		*out = k;
	return e;
}

void log_keys_close(struct log_keys *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->n; i++)
		EVP_PKEY_free(k->key[i].key);
	free(k);
}

static bool read_hex(struct str text, unsigned char out[SIGNATURE_BYTES])
{
	if (text.n != LOG_SIGNATURE_HEX)
		return false;
	for (size_t i = 0; i < SIGNATURE_BYTES; i++) {
		int high = hex_value(text.p[2 * i]), low = hex_value(text.p[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

static bool verifies(EVP_PKEY *key, const unsigned char *signature, const char *message, size_t n)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && n && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
		  EVP_DigestVerify(ctx, signature, SIGNATURE_BYTES, (const unsigned char *)message,
				   n) == 1;

	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return ok;
}

enum log_signature log_signature_check(const struct log_keys *k, struct str id,
				       struct str signature, uint64_t seq, struct str prev)
{
	unsigned char bytes[SIGNATURE_BYTES];
	char message[MESSAGE_MAX_BYTES];
	size_t n = message_of(seq, prev, message);

	for (size_t i = 0; i < k->n; i++)
		if (str_eq(id, str_of(k->key[i].id)))
			return read_hex(signature, bytes) &&
					       verifies(k->key[i].key, bytes, message, n)
				       ? LOG_SIGNATURE_GOOD
				       : LOG_SIGNATURE_BAD;
	return LOG_SIGNATURE_OF_ANOTHER;
}
