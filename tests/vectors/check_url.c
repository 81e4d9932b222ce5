/* Host and path canonicalisation against the web platform's URL test data: check_url DIR, where DIR
 * holds urltestdata.json, toascii.json and IdnaTestV2.json. What is taken here must be taken there,
 * and come out the same; refusing more is allowed. */
#include <jansson.h>
#include <stdio.h>

#include "policy/name.h"
#include "policy/path.h"

struct tally {
	unsigned asked, taken, wrong;
};

static void complain(struct tally *t, const char *input, struct str got, const char *expected)
{
	printf("%s: got %.*s, expected %s\n", input, STR_ARG(got),
	       expected ? expected : "a failure");
	t->wrong++;
}

/* Is @expected the same name? Its final dot is none of ours. */
static bool same_name(struct str got, const char *expected)
{
	struct name name;

	return expected && name_canon(str_of(expected), &name) == NAME_OK &&
	       str_eq(name_str(&name), got);
}

static void check_host(struct tally *t, struct str host, const char *expected)
{
	struct name name;

	t->asked++;
	if (name_canon(host, &name) != NAME_OK)
		return;
	t->taken++;
	if (!same_name(name_str(&name), expected))
		complain(t, name.s, name_str(&name), expected);
}

static void check_path(struct tally *t, struct str path, const char *expected)
{
	struct buf ours, theirs;
	const char *why;

	buf_init(&ours, 1 << 16);
	buf_init(&theirs, 1 << 16);
	t->asked++;
	if (path_normalise(path, &ours, &why) == PATH_OK) {
		t->taken++;
		if (path_normalise(str_of(expected), &theirs, &why) != PATH_OK ||
		    !str_eq(buf_str(&ours), buf_str(&theirs)))
			complain(t, expected, buf_str(&ours), expected);
	}
	buf_free(&ours);
	buf_free(&theirs);
}

/* Only what a request can hold: "scheme://authority/path", taken apart by the first delimiters. */
static void check_url(struct tally *hosts, struct tally *paths, json_t *test)
{
	json_t *input = json_object_get(test, "input");
	struct str rest = str_n(json_string_value(input), json_string_length(input)), host;
	const char *pathname = json_string_value(json_object_get(test, "pathname"));
	const char *hostname = json_string_value(json_object_get(test, "hostname"));
	size_t slash, end;
	uint16_t port;

	if (str_starts(rest, STR("http://")))
		rest = str_from(rest, 7);
	else if (str_starts(rest, STR("https://")))
		rest = str_from(rest, 8);
	else
		return;
	slash = str_find(rest, '/');
	if (slash == rest.n)
		return;
	if (name_split_authority(str_n(rest.p, slash), &host, &port) != NAME_OK)
		return;
	check_host(hosts, host, hostname);
	rest = str_from(rest, slash);
	for (end = 0; end < rest.n && rest.p[end] != '?' && rest.p[end] != '#'; end++)
		;
	if (pathname)
		check_path(paths, str_n(rest.p, end), pathname);
}

/* Half surrogates are in the data, and no JSON reader has to take them. All of them become U+FFFD:
 * neither is a host's byte here. */
static void replace_surrogates(char *text)
{
	for (char *at = text; (at = strstr(at, "\\u")); at += 2)
		if ((at[2] | 0x20) == 'd' && at[3] && strchr("89abcdefABCDEF", at[3]))
			memcpy(at + 2, "fffd", 4);
}

static json_t *load(const char *dir, const char *file)
{
	struct buf text;
	char path[4096], *room;
	json_error_t error;
	json_t *root = NULL;
	FILE *f;
	size_t n = 1;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	buf_init(&text, 16 << 20);
	f = fopen(path, "r");
	while (f && n && (room = buf_room(&text, 65536))) {
		n = fread(room, 1, 65536, f);
		buf_grown(&text, n);
	}
	if (f)
		fclose(f);
	buf_put_c(&text, '\0');
	if (!text.failed) {
		replace_surrogates(text.p);
		root = json_loadb(text.p, text.n - 1, JSON_ALLOW_NUL, &error);
	}
	if (!root)
		fprintf(stderr, "%s: %s\n", path,
			f && !text.failed ? error.text : "cannot be read");
	buf_free(&text);
	return root;
}

static void check_ascii(struct tally *t, json_t *tests)
{
	size_t i;
	json_t *test;

	json_array_foreach(tests, i, test) {
		json_t *input = json_object_get(test, "input");

		if (json_is_string(input))
			check_host(t, str_n(json_string_value(input), json_string_length(input)),
				   json_string_value(json_object_get(test, "output")));
	}
}

static void print_tally(const char *what, const struct tally *t)
{
	printf("%s: %u asked, %u taken, %u wrong\n", what, t->asked, t->taken, t->wrong);
}

int main(int argc, char **argv)
{
	static const char *const ascii[] = { "toascii.json", "IdnaTestV2.json" };
	struct tally hosts = { 0 }, paths = { 0 };
	json_t *tests, *test;
	size_t i;

	if (argc != 2)
		return 2;
	for (i = 0; i < 2; i++) {
		tests = load(argv[1], ascii[i]);
		if (!tests)
			return 2;
		check_ascii(&hosts, tests);
		json_decref(tests);
	}
	tests = load(argv[1], "urltestdata.json");
	if (!tests)
		return 2;
	json_array_foreach(tests, i, test)
		if (json_is_object(test) && json_is_string(json_object_get(test, "input")))
			check_url(&hosts, &paths, test);
	json_decref(tests);
	print_tally("hosts", &hosts);
	print_tally("paths", &paths);
	/* Data that asks nothing checks nothing. */
	return hosts.wrong || paths.wrong || hosts.taken < 100 || paths.taken < 20;
}
