/* tests/unit/proxy/access_rig.h - a table of requests for access, with the supervisor's ring and its reader */
#ifndef TESTS_ACCESS_RIG_H
#define TESTS_ACCESS_RIG_H

#include "tests/unit/proxy/names_world.h"

#include "proxy/access_table.h"

#define NOW UINT64_C(1796000000000000)	/* 2026-11-30 */

static struct world world;
static struct access_table *table;
static struct msg_access_taken answer;

static int access_setup(void **state)
{
	(void)state;
	world_open(&world);
	table = access_table_new();
	return table ? 0 : -1;
}

static int access_teardown(void **state)
{
	(void)state;
	access_table_free(table);
	world_close(&world);
	return 0;
}

/* The request's number, or 0. */
static inline uint32_t ask_at(const char *sandbox, const char *method, const char *url, uint64_t now)
{
	struct msg_access m = { .method = str_of(method), .url = str_of(url), .reason = STR("to build it") };

	access_table_ask(table, world.ring, str_of(sandbox), &m, now, &answer);
	assert_true((answer.number == 0) == (answer.why.n != 0));
	return answer.number;
}

#endif
