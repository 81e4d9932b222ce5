/* Theory of operation
 *
 * A session comes as a callback: with TLS 1.3 some time after its handshake, more than one, and
 * from resumed connections, too. What is needed then hangs on the SSL (struct origin): whom it is
 * with, and until when that identity is verified, which a resumed connection inherits from the
 * session that it resumed.
 *
 * Kept is a copy: OpenSSL spoils a connection's session where it is freed without close_notify.
 */
#include "proxy/tls_sessions.h"

#include <stdlib.h>

#define NAME_BYTES 255

struct entry {
	SSL_SESSION *session;	/* NULL: free */
	uint64_t ends, number;	/* the order in which they came */
	uint32_t hash;		/* of the site's name: most comparisons end there */
	struct tls_site site;	/* its name is @name */
	char name[NAME_BYTES];
};

/* What an SSL knows of itself. */
struct origin {
	struct tls_sessions *all;
	struct tls_site site;	/* its name is @name */
	bool offered;		/* a session was, */
	uint64_t offered_ends;	/* which ends then */
	uint64_t ends;		/* of what this connection has proved; 0 not known yet */
	char name[];
};

struct tls_sessions {
	uint64_t (*now)(void);
	uint64_t numbers;
	struct entry *entries;	/* SESSIONS_MAX of them, from the first session on */
	size_t used;
};

/* FNV-1a. Names come from the box: SESSIONS_MAX bounds what collisions can cost. */
static uint32_t hash_of(struct str name)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * 16777619u;
	return h;
}

static bool is_of(const struct entry *e, const struct tls_site *site, uint32_t hash)
{
	return e->session && e->hash == hash && e->site.port == site->port &&
	       e->site.offer == site->offer && e->site.literal == site->literal &&
	       str_eq(e->site.name, site->name);
}

static size_t room(const struct tls_sessions *all)
{
	return all->entries ? SESSIONS_MAX : 0;
}

/* OpenSSL wipes what is secret in it. */
static void drop(struct tls_sessions *all, struct entry *e)
{
	SSL_SESSION_free(e->session);
	e->session = NULL;
	all->used--;
}

static bool is_older(const struct entry *e, const struct entry *than)
{
	return !than || e->number < than->number;
}

/* Where the next one goes: in the place of the site's oldest where it has its share, else in a free
 * one, else in that of the oldest of all. */
static struct entry *place_for(struct tls_sessions *all, const struct tls_site *site, uint32_t hash)
{
	struct entry *of_site = NULL, *oldest = NULL, *unused = NULL;
	size_t n = 0;

	for (size_t i = 0; i < SESSIONS_MAX; i++) {
		struct entry *e = &all->entries[i];

		if (!e->session) {
			unused = e;
			continue;
		}
		if (is_older(e, oldest))
			oldest = e;
		if (!is_of(e, site, hash))
			continue;
		n++;
		if (is_older(e, of_site))
			of_site = e;
	}
	return n >= SESSIONS_SITE_MAX ? of_site : unused ? unused : oldest;
}

static void put(struct tls_sessions *all, const struct tls_site *site,
		const SSL_SESSION *session, uint64_t ends)
{
	uint32_t hash = hash_of(site->name);
	SSL_SESSION *copy;
	struct entry *e;

	if (site->name.n > NAME_BYTES)
		return;
	if (!all->entries)
		all->entries = calloc(SESSIONS_MAX, sizeof(*all->entries));
	copy = all->entries ? SSL_SESSION_dup(session) : NULL;
	if (!copy)
		return;
	e = place_for(all, site, hash);
	if (e->session)
		drop(all, e);
	e->session = copy;
	e->ends = ends;
	e->number = ++all->numbers;
	e->hash = hash;
	e->site = *site;
	memcpy(e->name, site->name.p, site->name.n);
	e->site.name.p = e->name;
	all->used++;
}

/* The newest that lives, and when it ends; NULL where there is none. */
static SSL_SESSION *take(struct tls_sessions *all, const struct tls_site *site, uint64_t *ends)
{
	uint64_t now = all->now();
	uint32_t hash = hash_of(site->name);
	struct entry *found = NULL;
	SSL_SESSION *taken;

	for (size_t i = 0; all->used && i < room(all); i++) {
		struct entry *e = &all->entries[i];

		if (!is_of(e, site, hash))
			continue;
		if (e->ends <= now)
			drop(all, e);
		else if (!found || is_older(found, e))
			found = e;
	}
	if (!found)
		return NULL;
	*ends = found->ends;
	taken = SSL_SESSION_dup(found->session);
	if (SSL_SESSION_get_protocol_version(found->session) >= TLS1_3_VERSION)
		drop(all, found);
	return taken;
}

static void drop_site(struct tls_sessions *all, const struct tls_site *site)
{
	uint32_t hash = hash_of(site->name);

	for (size_t i = 0; i < room(all); i++)
		if (is_of(&all->entries[i], site, hash))
			drop(all, &all->entries[i]);
}

/* ---- what a connection has proved ---- */

/* Seconds from @now until @end, at most @most. */
static uint64_t until(const ASN1_TIME *end, time_t now, uint64_t most)
{
	int days, seconds;
	ASN1_TIME *from = ASN1_TIME_set(NULL, now);
	bool ok = from && ASN1_TIME_diff(&days, &seconds, from, end) == 1;
	int64_t left = ok ? (int64_t)days * 86400 + seconds : 0;

	ASN1_TIME_free(from);
	return left <= 0 ? 0 : (uint64_t)left < most ? (uint64_t)left : most;
}

/* For how many seconds of @now on a full handshake's verdict may be relied on; 0: not at all. */
static uint64_t life_of(SSL *ssl, time_t now)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	uint64_t life = SESSION_LIFE_SECONDS;

	if (SSL_get_verify_result(ssl) != X509_V_OK || sk_X509_num(chain) <= 0)
		return 0;
	for (int i = 0; i < sk_X509_num(chain); i++)
		life = until(X509_get0_notAfter(sk_X509_value(chain, i)), now, life);
	return life;
}

/* ---- connections ---- */

static void origin_free(void *parent, void *ptr, CRYPTO_EX_DATA *ad, int index, long argl,
			void *argp)
{
	struct origin *o = ptr;

	(void)ad;
	(void)index;
	(void)argl;
	(void)argp;
	if (o && o->offered && !SSL_is_init_finished(parent))
		drop_site(o->all, &o->site);
	free(o);
}

static int origin_index(void)
{
	static int index = -1;

	if (index < 0)
		index = SSL_get_ex_new_index(0, NULL, NULL, NULL, origin_free);
	return index;
}

static int on_session(SSL *ssl, SSL_SESSION *session)
{
	struct origin *o = SSL_get_ex_data(ssl, origin_index());
	uint64_t now, life;

	if (!o)
		return 0;
	now = o->all->now();
	if (o->ends == 0 && SSL_session_reused(ssl)) {
		o->ends = o->offered_ends;
	} else if (o->ends == 0) {
		life = life_of(ssl, time(NULL));
		o->ends = life ? now + life : 0;
	}
	if (o->ends > now && SSL_SESSION_is_resumable(session))
		put(o->all, &o->site, session, o->ends);
	return 0;	/* it was copied */
}

static struct origin *make_origin(struct tls_sessions *all, SSL *ssl, const struct tls_site *site)
{
	struct origin *o = calloc(1, sizeof(*o) + site->name.n);

	if (!o)
		return NULL;
	o->all = all;
	o->site = *site;
	memcpy(o->name, site->name.p, site->name.n);
	o->site.name.p = o->name;
	if (SSL_set_ex_data(ssl, origin_index(), o))
		return o;
	free(o);
	return NULL;
}

void tls_sessions_watch(SSL_CTX *client)
{
	SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(client, on_session);
}

void tls_sessions_offer(struct tls_sessions *all, SSL *ssl, const struct tls_site *site)
{
	struct origin *o = make_origin(all, ssl, site);
	SSL_SESSION *session = o ? take(all, site, &o->offered_ends) : NULL;

	if (!session)
		return;
	o->offered = SSL_set_session(ssl, session) == 1;
	SSL_SESSION_free(session);
}

/* ---- life ---- */

struct tls_sessions *tls_sessions_new(uint64_t (*now)(void))
{
	struct tls_sessions *all = calloc(1, sizeof(*all));

	if (all)
		all->now = now;
	return all;
}

void tls_sessions_free(struct tls_sessions *all)
{
	if (!all)
		return;
	tls_sessions_drop_all(all);
	free(all);
}

void tls_sessions_drop_all(struct tls_sessions *all)
{
	for (size_t i = 0; i < room(all); i++)
		if (all->entries[i].session)
			drop(all, &all->entries[i]);
	free(all->entries);
	all->entries = NULL;
}

size_t tls_sessions_count(const struct tls_sessions *all)
{
	return all->used;
}
