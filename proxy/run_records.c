#include "proxy/run_records.h"

#include <stdio.h>
#include <sys/wait.h>

#include "proxy/record.h"
#include "proxy/version.h"

enum err put_start(struct ring *ring, const struct run_spec *spec)
{
	struct record r;

	record_begin(&r, RECORD_start);
	record_str(&r, REC_version, STR(EXEAT_VERSION));
	record_str(&r, REC_config, str_of(spec->settings->digest));
	record_str(&r, REC_file, spec->settings->path);
	return record_commit(&r, ring);
}

enum err put_policy_load(struct ring *ring, const struct run_spec *spec, struct str digest)
{
	struct record r;

	record_begin(&r, RECORD_policy_load);
	record_str(&r, REC_sandbox, str_of(spec->name));
	record_str(&r, REC_policy, digest);
	record_str(&r, REC_file, str_of(spec->policy_file));
	return record_commit(&r, ring);
}

enum err put_policy_reject(struct ring *ring, const struct run_spec *spec)
{
	struct record r;

	record_begin(&r, RECORD_policy_reject);
	record_str(&r, REC_sandbox, str_of(spec->name));
	record_str(&r, REC_file, str_of(spec->policy_file));
	if (spec->rejected.n == 0)
		record_str(&r, REC_reason, STR("could not be read"));
	record_str(&r, REC_diagnostics, spec->rejected);
	return record_commit(&r, ring);
}

enum err put_sandbox_start(struct ring *ring, const struct run_spec *spec, struct str digest,
			   const struct box *box)
{
	const struct settings *s = spec->settings;
	char limits[256 + BOX_LIMITS_MAX];
	struct record r;

	record_begin(&r, RECORD_sandbox_start);
	record_str(&r, REC_sandbox, str_of(spec->name));
	record_str(&r, REC_policy, digest);
	record_str(&r, REC_isolation, str_of(box_isolation(box)));
	record_str(&r, REC_rootfs, str_of(spec->rootfs ? spec->rootfs : "(made of the host's /usr)"));
	record_str(&r, REC_workspace, str_of(spec->workspace ? spec->workspace : "(ephemeral)"));
	snprintf(limits, sizeof(limits), "%sleases %u, connections %u, idle %u s", box_limits(box),
		 (unsigned)s->max_leases, (unsigned)s->max_connections,
		 (unsigned)(s->idle_ms / 1000));
	record_str(&r, REC_limits, str_of(limits));
	/* The program alone: arguments can hold what must not be in a log. */
	record_str(&r, REC_command, str_of(spec->command[0]));
	return record_commit(&r, ring);
}

enum err put_sandbox_stop(struct ring *ring, const struct run_spec *spec, int status,
			  const struct run_cost *cost)
{
	struct record r;

	record_begin(&r, RECORD_sandbox_stop);
	record_str(&r, REC_sandbox, str_of(spec->name));
	record_u64(&r, REC_exit, (uint64_t)status);
	record_u64(&r, REC_seconds, cost->seconds);
	record_u64(&r, REC_cpu_ms, cost->cpu_ms);
	record_u64(&r, REC_bytes_up, cost->bytes_up);
	record_u64(&r, REC_bytes_down, cost->bytes_down);
	return record_commit_end(&r, ring);
}

enum err put_role_lost(struct ring *ring, const struct run_spec *spec, enum role role, pid_t pid,
		       int wait_status, const char *why)
{
	struct record r;

	record_begin(&r, RECORD_worker_lost);
	record_str(&r, REC_sandbox, str_of(spec->name));
	record_str(&r, REC_role, str_of(role_name(role)));
	record_u64(&r, REC_pid, (uint64_t)pid);
	if (WIFSIGNALED(wait_status))
		record_u64(&r, REC_signal, (uint64_t)WTERMSIG(wait_status));
	else
		record_u64(&r, REC_exit, (uint64_t)WEXITSTATUS(wait_status));
	record_str(&r, REC_reason, str_of(why));
	return record_commit_end(&r, ring);
}

enum err put_stop(struct ring *ring, const char *how)
{
	struct record r;

	record_begin(&r, RECORD_stop);
	record_str(&r, REC_ended, str_of(how));
	return record_commit_end(&r, ring);
}
