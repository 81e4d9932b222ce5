/* proxy/tls_provider.h - OpenSSL's algorithms for TLS, without those that only make it slow
 *
 * Each certificate that is read has its key decoded, and for each of these OpenSSL 3.0 goes through
 * all decoders and key types that there are: 130 of the 150 microseconds that reading one takes. A
 * full handshake reads the origin's whole chain. So TLS has a library context of its own, with the
 * default provider's algorithms but for the decoders and key types that no certificate has.
 *
 * Ownership   tls_provider_free(), when nothing that was made in the context is left.
 * Blocking    never; no file is opened.
 * Failure     NULL. Keys of other kinds (DSA, SM2, GOST) are unknown ones: their certificates do
 *             not verify.
 * Limits      the rows of tls_provider.c.
 * Tests       tests/unit/proxy/test_tls_provider.c
 */
#ifndef PROXY_TLS_PROVIDER_H
#define PROXY_TLS_PROVIDER_H

#include <openssl/types.h>

struct tls_provider;

struct tls_provider *tls_provider_new(void);
void tls_provider_free(struct tls_provider *p);
/* The library context to make all things of TLS in; lives as long as @p. */
OSSL_LIB_CTX *tls_provider_context(const struct tls_provider *p);

#endif
