/* sandbox/message.h - messages between roles, as rows of a table
 *
 * A message type is a C struct and a row: who sends it to whom, in which phase, how large it may
 * be, how many descriptors come with it, whether it may come once only, and the list of its
 * fields. One codec reads and writes all of them by that list; there is no other decoder.
 *
 * On the wire: u16 type, then the fields in order, little endian; text and bytes with a u32 length,
 * lists with a u32 count. A message must end exactly where its fields do.
 *
 * Ownership   decoded str fields and lists point into the packet and the caller's scratch: they
 *             live until the handler returns.
 * Blocking    never.
 * Failure     ERR_SYNTAX for bytes that are no such message, ERR_LIMIT over a field's or row's cap.
 * Limits      MESSAGE_MAX bytes, MESSAGE_FDS_MAX descriptors, MESSAGE_LIST_MAX items a list.
 * Tests       tests/unit/sandbox/test_message.c, fuzz/fuzz_message.c
 */
#ifndef SANDBOX_MESSAGE_H
#define SANDBOX_MESSAGE_H

#include "conf/buf.h"
#include "conf/err.h"
#include "sandbox/roles.h"

#define MESSAGE_MAX 65536u
#define MESSAGE_FDS_MAX 40
#define MESSAGE_LIST_MAX 256
#define MESSAGE_FIELDS_MAX 16
#define MESSAGE_ROWS_MAX 128	/* of a table */
#define ROLE_ANY ROLE_COUNT	/* in a row: whichever role the channel's end belongs to */

enum field_kind {
	FIELD_END,
	FIELD_U8,
	FIELD_U16,
	FIELD_U32,
	FIELD_U64,
	FIELD_STR,	/* struct str, at most .max bytes */
	FIELD_LIST,	/* struct str_list, at most .max items */
};

struct str_list {
	const struct str *v;
	size_t n;
};

struct field {
	const char *name;
	enum field_kind kind;
	size_t offset;
	uint32_t max;
};

enum phase { PHASE_START = 1, PHASE_RUN = 2 };

struct message_row {
	uint16_t type;			/* 0 ends a table */
	const char *name;
	enum role from, to;
	unsigned phases;		/* OR of enum phase */
	bool once;
	bool secret;			/* wiped where it has been, as soon as it is done with */
	uint8_t fds_min, fds_max;
	size_t size;			/* of the C struct */
	struct field fields[MESSAGE_FIELDS_MAX];
};

/* The table's row, or NULL. */
const struct message_row *message_row(const struct message_row *table, uint16_t type);
/* Appends the packet to @out. */
must_use enum err message_encode(const struct message_row *row, const void *msg, struct buf *out);
/* Reads a message that starts after its u16 type into *msg (row->size bytes); *@packet is then what
 * is left, where others may follow. List items stand in @scratch (room for @scratch_n). */
must_use enum err message_decode(const struct message_row *row, struct str *packet, void *msg,
				 struct str *scratch, size_t scratch_n);

/* For the rows of a table: F(struct msg_dial, U16, port, 0) */
#define F(type, kind_, member, max_) \
	{ .name = #member, .kind = FIELD_##kind_, .offset = offsetof(type, member), .max = (max_) }

#endif
