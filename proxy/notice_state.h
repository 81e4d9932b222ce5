/* proxy/notice_state.h - the inside of the notice page, for the files that it is made of
 *
 * notice.c (the part: limits, records, its connections' list), notice_connection.c (one
 * connection), notice_pages.c (which page, and what is asked of it), notice_policy.c (the page of
 * the policy).
 *
 * Ownership   as said at each struct.       Blocking  never.
 * Failure     sticky in a reply's buffer: then 503.
 * Tests       tests/unit/proxy/test_notice.c
 */
#ifndef PROXY_NOTICE_STATE_H
#define PROXY_NOTICE_STATE_H

#include "proxy/fields.h"
#include "proxy/notice.h"
#include "proxy/params.h"
#include "proxy/refusal.h"

struct event;
struct tally;
struct notice_connection;

/* So many within a time, the rest later. */
struct notice_bucket {
	uint64_t tokens, since;		/* thousandths; milliseconds */
};

struct notice {
	struct worker *w;
	struct buf contact;
	struct buf ca;			/* PEM, once it was asked for */
	struct tally *tally;
	struct notice_connection *first;
	size_t n;
	struct notice_bucket requests, access;
	/* The policy's page, as it was put together last; by form. */
	char policy_digest[POLICY_DIGEST_HEX + 1];
	struct buf policy_page[2];
};

enum notice_form { FORM_JSON, FORM_TEXT };

/* What a page is asked for. Borrows from the connection. */
struct notice_request {
	struct str method, path, query;	/* query without its '?' */
	struct str body;
	const struct fields *fields;
};

/* What must be known first, where an answer waits for another role. */
enum notice_wait { WAIT_NONE, WAIT_CA, WAIT_ACCESS };

struct notice_reply {
	unsigned status;
	const char *type;
	const char *allow;		/* 405: methods that the page has */
	unsigned retry_after;		/* seconds; 0: not said */
	enum refusal_reason refused;	/* REFUSAL_COUNT: it was not */
	enum notice_wait wait;
	struct params params;		/* WAIT_ACCESS: what is asked for */
	struct buf body;
};

/* ---- notice.c ---- */
/* Takes one of @per_minute tokens, @most at once. False: none is left; *wait_s. */
bool notice_allowed(struct notice_bucket *b, uint64_t per_minute, uint64_t most, unsigned *wait_s);
void notice_record(struct notice *n, struct str method, struct str path,
		   const struct notice_reply *r);
/* ---- notice_connection.c ---- */
/* NULL: out of memory; the descriptor is closed. */
struct notice_connection *notice_connection_new(struct notice *n, int fd);
/* The same with a stream that is there, for one request. */
struct notice_connection *notice_connection_adopt(struct notice *n, struct stream *stream);
void notice_connection_free(struct notice_connection *c);
/* Looks at what has come. It may free the connection. */
void notice_connection_pump(struct notice_connection *c);

/* ---- notice_pages.c ---- */
void notice_reply_init(struct notice_reply *r);
void notice_reply_free(struct notice_reply *r);
void notice_answer(struct notice *n, const struct notice_request *q, struct notice_reply *r);
/* Went wrong: a problem (RFC 9457) with this detail. */
void notice_problem(struct notice_reply *r, unsigned status, const char *detail);
/* What was waited for is known. */
void notice_answer_ca(struct notice *n, struct str der, struct notice_reply *r);
void notice_answer_access(const struct msg_access_taken *m, struct notice_reply *r);

/* ---- notice_policy.c ---- */
void notice_put_policy(struct notice *n, enum notice_form form, struct buf *out);

#endif
