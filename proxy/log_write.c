/* Theory of operation
 *
 * The file is the only state that counts: what this process remembers of it (size, last number,
 * last hash) is good as long as the size is what it was; otherwise another writer was here, or the
 * file was replaced by an empty one, and the last line is read again. That is looked at under the
 * lock, at the beginning of each batch.
 *
 * A batch is made in memory and written with one write(). Where that fails or falls short, the file
 * is cut back to where it was: a line is there whole or not at all, and numbers and hashes go on
 * from the last whole one. A process that died between the two leaves a line without a newline; the
 * next batch cuts it off, remembers how long it was, and its writer makes a record of that.
 *
 * When a file is put aside (proxy/log_rotate.h), its last line says so, and nothing is added behind
 * it: not by whoever wrote that line, nor by another writer, who finds it there. Who puts the file
 * aside takes away its permission to be written, under the lock, before it changes its name: so a
 * writer that had to go on without a successor (log_file_stay()) learns under the lock, too, that
 * there is one now. The successor has its first line, which continues the chain, before anybody
 * else can see it.
 */
#include "proxy/log_write.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/date.h"
#include "conf/hex.h"
#include "conf/json.h"
#include "conf/sort.h"

#define HASH_BYTES 32
#define PREFIX_SEQ "{\"seq\":"
#define FIRST_BYTES 256		/* more than any line's head */

/* Where the chain stands. */
struct end_of_chain {
	uint64_t seq, time_us;
	char hash[LOG_HASH_HEX + 1];
	bool rotated;		/* the last line says so */
};

struct log_file {
	int fd;
	bool locked;
	uint64_t size;		/* of the file, as this process knows it */
	struct end_of_chain end, batch_end;
	uint64_t first_seq, first_us;	/* of the file's first line; 0: there is none */
	struct end_of_chain from;	/* what an empty file continues */
	bool stays;
	struct buf batch;
	uint64_t torn;
	EVP_MD *sha256;
	EVP_MD_CTX *hashing;
};

/* ---- the chain ---- */

static enum err hash_line(struct log_file *l, struct str line, char out[LOG_HASH_HEX + 1])
{
	unsigned char hash[HASH_BYTES];

	if (!EVP_DigestInit_ex(l->hashing, l->sha256, NULL) ||
	    !EVP_DigestUpdate(l->hashing, line.p, line.n) ||
	    !EVP_DigestFinal_ex(l->hashing, hash, NULL))
		return ERR_CRYPTO;
	hex_text(hash, HASH_BYTES, out);
	return OK;
}

/* In an empty file. */
static void chain_starts(struct log_file *l)
{
	l->first_seq = l->first_us = 0;
	l->end = l->from;
}

static enum err read_all(int fd, char *p, size_t n, uint64_t at)
{
	for (size_t have = 0; have < n;) {
		ssize_t got = pread(fd, p + have, n - have, (off_t)(at + have));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			errno = got == 0 ? EIO : errno;
			return ERR_SYSTEM;
		}
		have += (size_t)got;
	}
	return OK;
}

/* Index of the last newline in @s, or s.n. */
static size_t last_newline(struct str s)
{
	for (size_t i = s.n; i > 0; i--)
		if (s.p[i - 1] == '\n')
			return i - 1;
	return s.n;
}

/* Takes the last whole line of @tail, the file's end; sets *keep to how much of @tail stays. */
static enum err end_from(struct log_file *l, struct str tail, bool whole_file, size_t *keep)
{
	size_t newline = last_newline(tail), before;
	struct log_head head;
	struct str line;

	if (newline == tail.n) {
		/* Not one whole line: all of a first one that was torn, or nothing of ours. */
		chain_starts(l);
		*keep = 0;
		return whole_file && tail.n < LOG_LINE_MAX &&
		       memcmp(tail.p, PREFIX_SEQ, tail.n < 7 ? tail.n : 7) == 0 ? OK : ERR_SYNTAX;
	}
	*keep = newline + 1;
	before = last_newline(str_n(tail.p, newline));
	if (before == newline && !whole_file)
		return ERR_SYNTAX;
	line = before == newline ? str_n(tail.p, newline)
				 : str_n(tail.p + before + 1, newline - before - 1);
	if (!log_line_head(line, &head))
		return ERR_SYNTAX;
	l->end.seq = head.seq;
	l->end.time_us = head.time_us;
	l->end.rotated = str_eq(head.kind, STR(LOG_KIND_ROTATED));
	return hash_line(l, line, l->end.hash);
}

/* The first line's head, whatever stands behind it. */
static enum err read_first(struct log_file *l, uint64_t size)
{
	char text[FIRST_BYTES];
	size_t n = size < sizeof(text) ? (size_t)size : sizeof(text), end;
	struct log_head head;
	enum err e = read_all(l->fd, text, n, 0);

	if (e)
		return e;
	end = str_find(str_n(text, n), '\n');
	if (end == n)
		text[n - 1] = '}';
	if (!log_line_head(str_n(text, end), &head))
		return ERR_SYNTAX;
	l->first_seq = head.seq;
	l->first_us = head.time_us;
	return OK;
}

static enum err read_end(struct log_file *l, uint64_t size)
{
	/* A whole line, and behind it one that was torn. */
	size_t n = size < 2 * LOG_LINE_MAX + 2 ? (size_t)size : 2 * LOG_LINE_MAX + 2;
	char *tail;
	size_t keep = 0;
	enum err e;

	if (size == 0) {
		chain_starts(l);
		l->size = 0;
		return OK;
	}
	l->first_seq = 0;
	tail = malloc(n);
	if (!tail)
		return ERR_NOMEM;
	e = read_all(l->fd, tail, n, size - n);
	if (!e)
		e = end_from(l, str_n(tail, n), n == size, &keep);
	if (!e && keep < n) {
		if (ftruncate(l->fd, (off_t)(size - n + keep)) < 0)
			e = ERR_SYSTEM;
		else
			l->torn += n - keep;
	}
	if (!e && size - n + keep > 0)
		e = read_first(l, size - n + keep);
	if (!e)
		l->size = size - n + keep;
	free(tail);
	return e;
}

/* ---- life ---- */

static void unlock(struct log_file *l)
{
	int code = errno;

	if (l->locked)
		flock(l->fd, LOCK_UN);
	l->locked = false;
	errno = code;
}

enum err log_file_open(int fd, struct log_file **out)
{
	struct log_file *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return ERR_NOMEM;
	}
	l->fd = fd;
	l->size = UINT64_MAX;	/* not known yet */
	memset(l->from.hash, '0', LOG_HASH_HEX);
	buf_init(&l->batch, LOG_BATCH_MAX + 2 * LOG_LINE_MAX);
	l->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	l->hashing = EVP_MD_CTX_new();
	if (!l->sha256 || !l->hashing) {
		log_file_close(l);
		return ERR_CRYPTO;
	}
	*out = l;
	return OK;
}

void log_file_switch(struct log_file *l, int fd)
{
	unlock(l);
	close(l->fd);
	l->fd = fd;
	l->size = UINT64_MAX;
	l->stays = false;
}

void log_file_stay(struct log_file *l)
{
	l->stays = true;
}

void log_file_close(struct log_file *l)
{
	if (!l)
		return;
	unlock(l);
	close(l->fd);
	EVP_MD_free(l->sha256);
	EVP_MD_CTX_free(l->hashing);
	buf_free(&l->batch);
	free(l);
}

/* ---- batches ---- */

static bool may_append(const struct log_file *l, mode_t mode)
{
	return (mode & S_IWUSR) && (!l->end.rotated || l->stays);
}

/* Locked, and its end known; *open: lines may be added. On failure it is not locked. */
static enum err take(struct log_file *l, bool *open)
{
	struct stat st;
	enum err e = OK;

	if (flock(l->fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK || errno == EINTR ? ERR_AGAIN : ERR_SYSTEM;
	l->locked = true;
	if (fstat(l->fd, &st) < 0)
		e = ERR_SYSTEM;
	else if (!S_ISREG(st.st_mode))
		e = ERR_SYNTAX;
	else if ((uint64_t)st.st_size != l->size)
		e = read_end(l, (uint64_t)st.st_size);
	if (e) {
		l->size = UINT64_MAX;
		unlock(l);
		return e;
	}
	*open = may_append(l, st.st_mode);
	return OK;
}

enum err log_batch_begin(struct log_file *l)
{
	bool open;
	enum err e = take(l, &open);

	if (e)
		return e;
	if (!open) {
		unlock(l);
		return ERR_CLOSED;
	}
	l->batch_end = l->end;
	l->batch.n = 0;
	l->batch.failed = false;
	return OK;
}

enum err log_aside_begin(struct log_file *l, struct log_aside *aside)
{
	bool open;
	enum err e = take(l, &open);

	if (e)
		return e;
	if (!l->end.rotated) {
		unlock(l);
		return ERR_NOTFOUND;
	}
	*aside = (struct log_aside){ l->first_seq, l->end.time_us };
	return OK;
}

bool log_is_next(const struct log_file *l, uint64_t seq, struct str prev)
{
	return seq == l->end.seq + 1 && str_eq(prev, str_of(l->end.hash));
}

void log_file_continues(struct log_file *l, const struct log_file *before)
{
	l->from = before->end;
	l->from.rotated = false;
}

bool log_batch_full(const struct log_file *l)
{
	return l->batch.n > LOG_BATCH_MAX;
}

enum err log_batch_line(struct log_file *l, const struct log_line *line)
{
	struct json json;
	char time[DATE_TEXT_MAX];
	size_t start = l->batch.n;
	enum err e;

	if (log_batch_full(l) && !line->ends_file)
		return ERR_FULL;
	date_format(line->time_us, time);
	json_init(&json, &l->batch);
	json_object(&json);
	json_put_u64(&json, "seq", l->batch_end.seq + 1);
	json_put_str(&json, "prev", str_n(l->batch_end.hash, LOG_HASH_HEX));
	json_put_str(&json, "time", str_of(time));
	json_put_str(&json, "kind", str_of(line->kind));
	if (line->sandbox.n)
		json_put_str(&json, "sandbox", line->sandbox);
	if (line->fields)
		line->fields(line->arg, &json);
	json_object_end(&json);
	e = l->batch.failed ? ERR_NOMEM : l->batch.n - start > LOG_LINE_MAX ? ERR_LIMIT : OK;
	if (!e)
		e = hash_line(l, str_n(l->batch.p + start, l->batch.n - start), l->batch_end.hash);
	if (e) {
		l->batch.n = start;
		l->batch.failed = false;
		return e;
	}
	l->batch_end.seq++;
	l->batch_end.time_us = line->time_us;
	l->batch_end.rotated = strcmp(line->kind, LOG_KIND_ROTATED) == 0;
	buf_put_c(&l->batch, '\n');
	return l->batch.failed ? ERR_NOMEM : OK;
}

static enum err write_batch(struct log_file *l)
{
	for (size_t done = 0; done < l->batch.n;) {
		ssize_t n = write(l->fd, l->batch.p + done, l->batch.n - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n == 0 ? ENOSPC : errno;
			return ERR_SYSTEM;
		}
		done += (size_t)n;
	}
	return OK;
}

enum err log_batch_end(struct log_file *l)
{
	enum err e = write_batch(l);

	if (e) {
		int code = errno;

		/* If even that fails, the next batch finds a size that it does not know. */
		if (ftruncate(l->fd, (off_t)l->size) < 0)
			l->size = UINT64_MAX;
		errno = code;
	} else {
		l->size += l->batch.n;
		if (l->first_seq == 0)
			e = read_first(l, l->size);
		l->end = l->batch_end;
		l->stays = false;	/* it was for the line that was the last one */
	}
	unlock(l);
	return e;
}

void log_batch_drop(struct log_file *l)
{
	unlock(l);
}

enum err log_sync(struct log_file *l)
{
	return fdatasync(l->fd) < 0 ? ERR_SYSTEM : OK;
}

uint64_t log_take_torn(struct log_file *l)
{
	uint64_t n = l->torn;

	l->torn = 0;
	return n;
}

uint64_t log_last_seq(const struct log_file *l)
{
	return l->end.seq;
}

uint64_t log_size(const struct log_file *l)
{
	return l->size == UINT64_MAX ? 0 : l->size;
}

uint64_t log_first_time_us(const struct log_file *l)
{
	return l->first_us;
}

struct log_place log_next_place(const struct log_file *l)
{
	return (struct log_place){ l->batch_end.seq + 1, l->batch_end.hash };
}

/* Sixteen digits of a hash. */
static uint64_t stamp_of(const char *hash)
{
	uint64_t v = 0;

	for (size_t i = 0; i < 16; i++)
		v = v << 4 | (uint64_t)hex_value(hash[i]);
	return v ? v : 1;
}

uint64_t log_stamp(const struct log_file *l)
{
	return stamp_of(l->batch_end.hash);
}

/* ---- what a process before this one has written ---- */

static enum err recall_lines(struct log_file *l, struct str text, struct buf *stamps)
{
	char hash[LOG_HASH_HEX + 1];

	while (text.n) {
		size_t end = str_find(text, '\n');
		enum err e = hash_line(l, str_n(text.p, end), hash);
		uint64_t stamp;

		if (e)
			return e;
		stamp = stamp_of(hash);
		buf_put(stamps, &stamp, sizeof(stamp));
		text = str_from(text, end == text.n ? end : end + 1);
	}
	return stamps->failed ? ERR_NOMEM : OK;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

bool log_recalled(const struct buf *stamps, uint64_t stamp)
{
	return stamps->n && bsearch(&stamp, stamps->p, stamps->n / sizeof(stamp), sizeof(stamp),
				      by_value);
}

/* From the middle of a line on, that line's stamp is nobody's. */
enum err log_recall(struct log_file *l, struct buf *stamps)
{
	uint64_t size = log_size(l);
	size_t n = size < LOG_RECALL_MAX ? (size_t)size : LOG_RECALL_MAX;
	char *text = n ? malloc(n) : NULL;
	enum err e;

	if (n == 0)
		return OK;
	if (!text)
		return ERR_NOMEM;
	e = read_all(l->fd, text, n, size - n);
	if (!e)
		e = recall_lines(l, str_n(text, n), stamps);
	if (!e && stamps->n)
		sort_items(stamps->p, stamps->n / sizeof(uint64_t), sizeof(uint64_t), by_value);
	free(text);
	return e;
}
