/* proxy/refusal_list.h - this sandbox's last refusals, for its own eyes
 *
 * Each part of a worker that refuses notes it here, with the id that the box and the log have. A
 * refusal that is like one that is listed (step, host, port, method, path, rule, reason) is counted
 * there, and comes to the front with its newest id: a client in a loop does not push the others
 * out. Nothing of it is for an auditor: that is the log's work, which forgets nothing.
 *
 * Ownership   the list copies what it is told; refusal_list_free(). Entries that are handed out
 *             live until the next change.
 * Blocking    never.
 * Failure     without memory a refusal is not listed. Noting into no list (NULL) does nothing.
 * Limits      REFUSAL_LIST_MAX entries, the oldest first out; texts are cut to
 *             REFUSAL_LIST_TEXT_MAX.
 * Tests       tests/unit/proxy/test_refusal_list.c
 */
#ifndef PROXY_REFUSAL_LIST_H
#define PROXY_REFUSAL_LIST_H

#include "conf/json.h"
#include "proxy/refusal.h"

#define REFUSAL_LIST_MAX 100
#define REFUSAL_LIST_TEXT_MAX 512

struct refusal_list;

enum refusal_step { REFUSED_DNS, REFUSED_CONNECT, REFUSED_TLS, REFUSED_HTTP };

struct refusal_note {
	enum refusal_step step;
	const char *id;
	struct str host, method, path;
	struct str protocol;		/* of a packet: "udp" */
	uint16_t port;			/* 0: not known */
	struct str rule;		/* id; empty where no rule decided */
	struct str reason;		/* in words */
	const char *retry;		/* refusal_retry() */
	/* Names of this kind are one entry, whatever they are: the newest is shown. */
	bool any_host;
};

struct refusal_list *refusal_list_new(void);
void refusal_list_free(struct refusal_list *l);
void refusal_list_note(struct refusal_list *l, const struct refusal_note *note);
/* The newest first: an array of objects, or lines of text. */
void refusal_list_json(const struct refusal_list *l, struct json *j);
void refusal_list_text(const struct refusal_list *l, struct buf *out);

#endif
