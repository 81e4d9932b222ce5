/* sandbox/notify.h - tells the service manager how it goes: sd_notify(3), without its library
 *
 *     fd = notify_open();                 before confinement
 *     notify_send(fd, "READY=1\nSTATUS=3 sandboxes");
 *
 * What there is to say: READY=1; STATUS=TEXT; STOPPING=1; WATCHDOG=1, more often than
 * notify_watchdog_ms(); and by notify_reloading() RELOADING=1, to be followed by READY=1.
 *
 * Ownership   notify_open() returns a descriptor of the caller's, close-on-exec, connected: all
 *             that is needed afterwards is send().
 * Blocking    never: a manager that does not read misses what was said.
 * Failure     -1 is "nobody listens", and may be sent to: nothing happens. What is sent is advice;
 *             nothing depends on its arrival, so that its failure is not told.
 * Tests       tests/unit/sandbox/test_notify.c
 */
#ifndef SANDBOX_NOTIFY_H
#define SANDBOX_NOTIFY_H

#include <stdint.h>

/* Takes NOTIFY_SOCKET out of the environment: no child of ours speaks for the service. */
int notify_open(void);
void notify_send(int fd, const char *text);
/* RELOADING=1 with the time of now, as Type=notify-reload wants it. */
void notify_reloading(int fd);
/* How long the manager waits for a WATCHDOG=1; 0: it does not. Takes WATCHDOG_USEC and WATCHDOG_PID
 * out of the environment. */
uint32_t notify_watchdog_ms(void);

#endif
