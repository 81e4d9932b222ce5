/* Theory of operation
 *
 * Before it confines itself the broker reads each secret's source, once, and does each thing that
 * OpenSSL does for the first time: it loads providers and opens the random source lazily. Its
 * private keys lie in OpenSSL's secure heap: locked and in no core file.
 *
 * A secret that cannot be read is told to the supervisor (SECRET_BAD), which decides whether to go
 * on; here its name has no value and grants of it are UNAVAILABLE.
 */
#include <event2/event.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <unistd.h>

#include "broker/ca_seal.h"
#include "proxy/broker_service.h"
#include "proxy/clock.h"
#include "proxy/role.h"
#include "sandbox/channel.h"

#define SECURE_HEAP_BYTES (1u << 20)	/* a power of two; a CA's key takes some hundred bytes */
#define SECURE_HEAP_LEAST 64

static const struct role_program program;
static uint32_t secrets_to_come;

static uint64_t now(void)
{
	return clock_ms() / 1000;
}

/* A CA and a leaf that nobody gets, sealed and opened. */
static bool rehearse(const struct seal_key *seal_key)
{
	const struct seal_owner owner = { STR("rehearsal"), 0 };
	EVP_PKEY *key = EVP_EC_gen("P-256");
	unsigned char *spki = NULL;
	int n = key ? i2d_PUBKEY(key, &spki) : 0;
	struct ca *ca = NULL, *again = NULL;
	struct buf out, sealed;
	bool ok;

	buf_init(&out, 2 * MSG_PEM_MAX);
	buf_init(&sealed, MSG_SEALED_MAX);
	ok = n > 0 && ca_new(STR("rehearsal"), &ca) == OK && ca_pem(ca, &out) == OK &&
	     ca_seal(ca, seal_key, &owner, &sealed) == OK &&
	     ca_unseal(buf_str(&sealed), seal_key, &owner, &again) == OK &&
	     ca_leaf(again, STR("rehearsal.test"), str_n((const char *)spki, (size_t)n), &out) == OK;
	buf_free(&out);
	buf_free(&sealed);
	ca_free(ca);
	ca_free(again);
	OPENSSL_free(spki);
	EVP_PKEY_free(key);
	return ok;
}

static void start(struct role_env *env, const struct msg_broker_start *m, const int *fds)
{
	struct ring_fds ring_fds = { fds[0], fds[1], fds[2] };
	struct seal_key *seal_key = NULL;
	struct ring *ring = NULL;

	if (env->state)
		role_fatal(&program, "started twice");
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1 ||
	    CRYPTO_secure_malloc_init(SECURE_HEAP_BYTES, SECURE_HEAP_LEAST) != 1)
		role_fatal(&program, "no locked memory for private keys");
	if (seal_key_read(fds[3], &seal_key) != OK)
		role_fatal(&program, "no key to seal certificate authorities with");
	close(fds[3]);
	if (!rehearse(seal_key))
		role_fatal(&program, "cannot sign certificates");
	if (m->secrets > MSG_SECRETS_MAX)
		role_fatal(&program, "%u secrets (at most %u)", m->secrets, MSG_SECRETS_MAX);
	if (ring_open_writer(&ring_fds, &ring) != OK)
		role_fatal(&program, "cannot use the ring for its records");
	env->state = broker_new(env->base, ring, seal_key, now);
	if (!env->state)
		role_fatal(&program, "out of memory");
	broker_limit(env->state, m->grants, m->queued);
	broker_on_lost(env->state, role_lose_sandbox, env);
	secrets_to_come = m->secrets;
}

static void read_secret(struct role_env *env, const struct msg_secret *m, int fd)
{
	const char *objection = NULL;
	struct msg_secret_bad bad;

	if (!env->state || secrets_to_come == 0)
		role_fatal(&program, "a secret that was not announced");
	secrets_to_come--;
	if (secret_table_read(broker_secrets(env->state), m, fd, &objection) != OK) {
		bad = (struct msg_secret_bad){ m->name, str_of(objection) };
		if (channel_send(env->supervisor, MSG_SECRET_BAD, &bad, NULL, 0) != OK)
			role_fatal(&program, "the supervisor is gone");
	}
	close(fd);
}

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)n_fds;
	if (type == MSG_BROKER_START)
		start(env, msg, fds);
	else if (type == MSG_SECRET)
		read_secret(env, msg, fds[0]);
	return secrets_to_come == 0;
}

/* An empty PEM says that the sandbox could not be taken. */
static void take_sandbox(struct role_env *env, const struct msg_sandbox *m, int *fds, size_t n_fds)
{
	struct msg_sandbox_ca told = { .sandbox = m->sandbox };
	struct broker_ca ca;

	if (broker_sandbox(env->state, m, fds, n_fds, &ca) == OK) {
		told.pem = buf_str(&ca.pem);
		told.sealed = buf_str(&ca.sealed);
	}
	role_tell(env, MSG_SANDBOX_CA, &told);
	broker_ca_free(&ca);
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_sandbox_gone *gone = msg;
	const struct msg_policy *policy = msg;
	const struct msg_peer *peer = msg;

	if (type == MSG_SANDBOX)
		take_sandbox(env, msg, fds, n_fds);
	else if (type == MSG_SANDBOX_GONE)
		broker_sandbox_gone(env->state, gone->sandbox);
	else if (type == MSG_PEER)
		role_peer_taken(env, peer, broker_peer(env->state, peer, fds[0]));
	else if (type == MSG_POLICY)
		role_policy_taken(env, policy->sandbox,
				  broker_policy(env->state, policy, fds, n_fds));
	else
		channel_close_fds(fds, n_fds);
}

static void on_end(struct role_env *env)
{
	broker_free(env->state);
	env->state = NULL;
}

static const struct role_program program = { .self = ROLE_BROKER, .on_start = on_start,
					     .on_message = on_message, .on_end = on_end };

int main(void)
{
	return role_main(&program);
}
