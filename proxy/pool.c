/* Theory of operation
 *
 * Each upstream stands in one list: with others of its place (enum upstream_place) whose site falls
 * into the same bucket, so that what is looked for is near the front: who was put back last is
 * taken first. Those that are idle stand in a second list by age, for the timer and the limit.
 *
 * Whether a site speaks HTTP/2 is known once a connection to it was ready, and remembered as a
 * hint. While it is not known to speak HTTP/1 only, whoever needs a connection joins the one that
 * is being dialled instead of dialling another. A wrong hint (two sites share one) costs a wait or
 * a connection, never more.
 *
 * One that is shared and has no legs stays where it is, and is among the idle ones by age alone.
 *
 * An idle connection that has anything to say is of no use any more: an end, a goodbye, or bytes
 * that no request asked for (RFC 9112 9.3: it cannot be known what they would answer).
 */
#include "proxy/pool.h"

#include <event2/event.h>
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/exchange.h"

#define POOL_BUCKETS 256u
#define POOL_HINTS 1024u

enum hint { HINT_NONE, HINT_H1, HINT_H2 };

struct pool {
	struct worker *w;
	const struct tls_trust *trust;
	struct upstream *waiting[POOL_BUCKETS];	/* UPSTREAM_NEW and UPSTREAM_SHARED */
	struct upstream *idle[POOL_BUCKETS];
	struct upstream *busy;
	struct upstream *oldest, *newest;	/* of those that are idle */
	struct upstream *touched;
	size_t n, n_idle;
	struct event *timer;
	uint8_t hints[POOL_HINTS];
};

/* ---- sites ---- */

static uint32_t hash(const struct site *site)
{
	uint32_t h = 2166136261u ^ site->port ^ (uint32_t)site->proto << 16;	/* FNV-1a */

	for (size_t i = 0; i < site->name.n; i++)
		h = (h ^ (unsigned char)site->name.p[i]) * 16777619u;
	return h;
}

static bool same_site(const struct site *a, const struct site *b)
{
	return a->port == b->port && a->proto == b->proto && a->literal == b->literal &&
	       str_eq(a->name, b->name);
}

/* ---- lists ---- */

static void leave_list(struct upstream *u)
{
	*u->link = u->next;
	if (u->next)
		u->next->link = u->link;
}

static struct upstream **list_of(struct pool *p, const struct upstream *u)
{
	if (u->place == UPSTREAM_BUSY)
		return &p->busy;
	return (u->place == UPSTREAM_IDLE ? p->idle : p->waiting) + hash(&u->site) % POOL_BUCKETS;
}

static void enter_list(struct pool *p, struct upstream *u)
{
	struct upstream **list = list_of(p, u);

	u->next = *list;
	u->link = list;
	if (u->next)
		u->next->link = &u->next;
	*list = u;
}

static void leave_ages(struct upstream *u)
{
	struct pool *p = u->pool;

	if (!u->aging)
		return;
	u->aging = false;
	*(u->older ? &u->older->newer : &p->oldest) = u->newer;
	*(u->newer ? &u->newer->older : &p->newest) = u->older;
	p->n_idle--;
}

static void enter_ages(struct upstream *u)
{
	struct pool *p = u->pool;

	u->aging = true;
	u->older = p->newest;
	u->newer = NULL;
	*(p->newest ? &p->newest->newer : &p->oldest) = u;
	p->newest = u;
	p->n_idle++;
}

static void move(struct upstream *u, enum upstream_place place)
{
	leave_list(u);
	u->place = place;
	enter_list(u->pool, u);
}

void pool_forget(struct upstream *u)
{
	struct pool *p = u->pool;
	struct upstream **at = &p->touched;

	leave_list(u);
	leave_ages(u);
	while (u->touched && *at != u)
		at = &(*at)->next_touched;
	if (u->touched)
		*at = u->next_touched;
	p->n--;
}

/* ---- idle ones ---- */

static void wake_in(struct pool *p, uint64_t ms)
{
	struct timeval tv = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };

	event_add(p->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pool *p = arg;
	uint64_t now = clock_ms();

	(void)fd;
	(void)what;
	while (p->oldest && p->oldest->idle_since + POOL_IDLE_MS <= now)
		upstream_free(p->oldest);
	if (p->oldest)
		wake_in(p, p->oldest->idle_since + POOL_IDLE_MS - now);
}

static size_t idle_to(const struct pool *p, const struct site *site)
{
	size_t n = 0;

	for (const struct upstream *u = p->idle[hash(site) % POOL_BUCKETS]; u; u = u->next)
		n += same_site(&u->site, site);
	return n;
}

static bool is_old(const struct upstream *u)
{
	return clock_ms() >= u->ready_at + POOL_AGE_MS;
}

static void keep(struct pool *p, struct upstream *u)
{
	if (!u->ops->shared && p->n_idle >= POOL_SITE_IDLE_MAX &&
	    idle_to(p, &u->site) >= POOL_SITE_IDLE_MAX) {
		upstream_free(u);
		return;
	}
	if (p->n_idle >= POOL_IDLE_MAX)
		upstream_free(p->oldest);
	u->idle_since = clock_ms();
	enter_ages(u);
	if (!u->ops->shared)
		move(u, UPSTREAM_IDLE);
	if (p->n_idle == 1 && !evtimer_pending(p->timer, NULL))
		wake_in(p, POOL_IDLE_MS);
	pool_touch(u);
}

void pool_look(struct upstream *u)
{
	bool clean;

	if (u->place == UPSTREAM_NEW || upstream_failed(u) || stream_ended(u->stream, &clean) ||
	    stream_in(u->stream).n || !u->ops->has_room(u))
		upstream_free(u);
	else
		pool_touch(u);	/* HTTP/2 has things to say between requests, too */
}

/* ---- choosing ---- */

static struct upstream *take_idle(struct pool *p, const struct site *site, bool look)
{
	struct upstream *u = p->idle[hash(site) % POOL_BUCKETS], *next;

	for (; u; u = next) {
		next = u->next;
		if (!same_site(&u->site, site))
			continue;
		if (!is_old(u) && upstream_usable(u, look)) {
			leave_ages(u);
			move(u, UPSTREAM_BUSY);
			return u;
		}
		upstream_free(u);
	}
	return NULL;
}

static enum hint hint_of(const struct pool *p, const struct site *site)
{
	return site->proto == PROTO_HTTPS ? (enum hint)p->hints[hash(site) % POOL_HINTS] : HINT_H1;
}

/* One that is shared, or may be once it is dialled. */
static struct upstream *find_waiting(struct pool *p, const struct site *site)
{
	bool joins = hint_of(p, site) != HINT_H1;

	for (struct upstream *u = p->waiting[hash(site) % POOL_BUCKETS]; u; u = u->next)
		if (same_site(&u->site, site) && !u->dead && !u->outdated && !upstream_failed(u) &&
		    (u->place == UPSTREAM_SHARED ? upstream_has_ticket(u) && !is_old(u) &&
							       u->ops->has_room(u)
						 : joins)) {
			leave_ages(u);
			return u;
		}
	return NULL;
}

static struct upstream *dial(struct pool *p, const struct site *site)
{
	struct upstream *u = p->n < POOL_MAX ? upstream_new(p, site) : NULL;

	if (!u)
		return NULL;
	p->n++;
	u->place = UPSTREAM_NEW;
	enter_list(p, u);
	return u;
}

bool pool_get(struct pool *p, const struct site *site, struct pool_wish wish, struct leg *leg)
{
	struct upstream *u = wish.fresh ? NULL : take_idle(p, site, wish.look);

	if (!u)
		u = find_waiting(p, site);
	if (!u)
		u = dial(p, site);
	if (!u)
		return false;
	upstream_join(u, leg);
	return true;
}

void pool_ready(struct upstream *u)
{
	u->ready_at = clock_ms();
	u->pool->hints[hash(&u->site) % POOL_HINTS] = u->ops->shared ? HINT_H2 : HINT_H1;
	move(u, u->ops->shared ? UPSTREAM_SHARED : UPSTREAM_BUSY);
}

void pool_put(struct leg *leg, bool clean)
{
	struct upstream *u = leg->up;

	upstream_leave(leg);
	if (u->legs)
		return;
	if ((clean || (u->ops && u->ops->shared)) && upstream_ready(u) && upstream_has_ticket(u) &&
	    u->ops->has_room(u) && !u->outdated && !is_old(u))
		keep(u->pool, u);
	else
		upstream_free(u);
}

void pool_drain(struct pool *p)
{
	while (p->oldest)
		upstream_free(p->oldest);
	for (size_t i = 0; i < POOL_BUCKETS; i++)
		for (struct upstream *u = p->waiting[i]; u; u = u->next)
			u->outdated = u->place == UPSTREAM_SHARED;
}

/* ---- the end of a pass ---- */

void pool_touch(struct upstream *u)
{
	if (u->touched)
		return;
	u->touched = true;
	u->next_touched = u->pool->touched;
	u->pool->touched = u;
}

static void settle(struct upstream *u)
{
	bool wakes = u->ops && u->ops->flush(u);

	stream_settle(u->stream);
	if (wakes)
		stream_nudge(u->stream);
}

void pool_settle(struct pool *p)
{
	struct upstream *u;

	while ((u = p->touched)) {
		p->touched = u->next_touched;
		u->touched = false;
		if (u->stream)
			settle(u);
	}
}

/* ---- life ---- */

struct pool *pool_new(struct worker *w, const struct tls_trust *trust)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->w = w;
	p->trust = trust;
	p->timer = evtimer_new(w->base, on_timer, p);
	if (!p->timer) {
		free(p);
		return NULL;
	}
	return p;
}

static void free_all(struct upstream **list)
{
	while (*list)
		upstream_free(*list);
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < POOL_BUCKETS; i++) {
		free_all(&p->waiting[i]);
		free_all(&p->idle[i]);
	}
	free_all(&p->busy);
	event_free(p->timer);
	free(p);
}

size_t pool_count(const struct pool *p)
{
	return p->n;
}

size_t pool_idle(const struct pool *p)
{
	return p->n_idle;
}

struct worker *pool_worker(const struct pool *p)
{
	return p->w;
}

const struct tls_trust *pool_trust(const struct pool *p)
{
	return p->trust;
}
