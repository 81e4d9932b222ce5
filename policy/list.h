/* policy/list.h - what a policy says, rule by rule and item by item, for a reader
 *
 * An image keeps its hosts in a hash table that names their rules, not the reverse.
 * policy_list_new() turns that round in two passes over the table: it counts each rule's hosts,
 * then keeps the first LIST_HOSTS_A_RULE of each, in the order of their names. All else of a rule
 * is read where it lies.
 *
 * Ownership   borrows the policy, which must outlive the list; policy_list_free().
 * Blocking    never; policy_list_new() reads the whole host table (a million hosts: milliseconds).
 * Failure     NULL: no memory. An item that is not there leaves the buffer alone.
 * Limits      LIST_HOSTS_A_RULE hosts a rule and LIST_HOSTS_MAX in all are kept; all are counted.
 * Tests       tests/unit/policy/test_list.c
 */
#ifndef POLICY_LIST_H
#define POLICY_LIST_H

#include "conf/buf.h"
#include "policy/policy.h"

#define LIST_HOSTS_A_RULE 100u
#define LIST_HOSTS_MAX 10000u

enum listed {
	LISTED_HOSTS,		/* "x.test", "*.x.test", "**.x.test", "**" */
	LISTED_ADDRESSES,	/* "203.0.113.0/24" */
	LISTED_PORTS,		/* "443", "8000-8099" */
	LISTED_PROTOCOLS,	/* "https" */
	LISTED_METHODS,
	LISTED_PATHS,
	LISTED_KINDS
};

struct policy_list;

struct policy_list *policy_list_new(const struct policy *p);
void policy_list_free(struct policy_list *l);
/* How many items of a kind the rule has; 0: it does not look at that, and any will do. */
size_t policy_list_count(const struct policy_list *l, struct rule_ref ref, enum listed what);
/* How many of them can be told. */
size_t policy_list_kept(const struct policy_list *l, struct rule_ref ref, enum listed what);
/* Appends item @i, of those that can be told. */
void policy_list_item(const struct policy_list *l, struct rule_ref ref, enum listed what, size_t i,
		      struct buf *out);

#endif
