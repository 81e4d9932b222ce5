"""Nothing leaves but through the proxy. The judge is a packet capture on every other interface."""

import os
import signal
import subprocess

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
"""

# Tries every way out it can think of, for as long as there is a file "go" in the workspace.
PROBES = r"""
import os, socket, struct, time
def tcp(a, p):
    s = socket.socket(); s.settimeout(0.3)
    try: s.connect((a, p)); s.send(b"leak-leak-leak")
    except OSError: pass
    s.close()
def udp(a, p):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.1)
    try: s.sendto(b"leak-leak-leak", (a, p))
    except OSError: pass
    s.close()
print("probing", flush=True)
for round in range(3):
    for a in ("203.0.113.10", "203.0.113.53", "203.0.113.254", "203.0.113.1", "8.8.8.8", "169.254.169.254",
              "100.96.0.9", "198.18.0.9", "127.0.0.1", "255.255.255.255", "224.0.0.1"):
        for p in (53, 80, 443, 15001):
            tcp(a, p) if p != 53 else None
            udp(a, p)
print("probed", flush=True)
"""


def capture(bed):
    """tcpdump on the host's way out; sees what goes to the internet's side."""
    dump = subprocess.Popen(["tcpdump", "-i", "up0", "-n", "-l", "-Q", "out", "not arp and not (ip6 and dst net ff02::/16)"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "listening" not in (dump.stderr.readline() or "listening"):
        pass
    return dump


def seen(dump):
    dump.send_signal(signal.SIGINT)
    out, _ = dump.communicate(timeout=10)
    return [line for line in out.splitlines() if line.strip()]


def roles(run, name):
    """Process numbers of one role of a run."""
    out = subprocess.run(["pgrep", "-P", str(run.process.pid), "-f", f"exeat-{name}"], capture_output=True,
                         text=True, check=False).stdout
    return [int(p) for p in out.split()]


def gateway(run):
    """A descriptor of the gateway's namespace, through the worker's listener: the supervisor holds it."""
    own = os.readlink("/proc/self/ns/net")
    for fd in os.listdir(f"/proc/{run.process.pid}/fd"):
        try:
            link = os.readlink(f"/proc/{run.process.pid}/fd/{fd}")
        except OSError:
            continue
        if link.startswith("net:") and link != own:
            path = f"/proc/{run.process.pid}/fd/{fd}"
            rules = subprocess.run(["nsenter", f"--net={path}", "nft", "list", "ruleset"], capture_output=True,
                                   text=True, check=False).stdout
            if "tproxy" in rules:
                return path
    raise b.Failure("the gateway's namespace was not found")


def probe(bed, before=None):
    dump = capture(bed)
    run = bed.start("read go; exec python3 -c '" + PROBES.replace("'", "'\\''") + "'", POLICY,
                    stdin=subprocess.PIPE)
    b.wait_until("the worker", lambda: roles(run, "worker") or run.process.poll() is not None)
    b.wait_until("the box", lambda: run.records("sandbox_start"))
    if before:
        before(run)
    try:
        run.process.stdin.write(b"go\n")
        run.process.stdin.flush()
    except BrokenPipeError:
        pass    # what was done to it has ended it
    return run, dump


def finish(run, dump, stopped=()):
    line = run.process.stdout.readline()
    while line and b"probed" not in line:
        line = run.process.stdout.readline()
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    run.wait(60)
    return seen(dump)


def nothing_leaves_while_all_is_well(bed):
    run, dump = probe(bed)
    packets = finish(run, dump)
    b.check(packets == [], "no packet on the way out", packets[:10], run.err)


def nothing_leaves_with_the_rules_flushed(bed):
    def flush(run):
        path = gateway(run)
        subprocess.run(["nsenter", f"--net={path}", "nft", "flush", "ruleset"], check=True)
    run, dump = probe(bed, flush)
    packets = finish(run, dump)
    b.check(packets == [], "no packet on the way out", packets[:10], run.err)


def nothing_leaves_while_the_worker_is_stopped(bed):
    stopped = []

    def stop(run):
        # The supervisor first: it would replace the worker at once.
        stopped.extend([run.process.pid, *roles(run, "worker")])
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
    run, dump = probe(bed, stop)
    packets = finish(run, dump, stopped[:1])    # which ends a worker that is stopped
    b.check(len(stopped) == 2 and packets == [], "no packet on the way out", stopped, packets[:10], run.err)
    b.check(run.record("worker_lost")["role"] == "worker", "the record says who was stopped", run.records(), run.err)


def nothing_leaves_when_a_role_is_killed_and_the_record_says_which(bed):
    for role in ("worker", "dialer", "broker", "recorder"):
        def kill(run):
            os.kill(roles(run, role)[0], signal.SIGKILL)
        run, dump = probe(bed, kill)
        packets = finish(run, dump)
        b.check(packets == [], "no packet on the way out", role, packets[:10])
        b.check(run.status == 0, "another one takes over, and the command ends as it would have", role, run.status, run.err)
        lost = run.record("worker_lost")
        b.check(lost["role"] == role and lost["signal"] == signal.SIGKILL, "the record says which role died", role, lost, run.err)
        run.verify()


def nothing_leaves_when_the_supervisor_is_killed(bed):
    pids = []

    def kill(run):
        pids.extend(p for role in ("worker", "dialer", "broker", "recorder") for p in roles(run, role))
        os.kill(run.process.pid, signal.SIGKILL)
    run, dump = probe(bed, kill)
    run.process.wait()
    b.wait_until("the roles to be gone", lambda: not any(os.path.exists(f"/proc/{p}") for p in pids))
    packets = seen(dump)
    b.check(packets == [], "no packet on the way out", packets[:10])


b.main([nothing_leaves_while_all_is_well, nothing_leaves_with_the_rules_flushed,
        nothing_leaves_while_the_worker_is_stopped,
        nothing_leaves_when_a_role_is_killed_and_the_record_says_which,
        nothing_leaves_when_the_supervisor_is_killed])
