/* Resolves names as the C library that it is linked with does, one line each: "NAME ADDRESS..." or
 * "NAME ERROR". With a first argument of "4" or "6", addresses of that family; of "name", the name of an
 * address; of "get", the first line of what http://NAME/ answers. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void resolve(const char *name, int family)
{
	struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM }, *found;
	int error = getaddrinfo(name, NULL, &hints, &found);
	char text[NI_MAXHOST];

	printf("%s", name);
	if (error)
		printf(" %s", error == EAI_NONAME ? "NONAME" : error == EAI_AGAIN ? "AGAIN" : gai_strerror(error));
	for (struct addrinfo *a = error ? NULL : found; a; a = a->ai_next)
		if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) == 0)
			printf(" %s", text);
	printf("\n");
	fflush(stdout);
}

static void name_of(const char *address)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM }, *a;
	char text[NI_MAXHOST];
	int error = getaddrinfo(address, NULL, &hints, &a);

	if (!error)
		error = getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0, NI_NAMEREQD);
	printf("%s %s\n", address, error ? gai_strerror(error) : text);
}

static void get(const char *name)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	char text[512];
	int error = getaddrinfo(name, "80", &hints, &found), fd;
	ssize_t n;

	fd = error ? -1 : socket(found->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0) {
		perror(name);
		return;
	}
	n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name);
	n = write(fd, text, (size_t)n) == n ? read(fd, text, sizeof(text) - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
	printf("%s %.*s\n", name, (int)strcspn(text, "\r\n"), text);
	close(fd);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	for (int i = 2; i < argc; i++) {
		if (strcmp(how, "name") == 0)
			name_of(argv[i]);
		else if (strcmp(how, "get") == 0)
			get(argv[i]);
		else
			resolve(argv[i], how[0] == '4' ? AF_INET : how[0] == '6' ? AF_INET6 : AF_UNSPEC);
	}
	return 0;
}
