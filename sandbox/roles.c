#include "sandbox/roles.h"

static const struct {
	const char *name, *promise;
} rows[ROLE_COUNT] = {
#define X(name, text, promise) [ROLE_##name] = { text, promise },
	ROLES(X)
#undef X
};

const char *role_name(enum role r)
{
	return r < ROLE_COUNT ? rows[r].name : "unknown";
}

const char *role_promise(enum role r)
{
	return r < ROLE_COUNT ? rows[r].promise : "";
}
