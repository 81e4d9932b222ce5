"""Many sandboxes at once in one `exeat serve`: all come up, none reaches another, and nothing is left of them."""

import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import time

import appliance
import bed as b
import namespace

MANY, BOXES = 40, 3
NOTICE = 80


def _policy(*hosts):
    return ("exeat: 1\nprecedence: deny-over-allow\nallow:\n"
            f"  - {{id: web, hosts: [{', '.join(hosts)}], protocol: http}}\n")


def _own(name):
    return _policy(f"{name}.test")


def _all_names():
    return [f"n{i}" for i in range(MANY)] + [f"box{i}" for i in range(BOXES)]


def _prepare(bed):
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), port=80)
        for name in _all_names():
            bed.dns.zone[f"{name}.test"] = ["203.0.113.10"]


def _appliance(bed, **more):
    _prepare(bed)
    return appliance.Appliance(bed, {name: _own(name) for name in _all_names()}, **more)


def _attach(a, name, ns, policy=None):
    return a.command("sandbox", "attach", name, "--netns", ns if isinstance(ns, str) else ns.path, "--policy",
                     policy or name)


def _works(ns, name):
    """Does it reach what its policy allows?"""
    address = ns.resolve(f"{name}.test", ns.gateway())
    b.check(isinstance(address, str), f"{name} resolves its name", address)
    got = ns.get(address, f"{name}.test", f"/{name}")
    b.check(got.startswith("HTTP/1.1 200") and f"/{name}" in got, f"{name} reaches it", got)
    return address


def _attach_all(a, namespaces, at_once=8):
    def one(name):
        begun = time.monotonic()
        done = _attach(a, name, namespaces[name])
        return name, done, time.monotonic() - begun
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, namespaces))


def _stop_all(a):
    names = [s["name"] for s in a.get("sandboxes")["sandboxes"] if s["state"] in ("starting", "running", "stopping")]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for name, done in zip(names, pool.map(lambda n: a.command("sandbox", "stop", n, "--kill"), names)):
            b.check(done.returncode == 0, f"{name} stops", done.stderr)
    return len(names)


# ---- what is held ----


def _fds(pid):
    """What a process holds: {kind: how many}."""
    held = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            kind = re.sub(r"[0-9]+|/memfd:.*", "", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
        held[kind] = held.get(kind, 0) + 1
    return held


def _links_of(a):
    """Interfaces of all the namespaces that the supervisor holds (its gateway is one)."""
    names, ours = [], os.readlink("/proc/self/ns/net")
    for fd in os.listdir(f"/proc/{a.process.pid}/fd"):
        path = f"/proc/{a.process.pid}/fd/{fd}"
        try:
            what = os.readlink(path)
            if what.startswith("net:") and what != ours:
                ns = namespace.Namespace(os.open(path, os.O_RDONLY))
                names += [f"{n}@{what}" for n in ns.interfaces() if n != "lo"]
                ns.close()
        except FileNotFoundError:
            continue        # closed meanwhile
    return names


def _state(a):
    shared = {r["role"]: r["pid"] for r in a.get("status")["roles"]}
    held = {role: _fds(pid) for role, pid in [("supervisor", a.process.pid), *shared.items()]}
    cgroups = sum(f"run-{a.process.pid}-" in d for _, there, _ in os.walk("/sys/fs/cgroup") for d in there)
    folders = [str(p) for p in pathlib.Path("/run/exeat").glob(f"*run-{a.process.pid}-*")]
    return {"descriptors": held, "links": _links_of(a), "children": len(a.children()), "cgroups": cgroups,
            "folders": folders}


# ---- cases ----


def all_come_up_and_each_reaches_only_its_own(bed):
    a = _appliance(bed)
    bed.many = a
    bed.namespaces = {f"n{i}": namespace.Namespace() for i in range(MANY)}
    came = _attach_all(a, bed.namespaces)
    up = [name for name, done, _ in came if done.returncode == 0]
    print(f"      {len(up)} of {MANY} attached; slowest {max(s for *_, s in came):.2f} s")
    b.check(len(up) == MANY, "all are attached", [(n, d.stderr) for n, d, _ in came if d.returncode], a.said())
    for i in range(BOXES):
        a.start_box(f"box{i}", ["sh", "-c", f"curl -s http://box{i}.test/box{i}; curl -s http://box{i}x.test/; "
                                            "curl -s http://exeat.internal/refusals; echo done; sleep 3600"], f"box{i}")
    b.check(a.get("status")["sandboxes"]["running"] == MANY + BOXES, "all run", a.get("status"))
    bed.addresses, gateways = {}, {name: ns.gateway() for name, ns in bed.namespaces.items()}
    b.check(len(set(gateways.values())) == MANY, "each has a gateway address of its own", gateways)
    for n, (name, ns) in enumerate(bed.namespaces.items()):
        bed.addresses[name] = _works(ns, name)
        other = f"n{(n + 1) % MANY}"
        refusal = ns.resolve(f"{other}.test", gateways[name])
        b.check(refusal != bed.addresses[name] and ns.get(refusal, f"{other}.test") == "ConnectionRefusedError",
                f"{name} does not reach another's name", refusal)
        b.check(ns.get(bed.addresses[name], f"{other}.test").startswith("HTTP/1.1 4"), "nor reaches it by its own's address")
    for i in range(BOXES):
        said = b.wait_until(f"box{i}", lambda: (t := a.box_said(f"box{i}")).endswith("done\n") and t)
        b.check(f"/box{i}" in said, "the boxes reach theirs", said)
    for name in _all_names():
        r = [r for r in a.records("request", sandbox=name, verdict="allow") if r["host"] != "exeat.internal"]
        b.check(r and all(x["host"] == f"{name}.test" for x in r), f"{name}'s requests are on record as its own", r)


def none_reaches_another(bed):
    a, names = bed.many, list(bed.namespaces)
    for n, name in enumerate(names):
        ns, other = bed.namespaces[name], names[(n + 7) % MANY]
        theirs = bed.namespaces[other]
        address = a.sandbox(other)["address"]
        listener = theirs.run(lambda: socket.create_server((address, 8080)))
        probes = {"its box": (address, 8080), "its notice page": (theirs.gateway(), NOTICE), "its lease": (bed.addresses[other], 81)}
        for what, (to, port) in probes.items():
            got = ns.get(to, "x.test", port=port, seconds=3)
            b.check(not got.startswith("HTTP") and got in ("ConnectionRefusedError", "TimeoutError", "OSError"),
                    f"{name} does not reach {what} of {other}", to, port, got)
        listener.settimeout(0)
        try:
            listener.accept()
            raise b.Failure(f"{name} reached a listener of {other}")
        except BlockingIOError:
            pass
        listener.close()
        # Port 53 of any gateway address is the asker's own resolver.
        refusal = ns.resolve(f"{other}.test", theirs.gateway())
        b.check(refusal != bed.addresses[other] and ns.get(refusal, "x.test") == "ConnectionRefusedError",
                f"{other}'s gateway resolves nothing of it for {name}", refusal)
    for n, name in enumerate(names):
        other = names[(n + 7) % MANY]
        b.check(a.records("dns", sandbox=name, name=f"{other}.test", verdict="deny"), f"{name} itself is on record for it")
        asked = {r["name"] for r in a.records("dns", sandbox=name)}
        b.check(asked == {f"{o}.test" for o in (name, other, names[(n + 1) % MANY])}, "and for nothing else", asked)


def a_notice_page_tells_of_its_own_refusals_alone(bed):
    a = bed.many
    for name, ns in bed.namespaces.items():
        refusal = ns.resolve(f"refused-{name}.test", ns.gateway())
        b.check(ns.get(refusal, "x.test") == "ConnectionRefusedError", "it is refused", refusal)
    for name, ns in bed.namespaces.items():
        page = ns.get(ns.gateway(), "exeat.internal", "/refusals")
        told = set(re.findall(r"refused-(n\d+)\.test", page))
        b.check(told == {name}, f"{name}'s page tells of its own", told, page[:500])
        page = ns.get(ns.gateway(), "exeat.internal", "/policy")
        told = set(re.findall(r"\b(n\d+|box\d)\.test", page))
        b.check(told == {name}, f"{name}'s policy page, too", told, page[:500])
    for i in range(BOXES):
        said = a.box_said(f"box{i}")
        b.check(set(re.findall(r"(box\dx|n\d+)\.test", said)) == {f"box{i}x"}, "and a box's", said)


def all_are_stopped_and_nothing_is_left(bed):
    a = bed.many
    print(f"      {_stop_all(a)} stopped")
    b.check(a.get("status")["sandboxes"] == {"starting": 0, "running": 0, "stopping": 0}, "none runs", a.get("status"))
    for name, ns in bed.namespaces.items():
        b.check(ns.interfaces() == ["lo"], f"{name}'s wire is gone", ns.interfaces())
    states = [b.wait_until("its links to go", lambda: (s := _state(a))["links"] == [] and s)]
    for n in range(3):
        came = _attach_all(a, bed.namespaces)
        b.check(all(d.returncode == 0 for _, d, _ in came), "all come up again", [d.stderr for _, d, _ in came])
        for i in range(BOXES):
            a.start_box(f"box{i}", ["sleep", "3600"], f"box{i}")
        _works(bed.namespaces["n3"], "n3")
        _stop_all(a)
        same = lambda: (s := _state(a)) == states[0] and s
        try:
            b.wait_until("round", same, 10)
        except AssertionError:
            raise b.Failure(f"after round {n + 1} something is left", states[0], _state(a)) from None
    print("      the supervisor's descriptors, before and after each of 3 rounds:",
          sum(states[0]["descriptors"]["supervisor"].values()))
    a.end()
    a.verify()
    b.check(a.left_behind() == [], "nothing is left", a.left_behind())
    stops = a.records("sandbox_stop")
    b.check(len(stops) == 4 * (MANY + BOXES), "each end is on record", len(stops))


def the_limit_of_sandboxes_is_told(bed):
    a = _appliance(bed, extra="limits: {sandboxes: 3}\n")
    spaces = [namespace.Namespace() for _ in range(4)]
    for i in range(3):
        done = _attach(a, f"n{i}", spaces[i])
        b.check(done.returncode == 0, "three are let in", done.stderr)
    done = _attach(a, "n3", spaces[3])
    b.check(done.returncode == 1 and "limits.sandboxes allows 3 at once" in done.stderr, "the fourth is not", done)
    r = b.wait_until("its record", lambda: a.records("control", sandbox="n3", verdict="deny"))[0]
    b.check(r["status"] == 409 and "limits.sandboxes" in r["reason"], "that is on record", r)
    b.check(spaces[3].interfaces() == ["lo"], "its namespace is as it was", spaces[3].interfaces())
    b.check(a.command("sandbox", "stop", "n0").returncode == 0, "when one has stopped")
    b.check(_attach(a, "n3", spaces[3]).returncode == 0, "there is room for it")
    _works(spaces[3], "n3")
    _works(spaces[1], "n1")
    _stop_all(a)
    a.end()


def many_sandboxes_take_one_large_policy(bed):
    a = _appliance(bed)
    spaces = {f"n{i}": namespace.Namespace() for i in range(MANY)}
    text = _policy(*(f"n{i}.test" for i in range(MANY)), "spare.test")
    pathlib.Path(f"{a.dir}/policies/all.yaml").write_text(text, encoding="utf-8")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        came = list(pool.map(lambda name: _attach(a, name, spaces[name], "all"), spaces))
    b.check(all(d.returncode == 0 for d in came), "all are attached", [d.stderr for d in came])
    hosts = (f"h{n}.zone{n % 1000}.test" for n in range(50000))
    pathlib.Path(f"{a.dir}/policies/all.yaml").write_text(
        _policy(*(f"n{i}.test" for i in range(MANY)), *hosts), encoding="utf-8")
    begun = time.monotonic()
    done = a.command("policy", "reload", "--json")
    took = time.monotonic() - begun
    b.check(done.returncode == 0, "it is read again", done.stderr, a.said())
    answer = json.loads(done.stdout)
    b.check((answer["files"], answer["changed"], answer["waiting"]) == (1, MANY, 0), "all have taken it", answer)
    print(f"      50,000 hosts in {MANY} sandboxes: {took:.2f} s")
    b.check(len({s["policy"]["digest"] for s in a.get("sandboxes")["sandboxes"]}) == 1, "it is one policy")
    for name, ns in spaces.items():
        _works(ns, name)
    b.check(not a.records("worker_lost"), "no role was given up", a.records("worker_lost"))
    _stop_all(a)
    a.end()


def what_cannot_be_attached_is_refused_in_words(bed):
    a = _appliance(bed, extra="")
    other, good, file = namespace.Namespace(), namespace.Namespace(), bed.write("no-namespace", "x")
    other.run(lambda: b.sh("ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1"))
    cases = [("n0", other, "File exists"), ("n1", "/run/netns/there-is-none", "No such file"), ("n2", file, "no network namespace"),
             ("n3", "/proc/self/ns/mnt", "no network namespace"), ("n4", "/", "no network namespace")]
    for name, ns, word in cases:
        done = _attach(a, name, ns)
        b.check(done.returncode == 1 and word in done.stderr and "the kernel lacks" not in done.stderr, f"{ns} is refused in words", done.returncode, done.stderr)
        print("     ", done.stderr.strip().splitlines()[-1][:160])
        r = b.wait_until("its record", lambda: a.records("control", sandbox=name, verdict="deny"))[0]
        b.check(word in r["reason"], "and on record", r)
    b.check(other.interfaces() == ["d0", "d1", "lo"], "what is there stays as it was", other.interfaces())
    b.check(_attach(a, "n5", good).returncode == 0, "a good one is attached after all that")
    _works(good, "n5")
    done = _attach(a, "n6", good)
    b.check(done.returncode == 1 and "File exists" in done.stderr, "only once", done.stderr)
    b.check(a.get("status")["sandboxes"]["running"] == 1, "nothing hangs on", a.get("status"))
    _works(good, "n5")
    _stop_all(a)
    a.end()


def who_is_not_root_attaches_nothing(bed):
    _prepare(bed)
    os.chmod(bed.dir, 0o711)
    a = appliance.Appliance(bed, {"n0": _own("n0")}, again=None, extra="")
    os.chmod(a.dir, 0o711)
    ns = namespace.Namespace()
    os.chmod(f"{a.dir}/run", 0o755)
    done = subprocess.run(["setpriv", "--reuid=61234", "--regid=61234", "--clear-groups", b.EXEAT, "sandbox", "attach", "n0",
                           "--socket", a.socket, "--netns", ns.path, "--policy", "n0"], capture_output=True, text=True,
                          check=False)
    b.check(done.returncode != 0 and "you may not control this appliance" in done.stderr, "a stranger is refused", done)
    os.chmod(a.socket, 0o666)       # as far as the file lets him: the appliance asks who he is
    body = json.dumps({"name": "n0", "policy": "n0", "netns": ns.path})
    done = subprocess.run(["setpriv", "--reuid=61234", "--regid=61234", "--clear-groups", "curl", "-sS", "-X", "POST",
                           "--unix-socket", a.socket, "-H", "content-type: application/json", "-d", body, "-w",
                           "%{http_code}", "http://exeat/v1/sandboxes"], capture_output=True, text=True, check=False)
    b.check(done.stdout.endswith("403"), "by the appliance itself, too", done)
    r = b.wait_until("its record", lambda: a.records("control", verdict="deny", peer_uid=61234))[0]
    b.check(r["status"] == 403, "on record", r)
    b.check(ns.interfaces() == ["lo"] and a.get("status")["sandboxes"]["running"] == 0, "nothing is attached")
    a.end()


def thirty_clients_at_once_all_succeed(bed):
    a = _appliance(bed)
    spaces = {f"n{i}": namespace.Namespace() for i in range(32)}
    def timed(name):
        begun = time.monotonic()
        done = _attach(a, name, spaces[name])
        return done, time.monotonic() - begun
    done, first = timed("n0")
    b.check(done.returncode == 0, "the first", done.stderr)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        came = list(pool.map(timed, [f"n{i}" for i in range(1, 31)]))
    burst = time.monotonic() - begun
    b.check(all(d.returncode == 0 for d, _ in came), "all succeed", [d.stderr for d, _ in came if d.returncode], a.said())
    done, last = timed("n31")
    b.check(done.returncode == 0, "the last", done.stderr)
    for name, ns in spaces.items():
        _works(ns, name)
    print(f"      one {first:.2f} s; 30 at once {burst:.2f} s, the slowest {max(s for _, s in came):.2f} s; the last {last:.2f} s")
    _stop_all(a)
    a.end()


def where_descriptors_run_out_it_is_said_and_nothing_dies(bed):
    a = _appliance(bed, descriptors=256)
    spaces, up, refused = {}, [], []
    pids = {r["pid"] for r in a.get("status")["roles"]}
    for i in range(MANY):
        name = f"n{i}"
        spaces[name] = namespace.Namespace()
        done = _attach(a, name, spaces[name])
        (up if done.returncode == 0 else refused).append((name, done))
        if len(refused) == 3:
            break
    print(f"      with 256 descriptors: {len(up)} sandboxes; then: {refused[0][1].stderr.strip()[:200] if refused else '-'}")
    b.check(len(up) >= 5, "some are let in", len(up), a.said())
    for name, done in refused:
        b.check(done.returncode == 1 and "refused" in done.stderr and ("descriptor" in done.stderr or "open files" in done.stderr),
                "what runs out is said", name, done.stderr, a.said())
    b.check({r["pid"] for r in a.get("status")["roles"]} == pids, "no role died", a.get("status"), a.said())
    b.check(not a.records("worker_lost"), "no worker, either", a.records("worker_lost"))
    for name, _ in up:
        _works(spaces[name], name)
    if refused:
        _stop_all(a)
        name = refused[0][0]
        done = _attach(a, name, spaces[name])
        b.check(done.returncode == 0, "there is room again", done.stderr, a.said())
        _works(spaces[name], name)
    _stop_all(a)
    a.end()


if __name__ == "__main__":
    b.main(b.cases(globals()))
