"""A worker that was taken over breaks the rules of its channels, and so does each that takes its place: the run
ends, closed, and nobody else grows."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test, "*.wide.test"]}
"""
HERE = os.path.dirname(os.path.abspath(__file__))
CRASHES_MAX = 3         # of a worker in a minute: then its sandbox ends
GROWTH_MAX = 40 << 10   # KiB: a channel's queue has 8 MiB


def _programs(bed, fake, target, what):
    """A folder with Exeat's programs, and a fake one in the place of one role."""
    folder = pathlib.Path(bed.path(f"programs-{fake}"))
    if not folder.exists():
        folder.mkdir()
        for path in pathlib.Path(b.EXEAT).parent.glob("exeat*"):
            if path.is_file():
                subprocess.run(["cp", path, folder], check=True)
        subprocess.run(["cp", os.path.join(HERE, f"fake_{fake}.py"), folder / f"exeat-{fake}"], check=True)
        os.chmod(folder / f"exeat-{fake}", 0o755)
        subprocess.run(["cp", f"{HERE}/messages.py", f"{HERE}/../../proxy/messages.h", folder], check=True)
    (folder / "attack").write_text(f"{target} {what}\n", encoding="utf-8")
    return str(folder / "exeat")


def _memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


class _Watch(threading.Thread):
    """The most memory that each role of a run ever had, in KiB."""

    def __init__(self, run):
        super().__init__(daemon=True)
        self.run_watched, self.most = run, {}

    def run(self):
        while self.run_watched.process.poll() is None:
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    name, _, rest = (entry / "stat").read_text(encoding="latin-1").partition(") ")
                    if int(rest.split()[1]) == self.run_watched.process.pid or \
                            entry.name == str(self.run_watched.process.pid):
                        role = name.split("(")[1]
                        self.most[role] = max(self.most.get(role, 0), _memory(entry.name))
                except (OSError, ValueError, IndexError):
                    pass
            time.sleep(0.02)


def _attack(bed, target, what, command="sleep 600", timeout=60, fake="worker", until=None):
    """Runs with one role played by a fake. @until: the command lives until that is said on stderr."""
    program, real = _programs(bed, fake, target, what), b.EXEAT
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    try:
        b.EXEAT = program
        run = bed.start("read x" if until else command, POLICY, stdin=subprocess.PIPE)
    finally:
        b.EXEAT = real
    watch = _Watch(run)
    watch.start()
    began = time.monotonic()
    said = b""
    if until:
        for line in run.process.stderr:
            said += line
            if until.encode() in line or b"channel is closed" in line:
                break
    run.process.stdin.close()
    run.process.stdin = None
    run.wait(timeout)
    run.err = said.decode() + run.err
    return run, time.monotonic() - began, watch.most


def _ended(run, took, what):
    b.check(run.status == 125, f"{what}: the run ends", run.status, run.err)
    b.check(took < 20, f"{what}: soon", took)
    lost = run.records("worker_lost")
    b.check([r["role"] for r in lost] == ["worker"] * CRASHES_MAX and all(r.get("reason") for r in lost),
            f"{what}: on record, with why", lost, run.err)
    b.check(not run.left_behind(), f"{what}: nothing is left", run.left_behind())
    run.verify()


WRONG = ("unknown", "direction", "cut-short", "too-much", "over-its-cap", "oversized", "nothing", "descriptors")


def what_is_wrong_on_the_supervisors_channel_ends_the_run(bed):
    for what in (*WRONG, "repeated", "early"):
        run, took, _ = _attack(bed, "supervisor", what)
        _ended(run, took, what)


def what_is_wrong_on_the_dialers_channel_ends_the_run(bed):
    for what in WRONG:
        run, took, _ = _attack(bed, "dialer", what)
        _ended(run, took, what)


def what_is_wrong_on_the_brokers_channel_ends_the_run(bed):
    for what in WRONG:
        run, took, _ = _attack(bed, "broker", what)
        _ended(run, took, what)


def answers_that_are_not_read_end_the_run_and_cost_no_memory(bed):
    for target in ("supervisor", "dialer", "broker"):
        run, took, most = _attack(bed, target, "unread", timeout=120)
        b.check(run.status == 125, f"{target}: the run ends", run.status, run.err)
        b.check(b.SANITIZED or all(kib < GROWTH_MAX for kib in most.values()), f"{target}: nobody grows", most)
        lost = run.records("worker_lost")
        b.check([r["role"] for r in lost] == ["worker"] * CRASHES_MAX, f"{target}: on record", lost, run.err)


def a_worker_that_never_gets_ready_is_not_waited_for_for_ever(bed):
    run, took, _ = _attack(bed, "supervisor", "mute")
    # The time in which all has to have started may be over before the last of them.
    said = run.err.count("did not get ready")
    b.check(run.status == 125 and (said == CRASHES_MAX or (said == CRASHES_MAX - 1 and "not started within" in run.err)),
            "it is said", run.status, run.err)
    b.check(took < 50 and not run.left_behind(), "and ended", took, run.left_behind())


def without_a_certificate_from_the_broker_nothing_is_run(bed):
    for what in ("empty", "another", "two", "early", "large"):
        run, took, _ = _attack(bed, "supervisor", what, command="echo ran; sleep 600", fake="broker")
        b.check(run.status == 125 and "ran" not in run.out, f"{what}: nothing is run", run.status, run.out, run.err)
        # "another" is only known for what it is by the silence that follows.
        b.check("broker" in run.err and took < (60 if what == "another" else 20), f"{what}: it is said", took, run.err)
        b.check(not run.left_behind(), f"{what}: nothing is left", run.left_behind())
        run.verify()


def leases_tickets_and_dials_are_bounded(bed):
    run, _, most = _attack(bed, "supervisor", "leases", until="leases given: ")
    b.check("leases given: " in run.err, "it went through", run.err)
    b.check(int(run.err.split("leases given: ")[1].split()[0]) <= 4096, "a table of 4,096", run.err)
    b.check(b.SANITIZED or all(kib < GROWTH_MAX for kib in most.values()), "nobody grows", most)
    run, _, most = _attack(bed, "broker", "guesses", until="grants given: ")
    b.check("grants given: 0\n" in run.err, "no guess is a ticket", run.err)
    run, _, most = _attack(bed, "dialer", "probes", until="dials made: ")
    b.check("dials made: 0\n" in run.err, "nothing that the policy would not allow", run.err)
    b.check(not bed.dns.asked("evil.test"), "nor is it asked for", bed.dns.queries)


b.main(b.cases(globals()))
