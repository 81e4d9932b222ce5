/* proxy/grant.h - may this request bear a credential, and which? The broker's own reading
 *
 * The worker says a ticket, and what it decided on: protocol, method, path. Name, address and port
 * are the dialer's word, in the ticket. The policy is asked again with all of it, the rule's
 * credential is held against its own hosts and against the settings' hosts of its secret.
 *
 * Ownership   a struct grant borrows from policy, tickets and secrets.
 * Blocking    never.
 * Failure     by status; @why is static text for the record, never for the box.
 * Tests       tests/unit/proxy/test_grant.c
 */
#ifndef PROXY_GRANT_H
#define PROXY_GRANT_H

#include "policy/policy.h"
#include "proxy/secret_table.h"
#include "proxy/tickets.h"

struct grant_ground {
	const struct policy *policy;
	const struct tickets *tickets;
	const struct secret_table *secrets;
};

struct grant {
	enum grant_status status;
	const char *why;			/* where the status is neither OK nor NONE */
	const struct ticket *ticket;		/* NULL: there is none */
	struct rule_info rule;			/* what decided; id empty where nothing did */
	struct credential_info credential;	/* name empty where the rule names none */
	const char *source;			/* of the secret; NULL: none is declared */
	const struct secret *value;		/* GRANT_OK */
	bool lasts;				/* for whatever is asked on this connection */
};

void grant_decide(const struct grant_ground *ground, const struct msg_grant *m, struct grant *out);
/* What the box asked for: the ticket's name, or its address as text in @room. */
struct str ticket_destination(const struct ticket *k, char room[ADDR_TEXT_MAX]);

#endif
