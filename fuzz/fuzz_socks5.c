/* SOCKS5's greeting and request: what is said of the first bytes is kept to as more come, no byte
 * beyond those that are there is read, and what was taken is what was there. */
#include <stdlib.h>

#include "proxy/socks5.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LONGEST 262u

struct said {
	enum socks5_result r;
	size_t n;
};

static struct said read_greeting(struct str bytes)
{
	struct said said = { 0 };
	bool no_auth;

	said.r = socks5_greeting(bytes, &no_auth, &said.n);
	return said;
}

static struct said read_request(struct str bytes)
{
	struct said said = { 0 };
	struct socks5_request r;

	said.r = socks5_request(bytes, &r, &said.n);
	if (said.r == SOCKS5_DONE && (r.addr.family == 0) != (r.name_n > 0))
		abort();
	return said;
}

static void read_in_pieces(struct said (*reader)(struct str), const uint8_t *data, size_t size)
{
	struct said last = { 0 };

	for (size_t n = 0; n <= size && n <= LONGEST + 2; n++) {
		char *block = malloc(n ? n : 1);
		struct said now;

		if (!block)
			abort();
		memcpy(block, data, n);
		now = reader(str_n(block, n));
		free(block);
		if (now.r == SOCKS5_DONE && (now.n > n || now.n > LONGEST))
			abort();
		if (last.r != SOCKS5_MORE && (now.r != last.r || (now.r == SOCKS5_DONE && now.n != last.n)))
			abort();
		last = now;
	}
	if (size > LONGEST && last.r == SOCKS5_MORE)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_in_pieces(read_greeting, data, size);
	read_in_pieces(read_request, data, size);
	return 0;
}
