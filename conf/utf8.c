#include "conf/utf8.h"

size_t utf8_next(struct str s, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *b = (const unsigned char *)s.p;
	uint32_t c;
	size_t n;

	if (s.n == 0)
		return 0;
	c = b[0];
	n = c < 0x80 ? 1 : c >> 5 == 0x6 ? 2 : c >> 4 == 0xe ? 3 : c >> 3 == 0x1e ? 4 : 0;
	if (n == 0 || n > s.n)
		return 0;
	if (n > 1)
		c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((b[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (b[i] & 0x3fu);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*code = c;
	return n;
}
