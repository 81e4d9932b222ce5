"""The control socket of `exeat serve`, and the commands that speak to it."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
"""
GROUP, MEMBER, STRANGER = "nogroup", 65534, 61234    # a group that is there; two users


class Appliance(b.Run):
    """One for all cases; each case's records begin where the last one's end."""

    def __init__(self, bed):
        os.chmod(bed.dir, 0o711)
        self.folder = bed.path("policies")
        os.mkdir(self.folder)
        self.socket = bed.path("run/control.sock")
        log = bed.path("serve.jsonl")
        settings = bed.settings(extra=f"log: {{path: {log}}}\ncontrol: {{socket: {self.socket}, group: {GROUP}}}\n"
                                      f"policies: {{directory: {self.folder}}}\n")
        self.policy("web", POLICY)
        self.errors = open(bed.path("serve.err"), "wb+")
        super().__init__(bed, subprocess.Popen([b.EXEAT, "serve", "--settings", settings], stdin=subprocess.DEVNULL,
                                               stdout=self.errors, stderr=self.errors), log)
        b.wait_until("the appliance answers", self.answers)
        self.begin()

    def answers(self):
        b.check(self.process.poll() is None, "the appliance lives", self.said())
        return os.path.exists(self.socket) and self.command("status").returncode == 0

    def said(self):
        self.errors.flush()
        return pathlib.Path(self.errors.name).read_text(encoding="utf-8", errors="replace")

    def policy(self, name, text):
        path = os.path.join(self.folder, name + ".yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def begin(self):
        self.before = len(super().records())

    def records(self, kind=None, **fields):
        return [r for r in super().records()[self.before:] if (kind is None or r["kind"] == kind)
                and all(r.get(k) == v for k, v in fields.items())]

    def one(self, kind, **fields):
        return b.wait_until(f"a {kind} record with {fields}", lambda: self.records(kind, **fields))[0]

    def command(self, *words, user=None, groups=None, **more):
        """exeat WORDS, as root or as somebody else."""
        at = words.index("--") if "--" in words else len(words)
        words = [*words[:at], "--socket", self.socket, *words[at:]]
        return subprocess.run([*_as(user, groups), b.EXEAT, *words], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=60, **more)

    def sandbox(self, name):
        done = self.command("sandbox", "inspect", name, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def start(self, name, command, policy="web", options=()):
        done = self.command("sandbox", "start", name, "--policy", policy, *options, "--", "sh", "-c", command)
        b.check(done.returncode == 0, f"{name} starts", done.stdout, done.stderr, self.said())

    def stop(self, name):
        done = self.command("sandbox", "stop", name, "--kill")
        b.check(done.returncode == 0, f"{name} stops", done.stderr)

    def ask(self, method, path, body=None, user=None, groups=None, fields=()):
        """By curl: status, the body's object, the whole head."""
        args = [*_as(user, groups), "curl", "-sS", "-i", "--unix-socket", self.socket, "-X", method]
        for field in fields:
            args += ["-H", field]
        if body is not None:
            args += ["-H", "content-type: application/json", "--data-binary", "@-"]
        text = "" if body is None else body if isinstance(body, str) else json.dumps(body)
        done = subprocess.run([*args, f"http://exeat{path}"], capture_output=True, check=False, input=text.encode(),
                              timeout=60)
        b.check(done.returncode == 0, f"{method} {path} is answered", done.stderr)
        return _parse(done.stdout.decode())

    def raw(self, text):
        """These bytes; what comes back until the end."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(self.socket)
            s.sendall(text)
            answer = b""
            while True:
                piece = s.recv(65536)
                if not piece:
                    return _parse(answer.decode())
                answer += piece


def _as(user, groups):
    if user is None:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", f"--groups={groups}" if groups else "--clear-groups"]


def _parse(answer):
    head, _, body = answer.partition("\r\n\r\n")
    if head.startswith("HTTP/1.1 100"):
        head, _, body = body.partition("\r\n\r\n")
    return int(head.split()[1]), json.loads(body), head.lower()


def _appliance(bed):
    if not hasattr(bed, "appliance"):
        bed.dns.zone["api.test"] = ["203.0.113.10"]
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))
        bed.appliance = Appliance(bed)
    bed.appliance.begin()
    return bed.appliance


def _refused(a, answer, status, *words, path=None, user=0):
    """An answer that is a problem with these words, and its record."""
    got, body, head = answer
    b.check(got == status and body["status"] == status, f"it is refused with {status}", got, body)
    b.check("content-type: application/problem+json" in head, "as a problem", head)
    for word in words:
        b.check(word in json.dumps(body), f"it says {word!r}", body)
    fields = {"path": path} if path else {}
    record = a.one("control", status=status, verdict="deny", peer_uid=user, **fields)
    b.check(record["reason"][:100] == body["detail"][:100], "the record says the same", record, body)
    return body


# ---- what is asked ----


def status_tells_of_the_roles_and_the_log(bed):
    a = _appliance(bed)
    status, body, _ = a.ask("GET", "/v1/status")
    b.check(status == 200 and body["pid"] == a.process.pid, "it is the appliance's", body)
    roles = {r["role"] for r in body["roles"]}
    b.check({"recorder", "broker", "dialer", "launcher", "nursery"} <= roles, "its roles are told", roles)
    b.check(all(r["state"] == "ready" for r in body["roles"]), "and are ready", body)
    b.check(body["log"] == {"file": a.log_path, "writable": True}, "its log is told", body["log"])
    shown = a.command("status")
    b.check("recorder" in shown.stdout and a.log_path in shown.stdout, "people see them, too", shown.stdout)
    b.check(not a.records("control"), "who only looks is not on record", a.records())


def a_sandbox_is_started_listed_inspected_and_stopped(bed):
    a = _appliance(bed)
    out = bed.path("dev.out")
    a.start("dev", "curl -sS https://api.test/hello; echo; echo ready; sleep 60", options=["--output", out])
    b.wait_until("its output", lambda: "ready" in pathlib.Path(out).read_text(encoding="utf-8"))
    b.check('"target": "/hello"' in pathlib.Path(out).read_text(encoding="utf-8"), "its request was answered")
    b.check(os.stat(out).st_mode & 0o777 == 0o600, "its output is root's")
    row = a.sandbox("dev")
    b.check(row["state"] == "running" and row["policy"]["name"] == "web" and row["leases"] == 1
            and row["bytes_up"] > 0 and row["bytes_down"] > 0 and row["isolation"].startswith("container/")
            and row["worker"]["pid"] > 0, "inspect tells of it", row)
    listed = a.command("sandbox", "list").stdout
    b.check(any(l.split()[:3] == ["dev", "running", "web"] for l in listed.splitlines()), "list shows it", listed)
    record = a.one("control", method="POST", path="/v1/sandboxes", status=201)
    b.check(record["sandbox"] == "dev" and record["peer_uid"] == 0 and record["peer_pid"] > 0
            and record["verdict"] == "allow", "its start is on record", record)
    a.one("request", sandbox="dev", path="/hello")
    done = a.command("sandbox", "stop", "dev")
    b.check(done.returncode == 0 and done.stdout.startswith("dev: ended"), "it is stopped", done.stdout, done.stderr)
    a.one("sandbox_stop", sandbox="dev", exit=143)
    a.one("control", method="DELETE", path="/v1/sandboxes/dev", status=200)
    row = a.sandbox("dev")
    b.check(row["state"] == "ended" and row["exit"] == 143, "how it ended is remembered", row)


def a_start_that_waits_ends_as_its_command_did(bed):
    a = _appliance(bed)
    done = a.command("sandbox", "start", "short", "--wait", "--policy", "web", "--", "sh", "-c", "exit 7")
    b.check(done.returncode == 7 and done.stdout == "short: ended\n", "its status is the command's", done)
    done = a.command("sandbox", "start", "short", "--wait", "--policy", "web", "--", "true")
    b.check(done.returncode == 0, "its name can be used again", done)


def a_policy_that_does_not_load_starts_nothing(bed):
    a = _appliance(bed)
    bad = bed.write("bad.yaml", "exeat: 1\nprecedence: deny-over-allow\nalow: []\n")
    done = a.command("sandbox", "start", "bad", "--policy", bad, "--", "true")
    b.check(done.returncode == 1 and "refused (422)" in done.stderr and f"{bad}:3:1" in done.stderr
            and 'did you mean "allow"' in done.stderr, "it is told where and why", done.stderr)
    b.check(done.stderr.count("\n") > 3, "in lines", done.stderr)
    a.one("policy_reject", sandbox="bad")
    a.one("control", sandbox="bad", status=422)
    b.check(a.sandbox("bad") is None, "nothing was started")


def a_box_that_cannot_be_made_is_told(bed):
    a = _appliance(bed)
    for options, words in ((["--rootfs", "/nowhere"], "/nowhere: No such"), (["--workspace", "/etc"], "the system's own folder"),
                           (["--output", "/nowhere/x"], "output /nowhere/x"), (["--output", "/dev/null"], "is no file")):
        done = a.command("sandbox", "start", "odd", "--policy", "web", *options, "--", "true")
        b.check(done.returncode == 1 and "it did not start" in done.stderr and words in done.stderr,
                f"{options} is refused", done.stderr)
    listed = json.loads(a.command("sandbox", "list", "--json").stdout)["sandboxes"]
    row = next(r for r in listed if r["name"] == "odd")
    b.check(row["state"] == "failed" and "is no file" in row["why"], "why is remembered", row)


def a_name_that_is_taken_or_not_there_is_told(bed):
    a = _appliance(bed)
    a.start("twice", "sleep 60")
    _refused(a, a.ask("POST", "/v1/sandboxes", {"name": "twice", "policy": "web", "command": ["true"]}), 409, "twice")
    a.stop("twice")
    for method, path, body in (("GET", "/v1/sandboxes/nobody", None), ("DELETE", "/v1/sandboxes/nobody", None),
                               ("POST", "/v1/sandboxes/nobody/exec", {"command": ["true"]}),
                               ("POST", "/v1/policy/reload", {"sandbox": "nobody"})):
        a.begin()
        _refused(a, a.ask(method, path, body), 404, "nobody", path=path)
    a.begin()
    _refused(a, a.ask("POST", "/v1/sandboxes/twice/exec", {"command": ["true"]}), 404)


# ---- more commands in a box ----


def exec_runs_as_one_of_the_boxs_own(bed):
    a = _appliance(bed)
    a.start("dev", "sleep 60")
    script = ("id -u; cat /proc/self/status; curl -sS https://api.test/from-exec > /dev/null && echo fetched; "
              "curl -sS https://other.test/ 2>/dev/null || echo refused; unshare -U true 2>/dev/null || echo walled; "
              "echo $HOME $SSL_CERT_FILE; pwd; ls /proc/self/fd | wc -l; cat /proc/1/oom_score_adj /proc/self/oom_score_adj; "
              "exit 9")
    run = lambda: a.command("sandbox", "exec", "dev", "--", "sh", "-c", script, env={"PATH": "/usr/bin:/bin", "LEAK": "x"})
    done = b.wait_until("the box has begun", lambda: (lambda d: d if "not begun" not in d.stderr else None)(run()))
    b.check(done.returncode == 9, "its status is the command's", done)
    lines = done.stdout.splitlines()
    b.check(lines[0] == "1000", "its user is the box's", lines[0])
    for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        b.check(f"{field}:\t0000000000000000" in lines, f"{field} is empty", done.stdout)
    b.check("NoNewPrivs:\t1" in lines and "Seccomp:\t2" in lines, "it is as locked up as the box", done.stdout)
    b.check(lines[-8:-2] == ["fetched", "refused", "walled", "/home/box /etc/exeat/ca-bundle.pem", "/workspace", "4"],
            "its network, walls, environment and descriptors are the box's", lines[-8:], done.stderr)
    b.check(lines[-2] == lines[-1] == "500", "where memory runs out it goes as early as the box", lines[-2:])
    a.one("request", sandbox="dev", path="/from-exec")
    a.one("control", path="/v1/sandboxes/dev/exec", status=200, sandbox="dev")
    done = a.command("sandbox", "exec", "dev", "--", "no-such-program")
    b.check(done.returncode == 127, "what is not there is 127", done)
    a.stop("dev")


def exec_ends_with_its_box_and_counts_in_its_control_groups(bed):
    a = _appliance(bed)
    a.start("dev", "sleep 60")
    _begun(a, "dev")
    more = subprocess.Popen([b.EXEAT, "sandbox", "exec", "dev", "--socket", a.socket, "--", "sh", "-c",
                             "echo up; sleep 60"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    b.check(more.stdout.readline() == b"up\n", "it runs")
    groups = [os.path.join(path, d, "cgroup.procs") for path, folders, _ in os.walk("/sys/fs/cgroup") for d in folders
              if d == f"exeat-{a.process.pid}-{a.sandbox('dev')['number']}"]
    if groups:      # of the box's command and of this one
        b.check(len(pathlib.Path(groups[0]).read_text(encoding="utf-8").split()) >= 4, "it is in the box's control group")
    a.stop("dev")
    b.check(more.wait(20) == 128 + signal.SIGKILL, "it ended with the box", more.returncode)
    more.stdout.close()


def exec_that_is_killed_takes_its_command_along(bed):
    a = _appliance(bed)
    a.start("dev", "sleep 60")
    _begun(a, "dev")
    more = subprocess.Popen([b.EXEAT, "sandbox", "exec", "dev", "--socket", a.socket, "--", "sh", "-c",
                             "echo up; exec sleep 60"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    b.check(more.stdout.readline() == b"up\n", "it runs")
    children = lambda: pathlib.Path(f"/proc/{more.pid}/task/{more.pid}/children").read_text(encoding="utf-8").split()
    command = b.wait_until("it has one child", lambda: (lambda c: c if len(c) == 1 else None)(children()))
    more.kill()
    more.wait()
    b.check(more.stdout.read() == b"", "nobody holds its output any more")
    b.wait_until("its command is gone", lambda: not os.path.exists(f"/proc/{command[0]}"))
    more.stdout.close()
    a.stop("dev")


def _begun(a, name):
    b.wait_until("the box has begun", lambda: a.command("sandbox", "exec", name, "--", "true").returncode == 0)


# ---- attaching ----


def a_namespace_that_is_there_gets_a_wire(bed):
    a = _appliance(bed)
    holder = subprocess.Popen(["unshare", "-n", "sleep", "60"])
    ns = f"/proc/{holder.pid}/ns/net"
    b.wait_until("its namespace", lambda: os.readlink(ns) != os.readlink("/proc/self/ns/net"))
    done = a.command("sandbox", "attach", "pod", "--netns", ns, "--policy", "web")
    b.check(done.returncode == 0 and done.stdout == "pod: running\n", "it is attached", done.stdout, done.stderr)
    row = a.sandbox("pod")
    b.check(row["isolation"] == "attached" and "exit" not in row, "it is told as such", row)
    gateway = subprocess.run(["nsenter", f"--net={ns}", "ip", "-4", "route"], capture_output=True, text=True,
                             check=True).stdout.split("default via ")[1].split()[0]
    query = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); "
             f"s.sendto(bytes.fromhex('00010100000100000000000003617069047465737400000100' + '01'), ('{gateway}', 53)); "
             "print(s.recv(512)[-4:].hex())")
    done = subprocess.run(["nsenter", f"--net={ns}", "python3", "-c", query], capture_output=True, text=True, check=False)
    b.check(done.stdout.startswith("c612"), "a name is resolved there", done)
    a.one("dns", sandbox="pod", name="api.test", verdict="allow")
    taken = a.command("sandbox", "attach", "pod2", "--netns", ns, "--policy", "web")
    b.check(taken.returncode == 1 and "it did not start" in taken.stderr, "only one wire goes in", taken.stderr)
    wrong = a.command("sandbox", "exec", "pod", "--", "true")
    b.check(wrong.returncode == 1 and "refused (409)" in wrong.stderr, "it has no box to run in", wrong.stderr)
    a.stop("pod")
    links = subprocess.run(["nsenter", f"--net={ns}", "ip", "-o", "link"], capture_output=True, text=True, check=True)
    b.check("eth0" not in links.stdout, "its wire is gone", links.stdout)
    holder.kill()
    holder.wait()


# ---- reloading ----


def a_reload_puts_new_policies_in_force_or_changes_nothing(bed):
    a = _appliance(bed)
    a.policy("mine", POLICY)
    a.start("dev", "sleep 60", policy="mine")
    before = a.sandbox("dev")["policy"]["digest"]
    done = a.command("policy", "reload")
    b.check(done.returncode == 0 and "changed" in done.stdout, "what did not change is told", done)
    b.check(a.sandbox("dev")["policy"]["digest"] == before, "and stays")
    path = a.policy("mine", POLICY.replace("[api.test]", "[api.test, more.test]"))
    done = a.command("policy", "reload", "--sandbox", "dev", "--json")
    b.check(json.loads(done.stdout)["changed"] == 1, "what changed is counted", done.stdout)
    after = a.sandbox("dev")["policy"]["digest"]
    b.check(after != before, "it is in force", after)
    a.policy("mine", "exeat: 1\n")
    status, body, _ = a.ask("POST", "/v1/policy/reload", {})
    b.check(status == 422 and path in body["detail"] and "nothing is changed" in body["detail"], "a broken one is refused",
            body)
    b.check(a.sandbox("dev")["policy"]["digest"] == after, "and changes nothing")
    a.one("policy_reject")
    a.one("control", path="/v1/policy/reload", status=422)
    a.stop("dev")
    os.unlink(path)


# ---- requests for access ----


def what_a_box_asks_for_is_listed_shown_and_closed(bed):
    a = _appliance(bed)
    out = bed.path("ask.out")
    a.start("dev", "curl -sS -w '%{http_code}' -d 'method=GET' --data-urlencode 'url=https://more.test/x' "
                   "--data-urlencode 'reason=for a test' http://exeat.internal/request; echo done; sleep 60",
            options=["--output", out])
    b.wait_until("its answer", lambda: "done" in pathlib.Path(out).read_text(encoding="utf-8"))
    listed = json.loads(a.command("request", "list", "--json").stdout)["requests"]
    b.check(len(listed) == 1 and listed[0]["url"] == "https://more.test/x" and listed[0]["sandbox"] == "dev",
            "it is listed", listed, pathlib.Path(out).read_text(encoding="utf-8"))
    number = str(listed[0]["number"])
    shown = a.command("request", "show", number).stdout
    b.check("for a test" in shown and 'hosts: ["more.test"]' in shown, "with the rule that would allow it", shown)
    done = a.command("request", "close", number, "--note", "not now")
    b.check(done.returncode == 0 and "closed" in done.stdout, "it is closed", done)
    b.check(a.command("request", "list").stdout.count("\n") == 1, "and not open any more")
    b.check("more.test" in a.command("request", "list", "--closed").stdout, "but still there")
    a.one("control", method="DELETE", path=f"/v1/requests/{number}", status=200)
    done = a.command("request", "close", number)
    b.check(done.returncode == 1 and "refused (404)" in done.stderr, "once", done.stderr)
    a.stop("dev")


# ---- who may ----


def a_member_of_the_group_may_use_named_policies_and_no_paths(bed):
    a = _appliance(bed)
    member = {"user": STRANGER, "groups": MEMBER}
    done = a.command("sandbox", "start", "theirs", "--policy", "web", "--", "sleep", "60", **member)
    b.check(done.returncode == 0, "a member starts a sandbox", done)
    b.check(a.one("control", status=201)["peer_uid"] == STRANGER, "and is on record")
    for extra in ({"rootfs": "/"}, {"workspace": "/tmp"}, {"output": "/tmp/x"}):
        a.begin()
        answer = a.ask("POST", "/v1/sandboxes", {"name": "x", "policy": "web", "command": ["true"], **extra}, **member)
        _refused(a, answer, 403, f"#/{list(extra)[0]}", "root alone", user=STRANGER)
    a.begin()
    answer = a.ask("POST", "/v1/sandboxes", {"name": "x", "policy_file": "/etc/p", "command": ["true"]}, **member)
    _refused(a, answer, 403, "#/policy_file", user=STRANGER)
    a.begin()
    answer = a.ask("POST", "/v1/sandboxes", {"name": "x", "policy": "web", "netns": "/proc/1/ns/net"}, **member)
    _refused(a, answer, 403, "#/netns", user=STRANGER)
    a.begin()
    _refused(a, a.ask("POST", "/v1/sandboxes/theirs/exec", {"command": ["true"]}, **member), 403, "root alone",
             user=STRANGER)
    for name in ("../web", "/etc/x", "a/b", ".web"):
        a.begin()
        _refused(a, a.ask("POST", "/v1/sandboxes", {"name": "x", "policy": name, "command": ["true"]}, **member), 400,
                 "#/policy", user=STRANGER)
    done = a.command("sandbox", "stop", "theirs", "--kill", **member)
    b.check(done.returncode == 0, "a member stops it", done)


def nobody_else_may_ask(bed):
    a = _appliance(bed)
    mode = os.stat(a.socket)
    b.check(mode.st_mode & 0o777 == 0o660 and mode.st_uid == 0 and mode.st_gid == MEMBER, "the socket is theirs", mode)
    done = a.command("status", user=STRANGER)
    b.check(done.returncode == 1 and "you may not control this appliance" in done.stderr, "the kernel says no", done.stderr)
    os.chmod(a.socket, 0o666)
    try:
        _refused(a, a.ask("GET", "/v1/status", user=STRANGER), 403, "control.group", path="/v1/status", user=STRANGER)
    finally:
        os.chmod(a.socket, 0o660)


def without_an_appliance_a_command_says_so(bed):
    done = subprocess.run([b.EXEAT, "status", "--socket", bed.path("nothing.sock")], capture_output=True, text=True,
                          check=False)
    b.check(done.returncode == 69 and "no appliance listens on" in done.stderr and "exeat serve" in done.stderr,
            "it is 69", done)


# ---- bad input ----


def malformed_requests_are_refused(bed):
    a = _appliance(bed)
    _refused(a, a.raw(b"GET /v1/status\r\n\r\n"), 400)
    a.begin()
    _refused(a, a.raw(b"GET /v1/status HTTP/1.1\nHost: x\n\n"), 400)
    a.begin()
    _refused(a, a.raw(b"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 20000 + b"\r\n\r\n"), 431)
    a.begin()
    _refused(a, a.ask("GET", "/v1/boxes"), 404, "/v1/sandboxes", path="/v1/boxes")
    body, head = a.ask("PUT", "/v1/sandboxes/x")[1:]
    b.check("allow: get, delete" in head, "Allow says what there is", head, body)
    a.one("control", status=405, method="PUT")
    a.begin()
    _refused(a, a.ask("POST", "/v1/policy/reload", "{\"sandbox\": "), 400, "no JSON")
    a.begin()
    _refused(a, a.ask("POST", "/v1/policy/reload", "{}", fields=["transfer-encoding: chunked"]), 411, "content-length")
    a.begin()
    _refused(a, a.raw(b"POST /v1/policy/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"), 415)
    a.begin()
    body = _refused(a, a.ask("POST", "/v1/sandboxes", {"nam": "x", "policy": 7, "command": []}), 400)
    b.check({e["at"] for e in body["errors"]} == {"#/nam", "#/name", "#/policy", "#/command"}, "all errors at once", body)


def a_body_that_is_too_large_is_refused_before_it_is_sent(bed):
    a = _appliance(bed)
    head = b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 262145\r\n\r\n"
    _refused(a, a.raw(head), 413, "262144", path="/v1/sandboxes")
    a.begin()
    _refused(a, a.ask("POST", "/v1/sandboxes", {"name": "x" * 300000}), 413)


def a_slow_request_is_refused(bed):
    a = _appliance(bed)
    began = time.monotonic()
    _refused(a, a.raw(b"GET /v1/status HTTP/1.1\r\n"), 408, "did not come in time")
    b.check(4 < time.monotonic() - began < 15, "after CONTROL_SLOW_MS")
    a.begin()
    _refused(a, a.raw(b"POST /v1/policy/reload HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 10\r\n\r\n{"), 408, path="/v1/policy/reload")


def who_leaves_while_he_waits_costs_nothing(bed):
    a = _appliance(bed)
    a.start("dev", "sleep 60")
    for _ in range(70):     # more than there may be at once
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(a.socket)
            s.sendall(b"GET /v1/sandboxes/dev?wait=true HTTP/1.1\r\nHost: x\r\n\r\n")
    b.check(b.wait_until("the appliance answers", a.answers), "it answers as before")
    a.stop("dev")


def connections_have_a_limit_and_a_user_his_share(bed):
    a = _appliance(bed)
    hold = ("import socket, sys\nheld = []\nfor i in range(40):\n s = socket.socket(socket.AF_UNIX); "
            "s.connect(sys.argv[1]); held.append(s)\nprint(held[-1].recv(999).decode().split()[1], flush=True)\n"
            "sys.stdin.read()")
    member = subprocess.Popen([*_as(STRANGER, MEMBER), "python3", "-c", hold, a.socket], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    b.check(member.stdout.readline() == b"503\n", "a user's share is limited")
    b.check(a.command("status").returncode == 0, "root is served meanwhile")
    a.one("control", status=503, peer_uid=STRANGER)
    member.communicate()


# ---- the end ----


def the_appliance_ends_in_order(bed):
    a = _appliance(bed)
    a.start("last", "sleep 60")
    a.process.send_signal(signal.SIGTERM)
    b.check(a.process.wait(30) == 0, "it ends well", a.process.returncode, a.said())
    a.one("sandbox_stop", sandbox="last")
    a.one("stop")
    a.verify()
    b.check(a.command("status").returncode == 69, "nobody listens any more")


if __name__ == "__main__":
    b.main(b.cases(globals()))
