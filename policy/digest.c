#include "policy/digest.h"

#include <openssl/evp.h>

bool digest_sha256(const void *p, size_t n, uint8_t out[DIGEST_BYTES])
{
	unsigned len = 0;

	if (EVP_Digest(p, n, out, &len, EVP_sha256(), NULL) == 1 && len == DIGEST_BYTES)
		return true;
	memset(out, 0, DIGEST_BYTES);
	return false;
}
