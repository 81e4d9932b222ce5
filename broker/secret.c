#include "broker/secret.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/locked.h"

struct secret {
	size_t n;
	char value[];
};

enum err secret_new(struct str value, struct secret **out)
{
	struct secret *s;

	if (secret_objection(value))
		return ERR_SYNTAX;
	s = locked_new(sizeof(*s) + value.n);
	if (!s)
		return ERR_NOMEM;
	memcpy(s->value, value.p, value.n);
	s->n = value.n;
	*out = s;
	return OK;
}

void secret_free(struct secret *s)
{
	locked_free(s);
}

struct str secret_value(const struct secret *s)
{
	return str_n(s->value, s->n);
}

struct str secret_trim(struct str value)
{
	if (str_ends(value, STR("\r\n")))
		value.n -= 2;
	else if (str_ends(value, STR("\n")))
		value.n -= 1;
	return value;
}

/* The whole value is read whatever it holds: how long this takes says nothing about it. */
const char *secret_objection(struct str value)
{
	bool control = false, high = false, varied = false;

	if (value.n == 0)
		return "is empty";
	if (value.n < SECRET_MIN)
		return "is shorter than 8 bytes: it would be found everywhere in an answer";
	if (value.n > SECRET_MAX)
		return "is longer than 16384 bytes";
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];

		control |= c < 0x20 || c == 0x7f;
		high |= c > 0x7f;
		varied |= value.p[i] != value.p[0];
	}
	if (control)
		return "has a control byte (only one newline at its end is let pass)";
	if (high)
		return "has a byte that is not ASCII: a header field does not carry it safely";
	if (value.p[0] == ' ' || value.p[value.n - 1] == ' ')
		return "starts or ends with a space: a header field does not keep it";
	/* "********", "xxxxxxxx": what masks leave behind. */
	if (!varied)
		return "is one character repeated: a stand-in, no secret";
	return NULL;
}

/* ---- reading a source ---- */

/* A value of SECRET_MAX, its newline, and one byte more to see that there is more. */
#define READ_MAX (SECRET_MAX + 3)

static const char *mode_objection(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return "cannot be looked at";
	if (!S_ISREG(st.st_mode))
		return "is no regular file";
	if (st.st_uid != 0 && st.st_uid != getuid())
		return "belongs to somebody else (it must belong to root or the user that runs exeat)";
	if (st.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH))
		return "can be read or written by group or others (chmod 600)";
	return NULL;
}

/* Up to READ_MAX bytes. */
static enum err read_all(int fd, char *to, size_t *n)
{
	*n = 0;
	while (*n < READ_MAX) {
		ssize_t got = read(fd, to + *n, READ_MAX - *n);

		if (got == 0)
			break;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ERR_SYSTEM;
		*n += (size_t)got;
	}
	return OK;
}

enum err secret_read(int fd, bool check_mode, struct secret **out, const char **objection)
{
	struct str value;
	enum err e;
	char *bytes;
	size_t n;

	*objection = check_mode ? mode_objection(fd) : NULL;
	if (*objection)
		return ERR_DENIED;
	bytes = locked_new(READ_MAX);
	if (!bytes) {
		*objection = "cannot be kept: no lockable memory";
		return ERR_NOMEM;
	}
	e = read_all(fd, bytes, &n);
	if (e) {
		*objection = "cannot be read";
		goto out;
	}
	value = secret_trim(str_n(bytes, n));
	*objection = secret_objection(value);
	e = *objection ? ERR_SYNTAX : secret_new(value, out);
	if (e == ERR_NOMEM)
		*objection = "cannot be kept: no lockable memory";
out:
	locked_free(bytes);
	return e;
}
