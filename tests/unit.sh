#!/bin/sh
# unit.sh BUILD TEST...: runs each unit test program; one line a program, its output where it fails.
# Ends with "N passed, N failed" counting cases.
O=$1; shift
out=$(mktemp)
trap 'rm -f "$out"' EXIT
passed=0; failed=0
for t in "$@"; do
	name=${t#"$O"/tests/unit/}
	ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} timeout 300 "$t" >"$out" 2>&1
	rc=$?
	n=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$out" | awk '{ n += $1 } END { print n + 0 }')
	f=$(grep '^\[  FAILED  \] [a-zA-Z_]' "$out" | sort -u | grep -c .)
	if [ $rc -ne 0 ] || [ "$n" -eq 0 ]; then
		[ "$f" -gt 0 ] || f=1
		echo "FAIL  $name (exit $rc)"
		tail -n 60 "$out" | sed 's/^/      /'
	else
		f=0
		echo "ok    $name ($n)"
	fi
	passed=$((passed + n)); failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
