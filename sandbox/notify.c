#include "sandbox/notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "conf/str.h"

/* A path, or with a '@' first a name that lies in no file system. */
static int connect_to(const char *where)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = strlen(where);
	int fd;

	if ((where[0] != '/' && where[0] != '@') || n < 2 || n > sizeof(to.sun_path))
		return -1;
	memcpy(to.sun_path, where, n);
	if (where[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int notify_open(void)
{
	const char *where = getenv("NOTIFY_SOCKET");
	int fd = where ? connect_to(where) : -1;

	unsetenv("NOTIFY_SOCKET");
	return fd;
}

void notify_send(int fd, const char *text)
{
	if (fd >= 0)
		(void)send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void notify_reloading(int fd)
{
	char text[64];
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
	notify_send(fd, text);
}

uint32_t notify_watchdog_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us = 0, of = 0;

	if (!usec || !str_to_u64(str_of(usec), UINT64_MAX, &us) ||
	    (pid && (!str_to_u64(str_of(pid), UINT64_MAX, &of) || of != (uint64_t)getpid())))
		us = 0;
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return us / 1000 > UINT32_MAX ? UINT32_MAX : (uint32_t)(us / 1000);
}
