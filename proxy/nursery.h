/* proxy/nursery.h - a worker's program, loaded and waiting: workers are forked from it
 *
 * What every worker would do again at its start is done here once: libraries and providers loaded,
 * the trust store read. Then each MSG_LAUNCH of a worker is a fork: MSG_LAUNCHED brings its process
 * number, its channel and a pidfd. The process is the supervisor's child, a process group of its
 * own, has descriptors 0 to 3 and no others, and dies with the supervisor.
 *
 * Ownership   the process is the nursery's; @title is argv[0], which children rename.
 * Blocking    reading the trust store, before READY.
 * Failure     one line on stderr and exit 1 where the trust store cannot be read; a worker that
 *             cannot be forked is MSG_LAUNCHED with errno.
 * Tests       tests/unit/proxy/test_nursery.c
 */
#ifndef PROXY_NURSERY_H
#define PROXY_NURSERY_H

struct tls_trust;

/* A worker's life, in the child: what it returns is the exit status. Takes @channel over. */
typedef int worker_life_fn(int channel, struct tls_trust *trust);

int nursery_main(char *title, worker_life_fn *life);

#endif
