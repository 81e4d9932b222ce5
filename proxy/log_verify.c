#include "proxy/log_verify.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "conf/hex.h"
#include "policy/digest.h"
#include "proxy/log_read.h"

static enum err wrong(struct log_verdict *v, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static enum err wrong(struct log_verdict *v, const char *fmt, ...)
{
	va_list ap;

	v->bad_line = v->lines + 1;
	va_start(ap, fmt);
	vsnprintf(v->why, sizeof(v->why), fmt, ap);
	va_end(ap);
	return ERR_SYNTAX;
}

/* ---- time ---- */

static unsigned days_in(unsigned year, unsigned month)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

bool log_time_valid(struct str text)
{
	static const char shape[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
	unsigned v[7] = { 0 }, part = 0;

	if (text.n != sizeof(shape) - 1)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		if (shape[i] == 'd' && text.p[i] >= '0' && text.p[i] <= '9')
			v[part] = v[part] * 10 + (unsigned)(text.p[i] - '0');
		else if (shape[i] == 'd' || shape[i] != text.p[i])
			return false;
		else
			part++;
		if (part == 7)
			break;
	}
	return v[1] >= 1 && v[1] <= 12 && v[2] >= 1 && v[2] <= days_in(v[0], v[1]) && v[3] < 24 &&
	       v[4] < 60 && v[5] < 60;
}

/* ---- one line ---- */

static struct str text_of(const json_t *object, const char *key)
{
	const json_t *j = json_object_get(object, key);

	return json_is_string(j) ? str_n(json_string_value(j), json_string_length(j)) : STR_NONE;
}

/* seq, prev, time and kind have to stand at the beginning, as the recorder writes them: other
 * spellings of the same values are none of ours. */
static bool begins_as_it_should(struct str line, json_int_t seq, const json_t *object)
{
	struct str prev = text_of(object, "prev"), time = text_of(object, "time");
	char head[256];
	int n = snprintf(head, sizeof(head),
			 "{\"seq\":%" JSON_INTEGER_FORMAT ",\"prev\":\"%.*s\",\"time\":\"%.*s\",\"kind\":\"",
			 seq, STR_ARG(prev), STR_ARG(time));

	return n > 0 && (size_t)n < sizeof(head) && str_starts(line, str_n(head, (size_t)n));
}

static enum err check_members(struct log_verdict *v, struct str line, const json_t *object)
{
	const json_t *seq = json_object_get(object, "seq");
	struct str prev = text_of(object, "prev");

	if (!json_is_object(object))
		return wrong(v, "it is not a JSON object");
	if (!json_is_integer(seq))
		return wrong(v, "it has no number (seq)");
	if (json_integer_value(seq) != (json_int_t)(v->lines + 1))
		return wrong(v, "its number is %" JSON_INTEGER_FORMAT ", not %" PRIu64
			     " (a line was removed, added or moved)", json_integer_value(seq), v->lines + 1);
	if (!str_eq(prev, str_of(v->last_hash)))
		return wrong(v, v->lines ? "it does not continue the chain: line %" PRIu64
			     " was changed, or this one" : "it does not start a chain (line %" PRIu64
			     " is not there)", v->lines);
	if (!log_time_valid(text_of(object, "time")))
		return wrong(v, "its time is not RFC 3339 in UTC with microseconds");
	if (text_of(object, "kind").n == 0)
		return wrong(v, "it has no kind");
	if (!begins_as_it_should(line, json_integer_value(seq), object))
		return wrong(v, "its first members are not seq, prev, time, kind");
	return OK;
}

static enum err hash_line(struct str line, char out[LOG_HASH_HEX + 1])
{
	uint8_t hash[DIGEST_BYTES];

	if (!digest_sha256(line.p, line.n, hash))
		return ERR_CRYPTO;
	hex_text(hash, DIGEST_BYTES, out);
	return OK;
}

static enum err check_line(struct log_verdict *v, struct str line)
{
	json_t *object = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	enum err e = object ? check_members(v, line, object) : wrong(v, "it is not JSON");

	json_decref(object);
	if (!e)
		e = hash_line(line, v->last_hash);
	if (!e)
		v->lines++;
	return e;
}

/* ---- the file ---- */

/* Where the last whole batch ends: writers hold the lock while they write. */
static enum err stop_at_batch(int fd, struct log_reader *r)
{
	struct stat st;
	bool locked = flock(fd, LOCK_SH) == 0;
	enum err e = fstat(fd, &st) < 0 ? ERR_SYSTEM : OK;

	if (locked)
		flock(fd, LOCK_UN);
	if (!e && S_ISREG(st.st_mode))
		log_reader_stop_at(r, (uint64_t)st.st_size);
	return e;
}

enum err log_verify(int fd, const char *must_have, struct log_verdict *v)
{
	struct log_reader *r;
	struct str line;
	bool found = !must_have;
	enum err e;

	*v = (struct log_verdict){ 0 };
	memset(v->last_hash, '0', LOG_HASH_HEX);
	e = log_reader_open(fd, &r);
	if (e)
		return e;
	e = stop_at_batch(fd, r);
	while (!e) {
		e = log_reader_next(r, &line);
		if (!e)
			e = check_line(v, line);
		found = found || (!e && strcmp(v->last_hash, must_have) == 0);
	}
	if (e == ERR_TRUNCATED)
		e = wrong(v, "it has no end (its writer died while it wrote)");
	else if (e == ERR_LIMIT)
		e = wrong(v, "it is longer than %u bytes", LOG_LINE_MAX);
	else if (e == ERR_AGAIN)
		e = found ? OK : ERR_NOTFOUND;
	log_reader_close(r);
	return e;
}
