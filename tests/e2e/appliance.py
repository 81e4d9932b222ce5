"""An `exeat serve` of a test's own (settings, socket, log, policies in the bed's folder), and boxes with load in it."""

import glob
import http.client
import json
import os
import pathlib
import resource
import re
import shutil
import socket
import subprocess

import bed as b

# Threads that ask one after the other: "fresh" ones on a new connection each time, "kept" ones on one that is
# used again. A line for each request: its path, and the status or the error. Ends when its input does.
LOAD = r"""
import http.client, ssl, sys, threading, time
name, host, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
context = ssl.create_default_context()
out = threading.Lock()

def say(*words):
    with out:
        print(*words, flush=True)

def ask(how):
    kept = None
    for n in range(1000000):
        path = f"/{name}/{how}/{n}"
        try:
            if not kept or how.startswith("fresh"):
                kept = http.client.HTTPSConnection(host, timeout=40, context=context)
            kept.request("GET", path)
            got = kept.getresponse()
            got.read()
            say(path, got.status)
            if how.startswith("fresh"):
                kept.close()
        except Exception as e:
            say(path, type(e).__name__, e)
            kept.close()
            kept = None
        time.sleep(0.02)

for n in range(threads):
    threading.Thread(target=ask, args=(("fresh" if n % 2 else "kept") + str(n),), daemon=True).start()
time.sleep(3600)
"""


def programs(bed, name):
    """A folder with all of Exeat's programs, whose files can be put in another's place."""
    folder = bed.path(name)
    os.mkdir(folder)
    here = os.path.dirname(os.path.abspath(b.EXEAT))
    for program in os.listdir(here):
        if re.fullmatch("exeat-[a-z]+", program):
            os.symlink(os.path.join(here, program), os.path.join(folder, program))
    # It looks for the others beside itself, and would find those that a link leads to.
    shutil.copy(os.path.join(here, "exeat"), f"{folder}/exeat")
    return folder


def replace_program(folder, role, script):
    """From now on that role is a script; {real} in it is the program itself."""
    path = f"{folder}/exeat-{role}"
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\n{script.format(real=os.path.realpath(path), folder=folder)}\n")
    os.chmod(path + ".new", 0o755)
    os.rename(path + ".new", path)


class _Local(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("exeat", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


class Appliance(b.Run):
    """One that is ready, or, with ready=False, one that is being started. @again: on the same files."""

    last = None     # one that a case which failed has left would be in the next one's way

    @staticmethod
    def put_away():
        """Ends one that a case which failed has left: what its boxes ask for is not the next case's."""
        if Appliance.last and Appliance.last.process.poll() is None:
            Appliance.last.process.kill()
            Appliance.last.ended()

    def __init__(self, bed, policies=None, secrets=None, extra="", again=None, ready=True, exeat=b.EXEAT, group=None, descriptors=None,
                 **popen):
        Appliance.put_away()
        Appliance.last = self
        bed.runs += 1
        self.exeat, self.boxes = exeat, []
        self.dir = again.dir if again else bed.path(f"appliance{bed.runs}")
        if not again:
            os.makedirs(f"{self.dir}/policies")
        for name, text in (policies or {}).items():
            pathlib.Path(f"{self.dir}/policies/{name}.yaml").write_text(text, encoding="utf-8")
        self.socket = f"{self.dir}/run/control.sock"
        log = f"{self.dir}/audit.jsonl"
        self.settings = again.settings if again else bed.settings(
            secrets, f"log: {{path: {log}}}\ncontrol: {{socket: {self.socket}{f', group: {group}' if group else ''}}}\n"
                     f"policies: {{directory: {self.dir}/policies}}\n" + extra)
        self.errors = f"{self.dir}/errors{bed.runs}"

        def prepare():
            b.LIBC.prctl(1, 9)      # it dies with the test, also where a case has failed and left it
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        with open(self.errors, "wb") as f:
            super().__init__(bed, subprocess.Popen([exeat, "serve", "--settings", self.settings], stdout=f, stderr=f,
                                                   stdin=subprocess.DEVNULL, preexec_fn=prepare,
                                                   **popen), log)
        self.status = None
        if ready:
            b.wait_until("the appliance to be ready", self._is_ready)

    def _is_ready(self):
        b.check(self.process.poll() is None, "the appliance lives", self.said())
        return "exeat: ready" in self.said()

    def said(self):
        return pathlib.Path(self.errors).read_text(encoding="utf-8", errors="replace")

    # ---- commands ----

    def command(self, *words):
        """`exeat WORDS`."""
        at = words.index("--") if "--" in words else len(words)
        return subprocess.run([self.exeat, *words[:at], "--socket", self.socket, *words[at:]], capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)

    def start_box(self, name, command, policy, options=()):
        """A box; what its command says is what box_said() gives."""
        done = self.command("sandbox", "start", name, "--policy", policy, "--output", f"{self.dir}/{name}.out", *options,
                            "--", *command)
        b.check(done.returncode == 0, f"{name} starts", done.stdout, done.stderr, self.said())
        self.boxes.append(name)

    def box_said(self, name):
        try:
            return pathlib.Path(f"{self.dir}/{name}.out").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def stop_box(self, name, *options):
        done = self.command("sandbox", "stop", name, *options)
        b.check(done.returncode == 0, f"{name} stops", done.stdout, done.stderr, self.said())

    def get(self, path):
        """An object of the control socket."""
        c = _Local(self.socket)
        try:
            c.request("GET", "/v1/" + path)
            return json.loads(c.getresponse().read())
        finally:
            c.close()

    def sandbox(self, name):
        return next((s for s in self.get("sandboxes")["sandboxes"] if s["name"] == name), None)

    def ready(self, role):
        """Process numbers of those of a role that are ready."""
        return [r["pid"] for r in self.get("status")["roles"] if r["role"] == role and r["state"] == "ready"]

    def worker(self, name):
        """Of a sandbox that runs: its worker's process, or None."""
        pid = self.get(f"sandboxes/{name}").get("worker", {}).get("pid")
        return pid if pid and os.path.exists(f"/proc/{pid}") else None

    # ---- the end ----

    def ended(self, seconds=60):
        """Waits until it has; its status."""
        try:
            self.status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise b.Failure("exeat serve did not end", self.said()) from None
        self.err = self.said()
        return self.status

    def end(self):
        """In order."""
        self.process.terminate()
        b.check(self.ended() == 0, "it ends in order", self.status, self.err)

    def children(self):
        """Its processes, whatever they are."""
        found = []
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, encoding="latin-1") as f:
                    stat = f.read()
            except OSError:
                continue
            if int(stat.rpartition(") ")[2].split()[1]) == self.process.pid:
                found.append(int(stat.split()[0]))
        return found

    def left_behind(self):
        """What bears its boxes' names: mounts, folders, control groups, processes; and its children."""
        name = f"run-{self.process.pid}-"
        mounts = [m for m in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines() if name in m]
        folders = [str(p) for p in pathlib.Path("/run/exeat").glob("*") if name in p.name]
        cgroups = [os.path.join(path, d) for path, there, _ in os.walk("/sys/fs/cgroup") for d in there if name in d]
        processes = subprocess.run(["ps", "-eo", "pid,ppid,stat,args"], capture_output=True, text=True,
                                   check=True).stdout.splitlines()
        return mounts + folders + cgroups + [p for p in processes
                                             if name in p or p.split()[1] == str(self.process.pid)]

    # ---- load ----

    def start_load(self, name, policy, host, threads=4):
        self.start_box(name, ["python3", "-c", LOAD, name, host, str(threads)], policy)

    def answers(self, name):
        """{path: what came} of a load's requests that are over."""
        lines = [line.split(" ", 1) for line in self.box_said(name).splitlines(True) if line.endswith("\n")]
        return {line[0]: line[1].strip() for line in lines if len(line) == 2}

    def goes_on(self, name, requests=40):
        """Waits until a load has had so many more answers of each kind (new connections, kept ones)."""
        count = lambda how: sum(how in path and got == "200" for path, got in self.answers(name).items())
        before = {how: count(how) for how in ("kept", "fresh")}
        for how, n in before.items():
            b.wait_until(f"{name}'s requests on {how} connections to go on", lambda: count(how) >= n + requests // 2, 60)
