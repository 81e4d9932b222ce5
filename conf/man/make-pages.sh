#!/bin/sh
# make-pages.sh PROGRAM_DIR OUT_DIR: writes the manual pages that are made of what the programs know.
# In NAME.in, a line @COMMANDS@ becomes each command's --help, and @SETTINGS@ the table of settings.
set -eu
if [ $# -ne 2 ] || [ ! -x "$1/exeat" ]; then
	echo "usage: $0 PROGRAM_DIR OUT_DIR" >&2
	exit 64
fi
exeat=$1/exeat
here=$(dirname "$0")

# What --help prints, as it is.
literal() {
	sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e 's/~/\\(ti/g' -e "s/^[.']/\\\\\&&/"
}

# @command is its words: "log query".
page_of() {
	printf '.Ss exeat %s\n.Bd -literal\n' "$1"
	# shellcheck disable=SC2086
	"$exeat" $1 --help | literal
	printf '.Ed\n'
}

commands() {
	"$exeat" --help | sed -n 's/^  \([a-z]*\)  *.*/\1/p' | while read -r command; do
		[ "$command" = version ] && continue
		page_of "$command"
		# Those of its commands that have a --help of their own.
		case $command in
		policy) page_of "policy show"; page_of "policy reload" ;;
		log) page_of "log query"; page_of "log summary" ;;
		esac
	done
}

for page in exeat.8 exeat.yaml.5; do
	while IFS= read -r line; do
		case $line in
		@COMMANDS@) commands ;;
		@SETTINGS@) "$exeat" settings man ;;
		*) printf '%s\n' "$line" ;;
		esac
	done <"$here/$page.in" >"$2/$page.new"
	mv "$2/$page.new" "$2/$page"
done
