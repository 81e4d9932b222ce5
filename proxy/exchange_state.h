/* proxy/exchange_state.h - the inside of an exchange, for the files that it is made of
 *
 * exchange.c (the steps), exchange_check.c (what the request names), exchange_answer.c (the way
 * back), exchange_record.c (what goes on record), exchange_policy.c (a new policy).
 *
 * Ownership   proxy/exchange.h.       Blocking  never.
 * Failure     exchange_refuse(), once; the first reason holds.
 * Tests       tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_EXCHANGE_STATE_H
#define PROXY_EXCHANGE_STATE_H

#include "proxy/kept_grant.h"
#include "proxy/exchange.h"
#include "proxy/limits.h"
#include "proxy/record.h"

#define EXCHANGE_WHY_MAX 512

enum step { STEP_CHECK, STEP_DECIDE, STEP_LIMITS, STEP_DIAL, STEP_CONFIRM, STEP_FOREIGN, STEP_GRANT,
	    STEP_BEGIN, STEP_SEND, STEP_RELAY, STEP_FINISH, STEP_COUNT };

struct exchange {
	const struct exchange_env *env;
	uint64_t id;
	unsigned step;			/* enum step */
	bool over, clean, waits_for_room;

	/* the request */
	struct buf method, target, path, query;	/* path: as judged; query: with its '?' */
	struct name host_sent; /* refusal address only: the name that was asked for */
	struct fields fields;			/* to be sent, without Host and framing */
	struct request request;
	bool request_ended, abandoned;
	uint64_t bytes_up;

	/* what was decided */
	struct policy *policy;		/* that judges it: held, since another may take its place */
	unsigned policies;		/* w->policies, when it was in force */
	struct decision decision;
	bool decided;
	bool outlawed;			/* allowed, until a new policy came */
	struct rule_info rule;
	struct rule_limits limits;	/* the least of each; 0: none */
	struct limit_holds holds;
	struct foreign_found foreign;
	bool foreign_looked, foreign_told;

	/* the origin */
	struct leg leg;
	bool retried;
	ask_id grant;
	bool granted, asked;
	enum grant_status grant_status;
	struct lasting_grant lasting;
	char credential[GRANT_CREDENTIAL_MAX];
	struct fields edits;
	struct scrub *scrub;
	size_t scrubbed_before;		/* by it, in answers before this one */

	/* the answer */
	uint64_t begin_end;		/* where its begin ends in the ring */
	bool begun_recorded, head_sent, answer_begun, answer_ended, continued;
	unsigned status, interims;
	struct fields trailers;
	struct buf scrubbed;
	uint64_t bytes_down;

	/* refused */
	bool refused;
	struct refusal refusal;
	char why[EXCHANGE_WHY_MAX];
	char ended[64];

	uint64_t began, sent_at, first_byte, last_moved;
};

/* The answer will be a refusal. After the answer has begun: an abort. */
void exchange_refuse(struct exchange *x, enum refusal_reason reason, struct str why);
/* A refusal by the rule in x->decision. */
void exchange_refuse_by_rule(struct exchange *x);

/* What the broker was asked for, or has put on. */
void exchange_forget_grant(struct exchange *x);

/* ---- exchange_check.c ---- */
/* Host, target and method; false: refused. */
bool exchange_check(struct exchange *x);
struct str exchange_host(const struct exchange *x);
struct facts exchange_facts(const struct exchange *x);

/* ---- exchange_limits.c ---- */
/* All rules' that match; false: refused. */
bool exchange_take_limits(struct exchange *x);
/* Of what was sent and received so far, or will be; false: refused. */
bool exchange_upload_fits(struct exchange *x);
bool exchange_download_fits(struct exchange *x, uint64_t bytes);
/* When it may last no longer. */
uint64_t exchange_last_moment(const struct exchange *x);

/* ---- exchange_record.c ---- */
must_use enum err exchange_record_begin(struct exchange *x);
must_use enum err exchange_record_end(struct exchange *x);
must_use enum err exchange_record_foreign(struct exchange *x);
/* The end record of a refused one, or what stands for it: see proxy/repeats.h. */
must_use enum err exchange_record_refusal(struct exchange *x);

#endif
