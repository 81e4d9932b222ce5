#include "conf/err.h"

#include <stddef.h>

static const struct {
	const char *text;
	enum err_kind kind;
} rows[] = {
#define X(name, kind, text) { text, ERR_KIND_##kind },
	ERRS(X)
#undef X
};

static size_t row_of(enum err e)
{
	return (size_t)(-1 - (int)e);
}

const char *err_text(enum err e)
{
	if (e == OK)
		return "no error";
	return row_of(e) < ERR_COUNT ? rows[row_of(e)].text : "unknown error";
}

enum err_kind err_kind(enum err e)
{
	if (e == OK)
		return ERR_KIND_NONE;
	return row_of(e) < ERR_COUNT ? rows[row_of(e)].kind : ERR_KIND_BUG;
}
