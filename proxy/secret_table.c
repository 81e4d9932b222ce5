#include "proxy/secret_table.h"

#include <stdlib.h>

#include "policy/name.h"

struct table_secret {
	bool from_file;
	struct buf name, hosts;
	struct secret *value;
};

struct secret_table {
	struct table_secret rows[MSG_SECRETS_MAX];
	size_t n;
};

struct secret_table *secret_table_new(void)
{
	return calloc(1, sizeof(struct secret_table));
}

static void row_free(struct table_secret *row)
{
	buf_free(&row->name);
	buf_free(&row->hosts);
	secret_free(row->value);
}

void secret_table_free(struct secret_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		row_free(&t->rows[i]);
	free(t);
}

enum err secret_table_read(struct secret_table *t, const struct msg_secret *m, int fd,
			   const char **objection)
{
	struct table_secret *row = &t->rows[t->n];
	bool is_file = m->source == SECRET_FROM_FILE;

	*objection = "is declared twice";
	if (secret_table_find(t, m->name))
		return ERR_PROTOCOL;
	*objection = "is one too many (at most 256)";
	if (t->n == MSG_SECRETS_MAX)
		return ERR_FULL;
	*objection = "cannot be kept: out of memory";
	*row = (struct table_secret){ .from_file = is_file };
	buf_init(&row->name, MESSAGE_MAX);
	buf_init(&row->hosts, MESSAGE_MAX);
	buf_put_str(&row->name, m->name);
	buf_put_str(&row->hosts, m->hosts);
	if (row->name.failed || row->hosts.failed) {
		row_free(row);
		return ERR_NOMEM;
	}
	t->n++;
	return secret_read(fd, is_file, &row->value, objection);
}

const struct table_secret *secret_table_find(const struct secret_table *t, struct str name)
{
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(buf_str(&t->rows[i].name), name))
			return &t->rows[i];
	return NULL;
}

const struct secret *table_secret_value(const struct table_secret *s)
{
	return s->value;
}

const char *table_secret_source(const struct table_secret *s)
{
	return s->from_file ? "file" : "env";
}

static bool covers(struct str pattern, struct str host)
{
	if (str_starts(pattern, STR("**.")))
		return host.n > pattern.n - 2 && str_ends(host, str_from(pattern, 2));
	if (str_starts(pattern, STR("*.")))
		return str_find(host, '.') > 0 && str_eq(name_parent(host), str_from(pattern, 2));
	return str_eq(pattern, host);
}

bool table_secret_may_go_to(const struct table_secret *s, struct str host)
{
	struct str rest = buf_str(&s->hosts);

	while (host.n && rest.n) {
		struct str pattern = str_cut(&rest, ' ');

		if (pattern.n && covers(pattern, host))
			return true;
	}
	return false;
}
