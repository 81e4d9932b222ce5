#!/usr/bin/env python3
"""demo.py BUILD: the main job, for real, on one machine and with no outside network.

An origin with TLS and a CA of its own, and a DNS server, live in a network namespace made for this.
A box runs behind Exeat. What the box sees is printed as it happens; then comes the audit log. At the
end an appliance keeps two boxes, through the death of a process and through a new policy.
Exit status 0 only if each step went as told."""

import atexit
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
sys.dont_write_bytecode = True
os.environ["EXEAT"] = os.path.abspath(os.path.join(sys.argv[1], "exeat"))

import bed as testbed  # noqa: E402

TOKEN = "demo-token-" + os.urandom(12).hex()

POLICY = """exeat: 1
precedence: deny-over-allow

credentials:
  demo: {kind: bearer, secret: demo_token, hosts: [api.demo.test]}

allow:
  - id: demo-api
    hosts: [api.demo.test]
    methods: [GET]
    credential: demo

deny:
  - id: no-admin
    hosts: [api.demo.test]
    paths: [/admin/**]
    reason: Administration is done by people. Ask ops@demo.test.
"""

# What runs in the box: unmodified curl. "@ NAME" lines tell the demo where a step begins.
STEPS = r"""
try() { echo "@ $1"; shift; echo "box\$ $*"; "$@"; echo "(curl's exit code: $?)"; }
try whoami    curl -sS https://api.demo.test/whoami
n=$( (env; cat /proc/*/environ; find /etc /home /workspace /tmp /run -type f -exec cat {} + ) 2>/dev/null | grep -ac demo-token-[0-9a-f])
echo "@ nowhere"; echo "the box's environment, processes and files, searched from within: $n traces of the token"
try mirror    curl -sS https://api.demo.test/mirror
try admin     curl -sS https://api.demo.test/admin/users
refused() { try "$1" curl -sSv -w 'after %{time_total} s\n' "$2" 2>&1 | grep -E '^@|failed: |^after|exit code' | sed "s,^@.*,&\nbox\$ curl $2,"; }
refused host      https://evil.test/
refused port      https://api.demo.test:8443/
refused literal   http://203.0.113.10/
refused metadata  http://169.254.169.254/latest/meta-data/
"""

EXPECT = {
    "whoami": ["hello, holder of the demo token", "exit code: 0"],
    "nowhere": ["0 traces"],
    "mirror": ["Bearer [exeat:demo", "exit code: 0"],
    "admin": ['"rule":"no-admin"', "Administration is done by people", "exit code: 0"],
    "host": ["onnection refused", "exit code: 7"],
    "port": ["onnection refused", "exit code: 7"],
    "literal": ["onnection refused", "exit code: 7"],
    "metadata": ["onnection refused", "exit code: 7"],
}


def api(request, _origin):
    authorization = request.get("authorization", "")
    if authorization != f"Bearer {TOKEN}":
        return testbed.answer(401, "who are you?\n", reason="Unauthorized")
    if request.target == "/mirror":
        return testbed.answer(200, f"you sent: authorization: {authorization}\n")
    return testbed.answer(200, "hello, holder of the demo token\n")


def show(run):
    """Prints the box's output as it comes; returns it by step."""
    steps, name = {}, None
    for raw in run.process.stdout:
        line = raw.decode(errors="replace").rstrip("\n")
        if line.startswith("@ "):
            name = line[2:]
            steps[name] = []
            print()
            continue
        print("   " + line, flush=True)
        if name:
            steps[name].append(line)
    run.process.wait()
    return {k: "\n".join(v) for k, v in steps.items()}


def section(text):
    print(f"\n=== {text}", flush=True)


# Two boxes that call the API again and again, each with its own policy.
BUSY = "while :; do curl -sS -m 5 https://api.demo.test/whoami; sleep 0.2; done 2>&1"


class Appliance:
    """exeat serve, and the commands that an operator gives it."""

    def __init__(self, bed):
        self.bed = bed
        self.folder = os.path.join(bed.dir, "appliance")
        os.makedirs(os.path.join(self.folder, "policies"))
        self.socket = os.path.join(self.folder, "control.sock")
        self.log = os.path.join(self.folder, "audit.jsonl")
        settings = bed.settings({"demo_token": (TOKEN, ["api.demo.test"])}, extra=f"log: {{path: {self.log}}}\n"
                                f"control: {{socket: {self.socket}}}\n"
                                f"policies: {{directory: {self.folder}/policies}}\n")
        self.process = subprocess.Popen([testbed.EXEAT, "serve", "--settings", settings], stderr=subprocess.PIPE,
                                        text=True)
        self.say_until("ready")

    def say_until(self, word):
        """Prints what the appliance says, up to a line with that word."""
        for line in self.process.stderr:
            print("   " + line.rstrip(), flush=True)
            if word in line:
                return
        raise SystemExit(f"the appliance ended before it said: {word}")

    def policy(self, name, text):
        path = os.path.join(self.folder, "policies", name + ".yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def do(self, *words):
        print("\noperator$ exeat " + " ".join(words), flush=True)
        at = words.index("--") if "--" in words else len(words)
        command = [testbed.EXEAT, *words[:at], "--socket", self.socket, *words[at:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print("".join(f"   {line}\n" for line in (done.stdout + done.stderr).splitlines()), end="", flush=True)
        return done

    def output(self, name):
        with open(os.path.join(self.folder, name + ".out"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def start(self, name):
        return self.do("sandbox", "start", name, "--policy", name, "--output",
                       os.path.join(self.folder, name + ".out"), "--", "sh", "-c", BUSY).returncode == 0

    def worker_of(self, name):
        import json
        found = subprocess.run([testbed.EXEAT, "sandbox", "inspect", name, "--socket", self.socket, "--json"],
                               capture_output=True, text=True, check=True)
        return json.loads(found.stdout)["worker"]["pid"]


def appliance(bed, bad):
    import signal
    hello = "hello, holder of the demo token\n"
    a = Appliance(bed)
    atexit.register(a.process.kill)
    for name in ("alice", "bob"):
        a.policy(name, POLICY)
        if not a.start(name):
            bad.append(f"{name} did not start")
    testbed.wait_until("both to be answered", lambda: hello in a.output("alice") and hello in a.output("bob"))
    a.do("sandbox", "list")

    print("\nthe process that serves alice is killed: another takes its place, bob notices nothing")
    os.kill(a.worker_of("alice"), signal.SIGKILL)
    a.say_until("takes over")
    before = {name: a.output(name).count(hello) for name in ("alice", "bob")}
    testbed.wait_until("both to go on", lambda: all(a.output(name).count(hello) > before[name] + 2 for name in before))
    if "curl" in a.output("bob"):
        bad.append("bob noticed the death of alice's worker:\n" + a.output("bob"))

    print("\nbob's policy denies the API from now on; alice's stays as it is")
    a.policy("bob", POLICY + "  - {id: bob-is-done, hosts: [api.demo.test]}\n")
    if a.do("policy", "reload").returncode != 0:
        bad.append("the policies were not reloaded")
    testbed.wait_until("bob to be refused", lambda: "Couldn't connect" in a.output("bob"))
    before = a.output("alice").count(hello)
    testbed.wait_until("alice to go on", lambda: a.output("alice").count(hello) > before + 2)
    print("   bob:   " + a.output("bob").splitlines()[-1])
    print("   alice: " + a.output("alice").splitlines()[-1])

    for name in ("alice", "bob"):
        if a.do("sandbox", "stop", "--kill", name).returncode != 0:
            bad.append(f"{name} did not stop")
    a.process.send_signal(signal.SIGTERM)
    if a.process.wait(30) != 0:
        bad.append(f"exeat serve ended with {a.process.returncode}")
    for command in (["summary", a.log], ["verify", a.log]):
        print(f"\noperator$ exeat log {command[0]}", flush=True)
        if subprocess.run([testbed.EXEAT, "log", *command], check=False).returncode != 0:
            bad.append(f"exeat log {command[0]} failed")


def main():
    bed = testbed.Bed()
    bed.dns.zone["api.demo.test"] = ["203.0.113.10"]
    bed.dns.zone["evil.test"] = ["203.0.113.10"]
    for port in (443, 8443, 80):
        testbed.Origin(bed, testbed.http(api), port=port,
                       cert=None if port == 80 else bed.cert("api.demo.test", "evil.test"))
    section("the policy")
    print(POLICY)
    section("a box behind it")
    run = bed.start(STEPS, POLICY, secrets={"demo_token": (TOKEN, ["api.demo.test"])},
                    stderr=None)
    steps = show(run)
    bad = [f"step {name}: {text!r} is missing" for name, texts in EXPECT.items() for text in texts
           if text not in steps.get(name, "")]
    if any(TOKEN in text for text in steps.values()):
        bad.append("the token came into the box")
    if run.process.returncode != 0:
        bad.append(f"exeat run ended with {run.process.returncode}")
    asked = sorted({name for name, _, _ in bed.dns.queries})
    section("names that the DNS server upstream was asked for: " + ", ".join(asked))
    if asked != ["api.demo.test"]:
        bad.append("a refused name was asked upstream")
    section("the audit log")
    sys.stdout.flush()
    for command in (["tail", "-n", "100"], ["verify"]):
        if subprocess.run([testbed.EXEAT, "log", *command, run.log_path], check=False).returncode != 0:
            bad.append(f"exeat log {command[0]} failed")
    with open(run.log_path, encoding="utf-8") as f:
        if TOKEN in f.read():
            bad.append("the token is in the log")
    section("an appliance: many boxes, one daemon")
    appliance(bed, bad)
    section("each step went as told" if not bad else "NOT as told:\n" + "\n".join(bad))
    sys.stdout.flush()
    shutil.rmtree(bed.dir, True)
    os._exit(1 if bad else 0)


main()
