#include "proxy/kept_grant.h"

#include <event2/event.h>
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/http1.h"

struct kept_grant {
	struct lasting_grant grant;	/* until_ms 0: nothing is kept */
	struct fields edits;
	struct scrub *scrub;
	struct event *timer;
};

static void forget(struct kept_grant *k)
{
	fields_wipe(&k->edits);
	fields_init(&k->edits, HTTP1_HEADERS_MAX);
	scrub_free(k->scrub);
	k->scrub = NULL;
	k->grant.until_ms = 0;
}

static void wake_in(struct kept_grant *k, uint64_t ms)
{
	struct timeval tv = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };

	if (event_add(k->timer, &tv) < 0)
		forget(k);
}

/* The timer is set once for several grants that follow each other: it may come early. */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kept_grant *k = arg;
	uint64_t now = clock_ms();

	(void)fd;
	(void)what;
	if (k->grant.until_ms > now)
		wake_in(k, k->grant.until_ms - now);
	else if (k->grant.until_ms)
		forget(k);
}

struct kept_grant *kept_grant_new(struct event_base *base)
{
	struct kept_grant *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	fields_init(&k->edits, HTTP1_HEADERS_MAX);
	k->timer = evtimer_new(base, on_timer, k);
	if (!k->timer) {
		kept_grant_free(k);
		return NULL;
	}
	return k;
}

void kept_grant_free(struct kept_grant *k)
{
	if (!k)
		return;
	fields_wipe(&k->edits);
	scrub_free(k->scrub);
	if (k->timer)
		event_free(k->timer);
	free(k);
}

static void move_fields(struct fields *to, struct fields *from)
{
	fields_wipe(to);
	*to = *from;
	fields_init(from, HTTP1_HEADERS_MAX);
}

void kept_grant_put(struct kept_grant *k, const struct lasting_grant *grant, struct fields *edits,
		    struct scrub **scrub)
{
	uint64_t now = clock_ms();

	scrub_free(k->scrub);
	k->grant = *grant;
	move_fields(&k->edits, edits);
	k->scrub = *scrub;
	*scrub = NULL;
	if (grant->until_ms <= now)
		forget(k);
	else if (!evtimer_pending(k->timer, NULL))
		wake_in(k, grant->until_ms - now);
}

bool kept_grant_take(struct kept_grant *k, struct rule_ref rule, unsigned policies,
		     struct lasting_grant *grant, struct fields *edits, struct scrub **scrub)
{
	if (k->grant.until_ms <= clock_ms() || k->grant.policies != policies ||
	    k->grant.rule.image != rule.image || k->grant.rule.rule != rule.rule) {
		forget(k);
		return false;
	}
	*grant = k->grant;
	move_fields(edits, &k->edits);
	*scrub = k->scrub;
	k->scrub = NULL;
	k->grant.until_ms = 0;
	return true;
}
