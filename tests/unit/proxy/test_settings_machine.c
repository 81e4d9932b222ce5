#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/settings_machine.h"

static char folder[] = "/tmp/test_machine.XXXXXX";
static char text[4096];
static struct diags diags;

/* Checks settings in which each %s is the test's folder. */
static void check(const char *format)
{
	struct yaml *tree;

	diags_free(&diags);
	snprintf(text, sizeof(text), format, folder, folder, folder, folder);
	diags_init(&diags, STR("t"), str_of(text));
	tree = yaml_parse(diags.text, &diags);
	assert_non_null(tree);
	settings_machine(yaml_root(tree), &diags);
	yaml_release(tree);
}

static void expect(const char *format, const char *wrong)
{
	check(format);
	if (diags.errors != 1 || !strstr(diags.items[0].text, wrong))
		fail_msg("%zu errors, the first: %s", diags.errors, diags.errors ? diags.items[0].text : "");
}

static void put(const char *name, const char *what, mode_t mode)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(what, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static int teardown(void **state)
{
	char command[96];

	(void)state;
	diags_free(&diags);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(folder) && chmod(folder, 0700) == 0 ? 0 : -1;
}

static void what_is_there_and_in_order_is_no_error(void **state)
{
	(void)state;
	put("ca.pem", "text\n-----BEGIN CERTIFICATE-----\n", 0644);
	put("secret", "value-of-a", 0600);
	check("resolver: {servers: [127.0.0.1]}\ntrust: {add: [%s/ca.pem]}\nsecrets: {a: {file: %s/secret}}\n"
	      "log: {path: %s/audit.jsonl}\npolicies: {directory: %s}\n"
	      "control: {group: root, socket: /run/exeat/control.sock}\n");
	assert_int_equal(diags.errors, 0);
}

static void nothing_written_is_nothing_to_look_for(void **state)
{
	(void)state;
	check("exeat-settings: 1\n");
	assert_int_equal(diags.errors, 0);
}

static void paths_that_are_not_there_are_told_at_their_place(void **state)
{
	(void)state;
	check("trust: {add: [%s/no.pem]}\nsecrets: {a: {file: %s/no}}\n"
	      "log: {path: %s/no/audit.jsonl}\npolicies: {directory: %s/no}\n");
	assert_int_equal(diags.errors, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(diags.items[i].at.line, i == 0 ? 1 : i == 1 ? 2 : i == 2 ? 3 : 4);
	assert_int_equal(diags.items[0].at.column, 15);
	assert_non_null(strstr(diags.items[3].text, "No such file or directory"));
	assert_non_null(diags.items[3].advice);
	expect("control: {socket: %s/no/no/x.sock}\n", "No such file");
	check("control: {socket: %s/no/x.sock}\n");
	assert_int_equal(diags.errors, 0);
}

static void what_others_could_change_is_told(void **state)
{
	(void)state;
	put("open", "value-of-a", 0644);
	expect("secrets: {a: {file: %s/open}}\n", "others can read or write it");
	assert_int_equal(chmod(folder, 0777), 0);
	expect("policies: {directory: %s}\n", "everybody can write to it");
	assert_int_equal(chmod(folder, 0700), 0);
}

static void secret_that_is_too_short_is_told(void **state)
{
	(void)state;
	put("short", "1234567", 0600);
	expect("secrets: {a: {file: %s/short}}\n", "is shorter than 8 bytes");
}

static void the_wrong_kind_of_thing_is_told(void **state)
{
	(void)state;
	put("plain", "no certificate", 0600);
	expect("trust: {add: [%s/plain]}\n", "has no certificate");
	expect("trust: {add: [%s]}\n", "is no file");
	expect("secrets: {a: {file: %s}}\n", "is no file");
	expect("log: {path: %s}\n", "is no file");
	expect("policies: {directory: %s/plain}\n", "is no folder");
	expect("control: {socket: %s/plain}\n", "is there, and no socket");
}

static void a_group_that_does_not_exist_is_told(void **state)
{
	(void)state;
	expect("control: {group: no-such-group-here}\n", "there is no group \"no-such-group-here\"");
	assert_string_equal(diags.items[0].advice, "make it: groupadd --system no-such-group-here");
}

static void a_server_without_a_way_to_it_is_told(void **state)
{
	(void)state;
	/* class E: no route leads there */
	expect("resolver: {servers: [255.255.255.255]}\n", "no way to the server 255.255.255.255: ");
}

static void forms_that_the_loader_refuses_are_passed_over(void **state)
{
	(void)state;
	check("resolver: [a]\ntrust: {add: {a: b}}\nsecrets: {a: {file: [x]}, b: text}\nlog: {path: x}\n"
	      "policies: text\ncontrol: {group: [a], socket: \"\"}\n");
	assert_int_equal(diags.errors, 0);
	check("resolver: {servers: [nonsense, [a]]}\nsecrets: [a]\n");
	assert_int_equal(diags.errors, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there_and_in_order_is_no_error),
		cmocka_unit_test(nothing_written_is_nothing_to_look_for),
		cmocka_unit_test(paths_that_are_not_there_are_told_at_their_place),
		cmocka_unit_test(what_others_could_change_is_told),
		cmocka_unit_test(secret_that_is_too_short_is_told),
		cmocka_unit_test(the_wrong_kind_of_thing_is_told),
		cmocka_unit_test(a_group_that_does_not_exist_is_told),
		cmocka_unit_test(a_server_without_a_way_to_it_is_told),
		cmocka_unit_test(forms_that_the_loader_refuses_are_passed_over),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
