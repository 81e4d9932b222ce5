/* proxy/dns_record.h - one DNS question as an audit record
 *
 * Ownership   borrows everything for the call.       Blocking  never.
 * Failure     what audit_commit() says.
 * Tests       tests/unit/proxy/test_dns_service.c
 */
#ifndef PROXY_DNS_RECORD_H
#define PROXY_DNS_RECORD_H

#include "proxy/audit.h"
#include "proxy/dns_msg.h"

struct dns_event {
	struct str name;		/* as shown */
	uint16_t type;
	enum dns_rcode rcode;
	struct decision decision;
	const struct policy *policy;	/* that decided; NULL: the one in force */
	const char *denied_because;	/* NULL: the policy decided */
	struct str refusal;		/* id, for refusals */
	uint64_t count;			/* repeats it stands for; 0: the question itself */
	const struct msg_resolved *resolved;	/* what upstream said, or NULL */
	uint32_t synthetic;		/* leased address that was answered, or 0 */
	uint64_t ms;
};

must_use enum err dns_record(struct worker *w, const struct dns_event *e);
/* So many refusals had no line of their own. */
must_use enum err dns_record_suppressed(struct worker *w, uint64_t n);

#endif
