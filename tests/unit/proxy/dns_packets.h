/* DNS packets for tests: queries as a client makes them, answers as a server does, and their reading. */
#ifndef TEST_DNS_PACKETS_H
#define TEST_DNS_PACKETS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/dns_msg.h"

struct packet_out {
	uint8_t p[65535];
	size_t n;
};

static inline void put_int(struct packet_out *o, size_t bytes, uint32_t v)
{
	assert_true(o->n + bytes <= sizeof(o->p));
	while (bytes--)
		o->p[o->n++] = (uint8_t)(v >> (8 * bytes));
}

static inline void put_dotted(struct packet_out *o, const char *name)
{
	struct str rest = str_of(name);

	while (rest.n) {
		struct str label = str_cut(&rest, '.');

		put_int(o, 1, (uint32_t)label.n);
		for (size_t i = 0; i < label.n; i++)
			put_int(o, 1, (uint8_t)label.p[i]);
	}
	put_int(o, 1, 0);
}

/* @udp_size 0: without EDNS. */
static inline void make_query(struct packet_out *o, uint16_t id, const char *name, uint16_t type,
			      uint16_t udp_size)
{
	o->n = 0;
	put_int(o, 2, id);
	put_int(o, 2, 0x0100);
	put_int(o, 2, 1);
	put_int(o, 4, 0);
	put_int(o, 2, udp_size ? 1 : 0);
	put_dotted(o, name);
	put_int(o, 2, type);
	put_int(o, 2, 1);
	if (!udp_size)
		return;
	put_int(o, 1, 0);
	put_int(o, 2, DNS_OPT);
	put_int(o, 2, udp_size);
	put_int(o, 4, 0);
	put_int(o, 2, 0);
}

struct packet_in {
	uint16_t id;
	enum dns_rcode rcode;	/* with OPT's part */
	bool tc;
	unsigned questions, answers, authority;
	uint16_t type;		/* of the first answer */
	uint32_t ttl, a;	/* of the first answer, or of the SOA */
	char ptr[256];
	bool soa, opt;
	int ede;		/* -1: none */
	char ede_text[300];
};

static inline uint32_t get_int(const uint8_t *p, size_t n, size_t *at, size_t bytes)
{
	uint32_t v = 0;

	assert_true(*at + bytes <= n);
	while (bytes--)
		v = v << 8 | p[(*at)++];
	return v;
}

static inline void get_dotted(const uint8_t *p, size_t n, size_t *at, char out[256])
{
	size_t used = 0, len;

	while ((len = get_int(p, n, at, 1)) != 0) {
		if (len >= 0xc0) {
			get_int(p, n, at, 1);
			break;
		}
		assert_true(*at + len <= n && used + len + 2 < 256);
		if (used)
			out[used++] = '.';
		memcpy(out + used, p + *at, len);
		used += len;
		*at += len;
	}
	out[used] = '\0';
}

static inline void get_options(const uint8_t *p, size_t end, size_t at, struct packet_in *in)
{
	while (at < end) {
		uint32_t code = get_int(p, end, &at, 2), len = get_int(p, end, &at, 2);

		assert_true(at + len <= end);
		if (code == 15) {
			assert_true(len >= 2);
			in->ede = (int)get_int(p, end, &at, 2);
			len -= 2;
			memcpy(in->ede_text, p + at, len);
			in->ede_text[len] = '\0';
		}
		at += len;
	}
}

static inline void get_record(const uint8_t *p, size_t n, size_t *at, struct packet_in *in, bool first)
{
	char owner[256];
	uint32_t type, class, ttl, len;
	size_t data;

	get_dotted(p, n, at, owner);
	type = get_int(p, n, at, 2);
	class = get_int(p, n, at, 2);
	ttl = get_int(p, n, at, 4);
	len = get_int(p, n, at, 2);
	data = *at;
	assert_true(data + len <= n);
	if (type == DNS_OPT) {
		in->opt = true;
		in->rcode |= (enum dns_rcode)(ttl >> 24 << 4);
		get_options(p, data + len, data, in);
	} else {
		assert_int_equal(class, 1);
		if (first || type == DNS_SOA)
			in->ttl = ttl;
		if (first)
			in->type = (uint16_t)type;
		in->soa |= type == DNS_SOA;
		if (first && type == DNS_A)
			in->a = get_int(p, n, &data, 4);
		else if (first && type == DNS_PTR)
			get_dotted(p, n, &data, in->ptr);
	}
	*at += len;
}

/* Reads an answer whole, and holds that nothing is behind it. */
static inline struct packet_in read_answer(const uint8_t *p, size_t n)
{
	struct packet_in in = { .ede = -1 };
	size_t at = 0;
	uint32_t flags, more;
	char name[256];

	in.id = (uint16_t)get_int(p, n, &at, 2);
	flags = get_int(p, n, &at, 2);
	assert_true(flags & 0x8000);
	in.tc = flags & 0x0200;
	in.rcode = (enum dns_rcode)(flags & 15);
	in.questions = get_int(p, n, &at, 2);
	in.answers = get_int(p, n, &at, 2);
	in.authority = get_int(p, n, &at, 2);
	more = get_int(p, n, &at, 2);
	for (unsigned i = 0; i < in.questions; i++) {
		get_dotted(p, n, &at, name);
		get_int(p, n, &at, 4);
	}
	for (unsigned i = 0; i < in.answers + in.authority + more; i++)
		get_record(p, n, &at, &in, i == 0 && in.answers);
	assert_int_equal(at, n);
	return in;
}

#endif
