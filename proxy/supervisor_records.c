#include "proxy/supervisor_records.h"

#include <stdio.h>
#include <sys/wait.h>

#include "proxy/control.h"
#include "proxy/record.h"
#include "proxy/version.h"

enum err put_start(struct ring *ring, const struct settings *settings, struct str found)
{
	struct record r;

	record_begin(&r, RECORD_start);
	record_str(&r, REC_version, STR(EXEAT_VERSION));
	record_str(&r, REC_config, str_of(settings->digest));
	record_str(&r, REC_file, settings->path);
	record_str(&r, REC_found, found);
	return record_commit(&r, ring);
}

enum err put_policy_load(struct ring *ring, const char *sandbox, const struct policy_file *file,
			 const char *before)
{
	struct record r;

	record_begin(&r, RECORD_policy_load);
	record_str(&r, REC_sandbox, str_of(sandbox));
	record_str(&r, REC_policy, str_of(file->digest));
	record_str(&r, REC_before, str_of(before));
	record_str(&r, REC_file, str_of(file->path));
	return record_commit(&r, ring);
}

enum err put_policy_reject(struct ring *ring, const char *sandbox, const char *file,
			   struct str diagnostics)
{
	struct record r;

	record_begin(&r, RECORD_policy_reject);
	record_str(&r, REC_sandbox, str_of(sandbox));
	record_str(&r, REC_file, str_of(file));
	if (diagnostics.n == 0)
		record_str(&r, REC_reason, STR("could not be read"));
	record_str(&r, REC_diagnostics, diagnostics);
	return record_commit(&r, ring);
}

void sandbox_limits(const struct sandbox *s, char *out, size_t size)
{
	const struct settings *settings = s->a->settings;

	snprintf(out, size, "%sleases %u, connections %u, idle %u s", s->limits,
		 (unsigned)settings->max_leases, (unsigned)settings->max_connections,
		 (unsigned)(settings->idle_ms / 1000));
}

enum err put_sandbox_start(const struct sandbox *s)
{
	char limits[256 + BOX_LIMITS_MAX];
	struct record r;

	record_begin(&r, RECORD_sandbox_start);
	record_str(&r, REC_sandbox, str_of(s->name));
	record_str(&r, REC_policy, str_of(s->policy->digest));
	record_str(&r, REC_isolation, str_of(s->isolation));
	if (s->texts >= 0) {
		record_str(&r, REC_rootfs, str_of(s->rootfs ? s->rootfs : "(made of the host's /usr)"));
		record_str(&r, REC_workspace, str_of(s->workspace ? s->workspace : "(ephemeral)"));
	}
	sandbox_limits(s, limits, sizeof(limits));
	record_str(&r, REC_limits, str_of(limits));
	/* The program alone: arguments can hold what must not be in a log. */
	if (s->program)
		record_str(&r, REC_command, str_of(s->program));
	return record_commit(&r, s->a->ring);
}

enum err put_sandbox_stop(const struct sandbox *s)
{
	struct record r;

	record_begin(&r, RECORD_sandbox_stop);
	record_str(&r, REC_sandbox, str_of(s->name));
	if (s->texts >= 0)
		record_u64(&r, REC_exit, (uint64_t)s->status);
	record_u64(&r, REC_seconds, (uint64_t)(s->ended_at - s->started_at));
	record_u64(&r, REC_cpu_ms, s->cpu_ms);
	record_u64(&r, REC_bytes_up, s->bytes_up);
	record_u64(&r, REC_bytes_down, s->bytes_down);
	if (s->untold)
		record_u64(&r, REC_suppressed, s->untold);
	record_str(&r, REC_reason, str_of(s->why));
	return record_commit_end(&r, s->a->ring);
}

enum err put_role_lost(const struct part *p, const char *sandbox)
{
	struct record r;

	record_begin(&r, RECORD_worker_lost);
	record_str(&r, REC_sandbox, str_of(sandbox));
	record_str(&r, REC_role, str_of(role_name(p->role)));
	record_u64(&r, REC_pid, (uint64_t)p->gone);
	if (WIFSIGNALED(p->status))
		record_u64(&r, REC_signal, (uint64_t)WTERMSIG(p->status));
	else
		record_u64(&r, REC_exit, (uint64_t)WEXITSTATUS(p->status));
	record_str(&r, REC_reason, str_of(p->why ? p->why : ""));
	return record_commit_end(&r, p->a->ring);
}

enum err put_control(struct ring *ring, const struct control_done *done)
{
	struct record r;

	record_begin(&r, RECORD_control);
	record_str(&r, REC_sandbox, done->about);
	record_str(&r, REC_verdict, done->status < 400 ? STR("allow") : STR("deny"));
	record_str(&r, REC_method, done->method);
	record_str(&r, REC_path, done->path);
	record_u64(&r, REC_status, done->status);
	record_str(&r, REC_reason, done->problem);
	record_u64(&r, REC_peer_uid, done->peer.uid);
	record_u64(&r, REC_peer_pid, (uint64_t)done->peer.pid);
	return record_commit(&r, ring);
}

enum err put_control_suppressed(struct ring *ring, uint64_t n)
{
	struct record r;

	record_begin(&r, RECORD_control);
	record_str(&r, REC_verdict, STR("deny"));
	record_str(&r, REC_reason, STR("refused requests that have no record of their own"));
	record_u64(&r, REC_suppressed, n);
	return record_commit(&r, ring);
}

enum err put_stop(struct ring *ring, const char *how)
{
	struct record r;

	record_begin(&r, RECORD_stop);
	record_str(&r, REC_ended, str_of(how));
	return record_commit_end(&r, ring);
}
