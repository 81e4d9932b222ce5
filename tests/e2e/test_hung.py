"""Files on a disk that hangs: a FUSE file system whose server does not answer. Who asked for them is told; nobody else
waits."""

import functools
import glob
import os
import pathlib
import signal
import struct
import subprocess
import threading

import appliance
import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
"""


FUSE_INIT, FUSE_VERSION = 26, (7, 31)
MNT_FORCE, MNT_DETACH = 1, 2


class Hung:
    """A folder whose file system never answers; alive() puts an ordinary one in its place. @taken: its server has begun
    to serve it and reads what is asked: then not even SIGKILL ends who waits for an answer."""

    left = []

    def __init__(self, path, taken=False):
        self.path = path
        os.mkdir(path)
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0"
        b.check(b.LIBC.mount(b"hung", path.encode(), b"fuse.hung", 0, options.encode()) == 0, "it is mounted")
        Hung.left.append(self)
        self.server = None
        if taken:
            self._begin()
            self.server = threading.Thread(target=self._take, daemon=True)
            self.server.start()

    def _begin(self):
        request = os.read(self.fuse, 1 << 17)
        _, opcode, unique = struct.unpack_from("<IIQ", request)
        b.check(opcode == FUSE_INIT, "it is asked to begin", opcode)
        init = struct.pack("<IIIIHHII32x", *FUSE_VERSION, 0, 0, 0, 0, 4096, 1)
        os.write(self.fuse, struct.pack("<IiQ", 16 + len(init), 0, unique) + init)

    def _take(self):
        try:
            while os.read(self.fuse, 1 << 17):
                pass
        except OSError:
            pass    # it is alive again

    def alive(self):
        Hung.left.remove(self)
        # Whoever hangs there gets an error, and so does the server; a disk that is busy then is one no more.
        if b.LIBC.umount2(self.path.encode(), MNT_FORCE) != 0:
            b.check(b.LIBC.umount2(self.path.encode(), MNT_DETACH) == 0, "it is unmounted")
        if self.server:
            self.server.join()
        os.close(self.fuse)


def _with_disks(test):
    """What a case that failed has left hung would hang whoever removes the bed's folder."""
    @functools.wraps(test)
    def case(bed):
        try:
            test(bed)
        finally:
            for hung in [*Hung.left]:
                hung.alive()
    return case


def _setup(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))


def _appliance(bed):
    _setup(bed)
    a = appliance.Appliance(bed, {"web": POLICY})
    a.start_box("other", ["sleep", "600"], "web")
    return a


def _askers():
    """Processes of this bed's that look at a disk, whether their launcher lives or not."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if "(exeat-asker)" in pathlib.Path(f"{path}/stat").read_text(encoding="latin-1") and \
                    os.stat(f"{path}/ns/net").st_ino == os.stat("/proc/thread-self/ns/net").st_ino:
                found.append(path)
        except OSError:
            pass
    return found


def _on_a_disk(bed, a, name):
    """A sandbox that runs, and whose policy lies in a folder of its own."""
    folder = bed.path(f"disk-{name}")
    os.mkdir(folder)
    path = f"{folder}/{name}.yaml"
    pathlib.Path(path).write_text(POLICY, encoding="utf-8")
    a.start_box(name, ["sleep", "600"], path)
    return folder, path


def _take_away(folder, taken):
    os.rename(folder, folder + ".away")
    return Hung(folder, taken)


def _bring_back(hung):
    hung.alive()
    os.rmdir(hung.path)
    os.rename(hung.path + ".away", hung.path)


def _goes_on(a, *what):
    done = a.command("sandbox", "exec", "other", "--", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "https://api.test/")
    b.check(done.returncode == 0 and done.stdout.endswith("200"), "the others go on", done.stdout, done.stderr, *what)


def _ask_in_background(a, *words):
    at = words.index("--") if "--" in words else len(words)
    return subprocess.Popen([b.EXEAT, *words[:at], "--socket", a.socket, *words[at:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            stdin=subprocess.DEVNULL)


@_with_disks
def a_policy_that_cannot_be_read_costs_who_asked_for_it_alone(bed):
    a = _appliance(bed)
    supervisor = a.process.pid
    hung = Hung(bed.path("hung-policy"))
    asking = _ask_in_background(a, "sandbox", "start", "stuck", "--policy", f"{hung.path}/web.yaml", "--", "true")
    for n in range(3):
        _goes_on(a, n)
        done = a.command("policy", "reload", "--sandbox", "other")
        b.check(done.returncode == 0, "so do reloads", done)
    _, err = asking.communicate(timeout=60)
    b.check(asking.returncode == 1 and "does not answer" in err, "told after its time", asking.returncode, err)
    b.check(a.process.poll() is None and a.process.pid == supervisor and not a.records("worker_lost"), "nobody was given up for it")
    hung.alive()
    done = a.command("sandbox", "start", "later", "--policy", "web", "--", "true")
    b.check(done.returncode == 0, "and afterwards all is as before", done.stderr)
    a.end()


def _digest(a, name):
    return a.sandbox(name)["policy"]["digest"]


@_with_disks
def a_reload_of_a_file_that_hangs_changes_nothing_and_works_again_later(bed):
    for taken in (False, True):
        a = _appliance(bed)
        folder, path = _on_a_disk(bed, a, f"mine{int(taken)}")
        name = f"mine{int(taken)}"
        before = {n: _digest(a, n) for n in ("other", name)}
        hung = _take_away(folder, taken)
        pathlib.Path(f"{a.dir}/policies/web.yaml").write_text(POLICY.replace("[api.test]", "[api.test, web.test]"), encoding="utf-8")
        a.process.send_signal(signal.SIGHUP)
        b.wait_until("SIGHUP's question to the disk", _askers)
        asking = _ask_in_background(a, "policy", "reload")
        b.check({n: _digest(a, n) for n in before} == before, "the control socket answers, and nothing has changed")
        _goes_on(a)
        _, err = asking.communicate(timeout=90)
        b.check(asking.returncode == 1 and f"{path}: the file system that it lies on does not answer" in err, "reported", err)
        b.check(a.said().count("a policy does not load, nothing is changed") == 1 and "does not answer" in a.said(),
                "SIGHUP's, too", a.said())
        b.check({n: _digest(a, n) for n in before} == before, "nothing has changed")
        rejected = a.records("policy_reject", file=path)
        b.check(len(rejected) == 2 and all("does not answer" in r["diagnostics"] for r in rejected), "on record", rejected)
        _bring_back(hung)
        b.wait_until("nobody to hang there", lambda: not _askers())
        pathlib.Path(path).write_text(POLICY.replace("[api.test]", "[api.test, more.test]"), encoding="utf-8")
        done = a.command("policy", "reload")
        b.check(done.returncode == 0 and all(_digest(a, n) != before[n] for n in before), "and works again", done)
        a.end()


@_with_disks
def a_reload_of_another_sandbox_does_not_wait_for_the_disk(bed):
    a = _appliance(bed)
    folder, path = _on_a_disk(bed, a, "apart")
    hung = _take_away(folder, True)
    before = _digest(a, "other")
    asking = _ask_in_background(a, "policy", "reload")
    b.wait_until("the disk to be asked", _askers)
    pathlib.Path(f"{a.dir}/policies/web.yaml").write_text(POLICY.replace("[api.test]", "[api.test, web.test]"), encoding="utf-8")
    done = a.command("policy", "reload", "--sandbox", "other")
    b.check(done.returncode == 0 and asking.poll() is None, "it is over before the one that waits", done, asking.poll())
    after = _digest(a, "other")
    b.check(after != before, "and in force")
    _, err = asking.communicate(timeout=60)
    b.check(asking.returncode == 1 and path in err and _digest(a, "other") == after, "the other changes nothing", err)
    _bring_back(hung)
    a.end()


@_with_disks
def roles_that_die_meanwhile_are_replaced(bed):
    a = _appliance(bed)
    folder, path = _on_a_disk(bed, a, "apart2")
    hung = _take_away(folder, True)
    asking = _ask_in_background(a, "policy", "reload")
    b.wait_until("the disk to be asked", _askers)
    pids = {role: a.ready(role)[0] for role in ("dialer", "broker", "launcher")}
    pids["worker"] = a.worker("other")
    for role in ("dialer", "broker", "worker", "launcher"):     # the last is who was asked
        os.kill(pids[role], signal.SIGKILL)
        b.wait_until(f"the {role}'s successor", lambda: (a.worker("other") if role == "worker" else
                                                         a.ready(role) and pids[role] not in a.ready(role)) not in
                     (None, [], False, pids[role]))
    b.wait_until("requests to be served", lambda: a.command("sandbox", "exec", "other", "--", "curl", "-sS", "https://api.test/")
                 .returncode == 0)
    _, err = asking.communicate(timeout=90)
    b.check(asking.returncode == 1 and f"{path}: the file system that it lies on does not answer" in err,
            "and who waits is told: another launcher was asked", err)
    _bring_back(hung)
    a.end()


@_with_disks
def so_many_hang_at_one_path_and_no_more(bed):
    a = _appliance(bed)
    hung = Hung(bed.path("hung-limit"), True)
    start = ("sandbox", "start", "stuck", "--policy", f"{hung.path}/web.yaml", "--", "true")
    for n in range(3):
        done = a.command(*start)
        b.check(done.returncode == 1 and "does not answer" in done.stderr, "it is told", done)
        b.check(len(_askers()) == min(n + 1, 2), "two wait for what nothing ends, and no third", _askers())
    _goes_on(a)
    hung.alive()
    b.wait_until("nobody to hang there", lambda: not _askers())
    pathlib.Path(f"{hung.path}/web.yaml").write_text(POLICY, encoding="utf-8")
    done = a.command(*start)
    b.check(done.returncode == 0, "then it starts", done)
    a.end()


@_with_disks
def the_end_does_not_wait_for_the_disk(bed):
    a = _appliance(bed)
    hung = Hung(bed.path("hung-end"), True)
    asking = _ask_in_background(a, "sandbox", "start", "stuck", "--policy", f"{hung.path}/web.yaml", "--", "true")
    b.wait_until("the disk to be asked", _askers)
    a.end()
    _, err = asking.communicate(timeout=60)
    b.check(asking.returncode == 1 and "ends" in err, "who waits is told", err)
    b.check(a.left_behind() == [], "nothing is left", a.left_behind())
    hung.alive()
    b.wait_until("nobody to hang there", lambda: not _askers())


@_with_disks
def a_namespace_that_cannot_be_opened_costs_who_asked_for_it_alone(bed):
    a = _appliance(bed)
    hung = Hung(bed.path("hung-netns"))
    asking = _ask_in_background(a, "sandbox", "attach", "stuck", "--netns", f"{hung.path}/net", "--policy", "web")
    for n in range(3):
        _goes_on(a, n)
    done = a.command("sandbox", "start", "next", "--policy", "web", "--", "true")
    b.check(done.returncode == 0, "others start meanwhile", done.stderr)
    _, err = asking.communicate(timeout=60)
    b.check(asking.returncode == 1 and "does not answer" in err, "told after its time", asking.returncode, err)
    hung.alive()
    a.end()


if __name__ == "__main__":
    b.main(b.cases(globals()))
