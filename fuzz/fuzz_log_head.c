/* A line's head, a name of a file that was put aside, and a time in a question: any bytes are read or
 * refused; what is read is within its limits, and a time comes back as it was. */
#include <stdlib.h>

#include "proxy/log_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	struct log_query all = { .since_us = 1 };
	char again[DATE_TEXT_MAX];
	struct log_head head;
	json_t *object;
	uint64_t us;

	if (log_line_head(text, &head)) {
		if (head.seq == 0 || head.seq >= INT64_MAX || head.prev.n != LOG_HASH_HEX || head.kind.n == 0)
			abort();
		date_format(head.time_us, again);
		if (!date_parse(str_of(again), &us) || us != head.time_us)
			abort();
	}
	object = log_query_match(&all, text);
	if (object && !json_is_object(object))
		abort();
	json_decref(object);
	if (log_query_time(text, UINT64_C(1790000000000000), &us) && us == 0 && size < 10)
		abort();
	if (log_is_aside(STR("a"), text) && size < 20)
		abort();
	return 0;
}
