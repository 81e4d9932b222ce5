/* policy/path_overlap.h - path patterns set against each other
 *
 * Patterns as path_match() knows them (policy/path.h), valid.
 *
 * Ownership   borrows.       Blocking  never.
 * Failure     none. Out of memory: path_overlaps() says true, the answer that hides nothing.
 * Cost        path_overlaps() is the product of both lengths at most, and adds what it did to
 *             *work.
 * Tests       tests/unit/policy/test_path_overlap.c
 */
#ifndef POLICY_PATH_OVERLAP_H
#define POLICY_PATH_OVERLAP_H

#include "conf/str.h"

/* Is there a path that both match? */
bool path_overlaps(struct str a, struct str b, uint64_t *work);
/* Does @outer surely match each path that @inner matches? False where that is not plain to see. */
bool path_covers(struct str outer, struct str inner);

#endif
