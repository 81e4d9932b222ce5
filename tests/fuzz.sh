#!/bin/sh
# fuzz.sh BUILD SECONDS: every libFuzzer harness for so long, on a copy of its corpus.
O=$1; seconds=$2
rc=0
for t in fuzz/fuzz_*.c; do
	name=$(basename "$t" .c)
	work=$(mktemp -d)
	echo "== $name"
	"$O/$name" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$work/" \
		"$work" "fuzz/$name.in" >"$work.log" 2>&1 || rc=1
	grep -E 'stat::number_of_executed_units|ERROR|SUMMARY|BINGO' "$work.log"
	ls "$work"/crash-* "$work"/leak-* "$work"/timeout-* 2>/dev/null
	rm -f "$work.log"
done
exit $rc
