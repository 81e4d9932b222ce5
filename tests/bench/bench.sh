#!/bin/sh
# bench.sh BUILD: the small benchmarks, one after the other. Figures are of this machine, today.
for t in tests/bench/*.c; do
	name=$(basename "$t" .c)
	echo "== $name"
	"$1/tests/bench/$name" || exit 1
done
