/* proxy/dns_judge.h - what is to be done with a DNS question, by what is known before anybody is
 * asked
 *
 * Ownership   the result borrows from the worker's tables and policy.       Blocking  never.
 * Failure     none.
 * Tests       tests/unit/proxy/test_dns_judge.c
 */
#ifndef PROXY_DNS_JUDGE_H
#define PROXY_DNS_JUDGE_H

#include "proxy/dns_msg.h"
#include "proxy/worker.h"

enum dns_judgement {
	JUDGE_RESOLVE, /* a rule could allow the name */
	JUDGE_REFUSE, /* none could, or a deny covers it */
	JUDGE_ARTEFACT, /* nobody means this name: a search list, or a special use, made it */
	JUDGE_NO_HOST, /* a name that no host has (bytes, number forms) */
	JUDGE_ROOT, /* the root: it exists and has nothing for a box */
	JUDGE_GATEWAY, /* exeat.internal */
	JUDGE_POINTER, /* PTR of an address that has a name here */
	JUDGE_NO_POINTER, /* PTR of any other */
};

struct dns_judged {
	enum dns_judgement what;
	struct decision decision; /* the policy's; the default's deny where it was not asked */
	struct str pointer;		/* JUDGE_POINTER */
};

struct dns_judged dns_judge(const struct worker *w, const struct dns_query *q);

#endif
