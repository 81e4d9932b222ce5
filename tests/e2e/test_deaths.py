"""Roles that die: while all starts, which ends it with one line, and later, when they are replaced; nothing is left."""

import glob
import os
import signal
import subprocess
import time

import bed as b
from appliance import Appliance, programs, replace_program

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test, "*.wide.test"]}
"""
# What is told -> the program that it runs. A launcher is a fork of exeat itself.
ROLES = {"recorder": "recorder", "broker": "broker", "dialer": "dialer", "nursery": "worker"}
DEATHS = {"killed": "kill -9 $$", "with a fault": "kill -SEGV $$", "with a status": "exit 3"}


def _origin(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test", "*.wide.test"))
    bed.origin.requests.clear()
    bed.origin.connections = 0


def _named(pid, name):
    """The processes of that name whose parent it is, the oldest first."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat", encoding="latin-1") as f:
                stat = f.read()
            with open(f"/proc/{entry}/cmdline", encoding="latin-1") as f:
                called = f.read().split("\0")[0]
        except OSError:
            continue
        head, _, rest = stat.rpartition(") ")
        fields = rest.split()
        # A nursery bears its program's name until it has taken its own.
        if name == "exeat-worker" and called == "exeat-nursery":
            continue
        if head.endswith(f"({name}"[:16]) and int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(entry))
    return sorted(found)


def _role(run, role):
    return _named(run.process.pid, f"exeat-{role}")


def _links(pattern):
    """The network namespaces that descriptors of processes lead to: of one process, or of all ("*")."""
    found = set()
    for path in glob.glob(f"/proc/{pattern}/fd/*") + glob.glob(f"/proc/{pattern}/ns/net"):
        try:
            found.add(os.readlink(path))
        except OSError:
            pass
    return {link for link in found if link.startswith("net:")}


def _run(bed, folder, command="echo ran"):
    """`exeat run` of that folder's programs."""
    before = b.EXEAT
    b.EXEAT = f"{folder}/exeat"
    try:
        return bed.start(command, POLICY)
    finally:
        b.EXEAT = before


def _told_once(text, role, *what):
    """One line, which names the role; what a program says of itself before it goes is its own."""
    lines = [line for line in text.splitlines() if line.startswith("exeat: ")]
    b.check(len(lines) == 1 and f"the {role} " in lines[0] and lines[0].endswith("nothing is run"), "one clear line", role,
            text, *what)


def _not_started(run, role, *what):
    run.wait(60)
    b.check(run.status == 125, "the run ends with 125", role, run.status, run.err, *what)
    b.check("ran" not in run.out, "its command did not run", role, *what)
    _told_once(run.err, role, *what)
    b.wait_until(f"nothing to be left after the {role}", lambda: not run.left_behind())


# ---- while all starts ----

def a_role_that_dies_while_a_run_starts_ends_it_with_one_line(bed):
    for role, program in ROLES.items():
        for what, script in DEATHS.items():
            folder = programs(bed, f"start-{role}-{what.replace(' ', '-')}")
            replace_program(folder, program, script)
            run = _run(bed, folder)
            _not_started(run, role, what)
            run.verify()
            if role != "recorder":
                b.check([r["role"] for r in run.records("worker_lost")] == [role], "it is on record", role, what,
                        run.records(), run.err)


def a_role_that_dies_while_an_appliance_starts_ends_it_with_one_line(bed):
    for role, program in ROLES.items():
        folder = programs(bed, f"serve-{role}")
        replace_program(folder, program, DEATHS["killed"])
        a = Appliance(bed, {"api": POLICY}, exeat=f"{folder}/exeat", ready=False)
        b.check(a.ended() == 1, "it ends with 1", role, a.status, a.err)
        _told_once(a.err, role)
        b.check(not a.left_behind(), "nothing is left", role, a.left_behind())
        a.verify()


def a_program_that_is_not_there_is_told_with_its_place(bed):
    for role, program in ROLES.items():
        folder = programs(bed, f"gone-{role}")
        os.unlink(f"{folder}/exeat-{program}")
        run = _run(bed, folder)
        if role == "nursery":   # by the worker's program it knows where all are
            run.wait()
            b.check(run.status == 125 and len(run.err.splitlines()) == 1 and "other programs" in run.err, "it says so",
                    run.status, run.err)
            continue
        _not_started(run, role)
        b.check("No such file or directory" in run.err and folder in run.err, "it says what is missing", role, run.err)
        run.verify()


def a_role_that_does_not_get_ready_ends_the_start(bed):
    folder = programs(bed, "hangs")
    replace_program(folder, "dialer", "exec sleep 600")
    run = _run(bed, folder)
    _not_started(run, "dialer")
    b.check("did not get ready" in run.err, "it says so", run.err)
    run.verify()


def a_launcher_that_dies_while_all_starts_ends_it(bed):
    folder = programs(bed, "launcher")
    # The start is held where it is: a recorder that is not ready.
    replace_program(folder, "recorder", "while ! [ -e {folder}/go ]; do sleep 0.05; done\nexec {real}")
    for number in range(2):
        run = _run(bed, folder)
        pids = b.wait_until("both launchers", lambda: len(_role(run, "launcher")) == 2 and _role(run, "launcher"))
        os.kill(pids[number], signal.SIGKILL)
        b.wait_until("it is told", lambda: pids[number] not in _role(run, "launcher"))
        os.close(os.open(f"{folder}/go", os.O_CREAT | os.O_WRONLY))
        run.wait(60)
        b.check(run.status == 125 and "ran" not in run.out, "the run ends with 125", number, run.status, run.err)
        _told_once(run.err, "launcher")
        b.wait_until("nothing to be left", lambda: not run.left_behind())
        run.verify()
        os.unlink(f"{folder}/go")


def a_worker_that_dies_while_a_run_starts_is_replaced(bed):
    _origin(bed)
    folder = programs(bed, "worker")
    replace_program(folder, "dialer", "while ! [ -e {folder}/go ]; do sleep 0.05; done\nexec {real}")
    run = _run(bed, folder, "curl -sS -o /dev/null -w '%{http_code}' https://api.test/")
    before = b.wait_until("a worker", lambda: _role(run, "worker"))
    os.kill(before[0], signal.SIGKILL)
    b.wait_until("another one", lambda: _role(run, "worker") not in ([], before))
    os.close(os.open(f"{folder}/go", os.O_CREAT | os.O_WRONLY))
    run.wait(60)
    b.check(run.status == 0 and run.out == "200", "the run is as any other", run.status, run.out, run.err)
    b.check([r["role"] for r in run.records("worker_lost")] == ["worker"], "it is on record", run.err)
    run.verify()


# ---- under load ----

LOAD = """up() { echo up; }; for i in 1 2 3 4; do (n=0; while :; do n=$((n+1));
curl -sS -m 40 -o /dev/null -w '%{http_code}\n' https://api.test/$i/$n; done) & done; wait"""


def a_role_of_a_run_that_dies_is_replaced(bed):
    _origin(bed)
    for role in ("recorder", "broker", "dialer", "nursery", "launcher", "worker"):
        for sig in (signal.SIGKILL, signal.SIGSTOP):
            run = bed.start(LOAD, POLICY)
            bed.origin.requests.clear()
            b.wait_until("the load", lambda: len(bed.origin.requests) > 10, 60)
            namespaces = _links(run.process.pid) - {os.readlink("/proc/self/ns/net")}
            before = _role(run, role)
            began = time.monotonic()
            os.kill(before[0], sig)
            b.wait_until("its successor", lambda: set(_role(run, role)) - set(before) and len(_role(run, role)) == len(before))
            took = time.monotonic() - began
            start = len(bed.origin.requests)
            b.wait_until("the load to go on", lambda: len(bed.origin.requests) > start + 10, 60)
            print(f"      {role} {sig.name}: a successor's process after {took * 1000:.0f} ms", flush=True)
            run.process.terminate()
            run.wait()
            b.check(run.status == 143, "it ends as it is told to", role, run.status, run.err)
            lost = [(r["role"], r.get("signal")) for r in run.records("worker_lost")]
            b.check(lost == [(role, 9)], "the death is on record", role, lost, run.err)
            if role != "worker":
                b.check(set(run.out.split()) == {"200"}, "no request fails", role, run.out.split(), run.err)
            b.wait_until("nothing to be left", lambda: not run.left_behind())
            b.wait_until("no namespace to be left", lambda: not namespaces & _links("*"))
            run.verify()
            missing = {r.target for r in bed.origin.requests} - {r["path"] for r in run.records("request")}
            b.check(not missing, "whatever reached the origin is on record", role, missing)


def a_supervisor_that_is_killed_leaves_nothing(bed):
    _origin(bed)
    for sig in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
        run = bed.start(LOAD, POLICY)
        start = len(bed.origin.requests)
        b.wait_until("the load", lambda: len(bed.origin.requests) > start + 10, 60)
        namespaces = _links(run.process.pid) - {os.readlink("/proc/self/ns/net")}
        os.kill(run.process.pid, sig)
        run.process.wait(20)
        b.wait_until("nothing to be left", lambda: not run.left_behind())
        b.wait_until("no namespace to be left", lambda: not namespaces & _links("*"))
        run.process.communicate()
        run.verify()


def a_role_that_is_stopped_when_all_ends_does_not_hold_it(bed):
    _origin(bed)
    for role in ("broker", "dialer", "worker", "recorder"):
        run = bed.start("echo up; read go; exit 3", POLICY, stdin=subprocess.PIPE)
        b.check(run.process.stdout.readline() == b"up\n", "the box is up")
        began = time.monotonic()
        os.kill(_role(run, role)[0], signal.SIGSTOP)
        run.process.stdin.write(b"go\n")
        run.process.stdin.close()
        run.process.stdin = None
        run.wait(60)
        b.check(run.status == 3, "it ends as its command did", role, run.status, run.err)
        b.check(time.monotonic() - began < 15, "and soon", role, run.err)
        b.wait_until("nothing to be left", lambda: not run.left_behind())
        run.verify()


b.main(b.cases(globals()))
