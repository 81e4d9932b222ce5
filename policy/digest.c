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

void digest_hex(const uint8_t digest[DIGEST_BYTES], char out[DIGEST_HEX + 1])
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		out[2 * i] = hex[digest[i] >> 4];
		out[2 * i + 1] = hex[digest[i] & 15];
	}
	out[DIGEST_HEX] = '\0';
}
