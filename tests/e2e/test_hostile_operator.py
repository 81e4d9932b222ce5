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


if __name__ == "__main__":
    b.main(b.cases(globals()))
