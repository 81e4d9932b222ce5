#!/bin/sh
# What the loader says of policies and settings: each file in good/ loads (exit 0), each in bad/ and
# settings-bad/ does not (exit 1), each in settings-here/ loads but does not fit this machine (exit 1 of
# a check), and what is printed is exactly NAME.err beside it (no such file: nothing). NAME.settings
# beside a policy is read with it.
#
#     tests/policy/run.sh PROGRAM_DIR
set -u

if [ $# -ne 1 ] || [ ! -x "$1/exeat" ]; then
	echo "usage: $0 PROGRAM_DIR (where exeat is)" >&2
	exit 64
fi
exeat=$(cd "$1" && pwd)/exeat
cd "$(dirname "$0")" || exit 1
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
passed=0
failed=0

# want_status name file.err arguments of exeat...
try() {
	want=$1 name=$2 err=$3
	shift 3
	"$exeat" "$@" >/dev/null 2>"$said"
	got=$?
	[ -e "$err" ] || err=/dev/null
	if [ "$got" -ne "$want" ]; then
		echo "FAIL $name: exit status $got, not $want"
		cat "$said"
		failed=$((failed + 1))
	elif ! diff -u "$err" "$said"; then
		echo "FAIL $name: says something else"
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}

try_policies() { # folder want_status
	for f in "$1"/*.yaml; do
		base=${f%.yaml}
		if [ -e "$base.settings" ]; then
			try "$2" "$f" "$base.err" policy check "$f" --settings "$base.settings"
		else
			try "$2" "$f" "$base.err" policy check "$f"
		fi
	done
}

try_policies good 0
try_policies bad 1
for f in settings-bad/*.yaml; do
	try 1 "$f" "${f%.yaml}.err" policy check good/minimal.yaml --settings "$f"
done
for f in settings-here/*.yaml; do
	try 1 "$f" "${f%.yaml}.err" settings check "$f"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
