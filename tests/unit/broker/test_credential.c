#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/credential.h"

static struct secret *secret_of(const char *text)
{
	struct secret *s = NULL;

	assert_int_equal(secret_new(str_of(text), &s), OK);
	return s;
}

static void assert_puts(const struct credential_info *c, const char *secret, const char *want,
			const char *pattern)
{
	struct secret *s = secret_of(secret);
	struct credential_edit e;

	assert_int_equal(credential_edit(c, s, &e), OK);
	assert_true(str_eq(e.field, c->header));
	assert_true(str_eq(buf_str(&e.value), str_of(want)));
	assert_int_equal(e.n_patterns, pattern ? 5 : 4);
	assert_true(str_eq(buf_str(&e.patterns[0]), str_of(secret)));
	if (pattern)
		assert_true(str_eq(buf_str(&e.patterns[1]), str_of(pattern)));
	credential_edit_wipe(&e);
	assert_null(e.value.p);
	assert_null(e.patterns[0].p);
	assert_int_equal(e.n_patterns, 0);
	secret_free(s);
}

static void bearer_puts_the_scheme_before_the_value(void **state)
{
	const struct credential_info c = { .kind = CREDENTIAL_BEARER, .header = STR("authorization") };

	(void)state;
	assert_puts(&c, "s3cret-token", "Bearer s3cret-token", NULL);
}

static void header_puts_the_value_into_its_format(void **state)
{
	struct credential_info c = { .kind = CREDENTIAL_HEADER, .header = STR("x-api-key") };

	(void)state;
	assert_puts(&c, "s3cret-token", "s3cret-token", NULL);
	c.format = STR("{}");
	assert_puts(&c, "s3cret-token", "s3cret-token", NULL);
	c.format = STR("token={}; v=1");
	assert_puts(&c, "s3cret-token", "token=s3cret-token; v=1", NULL);
	c.format = STR("{a{}b}");
	assert_puts(&c, "s3cret-token", "{as3cret-tokenb}", NULL);
	c.format = STR("{x}{}");
	assert_puts(&c, "s3cret-token", "{x}s3cret-token", NULL);
}

static void what_looks_like_a_format_in_a_value_is_left_alone(void **state)
{
	const struct credential_info c = { .kind = CREDENTIAL_HEADER, .header = STR("x-key"),
					   .format = STR("k {}") };

	(void)state;
	assert_puts(&c, "ab{}%s%n{}", "k ab{}%s%n{}", NULL);
}

static void a_format_without_a_place_for_the_value_is_refused(void **state)
{
	static const char *const formats[] = { "token", "{", "}", "{ }", "x{", "{{", "}{" };
	struct credential_info c = { .kind = CREDENTIAL_HEADER, .header = STR("x-key") };
	struct secret *s = secret_of("s3cret-token");
	struct credential_edit e;

	(void)state;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		c.format = str_of(formats[i]);
		assert_int_equal(credential_edit(&c, s, &e), ERR_SYNTAX);
		assert_null(e.value.p);
	}
	secret_free(s);
}

static void basic_encodes_user_and_value_in_each_alignment(void **state)
{
	struct credential_info c = { .kind = CREDENTIAL_BASIC, .header = STR("authorization"),
				     .user = STR("Aladdin") };

	(void)state;
	/* RFC 7617 2 */
	assert_puts(&c, "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
		    "QWxhZGRpbjpvcGVuIHNlc2FtZQ");
	c.user = STR("al");
	assert_puts(&c, "s3cretpw", "Basic YWw6czNjcmV0cHc=", "YWw6czNjcmV0cHc");
	c.user = STR("");
	assert_puts(&c, "s3cretpw", "Basic OnMzY3JldHB3", "OnMzY3JldHB3");
}

static void a_user_with_a_colon_is_refused(void **state)
{
	const struct credential_info c = { .kind = CREDENTIAL_BASIC, .header = STR("authorization"),
					   .user = STR("a:b") };
	struct secret *s = secret_of("s3cret-token");
	struct credential_edit e;

	(void)state;
	assert_int_equal(credential_edit(&c, s, &e), ERR_SYNTAX);
	secret_free(s);
}

/* RFC 4648 4, written out: a reference that looks at one bit after the other. */
static char base64_at(struct str bytes, size_t i)
{
	unsigned v = 0;

	for (size_t bit = 6 * i; bit < 6 * i + 6; bit++) {
		unsigned c = bit / 8 < bytes.n ? (unsigned char)bytes.p[bit / 8] : 0u;

		v = v << 1 | (c >> (7 - bit % 8) & 1u);
	}
	return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[v];
}

static bool found_in_base64_of(struct str text, const struct credential_edit *e)
{
	char encoded[256];
	size_t n = (text.n * 8 + 5) / 6;

	for (size_t i = 0; i < n; i++)
		encoded[i] = base64_at(text, i);
	for (size_t k = 1; k < e->n_patterns; k++)
		if (memmem(encoded, n, e->patterns[k].p, e->patterns[k].n))
			return true;
	return false;
}

static void the_value_is_looked_for_in_base64_wherever_it_stands(void **state)
{
	const struct credential_info c = { .kind = CREDENTIAL_BEARER, .header = STR("authorization") };

	(void)state;
	for (size_t n = SECRET_MIN; n < SECRET_MIN + 4; n++) {
		char secret[16] = "s3cret-to~en";
		struct credential_edit e;
		struct secret *s;

		secret[n] = '\0';
		s = secret_of(secret);
		assert_int_equal(credential_edit(&c, s, &e), OK);
		for (size_t before = 0; before < 9; before++) {
			for (size_t after = 0; after < 4; after++) {
				char text[64];
				int len = snprintf(text, sizeof(text), "%.*s%s%.*s", (int)before, "\x7fser:name",
						   secret, (int)after, "}\xff,");

				assert_true(found_in_base64_of(str_n(text, (size_t)len), &e));
			}
		}
		credential_edit_wipe(&e);
		secret_free(s);
	}
}

static void the_longest_secret_fits_each_kind_and_more_is_a_limit(void **state)
{
	struct credential_info c = { .kind = CREDENTIAL_BASIC, .header = STR("authorization"),
				     .user = STR("user") };
	char *big = malloc(CREDENTIAL_VALUE_MAX);
	struct credential_edit e;
	struct secret *s;

	(void)state;
	memset(big, 'k', CREDENTIAL_VALUE_MAX);
	big[0] = 'j';
	assert_int_equal(secret_new(str_n(big, SECRET_MAX), &s), OK);
	assert_int_equal(credential_edit(&c, s, &e), OK);
	assert_int_equal(e.value.n, 6 + (4 + 1 + SECRET_MAX + 2) / 3 * 4);
	credential_edit_wipe(&e);
	c.user = str_n(big, 10000);
	assert_int_equal(credential_edit(&c, s, &e), ERR_LIMIT);
	c.user = str_n(big, CREDENTIAL_VALUE_MAX);
	assert_int_equal(credential_edit(&c, s, &e), ERR_LIMIT);
	c.kind = CREDENTIAL_BEARER;
	assert_int_equal(credential_edit(&c, s, &e), OK);
	assert_int_equal(e.n_patterns, 1);	/* over CREDENTIAL_ENCODED_MAX */
	credential_edit_wipe(&e);
	memcpy(big, "{}", 2);
	c.kind = CREDENTIAL_HEADER;
	c.format = str_n(big, CREDENTIAL_VALUE_MAX);
	assert_int_equal(credential_edit(&c, s, &e), ERR_LIMIT);
	assert_null(e.value.p);
	secret_free(s);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bearer_puts_the_scheme_before_the_value),
		cmocka_unit_test(header_puts_the_value_into_its_format),
		cmocka_unit_test(what_looks_like_a_format_in_a_value_is_left_alone),
		cmocka_unit_test(a_format_without_a_place_for_the_value_is_refused),
		cmocka_unit_test(basic_encodes_user_and_value_in_each_alignment),
		cmocka_unit_test(a_user_with_a_colon_is_refused),
		cmocka_unit_test(the_value_is_looked_for_in_base64_wherever_it_stands),
		cmocka_unit_test(the_longest_secret_fits_each_kind_and_more_is_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
