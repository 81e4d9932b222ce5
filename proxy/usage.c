#include "proxy/usage.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

bool usage_asked(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

int usage_show(const char *text)
{
	return fputs(text, stdout) < 0 || fflush(stdout) != 0;
}

int usage_wrong(const char *command, const char *fmt, ...)
{
	va_list ap;

	if (fmt) {
		fprintf(stderr, "%s: ", command);
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
		fputc('\n', stderr);
	}
	fprintf(stderr, "%s: its use is shown by %s --help\n", command, command);
	return EX_USAGE;
}
