/* A hostile peer's packet, given to the decoder of every row. What is accepted is encoded again and
 * must give the same bytes: there is one spelling of each message. */
#include <stdlib.h>

#include "proxy/messages.h"

#define SCRATCH (2 * MESSAGE_LIST_MAX)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void one_row(const struct message_row *row, struct str packet)
{
	_Alignas(16) unsigned char msg[512];
	struct str scratch[SCRATCH], rest = packet;
	struct buf again;

	if (row->size > sizeof(msg))
		abort();
	if (message_decode(row, &rest, msg, scratch, SCRATCH) != OK)
		return;
	packet.n -= rest.n;
	buf_init(&again, MESSAGE_MAX + 64);
	if (message_encode(row, msg, &again) != OK || !str_eq(str_from(buf_str(&again), 2), packet))
		abort();
	buf_free(&again);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	if (size > MESSAGE_MAX - 2)
		return 0;
	for (const struct message_row *row = exeat_messages; row->type; row++)
		one_row(row, str_n((const char *)data, size));
	return 0;
}
