"""Clients of every kind in two boxes of one appliance at the same time: each box has its own policy and
token, and is refused what is the other's. The compiled ones are in the build without sanitizers alone."""

import os
import pathlib
import subprocess

import bed as b
import clients as c

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  token: {{kind: bearer, secret: {own}, hosts: [{own}.test]}}
allow:
  - {{id: own, hosts: [{own}.test], credential: token}}
  - {{id: shared, hosts: [shared.test]}}
deny:
  - {{id: closed, hosts: [shared.test], paths: [/{own}-closed/**], reason: Closed to {own}.}}
"""
BOXES = {"red": "blue", "blue": "red"}
TOKENS = {"red": "red-token-0f9a8b7c6d", "blue": "blue-token-1a2b3c4d5e"}
ROUNDS = 1
GET = {
    "curl": 'curl -sS -i "$1"', "wget": 'wget -nv -O - "$1"',
    "urllib": "python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())' \"$1\"",
    "requests": "python3 -c 'import sys, requests; r = requests.get(sys.argv[1]); print(r.status_code, r.reason, r.text)' \"$1\"",
    "httpx": "python3 -c 'import sys, httpx; r = httpx.get(sys.argv[1]); print(r.status_code, r.reason_phrase, r.text)' \"$1\"",
    "fetch": "node -e 'fetch(process.argv[1]).then(async r => console.log(r.status, r.statusText, await r.text()))' \"$1\"",
    "git": 'git ls-remote "$1"',
}
COMPILED = {"go": 'GODEBUG=netdns=go /workspace/dynamic "$1"', "cgo": 'GODEBUG=netdns=cgo /workspace/dynamic "$1"',
            "java": 'java -XX:TieredStopAtLevel=1 -cp /workspace Get client "$1"'}


def _serve(request, origin):
    host = request.get("host")
    if host != "shared.test" and request.get("authorization") != "Bearer " + TOKENS[host.removesuffix(".test")]:
        return b.answer(401, "no\n", reason="Unauthorized")
    if request.target.endswith("/info/refs?service=git-upload-pack"):
        return b.answer(200, "001e# service=git-upload-pack\n00000000", [("content-type", "application/x-git-upload-pack-advertisement")])
    return b.answer(200, f"{c.HELLO} {host}\n")


def _programs(bed, folder):
    if b.SANITIZED:
        return GET
    here = pathlib.Path(__file__).with_name("programs")
    environment = dict(os.environ, GOCACHE=bed.path("go-cache"), GO111MODULE="off", HOME=bed.dir, GOFLAGS="", CGO_ENABLED="1")
    subprocess.run(["go", "build", "-o", folder + "/dynamic", here / "get.go"], check=True, capture_output=True, env=environment)
    subprocess.run(["javac", "-d", folder, here / "Get.java"], check=True, capture_output=True)
    return GET | COMPILED


class _Appliance(b.Run):
    def __init__(self, bed):
        self.socket, log = bed.path("run/control.sock"), bed.path("serve.jsonl")
        os.mkdir(bed.path("run"))
        settings = bed.settings({name: (TOKENS[name], [f"{name}.test"]) for name in BOXES},
                                extra=f"log: {{path: {log}}}\ncontrol: {{socket: {self.socket}}}\n")
        with open(bed.path("serve.err"), "wb") as errors:
            # It ends with us, whatever ends us.
            super().__init__(bed, subprocess.Popen(["setpriv", "--pdeathsig", "TERM", b.EXEAT, "serve", "--settings", settings],
                                                   stdin=subprocess.DEVNULL, stdout=errors, stderr=errors), log)
        b.wait_until("the appliance answers", lambda: os.path.exists(self.socket) and self.command("status").returncode == 0)

    def command(self, *words):
        return subprocess.run([b.EXEAT, *words, "--socket", self.socket], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=60)

    def start(self, name, command, workspace):
        output = self.bed.path(f"{name}.out")
        policy = self.bed.write(f"{name}.yaml", POLICY.format(own=name))
        return output, subprocess.Popen(
            [b.EXEAT, "sandbox", "start", name, "--socket", self.socket, "--policy", policy, "--workspace", workspace, "--output", output,
             "--wait", "--", "sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self):
        self.process.terminate()
        self.status = self.process.wait(60)
        self.err = pathlib.Path(self.bed.path("serve.err")).read_text(encoding="utf-8", errors="replace")


def _script(clients, own, other):
    """Each client for each URL, all clients at once, round by round; what one says is in a file of its own."""
    urls = {"own": f"https://{own}.test/x", "shared": "https://shared.test/x", "denied": f"https://shared.test/{own}-closed/x",
            "open": f"https://shared.test/{other}-closed/x", "foreign": f"https://{other}.test/x"}
    lines = ["cd /tmp"]
    for number in range(ROUNDS):
        for name, command in clients.items():
            one = "".join(f"""timeout -k 1 {4 * c.BOUND} sh -c '{command.replace("'", "'" + chr(92) + "''")}' client '{url}' </dev/null >{name}.{kind} 2>&1
r=$?; printf '%s\\n' "{number} {name} {kind} $r $(tr '\\n' ' ' <{name}.{kind})"\n""" for kind, url in urls.items())
            lines.append(f"(\n{one}) &")
        lines.append("wait")
    return "\n".join(lines)


def two_boxes_with_every_client_at_once_see_each_their_own(bed):
    os.chmod(bed.dir, 0o755)
    names = [f"{n}.test" for n in (*BOXES, "shared")]
    bed.dns.zone.update({name: ["203.0.113.10"] for name in names})
    origin = b.Origin(bed, b.http(_serve), cert=bed.cert(*names))
    folder = bed.path("work")
    os.mkdir(folder)
    clients = _programs(bed, folder)
    a = _Appliance(bed)
    started = {}
    for own, other in BOXES.items():
        workspace = bed.path("work-" + own)
        subprocess.run(["cp", "-r", folder, workspace], check=True)
        started[own] = a.start(own, _script(clients, own, other), workspace)
    for own, (output, process) in started.items():
        text = process.communicate(timeout=600)[0].decode()
        b.check(process.returncode == 0, f"{own} has ended well", text, pathlib.Path(bed.path("serve.err")).read_text(encoding="utf-8"))
    for own, (output, _) in started.items():
        lines = [l.split(" ", 4) for l in pathlib.Path(output).read_bytes().decode(errors="replace").split("\n")[:-1]]
        b.check(len(lines) == ROUNDS * len(clients) * 5, f"{own}: each client said something each time", len(lines), lines[:3])
        for number, name, kind, status, text in lines:
            where = f"{own}, round {number}: {name}, {kind}"
            b.check(status not in ("124", "137"), f"{where} does not hang", text)
            if kind in ("own", "shared", "open"):
                b.check(status == "0" and (name == "git" or c.HELLO in text), f"{where} is answered", status, text)
            elif kind == "denied":
                b.check("403" in text and (name in ("git", "urllib", "java") or f"Closed to {own}." in text), f"{where} is told", status, text)
            else:
                b.check(status != "0" and c.HELLO not in text, f"{where} is refused", status, text)
    _is_on_record(bed, a, origin, len(clients))
    a.end()
    b.check(a.status == 0, "and the appliance ends", a.status, a.err)
    a.verify()


def _is_on_record(bed, a, origin, clients):
    for own, other in BOXES.items():
        mine = [r for r in a.records("request", sandbox=own) if r.get("phase") != "begin"]
        b.check({r["host"] for r in mine} == {f"{own}.test", "shared.test"}, f"{own}'s requests are its own", {r["host"] for r in mine})
        b.check(len([r for r in mine if r["host"] == f"{own}.test" and r.get("status") == 200 and r.get("credential") == "token"])
                == ROUNDS * clients, "each with its token", len(mine))
        denied = [r for r in mine if r["verdict"] == "deny"]
        b.check(denied and all(r["rule"] == "closed" and f"{own}-closed" in r.get("path", f"{own}-closed") for r in denied), "by its own deny",
                denied)
        b.check(sum(r.get("count", 1) for r in denied) == ROUNDS * clients, "all are accounted for", len(denied))
        b.check(a.records("dns", sandbox=own, name=f"{other}.test", verdict="deny"), "the other's name is refused to it")
        b.check(not a.records("dial", sandbox=own, destination=f"{other}.test"), "and never dialled for it")
    b.check({r.get("authorization") for r in origin.requests if r.get("host") == "shared.test"} == {None}, "no token went elsewhere")
    text = pathlib.Path(a.log_path).read_text(encoding="utf-8")
    b.check(not [t for t in TOKENS.values() if t in text], "nor into the log")


b.main(b.cases(globals()))
