/* proxy/cmd_settings.h - `exeat settings show`, `check`, `schema` and `man`
 *
 *     exeat settings show [--settings FILE] [--json]
 *     exeat settings check FILE
 *     exeat settings schema
 *     exeat settings man
 *
 * No secret's value is in the settings, so none is shown: only where each comes from.
 *
 * Ownership   none.
 * Blocking    reads files, writes to stdout.
 * Failure     the exit status: 0 done, 1 the settings do not load, or do not fit this machine, 64
 *             (EX_USAGE) for a wrong command line.
 * Tests       tests/settings/run.py, tests/policy/run.sh
 */
#ifndef PROXY_CMD_SETTINGS_H
#define PROXY_CMD_SETTINGS_H

/* argv[0] is "settings". */
int cmd_settings(int argc, char **argv);

#endif
