#!/bin/sh
# replay.sh BUILD HARNESS...: each fuzz harness over its corpus.
O=$1; shift
passed=0; failed=0
for t in "$@"; do
	name=$(basename "$t")
	if result=$(timeout 300 "$t" "fuzz/$name.in" 2>&1); then
		echo "ok    $name: $(echo "$result" | tail -n 1)"; passed=$((passed + 1))
	else
		echo "FAIL  $name"; echo "$result" | tail -n 40 | sed 's/^/      /'; failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
