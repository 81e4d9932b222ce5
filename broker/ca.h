/* broker/ca.h - the certificate authority of one sandbox
 *
 * ECDSA P-256 throughout. The CA's key never leaves this object. Profile: RFC 5280 4.2.1, strict
 * clients' reading of it: CA with SKI, critical basicConstraints and keyUsage keyCertSign|cRLSign;
 * leaf with AKI, SKI, keyUsage digitalSignature, EKU serverAuth, one SAN (DNS name or IP), a
 * positive random serial of at least 64 bits, SHA-256, CN only where it fits (64 bytes), at most
 * 397 days, notBefore an hour back.
 *
 * Ownership   ca_free(). Output is appended to the caller's buffers.
 * Blocking    a signature: some 30 microseconds.
 * Failure     ERR_CRYPTO; ERR_SYNTAX for a public key that is no P-256 key.
 * Tests       tests/unit/broker/test_ca.c
 */
#ifndef BROKER_CA_H
#define BROKER_CA_H

#include "conf/buf.h"
#include "conf/err.h"

struct ca;

must_use enum err ca_new(struct str sandbox, struct ca **out);
void ca_free(struct ca *c);
must_use enum err ca_pem(const struct ca *c, struct buf *out);
/* Signs a leaf for @name (canonical name, or an IP address as text) and the holder of
 * @spki (DER SubjectPublicKeyInfo). Appends the leaf's DER. */
must_use enum err ca_leaf(const struct ca *c, struct str name, struct str spki, struct buf *out);
/* The CA certificate's DER. */
must_use enum err ca_der(const struct ca *c, struct buf *out);

#endif
