/* proxy/control_client.h - a command's side of the control socket: one request, one answer
 *
 * Ownership   control_reply_free() releases a reply.
 * Blocking    until the answer is there, or CONTROL_ASK_MS without a byte of it are over.
 * Failure     told on stderr, for the operator; what is returned is the command's exit status: 0, 1
 *             (refused, or no answer that can be read), 69 (EX_UNAVAILABLE: nobody listens there).
 * Text        whatever an appliance or a box put into an answer cannot drive the terminal.
 * Limits      CONTROL_HEAD_MAX, CONTROL_ANSWER_MAX.
 * Tests       tests/unit/proxy/test_control_client.c
 */
#ifndef PROXY_CONTROL_CLIENT_H
#define PROXY_CONTROL_CLIENT_H

#include <stdbool.h>

#include "conf/buf.h"

#define CONTROL_ASK_MS 60000

struct json_t;

struct control_ask {
	const char *command;		/* "exeat sandbox start", for messages */
	const char *socket;
	const char *method;
	struct str target;		/* percent-encoded */
	struct str body;		/* JSON, or empty */
	bool patient;			/* waits for however long it takes */
};

struct control_reply {
	unsigned status;
	struct buf text;
	struct json_t *json;		/* an object */
};

/* 0: an answer of 2xx. */
int control_ask(const struct control_ask *ask, struct control_reply *reply);
void control_reply_free(struct control_reply *reply);
/* Appends @text percent-encoded: a segment of a path, or a value of a query. */
void control_encode(struct str text, struct buf *out);

#endif
