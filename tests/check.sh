#!/bin/sh
# check.sh: everything that has to hold. Each part prints its cases and ends with a line of counts;
# this adds them up. Goes on after a failure, so that one run shows all of them.
cd "$(dirname "$0")/.." || exit 1
MAKE=${MAKE:-make}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0; failed=0

part() {	# name, command...
	name=$1; shift
	echo "== $name"
	"$@" >"$work/out" 2>&1
	rc=$?
	cat "$work/out"
	p=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1/p' "$work/out" | awk '{ n += $1 } END { print n + 0 }')
	f=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\2/p' "$work/out" | awk '{ n += $1 } END { print n + 0 }')
	# A part that failed without a count is a failure, and so is one that counted nothing.
	if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
	if [ $rc -eq 0 ] && [ "$p" -eq 0 ]; then p=1; fi
	passed=$((passed + p)); failed=$((failed + f))
}

jobs=-j$(nproc)
part "lint" $MAKE --no-print-directory lint
part "build (debug)" $MAKE --no-print-directory $jobs MODE=debug all
part "build (release)" $MAKE --no-print-directory $jobs MODE=release all
part "build (asan)" $MAKE --no-print-directory $jobs MODE=asan all
part "unit tests and fuzz corpora (asan, ubsan)" $MAKE --no-print-directory $jobs MODE=asan unit
part "confinement" $MAKE --no-print-directory MODE=debug confine-check
part "policies" sh tests/policy/run.sh build/debug
part "settings" python3 tests/settings/run.py build/debug
part "installation" sh tests/install/run.sh
part "end to end" python3 tests/e2e/run.py build/debug
part "end to end (asan, ubsan)" python3 tests/e2e/run.py build/asan
echo
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
