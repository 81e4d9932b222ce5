# Read at the end of the harness's lib.sh: a peer of mode "netns NAME" has a namespace of its own for the
# clients, and names that resolve through it. For all others everything is as it was.
CLIENT_NS=$NS_C
BENCH_ORIGIN_IP=$ORIGIN_IP BENCH_MANY_AT=$MANY_IP BENCH_HOSTS=$HOSTS
MANY_AT=$MANY_IP
RESOLV=$WORK/resolv.conf

ns_prefix() {
	NSP=(ip netns exec "$1" sh -c 'mount --bind "$0" /etc/hosts &&
        mount --bind "$1" /etc/resolv.conf; shift; exec "$@"' "$HOSTS" "$RESOLV")
}
in_client() { in_ns "$CLIENT_NS" "$@"; }

eval "harness_$(declare -f steer)"
steer() {
	local m
	m=($(adapter "$1" mode))
	if [ "${m[0]}" = netns ]; then
		CLIENT_NS=${m[1]} MANY_AT=names
		HOSTS=$WORK/run/$1/hosts RESOLV=$WORK/run/$1/resolv.conf
		ORIGIN_IP=$(cat "$WORK/run/$1/address")
	else
		CLIENT_NS=$NS_C MANY_AT=$BENCH_MANY_AT HOSTS=$BENCH_HOSTS RESOLV=$WORK/resolv.conf
		ORIGIN_IP=$BENCH_ORIGIN_IP
		harness_steer "$1"
	fi
}

eval "harness_$(declare -f peer_start)"
peer_start() {
	if [ "$(adapter "$1" mode | cut -d' ' -f1)" = netns ]; then
		adapter "$1" stop > /dev/null 2>&1
		adapter "$1" start
	else
		harness_peer_start "$1"
	fi
}
