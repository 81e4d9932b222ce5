/* proxy/run_folders.h - what of this machine's a box may see, change and add to
 *
 * A box works in its workspace as the workspace's owner, and adds to the file of its output: what
 * the system or Exeat itself depends on is neither, however it was named. Where something lies is
 * judged by its real path.
 *
 * Ownership   arguments are borrowed for the call.
 * Blocking    resolves paths.
 * Failure     false; @why gets a line that says which one, why, and what to do.
 * Tests       tests/unit/proxy/test_run_folders.c, tests/e2e/test_box.py
 */
#ifndef PROXY_RUN_FOLDERS_H
#define PROXY_RUN_FOLDERS_H

#include "conf/buf.h"
#include "proxy/settings.h"

/* Either path may be NULL. @log is the audit log's path. */
bool run_folders_ok(const char *rootfs, const char *workspace, const char *log,
		    const struct settings *settings, struct buf *why);
/* May a box's output be added to this file (which need not be there)? */
bool run_output_ok(const char *output, const char *log, struct buf *why);

#endif
