#!/bin/sh
# What `make install` puts where, that its manual pages are what the programs say and well written,
# that its unit is one and confined, and that `make uninstall` leaves nothing.
set -u
cd "$(dirname "$0")/../.." || exit 1
MAKE=${MAKE:-make}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

try() { # name, command...
	name=$1; shift
	if "$@" >"$work/out" 2>&1; then
		echo "ok    $name"
		passed=$((passed + 1))
	else
		echo "FAIL  $name"
		sed 's/^/      /' "$work/out"
		failed=$((failed + 1))
	fi
}

root=$work/root
prefix=/opt/exeat
pages="exeat.8 exeat.yaml.5 exeat-policy.5"

install_it() {
	$MAKE --no-print-directory install DESTDIR="$root" PREFIX=$prefix
}

all_is_there() {
	for f in bin/exeat libexec/exeat/exeat-worker libexec/exeat/exeat-init share/man/man8/exeat.8 \
		share/man/man5/exeat.yaml.5 share/man/man5/exeat-policy.5 lib/systemd/system/exeat.service \
		share/doc/exeat/examples/policy.yaml share/doc/exeat/examples/exeat.yaml; do
		[ -f "$root$prefix/$f" ] || { echo "$f is not there"; return 1; }
	done
	"$root$prefix/bin/exeat" version
}

pages_are_what_the_programs_say() {
	mkdir "$work/man" && sh conf/man/make-pages.sh build/release "$work/man" || return 1
	for page in exeat.8 exeat.yaml.5; do
		diff -u "conf/man/$page" "$work/man/$page" || { echo "make man writes it anew"; return 1; }
	done
}

pages_are_well_written() {
	for page in $pages; do
		mandoc -T lint -W warning "conf/man/$page" || return 1
	done
}

# Each key of the loader's tables, also those that this version does not have.
policy_page_has_every_key() {
	keys=$(grep -ohE '(FIELD|LATER)\("[a-z_]+"|\.key = "[a-z_]+"' policy/load*.c | sed 's/.*"\(.*\)"/\1/' | sort -u)
	[ "$(echo "$keys" | wc -l)" -gt 30 ] || { echo "too few keys found: $keys"; return 1; }
	mandoc -T ascii conf/man/exeat-policy.5 | col -b >"$work/page"
	for key in $keys; do
		grep -qw -- "$key" "$work/page" || { echo "$key is not in exeat-policy(5)"; return 1; }
	done
}

# Its programs lie under the test's root: what it names is put there for the time of the check.
unit_is_one() {
	unit=$root$prefix/lib/systemd/system/exeat.service
	grep -q "^ExecStart=$prefix/bin/exeat serve$" "$unit" || { grep Exec "$unit"; return 1; }
	sed "s|=$prefix/bin|=$root$prefix/bin|" "$unit" >"$work/exeat.service"
	systemd-analyze verify --man=no "$work/exeat.service" >"$work/said" 2>&1 && ! grep -q exeat.service "$work/said" ||
		{ cat "$work/said"; return 1; }
}

# Most of what is left is what makes boxes and attaches to others: namespaces, mounts, capabilities. It
# grows only when a line of the unit's confinement is lost.
EXPOSURE_MAX=58
unit_is_confined() {
	systemd-analyze security --offline=true --threshold=$EXPOSURE_MAX --no-pager "$work/exeat.service"
}

# What a start looks for, and what attaching to others' containers needs; the unit gives exactly that.
unit_has_the_capabilities_that_are_needed() {
	sed -n 's/^CapabilityBoundingSet=//p' conf/systemd/exeat.service.in | tr ' ' '\n' | sort >"$work/given"
	{ grep -ohE 'X\(CAP_[A-Z_]+\)' proxy/*.c | sed 's/X(\(.*\))/\1/'; echo CAP_SYS_PTRACE; } | sort -u >"$work/needed"
	[ -s "$work/needed" ] && diff "$work/needed" "$work/given"
}

all_is_gone() {
	$MAKE --no-print-directory uninstall DESTDIR="$root" PREFIX=$prefix || return 1
	left=$(find "$root" ! -type d)
	[ -z "$left" ] || { echo "left: $left"; return 1; }
}

try "make install works" install_it
try "everything is where it belongs" all_is_there
try "manual pages are what the programs say" pages_are_what_the_programs_say
try "manual pages are well written" pages_are_well_written
try "exeat-policy(5) has every key" policy_page_has_every_key
try "the unit is one" unit_is_one
try "the unit is confined" unit_is_confined
try "the unit has the capabilities that are needed, no others" unit_has_the_capabilities_that_are_needed
try "make uninstall leaves nothing" all_is_gone
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
