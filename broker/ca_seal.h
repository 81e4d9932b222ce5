/* broker/ca_seal.h - a sandbox's CA in a form that only another broker can open
 *
 * The supervisor keeps it, and gives it to the broker's successor, so that a box goes on to trust
 * what it trusted. It never sees the key: what it holds of the sealing key is a pipe, which it has
 * no reason to read and the broker's successor has.
 *
 * Sealed is AES-256-GCM over the CA's private key and certificate, under a random nonce, bound to
 * the sandbox's name and number: what was sealed for one does not open for another.
 *
 * Ownership   seal_key_free() wipes. ca_unseal()'s CA is the caller's; sealed bytes are appended to
 *             the caller's buffer.
 * Blocking    seal_key_read() as long as its descriptor does.
 * Failure     ERR_SYNTAX for what is no key of SEAL_KEY_BYTES, and for sealed bytes that do not
 *             open: changed, of another sandbox, under another key; ERR_SYSTEM for a descriptor
 *             that cannot be read; ERR_CRYPTO; ERR_NOMEM.
 * Limits      SEALED_MAX bytes.
 * Tests       tests/unit/broker/test_ca_seal.c
 */
#ifndef BROKER_CA_SEAL_H
#define BROKER_CA_SEAL_H

#include "broker/ca.h"

#define SEAL_KEY_BYTES 32
#define SEALED_MAX (CA_DER_MAX + 128)

struct seal_key;

/* @fd: a pipe that holds the key and nothing else; the caller closes it. */
must_use enum err seal_key_read(int fd, struct seal_key **out);
void seal_key_free(struct seal_key *k);

/* Whose CA it is. */
struct seal_owner {
	struct str name;
	uint32_t number;
};

must_use enum err ca_seal(const struct ca *c, const struct seal_key *k,
			  const struct seal_owner *owner, struct buf *out);
must_use enum err ca_unseal(struct str sealed, const struct seal_key *k,
			    const struct seal_owner *owner, struct ca **out);

#endif
