/* proxy/params.h - what a request to the notice page is about: a query, a form, or a JSON object
 *
 * All three are read into the same named values, strictly: a name that nobody asked for, a name
 * twice, a broken escape, a control byte (also an escaped one) and text that is no UTF-8 are
 * errors, told in words. Of JSON one flat object of texts is read, no more (RFC 8259).
 *
 * Ownership   values are the caller's: params_add(), params_free().
 * Blocking    never.
 * Failure     what is wrong, as static text, and in params.wrong which name it is about; NULL:
 *             read.
 * Limits      PARAMS_MAX names; each value its own.
 * Tests       tests/unit/proxy/test_params.c, fuzz/fuzz_params.c
 */
#ifndef PROXY_PARAMS_H
#define PROXY_PARAMS_H

#include "conf/buf.h"

#define PARAMS_MAX 4
#define PARAMS_NAME_MAX 32

struct param {
	const char *name;
	bool given;
	struct buf value;
};

struct params {
	size_t n;
	struct param v[PARAMS_MAX];
	const char *wrong;		/* a name of @v, or NULL */
};

/* @name must be static. */
void params_add(struct params *p, const char *name, size_t max);
void params_free(struct params *p);
struct str params_get(const struct params *p, const char *name);
/* "a=1&b=x%20y", '+' is a space (the URL standard's application/x-www-form-urlencoded). */
const char *params_read_form(struct params *p, struct str form);
/* {"a": "1", "b": "x y"} */
const char *params_read_json(struct params *p, struct str json);

#endif
