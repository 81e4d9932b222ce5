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
  - {id: api, hosts: [api.test], credential: api}
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


def an_appliance_holds_so_many_sandboxes_and_no_more(bed):
    os.chmod(bed.dir, 0o711)
    for name in ("run", "policies"):
        os.mkdir(bed.path(name))
    bed.write("policies/near.yaml", "exeat: 1\nprecedence: deny-over-allow\nallow:\n  - {id: near, hosts: [near.test]}\n")
    path = bed.path("run/control.sock")
    settings = bed.settings(extra=f"log: {{path: {bed.path('serve.jsonl')}}}\ncontrol: {{socket: {path}}}\n"
                                  f"policies: {{directory: {bed.path('policies')}}}\nlimits: {{sandboxes: 2}}\n")
    with open(bed.path("serve.err"), "wb") as err:
        serve = subprocess.Popen([b.EXEAT, "serve", "--settings", settings], stdin=subprocess.DEVNULL, stdout=err, stderr=err)

    def command(*args):
        return subprocess.run([b.EXEAT, "sandbox", args[0], "--socket", path, *args[1:]], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)

    def start(name):
        return command("start", name, "--policy", "near", "--", "sleep", "1000")

    try:
        b.wait_until("the appliance", lambda: command("list").returncode == 0)
        for name in ("one", "two"):
            b.check(start(name).returncode == 0, f"{name} starts")
        third = start("three")
        b.check(third.returncode == 1 and "limits.sandboxes allows 2" in third.stderr + third.stdout, "the third does not", third)
        b.check(command("stop", "one").returncode == 0 and start("three").returncode == 0, "it does once one has ended")
    finally:
        serve.terminate()
        b.check(serve.wait(60) == 0, "it ends in order", open(bed.path("serve.err")).read())


b.main(b.cases(globals()))
