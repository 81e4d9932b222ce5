/* A datagram of nfnetlink_log with whatever a box could have put into it. */
#include <stdlib.h>

#include "sandbox/nflog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_n((const char *)data, size);
	struct refused_packet r;

	while (nflog_next(&rest, &r) == OK)
		if (rest.n > size || (r.from.family != 4 && r.from.family != 6) ||
		    r.from.family != r.to.family)
			abort();
	return 0;
}
