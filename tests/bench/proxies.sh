#!/bin/bash
# proxies.sh BUILD HARNESS [OPTION ...]: Exeat beside other proxies that read TLS, in one run.
#
# HARNESS is the folder of a benchmark of such proxies (run.sh, measure.sh, adapters/, tools/tlsload.c): three
# network namespaces in a line, wrk, h2load, curl and tlsload as clients, nginx as origin, the work counted for
# each second of the proxy's own CPU, all its processes together. It is copied, told how Exeat is started
# (peers/exeat.sh) and how clients get into a box's namespace (clients.sh, harness.patch), and run. OPTIONs
# go to its run.sh: --quick, --peers "haproxy exeat", --items "ka16 conn", --reps N, --keep.
#
#     sudo make bench HARNESS=DIR
#     sudo make bench HARNESS=DIR OPTIONS='--quick --peers "squid exeat"'
#
# What the peers do for a request differs: see peers/exeat.sh for what Exeat does, the harness for the rest.
# A figure means something only beside the others of its own run.
set -eu
build=$(realpath "$1")
harness=$(realpath "$2")
shift 2
export EXEAT_BENCH=$(cd "$(dirname "$0")" && pwd)
export EXEAT=$build/exeat BENCH_ADAPTERS=$EXEAT_BENCH/peers
export BENCH_TAG=${BENCH_TAG:-ex} BENCH_WORK=${BENCH_WORK:-${TMPDIR:-/tmp}/exeat-bench}
mkdir -p "$BENCH_WORK"
rm -rf "$BENCH_WORK/harness"
cp -r "$harness" "$BENCH_WORK/harness"
chmod -R u+w "$BENCH_WORK/harness"
patch -s -p1 -d "$BENCH_WORK/harness" < "$EXEAT_BENCH/harness.patch"
echo '. "$EXEAT_BENCH/clients.sh"' >> "$BENCH_WORK/harness/lib.sh"
exec bash "$BENCH_WORK/harness/run.sh" --peers "direct haproxy nginx nghttpx squid mitmproxy sslsplit exeat" "$@"
