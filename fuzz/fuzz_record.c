/* A hostile role's record: checked for each role, and what passes is written as one line. */
#include <stdlib.h>

#include "conf/json.h"
#include "proxy/record.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct str bytes = str_n((const char *)data, size);

	if (size > RING_RECORD_MAX)
		return 0;
	for (enum role role = 0; role < ROLE_COUNT; role++) {
		struct record_head head;
		struct buf out;
		struct json json;

		if (record_check(bytes, role, &head) != OK)
			continue;
		buf_init(&out, 8 * RING_RECORD_MAX);
		json_init(&json, &out);
		json_object(&json);
		record_write_fields(bytes, &json);
		json_object_end(&json);
		if (out.failed || str_find(buf_str(&out), '\n') != out.n)
			abort();
		buf_free(&out);
	}
	return 0;
}
