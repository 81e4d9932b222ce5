/* A line of a log that somebody else wrote, shown to people: whatever it is, one line comes out of
 * it, without a byte that a terminal would obey. */
#include <stdlib.h>

#include "proxy/log_tail.h"
#include "proxy/log_write.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void must_be_harmless(const struct buf *b)
{
	if (b->failed || b->n == 0 || b->p[b->n - 1] != '\n')
		abort();
	for (size_t i = 0; i + 1 < b->n; i++) {
		unsigned char c = (unsigned char)b->p[i];

		/* C1 controls are C2 80 to C2 9F. */
		if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)b->p[i + 1] < 0xa0))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct str line = str_n((const char *)data, size);
	struct buf out;

	if (size > LOG_LINE_MAX)
		return 0;
	buf_init(&out, 8 * LOG_LINE_MAX);
	log_tail_line(line, false, &out);
	must_be_harmless(&out);
	out.n = 0;
	log_tail_escape(line, &out);
	buf_put_c(&out, '\n');
	must_be_harmless(&out);
	buf_free(&out);
	return 0;
}
