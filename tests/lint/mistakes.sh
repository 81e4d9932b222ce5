#!/bin/sh
# Mistakes that have a name. Each row: what, why, what to use instead.
rc=0
ban() { # pattern, why, files...
	pattern=$1; why=$2; shift 2
	if grep -nE "$pattern" "$@" 2>/dev/null; then
		echo "lint: $why" >&2; rc=1
	fi
}
all=$(ls conf/*.[ch] policy/*.[ch] sandbox/*.[ch] broker/*.[ch] proxy/*.[ch])

# No length, no limit. Use struct buf, snprintf() or memcpy() with a checked length.
# shellcheck disable=SC2086
ban '\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca)\(' 'a call that knows no limit' $all
# It asks the kernel how much memory there is, which ends a confined role. Use conf/sort.h.
# shellcheck disable=SC2086
ban '\bqsort\(' 'qsort() makes a system call; conf/sort.h does not' $(ls conf/*.c policy/*.c sandbox/*.c broker/*.c proxy/*.c)
# memset() before free() is optimised away. Use explicit_bzero().
ban 'memset\([^;]*(secret|value|password|token)' 'a secret is wiped with explicit_bzero()' broker/*.c
# Comparing secrets byte by byte tells how many were right. Use CRYPTO_memcmp().
ban '\bmemcmp\([^;]*(password|token|mac)\b' 'secrets are compared in constant time' broker/*.c
# Nothing waits in a role: sleeping or blocking calls hold up a whole sandbox.
ban '\b(usleep|sleep|system|popen|gethostbyname|getaddrinfo)\(' 'a call that waits' proxy/worker.c proxy/dialer*.c \
	proxy/broker*.c proxy/connection*.c proxy/exchange.c proxy/upstream.c proxy/dns_service.c
# Work that is not done is not in the tree.
# shellcheck disable=SC2086
ban '\b(TODO|FIXME|XXX|HACK)\b' 'what is not built says so with a clear error instead' $all
# #if inside functions makes two programs out of one; it belongs around whole functions.
# shellcheck disable=SC2086
ban '^[[:space:]]+#[[:space:]]*(if|ifdef|ifndef)' 'no conditional compilation inside functions' $all

# What formats or logs a secret tells it. There is secret_value(), for the code that puts it on a request.
ban '(printf|fputs|fwrite|record_str|json_[a-z_]*str)\([^;]*secret_value\(' 'a secret is never formatted or logged' \
	broker/*.c proxy/*.c
# An assertion that always holds is none.
ban '\b(assert_true\((1|true)\)|assert_false\((0|false)\)|assert_(int_equal|string_equal)\(([a-z_]+), \4\))' \
	'an assertion that cannot fail' tests/unit/*/*.[ch] tests/confine/*.c
# A line is read in one look: 100 columns, tabs of eight. A text that people see is not broken, so that
# it can be searched for, and a row of a table stays a row.
wide=$(awk 'function width(s, i, n) { n = 0; for (i = 1; i <= length(s); i++) n += substr(s, i, 1) == "\t" ? 8 - n % 8 : 1; return n }
	length($0) > 60 && width($0) > 100 && !/"/ && !/^\t*(X\(|[A-Z_0-9]+\(|\{|\[|\.)/ { print FILENAME ":" FNR ": " width($0) " columns" }' $all)
[ -z "$wide" ] || { echo "$wide"; rc=1; }

# Sizes: a function over 80 lines or a file over 800 has more than one duty.
for f in $all tests/unit/*/*.[ch]; do
	lines=$(wc -l <"$f")
	[ "$lines" -le 800 ] || { echo "$f: $lines lines"; rc=1; }
done
# shellcheck disable=SC2086
long=$(awk 'FNR == 1 { start = 0 } /^\{/ { start = FNR } /^\}/ { if (start && FNR - start > 80) print FILENAME ":" start ": " FNR - start " lines in one function"; start = 0 }' $(ls conf/*.c policy/*.c sandbox/*.c broker/*.c proxy/*.c))
[ -z "$long" ] || { echo "$long"; rc=1; }

# Every header is a contract: purpose is its first line, then these.
for h in conf/*.h policy/*.h sandbox/*.h broker/*.h proxy/*.h; do
	for label in Ownership Blocking Failure Tests; do
		grep -q "$label " "$h" || { echo "$h: its contract does not say: $label"; rc=1; }
	done
done
exit $rc
