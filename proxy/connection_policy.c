/* Theory of operation
 *
 * A new policy judges each connection again, with all that is known of it. What was allowed and is
 * no more ends now: before there is HTTP by an alert (or a reset inside the handshake), between
 * requests by a clean end, since nothing is cut off; a request that has begun is
 * exchange_policy.c's, a tunnel connection_tunnel.c's. One that is still coming in is waited for,
 * and refused in words.
 *
 * Whoever is past being judged (the last bytes go out, only the record is missing) keeps the policy
 * that it was judged by: its record says so.
 */
#include <stdio.h>

#include "proxy/audit.h"
#include "proxy/connection.h"

static bool is_judged(enum connection_state state)
{
	return state == CS_EXPLICIT || state == CS_HELLO || state == CS_LEAF ||
	       state == CS_HANDSHAKE || state == CS_HTTP ||
	       state == CS_HTTP2 || state == CS_DIAL || state == CS_TUNNEL;
}

/* Is the connection as such denied? Its requests may be, all the same. */
static bool decide_again(struct connection *c)
{
	struct facts f = connection_facts(c);
	bool denied;

	if (!c->decided)
		return false;
	denied = c->decision.verdict == VERDICT_DENY;
	c->decision = policy_decide(c->policy, &f);
	if (c->decision.verdict != VERDICT_DENY)
		c->outlawed = false;
	else if (!denied)
		c->outlawed = true;
	return c->decision.verdict == VERDICT_DENY && !c->refusal_address;
}

static void end_idle(struct connection *c)
{
	snprintf(c->ended, sizeof(c->ended), "%s", AUDIT_OUTLAWED);
	connection_step(c, CE_LAST);
}

void connection_new_policy(struct connection *c)
{
	bool denied;

	if (!is_judged(c->state))
		return;
	policy_free(c->policy);
	c->policy = policy_hold(c->w->policy);
	if (c->passage) {
		connection_tunnel_new_policy(c);
		return;
	}
	denied = decide_again(c);
	if (c->x)
		exchange_new_policy(c->x);
	else if (c->h2 && h2_boxes_count(c->h2))
		h2_boxes_new_policy(c->h2);
	else if (c->h2 && denied)
		connection_end_h2(c, AUDIT_OUTLAWED);
	else if (denied && c->state == CS_HTTP && !h1_box_begun(&c->box))
		end_idle(c);
	else if (denied && (c->state == CS_LEAF || c->state == CS_HANDSHAKE))
		connection_refuse(c, REFUSAL_policy, AUDIT_OUTLAWED);
}
