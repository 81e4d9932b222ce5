#include "proxy/appliance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void give(struct part *recorder, const struct ring_slot *r)
{
	bool changed = r->policy_before[0] != '\0';
	struct msg_ring msg = { .number = r->number, .role = (uint8_t)r->writer,
				.sandbox = str_of(r->sandbox),
				.policy = str_of(changed ? r->policy_before : r->policy) };
	struct msg_ring_policy now = { .number = r->number, .policy = str_of(r->policy) };
	struct msg_ring_end end = { .number = r->number };

	/* A send that fails loses the recorder: its successor is given all again. */
	if (part_send(recorder, MSG_RING, &msg,
		      (int[3]){ r->fds.memory, r->fds.wake, r->fds.room }, 3) != OK)
		return;
	if (changed)
		(void)!part_send(recorder, MSG_RING_POLICY, &now, NULL, 0);
	if (r->ending)
		(void)!part_send(recorder, MSG_RING_END, &end, NULL, 0);
}

struct ring_slot *rings_add(struct appliance *a, enum role writer, const char *sandbox,
			    struct str policy)
{
	struct ring_slot *r = calloc(1, sizeof(*r));

	if (!r || ring_create(&r->fds) != OK) {
		free(r);
		return NULL;
	}
	r->number = ++a->last_ring;
	r->writer = writer;
	snprintf(r->sandbox, sizeof(r->sandbox), "%s", sandbox);
	snprintf(r->policy, sizeof(r->policy), "%.*s", STR_ARG(policy));
	r->next = a->rings;
	a->rings = r;
	if (a->recorder.state == PART_READY)
		give(&a->recorder, r);
	return r;
}

void rings_set_policy(struct appliance *a, struct ring_slot *r, struct str policy)
{
	struct msg_ring_policy msg = { .number = r->number, .policy = policy };

	memcpy(r->policy_before, r->policy, sizeof(r->policy));
	snprintf(r->policy, sizeof(r->policy), "%.*s", STR_ARG(policy));
	if (a->recorder.state == PART_READY)
		(void)!part_send(&a->recorder, MSG_RING_POLICY, &msg, NULL, 0);
}

void rings_end(struct appliance *a, struct ring_slot *r)
{
	struct msg_ring_end msg = { .number = r->number };

	r->ending = true;
	if (a->recorder.state == PART_READY)
		(void)!part_send(&a->recorder, MSG_RING_END, &msg, NULL, 0);
}

static void slot_free(struct ring_slot *r)
{
	close(r->fds.memory);
	close(r->fds.wake);
	close(r->fds.room);
	free(r);
}

void rings_ended(struct appliance *a, uint32_t number)
{
	for (struct ring_slot **at = &a->rings; *at; at = &(*at)->next) {
		struct ring_slot *r = *at;

		if (r->number != number || !r->ending)
			continue;
		*at = r->next;
		slot_free(r);
		return;
	}
}

void rings_give_all(struct appliance *a)
{
	for (struct ring_slot *r = a->rings; r; r = r->next)
		give(&a->recorder, r);
}

void rings_free(struct appliance *a)
{
	while (a->rings) {
		struct ring_slot *r = a->rings;

		a->rings = r->next;
		slot_free(r);
	}
}
