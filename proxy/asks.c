/* Theory of operation
 *
 * A question has a slot; its id is made of the kind, the slot and the slot's generation, so that
 * an answer is matched by all three and an id that was answered is never valid again soon. A
 * question is
 *
 *   SENT        waiting for its answer; its timer delivers the failure if none comes in time
 *   WAITING     who is to be asked is away, and its successor expected; its timer delivers the
 *               failure if none comes within PEER_WAIT_MS
 *   FAILED      could not be sent: its timer, due at once, delivers the failure from the loop
 *   FORGOTTEN   cancelled or timed out: the answer may still come and is then thrown away; its
 *               timer ends that after ASK_FORGOTTEN_MS
 *
 * A dialer or broker that is gone has forgotten what it was asked: its successor is asked again.
 * None of these questions does anything twice that may be done only once: a connection that was
 * dialled for nobody is closed with its dialer, and no byte of a request goes out before its
 * answer. But what was sent ASK_SENDS_MAX times and not answered once may be what they died of, and
 * fails.
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
#define ASK_LEAF_MS 10000	/* a broker that hangs is replaced before that */
#define ASK_GRANT_MS 15000
#define ASK_ACCESS_MS 5000
#define ASK_FORGOTTEN_MS 60000
#define ASK_SENDS_MAX 2
/* Room beside those under way: questions that failed at once or were forgotten. */
#define SLOTS (2 * ASKS_MAX)
#define NO_SLOT UINT16_MAX

enum ask_kind { ASK_RESOLVE, ASK_LEASE, ASK_DIAL, ASK_LEAF, ASK_GRANT, ASK_ACCESS, ASK_KINDS };
enum ask_state { ASK_SENT, ASK_WAITING, ASK_FAILED, ASK_FORGOTTEN };

union ask_fn {
	resolved_fn *resolved;
	leased_fn *leased;
	dialed_fn *dialed;
	leaf_fn *leaf;
	granted_fn *granted;
	access_fn *access;
};

struct ask {
	struct asks *asks;
	ask_id id;
	enum ask_kind kind;
	enum ask_state state;
	bool full;		/* failed because there were too many */
	unsigned sends;
	/* what is asked */
	/* A name; of a grant: method, path; of an access: method, URL, reason. */
	struct buf text;
	size_t method_n, url_n;
	bool literal;
	uint16_t port;
	uint64_t ticket;
	enum proto proto;

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
	unsigned open;		/* sent or waiting */
};

struct asks {
	struct worker *w;
	struct kind_table kinds[ASK_KINDS];
};

static const unsigned time_limit[ASK_KINDS] = {
	[ASK_RESOLVE] = ASK_RESOLVE_MS, [ASK_LEASE] = ASK_LEASE_MS, [ASK_DIAL] = ASK_DIAL_MS,
	[ASK_LEAF] = ASK_LEAF_MS, [ASK_GRANT] = ASK_GRANT_MS, [ASK_ACCESS] = ASK_ACCESS_MS,
};

static const enum role asked[ASK_KINDS] = {
	[ASK_RESOLVE] = ROLE_DIALER, [ASK_LEASE] = ROLE_SUPERVISOR, [ASK_DIAL] = ROLE_DIALER,
	[ASK_LEAF] = ROLE_BROKER, [ASK_GRANT] = ROLE_BROKER, [ASK_ACCESS] = ROLE_SUPERVISOR,
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

static bool is_open(enum ask_state state)
{
	return state == ASK_SENT || state == ASK_WAITING;
}

static void set_state(struct ask *ask, enum ask_state state)
{
	struct kind_table *t = &ask->asks->kinds[ask->kind];

	t->open -= is_open(ask->state);
	t->open += is_open(state);
	ask->state = state;
}

static void release(struct ask *ask)
{
	event_del(&ask->timer);
	buf_wipe(&ask->text);
	free(ask);
}

static void leave(struct ask *ask)
{
	struct kind_table *t = &ask->asks->kinds[ask->kind];
	uint16_t slot = (uint16_t)(ask->id & (SLOTS - 1));

	t->open -= is_open(ask->state);
	t->slots[slot].ask = NULL;
	t->slots[slot].next_free = t->free;
	t->free = slot;
	release(ask);
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
	struct msg_access_taken taken = { .why = STR("it cannot be passed on now") };

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
	case ASK_ACCESS:
		fn.access(arg, &taken);
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

/* A question in its slot; NULL without memory or slot. */
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
	ask->full = t->open >= ASKS_MAX;
	ask->state = ASK_FAILED;
	buf_init(&ask->text, MESSAGE_MAX);
	event_assign(&ask->timer, w->base, -1, 0, on_timer, ask);
	if (!enter(t, ask)) {
		release(ask);
		return NULL;
	}
	return ask;
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

static enum err say_lease(const struct ask *ask, struct channel *to)
{
	char ports[2 * POLICY_PORTS_MAX];
	struct msg_lease m = { .id = ask->id, .name = buf_str(&ask->text) };

	m.ports = str_n(ports, pack_ports(ask->asks->w, m.name, ports));
	return channel_send(to, MSG_LEASE, &m, NULL, 0);
}

static enum err say_grant(const struct ask *ask, struct channel *to)
{
	struct str text = buf_str(&ask->text);
	struct msg_grant m = { .id = ask->id, .ticket = ask->ticket, .proto = (uint8_t)ask->proto,
			       .method = str_n(text.p, ask->method_n),
			       .path = str_from(text, ask->method_n) };

	return channel_send(to, MSG_GRANT, &m, NULL, 0);
}

static enum err say_access(const struct ask *ask, struct channel *to)
{
	struct str text = buf_str(&ask->text);
	struct msg_access m = { .id = ask->id, .method = str_n(text.p, ask->method_n),
				.url = str_n(text.p + ask->method_n, ask->url_n),
				.reason = str_from(text, ask->method_n + ask->url_n) };

	return channel_send(to, MSG_ACCESS, &m, NULL, 0);
}

static enum err say(const struct ask *ask, struct channel *to)
{
	struct msg_resolve resolve = { .id = ask->id, .name = buf_str(&ask->text) };
	struct msg_dial dial = { .id = ask->id, .name = resolve.name, .literal = ask->literal,
				 .port = ask->port };
	struct msg_leaf leaf = { .id = ask->id, .name = resolve.name, .literal = ask->literal };

	if (ask->text.failed)
		return ERR_NOMEM;
	switch (ask->kind) {
	case ASK_RESOLVE:
		return channel_send(to, MSG_RESOLVE, &resolve, NULL, 0);
	case ASK_LEASE:
		return say_lease(ask, to);
	case ASK_DIAL:
		return channel_send(to, MSG_DIAL, &dial, NULL, 0);
	case ASK_LEAF:
		return channel_send(to, MSG_LEAF, &leaf, NULL, 0);
	case ASK_GRANT:
		return say_grant(ask, to);
	case ASK_ACCESS:
		return say_access(ask, to);
	case ASK_KINDS:
		break;
	}
	abort();
}

static struct channel *channel_to(const struct worker *w, enum role role)
{
	return role == ROLE_DIALER ? w->dialer : role == ROLE_BROKER ? w->broker : w->supervisor;
}

/* Only who is replaced is waited for; without the supervisor this process ends, too. */
static void wait_for_peer(struct ask *ask)
{
	bool fails = asked[ask->kind] == ROLE_SUPERVISOR || ask->sends >= ASK_SENDS_MAX;

	set_state(ask, fails ? ASK_FAILED : ASK_WAITING);
	set_timer(ask, fails ? 0 : PEER_WAIT_MS);
}

/* Sends the question, or has it wait; what cannot be sent fails from the loop. */
static ask_id send_ask(struct ask *ask)
{
	struct channel *to = channel_to(ask->asks->w, asked[ask->kind]);
	enum err e = ask->full ? ERR_FULL : to ? say(ask, to) : ERR_CLOSED;

	if (e == OK) {
		ask->sends++;
		set_state(ask, ASK_SENT);
		set_timer(ask, time_limit[ask->kind]);
	} else if (e == ERR_CLOSED) {
		wait_for_peer(ask);
	} else {
		set_state(ask, ASK_FAILED);
		set_timer(ask, 0);
	}
	return ask->id;
}

ask_id ask_resolve(struct worker *w, struct str name, resolved_fn *fn, void *arg)
{
	struct ask *ask = new_ask(w, ASK_RESOLVE, (union ask_fn){ .resolved = fn }, arg);

	if (!ask)
		return 0;
	buf_put_str(&ask->text, name);
	return send_ask(ask);
}

ask_id ask_lease(struct worker *w, struct str name, leased_fn *fn, void *arg)
{
	struct ask *ask = new_ask(w, ASK_LEASE, (union ask_fn){ .leased = fn }, arg);

	if (!ask)
		return 0;
	buf_put_str(&ask->text, name);
	return send_ask(ask);
}

ask_id ask_dial(struct worker *w, struct str name, bool literal, uint16_t port, dialed_fn *fn,
		void *arg)
{
	struct ask *ask = new_ask(w, ASK_DIAL, (union ask_fn){ .dialed = fn }, arg);

	if (!ask)
		return 0;
	buf_put_str(&ask->text, name);
	ask->literal = literal;
	ask->port = port;
	return send_ask(ask);
}

ask_id ask_leaf(struct worker *w, struct str name, bool literal, leaf_fn *fn, void *arg)
{
	struct ask *ask = new_ask(w, ASK_LEAF, (union ask_fn){ .leaf = fn }, arg);

	if (!ask)
		return 0;
	buf_put_str(&ask->text, name);
	ask->literal = literal;
	return send_ask(ask);
}

ask_id ask_grant(struct worker *w, uint64_t ticket, enum proto proto, struct str method,
		 struct str path, granted_fn *fn, void *arg)
{
	struct ask *ask = new_ask(w, ASK_GRANT, (union ask_fn){ .granted = fn }, arg);

	if (!ask)
		return 0;
	buf_put_str(&ask->text, method);
	buf_put_str(&ask->text, path);
	ask->method_n = method.n;
	ask->ticket = ticket;
	ask->proto = proto;
	return send_ask(ask);
}

ask_id ask_access(struct worker *w, struct str method, struct str url, struct str reason,
		  access_fn *fn, void *arg)
{
	struct ask *ask = new_ask(w, ASK_ACCESS, (union ask_fn){ .access = fn }, arg);

	if (!ask)
		return 0;
	buf_put_str(&ask->text, method);
	buf_put_str(&ask->text, url);
	buf_put_str(&ask->text, reason);
	ask->method_n = method.n;
	ask->url_n = url.n;
	return send_ask(ask);
}

void ask_cancel(struct worker *w, ask_id id)
{
	struct ask *ask = find(w->asks, id);

	if (!ask)
		return;
	if (ask->state == ASK_SENT)
		forget(ask);
	else if (ask->state != ASK_FORGOTTEN)
		leave(ask);
}

/* ---- peers that go and come ---- */

/* Every question to the role; @fn may end it. */
static void each_to(struct worker *w, enum role role, void (*fn)(struct ask *))
{
	for (unsigned k = 0; k < ASK_KINDS; k++) {
		struct kind_table *t = &w->asks->kinds[k];

		for (uint16_t i = 0; asked[k] == role && i < t->used; i++)
			if (t->slots[i].ask)
				fn(t->slots[i].ask);
	}
}

static void lose(struct ask *ask)
{
	if (ask->state == ASK_SENT)
		wait_for_peer(ask);
	else if (ask->state == ASK_FORGOTTEN)
		leave(ask);
}

static void ask_again(struct ask *ask)
{
	if (ask->state == ASK_WAITING)
		send_ask(ask);
}

void asks_peer_gone(struct worker *w, enum role role)
{
	each_to(w, role, lose);
}

void asks_peer_back(struct worker *w, enum role role)
{
	each_to(w, role, ask_again);
}

void hang_up(struct worker *w, uint64_t ticket)
{
	struct msg_hangup m = { .ticket = ticket };

	/* A dialer that is gone has forgotten its tickets (its successor knows none of them); one
	 * whose queue is full has a worker that does not read: its channel ends, and all tickets
	 * with it. */
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
	case MSG_ACCESS_TAKEN:
		*kind = ASK_ACCESS;
		*id = ((const struct msg_access_taken *)msg)->id;
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
	case ASK_ACCESS:
		fn.access(arg, msg);
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
