/* Runs a fuzz harness over files: each argument is a file, or a folder whose files are taken. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replayed;

static void file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	long n;

	if (!f || fseek(f, 0, SEEK_END) < 0 || (n = ftell(f)) < 0) {
		perror(path);
		exit(1);
	}
	rewind(f);
	/* Exactly as many bytes, so that a read past the end is seen. */
	data = malloc(n ? (size_t)n : 1);
	if (!data || fread(data, 1, (size_t)n, f) != (size_t)n) {
		perror(path);
		exit(1);
	}
	fclose(f);
	LLVMFuzzerTestOneInput(data, (size_t)n);
	free(data);
	replayed++;
}

static void folder(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	char name[4096];

	if (!d) {
		file(path);
		return;
	}
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		file(name);
	}
	closedir(d);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		folder(argv[i]);
	printf("%u inputs replayed\n", replayed);
	return replayed ? 0 : 1;
}
