"""An operator who is unlucky, and members of the control socket's group who mean harm: the appliance goes on."""

import fcntl
import os
import pathlib
import socket
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
    if not hasattr(bed, "hostile"):
        os.chmod(bed.dir, 0o711)
        bed.hostile = ap.Appliance(bed, {"web": POLICY})
        os.chmod(bed.hostile.dir, 0o711)
    return bed.hostile


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
    a = ap.Appliance(bed, {"web": POLICY}, group=GROUP)
    os.chmod(a.dir, 0o711)
    many = subprocess.Popen(["python3", "-c", MANY, a.socket, str(MEMBER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    b.check(many.stdout.readline() == b"503\n", "all users together have a limit")
    done = a.command("sandbox", "start", "mine", "--policy", "web", "--wait", "--", "true")
    b.check(done.returncode == 0, "root is served meanwhile", done)
    many.communicate()
    a.end()


if __name__ == "__main__":
    b.main(b.cases(globals()))
