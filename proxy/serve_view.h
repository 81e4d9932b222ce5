/* proxy/serve_view.h - the appliance and its sandboxes as the control socket tells of them
 *
 * Ownership   a struct serve_view holds all of its texts; it must not be moved.
 * Blocking    asks the kernel for a wire's bytes.
 * Failure     what cannot be told is left out.
 * Tests       tests/e2e/test_control.py
 */
#ifndef PROXY_SERVE_VIEW_H
#define PROXY_SERVE_VIEW_H

#include "conf/addr.h"
#include "conf/date.h"
#include "proxy/appliance.h"
#include "proxy/control_api.h"

#define SERVE_LIMITS_MAX 512u

struct serve_view {
	struct control_sandbox v;
	char name[MSG_SANDBOX_NAME_MAX + 1], policy[MSG_PATH_MAX], digest[65];
	char isolation[BOX_ISOLATION_MAX], address[ADDR_TEXT_MAX], link[WIRE_IFNAME_MAX];
	char limits[SERVE_LIMITS_MAX], started[DATE_TEXT_MAX], why[256];
};

/* @policies: the directory whose policies are told by their name. */
void serve_view_fill(struct serve_view *out, struct sandbox *s, const char *policies);
void serve_view_status(struct json *j, struct appliance *a, uint64_t started_us);

#endif
