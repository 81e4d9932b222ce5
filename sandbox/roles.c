#include "sandbox/roles.h"

static const char *const names[ROLE_COUNT] = {
#define X(name, text) [ROLE_##name] = text,
	ROLES(X)
#undef X
};

const char *role_name(enum role r)
{
	return r < ROLE_COUNT ? names[r] : "unknown";
}
