"""Policies that are read again while `exeat serve` runs: what goes on, what ends, and when a reload is over."""

import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import appliance
import bed as b
import namespace

NAMES = ("api.test", "more.test", "slow.test", "steady.test", "new.test", "moved.test", "secret.test")
TOKEN = "hunter2-for-the-origin"

# In a box: one connection, whose requests and ends are said line by line. The last line says how it ended:
# "clean" where a client would take it for the whole answer.
CLIENT = r"""
import socket, ssl, sys, time
host, port, path, how = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
s = socket.create_connection((host, port), 30)
s.settimeout(120)
if how != "plain":
    s = ssl.create_default_context().wrap_socket(s, server_hostname=host, suppress_ragged_eofs=False)
s.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
got = b""
try:
    while True:
        piece = s.recv(65536)
        if not piece:
            break
        if not got:
            print(piece.split(b"\r\n")[0].decode(), flush=True)
        got = (got + piece)[-100000:]
        if how == "count":
            print("more", flush=True)
    print("clean", flush=True)
except Exception as e:
    print("abort", type(e).__name__, e, flush=True)
"""


def _policy(*allow, deny=(), explain=False, more=""):
    text = "exeat: 1\nprecedence: deny-over-allow\n" + ("refusal: explain\n" if explain else "") + more + "allow:\n"
    text += "".join(f"  - {{{rule}}}\n" for rule in allow)
    if deny:
        text += "deny:\n" + "".join(f"  - {{{rule}}}\n" for rule in deny)
    return text




def _slowly(s, origin):
    """/slow: chunks for ever; /untold: bytes whose end is the connection's; whatever else: an echo."""
    f = s.makefile("rb")
    while True:
        request = b.read_request(f)
        if request is None:
            return
        with origin.lock:
            origin.requests.append(request)
        if request.target.startswith("/slow"):
            s.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            piece = b"4\r\nmore\r\n"
        elif request.target.startswith("/untold"):
            s.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
            piece = b"more"
        else:
            s.sendall(b.echo(request, origin))
            continue
        while True:
            s.sendall(piece)
            time.sleep(0.05)


class Bench(appliance.Appliance):
    """One for all cases, with a box to ask from (policy "one"); each case's records begin where the last one's end."""

    def __init__(self, bed):
        for name in NAMES:
            bed.dns.zone[name] = ["203.0.113.10"]
        bed.dns.zone["there.test"] = ["203.0.113.11"]
        cert = bed.cert(*NAMES)
        self.origins = [b.Origin(bed, _slowly, cert=cert), b.Origin(bed, _slowly, cert=cert, port=8443),
                        b.Origin(bed, _slowly, port=80), b.Origin(bed, _slowly, address="203.0.113.20", port=80)]
        self.start = _policy("id: api, hosts: [api.test]")
        super().__init__(bed, {"one": self.start, "two": self.start}, {"token": (TOKEN, ["secret.test"])})
        self.start_box("one", ["sleep", "3600"], "one")
        self.start_box("two", ["sleep", "3600"], "two")
        b.wait_until("the boxes have begun", lambda: all(self.command("sandbox", "exec", n, "--", "true").returncode == 0
                                                         for n in ("one", "two")))

    def begin(self):
        self.first = len(super().records())

    def records(self, kind=None, **fields):
        found = super().records()[getattr(self, "first", 0):]
        return [r for r in found if (kind is None or r["kind"] == kind) and
                all(r.get(k) == v for k, v in fields.items())]

    def one(self, kind, **fields):
        return b.wait_until(f"a {kind} record with {fields}", lambda: self.records(kind, **fields))[0]

    def path(self, name):
        return f"{self.dir}/policies/{name}.yaml"

    def put(self, name, text):
        """As an editor does: there is never half a file."""
        pathlib.Path(self.path(name) + ".new").write_text(text, encoding="utf-8")
        os.rename(self.path(name) + ".new", self.path(name))

    def reload(self, *options):
        """By the command; its answer, with the seconds that it took."""
        begun = time.monotonic()
        done = self.command("policy", "reload", "--json", *options)
        b.check(done.returncode == 0, "policies are read again", done.stdout, done.stderr, self.said())
        answer = json.loads(done.stdout)
        b.check(answer["waiting"] == 0, "every role has taken them", answer)
        answer["s"] = time.monotonic() - begun
        return answer

    def take(self, name, text, changed=1):
        self.put(name, text)
        answer = self.reload()
        b.check(answer["changed"] == changed, f"{changed} changed", answer)
        return answer

    def digest(self, name):
        return self.sandbox(name)["policy"]["digest"]

    def ask(self, box, *words, seconds=30):
        """By curl from a box: status (000: none), curl's own, and the address that it spoke to."""
        done = self.command("sandbox", "exec", box, "--", "curl", "-s", "-o", "/dev/null", "-m", str(seconds), "-w",
                            "%{http_code} %{remote_ip}", *words)
        status, _, address = done.stdout.partition(" ")
        return status, done.returncode, address

    def client(self, box, host, path, how="tls", port=443):
        """A connection of its own; it has its first bytes."""
        p = subprocess.Popen([b.EXEAT, "sandbox", "exec", box, "--socket", self.socket, "--", "python3", "-c", CLIENT,
                              host, str(port), path, how], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        line = p.stdout.readline()
        b.check("200" in line, f"{host}{path} is answered", line)
        return p


def _bench(bed):
    if not hasattr(bed, "bench"):
        bed.bench = Bench(bed)
    a = bed.bench
    a.put("one", a.start)
    a.put("two", a.start)
    a.reload()
    a.begin()
    return a


def _end(p):
    """What a client says last."""
    out, _ = p.communicate(timeout=60)
    return out.strip().splitlines()[-1] if out.strip() else ""


# ---- what goes on ----


def no_allowed_request_is_refused_or_cut_by_reloads_under_load(bed):
    a = _bench(bed)
    text = lambda n: _policy(*[f"id: other{i}, hosts: [other{i}.test]" for i in range(n)],
                             "id: load, hosts: [api.test]", "id: with, hosts: [secret.test], credential: c",
                             deny=[f"id: not{n}, hosts: [not{n}.test]"],
                             more="credentials:\n  c: {kind: bearer, secret: token, hosts: [secret.test]}\n")
    a.put("load", text(0))
    a.start_load("load1", "load", "api.test")
    a.start_load("load2", "load", "secret.test")
    for name in ("load1", "load2"):
        a.goes_on(name, 8)
    digests, took = [a.digest("load1")], []
    for n in range(1, 9):
        a.put("load", text(n))
        if n % 3 == 0:
            a.process.send_signal(signal.SIGHUP)
            b.wait_until("the policy of SIGHUP", lambda: a.digest("load2") not in digests)
        else:
            took.append(a.reload()["s"])
        digests.append(a.digest("load1"))
        if n % 2:
            a.goes_on("load1", 4)
    for name in ("load1", "load2"):
        a.goes_on(name, 8)
        answers = a.answers(name)
        bad = {path: got for path, got in answers.items() if got != "200"}
        b.check(not bad, "no request fails", len(answers), bad)
        loads = a.records("policy_load", sandbox=name)
        b.check([(r["before"], r["policy"]) for r in loads[1:]] == list(zip(digests, digests[1:])),
                "each policy is on record with the one before it", loads, digests)
        said = {r["policy"] for r in a.records("request", sandbox=name)}
        b.check(said <= set(digests) and digests[0] in said and digests[-1] in said,
                "requests are recorded under the first policy and the last", said, digests)
        print(f"      {name}: {len(answers)} requests, 0 failures, over 8 reloads")
    print("      seconds to reload:", " ".join(f"{s:.2f}" for s in took))
    with_token = [r for o in a.origins for r in o.requests if r.get("host") == "secret.test"]
    b.check(with_token and all(r.get("authorization") == f"Bearer {TOKEN}" for r in with_token),
            "each had its credential", len(with_token))
    for name in ("load1", "load2"):
        a.stop_box(name, "--kill")


# ---- what ends ----


def what_a_new_policy_denies_ends_and_all_else_goes_on(bed):
    a = _bench(bed)
    web = "hosts: [slow.test, steady.test, api.test]"
    before = _policy(f"id: web, {web}", f"id: plain, {web}, protocol: http",
                     "id: by-address, addresses: [203.0.113.20], protocol: http")
    a.put("one", before)
    a.put("two", before)
    a.reload()
    dying = {"chunks": a.client("one", "slow.test", "/slow"), "untold": a.client("one", "slow.test", "/untold"),
             "plain chunks": a.client("one", "slow.test", "/slow", "plain", 80),
             "plain untold": a.client("one", "slow.test", "/untold", "plain", 80),
             "by address": a.client("one", "203.0.113.20", "/slow", "plain", 80)}
    idle = a.client("one", "slow.test", "/")
    living = [a.client("one", "steady.test", "/slow", "count"), a.client("two", "slow.test", "/slow", "count")]
    ended, begun = {}, time.monotonic()

    def wait(name, p):
        said = _end(p)
        ended[name] = (said, time.monotonic() - begun)

    a.put("one", _policy(f"id: web, {web}", f"id: plain, {web}, protocol: http",
                         deny=["id: closed, hosts: [slow.test], reason: shut down"]))
    waits = [threading.Thread(target=wait, args=item) for item in [*dying.items(), ("idle", idle)]]
    for t in waits:
        t.start()
    begun = time.monotonic()
    took = a.reload()["s"]
    for t in waits:
        t.join(60)
    b.check(len(ended) == 6, "all that is denied ends", ended)
    for name, (said, s) in ended.items():
        print(f"      {name}: ended {s - took:+.2f} s from the reload's answer: {said}")
        b.check(s - took < 10, f"{name} ends at once", s, took)
        b.check(name == "idle" or said.startswith("abort"), f"nobody takes {name} for a whole answer", said)
    digest = a.digest("one")
    for path in ("/slow", "/untold"):
        for scheme in ("https", "http"):
            r = a.one("request", sandbox="one", host="slow.test", path=path, scheme=scheme, policy=digest)
            b.check(r["verdict"] == "deny" and r["rule"] == "closed" and "a new policy denies it" in r["reason"]
                    and "shut down" in r["reason"], "its record names the new policy's rule", r)
    r = a.one("request", sandbox="one", host="203.0.113.20", policy=digest)
    b.check(r["verdict"] == "deny" and r["rule"] == "default" and "a new policy denies it" in r["reason"],
            "what no rule allows any more ends on record", r)
    r = a.one("connection", sandbox="one", destination="slow.test", policy=digest, rule="closed")
    b.check("a new policy denies it" in r["reason"] and r["rule"] == "closed", "the idle one's record", r)
    for p in living:
        for _ in range(20):
            b.check(p.stdout.readline() == "more\n", "the others go on")
        p.terminate()
        p.wait()
    got = a.ask("one", "https://slow.test/")
    b.check(got[0] == "000", "and it is refused from now on", got)


# ---- what begins ----


def what_a_new_policy_allows_works_at_once_and_known_names_keep_their_addresses(bed):
    a = _bench(bed)
    status, _, address = a.ask("one", "https://api.test/")
    b.check(status == "200", "what is allowed works", status)
    for url in ("https://new.test/", "https://api.test:8443/", "http://203.0.113.20/"):
        b.check(a.ask("one", url, seconds=5)[0] == "000", f"{url} does not", url)
    a.take("one", _policy("id: api, hosts: [api.test, new.test, moved.test], ports: [443, 8443]",
                          "id: by-address, addresses: [203.0.113.20], protocol: http"))
    begun = time.monotonic()
    for url in ("https://moved.test/", "https://new.test/", "https://api.test:8443/", "http://203.0.113.20/"):
        got = a.ask("one", url)
        b.check(got[0] == "200", f"{url} works", got)
    print(f"      four requests of what is allowed newly: {time.monotonic() - begun:.2f} s")
    b.check(a.ask("one", "https://api.test/")[2] == address, "a known name keeps its address")
    moved = a.ask("one", "https://moved.test/")[2]
    a.take("one", _policy("id: api, hosts: [api.test]", "id: moved, hosts: [moved.test], ports: [8443]"))
    a.begin()
    # By its address: no name is asked for, so that the kernel alone can refuse.
    got = a.ask("one", "--resolve", f"moved.test:443:{moved}", "https://moved.test/", seconds=5)
    b.check(got[1] == 7, "a port that is denied newly is refused by the kernel", got)
    r = a.one("connect", sandbox="one", verdict="deny", destination="moved.test", port=443)
    b.check(r["policy"] == a.digest("one"), "under the new policy", r)
    got = a.ask("one", "https://moved.test:8443/")
    b.check(got[0] == "200" and got[2] == moved, "its other port is open, at the same address", got, moved)
    got = a.ask("one", "http://203.0.113.20/", seconds=5)
    b.check(got[1] == 7, "an address that is denied newly, too", got)
    a.take("one", a.start)
    b.check(a.ask("one", "https://new.test/", seconds=5)[0] == "000", "what was allowed for a while is refused again")
    a.take("one", _policy("id: api, hosts: [api.test, moved.test]"))
    got = a.ask("one", "https://moved.test/")
    b.check(got[0] == "200" and got[2] == moved, "and known again by its old address", got, moved)


def explaining_refusals_is_switched_on_and_off(bed):
    a = _bench(bed)
    b.check(a.ask("one", "http://denied.test/", seconds=5)[0] == "000", "no answer at first")
    a.take("one", _policy("id: api, hosts: [api.test]", explain=True))
    got = b.wait_until("a refusal in words", lambda: (got := a.ask("one", "http://denied.test/"))[0] == "403" and got)
    a.take("one", a.start)
    got = a.ask("one", "--resolve", f"denied.test:80:{got[2]}", "http://denied.test/", seconds=5)
    b.check(got[1] == 7, "the refusal address is closed by the kernel", got)
    b.check(a.ask("one", "http://denied.test/", seconds=5)[0] == "000", "no name leads there any more")


# ---- what changes nothing ----


def _fails(a, *words, options=()):
    before = {name: a.digest(name) for name in ("one", "two")}
    done = a.command("policy", "reload", *options)
    b.check(done.returncode == 1, "the command fails", done.returncode, done.stdout, done.stderr)
    for word in words:
        b.check(word in done.stderr, f"it says {word!r}", done.stderr)
    b.check(before == {name: a.digest(name) for name in ("one", "two")}, "nothing is changed")
    b.check(a.ask("one", "https://api.test/")[0] == "200", "what was allowed works on")
    return done


def a_broken_file_changes_nothing_and_is_told(bed):
    a = _bench(bed)
    before = a.digest("two")
    a.put("one", a.start + "  - {id: bad, hosts: [\"*.com\"]}\n  - {id: api, hosts: [x.test]}\n")
    a.put("two", _policy("id: api, hosts: [api.test, more.test]"))
    _fails(a, f"{a.path('one')}:5:", f"{a.path('one')}:6:")
    r = a.one("policy_reject")
    b.check(r["file"] == a.path("one") and f"{a.path('one')}:5:" in r["diagnostics"], "it is on record", r)
    b.check(len(a.records("policy_reject")) == 1 and not a.records("policy_load"), "and nothing else", a.records())
    a.process.send_signal(signal.SIGHUP)
    b.wait_until("SIGHUP's word", lambda: "a policy does not load, nothing is changed" in a.said())
    b.wait_until("its record", lambda: len(a.records("policy_reject")) == 2)
    answer = a.reload("--sandbox", "two")
    b.check(answer["files"] == 1 and answer["changed"] == 1, "the other one alone is put in force", answer)
    b.check(a.ask("two", "https://more.test/")[0] == "200", "and is")
    r = a.one("policy_load", sandbox="two")
    b.check(r["policy"] == a.digest("two") and r["before"] == before, "that is on record", r)
    done = a.command("policy", "reload", "--sandbox", "nobody")
    b.check(done.returncode == 1 and "nobody" in done.stderr, "one that is not there is told", done.stderr)


def a_file_that_is_gone_changes_nothing(bed):
    a = _bench(bed)
    os.unlink(a.path("one"))
    a.put("two", _policy("id: api, hosts: [api.test, more.test]"))
    _fails(a, a.path("one"), "No such file")
    r = a.one("policy_reject")
    b.check(r["file"] == a.path("one") and "No such file" in r["diagnostics"], "it is on record", r)


# ---- at the same time ----


def reloads_at_the_same_time_end_with_the_last_policy(bed):
    a = _bench(bed)
    answers, stop = [], threading.Event()

    def reload(n):
        for _ in range(4):
            answers.append(a.command("policy", "reload", "--json", *(["--sandbox", "one"] if n % 2 else [])))

    def hup():
        while not stop.wait(0.05):
            a.process.send_signal(signal.SIGHUP)

    threads = [threading.Thread(target=reload, args=(n,)) for n in range(4)]
    hups = threading.Thread(target=hup)
    for t in [*threads, hups]:
        t.start()
    for n in range(12):
        a.put("one", _policy("id: api, hosts: [api.test]", f"id: n{n}, hosts: [n{n}.test]"))
        b.check(a.ask("one", "https://api.test/")[0] == "200", "what all allow works")
    for t in threads:
        t.join(60)
    stop.set()
    hups.join()
    b.check(len(answers) == 16 and all(done.returncode == 0 for done in answers), "all are answered", answers)
    a.put("one", _policy("id: api, hosts: [api.test, new.test]"))
    a.reload()
    b.check(a.ask("one", "https://new.test/")[0] == "200", "the last policy is in force")
    loads = a.records("policy_load", sandbox="one")
    b.check(loads[-1]["policy"] == a.digest("one") and
            all(x["policy"] == y["before"] for x, y in zip(loads, loads[1:])), "one after the other", loads)


def a_reload_while_a_role_is_replaced_is_taken_by_its_successor(bed):
    a = _bench(bed)
    more = "credentials:\n  c: {kind: bearer, secret: token, hosts: [secret.test]}\n"
    for n, role in enumerate(("broker", "dialer", "worker", "worker", "broker", "dialer")):
        text = _policy("id: api, hosts: [api.test]", "id: with, hosts: [secret.test], credential: c",
                       f"id: n{n}, hosts: [new.test]", more=more)
        before = _policy("id: api, hosts: [api.test]", f"id: m{n}, hosts: [moved.test]")
        a.take("one", before)
        pid = a.worker("one") if role == "worker" else a.ready(role)[0]
        os.kill(pid, signal.SIGKILL)
        # Some of these meet none, some one that has been told its start, some one that is ready.
        took = [a.take("one", text + f"# {k}\n  - {{id: k{k}, hosts: [k{k}.test]}}\n" if k else text)["s"]
                for k in (3, 2, 1, 0)]
        b.wait_until(f"the {role}'s successor", lambda: (a.worker("one") if role == "worker" else
                                                         (a.ready(role) or [None])[0]) not in (None, pid))
        for url in ("https://new.test/", "https://secret.test/", "https://api.test/"):
            b.wait_until(f"{url} after the {role}", lambda: a.ask("one", url)[0] == "200")
        b.check(a.ask("one", "https://moved.test/", seconds=5)[0] == "000", f"the {role}'s has the new policy")
        print(f"      {role} killed: reloads answered after", " ".join(f"{s:.2f}" for s in took), "s")


def a_sandbox_that_starts_meanwhile_has_the_policy_that_was_read_last(bed):
    a = _bench(bed)
    for n in range(6):
        ns = namespace.Namespace()
        p = subprocess.Popen([b.EXEAT, "sandbox", "attach", f"late{n}", "--socket", a.socket, "--netns", ns.path,
                              "--policy", "one"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for k in range(n + 1):
            a.put("one", _policy("id: api, hosts: [api.test]", f"id: late{n}{k}, hosts: [late.test]"))
            a.reload()
        b.check(p.wait(60) == 0, "it starts", a.said())
        b.check(a.digest(f"late{n}") == a.digest("one"), "it has the last one", a.sandbox(f"late{n}"))
        b.check(a.command("sandbox", "stop", f"late{n}").returncode == 0, "it stops")
        ns.close()


# ---- a large one ----


def a_policy_of_200000_hosts_is_put_in_force_under_load(bed):
    a = _bench(bed)
    a.put("load", a.start)
    a.start_load("load3", "load", "api.test")
    a.goes_on("load3", 8)
    hosts = ", ".join(f"h{n}.zone{n % 1000}.test" for n in range(200000))
    gaps, stop = {"a request of another box": 0.0, "an answer of the supervisor": 0.0}, threading.Event()

    def watch():
        n, since = len(a.answers("load3")), time.monotonic()
        while not stop.wait(0.02):
            begun = time.monotonic()
            a.get("status")
            now = time.monotonic()
            gaps["an answer of the supervisor"] = max(gaps["an answer of the supervisor"], now - begun)
            gaps["a request of another box"] = max(gaps["a request of another box"], now - since)
            if len(a.answers("load3")) > n:
                n, since = len(a.answers("load3")), now

    t = threading.Thread(target=watch)
    t.start()
    answer = a.take("one", _policy("id: api, hosts: [api.test, new.test]", f"id: many, hosts: [{hosts}]"))
    stop.set()
    t.join()
    print(f"      reload: {answer['s']:.2f} s; longest wait for " +
          "; for ".join(f"{what} {s:.2f} s" for what, s in gaps.items()))
    b.check(a.ask("one", "https://new.test/")[0] == "200", "it is in force")
    a.goes_on("load3", 8)
    bad = {path: got for path, got in a.answers("load3").items() if got != "200"}
    b.check(not bad, "no request fails", bad)
    a.stop_box("load3", "--kill")


# ---- its sources ----


def the_sources_of_all_that_was_in_force_are_kept(bed):
    a = _bench(bed)
    texts = {}
    for n in range(3):
        text = _policy("id: api, hosts: [api.test]", f"id: kept{n}, hosts: [kept{n}.test]") + f"# source {n}\n"
        a.take("one", text)
        texts[a.digest("one")] = text
    b.check(len(texts) == 3, "three policies", texts.keys())
    for digest, text in texts.items():
        show = lambda: subprocess.run([b.EXEAT, "policy", "show", digest, "--log", a.log_path], capture_output=True,
                                      text=True, check=False)
        b.wait_until("its source", lambda: show().returncode == 0)
        b.check(show().stdout == text, "it is what was in force", show())


def its_log_verifies_and_it_ends_in_order(bed):
    a = _bench(bed)
    a.end()
    a.verify()
    b.check(a.left_behind() == [], "nothing is left", a.left_behind())


if __name__ == "__main__":
    b.main(b.cases(globals()))
