/* broker/ca.h - the certificate authority of one sandbox
 *
 * ECDSA P-256 throughout. The CA's key leaves this object for broker/ca_seal.c alone; where the
 * process has set up OpenSSL's secure heap it lies there (locked, in no core file). Profile: RFC
 * 5280 4.2.1, strict clients' reading of it: CA with SKI, critical basicConstraints (pathlen 0)
 * and keyUsage keyCertSign|cRLSign; leaf with AKI, SKI, keyUsage digitalSignature, EKU serverAuth,
 * one SAN (DNS name or IP, critical where the subject is empty), a positive random serial of at
 * least 64 bits, SHA-256, CN only where it fits (64 bytes), at most 397 days, notBefore an hour
 * back.
 *
 * A CA lives CA_DAYS, longer than any sandbox, and dies with it. Leaves live LEAF_DAYS, and never
 * past their CA.
 *
 * Ownership   ca_free(). Output is appended to the caller's buffers.
 * Blocking    a signature: some 30 microseconds (a key's first leaf: ten times that).
 * Failure     ERR_CRYPTO; ERR_SYNTAX for a public key that is no P-256 key, or a name that is
 *             neither a canonical host name (no wildcard) nor the canonical text of an IP address;
 *             ERR_NOMEM.
 * Tests       tests/unit/broker/test_ca.c
 */
#ifndef BROKER_CA_H
#define BROKER_CA_H

#include "conf/buf.h"
#include "conf/err.h"

#define CA_DAYS 3650
#define LEAF_DAYS 396

struct ca;

must_use enum err ca_new(struct str sandbox, struct ca **out);
void ca_free(struct ca *c);
must_use enum err ca_pem(const struct ca *c, struct buf *out);
/* Is @spki (DER SubjectPublicKeyInfo) a key that ca_leaf() signs: an uncompressed P-256 point? */
must_use enum err ca_check_key(struct str spki);
/* Signs a leaf for @name (canonical name, or an IP address as text) and the holder of @spki.
 * Appends the leaf's DER. What leaves for one key have in common is kept for the next. */
must_use enum err ca_leaf(struct ca *c, struct str name, struct str spki, struct buf *out);
/* The CA certificate's DER. */
must_use enum err ca_der(const struct ca *c, struct buf *out);

#define CA_KEY_BYTES 32		/* P-256 */
#define CA_DER_MAX 2048		/* what ca_der() has made is far below it */

/* The private key, into memory that the caller locks and wipes; in a form for ca_again(). */
must_use enum err ca_key(const struct ca *c, unsigned char key[CA_KEY_BYTES]);
/* The CA of a certificate and its key, as ca_der() and ca_key() gave them; ERR_SYNTAX where they
 * are no pair. */
must_use enum err ca_again(struct str der, unsigned char key[CA_KEY_BYTES], struct ca **out);

#endif
