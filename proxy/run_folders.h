/* proxy/run_folders.h - which folders may be shown to a box
 *
 * A box works in its workspace as the workspace's owner: a folder that the system or Exeat itself
 * depends on is none, however it was named. Where it lies is judged by its real path.
 *
 * Ownership   arguments are borrowed for the call.
 * Blocking    resolves paths.
 * Failure     false; @why gets a line that says which folder, why, and what to do.
 * Tests       tests/unit/proxy/test_run_folders.c, tests/e2e/test_box.py
 */
#ifndef PROXY_RUN_FOLDERS_H
#define PROXY_RUN_FOLDERS_H

#include "conf/buf.h"
#include "proxy/settings.h"

/* Either path may be NULL. @log is the audit log's path. */
bool run_folders_ok(const char *rootfs, const char *workspace, const char *log,
		    const struct settings *settings, struct buf *why);

#endif
