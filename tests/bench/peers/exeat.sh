# The harness's adapter for Exeat: one box, whose network namespace is where the clients run.
#
# What is on: a policy by host, a credential put on each request and searched for in each answer, the
# hash-chained log. (exeat-paths.sh: a rule by path beside it, so that the broker judges each request;
# exeat-plain.sh: no credential.) Names are resolved by Exeat, through a server in the origin's namespace
# (names.py), so a new name costs it a DNS question, a lease and an element of the kernel's set, too; for the
# other peers a hosts file does that.
DNS=198.18.2.2
INJECTS=yes
PATHS=no
BOX_NS=$TAG-$PEER
caps() { echo "h1 h2 many mint inject verify"; }
version() { "$EXEAT" --version; }
mode() { echo "netns $BOX_NS"; }
issuer() { openssl x509 -in "$RUN/ca.pem" -noout -subject | sed -n 's/.*CN = //p'; }

config() {
	local secrets='' credentials='' use='' deny=''
	if [ "$INJECTS" = yes ]; then
		printf '%s\n' "$INJECT_VALUE" > "$RUN/secret"
		chmod 600 "$RUN/secret"
		secrets="secrets: {bench: {file: $RUN/secret, hosts: ['**.bench.test']}}"
		credentials="credentials: {bench: {kind: header, header: $(echo "$INJECT_NAME" | tr A-Z a-z), secret: bench,
                       hosts: ['**.bench.test']}}"
		use=', credential: bench'
	fi
	cat > "$RUN/exeat.yaml" <<CFG
exeat-settings: 1
resolver: {servers: ["$DNS:53"]}
trust: {system: false, add: [$ORIGIN_CA]}
network: {synthetic_pool: 10.64.0.0/16}
$secrets
limits: {connections: 8192, grants: 100000}
CFG
	[ "$PATHS" = no ] || deny='deny:
  - {id: no-admin, hosts: ["**.bench.test"], paths: [/admin/**], reason: Not for boxes.}'
	cat > "$RUN/policy.yaml" <<CFG
exeat: 1
precedence: deny-over-allow
$credentials
allow:
  - {id: bench, hosts: ["**.bench.test"], resolves_to: [198.18.2.0/24]$use}
$deny
CFG
}

# The process in the box, as the host numbers it.
box_pid() {
	local p
	for p in $(pid_tree "$(cat "$RUN/pid")"); do
		[ "$(cat "/proc/$p/comm" 2> /dev/null)" = sleep ] && echo "$p" && return
	done
	return 1
}

start() {
	local p i
	config
	rm -f "$RUN/audit.jsonl"
	ns_prefix "$NS_O"
	"${NSP[@]}" setsid python3 "$EXEAT_BENCH/names.py" "$DNS" > "$RUN/names.log" 2>&1 < /dev/null 7>&- &
	echo $! > "$RUN/names.pid"
	# Not "ip netns exec": that hides the cgroups from the box's runtime.
	nsenter --net="/run/netns/$NS_G" setsid "$EXEAT" run --policy "$RUN/policy.yaml" --settings "$RUN/exeat.yaml" --log "$RUN/audit.jsonl" \
		-- sleep infinity \
		< /dev/null > "$RUN/out.log" 2>&1 7>&- &
	echo $! > "$RUN/pid"
	for i in $(seq 100); do
		p=$(box_pid) && break
		sleep 0.1
	done
	[ -n "$p" ] || { cat "$RUN/out.log" >&2; return 1; }
	ip netns attach "$BOX_NS" "$p"
	cp "/proc/$p/root/etc/resolv.conf" "$RUN/resolv.conf"
	printf '127.0.0.1 localhost\n' > "$RUN/hosts"
	cp "/proc/$p/root/etc/exeat/ca.pem" "$RUN/ca.pem"
	HOSTS=$RUN/hosts RESOLV=$RUN/resolv.conf in_ns "$BOX_NS" getent ahostsv4 "$HOST" |
		awk '{ print $1; exit }' > "$RUN/address"
	[ -s "$RUN/address" ]
}

stop() {
	local p i
	p=$(pids)
	if [ -n "$p" ] && ours "$p"; then
		kill -TERM "$p"
		for i in $(seq 100); do
			alive "$p" || break
			sleep 0.1
		done
	fi
	[ -e "$RUN/names.pid" ] && stop_pids "$(cat "$RUN/names.pid")"
	[ -e "/run/netns/$BOX_NS" ] && ip netns del "$BOX_NS"
	rm -f "$RUN/pid" "$RUN/names.pid"
	return 0
}
