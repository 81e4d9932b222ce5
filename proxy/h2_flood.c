#include "proxy/h2_flood.h"

static void init(struct h2_allowance *a, uint32_t most, uint32_t a_second, uint64_t now)
{
	*a = (struct h2_allowance){ .left = most, .most = most, .a_second = a_second, .at = now };
}

static void give(struct h2_allowance *a, uint64_t n)
{
	a->left = n < a->most - a->left ? a->left + (uint32_t)n : a->most;
}

/* What came back since is reckoned when it runs out, and not before: the clock costs more than the
 * count. */
static bool take(struct h2_allowance *a, uint64_t now)
{
	if (a->left == 0) {
		uint64_t back = (now - a->at) * a->a_second / 1000;

		if (back == 0)
			return false;
		give(a, back);
		a->at = now;
	}
	a->left--;
	return true;
}

void h2_flood_init(struct h2_flood *f, uint64_t now)
{
	init(&f->frames, H2_IDLE_FRAMES_MAX, H2_IDLE_FRAMES_A_SECOND, now);
	init(&f->breaks, H2_BREAKS_MAX, H2_BREAKS_A_SECOND, now);
}

bool h2_flood_frame(struct h2_flood *f, uint64_t now)
{
	return take(&f->frames, now);
}

bool h2_flood_break(struct h2_flood *f, uint64_t now)
{
	return take(&f->breaks, now);
}

void h2_flood_moved(struct h2_flood *f, uint32_t frames)
{
	give(&f->frames, frames);
}

void h2_flood_answered(struct h2_flood *f)
{
	give(&f->breaks, 1);
}
