/* What yaml_parse() hands out is a tree that its readers can walk without a check of their own, or
 * there is at least one error; and whatever the bytes, diagnostics print as text without controls. */
#include <stdlib.h>

#include "conf/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static size_t walk(const struct yaml_node *node, size_t depth)
{
	size_t items = 0;

	require(depth <= YAML_DEPTH_MAX && node->at.line > 0 && node->at.column > 0);
	if (node->kind == YAML_TEXT) {
		require(node->text.p[node->text.n] == '\0' && !memchr(node->text.p, '\0', node->text.n));
		return 1;
	}
	for (const struct yaml_node *i = node->first; i; i = i->next, items++) {
		walk(i, depth + 1);
		if (node->kind == YAML_MAP && items % 2 == 0)
			require(i->kind == YAML_TEXT && i->text.n > 0);
	}
	require(node->kind == YAML_LIST || items % 2 == 0);
	return items;
}

static void check_print(const struct diags *d)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	require(to != NULL);
	diags_print(d, to);
	require(fclose(to) == 0);
	for (size_t i = 0; i < n; i++)
		require((unsigned char)text[i] >= 0x20 ? text[i] != 0x7f : text[i] == '\n');
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	struct diags d;
	struct yaml *y;

	diags_init(&d, STR("input.yaml"), text);
	y = yaml_parse(text, &d);
	require(y ? d.errors == 0 : d.errors > 0);
	if (y)
		walk(yaml_root(y), 0);
	check_print(&d);
	yaml_release(y);
	diags_free(&d);
	return 0;
}
