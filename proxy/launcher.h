/* proxy/launcher.h - makes what a confined supervisor cannot: processes, wires, boxes, files
 *
 * A fork of exeat from before it confines itself. It hears one channel, the supervisor's, whose
 * messages (proxy/messages.h) name what is to be made and never how: programs, gateway, log and
 * settings are those of the start, and paths of a box are held to run_folders.h. It holds no secret
 * and reads nothing that a box or the internet has sent.
 *
 * Ownership   launcher_start(): *channel_fd is the caller's; the rest of @job is borrowed until it
 *             returns (the child has a copy).
 * Blocking    launcher_start() does not. The launcher itself works on one order after the other;
 *             what lies on a disk that may hang is an asker's (asker.h).
 * Failure     ERR_SYSTEM with errno. What goes wrong later is in the answers.
 * Limits      DISK_PATIENCE_MS, and asker.h's.
 * Tests       tests/unit/proxy/test_launcher.c, tests/e2e/test_deaths.py, test_hung.py
 */
#ifndef PROXY_LAUNCHER_H
#define PROXY_LAUNCHER_H

#include <sys/types.h>

#include "proxy/role_start.h"
#include "proxy/settings.h"
#include "sandbox/wire.h"

#define DISK_PATIENCE_MS 10000	/* for what an order names, on whatever disk it lies */

struct launcher_job {
	const char *programs;		/* the folder of the roles' programs */
	const struct settings *settings;
	struct wire_gateway *gateway;
	const char *log_path;
	struct broker_start *not_its_own;	/* closed in it: it holds no secret */
};

must_use enum err launcher_start(const struct launcher_job *job, int *channel_fd, pid_t *pid);

#endif
