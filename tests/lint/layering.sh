#!/bin/sh
# Folders point downwards: fails when a folder includes one that it must not know.
rc=0
allow() { # folder, then the folders it may include besides itself
	from=$1; shift
	for inc in $(grep -ho '^#include "[a-z]*/' "$from"/*.[ch] 2>/dev/null | sed 's/.*"//;s,/,,' | sort -u); do
		case " $from $* " in
		*" $inc "*) ;;
		*)	grep -n "#include \"$inc/" "$from"/*.[ch]
			echo "layering: $from/ must not include $inc/" >&2; rc=1 ;;
		esac
	done
}
allow conf
allow policy conf
allow sandbox conf policy
allow broker conf policy sandbox
allow proxy conf policy sandbox broker
exit $rc
