/* ClientHellos: what is said of the first bytes is kept to as more come, and what is copied out fits. */
#include <stdlib.h>

#include "proxy/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* HELLO_MORE may become anything; anything else stays, but where the hello is over more may follow. */
static void check_step(enum hello_result before, enum hello_result now)
{
	if (before != HELLO_MORE && before != now)
		abort();
}

static void check_alpn(const struct hello *h)
{
	size_t at = 0;

	while (at < h->alpn_n) {
		if (h->alpn[at] == 0)
			abort();
		at += 1u + h->alpn[at];
	}
	if (at != h->alpn_n || h->alpn_n > sizeof(h->alpn))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum hello_result r = HELLO_MORE, last = HELLO_MORE;
	struct hello h;

	for (size_t n = 0; n <= size; n += size > 512 ? 1 + size / 64 : 1) {
		char *block = malloc(n ? n : 1);

		if (!block)
			abort();
		memcpy(block, data, n);
		r = hello_parse(str_n(block, n), &h);
		free(block);
		check_step(last, r);
		last = r;
	}
	if (r == HELLO_DONE) {
		if (h.sni_n >= sizeof(h.sni) || h.sni[h.sni_n] != '\0' || (h.sni_n && !h.has_sni))
			abort();
		check_alpn(&h);
	}
	return 0;
}
