/* A query of any bytes: what is read holds together, and each answer to it fits and reads back. */
#include <stdlib.h>

#include "proxy/dns_msg.h"

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void answer(const struct dns_query *q, struct dns_answer a, size_t max)
{
	uint8_t out[DNS_UDP_MAX];
	size_t n = dns_build(q, &a, out, max);

	check(n <= max && n >= 12);
	check(out[0] == q->id >> 8 && out[1] == (q->id & 255) && (out[2] & 0x80));
}

static void answer_all(const struct dns_query *q, enum dns_rcode rcode)
{
	char text[300];
	struct dns_answer a = { .rcode = rcode, .ttl = 5, .addr = addr_v4(0xc6120001), .ede = EDE_BLOCKED };

	memset(text, 'x', sizeof(text));
	a.ede_text = str_n(text, sizeof(text));
	answer(q, a, q->udp_size);
	answer(q, a, DNS_UDP_MAX);
	a.addr = (struct addr){ 0 };
	a.soa = true;
	answer(q, a, q->udp_size);
	a.soa = false;
	a.ptr = STR("api.example.com");
	answer(q, a, q->udp_size);
	a.truncated = true;
	answer(q, a, q->udp_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_query q;
	enum dns_rcode rcode;
	enum dns_parse_result r = dns_parse(str_n((const char *)data, size), &q, &rcode);

	if (r == DNS_IGNORE)
		return 0;
	check(q.question_n <= sizeof(q.question));
	check(q.udp_size >= DNS_UDP_PLAIN && q.udp_size <= DNS_UDP_MAX);
	check(memchr(q.shown, '\0', sizeof(q.shown)) != NULL);
	check(!q.name_ok || (q.name.n > 0 && strlen(q.name.s) == q.name.n));
	check(r != DNS_QUERY || (q.question_n >= 5 && q.class == 1));
	answer_all(&q, r == DNS_QUERY ? DNS_NOERROR : rcode);
	return 0;
}
