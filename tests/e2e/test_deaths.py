"""A role that stops, dies or is killed: the run waits or ends, closed, says which, and leaves nothing."""

import glob
import os
import signal
import subprocess
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test, "*.wide.test"]}
"""
ROLES = ("recorder", "broker", "dialer", "worker")


FATAL = (signal.SIGKILL, signal.SIGSEGV)


def _died(lost):
    """(role, signal) of each."""
    return [(r["role"], r.get("signal")) for r in lost]


def _origin(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test", "*.wide.test"))
    bed.origin.requests.clear()
    bed.origin.connections = 0


def _roles(run, role):
    """Process numbers of one role, oldest first: the standby recorder is the second one."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            stat = open(f"/proc/{entry}/stat", encoding="latin-1").read() if entry.isdigit() else ""
        except OSError:
            continue
        name, _, rest = stat.partition(") ")
        if rest and int(rest.split()[1]) == run.process.pid and name.endswith(f"(exeat-{role}"[:16]):
            found.append(int(entry))
    return sorted(found)


def _links(pattern):
    """What descriptors and namespaces of processes point to: of one process, or of all ("*")."""
    found = set()
    for path in glob.glob(f"/proc/{pattern}/fd/*") + glob.glob(f"/proc/{pattern}/ns/net"):
        try:
            found.add(os.readlink(path))
        except OSError:
            pass
    return {link for link in found if link.startswith("net:")}


def _namespaces(run):
    """The network namespaces of a run: the gateway's and the box's."""
    return _links(run.process.pid) - {os.readlink("/proc/self/ns/net")}


def _ended(run, namespaces, began, role, sig, seconds=8):
    """The run is over: closed, soon, on record, and nothing of it is there."""
    run.wait(60)
    took = time.monotonic() - began
    b.check(run.status == 125, "the run ends with 125", role, sig, run.status, run.err)
    b.check(took < seconds, f"within {seconds} s", role, sig, took, run.err)
    b.check(role in run.err, "it says which role", role, sig, run.err)
    b.wait_until(f"nothing to be left after {role} {sig}", lambda: not run.left_behind())
    b.wait_until("no namespace to be left", lambda: not namespaces & _links("*"))


def a_role_killed_while_it_starts_ends_the_run(bed):
    _origin(bed)
    for sig in FATAL:
        for role in ROLES:
            run = bed.start("echo ran; exec sleep 600", POLICY)
            pids = b.wait_until(role, lambda: _roles(run, role))
            namespaces = _namespaces(run)
            began = time.monotonic()
            os.kill(pids[0], sig)
            _ended(run, namespaces, began, role, sig)
            if role != "recorder":
                lost = run.records("worker_lost")
                b.check(_died(lost) == [(role, int(sig))], "on record", role, lost, run.err)
                b.check(run.records("stop"), "to its end")
            run.verify()


LOAD = "for i in $(seq 50); do (while curl -sS -m 5 -o /dev/null https://api.test/$i; do :; done) 2>/dev/null & done; wait"


def a_role_killed_under_load_ends_the_run(bed):
    _origin(bed)
    for sig in FATAL:
        for role in ROLES:
            run = bed.start(LOAD, POLICY)
            start = len(bed.origin.requests)
            b.wait_until("the load", lambda: len(bed.origin.requests) > start + 60, 60)
            pids = _roles(run, role)
            namespaces = _namespaces(run)
            began = time.monotonic()
            os.kill(pids[0], sig)
            b.check(len(namespaces) == 2, "it has two namespaces", namespaces)
            _ended(run, namespaces, began, role, sig)
            lost = run.records("worker_lost")
            b.check(_died(lost) == [(role, int(sig))], "on record", role, lost, run.err)
            run.verify()
            recorded = {r.get("path") for r in run.records("request")}
            reached = {r.target for r in bed.origin.requests[start:]}
            b.check(reached <= recorded, "whatever reached the origin is on record", role, reached - recorded)


def a_stopped_role_delays_and_loses_nothing(bed):
    _origin(bed)
    for number, role in enumerate(ROLES):
        bed.dns.zone[f"new{number}.wide.test"] = ["203.0.113.10"]
        run = bed.start(f"curl -sS -o /dev/null https://api.test/before; echo up; read go; "
                        f"curl -sS -m 60 -o /dev/null -w '%{{http_code}}' https://new{number}.wide.test/during", POLICY,
                        stdin=subprocess.PIPE)
        b.check(run.process.stdout.readline() == b"up\n", "the box is up")
        pids = _roles(run, role)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        connections, reached = bed.origin.connections, len(bed.origin.requests)
        run.process.stdin.write(b"go\n")
        run.process.stdin.flush()
        time.sleep(1.5)     # the stop lasts: nothing is waited for
        if role in ("worker", "dialer"):
            b.check(bed.origin.connections == connections, "nothing is dialled meanwhile", role)
        if role != "recorder":
            b.check(len(bed.origin.requests) == reached, "no request goes out meanwhile", role)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        run.process.stdin.close()
        run.process.stdin = None
        run.wait()
        b.check(run.status == 0 and run.out == "200", "it goes on", role, run.status, run.out, run.err)
        run.record("request", path="/during", verdict="allow", status=200)
        run.verify()


def a_role_that_is_stopped_for_good_does_not_hold_the_end(bed):
    _origin(bed)
    for role in ROLES[1:]:
        run = bed.start("echo up; read go; exit 3", POLICY, stdin=subprocess.PIPE)
        b.check(run.process.stdout.readline() == b"up\n", "the box is up")
        pids = _roles(run, role)
        os.kill(pids[0], signal.SIGSTOP)
        began = time.monotonic()
        run.process.stdin.write(b"go\n")
        run.process.stdin.close()
        run.process.stdin = None
        run.wait(60)
        b.check(time.monotonic() - began < 15, "it is waited for, and then killed", role, run.err)
        b.check(not run.left_behind(), "and nothing is left", role, run.left_behind())
        run.verify()


b.main(b.cases(globals()))
