"""Files on a disk that hangs: a file system that was mounted and that nobody serves. Who asked for them is told; nobody
else waits."""

import os
import pathlib
import signal
import subprocess

import appliance
import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
"""


class Hung:
    """A folder whose file system never answers; alive() puts an ordinary one in its place."""

    def __init__(self, path):
        self.path = path
        os.mkdir(path)
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0"
        b.check(b.LIBC.mount(b"hung", path.encode(), b"fuse.hung", 0, options.encode()) == 0, "it is mounted")

    def alive(self):
        os.close(self.fuse)     # whoever hangs there gets an error
        subprocess.run(["umount", "-l", self.path], check=True)


def _setup(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))


def _appliance(bed):
    _setup(bed)
    a = appliance.Appliance(bed, {"web": POLICY})
    a.start_box("other", ["sleep", "600"], "web")
    return a


def _goes_on(a, *what):
    done = a.command("sandbox", "exec", "other", "--", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "https://api.test/")
    b.check(done.returncode == 0 and done.stdout.endswith("200"), "the others go on", done.stdout, done.stderr, *what)


def _ask_in_background(a, *words):
    at = words.index("--") if "--" in words else len(words)
    return subprocess.Popen([b.EXEAT, *words[:at], "--socket", a.socket, *words[at:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            stdin=subprocess.DEVNULL)


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


def a_reload_of_a_file_that_hangs_changes_nothing_and_works_again_later(bed):
    a = _appliance(bed)
    folder = bed.path("hung-reload")
    os.mkdir(folder)
    pathlib.Path(f"{folder}/mine.yaml").write_text(POLICY, encoding="utf-8")
    done = a.command("sandbox", "start", "mine", "--policy", f"{folder}/mine.yaml", "--", "sleep", "600")
    b.check(done.returncode == 0, "it runs", done.stderr)
    before = a.sandbox("mine")["policy"]["digest"]
    os.rename(folder, folder + ".away")
    hung = Hung(folder)
    a.process.send_signal(signal.SIGHUP)
    asking = _ask_in_background(a, "policy", "reload")
    _goes_on(a)
    _, err = asking.communicate(timeout=90)
    b.check(asking.returncode == 1 and "does not answer" in err, "reported", asking.returncode, err)
    b.check(a.sandbox("mine")["policy"]["digest"] == before, "nothing has changed")
    hung.alive()
    os.rmdir(folder)
    os.rename(folder + ".away", folder)
    pathlib.Path(f"{folder}/mine.yaml").write_text(POLICY.replace("[api.test]", "[api.test, more.test]"), encoding="utf-8")
    done = a.command("policy", "reload")
    b.check(done.returncode == 0 and a.sandbox("mine")["policy"]["digest"] != before, "and works again", done)
    a.end()


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
