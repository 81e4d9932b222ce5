#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/arena.h"
#include "policy/load.h"
#include "proxy/role.h"
#include "sandbox/channel.h"

/*
 * Theory of operation
 *
 * The reader lives for one file. Its start message brings the file's descriptor and an empty memfd;
 * it confines itself before it reads a byte, since the file may come from a cloned repository.
 * Then, in the loop's first pass (READY has gone out by then), it compiles, prints what is wrong on
 * stderr, answers READ_DONE and waits for the supervisor to hang up. Whoever gets the memfd
 * validates it.
 */

struct reader {
	struct arena arena;
	struct str file;
	int source, memfd;
	struct secret_bound *secrets;
	size_t n_secrets;
	bool secrets_known, quiet;
};

static struct reader reader = { .source = -1, .memfd = -1 };

/* "a.x b.x": as many hosts as there are words. */
static void split_hosts(struct arena *a, struct str words, struct secret_bound *out)
{
	struct str rest = arena_copy(a, words), *v;
	size_t n = 1;

	for (size_t i = 0; i < rest.n; i++)
		n += rest.p[i] == ' ';
	v = arena_take(a, n, sizeof(*v));
	while (v && rest.n)
		v[out->n_hosts++] = str_cut(&rest, ' ');
	out->hosts = v;
}

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_read *m = msg;
	struct reader *r = &reader;

	(void)type;	/* the table has no other start message for this role */
	(void)n_fds;
	env->state = r;
	r->source = fds[0];
	r->memfd = fds[1];
	r->file = arena_copy(&r->arena, m->file);
	r->secrets_known = m->secrets_known;
	r->quiet = m->quiet;
	r->secrets = arena_take(&r->arena, m->secrets.n, sizeof(*r->secrets));
	for (size_t i = 0; r->secrets && i < m->secrets.n && i < m->secret_hosts.n; i++) {
		r->secrets[r->n_secrets].name = arena_copy(&r->arena, m->secrets.v[i]);
		split_hosts(&r->arena, m->secret_hosts.v[i], &r->secrets[r->n_secrets++]);
	}
	return !r->arena.failed;
}

/* From its beginning, wherever another who has it has read to. False: errno, or 0 for a file over
 * the limit. */
static bool read_file(int fd, struct buf *text)
{
	for (;;) {
		size_t want = text->max - text->n < 65536 ? text->max - text->n : 65536;
		char *to = want ? buf_room(text, want) : NULL;
		ssize_t n;

		if (!to) {
			errno = 0;
			return false;
		}
		n = pread(fd, to, want, (off_t)text->n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		buf_grown(text, (size_t)n);
	}
}

/* One write: what the operator reads comes in one piece. *said is the same text. */
static void print_diags(const struct diags *d, char **said, size_t *n)
{
	FILE *to = open_memstream(said, n);

	if (!to)
		return;
	diags_print(d, to);
	if (fclose(to) == 0 && *n)
		fwrite(*said, 1, *n, stderr);
}

/* *said is the caller's to free: the diagnostics that @done points to. */
static void compile(struct reader *r, struct msg_read_done *done, char **said)
{
	struct load_env env = { r->secrets, r->n_secrets, r->secrets_known };
	struct diags diags;
	struct buf text;
	size_t n = 0;

	buf_init(&text, POLICY_FILE_MAX + 1);
	if (read_file(r->source, &text)) {
		diags_init(&diags, r->file, buf_str(&text));
		done->ok = policy_load(r->file, buf_str(&text), &env, r->memfd, &diags);
	} else {
		diags_init(&diags, r->file, STR_NONE);
		diag_error(&diags, (struct mark){ 0 }, NULL, "cannot be read: %s",
			   errno ? strerror(errno) : "too large");
	}
	if (!r->quiet || diags.errors)
		print_diags(&diags, said, &n);
	done->diagnostics = str_n(*said, n < MSG_DIAGNOSTICS_MAX ? n : MSG_DIAGNOSTICS_MAX);
	done->errors = (uint32_t)diags.errors;
	done->warnings = (uint32_t)diags.warnings;
	diags_free(&diags);
	buf_free(&text);
}

static void on_first_pass(evutil_socket_t fd, short what, void *arg)
{
	struct role_env *env = arg;
	struct msg_read_done done = { 0 };
	char *said = NULL;

	(void)fd;
	(void)what;
	compile(env->state, &done, &said);
	if (channel_send(env->supervisor, MSG_READ_DONE, &done, NULL, 0) != OK)
		event_base_loopbreak(env->base);
	free(said);
}

static void on_confined(struct role_env *env)
{
	struct timeval now = { 0 };

	if (event_base_once(env->base, -1, EV_TIMEOUT, on_first_pass, env, &now) < 0)
		event_base_loopbreak(env->base);
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)type;
	(void)msg;
	channel_close_fds(fds, n_fds);
	event_base_loopbreak(env->base);
}

static void on_end(struct role_env *env)
{
	struct reader *r = env->state;

	if (!r)
		return;
	close(r->source);
	close(r->memfd);
	arena_free(&r->arena);
}

int main(void)
{
	static const struct role_program program = { .self = ROLE_READER, .on_start = on_start,
						     .on_confined = on_confined,
						     .on_message = on_message, .on_end = on_end };

	return role_main(&program);
}
