"""A role of an appliance that dies under load is replaced, and its death costs nothing but what died."""

import collections
import ctypes
import os
import signal
import subprocess
import threading
import time

import bed as b
from appliance import Appliance, programs, replace_program

TOKEN = "tok-7f3a91c5e2d84b60"
SECRETS = {"api": (TOKEN, ["api.test", "slow.test"])}
POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  api: {kind: bearer, secret: api, hosts: [api.test, slow.test]}
allow:
  - {id: api, hosts: [api.test, slow.test], credential: api}
  - {id: wide, hosts: ["*.wide.test"]}
"""
SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP)
SHARED = ("dialer", "broker", "recorder", "launcher", "nursery")
BOUND = 5.0     # seconds from a death to its successor; the aim is 1


def _origin(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    bed.dns.zone["first.wide.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(_answer), cert=bed.cert("api.test", "*.wide.test"))
    bed.origin.requests.clear()


def _answer(request, origin):
    return b.answer(200, request.target)


def _start(bed, boxes=("one", "two"), **more):
    """An appliance with that many boxes, each of which asks without an end."""
    Appliance.put_away()
    _origin(bed)
    a = Appliance(bed, {"api": POLICY}, SECRETS, **more)
    for name in boxes:
        a.start_load(name, "api", "api.test")
    for name in boxes:
        a.goes_on(name)
    return a


def _said(a):
    return a.said() if a.process.poll() is None else a.err


def _others_failed(a, name):
    """Requests of a box that got anything but their answer."""
    return {path: got for path, got in a.answers(name).items() if got != "200"}


def _close(bed, a, lost, names=("one", "two")):
    """The end, in order; whatever reached the origin is on record once, the chain verifies, deaths are on record."""
    for name in names:
        a.stop_box(name, "--kill")
    a.end()
    b.check(not a.left_behind(), "nothing is left", a.left_behind())
    a.verify()
    _each_is_on_record_once(bed, a)
    told = [(r["role"], r.get("signal")) for r in a.records("worker_lost")]
    b.check(told == lost, "each death is on record, and no other", told, lost, a.err)


def _each_is_on_record_once(bed, a):
    lines = collections.Counter((r["path"], r["phase"]) for r in a.records("request"))
    twice = [line for line, n in lines.items() if n > 1]
    b.check(not twice, "nothing is on record twice", twice[:5])
    recorded = {path for path, _ in lines}
    missing = [r.target for r in bed.origin.requests if r.target not in recorded]
    b.check(not missing, "whatever reached the origin is on record", len(missing), missing[:5], _said(a))
    answered = [path for name in a.boxes for path, got in a.answers(name).items() if got == "200"]
    missing = [path for path in answered if (path, "end") not in lines]
    b.check(not missing, "and with its end where the box had it", len(missing), missing[:5])
    b.check({r.get("authorization") for r in bed.origin.requests} <= {f"Bearer {TOKEN}"}, "with its credential")


def _successor(a, role, before, began):
    """Seconds until another process of a shared role is ready."""
    b.wait_until(f"the {role}'s successor to be ready", lambda: set(a.ready(role)) - before and
                 len(a.ready(role)) == len(before))
    return time.monotonic() - began


def _signal_told(sig):
    """What its status says: one that is stopped is killed."""
    return int(signal.SIGKILL if sig == signal.SIGSTOP else sig)


def _tell_times(what, times):
    print("      " + what + ": " + ", ".join(f"{k} {v * 1000:.0f} ms" for k, v in times.items()), flush=True)


def _shared_role_dies(bed, role, signals=SIGNALS):
    a, times = _start(bed), {}
    for sig in signals:
        before, began = set(a.ready(role)), time.monotonic()
        os.kill(sorted(before)[0], sig)
        times[sig.name] = _successor(a, role, before, began)
        for name in ("one", "two"):
            a.goes_on(name)
    _tell_times(f"{role} replaced", times)
    b.check(max(times.values()) < BOUND, f"each within {BOUND} s", times)
    for name in ("one", "two"):
        b.check(not _others_failed(a, name), f"no request of {name} fails", role, _others_failed(a, name), a.said())
    _close(bed, a, [(role, _signal_told(s)) for s in signals])


def a_dialer_that_dies_costs_no_request(bed):
    _shared_role_dies(bed, "dialer")


def a_broker_that_dies_costs_no_request(bed):
    _shared_role_dies(bed, "broker")


def a_recorder_that_dies_costs_no_request_and_no_record(bed):
    _shared_role_dies(bed, "recorder")


def a_launcher_that_dies_costs_no_request(bed):
    # It blocks all signals, for what a terminal sends: of SIGSEGV only a fault's own would reach it.
    _shared_role_dies(bed, "launcher", (signal.SIGKILL, signal.SIGSTOP))


def a_nursery_that_dies_costs_no_request(bed):
    _shared_role_dies(bed, "nursery")


def a_worker_that_dies_costs_the_other_sandbox_nothing(bed):
    for sig in SIGNALS:
        a, times = _start(bed), {}
        nursery, layout = a.ready("nursery")[0], _layout(a.worker("one"))
        for n in range(2):
            before, began = a.worker("one"), time.monotonic()
            os.kill(before, sig)
            b.wait_until("another worker", lambda: a.worker("one") not in (None, before))
            a.goes_on("one", 2)
            times[f"{sig.name} {n}, until it answers"] = time.monotonic() - began
            a.goes_on("one")
            a.goes_on("two")
        _tell_times("worker replaced", times)
        b.check(max(times.values()) < BOUND, f"each within {BOUND} s", times)
        b.check(not _others_failed(a, "two"), "no request of the other fails", _others_failed(a, "two"), a.said())
        b.check(nursery not in a.ready("nursery"), "the nursery was replaced, too")
        b.check(_layout(a.worker("one")) != layout, "and with it the address layout", layout)
        b.check(_layout(a.worker("two")) == layout, "of the one that lives nothing changed")
        _close(bed, a, [("worker", _signal_told(sig))] * 2)


def all_roles_dead_at_once_are_replaced(bed):
    a = _start(bed)
    for _ in range(2):
        before = {role: set(a.ready(role)) for role in SHARED}
        workers = {name: a.worker(name) for name in ("one", "two")}
        a.process.send_signal(signal.SIGSTOP)   # so that it hears of all at once
        for role in SHARED:
            os.kill(sorted(before[role])[0], signal.SIGKILL)
        for pid in workers.values():
            os.kill(pid, signal.SIGKILL)
        a.process.send_signal(signal.SIGCONT)
        began = time.monotonic()
        times = {role: _successor(a, role, before[role], began) for role in SHARED}
        for name, pid in workers.items():
            b.wait_until(f"another worker of {name}", lambda n=name, p=pid: a.worker(n) not in (None, p))
            a.goes_on(name, 2)
        times["until both answer"] = time.monotonic() - began
        _tell_times("all replaced", times)
    for name in ("one", "two"):
        a.goes_on(name)
        a.stop_box(name, "--kill")
    a.end()
    b.check(not a.left_behind(), "nothing is left", a.left_behind())
    a.verify()
    _each_is_on_record_once(bed, a)
    told = sorted(r["role"] for r in a.records("worker_lost"))
    b.check(told == sorted([*SHARED, "worker", "worker"] * 2), "each death is on record", told, a.err)


PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def _hang(pid):
    """It is held by a tracer, which nobody is told of: it neither ends nor is stopped, and answers nothing."""
    b.LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        b.check(b.LIBC.ptrace(request, pid, None, None) == 0, "it can be traced", os.strerror(ctypes.get_errno()))
    b.check(os.WIFSTOPPED(os.waitpid(pid, WALL)[1]), "it is held")


def roles_that_hang_are_replaced(bed):
    a = _start(bed)
    before = {role: set(a.ready(role)) for role in ("dialer", "broker", "nursery")}
    worker = a.worker("one")
    held, began = [worker, *(min(pids) for pids in before.values())], time.monotonic()
    for pid in held:
        _hang(pid)
    for pid in held:    # its death is the tracer's to hear of first
        _, status = os.waitpid(pid, WALL)
        b.check(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "it is killed", pid, status)
    times = {"all were killed": time.monotonic() - began}
    for role, pids in before.items():
        times[role] = _successor(a, role, pids, began)
    b.wait_until("another worker", lambda: a.worker("one") not in (None, worker))
    for name in ("one", "two"):
        a.goes_on(name)
    _tell_times("after they began to hang", times)
    b.check(not _others_failed(a, "two"), "no request of the other fails", _others_failed(a, "two"), a.said())
    for name in ("one", "two"):
        a.stop_box(name, "--kill")
    a.end()
    a.verify()
    _each_is_on_record_once(bed, a)
    lost = {r["role"]: r.get("reason") for r in a.records("worker_lost")}
    b.check(lost == dict.fromkeys((*before, "worker"), "does not answer"), "each is on record, with why", lost, a.err)


def _layout(pid):
    """Where the C library's first page lies. (A sanitizer's own pages lie where they always do.)"""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        return next(line.split("-")[0] for line in f if "libc.so" in line)


# ---- what a successor has ----

# Resolves once, and asks by the address from then on: one line in, one request, one line out.
BY_ADDRESS = r"""
import os, socket, ssl, sys, time
host, folder = sys.argv[1], "/workspace"
context = ssl.create_default_context()
address = socket.gethostbyname(host)
print("address", address, flush=True)
for n in range(1000000):
    while not os.path.exists(f"{folder}/{n}"):
        time.sleep(0.01)
    try:
        with context.wrap_socket(socket.create_connection((address, 443), 30), server_hostname=host) as s:
            s.sendall(f"GET /address/{n} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            print(n, s.recv(100).split()[1].decode(), socket.gethostbyname(host) == address, flush=True)
    except OSError as e:
        print(n, type(e).__name__, e, flush=True)
"""


def an_address_that_was_told_before_leads_to_its_name_after_any_death(bed):
    _origin(bed)
    a = Appliance(bed, {"api": POLICY}, SECRETS)
    workspace = f"{a.dir}/shared"
    os.mkdir(workspace)
    a.start_box("one", ["python3", "-c", BY_ADDRESS, "first.wide.test"], "api", ["--workspace", workspace])
    b.wait_until("the address", lambda: "address" in a.box_said("one"))
    for n, role in enumerate(("worker", "launcher", "nursery", "recorder", "broker", "worker", "dialer")):
        # The worker that died has taken what it had asked for with it; a dialer, what it had been told.
        bed.dns.queries.clear()
        before = {a.worker("one")} if role == "worker" else set(a.ready(role))
        os.kill(sorted(before)[0], signal.SIGKILL)
        if role == "worker":
            b.wait_until("another worker", lambda: a.worker("one") not in (None, *before))
        else:
            _successor(a, role, before, time.monotonic())
        b.wait_until("its turn", lambda: not os.path.exists(f"{workspace}/{n}"))
        os.close(os.open(f"{workspace}/{n}", os.O_CREAT | os.O_WRONLY))
        b.wait_until(f"an answer after the {role}'s death", lambda: f"\n{n} " in a.box_said("one"))
        line = a.box_said("one").splitlines()[n + 1]
        b.check(line == f"{n} 200 True", "it is reached by its address, which is still its name's", role, line, a.said())
        if role != "dialer":
            b.check(not bed.dns.asked("first.wide.test"), "with no new query", role, bed.dns.queries)
    a.stop_box("one", "--kill")
    a.end()
    a.verify()


def a_workers_successor_has_the_policy_that_is_in_force(bed):
    a = _start(bed)
    with open(f"{a.dir}/policies/api.yaml", "w", encoding="utf-8") as f:
        f.write(POLICY.replace("allow:\n", "deny:\n  - {id: no, hosts: [api.test], paths: [/one/kept0/**]}\nallow:\n"))
    done = a.command("policy", "reload")
    b.check(done.returncode == 0, "the policy is read again", done.stdout, done.stderr)
    denied = lambda: sum(got == "403" for path, got in a.answers("one").items() if "/kept0/" in path)
    b.wait_until("the new policy", denied)
    for role in ("worker", "dialer", "broker"):
        before = {a.worker("one")} if role == "worker" else set(a.ready(role))
        os.kill(sorted(before)[0], signal.SIGKILL)
        if role == "worker":
            b.wait_until("another worker", lambda: a.worker("one") not in (None, *before))
        else:
            _successor(a, role, before, time.monotonic())
        start, refused = len(a.answers("one")), denied()
        b.wait_until(f"more refusals after the {role}'s death", lambda: denied() > refused + 3)
        late = list(a.answers("one").items())[start + 4:]    # these were asked after the death
        b.check(not [path for path, got in late if "/kept0/" in path and got == "200"], "none is let through", role, late)
        b.check([path for path, got in late if "/kept2/" in path and got == "200"], "others are", role, late)
    a.stop_box("one", "--kill")
    a.stop_box("two", "--kill")
    a.end()
    a.verify()


def no_role_dies_of_much_to_sort(bed):
    hosts = ", ".join(f"h{n}.wide.test" for n in range(400))
    nets = ", ".join(f"203.0.{n}.64/26" for n in range(200) if n != 113)
    policy = (f"exeat: 1\nprecedence: deny-over-allow\ndeny:\n  - {{id: nets, addresses: [{nets}]}}\nallow:\n"
              f"  - {{id: many, hosts: [{hosts}]}}\n"
              "  - {id: ports, hosts: [first.wide.test], ports: [443, 2000-2900]}\n")
    _origin(bed)
    a = Appliance(bed, {"much": policy}, SECRETS)
    a.start_box("one", ["sh", "-c", "curl -sS -o /dev/null https://first.wide.test/before; "
                        "curl -sS http://exeat.internal/policy | tail -c 200; echo; echo done; sleep 600"], "much")
    b.wait_until("the box's requests", lambda: "done" in a.box_said("one"))
    with open(f"{a.dir}/policies/much.yaml", "w", encoding="utf-8") as f:
        f.write(policy.replace("2900", "2800"))
    done = a.command("policy", "reload")
    b.check(done.returncode == 0, "the policy is read again", done.stdout, done.stderr, _said(a))
    a.stop_box("one", "--kill")
    a.end()
    b.check(not a.records("worker_lost"), "nobody dies", a.err)
    a.verify()


# ---- a role that stays away ----

SLOW = r"""
import http.client, ssl, sys
c = http.client.HTTPSConnection("slow.test", timeout=60, context=ssl.create_default_context())
c.request("GET", "/slow")
r = c.getresponse()
for line in r:
    print(line.decode().strip(), flush=True)
print("over", flush=True)
"""


class _Slow:
    """An origin's answer of which a line is sent when the test says so."""

    def __init__(self):
        self.turn = threading.Semaphore(0)
        self.lines = 0

    def __call__(self, s, _origin):
        b.read_request(s.makefile("rb"))
        s.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while self.turn.acquire(timeout=60) and self.lines >= 0:
            text = f"line {self.lines}\n".encode()
            s.sendall(f"{len(text):x}\r\n".encode() + text + b"\r\n")
        s.sendall(b"0\r\n\r\n")

    def line(self, a):
        """The next line has come to the box."""
        self.lines += 1
        self.turn.release()
        b.wait_until(f"line {self.lines}", lambda: f"line {self.lines}\n" in a.box_said("slow"))

    def end(self):
        self.lines = -1
        self.turn.release()


def while_the_broker_is_away_streams_go_on_and_new_grants_wait(bed):
    _origin(bed)
    slow, folder = _Slow(), programs(bed, "away")
    # On an address of its own: the bed's origin answers at once.
    server = b.Origin(bed, slow, address="203.0.113.11", cert=bed.cert("slow.test"))
    bed.dns.zone["slow.test"] = ["203.0.113.11"]
    a = Appliance(bed, {"api": POLICY}, SECRETS, exeat=f"{folder}/exeat")
    os.mkdir(f"{a.dir}/shared")
    a.start_box("slow", ["python3", "-c", SLOW], "api")
    b.wait_until("the slow request", lambda: server.connections)
    slow.line(a)
    a.start_box("asks", ["python3", "-c", BY_ADDRESS, "api.test"], "api", ["--workspace", f"{a.dir}/shared"])
    a.start_load("other", "api", "first.wide.test")
    a.goes_on("other")
    b.wait_until("its address", lambda: "address" in a.box_said("asks"))
    replace_program(folder, "broker", "while ! [ -e {folder}/go ]; do sleep 0.05; done\nexec {real}")
    os.kill(a.ready("broker")[0], signal.SIGKILL)
    b.wait_until("the broker to be away", lambda: not a.ready("broker"))
    os.close(os.open(f"{a.dir}/shared/0", os.O_CREAT | os.O_WRONLY))
    before = a.worker("other")
    os.kill(before, signal.SIGKILL)
    b.wait_until("its successor", lambda: a.worker("other") not in (None, before))
    for _ in range(5):
        slow.line(a)
    b.check(not a.ready("broker"), "the broker was away all the time", a.said())
    b.check("/address/0" not in [r.target for r in bed.origin.requests] and "\n0 " not in a.box_said("asks"),
            "a request that needs a grant has waited", a.box_said("asks"))
    os.close(os.open(f"{folder}/go", os.O_CREAT | os.O_WRONLY))
    b.wait_until("its answer", lambda: "\n0 200 True\n" in a.box_said("asks"))
    fields = [r.get("authorization") for r in bed.origin.requests if r.target == "/address/0"]
    b.check(fields == [f"Bearer {TOKEN}"], "with its credential", fields)
    a.goes_on("other", 2)
    slow.line(a)
    slow.end()
    b.wait_until("the slow answer's end", lambda: "over" in a.box_said("slow"))
    a.end()
    a.verify()
    lost = sorted((r["role"], r["signal"]) for r in a.records("worker_lost"))
    b.check(lost == [("broker", 9), ("worker", 9)], "these deaths and no other", lost, a.err)
    server.close()


# ---- too often ----

def three_crashes_of_a_worker_end_its_sandbox_and_no_other(bed):
    a = _start(bed)
    for n in range(3):
        before = b.wait_until("a worker", lambda: a.worker("one"))
        os.kill(before, signal.SIGSEGV)
        b.wait_until("its death on record", lambda: len(a.records("worker_lost", sandbox="one")) == n + 1)
        if n < 2:
            b.wait_until("another worker", lambda: a.worker("one") not in (None, before))
            a.goes_on("one", 2)
    stop = b.wait_until("the sandbox's end", lambda: a.records("sandbox_stop", sandbox="one"))
    b.check("died 3 times in a minute" in stop[0].get("reason", ""), "the record says why", stop)
    b.check("one" in a.said() and "died 3 times" in a.said(), "it is told", a.said())
    a.goes_on("two")
    b.check(not _others_failed(a, "two"), "no request of the other fails", _others_failed(a, "two"))
    b.check(not [s for s in a.get("sandboxes")["sandboxes"] if s["name"] == "one" and s["state"] == "running"],
            "it does not run any more")
    # Its name can be had again.
    a.start_load("one", "api", "api.test")
    _close(bed, a, [("worker", int(signal.SIGSEGV))] * 3)


def a_role_that_dies_too_often_ends_all_closed(bed):
    for role in ("dialer", "recorder"):
        a = _start(bed)
        for n in range(5):
            pids = b.wait_until(f"a {role}", lambda: a.ready(role))
            os.kill(pids[0], signal.SIGKILL)
            if n < 4:
                _successor(a, role, set(pids), time.monotonic())
        b.check(a.ended() == 1, "it ends", role, a.status, a.err)
        b.check("too often" in a.err, "it says why", role, a.err)
        _closed(bed, a)
        a.verify()
        _each_is_on_record_once(bed, a)
        b.check([(r["role"], r["signal"]) for r in a.records("worker_lost")] == [(role, 9)] * 5, "each is on record", a.err)
        b.check(a.record("stop")["ended"] == "a role died too often", "and why it ended")


def _closed(bed, a):
    """Nothing is left, and nothing comes to the origin any more."""
    b.wait_until("nothing to be left", lambda: not a.left_behind())
    before = bed.origin.connections
    b.check(not a.left_behind() and bed.origin.connections == before, "and nothing comes")


def both_launchers_dead_at_once_end_all_closed(bed):
    a = _start(bed)
    a.process.send_signal(signal.SIGSTOP)   # so that it hears of both at once
    for pid in a.children():
        if _name(pid) == "exeat-launcher":
            os.kill(pid, signal.SIGKILL)
    a.process.send_signal(signal.SIGCONT)
    b.check(a.ended() == 1, "it ends", a.status, a.err)
    b.check("nothing can be started any more" in a.err or a.record("stop")["ended"] == "nothing can be started any more",
            "it says why", a.err)
    _closed(bed, a)
    a.verify()
    _each_is_on_record_once(bed, a)


# ---- the supervisor ----

def _name(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
        return f.read().strip()


def _pids_of(a):
    found, todo = set(), [a.process.pid]
    children = collections.defaultdict(list)
    for line in subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]:
        pid, parent = map(int, line.split())
        children[parent].append(pid)
    while todo:
        found |= set(children[todo[-1]])
        todo += children[todo.pop()]
    return found


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            return f.read().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def the_supervisors_death_closes_all_and_the_next_start_says_what_it_found(bed):
    for sig in (signal.SIGKILL, signal.SIGSEGV):
        a = _start(bed)
        processes = _pids_of(a)
        b.check(len(processes) > 10, "its processes", processes)
        began = time.monotonic()
        os.kill(a.process.pid, sig)
        a.ended()
        b.wait_until("its processes to be gone", lambda: not [p for p in processes if _alive(p)])
        b.wait_until("nothing to be left", lambda: not a.left_behind())
        _tell_times(f"supervisor's {sig.name}", {"nothing is left after": time.monotonic() - began})
        _closed(bed, a)
        again = Appliance(bed, again=a)
        words = f"the appliance before this one (process {a.process.pid}, since "
        b.check(words in again.said() and "did not end in order" in again.said(), "it says what it found", again.said())
        again.start_load("one", "api", "api.test")
        again.goes_on("one")
        again.stop_box("one", "--kill")
        again.end()
        b.check(words in again.records("start")[-1].get("found", ""), "and so does the record", again.records("start"))
        again.verify()
        third = Appliance(bed, again=again)
        third.end()
        b.check("before this one" not in third.said() and not third.records("start")[-1].get("found"),
                "an end in order is none to tell of", third.said())


b.main(b.cases(globals()))
