"""A sandbox at a limit of its own: what it sees, and what stands on record."""

import os
import re
import subprocess

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  api: {kind: bearer, secret: token, hosts: [api.test]}
allow:
  - {id: api, hosts: [api.test], methods: [GET], credential: api}
  - {id: far, hosts: ["*.far.test"]}
  - {id: near, hosts: [near.test]}
"""
SECRETS = {"token": ("tok-4c8e1f0a9b7d6e53", ["api.test"])}
SILENT = "203.0.113.77"     # packets to it are lost


def _settings(bed, limits):
    return bed.settings(SECRETS, extra=f"limits: {{{limits}}}\n")


def _origin(bed):
    for name in ("api.test", "near.test"):
        bed.dns.zone[name] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test", "near.test"))
        # Nobody has that hardware address.
        b.sh("ip", "neigh", "add", SILENT, "lladdr", "02:00:00:00:00:77", "dev", "up0")


def a_dial_beyond_the_limit_is_refused_at_once_with_its_reason(bed):
    _origin(bed)
    for n in range(3):
        bed.dns.zone[f"n{n}.far.test"] = [SILENT]
    run = bed.run("for n in 0 1; do curl -sS -m 100 -o /dev/null https://n$n.far.test/ 2>/dev/null & done\n"
                  "until [ $(cat /proc/net/tcp | grep -c ' 01 ') -ge 2 ]; do :; done; sleep 1\n"
                  "curl -sS -m 5 -w '%{http_code} %{time_total}' -o body https://n2.far.test/; echo; cat body; kill %1 %2; wait",
                  POLICY, settings=_settings(bed, "dials: 2"), options=["--workspace", _folder(bed)])
    b.check(run.out.startswith("503 0."), "refused at once", run.out, run.err)
    b.check("Too many connections to origins are under way" in run.out, "with its reason", run.out)
    b.check(run.records("request", host="n2.far.test", proxy_error="connection_limit_reached"), "on record", run.records("request"))


def a_credential_beyond_the_rate_is_refused_and_asks_for_patience(bed):
    _origin(bed)
    seen = len(bed.origin.requests)
    run = bed.run("curl -sS -D - -o /dev/null " + " ".join(f"https://api.test/{n}" for n in range(40)), POLICY,
                  settings=_settings(bed, "grants: 5"))
    b.check(run.out.count(" 200 ") >= 5, "some pass", run.out, run.err)
    b.check(run.out.count(" 429 ") >= 20 and "retry-after:" in run.out.lower(), "the others are told to wait", run.out[-2000:])
    b.check(len(bed.origin.requests) - seen == run.out.count(" 200 "), "what is refused does not go out")
    near = bed.run("curl -sS -o /dev/null -w '%{http_code}' " + " ".join(f"https://near.test/{n}" for n in range(20)),
                   POLICY, settings=_settings(bed, "grants: 5"))
    b.check("429" not in near.out, "requests without a credential have no such limit", near.out)


def refused_packets_beyond_the_log_are_counted(bed):
    _origin(bed)
    sent = 3000
    run = bed.run("python3 -c 'import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  f"for n in range({sent}):\n    try: s.sendto(b\"x\", (\"198.51.100.1\", 9))\n    except OSError: pass'", POLICY, secrets=SECRETS)
    stop = run.record("sandbox_stop")
    told = sum(r.get("count", 1) for r in run.records("connect", protocol="udp"))
    b.check(told > 0, "some are told", run.records("connect"))
    b.check(stop.get("suppressed", 0) > 0, "the others are counted", stop)
    b.check(told + stop["suppressed"] <= sent, "and no more than there were", told, stop)


def records_beyond_the_rate_wait_and_none_is_lost(bed):
    _origin(bed)
    requests = 300
    urls = " ".join(f"https://near.test/{n}" for n in range(requests))
    run = bed.start(f"curl -sS {urls} >/dev/null; echo done; read go",
                    POLICY, settings=_settings(bed, "log_bytes: 16KiB"), stdin=subprocess.PIPE)
    said = run.process.stdout.readline()
    b.check(said == b"done\n", "all requests are answered", said)
    written = len(run.records("request"))
    b.check(written < requests, "their records are written at their rate", written)
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    b.check(len({r["path"] for r in run.records("request")}) == requests, "all of them, in the end", len(run.records("request")), run.err)
    run.verify()


def _folder(bed):
    path = bed.path(f"work{bed.runs}")
    os.mkdir(path)
    os.chown(path, 1000, 1000)
    os.chmod(bed.dir, 0o755)
    return path


def a_workers_memory_is_bounded_and_its_end_is_its_boxs_alone(bed):
    if b.SANITIZED:     # its shadow is memory, too
        return
    _origin(bed)
    flood = """
import socket, threading
def hold():
    try:
        s = socket.create_connection(("near.test", 443), 10)
        import ssl
        c = ssl.create_default_context().wrap_socket(s, server_hostname="near.test")
        c.settimeout(10)
        c.sendall(b"GET / HTTP/1.1\\r\\nHost: near.test\\r\\n")
        for n in range(120):
            c.sendall(b"x-%d: " % n + b"y" * 8000 + b"\\r\\n")
        c.recv(1)
    except OSError:
        pass
threads = [threading.Thread(target=hold) for _ in range(150)]
for t in threads: t.start()
for t in threads: t.join()
"""
    run = bed.start(["python3", "-c", flood], POLICY, settings=_settings(bed, "worker_memory: 64MiB, headers: 1MiB"))
    most = 0
    while run.process.poll() is None:
        most = max(most, _data(run.process.pid))
    run.wait()
    b.check(0 < most <= 64 << 10, "never more than it may have", most, run.err)
    run.verify()


def _data(parent):
    """Private memory in KiB (what RLIMIT_DATA counts) of the worker of a run."""
    for entry in os.listdir("/proc"):
        try:
            stat = open(f"/proc/{entry}/stat", encoding="latin-1").read() if entry.isdigit() else ""
            if f"(exeat-worker)" in stat and int(stat.rpartition(") ")[2].split()[1]) == parent:
                return int(re.search(r"VmData:\s*(\d+)", open(f"/proc/{entry}/status").read() + "VmData: 0")[1])
        except OSError:
            pass
    return 0


def a_boxs_own_memory_and_processes_are_limited(bed):
    run = bed.run("n=0; while [ $n -lt 60 ] && sleep 5 & do n=$((n+1)); done 2>/dev/null; "
                  "python3 -c 'x = bytearray(300 << 20); print(len(x))'; echo ended $?", POLICY,
                  settings=_settings(bed, "memory: 100MiB, processes: 40"))
    limits = run.record("sandbox_start")["limits"]
    if "memory " in limits:
        b.check("memory 100 MiB" in limits, "on record", limits)
        b.check("314572800" not in run.out, "it does not get more", run.out, run.err)
    if "processes " in limits:
        b.check("processes 40" in limits, "on record", limits)


class Appliance:
    """`exeat serve` with limits, for the time of a with statement."""

    def __init__(self, bed, limits):
        self.bed, self.root = bed, bed.path(f"serve{limits.count(':')}")
        os.chmod(bed.dir, 0o711)
        for path in (self.root, self.root + "/run", self.root + "/policies"):
            os.mkdir(path)
        self.socket, self.log_path = self.root + "/run/control.sock", self.root + "/log.jsonl"
        with open(self.root + "/policies/all.yaml", "w", encoding="utf-8") as f:
            f.write(POLICY)
        settings = bed.settings(SECRETS, extra=f"log: {{path: {self.log_path}}}\ncontrol: {{socket: {self.socket}}}\n"
                                               f"policies: {{directory: {self.root}/policies}}\nlimits: {{{limits}}}\n")
        self.errors = open(self.root + "/errors", "wb+")
        self.process = subprocess.Popen([b.EXEAT, "serve", "--settings", settings], stdin=subprocess.DEVNULL,
                                        stdout=self.errors, stderr=self.errors)
        b.wait_until("the appliance", lambda: self.command("list").returncode == 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        status = self.process.wait(60)
        self.errors.seek(0)
        b.check(status == 0, "it ends in order", status, self.errors.read().decode())

    def command(self, verb, *args):
        return subprocess.run([b.EXEAT, "sandbox", verb, "--socket", self.socket, *args], capture_output=True,
                              text=True, timeout=100, stdin=subprocess.DEVNULL)

    def start(self, name, *command, options=()):
        return self.command("start", name, "--policy", "all", *options, "--", *command)


def an_appliance_holds_so_many_sandboxes_and_no_more(bed):
    with Appliance(bed, "sandboxes: 2") as appliance:
        for name in ("one", "two"):
            b.check(appliance.start(name, "sleep", "1000").returncode == 0, f"{name} starts")
        third = appliance.start("three", "sleep", "1000")
        b.check(third.returncode == 1 and "limits.sandboxes allows 2" in third.stderr + third.stdout, "the third does not", third)
        appliance.command("stop", "one")
        b.check(appliance.start("three", "sleep", "1000").returncode == 0, "it does once one has ended")


# Dials first, uses of the credential over one connection, and in the end as many connections as it can get.
LOUD = """
for n in 0 1 2 3 4 5; do (while :; do curl -sS -m 5 -o /dev/null https://n$n.far.test/; done) & done
curl -sS --rate 900/m -o /dev/null 'https://api.test/[1-100000]' &
sleep 4
for n in $(seq 60); do (while :; do exec 3<>/dev/tcp/near.test/443; sleep 5; done) & done
wait
"""


def a_sandbox_at_all_of_its_limits_costs_its_neighbour_nothing(bed):
    _origin(bed)
    for n in range(8):
        bed.dns.zone[f"n{n}.far.test"] = [SILENT]
    with Appliance(bed, "dials: 2, grants: 2, connections: 20, log_bytes: 64KiB, leases: 8") as appliance:
        b.check(appliance.start("loud", "bash", "-c", LOUD + "2>/dev/null").returncode == 0, "the loud one starts")
        log = lambda: open(appliance.log_path, encoding="utf-8").read()
        for what in ("too-many-dials", "too-many-grants", "too-many-connections"):
            b.wait_until(f"the loud one to meet {what}", lambda: what in log(), 60)
        out = appliance.root + "/out"
        quiet = appliance.start("quiet", "sh", "-c", "for n in $(seq 30); do curl -sS -m 20 -o /dev/null -w '%{http_code}\\n' "
                                "https://near.test/$n; done; curl -sS -o /dev/null -w '%{http_code}\\n' https://api.test/",
                                options=("--wait", "--output", out))
        said = open(out, encoding="utf-8").read().split()
        b.check(said == ["200"] * 31, "the quiet one sees nothing of it", quiet, said)


b.main(b.cases(globals()))
