/* proxy/log_summary.h - what an audit log says in sum: hosts, refusals, credentials, sandboxes
 *
 * Lines that stand for several (a count) count as that many. Of a request only its end counts,
 * and likewise of a connection that was not opened, which counts as a request.
 *
 * Ownership   log_summary_new() makes one for log_summary_free(); lines are borrowed for the call.
 * Blocking    never; log_summary_print() writes to a file.
 * Failure     ERR_NOMEM.
 * Limits      SUMMARY_ROWS_MAX names of a kind; further ones are counted together as "(others)".
 * Tests       tests/unit/proxy/test_log_summary.c
 */
#ifndef PROXY_LOG_SUMMARY_H
#define PROXY_LOG_SUMMARY_H

#include <jansson.h>
#include <stdio.h>

#include "conf/err.h"
#include "proxy/log_line.h"

#define SUMMARY_ROWS_MAX 32768

struct log_summary;

struct log_summary *log_summary_new(void);
void log_summary_free(struct log_summary *s);
must_use enum err log_summary_add(struct log_summary *s, struct str line, const json_t *object);
/* The @top largest of each kind; @json: one object. */
must_use enum err log_summary_print(struct log_summary *s, size_t top, bool json, FILE *to);

#endif
