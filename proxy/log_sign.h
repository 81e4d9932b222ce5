/* proxy/log_sign.h - checkpoints: Ed25519 signatures (RFC 8032) over where an audit log stands
 *
 * What is signed is the text "exeat log SEQ PREV": the number of the line that carries the
 * signature, and the hash of the line before it. So a checkpoint vouches for every line up to
 * itself, and for which number they have.
 *
 * Keys are PEM: the private one PKCS #8, public ones SubjectPublicKeyInfo; a key's id is the
 * beginning of the SHA-256 of the latter's DER, in hex.
 *
 * Ownership   log_signer_open() takes the descriptor over, also when it fails, and wipes what it
 *             has read; log_signer_close(), log_keys_close().
 * Blocking    file reads.
 * Failure     ERR_SYNTAX: no Ed25519 key is in the file; ERR_SYSTEM with errno; ERR_CRYPTO.
 * Limits      LOG_KEYS_MAX public keys.
 * Tests       tests/unit/proxy/test_log_sign.c
 */
#ifndef PROXY_LOG_SIGN_H
#define PROXY_LOG_SIGN_H

#include "conf/err.h"
#include "proxy/log_line.h"

#define LOG_KEY_ID_HEX 16
#define LOG_SIGNATURE_HEX 128
#define LOG_KEY_FILE_MAX 4096
#define LOG_KEYS_MAX 64

struct log_signer;
struct log_keys;

must_use enum err log_signer_open(int fd, struct log_signer **out);
void log_signer_close(struct log_signer *s);
const char *log_signer_id(const struct log_signer *s);
must_use enum err log_sign(const struct log_signer *s, uint64_t seq, const char *prev,
			   char out[LOG_SIGNATURE_HEX + 1]);

/* All public keys in a file. */
must_use enum err log_keys_open(const char *path, struct log_keys **out);
void log_keys_close(struct log_keys *k);

enum log_signature { LOG_SIGNATURE_GOOD, LOG_SIGNATURE_BAD, LOG_SIGNATURE_OF_ANOTHER };
enum log_signature log_signature_check(const struct log_keys *k, struct str id,
				       struct str signature, uint64_t seq, struct str prev);

#endif
