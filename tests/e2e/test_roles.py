"""What each role is while a box runs: what it may, what it holds, what it costs."""

import os
import pathlib
import re
import subprocess

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
"""
ROLES = ("recorder", "broker", "dialer", "worker")
NET_ADMIN, BIT = 12, lambda n: 1 << n

# Reads how many requests to make, makes them over connections of 20 each, and says that it is done.
REQUESTS = ("echo up; while read n; do for i in $(seq $((n / 20))); do "
            "curl -sS -o /dev/null \"https://api.test/[1-20]\" || echo failed; done; echo made; done")


def _start(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))
    run = bed.start(REQUESTS, POLICY, stdin=subprocess.PIPE)
    b.check(run.process.stdout.readline() == b"up\n", "the box is up")
    run.roles = {"supervisor": [run.process.pid]}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (entry / "stat").read_text(encoding="latin-1").partition(") ")
        except OSError:
            continue
        if rest and int(rest.split()[1]) == run.process.pid:
            run.roles.setdefault(name.split("(exeat-")[-1], []).append(int(entry.name))
    b.check(all(r in run.roles for r in ROLES), "all roles are there", run.roles)
    return run


def _make(run, n):
    run.process.stdin.write(f"{n}\n".encode())
    run.process.stdin.flush()
    line = run.process.stdout.readline()
    b.check(line == b"made\n", f"{n} requests are answered", line)


def _finish(run):
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    b.check(run.status == 0, "the run ends well", run.status, run.err)


def _status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def _each(run, roles=ROLES):
    return [(role, pid) for role in roles for pid in run.roles[role]]


def roles_have_no_capability_no_new_privileges_and_a_filter(bed):
    run = _start(bed)
    for role, pid in _each(run):
        status = _status(pid)
        for field in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"):
            b.check(int(status[field], 16) == 0, f"{role}: {field}", status[field])
        b.check(status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", f"{role}: filtered", status["Seccomp"])
        uids = set(status["Uid"].split())
        b.check(len(uids) == 1 and int(uids.pop()) >= 0x7fff0000, f"{role}: a user that nobody is", status["Uid"])
        b.check(status.get("Groups", "").strip() == "", f"{role}: no groups", status.get("Groups"))
    users = [_status(pid)["Uid"] for role in ROLES for pid in run.roles[role][:1]]
    b.check(len(set(users)) == len(users), "each has a user of its own", users)
    status = _status(run.process.pid)
    held = int(status["CapEff"], 16)
    b.check(held & BIT(NET_ADMIN) and bin(held).count("1") == 5, "the supervisor: CAP_NET_ADMIN and four more",
            status["CapEff"])
    b.check(int(status["CapBnd"], 16) == held and int(status["CapPrm"], 16) == held and status["NoNewPrivs"] == "1" and
            status["Seccomp"] == "2", "and no way to more", status["CapBnd"], status["CapPrm"], status["Seccomp"])
    _finish(run)


def roles_see_no_file_and_no_network_but_the_dialer(bed):
    run = _start(bed)
    host = os.readlink("/proc/self/ns/net")
    for role, pid in _each(run):
        b.check(os.listdir(f"/proc/{pid}/root/") == [], f"{role}: an empty root", os.listdir(f"/proc/{pid}/root/"))
        b.check(os.readlink(f"/proc/{pid}/cwd") == "/", f"{role}: nor a folder", os.readlink(f"/proc/{pid}/cwd"))
        network = os.readlink(f"/proc/{pid}/ns/net")
        b.check((network == host) == (role == "dialer"), f"{role}: its network", network, host)
        if role != "dialer":
            devices = pathlib.Path(f"/proc/{pid}/net/dev").read_text(encoding="utf-8").splitlines()[2:]
            b.check([d.split(":")[0].strip() for d in devices] == ["lo"], f"{role}: no interface", devices)
        for space in ("mnt", "ipc", "uts"):
            b.check(os.readlink(f"/proc/{pid}/ns/{space}") != os.readlink(f"/proc/self/ns/{space}"),
                    f"{role}: its own {space}")
        b.check(os.stat(f"/proc/{pid}/mem").st_uid == 0, f"{role}: not to be dumped")
    _finish(run)


def each_role_holds_only_the_descriptors_of_its_part(bed):
    run = _start(bed)
    links = {}
    for role, pid in _each(run, (*ROLES, "supervisor")):
        found = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        links.setdefault(role, found)
    for role in ("broker", "dialer", "worker"):
        files = [l for l in links[role] if l.startswith("/") and l != "/dev/null" and not l.startswith("/memfd:")]
        b.check(files == [], f"{role}: no file", files)
    files = [l for l in links["recorder"] if l.startswith("/") and l != "/dev/null" and not l.startswith("/memfd:")]
    b.check(files == [run.log_path], "recorder: the log and nothing else", files)
    _finish(run)


def the_programs_are_linked_with_what_they_need_alone(bed):
    folder = pathlib.Path(b.EXEAT).parent
    needs = {}
    for name in ("exeat", *(f"exeat-{r}" for r in (*ROLES, "reader"))):
        text = subprocess.run(["ldd", folder / name], capture_output=True, text=True, check=True).stdout
        needs[name] = set(re.findall(r"^\s*(lib[a-z]+)", text, re.M))
    b.check([n for n in needs if "libssl" in needs[n]] == ["exeat-worker"], "TLS is the worker's alone", needs)
    b.check([n for n in needs if "libcares" in needs[n]] == ["exeat-dialer"], "names are the dialer's alone", needs)
    b.check({n for n in needs if "libyaml" in needs[n]} == {"exeat", "exeat-reader"}, "YAML", needs)
    b.check({n for n in needs if "libnftnl" in needs[n]} == {"exeat"}, "nftables", needs)


def _cost(pid):
    """KiB: resident, and its proportional share."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return tuple(int(re.search(rf"^{k}:\s+(\d+)", text, re.M)[1]) for k in ("Rss", "Pss"))


def _descriptors(run):
    return {(role, i): len(os.listdir(f"/proc/{pid}/fd")) for role in (*ROLES, "supervisor")
            for i, pid in enumerate(run.roles[role])}


def requests_leave_no_descriptor_and_no_memory_behind(bed):
    run = _start(bed)
    _make(run, 100)
    b.wait_until("connections to end", lambda: len(run.records("connection", phase="close")) >= 5)
    idle, before = {p: _cost(p) for _, p in _each(run, (*ROLES, "supervisor"))}, _descriptors(run)
    _make(run, 1000)
    _make(run, 1000)
    b.wait_until("connections to end", lambda: len(run.records("connection", phase="close")) >= 105)
    b.wait_until("as many descriptors as before", lambda: _descriptors(run) == before, 10)
    for role, pid in _each(run, (*ROLES, "supervisor")):
        (rss, pss), (rss_after, pss_after) = idle[pid], _cost(pid)
        print(f"      {role:10} rss {rss} -> {rss_after} KiB, pss {pss} -> {pss_after} KiB")
        b.check(b.SANITIZED or rss_after - rss < 3072, f"{role} does not grow with the number of requests", rss, rss_after)
    _finish(run)
    b.check(len(run.records("request", verdict="allow")) == 2100, "and each is on record")


b.main(b.cases(globals()))
