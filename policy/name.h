/* policy/name.h - host names and host literals in their one canonical form
 *
 * A name has one spelling inside Exeat: A-labels, lower case, no final dot (RFC 1035 2.3.1, 2.3.4;
 * RFC 5890 2.3.2.1). Policy text, DNS questions, SNI and Host all come through here, so that two
 * layers can never read one name in two ways.
 *
 * Ownership   output goes into the caller's array.       Blocking  never.
 * Failure     the result says what is wrong with the text; *out is then untouched.
 * Limits      NAME_MAX_LEN bytes, 63 a label.
 * Tests       tests/unit/policy/test_name.c, fuzz/fuzz_name.c
 */
#ifndef POLICY_NAME_H
#define POLICY_NAME_H

#include "conf/addr.h"

#define NAME_MAX_LEN 253
#define NAME_LABEL_MAX 63	/* RFC 1035 2.3.4 */

enum name_result {
	NAME_OK,
	NAME_EMPTY,
	NAME_LONG,		/* over 253 bytes, or a label over 63 */
	NAME_LABEL,		/* an empty label, or one that starts or ends with '-' */
	NAME_BYTE,		/* a byte that no host name has: NUL, control, SP, '%', '@', ... */
	NAME_NUMERIC,		/* the last label is digits or 0x...: a number form of an address */
	NAME_LITERAL,		/* an IP address, plain: the caller may know what to do with it */
	NAME_UNICODE,		/* not ASCII: needs to be written as an A-label */
	NAME_PORT,		/* only of name_split_authority(): no port number from 1 to 65535 */
};

struct name {
	uint8_t n;
	char s[NAME_MAX_LEN + 1];	/* NUL after n bytes */
};

static inline struct str name_str(const struct name *name)
{
	return (struct str){ name->s, name->n };
}

/**
 * name_canon() - the canonical form of a host name as found in traffic or a policy
 *
 * Takes '_' (service labels are real), one final dot, any case. Never IDNA-maps: bytes over 0x7f
 * are NAME_UNICODE. An IPv4 or bracketed/bare IPv6 literal gives NAME_LITERAL.
 */
enum name_result name_canon(struct str text, struct name *out);
const char *name_result_text(enum name_result r);

/* The part of @name after its first label ("b.c" of "a.b.c"), empty at the last. */
struct str name_parent(struct str name);
/* Is @name below a special-use domain whose queries never go upstream (RFC 6761, 6762, 8375,
 * 9476; .internal)? */
bool name_is_special_use(struct str name);

/* Splits "host", "host:port", "[v6]:port" (RFC 9110 7.2). *port 0 where none is given. *host is
 * not canonical yet, and has lost its brackets: what they held was an IPv6 address. */
enum name_result name_split_authority(struct str authority, struct str *host, uint16_t *port);

#endif
