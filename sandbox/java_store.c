/* Theory of operation
 *
 * A JKS file, all numbers big endian: magic, version 2, number of entries; for each trusted
 * certificate a tag of 2, its alias, a date, the text "X.509", and its DER with its length; at last a
 * SHA-1 over the store's password in UTF-16, a fixed phrase, and all before. The password is the
 * one that every Java expects of its own store. It protects nothing, and needs not: the file is
 * public and stands in a read-only root.
 */
#include "sandbox/java_store.h"

#include <openssl/evp.h>
#include <stdio.h>

#define MAGIC 0xfeedfeedu
#define VERSION 2u
#define TRUSTED 2u
#define COUNT_AT 8	/* where the number of entries stands */
#define PASSWORD "changeit"
#define PHRASE "Mighty Aphrodite"
#define SHA1_BYTES 20
#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

static void put_number(struct buf *out, uint64_t v, unsigned bytes)
{
	while (bytes-- > 0)
		buf_put_c(out, (char)(uint8_t)(v >> (8 * bytes)));
}

static void put_utf(struct buf *out, struct str s)
{
	put_number(out, s.n, 2);
	buf_put_str(out, s);
}

/* RFC 4648 section 4; -1 for what is no digit of it. */
static int digit_of(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c != '\0' ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Line ends and padding are no digits, and are passed over. */
static void put_decoded(struct buf *out, struct str text)
{
	uint32_t bits = 0;
	unsigned held = 0;

	for (size_t i = 0; i < text.n; i++) {
		int digit = digit_of(text.p[i]);

		if (digit < 0)
			continue;
		bits = (bits << 6 | (uint32_t)digit) & 0xffffff;
		held += 6;
		if (held >= 8) {
			held -= 8;
			buf_put_c(out, (char)(uint8_t)(bits >> held));
		}
	}
}

/* The text between the next certificate's lines. */
static bool next_certificate(struct str *pem, struct str *body)
{
	const char *begin = memmem(pem->p, pem->n, BEGIN, strlen(BEGIN)), *end;

	if (!begin)
		return false;
	begin += strlen(BEGIN);
	*pem = str_from(*pem, (size_t)(begin - pem->p));
	end = memmem(pem->p, pem->n, END, strlen(END));
	if (!end)
		return false;
	*body = str_n(begin, (size_t)(end - begin));
	*pem = str_from(*pem, (size_t)(end - pem->p));
	return true;
}

static void put_entry(struct buf *out, struct str body, uint32_t number)
{
	char alias[32];
	size_t at;
	uint32_t n;

	snprintf(alias, sizeof(alias), "root-%u", number);
	put_number(out, TRUSTED, 4);
	put_utf(out, str_of(alias));
	put_number(out, 0, 8);
	put_utf(out, STR("X.509"));
	put_number(out, 0, 4);
	at = out->n;
	put_decoded(out, body);
	if (out->failed)
		return;
	n = (uint32_t)(out->n - at);
	for (unsigned i = 0; i < 4; i++)
		out->p[at - 4 + i] = (char)(uint8_t)(n >> (24 - 8 * i));
}

static enum err put_digest(struct buf *out, size_t from)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool done = c && EVP_DigestInit_ex(c, EVP_sha1(), NULL);

	for (size_t i = 0; done && i < strlen(PASSWORD); i++)
		done = EVP_DigestUpdate(c, (const char[]){ 0, PASSWORD[i] }, 2);
	done = done && EVP_DigestUpdate(c, PHRASE, strlen(PHRASE)) &&
	       EVP_DigestUpdate(c, out->p + from, out->n - from) &&
	       EVP_DigestFinal_ex(c, digest, NULL);
	EVP_MD_CTX_free(c);
	if (!done)
		return ERR_CRYPTO;
	buf_put(out, digest, SHA1_BYTES);
	return OK;
}

enum err java_store_write(struct str pem, struct buf *out)
{
	size_t from = out->n;
	struct str body;
	uint32_t n = 0;
	enum err e;

	put_number(out, MAGIC, 4);
	put_number(out, VERSION, 4);
	put_number(out, 0, 4);
	while (next_certificate(&pem, &body))
		put_entry(out, body, n++);
	if (out->failed)
		return ERR_LIMIT;
	for (unsigned i = 0; i < 4; i++)
		out->p[from + COUNT_AT + i] = (char)(uint8_t)(n >> (24 - 8 * i));
	e = put_digest(out, from);
	return e == OK && out->failed ? ERR_LIMIT : e;
}
