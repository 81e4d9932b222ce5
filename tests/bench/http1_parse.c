/* How fast HTTP/1 heads are read and written: MB/s and ns a head, of heads as they are in traffic. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proxy/http1.h"

static const char curl_get[] =
	"GET /repos/owner/project/pulls?state=open&per_page=100 HTTP/1.1\r\nHost: api.github.com\r\n"
	"User-Agent: curl/7.88.1\r\nAccept: application/vnd.github+json\r\n"
	"Authorization: Bearer github_pat_placeholder_placeholder_placeholder\r\n"
	"X-GitHub-Api-Version: 2022-11-28\r\n\r\n";

static const char browser_get[] =
	"GET /npm/package/dist/index.js HTTP/1.1\r\nHost: registry.npmjs.org\r\nConnection: keep-alive\r\n"
	"Cache-Control: max-age=0\r\nsec-ch-ua: \"Chromium\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\n"
	"sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\n"
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 "
	"Safari/537.36\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
	"image/apng,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\n"
	"Sec-Fetch-Dest: document\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n"
	"Accept-Language: en-GB,en;q=0.9\r\nCookie: session=0123456789abcdef0123456789abcdef0123456789abcdef; "
	"theme=dark; consent=yes\r\nIf-None-Match: \"5f3759df-1a2b\"\r\n\r\n";

static const char json_answer[] =
	"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: application/json; charset=utf-8\r\n"
	"Content-Length: 0\r\nConnection: keep-alive\r\nCache-Control: private, max-age=60, s-maxage=60\r\n"
	"Vary: Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding\r\nETag: W/\"0123456789abcdef\"\r\n"
	"X-RateLimit-Limit: 5000\r\nX-RateLimit-Remaining: 4999\r\nX-RateLimit-Reset: 1767225600\r\n"
	"Strict-Transport-Security: max-age=31536000; includeSubdomains; preload\r\n"
	"X-Content-Type-Options: nosniff\r\nServer: github.com\r\n\r\n";

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void report(const char *what, const char *name, size_t bytes, uint64_t rounds, uint64_t ns)
{
	printf("%-6s %-12s %4zu bytes %8.1f ns a head %8.0f MB/s\n", what, name, bytes,
	       (double)ns / (double)rounds, (double)bytes * (double)rounds * 1000 / (double)ns);
}

static void read_one(struct http1_parser *p, struct str in)
{
	http1_next(p, false);
	if (http1_read(p, &in) != H1_HEAD || http1_read(p, &in) != H1_END)
		abort();
}

static void measure(const char *name, bool response, struct str head, uint64_t rounds)
{
	struct http1_parser *p = http1_new(response, HTTP1_HEADERS_MAX);
	const struct http1_head *h = http1_head(p);
	struct buf out;
	uint64_t start = now_ns();

	for (uint64_t i = 0; i < rounds; i++)
		read_one(p, head);
	report("read", name, head.n, rounds, now_ns() - start);

	buf_init(&out, 65536);
	start = now_ns();
	for (uint64_t i = 0; i < rounds; i++) {
		out.n = 0;
		if (response)
			http1_write_response(&out, h->status, h->reason, h->fields);
		else
			http1_write_request(&out, h->method, h->target, h->fields);
	}
	report("write", name, out.n, rounds, now_ns() - start);

	start = now_ns();
	for (uint64_t i = 0; i < rounds; i++) {
		read_one(p, head);
		fields_drop_hop_by_hop(h->fields);
	}
	report("+drop", name, head.n, rounds, now_ns() - start);
	buf_free(&out);
	http1_free(p);
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;

	measure("curl GET", false, str_of(curl_get), rounds);
	measure("browser GET", false, str_of(browser_get), rounds);
	measure("JSON answer", true, str_of(json_answer), rounds);
	return 0;
}
