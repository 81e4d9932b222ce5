/* Requests: cutting the input differently changes nothing, and what was taken, written and read again
 * is the same message. */
#include "fuzz/http1_round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_http1(false, data, size);
	return 0;
}
