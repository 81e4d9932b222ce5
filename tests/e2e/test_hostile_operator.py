"""An operator who is unlucky, and members of the control socket's group who mean harm: the appliance goes on."""

import fcntl
import os
import pathlib
import subprocess

import appliance as ap
import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
"""
GROUP, MEMBER = "nogroup", 65534


def _appliance(bed):
    """One for all cases; a case that has started another has ended it."""
    if not hasattr(bed, "hostile") or bed.hostile.process.poll() is not None:
        bed.hostile = ap.Appliance(bed, {"web": POLICY})
    return bed.hostile


def _with_group(bed):
    os.chmod(bed.dir, 0o711)
    a = ap.Appliance(bed, {"web": POLICY}, group=GROUP)
    os.chmod(a.dir, 0o711)
    return a


def _refused(a, *words, why):
    done = a.command(*words)
    b.check(done.returncode == 1 and why in done.stderr, f"it is refused: {why}", done)


def output_follows_no_link_that_a_box_has_planted(bed):
    a = _appliance(bed)
    folder, aim = f"{a.dir}/work", f"{a.dir}/roots-own"
    os.mkdir(folder)
    os.mkdir(f"{a.dir}/roots")
    done = a.command("sandbox", "start", "planter", "--wait", "--policy", "web", "--workspace", folder, "--", "sh", "-c",
                     f"ln -s {aim} /workspace/out && ln -s {a.dir}/roots /workspace/logs")
    b.check(done.returncode == 0, "the box has planted its links", done)
    for output in (f"{folder}/out", f"{folder}/logs/out"):
        _refused(a, "sandbox", "start", "writer", "--policy", "web", "--workspace", folder, "--output", output, "--",
                 "echo", "planted", why="symbolic link")
    b.check(not os.path.exists(aim) and not os.listdir(f"{a.dir}/roots"), "nothing was written where they lead to")
    done = a.command("sandbox", "start", "writer", "--wait", "--policy", "web", "--output", f"{a.dir}/plain", "--", "echo", "it")
    b.check(done.returncode == 0 and pathlib.Path(f"{a.dir}/plain").read_text() == "it\n", "a file is written as before", done)


def who_locks_a_folder_that_he_can_open_holds_up_nobody(bed):
    a = _appliance(bed)
    b.check(os.stat(f"{a.dir}/run").st_mode & 0o777 == 0o711, "the folder of the control socket is for passing through")
    boxes = os.open("/run/exeat", os.O_RDONLY)
    try:
        fcntl.flock(boxes, fcntl.LOCK_EX)
        done = a.command("sandbox", "start", "held", "--wait", "--policy", "web", "--", "true")
    finally:
        os.close(boxes)
    b.check(done.returncode == 0, "a box starts while the folder of all boxes is locked", done, a.said())
    folder = bed.path("locked")
    os.mkdir(folder)
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    settings = bed.settings(extra=f"log: {{path: {folder}/audit.jsonl}}\ncontrol: {{socket: {folder}/control.sock}}\n")
    done = subprocess.run([b.EXEAT, "serve", "--settings", settings], capture_output=True, text=True, check=False, timeout=60,
                          stdin=subprocess.DEVNULL)
    os.close(held)
    b.check(done.returncode != 0 and "locked by another process" in done.stderr, "an appliance says what is in its way", done)


# Connects as one user after the other, all of one group, until it is turned away.
MANY = r"""
import os, socket, sys
held = []
os.setgroups([int(sys.argv[2])])
for user in range(70001, 70009):
    os.setresuid(user, user, 0)
    for i in range(16):
        s = socket.socket(socket.AF_UNIX)
        s.connect(sys.argv[1])
        held.append(s)
    os.setresuid(0, 0, 0)
print(held[-1].recv(999).decode().split()[1], flush=True)
sys.stdin.read()
"""


def root_gets_through_where_members_hold_all_they_may(bed):
    a = _with_group(bed)
    many = subprocess.Popen(["python3", "-c", MANY, a.socket, str(MEMBER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    b.check(many.stdout.readline() == b"503\n", "all users together have a limit")
    done = a.command("sandbox", "start", "mine", "--policy", "web", "--wait", "--", "true")
    b.check(done.returncode == 0, "root is served meanwhile", done)
    many.communicate()
    a.end()


# Asks what is refused, time and again, as a member of the group.
FLOOD = r"""
import os, socket, sys
os.setgroups([int(sys.argv[2])])
os.setresuid(70001, 70001, 70001)
for n in range(2000):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.sendall(b"GET /v1/%s HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % (b"x" * 2000))
    assert s.recv(65536).startswith(b"HTTP/1.1 404 ")
    s.close()
"""


def a_member_cannot_fill_the_log_with_what_is_refused_to_him(bed):
    a = _with_group(bed)
    done = subprocess.run(["python3", "-c", FLOOD, a.socket, str(MEMBER)], capture_output=True, check=False, timeout=120)
    b.check(done.returncode == 0, "every request is answered", done.stderr)
    own = a.command("sandbox", "stop", "nothing")
    b.check(own.returncode == 1, "root's are told as ever", own)
    a.end()
    refused = a.records("control", verdict="deny")
    counted = sum(r.get("suppressed", 0) for r in refused)
    told = [r for r in refused if "suppressed" not in r and r["peer_uid"] != 0]
    b.check(counted > 0 and len(told) + counted == 2000, "each is told or counted", len(told), counted)
    b.check(any(r.get("peer_uid") == 0 and r["status"] == 404 for r in refused), "root's has its record", refused[-3:])


def exec_may_follow_a_start_at_once(bed):
    a = _appliance(bed)
    for n in range(5):
        a.start_box(f"quick{n}", ["sleep", "60"], "web")
        done = a.command("sandbox", "exec", f"quick{n}", "--", "echo", "in it")
        b.check(done.returncode == 0 and done.stdout == "in it\n", "the command runs in the box", done)
        a.stop_box(f"quick{n}", "--kill")


def a_start_with_too_few_descriptors_says_so(bed):
    folder = bed.path("few")
    os.mkdir(folder)
    settings = bed.settings(extra=f"log: {{path: {folder}/audit.jsonl}}\ncontrol: {{socket: {folder}/control.sock}}\n")
    for most in range(10, 25, 2):
        done = subprocess.run(["prlimit", f"--nofile={most}", b.EXEAT, "serve", "--settings", settings], capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
        b.check(done.returncode == 1 and done.stderr.startswith("exeat"), f"{most} are too few, and it says so", done)


def _file_system_that_never_answers(folder):
    os.mkdir(folder)
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    b.check(b.LIBC.mount(b"silent", folder.encode(), b"fuse", 0, options) == 0, "it is mounted")
    return fuse


def a_workspace_whose_disk_does_not_answer_holds_up_nobody_else(bed):
    a = ap.Appliance(bed, {"web": POLICY})
    folder = f"{a.dir}/silent"
    fuse = _file_system_that_never_answers(folder)
    launchers = sorted(a.ready("launcher"))
    where = {"--workspace": f"{folder}/work", "--rootfs": f"{folder}/root", "--output": f"{folder}/out"}
    waiting = [subprocess.Popen([b.EXEAT, "sandbox", "start", f"silent{n}", "--socket", a.socket, "--policy", "web", option,
                                 path, "--", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
               for n, (option, path) in enumerate([*where.items()] * 2)]
    b.wait_until("all to be on their way", lambda: a.get("status")["sandboxes"]["starting"] == len(waiting))
    done = a.command("sandbox", "start", "near", "--wait", "--policy", "web", "--", "true")
    b.check(done.returncode == 0, "another box starts meanwhile", done, a.said())
    b.check(all(p.poll() is None for p in waiting), "while they wait")
    stopped = a.command("sandbox", "stop", "silent0")
    b.check(stopped.returncode == 0, "one that waits is stopped", stopped)
    for p in waiting:
        err = p.communicate(timeout=60)[1]
        b.check(p.returncode == 1 and ("does not answer" in err or p is waiting[0]), "each is told why it did not start", err)
    b.check(sorted(a.ready("launcher")) == launchers, "no launcher was lost", a.said())
    os.close(fuse)
    a.end()
    b.check(a.left_behind() == [], "nothing is left", a.left_behind())


if __name__ == "__main__":
    b.main(b.cases(globals()))
