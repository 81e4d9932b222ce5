#include "tests/unit/proxy/dns_packets.h"

static struct packet_out out;

static enum dns_parse_result parse(struct dns_query *q, enum dns_rcode *rcode)
{
	return dns_parse(str_n((char *)out.p, out.n), q, rcode);
}

static void assert_refused(enum dns_rcode with)
{
	struct dns_query q;
	enum dns_rcode rcode;

	assert_int_equal(parse(&q, &rcode), DNS_ANSWER_ERROR);
	assert_int_equal(rcode, with);
}

static struct dns_query parsed(const char *name, uint16_t type, uint16_t udp_size)
{
	struct dns_query q;
	enum dns_rcode rcode;

	make_query(&out, 7, name, type, udp_size);
	assert_int_equal(parse(&q, &rcode), DNS_QUERY);
	return q;
}

static struct packet_in built(const struct dns_query *q, const struct dns_answer *a, size_t max)
{
	static uint8_t bytes[65535];
	size_t n = dns_build(q, a, bytes, max);

	assert_true(n > 0 && n <= max);
	return read_answer(bytes, n);
}

/* ---- queries ---- */

static void a_plain_query_is_read(void **state)
{
	struct dns_query q = parsed("Api.Example.COM", DNS_A, 0);

	(void)state;
	assert_true(q.name_ok);
	assert_string_equal(q.name.s, "api.example.com");
	assert_string_equal(q.shown, "Api.Example.COM");
	assert_int_equal(q.type, DNS_A);
	assert_false(q.edns);
	assert_int_equal(q.udp_size, 512);
	assert_true(q.rd);
}

static void edns_size_is_held_between_512_and_our_maximum(void **state)
{
	(void)state;
	assert_int_equal(parsed("a.test", DNS_A, 1).udp_size, 512);
	assert_int_equal(parsed("a.test", DNS_A, 900).udp_size, 900);
	assert_int_equal(parsed("a.test", DNS_A, 4096).udp_size, DNS_UDP_MAX);
}

static void an_unknown_edns_version_is_badvers(void **state)
{
	struct dns_query q;
	struct dns_answer a = { .rcode = DNS_BADVERS, .ede = EDE_NONE };
	enum dns_rcode rcode;

	(void)state;
	make_query(&out, 7, "a.test", DNS_A, 1232);
	out.p[out.n - 5] = 1;
	assert_refused(DNS_BADVERS);
	assert_int_equal(parse(&q, &rcode), DNS_ANSWER_ERROR);
	assert_int_equal(built(&q, &a, 512).rcode, DNS_BADVERS);
}

static void two_opt_records_are_malformed(void **state)
{
	const uint8_t opt[] = { 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0 };

	(void)state;
	make_query(&out, 7, "a.test", DNS_A, 1232);
	memcpy(out.p + out.n, opt, sizeof(opt));
	out.n += sizeof(opt);
	out.p[11] = 2;
	assert_refused(DNS_FORMERR);
}

static void an_answer_or_half_a_header_is_ignored(void **state)
{
	struct dns_query q;
	enum dns_rcode rcode;

	(void)state;
	make_query(&out, 7, "a.test", DNS_A, 0);
	out.p[2] |= 0x80;
	assert_int_equal(parse(&q, &rcode), DNS_IGNORE);
	make_query(&out, 7, "a.test", DNS_A, 0);
	out.n = 11;
	assert_int_equal(parse(&q, &rcode), DNS_IGNORE);
}

static void every_cut_query_is_malformed(void **state)
{
	size_t whole;

	(void)state;
	make_query(&out, 7, "api.example.com", DNS_A, 1232);
	whole = out.n;
	for (out.n = 12; out.n < whole; out.n++)
		assert_refused(DNS_FORMERR);
	out.n = whole + 1;
	assert_refused(DNS_FORMERR);
}

/* F46 */
static void odd_queries_get_the_code_that_fits(void **state)
{
	(void)state;
	for (unsigned opcode = 1; opcode < 16; opcode++) {
		make_query(&out, 7, "a.test", DNS_A, 0);
		out.p[2] = (uint8_t)(opcode << 3);
		assert_refused(DNS_NOTIMP);
	}
	make_query(&out, 7, "a.test", DNS_A, 0);
	out.p[5] = 0;
	assert_refused(DNS_FORMERR);
	out.p[5] = 2;
	assert_refused(DNS_FORMERR);
	make_query(&out, 7, "version.bind", DNS_TXT, 0);
	out.p[out.n - 1] = 3;	/* class CH */
	assert_refused(DNS_REFUSED);
}

/* F46 */
static void a_compression_pointer_in_the_question_is_malformed(void **state)
{
	const uint8_t loop[] = { 0xc0, 12, 0, 1, 0, 1 };

	(void)state;
	make_query(&out, 7, "", DNS_A, 0);
	out.n = 12;
	memcpy(out.p + out.n, loop, sizeof(loop));
	out.n += sizeof(loop);
	assert_refused(DNS_FORMERR);
}

/* F46 */
static void the_longest_name_is_read_and_one_byte_more_is_not(void **state)
{
	char label[64], name[300];
	struct dns_query q;

	(void)state;
	memset(label, 'a', 63);
	label[63] = '\0';
	snprintf(name, sizeof(name), "%s.%s.%s.%.61s", label, label, label, label);
	assert_int_equal(strlen(name), 253);
	q = parsed(name, DNS_A, 0);
	assert_true(q.name_ok);
	assert_string_equal(q.name.s, name);
	snprintf(name, sizeof(name), "%s.%s.%s.%.62s", label, label, label, label);
	make_query(&out, 7, name, DNS_A, 0);
	assert_refused(DNS_FORMERR);
}

/* F46 */
static void names_that_no_host_has_are_shown_escaped(void **state)
{
	struct dns_query q;
	enum dns_rcode rcode;

	(void)state;
	q = parsed("", DNS_NS, 0);
	assert_false(q.name_ok);
	assert_string_equal(q.shown, ".");
	make_query(&out, 7, "abcd.test", DNS_A, 0);
	memcpy(out.p + 13, "\0. \\", 4);
	assert_int_equal(parse(&q, &rcode), DNS_QUERY);
	assert_false(q.name_ok);
	assert_string_equal(q.shown, "\\000\\.\\032\\\\.test");
}

/* ---- answers ---- */

static void an_address_is_answered_with_the_question(void **state)
{
	struct dns_query q = parsed("api.test", DNS_A, 1232);
	struct dns_answer a = { .ttl = 60, .addr = addr_v4(0xc6120007), .ede = EDE_NONE };
	struct packet_in in = built(&q, &a, 512);

	(void)state;
	assert_int_equal(in.id, 7);
	assert_int_equal(in.rcode, DNS_NOERROR);
	assert_int_equal(in.questions, 1);
	assert_int_equal(in.answers, 1);
	assert_int_equal(in.a, 0xc6120007);
	assert_int_equal(in.ttl, 60);
	assert_true(in.opt);
	assert_int_equal(in.ede, -1);
}

static void an_extended_error_needs_edns(void **state)
{
	struct dns_query q = parsed("api.test", DNS_A, 1232);
	struct dns_answer a = { .ttl = 5, .addr = addr_v4(1), .ede = EDE_BLOCKED, .ede_text = STR("rule=x") };
	struct packet_in in = built(&q, &a, 512);

	(void)state;
	assert_int_equal(in.ede, 15);
	assert_string_equal(in.ede_text, "rule=x");
	q = parsed("api.test", DNS_A, 0);
	in = built(&q, &a, 512);
	assert_false(in.opt);
	assert_int_equal(in.answers, 1);
}

static void a_negative_answer_has_a_soa(void **state)
{
	struct dns_query q = parsed("api.test", DNS_AAAA, 0);
	struct dns_answer a = { .ttl = 5, .soa = true, .ede = EDE_NONE };
	struct packet_in in = built(&q, &a, 512);

	(void)state;
	assert_true(in.soa);
	assert_int_equal(in.answers, 0);
	assert_int_equal(in.authority, 1);
	assert_int_equal(in.ttl, 5);
}

static void a_pointer_is_answered_with_its_name(void **state)
{
	struct dns_query q = parsed("7.0.18.198.in-addr.arpa", DNS_PTR, 0);
	struct dns_answer a = { .ttl = 60, .ptr = STR("api.example.com"), .ede = EDE_NONE };
	struct packet_in in = built(&q, &a, 512);

	(void)state;
	assert_int_equal(in.type, DNS_PTR);
	assert_string_equal(in.ptr, "api.example.com");
}

static void what_does_not_fit_loses_its_text_and_then_all_but_the_question(void **state)
{
	struct dns_query q = parsed("api.test", DNS_A, 512);
	char text[400];
	struct dns_answer a = { .ttl = 5, .addr = addr_v4(1), .ede = EDE_BLOCKED };
	struct packet_in in;

	(void)state;
	memset(text, 'x', sizeof(text));
	a.ede_text = str_n(text, sizeof(text));
	in = built(&q, &a, 512);
	assert_int_equal(strlen(in.ede_text), 256);
	in = built(&q, &a, 100);
	assert_int_equal(in.ede, 15);
	assert_string_equal(in.ede_text, "");
	assert_int_equal(in.answers, 1);
	assert_false(in.tc);
	in = built(&q, &a, 50);
	assert_true(in.tc);
	assert_int_equal(in.answers, 0);
	assert_int_equal(in.questions, 1);
}

static void an_answer_to_what_had_no_question_has_none(void **state)
{
	struct dns_query q;
	enum dns_rcode rcode;
	struct dns_answer a = { .rcode = DNS_FORMERR, .ede = EDE_NONE };
	struct packet_in in;

	(void)state;
	make_query(&out, 7, "a.test", DNS_A, 0);
	out.n = 14;
	assert_int_equal(parse(&q, &rcode), DNS_ANSWER_ERROR);
	in = built(&q, &a, 512);
	assert_int_equal(in.questions, 0);
	assert_int_equal(in.rcode, DNS_FORMERR);
}

static void types_without_a_name_are_shown_by_number(void **state)
{
	char text[16];

	(void)state;
	assert_string_equal(dns_type_name(DNS_HTTPS, text), "HTTPS");
	assert_string_equal(dns_type_name(65535, text), "TYPE65535");
	assert_string_equal(dns_rcode_name(DNS_NXDOMAIN), "NXDOMAIN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_query_is_read),
		cmocka_unit_test(edns_size_is_held_between_512_and_our_maximum),
		cmocka_unit_test(an_unknown_edns_version_is_badvers),
		cmocka_unit_test(two_opt_records_are_malformed),
		cmocka_unit_test(an_answer_or_half_a_header_is_ignored),
		cmocka_unit_test(every_cut_query_is_malformed),
		cmocka_unit_test(odd_queries_get_the_code_that_fits),
		cmocka_unit_test(a_compression_pointer_in_the_question_is_malformed),
		cmocka_unit_test(the_longest_name_is_read_and_one_byte_more_is_not),
		cmocka_unit_test(names_that_no_host_has_are_shown_escaped),
		cmocka_unit_test(an_address_is_answered_with_the_question),
		cmocka_unit_test(an_extended_error_needs_edns),
		cmocka_unit_test(a_negative_answer_has_a_soa),
		cmocka_unit_test(a_pointer_is_answered_with_its_name),
		cmocka_unit_test(what_does_not_fit_loses_its_text_and_then_all_but_the_question),
		cmocka_unit_test(an_answer_to_what_had_no_question_has_none),
		cmocka_unit_test(types_without_a_name_are_shown_by_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
