#!/bin/sh
# Each source file has a unit test of its name, or a line with a reason in tests/unit/exceptions.
rc=0
for f in conf/*.c policy/*.c sandbox/*.c broker/*.c proxy/*.c; do
	folder=$(dirname "$f"); name=$(basename "$f" .c)
	[ -f "tests/unit/$folder/test_$name.c" ] && continue
	grep -q "^$f  *[^ ]" tests/unit/exceptions || { echo "$f: no tests/unit/$folder/test_$name.c, and no reason in tests/unit/exceptions"; rc=1; }
done
# Each fuzz harness has a corpus.
for f in fuzz/fuzz_*.c; do
	[ -n "$(ls "${f%.c}.in" 2>/dev/null)" ] || { echo "$f: no corpus in ${f%.c}.in"; rc=1; }
done
exit $rc
