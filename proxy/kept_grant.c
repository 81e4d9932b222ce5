#include "proxy/kept_grant.h"

#include <event2/event.h>
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/http1.h"

struct kept {
	struct kept *next;
	struct lasting_grant grant;
	struct fields edits;
	struct scrub *scrub;
};

struct kept_grant {
	struct kept *first;	/* the last that was put */
	unsigned n;
	struct event *timer;
};

static void forget(struct kept_grant *k, struct kept **at)
{
	struct kept *one = *at;

	*at = one->next;
	k->n--;
	fields_wipe(&one->edits);
	scrub_free(one->scrub);
	free(one);
}

static void forget_all(struct kept_grant *k)
{
	while (k->first)
		forget(k, &k->first);
}

static void wake_in(struct kept_grant *k, uint64_t ms)
{
	struct timeval tv = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };

	if (event_add(k->timer, &tv) < 0)
		forget_all(k);
}

/* The timer is set once for several grants that follow each other: it may come early. */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kept_grant *k = arg;
	uint64_t now = clock_ms(), next = UINT64_MAX;

	(void)fd;
	(void)what;
	for (struct kept **at = &k->first; *at;) {
		uint64_t until = (*at)->grant.until_ms;

		if (until <= now) {
			forget(k, at);
			continue;
		}
		next = until < next ? until : next;
		at = &(*at)->next;
	}
	if (k->first)
		wake_in(k, next - now);
}

struct kept_grant *kept_grant_new(struct event_base *base)
{
	struct kept_grant *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
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
	forget_all(k);
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
	bool keeps = grant->until_ms > now && k->n < KEPT_GRANTS_MAX;
	struct kept *one = keeps ? calloc(1, sizeof(*one)) : NULL;

	if (one) {
		one->grant = *grant;
		move_fields(&one->edits, edits);
		one->scrub = *scrub;
		one->next = k->first;
		k->first = one;
		k->n++;
	} else {
		fields_wipe(edits);
		scrub_free(*scrub);
	}
	*scrub = NULL;
	if (one && !evtimer_pending(k->timer, NULL))
		wake_in(k, grant->until_ms - now);
}

static bool is_for(const struct kept *one, struct rule_ref rule)
{
	return one->grant.rule.image == rule.image && one->grant.rule.rule == rule.rule;
}

bool kept_grant_take(struct kept_grant *k, struct rule_ref rule, unsigned policies,
		     struct lasting_grant *grant, struct fields *edits, struct scrub **scrub)
{
	struct kept **at = &k->first;
	uint64_t now = k->first ? clock_ms() : 0;

	while (*at) {
		struct kept *one = *at;

		if (one->grant.until_ms <= now || one->grant.policies != policies) {
			forget(k, at);
		} else if (is_for(one, rule)) {
			*grant = one->grant;
			move_fields(edits, &one->edits);
			*scrub = one->scrub;
			one->scrub = NULL;
			forget(k, at);
			return true;
		} else {
			at = &one->next;
		}
	}
	return false;
}
