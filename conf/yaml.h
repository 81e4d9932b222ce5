/* conf/yaml.h - a strict subset of YAML, as a tree in which every value knows where it stood
 *
 * One document; mappings, sequences and scalars. Not in the subset, each an error with its place:
 * tags, anchors and aliases, merge keys, duplicate keys, keys that are no plain text, a second
 * document, NUL bytes, text that is no UTF-8, tabs as indentation. A scalar is text: nothing is
 * silently retyped ("no", "1e3", "0123" stay what was written); who wants a number or a truth
 * value asks for it.
 *
 * Ownership   yaml_parse() returns a tree that owns its copies; yaml_release() releases all of it.
 * Blocking    never.
 * Failure     NULL, and the reasons are in @diags.
 * Limits      YAML_DEPTH_MAX levels, YAML_NODES_MAX nodes.
 * Tests       tests/unit/conf/test_yaml.c, fuzz/fuzz_yaml.c
 */
#ifndef CONF_YAML_H
#define CONF_YAML_H

#include "conf/diag.h"

#define YAML_DEPTH_MAX 32
#define YAML_NODES_MAX 8000000u

enum yaml_kind { YAML_TEXT, YAML_LIST, YAML_MAP };

struct yaml_node {
	enum yaml_kind kind;
	struct mark at;
	struct str text;		/* YAML_TEXT */
	bool quoted;
	struct yaml_node *first;	/* YAML_LIST: items; YAML_MAP: key, value, key, value ... */
	struct yaml_node *next;
};

struct yaml;

struct yaml *yaml_parse(struct str text, struct diags *diags);
/* (libyaml itself exports a yaml_free) */
void yaml_release(struct yaml *y);
const struct yaml_node *yaml_root(const struct yaml *y);
const char *yaml_kind_name(enum yaml_kind k);

#endif
