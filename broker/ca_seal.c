/* Theory of operation
 *
 * Sealed: a version, the nonce, then private key and certificate encrypted, then the tag. What is
 * bound to it without being in it: the version, the sandbox's number (little endian) and its name,
 * which ends the text and so needs no length. Nonces are random: 2^32 of them under one key, which
 * lives as long as the supervisor, would still be safe (NIST SP 800-38D 8.3).
 *
 * The key lies in memory of broker/locked.h, and so does what is decrypted, until it is a CA.
 */
#include "broker/ca_seal.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <unistd.h>

#include "broker/locked.h"

#define VERSION 1
#define NONCE_BYTES 12
#define TAG_BYTES 16
#define HEAD_BYTES (1 + NONCE_BYTES)

struct seal_key {
	unsigned char bytes[SEAL_KEY_BYTES];
};

/* ---- the key ---- */

/* Until the end of @fd, at most @max bytes; -1: it cannot be read. */
static ssize_t read_whole(int fd, unsigned char *to, size_t max)
{
	size_t n = 0;

	while (n < max) {
		ssize_t got = read(fd, to + n, max - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return (ssize_t)n;
}

enum err seal_key_read(int fd, struct seal_key **out)
{
	/* One byte more, to see that there is none. */
	unsigned char *room = locked_new(sizeof(struct seal_key) + 1);
	ssize_t n;

	if (!room)
		return ERR_NOMEM;
	n = read_whole(fd, room, SEAL_KEY_BYTES + 1);
	if (n != SEAL_KEY_BYTES) {
		locked_free(room);
		return n < 0 ? ERR_SYSTEM : ERR_SYNTAX;
	}
	*out = (struct seal_key *)room;
	return OK;
}

void seal_key_free(struct seal_key *k)
{
	locked_free(k);
}

/* ---- AES-256-GCM ---- */

/* What is bound, said to @c. */
static bool bind_owner(EVP_CIPHER_CTX *c, const struct seal_owner *owner)
{
	const unsigned char head[5] = { VERSION, (unsigned char)owner->number,
					(unsigned char)(owner->number >> 8),
					(unsigned char)(owner->number >> 16),
					(unsigned char)(owner->number >> 24) };
	int n;

	return EVP_CipherUpdate(c, NULL, &n, head, sizeof(head)) == 1 &&
	       (owner->name.n == 0 ||
		EVP_CipherUpdate(c, NULL, &n, (const unsigned char *)owner->name.p,
				 (int)owner->name.n) == 1);
}

static EVP_CIPHER_CTX *begin(const struct seal_key *k, const unsigned char *nonce,
			     const struct seal_owner *owner, bool seals)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();

	if (c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, k->bytes, nonce, seals) == 1 &&
	    bind_owner(c, owner))
		return c;
	EVP_CIPHER_CTX_free(c);
	return NULL;
}

/* ---- sealing ---- */

/* @to: room for @n bytes and the tag. */
static bool encrypt(EVP_CIPHER_CTX *c, const unsigned char key[CA_KEY_BYTES], struct str der,
		    unsigned char *to)
{
	int n;

	return EVP_CipherUpdate(c, to, &n, key, CA_KEY_BYTES) == 1 && n == CA_KEY_BYTES &&
	       EVP_CipherUpdate(c, to + n, &n, (const unsigned char *)der.p, (int)der.n) == 1 &&
	       n == (int)der.n && EVP_CipherFinal_ex(c, to + CA_KEY_BYTES + der.n, &n) == 1 &&
	       n == 0 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_BYTES,
				   to + CA_KEY_BYTES + der.n) == 1;
}

static enum err seal_into(const struct ca *c, const struct seal_key *k,
			  const struct seal_owner *owner, struct str der, unsigned char *to)
{
	unsigned char *key = locked_new(CA_KEY_BYTES);
	EVP_CIPHER_CTX *cipher = NULL;
	enum err e = key ? ca_key(c, key) : ERR_NOMEM;

	to[0] = VERSION;
	if (!e && RAND_bytes(to + 1, NONCE_BYTES) == 1)
		cipher = begin(k, to + 1, owner, true);
	if (!e && (!cipher || !encrypt(cipher, key, der, to + HEAD_BYTES)))
		e = ERR_CRYPTO;
	EVP_CIPHER_CTX_free(cipher);
	locked_free(key);
	return e;
}

enum err ca_seal(const struct ca *c, const struct seal_key *k, const struct seal_owner *owner,
		 struct buf *out)
{
	struct buf der;
	unsigned char *to;
	size_t n;
	enum err e;

	buf_init(&der, CA_DER_MAX);
	e = ca_der(c, &der);
	if (e)
		goto out;
	n = HEAD_BYTES + CA_KEY_BYTES + der.n + TAG_BYTES;
	to = (unsigned char *)buf_room(out, n);
	e = to ? seal_into(c, k, owner, buf_str(&der), to) : ERR_NOMEM;
	if (!e)
		buf_grown(out, n);
out:
	buf_free(&der);
	return e;
}

/* ---- opening ---- */

/* Nothing of @to is to be used where this is false. */
static bool decrypt(EVP_CIPHER_CTX *c, const unsigned char *from, size_t n, unsigned char *to)
{
	unsigned char tag[TAG_BYTES];
	int done;

	memcpy(tag, from + n, TAG_BYTES);
	return EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1 &&
	       EVP_CipherUpdate(c, to, &done, from, (int)n) == 1 && done == (int)n &&
	       EVP_CipherFinal_ex(c, to + n, &done) == 1;
}

enum err ca_unseal(struct str sealed, const struct seal_key *k, const struct seal_owner *owner,
		   struct ca **out)
{
	const unsigned char *from = (const unsigned char *)sealed.p;
	EVP_CIPHER_CTX *cipher = NULL;
	unsigned char *open = NULL;
	enum err e = ERR_SYNTAX;
	size_t n;

	if (sealed.n <= HEAD_BYTES + CA_KEY_BYTES + TAG_BYTES || sealed.n > SEALED_MAX ||
	    from[0] != VERSION)
		return ERR_SYNTAX;
	n = sealed.n - HEAD_BYTES - TAG_BYTES;
	open = locked_new(n);
	cipher = open ? begin(k, from + 1, owner, false) : NULL;
	if (!cipher)
		e = open ? ERR_CRYPTO : ERR_NOMEM;
	else if (decrypt(cipher, from + HEAD_BYTES, n, open))
		e = ca_again(str_n((const char *)open + CA_KEY_BYTES, n - CA_KEY_BYTES), open, out);
	EVP_CIPHER_CTX_free(cipher);
	locked_free(open);
	return e;
}
