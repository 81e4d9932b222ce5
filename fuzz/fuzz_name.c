/* Host names: what is canonical stays so, and a name and its final dot are one. */
#include <stdlib.h>

#include "policy/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_canonical(struct str text, const struct name *name)
{
	struct name again;
	struct str s = name_str(name);

	if (s.n == 0 || s.n > text.n || s.n > NAME_MAX_LEN || name->s[s.n] != '\0')
		abort();
	if (name_canon(s, &again) != NAME_OK || !str_eq(name_str(&again), s))
		abort();
	if (name_parent(s).n >= s.n)
		abort();
	name_is_special_use(s);
}

static void check_authority(struct str text)
{
	struct str host = STR_NONE;
	uint16_t port = 0;
	struct name name;

	if (name_split_authority(text, &host, &port) != NAME_OK)
		return;
	if (host.p < text.p || host.n == 0 || host.p + host.n > text.p + text.n)
		abort();
	if (name_canon(host, &name) == NAME_OK)
		check_canonical(host, &name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	/* A copy of its own, so that a byte read behind the end is seen. */
	char *copy = calloc(1, n ? n : 1);
	struct str text = str_n(copy, n);
	struct name name;

	if (!copy)
		return 0;
	if (n)
		memcpy(copy, data, n);
	if (name_canon(text, &name) == NAME_OK)
		check_canonical(text, &name);
	if (n)
		check_authority(text);
	free(copy);
	return 0;
}
