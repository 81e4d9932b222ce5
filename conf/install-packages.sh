#!/bin/sh
# install-packages.sh PURPOSE...: installs the Debian packages of conf/packages that are missing.
set -eu
list=$(dirname "$0")/packages
want=
for purpose in "$@"; do
	want="$want $(sed -n "s/^$purpose //p" "$list" | tr '\n' ' ')"
done
missing=
for package in $want; do
	case $package in
	*:*)	command -v "${package#*:}" >/dev/null && continue
		package=${package%:*} ;;
	esac
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "missing packages:$missing" >&2
	echo "install them: sudo apt-get install$missing" >&2
	exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
