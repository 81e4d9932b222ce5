/* proxy/tls_io.h - an OpenSSL BIO over a socket that first gives back what was read before it
 *
 * The ClientHello is read and judged before there is any TLS state (proxy/hello.h); the bytes that
 * were taken from the socket for that are handed to OpenSSL from here, then the socket's own.
 *
 * A read that got less than there was room for has emptied the socket: the next one says so without
 * asking the kernel. So it is, too, when a first part was read before.
 *
 * Ownership   the BIO copies @first and borrows @fd; it is freed with its SSL.
 * Blocking    never: a socket that would block sets the BIO's retry flags.
 * Failure     NULL when memory ran out. Writing to a closed peer is an error, never a signal.
 * Limits      @first is bounded by who read it (HELLO_MAX).
 * Tests       tests/unit/proxy/test_tls_io.c
 */
#ifndef PROXY_TLS_IO_H
#define PROXY_TLS_IO_H

#include <openssl/bio.h>

#include "conf/str.h"

BIO *tls_io_new(int fd, struct str first);
/* The socket may have bytes (again): its event said so, or somebody wants to know. */
void tls_io_woken(BIO *bio);
/* Was all taken that the socket had? Then reading from it is not tried before tls_io_woken(). */
bool tls_io_drained(BIO *bio);

/* From now on writes wait for each other until the socket is shut down. */
void tls_io_last(BIO *bio);

#endif
