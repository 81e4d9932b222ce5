/* proxy/aftermath.h - what an appliance that did not end in order has left behind
 *
 * A file beside the control socket says that an appliance runs, and is emptied when it has ended in
 * order. It is locked meanwhile: two appliances cannot have one socket. What boxes have left is
 * removed.
 *
 * Ownership   *fd is the caller's, open until the end. @found: the caller's, initialised.
 * Blocking    aftermath_begin(): file work, and the removal of what is left.
 * Failure     false; one line on stderr says why.
 * After confinement  aftermath_end() needs ftruncate.
 * Tests       tests/unit/proxy/test_aftermath.c, tests/e2e/test_serve_deaths.py
 */
#ifndef PROXY_AFTERMATH_H
#define PROXY_AFTERMATH_H

#include "conf/buf.h"

#define AFTERMATH_FOUND_MAX 480

/* @found stays empty where nothing was left. */
bool aftermath_begin(const char *socket, int *fd, struct buf *found);
void aftermath_end(int fd);

#endif
