/* Theory of operation
 *
 * A question has a slot; its id is made of the kind, the slot and the slot's generation, so that
 * an answer is matched by all three and an id that was answered is never valid again soon. A
 * question is
 *
 *   SENT        waiting for its answer; its timer delivers the failure if none comes in time
 *   FAILED      could not be sent: its timer, due at once, delivers the failure from the loop
 *   FORGOTTEN   cancelled or timed out: the answer may still come and is then thrown away; its
 *               timer ends that after ASK_FORGOTTEN_MS
 *
 * A descriptor that nobody waits for is closed and its ticket handed back, whatever its id says.
 */
#include "proxy/worker.h"
#include "sandbox/channel.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

#define ASK_RESOLVE_MS 15000
#define ASK_LEASE_MS 5000
#define ASK_DIAL_MS 20000
#define ASK_LEAF_MS 5000
#define ASK_GRANT_MS 15000
#define ASK_FORGOTTEN_MS 60000
/* Room beside those under way: questions that failed at once or were forgotten. */
#define SLOTS (2 * ASKS_MAX)
#define NO_SLOT UINT16_MAX

enum ask_kind { ASK_RESOLVE, ASK_LEASE, ASK_DIAL, ASK_LEAF, ASK_GRANT, ASK_KINDS };
enum ask_state { ASK_SENT, ASK_FAILED, ASK_FORGOTTEN };

union ask_fn {
	resolved_fn *resolved;
	leased_fn *leased;
	dialed_fn *dialed;
	leaf_fn *leaf;
	granted_fn *granted;
};

struct ask {
	struct asks *asks;
	ask_id id;
	enum ask_kind kind;
	enum ask_state state;
	bool full;		/* failed because there were too many */
	union ask_fn fn;
	void *arg;
	struct event timer;
};

struct slot {
	struct ask *ask;
	uint16_t generation;
	uint16_t next_free;
};

struct kind_table {
	struct slot *slots;
	uint16_t used, free;	/* slots ever used; head of the list of free ones */
	unsigned sent;
};

struct asks {
	struct worker *w;
	struct kind_table kinds[ASK_KINDS];
};

static const unsigned time_limit[ASK_KINDS] = {
	[ASK_RESOLVE] = ASK_RESOLVE_MS, [ASK_LEASE] = ASK_LEASE_MS, [ASK_DIAL] = ASK_DIAL_MS,
	[ASK_LEAF] = ASK_LEAF_MS, [ASK_GRANT] = ASK_GRANT_MS,
};

/* ---- the table ---- */

_Static_assert(SLOTS == 1 << 13, "an id has 13 bits for the slot");

static ask_id make_id(enum ask_kind kind, uint16_t slot, uint16_t generation)
{
	return ((uint32_t)kind + 1) << 29 | (uint32_t)generation << 13 | slot;
}

static struct ask *find(struct asks *a, ask_id id)
{
	uint32_t kind = (id >> 29) - 1;
	uint32_t slot = id & (SLOTS - 1);
	struct ask *ask;

	if (id >> 29 == 0 || kind >= ASK_KINDS || slot >= a->kinds[kind].used)
		return NULL;
	ask = a->kinds[kind].slots[slot].ask;
	return ask && ask->id == id ? ask : NULL;
}

/* Gives the question a slot and an id. */
static bool enter(struct kind_table *t, struct ask *ask)
{
	uint16_t slot = t->free;

	if (slot != NO_SLOT)
		t->free = t->slots[slot].next_free;
	else if (t->used < SLOTS)
		slot = t->used++;
	else
		return false;
	t->slots[slot].ask = ask;
	t->slots[slot].generation++;
	ask->id = make_id(ask->kind, slot, t->slots[slot].generation);
	return true;
}

static void set_state(struct ask *ask, enum ask_state state)
{
	struct kind_table *t = &ask->asks->kinds[ask->kind];

	t->sent -= ask->state == ASK_SENT;
	t->sent += state == ASK_SENT;
	ask->state = state;
}

static void leave(struct ask *ask)
{
	struct kind_table *t = &ask->asks->kinds[ask->kind];
	uint16_t slot = (uint16_t)(ask->id & (SLOTS - 1));

	t->sent -= ask->state == ASK_SENT;
	t->slots[slot].ask = NULL;
	t->slots[slot].next_free = t->free;
	t->free = slot;
	event_del(&ask->timer);
	free(ask);
}

static void set_timer(struct ask *ask, unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

	event_add(&ask->timer, &tv);
}

static void forget(struct ask *ask)
{
	set_state(ask, ASK_FORGOTTEN);
	set_timer(ask, ASK_FORGOTTEN_MS);
}

/* ---- failures ---- */

static void call_failed(enum ask_kind kind, union ask_fn fn, void *arg, bool late, bool full)
{
	struct msg_resolved resolved = { .status = full ? RESOLVE_QUOTA : late ? RESOLVE_TIMEOUT :
					 RESOLVE_SERVFAIL };
	struct msg_leased leased = { 0 };
	struct msg_dialed dialed = { .status = full   ? DIAL_QUOTA
					       : late ? DIAL_TIMEOUT
						      : DIAL_FAILED };
	struct msg_leaf_is leaf = { 0 };
	struct msg_granted granted = { .status = GRANT_UNAVAILABLE };

	switch (kind) {
	case ASK_RESOLVE:
		fn.resolved(arg, &resolved);
		break;
	case ASK_LEASE:
		fn.leased(arg, &leased);
		break;
	case ASK_DIAL:
		fn.dialed(arg, &dialed, -1);
		break;
	case ASK_LEAF:
		fn.leaf(arg, &leaf);
		break;
	case ASK_GRANT:
		fn.granted(arg, &granted);
		break;
	case ASK_KINDS:
		abort();
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct ask *ask = arg;
	enum ask_kind kind = ask->kind;
	enum ask_state was = ask->state;
	union ask_fn fn = ask->fn;
	void *fn_arg = ask->arg;
	bool full = ask->full;

	(void)fd;
	(void)what;
	if (was == ASK_SENT)
		forget(ask);
	else
		leave(ask);
	if (was != ASK_FORGOTTEN)
		call_failed(kind, fn, fn_arg, was == ASK_SENT, full);
}

/* ---- asking ---- */

struct asks *asks_new(struct worker *w)
{
	struct asks *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->w = w;
	for (unsigned k = 0; k < ASK_KINDS; k++) {
		a->kinds[k].free = NO_SLOT;
		a->kinds[k].slots = calloc(SLOTS, sizeof(struct slot));
		if (!a->kinds[k].slots) {
			asks_free(a);
			return NULL;
		}
	}
	return a;
}

void asks_free(struct asks *a)
{
	if (!a)
		return;
	for (unsigned k = 0; k < ASK_KINDS; k++) {
		for (uint16_t i = 0; i < a->kinds[k].used; i++)
			if (a->kinds[k].slots[i].ask)
				leave(a->kinds[k].slots[i].ask);
		free(a->kinds[k].slots);
	}
	free(a);
}

/* A question in its slot, counted as sent unless there are too many; NULL without memory or
 * slot. */
static struct ask *new_ask(struct worker *w, enum ask_kind kind, union ask_fn fn, void *arg)
{
	struct kind_table *t = &w->asks->kinds[kind];
	struct ask *ask = calloc(1, sizeof(*ask));

	if (!ask)
		return NULL;
	ask->asks = w->asks;
	ask->kind = kind;
	ask->fn = fn;
	ask->arg = arg;
	ask->full = t->sent >= ASKS_MAX;
	ask->state = ASK_FAILED;
	if (event_assign(&ask->timer, w->base, -1, 0, on_timer, ask) < 0 || !enter(t, ask)) {
		free(ask);
		return NULL;
	}
	return ask;
}

/* Sends the question; what cannot be sent fails from the loop. */
static ask_id send_ask(struct ask *ask, struct channel *to, uint16_t type, const void *msg)
{
	if (!ask->full && to && channel_send(to, type, msg, NULL, 0) == OK) {
		set_state(ask, ASK_SENT);
		set_timer(ask, time_limit[ask->kind]);
	} else {
		set_timer(ask, 0);
	}
	return ask->id;
}

ask_id ask_resolve(struct worker *w, struct str name, resolved_fn *fn, void *arg)
{
	struct ask *ask = new_ask(w, ASK_RESOLVE, (union ask_fn){ .resolved = fn }, arg);
	struct msg_resolve m = { .id = ask ? ask->id : 0, .name = name };

	return ask ? send_ask(ask, w->dialer, MSG_RESOLVE, &m) : 0;
}

/* The ports of a lease are all that the policy could allow for its name. */
static size_t pack_ports(struct worker *w, struct str name, char out[2 * POLICY_PORTS_MAX])
{
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n = policy_ports(w->policy, name, ports, POLICY_PORTS_MAX);

	if (n > POLICY_PORTS_MAX)
		n = POLICY_PORTS_MAX;
	for (size_t i = 0; i < n; i++) {
		out[2 * i] = (char)(ports[i] & 0xff);
		out[2 * i + 1] = (char)(ports[i] >> 8);
	}
	return 2 * n;
}

ask_id ask_lease(struct worker *w, struct str name, leased_fn *fn, void *arg)
{
	char ports[2 * POLICY_PORTS_MAX];
	struct ask *ask = new_ask(w, ASK_LEASE, (union ask_fn){ .leased = fn }, arg);
	struct msg_lease m = { .id = ask ? ask->id : 0, .name = name };

	m.ports = str_n(ports, pack_ports(w, name, ports));
	return ask ? send_ask(ask, w->supervisor, MSG_LEASE, &m) : 0;
}

ask_id ask_dial(struct worker *w, struct str name, bool literal, uint16_t port, dialed_fn *fn,
		void *arg)
{
	struct ask *ask = new_ask(w, ASK_DIAL, (union ask_fn){ .dialed = fn }, arg);
	struct msg_dial m = {
		.id = ask ? ask->id : 0, .name = name, .literal = literal, .port = port
	};

	return ask ? send_ask(ask, w->dialer, MSG_DIAL, &m) : 0;
}

ask_id ask_leaf(struct worker *w, struct str name, bool literal, leaf_fn *fn, void *arg)
{
	struct ask *ask = new_ask(w, ASK_LEAF, (union ask_fn){ .leaf = fn }, arg);
	struct msg_leaf m = { .id = ask ? ask->id : 0, .name = name, .literal = literal };

	return ask ? send_ask(ask, w->broker, MSG_LEAF, &m) : 0;
}

ask_id ask_grant(struct worker *w, uint64_t ticket, enum proto proto, struct str method,
		 struct str path, granted_fn *fn, void *arg)
{
	struct ask *ask = new_ask(w, ASK_GRANT, (union ask_fn){ .granted = fn }, arg);
	struct msg_grant m = { .id = ask ? ask->id : 0, .ticket = ticket, .proto = (uint8_t)proto,
			       .method = method, .path = path };

	return ask ? send_ask(ask, w->broker, MSG_GRANT, &m) : 0;
}

void ask_cancel(struct worker *w, ask_id id)
{
	struct ask *ask = find(w->asks, id);

	if (!ask)
		return;
	if (ask->state == ASK_SENT)
		forget(ask);
	else if (ask->state == ASK_FAILED)
		leave(ask);
}

void hang_up(struct worker *w, uint64_t ticket)
{
	struct msg_hangup m = { .ticket = ticket };

	/* A dialer that is gone has forgotten its tickets; one whose queue is full has a worker
	 * that does not read: its channel ends, and all tickets with it. */
	if (ticket && w->dialer && channel_send(w->dialer, MSG_HANGUP, &m, NULL, 0) != OK)
		return;
}

/* ---- answers ---- */

static bool kind_of(uint16_t type, const void *msg, enum ask_kind *kind, ask_id *id)
{
	switch (type) {
	case MSG_RESOLVED:
		*kind = ASK_RESOLVE;
		*id = ((const struct msg_resolved *)msg)->id;
		return true;
	case MSG_LEASED:
		*kind = ASK_LEASE;
		*id = ((const struct msg_leased *)msg)->id;
		return true;
	case MSG_DIALED:
		*kind = ASK_DIAL;
		*id = ((const struct msg_dialed *)msg)->id;
		return true;
	case MSG_LEAF_IS:
		*kind = ASK_LEAF;
		*id = ((const struct msg_leaf_is *)msg)->id;
		return true;
	case MSG_GRANTED:
		*kind = ASK_GRANT;
		*id = ((const struct msg_granted *)msg)->id;
		return true;
	default:
		return false;
	}
}

static void throw_away(struct worker *w, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	channel_close_fds(fds, n_fds);
	if (type == MSG_DIALED)
		hang_up(w, ((const struct msg_dialed *)msg)->ticket);
}

/* A connection comes with its descriptor, a failure without one; everything else is a failure. */
static void call_dialed(struct worker *w, dialed_fn *fn, void *arg, const struct msg_dialed *m,
			int *fds, size_t n_fds)
{
	struct msg_dialed broken = *m;

	if ((m->status == DIAL_OK) == (n_fds == 1)) {
		fn(arg, m, n_fds ? fds[0] : -1);
		return;
	}
	throw_away(w, MSG_DIALED, m, fds, n_fds);
	broken.status = DIAL_FAILED;
	broken.ticket = 0;
	fn(arg, &broken, -1);
}

static void call(struct worker *w, enum ask_kind kind, union ask_fn fn, void *arg, const void *msg,
		 int *fds, size_t n_fds)
{
	switch (kind) {
	case ASK_RESOLVE:
		fn.resolved(arg, msg);
		break;
	case ASK_LEASE:
		fn.leased(arg, msg);
		break;
	case ASK_DIAL:
		call_dialed(w, fn.dialed, arg, msg, fds, n_fds);
		break;
	case ASK_LEAF:
		fn.leaf(arg, msg);
		break;
	case ASK_GRANT:
		fn.granted(arg, msg);
		break;
	case ASK_KINDS:
		abort();
	}
}

bool asks_answer(struct worker *w, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	enum ask_kind kind;
	ask_id id;
	struct ask *ask = kind_of(type, msg, &kind, &id) ? find(w->asks, id) : NULL;
	union ask_fn fn;
	void *arg;

	if (!ask || ask->kind != kind || ask->state != ASK_SENT) {
		bool known = ask && ask->kind == kind && ask->state == ASK_FORGOTTEN;

		throw_away(w, type, msg, fds, n_fds);
		if (known)
			leave(ask);
		return known;
	}
	fn = ask->fn;
	arg = ask->arg;
	leave(ask);
	call(w, kind, fn, arg, msg, fds, n_fds);
	return true;
}
