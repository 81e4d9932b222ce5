/* A policy that loads gives an image that its readers take; one that does not has said why. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "policy/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_image(int memfd)
{
	struct policy *p = NULL;
	struct facts f = { .host = STR("api.test"), .port = 443, .proto = PROTO_HTTPS,
			   .method = STR("GET"), .path = STR("/repos/acme") };

	require(policy_map(&memfd, 1, &p) == OK);
	require(policy_decide(p, &f).verdict <= VERDICT_UNDECIDED);
	policy_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct str hosts[] = { { "api.test", 8 }, { "*.x.test", 8 } };
	static const struct secret_bound secret = { { "s", 1 }, hosts, 2 };
	struct load_env env = { &secret, 1, size % 2 == 0 };
	struct str text = str_n((const char *)data, size);
	int memfd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct diags d;
	char *shown = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&shown, &n);

	require(memfd >= 0 && to);
	diags_init(&d, STR("policy.yaml"), text);
	if (policy_load(d.file, text, &env, memfd, &d))
		check_image(memfd);
	else
		require(d.errors > 0);
	diags_print(&d, to);
	fclose(to);
	free(shown);
	diags_free(&d);
	close(memfd);
	return 0;
}
