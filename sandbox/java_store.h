/* sandbox/java_store.h - a Java trust store of the certificates of a PEM bundle
 *
 * Java reads no PEM. The format is JKS, which every Java reads, without any private key in it.
 *
 * Ownership   @pem is borrowed; the store is appended to @out.
 * Blocking    never.
 * Failure     ERR_CRYPTO, ERR_LIMIT where @out may not hold it. What is no certificate in @pem is
 *             skipped.
 * Tests       tests/unit/sandbox/test_java_store.c
 */
#ifndef SANDBOX_JAVA_STORE_H
#define SANDBOX_JAVA_STORE_H

#include "conf/buf.h"
#include "conf/err.h"

#define JAVA_STORE_MAX (4u << 20)

must_use enum err java_store_write(struct str pem, struct buf *out);

#endif
