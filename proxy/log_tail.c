/* Theory of operation
 *
 * The file is read to its end; then inotify says when to look again: the folder is watched for the
 * name coming and going, the file itself for growth. After each wake-up, and before the next wait,
 * what is there is compared with what was being read: a shorter file is read from its beginning,
 * another file under the name is read from its beginning once the old one has no more lines; where
 * the log was rotated more than once meanwhile, the file that goes on is looked for beside it.
 * Events say only that something changed, so that none of them matters by itself.
 *
 * What "what happened" shows is a table of kinds: a text with members' names in braces; a group in
 * brackets is left out when none of its members is there; groups stand in groups.
 */
#include "proxy/log_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/date.h"
#include "conf/utf8.h"
#include "proxy/log_files.h"
#include "proxy/log_read.h"

#define SHOWN_MAX (8u * LOG_LINE_MAX)
#define RED "\033[31m"
#define GREEN "\033[32m"
#define YELLOW "\033[33m"
#define FAINT "\033[2m"
#define PLAIN "\033[0m"

/* ---- escaping ---- */

/* Unicode Standard Annex 9: the marks that change direction; and the two separators of lines. */
static bool is_safe(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	return c != 0x61c && c != 0x200e && c != 0x200f && !(c >= 0x2028 && c <= 0x202e) &&
	       !(c >= 0x2066 && c <= 0x2069) && c != 0xfeff;
}

void log_tail_escape(struct str text, struct buf *out)
{
	while (text.n) {
		uint32_t c = 0xfffd;
		size_t n = utf8_next(text, &c);

		if (n && is_safe(c))
			buf_put(out, text.p, n);
		else
			buf_printf(out, "\\u%04x", n ? c : 0xfffd);
		text = str_from(text, n ? n : 1);
	}
}

/* ---- one line for people ---- */

static const struct {
	const char *kind, *what;
} shapes[] = {
	{ "request",       "[{method} ]{scheme}[://{host}]{path}[ {status}][ {proxy_error}][ x{count}][ {reason}]" },
	{ "dns",           "dns {name}[ {type}][ -> {answers}][ {rcode}][ {reason}]" },
	{ "connect",       "connect {destination}[ port {port}][ {protocol}][ x{count}][ {reason}]" },
	{ "connection",    "[{phase} ]{destination}[ port {port}][ {protocol}][ {tls}][ {ended}][ x{count}][ {reason}]" },
	{ "dial",          "dial {destination}[ -> {address}][ port {port}][ {ended}][ {reason}]" },
	{ "credential",    "credential {credential}[ {event}][ {field}][ {reason}]" },
	{ "start",         "exeat[ {version}]" },
	{ "stop",          "stop[ {ended}][ {reason}]" },
	{ "sandbox_start", "box starts[: {command}][ in {isolation}]" },
	{ "sandbox_stop",  "box ends[ with {exit}][ {ended}][ after {seconds} s][, {cpu_ms} ms of processor]"
			 "[, {bytes_up} bytes up][, {bytes_down} down]" },
	{ "policy_load",   "policy[ {file}]" },
	{ "policy_reject", "policy refused[ {file}][: {reason}][: {diagnostics}]" },
	{ "worker_lost",   "{role} died[ (pid {pid})][ of signal {signal}][ {reason}]" },
	{ "control",       "control[ {method} {path}] -> {status} by user {peer_uid} (pid {peer_pid})[: {reason}]" },
	{ "access_request", "request {number} {event}: [{method} ]{url}[ {reason}][ ({note})]" },
	{ "log_fault",     "log: {reason}[ ({role})]" },
	{ "checkpoint",    "checkpoint[ signed with {key}]" },
	{ "rotated",       "log: this file has ended" },
	{ "continued",     "log: goes on from[ {file}]" },
};

/* The member's text; numbers and truth values as written. False: not there. */
static bool put_member(const json_t *object, struct str name, struct buf *out)
{
	char key[32];
	const json_t *j;

	if (name.n >= sizeof(key))
		return false;
	memcpy(key, name.p, name.n);
	key[name.n] = '\0';
	j = json_object_get(object, key);
	if (json_is_string(j))
		log_tail_escape(str_n(json_string_value(j), json_string_length(j)), out);
	else if (json_is_integer(j))
		buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(j));
	else if (json_is_boolean(j))
		buf_put_str(out, json_is_true(j) ? STR("yes") : STR("no"));
	else
		return false;
	return true;
}

/* Where the group that @s starts with is closed; groups stand in groups. */
static size_t group_end(struct str s)
{
	size_t depth = 0, i;

	for (i = 0; i < s.n; i++) {
		if (s.p[i] == '[')
			depth++;
		else if (s.p[i] == ']' && --depth == 0)
			break;
	}
	return i;
}

/* Returns whether any member was there. */
static bool put_shape(const json_t *object, struct str shape, struct buf *out)
{
	bool any = false;

	while (shape.n) {
		size_t start = out->n, end;

		if (shape.p[0] == '{') {
			end = str_find(shape, '}');
			any |= put_member(object, str_n(shape.p + 1, end - 1), out);
		} else if (shape.p[0] == '[') {
			end = group_end(shape);
			if (put_shape(object, str_n(shape.p + 1, end - 1), out))
				any = true;
			else
				out->n = start;
		} else {
			end = 0;
			buf_put_c(out, shape.p[0]);
		}
		shape = str_from(shape, end + 1);
	}
	return any;
}

static void put_what(const json_t *object, struct buf *out)
{
	const char *kind = json_string_value(json_object_get(object, "kind"));

	for (size_t i = 0; kind && i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (strcmp(kind, shapes[i].kind) == 0) {
			put_shape(object, str_of(shapes[i].what), out);
			return;
		}
	put_shape(object, STR("{kind}[ {reason}]"), out);
}

/* At least @width bytes wide. */
static void put_column(const json_t *object, const char *key, size_t width, struct buf *out)
{
	size_t start = out->n;

	if (!put_member(object, str_of(key), out))
		buf_put_c(out, '-');
	while (!out->failed && out->n - start < width)
		buf_put_c(out, ' ');
	buf_put_c(out, ' ');
}

static struct str colour_of(const json_t *object)
{
	const char *verdict = json_string_value(json_object_get(object, "verdict"));

	if (!verdict)
		return STR(FAINT);
	return strcmp(verdict, "allow") == 0  ? STR(GREEN)
	       : strcmp(verdict, "deny") == 0 ? STR(RED)
					      : STR(YELLOW);
}

void log_tail_line(struct str line, bool colour, struct buf *out)
{
	json_t *object = json_loadb(line.p, line.n, JSON_ALLOW_NUL, NULL);

	if (!json_is_object(object)) {
		json_decref(object);
		buf_put_str(out, STR("? "));
		log_tail_escape(line, out);
		buf_put_c(out, '\n');
		return;
	}
	put_column(object, "time", DATE_TEXT_MAX - 1, out);
	put_column(object, "sandbox", 12, out);
	if (colour)
		buf_put_str(out, colour_of(object));
	put_column(object, "verdict", 5, out);
	if (colour)
		buf_put_str(out, STR(PLAIN));
	put_what(object, out);
	put_shape(object, STR("[  (rule {rule}[, {rule_at}])]"), out);
	buf_put_c(out, '\n');
	json_decref(object);
}

/* ---- the file, as it grows ---- */

struct follow {
	const struct log_tail *t;
	int fd, inotify, file_watch;
	uint64_t last_seq;	/* of the line that was shown last */
	struct log_reader *reader;
	struct buf shown;
};

static enum err show(struct follow *f, struct str line)
{
	struct log_head head;

	if (log_line_head(line, &head))
		f->last_seq = head.seq;
	f->shown.n = 0;
	f->shown.failed = false;
	if (f->t->json) {
		log_tail_escape(line, &f->shown);
		buf_put_c(&f->shown, '\n');
	} else {
		log_tail_line(line, f->t->colour, &f->shown);
	}
	if (f->shown.failed)
		return ERR_NOMEM;
	return fwrite(f->shown.p, 1, f->shown.n, f->t->to) == f->shown.n ? OK : ERR_SYSTEM;
}

/* All the lines that are there. */
static enum err show_lines(struct follow *f)
{
	struct str line;
	enum err e;

	while ((e = log_reader_next(f->reader, &line)) == OK)
		if ((e = show(f, line)) != OK)
			return e;
	if (fflush(f->t->to) != 0)
		return ERR_SYSTEM;
	return e == ERR_AGAIN || e == ERR_TRUNCATED ? OK : e;
}

static enum err open_file(struct follow *f, const char *path)
{
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (f->fd < 0)
		return ERR_SYSTEM;
	if (f->inotify >= 0)
		f->file_watch = inotify_add_watch(f->inotify, path, IN_MODIFY);
	return log_reader_open(f->fd, &f->reader);
}

static void close_file(struct follow *f)
{
	if (f->inotify >= 0 && f->file_watch >= 0)
		inotify_rm_watch(f->inotify, f->file_watch);
	f->file_watch = -1;
	log_reader_close(f->reader);
	f->reader = NULL;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* Is the first line of what is open the one behind the last that was shown? */
static bool goes_on(struct follow *f)
{
	struct log_head head;
	struct str line;
	bool yes = log_reader_next(f->reader, &line) == OK && log_line_head(line, &head) &&
		   head.seq == f->last_seq + 1;

	log_reader_seek_start(f->reader);
	return yes;
}

/* The file that goes on where the last one has ended, or else the one that has the name. */
static enum err open_next(struct follow *f)
{
	struct log_files *files;
	enum err e = log_files_open(f->t->path, &files);

	if (e)
		return open_file(f, f->t->path);
	for (size_t i = 0; i + 1 < log_files_count(files); i++) {
		if (open_file(f, log_files_path(files, i)) == OK && goes_on(f)) {
			log_files_close(files);
			return OK;
		}
		close_file(f);
	}
	log_files_close(files);
	return open_file(f, f->t->path);
}

/* Is what is read still what the name stands for? True: it was opened anew. */
static enum err catch_up(struct follow *f, bool *anew)
{
	struct stat named, ours;
	enum err e;

	*anew = false;
	if (fstat(f->fd, &ours) < 0)
		return ERR_SYSTEM;
	/* A writer that met a full disk cuts off the line that it could not end. */
	if ((uint64_t)ours.st_size < log_reader_position(f->reader))
		log_reader_unread(f->reader);
	/* A name that is gone comes back with the next writer. */
	if (stat(f->t->path, &named) < 0)
		return OK;
	if (named.st_ino == ours.st_ino && named.st_dev == ours.st_dev &&
	    (uint64_t)ours.st_size >= log_reader_position(f->reader))
		return OK;
	*anew = true;
	if (named.st_ino == ours.st_ino && named.st_dev == ours.st_dev) {
		close_file(f);
		return open_file(f, f->t->path);
	}
	e = show_lines(f);	/* its writer may have been here since it was last looked at */
	close_file(f);
	return e ? e : open_next(f);
}

static enum err watch_folder(struct follow *f)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(f->t->path, '/');
	size_t n = slash ? (size_t)(slash - f->t->path) + 1 : 0;

	if (n >= sizeof(dir))
		return ERR_LIMIT;
	memcpy(dir, n ? f->t->path : ".", n ? n : 1);
	dir[n ? n : 1] = '\0';
	f->inotify = inotify_init1(IN_CLOEXEC);
	if (f->inotify < 0 || inotify_add_watch(f->inotify, dir, IN_CREATE | IN_MOVED_TO) < 0)
		return ERR_SYSTEM;
	return OK;
}

static enum err wait_for_change(struct follow *f)
{
	_Alignas(struct inotify_event) char events[4096];
	ssize_t n;

	do {
		n = read(f->inotify, events, sizeof(events));
	} while (n < 0 && errno == EINTR);
	return n < 0 ? ERR_SYSTEM : OK;
}

static enum err follow(struct follow *f)
{
	for (;;) {
		bool anew = true;
		enum err e = OK;

		while (!e && anew) {
			e = show_lines(f);
			if (!e)
				e = catch_up(f, &anew);
		}
		if (!e)
			e = wait_for_change(f);
		if (e)
			return e;
	}
}

enum err log_tail(const struct log_tail *t)
{
	struct follow f = { .t = t, .fd = -1, .inotify = -1, .file_watch = -1 };
	enum err e = t->follow ? watch_folder(&f) : OK;
	int code;

	buf_init(&f.shown, SHOWN_MAX);
	if (!e)
		e = open_file(&f, t->path);
	if (!e)
		e = log_reader_seek_last(f.reader, t->lines);
	if (e == ERR_AGAIN)	/* cut while it was read: from the beginning, then */
		e = OK;
	if (!e)
		e = t->follow ? follow(&f) : show_lines(&f);
	code = errno;
	close_file(&f);
	if (f.inotify >= 0)
		close(f.inotify);
	buf_free(&f.shown);
	errno = code;
	return e;
}
