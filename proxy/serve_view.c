#include "proxy/serve_view.h"

#include <stdio.h>
#include <unistd.h>

#include "proxy/access_table.h"
#include "proxy/supervisor_records.h"
#include "proxy/version.h"

/* ---- a sandbox ---- */

static struct str state_of(const struct sandbox *s)
{
	switch (s->state) {
	case SANDBOX_STARTING:
		return STR("starting");
	case SANDBOX_RUNNING:
		return STR("running");
	case SANDBOX_STOPPING:
		return STR("stopping");
	case SANDBOX_ENDED:
		break;
	}
	return s->failed ? STR("failed") : STR("ended");
}

/* "NAME" for NAME.yaml of the directory, else the whole path. */
static void put_policy_name(const char *path, const char *policies, char *out, size_t size)
{
	size_t n = strlen(policies), end = strlen(path);

	if (end > n + sizeof("/.yaml") - 1 && strncmp(path, policies, n) == 0 && path[n] == '/' &&
	    strcmp(path + end - 5, ".yaml") == 0)
		snprintf(out, size, "%.*s", (int)(end - n - 6), path + n + 1);
	else
		snprintf(out, size, "%s", path);
}

static uint64_t crashes_of(const struct part *p)
{
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof(p->crashes) / sizeof(p->crashes[0]); i++)
		n += p->crashes[i] != 0;
	return n;
}

static void put_address(uint32_t address, char out[ADDR_TEXT_MAX])
{
	snprintf(out, ADDR_TEXT_MAX, "%u.%u.%u.%u", address >> 24, address >> 16 & 0xff,
		 address >> 8 & 0xff, address & 0xff);
}

void serve_view_fill(struct serve_view *out, struct sandbox *s, const char *policies)
{
	bool has_box = s->texts >= 0, over = s->state == SANDBOX_ENDED;

	*out = (struct serve_view){ 0 };
	if (!over)
		sandbox_count(s);
	snprintf(out->name, sizeof(out->name), "%s", s->name);
	put_policy_name(s->policy->path, policies, out->policy, sizeof(out->policy));
	snprintf(out->digest, sizeof(out->digest), "%s", s->policy->digest);
	snprintf(out->isolation, sizeof(out->isolation), "%s", s->isolation);
	if (s->wire.address)
		put_address(s->wire.address, out->address);
	snprintf(out->link, sizeof(out->link), "%s", s->wire.ifname);
	sandbox_limits(s, out->limits, sizeof(out->limits));
	date_format((uint64_t)s->started_at * 1000000, out->started);
	snprintf(out->why, sizeof(out->why), "%s", s->why);
	out->v = (struct control_sandbox){
		.name = str_of(out->name), .number = s->number, .state = state_of(s),
		.policy = str_of(out->policy), .digest = str_of(out->digest),
		.isolation = str_of(out->isolation), .address = str_of(out->address),
		.link = str_of(out->link), .limits = str_of(out->limits),
		.started = str_of(out->started), .leases = s->leases ? lease_count(s->leases) : 0,
		.bytes_up = s->bytes_up, .bytes_down = s->bytes_down,
		.worker_pid = s->worker.pid > 0 ? (uint64_t)s->worker.pid : 0,
		.worker_crashes = crashes_of(&s->worker), .has_exit = over && has_box && s->started,
		.exit = (uint64_t)s->status, .why = str_of(out->why),
	};
}

/* ---- the appliance ---- */

static const char *part_state_of(const struct part *p)
{
	switch (p->state) {
	case PART_NONE:
		return "none";
	case PART_WANTED:
		return "wanted";
	case PART_STARTING:
		return "starting";
	case PART_READY:
		return "ready";
	case PART_ENDING:
		break;
	}
	return "ending";
}

static void put_roles(struct json *j, const struct appliance *a)
{
	json_key(j, "roles");
	json_array(j);
	for (const struct part *p = a->parts; p; p = p->next) {
		if (p->role == ROLE_WORKER)	/* told with their sandboxes */
			continue;
		json_object(j);
		json_put_str(j, "role", str_of(role_name(p->role)));
		if (p->pid > 0)
			json_put_u64(j, "pid", (uint64_t)p->pid);
		json_put_str(j, "state", str_of(part_state_of(p)));
		json_put_u64(j, "crashes", crashes_of(p));
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_counts(struct json *j, const struct appliance *a)
{
	uint64_t n[SANDBOX_ENDED + 1] = { 0 };

	for (const struct sandbox *s = a->sandboxes; s; s = s->next)
		n[s->state]++;
	json_key(j, "sandboxes");
	json_object(j);
	json_put_u64(j, "starting", n[SANDBOX_STARTING]);
	json_put_u64(j, "running", n[SANDBOX_RUNNING]);
	json_put_u64(j, "stopping", n[SANDBOX_STOPPING]);
	json_object_end(j);
}

static uint64_t open_requests(const struct appliance *a)
{
	uint64_t n = 0;

	for (const struct access *r = NULL; (r = access_table_next(a->access, r));)
		n += r->open;
	return n;
}

void serve_view_status(struct json *j, struct appliance *a, uint64_t started_us)
{
	char started[DATE_TEXT_MAX];

	date_format(started_us, started);
	json_object(j);
	json_put_str(j, "version", STR(EXEAT_VERSION));
	json_put_u64(j, "pid", (uint64_t)getpid());
	json_put_str(j, "started", str_of(started));
	json_key(j, "settings");
	json_object(j);
	json_put_str(j, "file", a->settings->path);
	json_put_str(j, "digest", str_of(a->settings->digest));
	json_object_end(j);
	json_key(j, "log");
	json_object(j);
	json_put_str(j, "file", str_of(a->log_path));
	json_put_bool(j, "writable", !a->log_unwritable);
	json_object_end(j);
	put_counts(j, a);
	json_put_u64(j, "requests", open_requests(a));
	put_roles(j, a);
	json_object_end(j);
}
