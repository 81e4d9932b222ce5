/* proxy/serve.h - "exeat serve": an appliance that an operator speaks to over its control socket
 *
 * Ownership   borrows the specification.
 * Blocking    until it is told to end (SIGTERM, SIGINT) or cannot go on. SIGHUP: reload.
 * Failure     false; why has been said on stderr.
 * Tests       tests/e2e/test_control.py
 */
#ifndef PROXY_SERVE_H
#define PROXY_SERVE_H

#include <sys/types.h>

#include "proxy/settings.h"

struct serve_spec {
	const struct settings *settings;
	const char *log_path;
	int log;
	const char *socket;		/* of control_listen() */
	gid_t group;			/* whose members may ask, too; (gid_t)-1: nobody's */
	const char *policies;		/* directory */
	int notify;			/* of notify_open() */
	uint32_t watchdog_ms;	/* the service manager waits so long for a sign of life; or 0 */
};

bool serve_run(const struct serve_spec *spec);

#endif
