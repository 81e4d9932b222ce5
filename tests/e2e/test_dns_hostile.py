"""What a hostile DNS server says, and what a hostile box asks: bounded, recorded, and others go on."""

import os
import socket
import struct
import subprocess
import threading

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test, "*.wide.test"]}
"""
HEADER = "!HHHHHH"


class Raw:
    """A DNS server of the test's own that answers a query with the packets that a function makes."""

    def __init__(self, bed, address):
        self.address, self.udp, self.tcp = address, bed.listen(address, 53, socket.SOCK_DGRAM), bed.listen(address, 53)
        self.answer, self.queries = None, []
        threading.Thread(target=self._udp, daemon=True).start()
        threading.Thread(target=self._tcp, daemon=True).start()

    def _one(self, packet):
        name, at = [], 12
        while packet[at]:
            name.append(packet[at + 1:at + 1 + packet[at]].decode().lower())
            at += 1 + packet[at]
        qtype, name = struct.unpack("!H", packet[at + 1:at + 3])[0], ".".join(name)
        self.queries.append((name, qtype))
        return self.answer(packet[:2], packet[12:at + 5], name, qtype)

    def _udp(self):
        while True:
            packet, peer = self.udp.recvfrom(65535)
            for reply in self._one(packet):
                self.udp.sendto(reply, peer)

    def _tcp(self):
        while True:
            s, _ = self.tcp.accept()
            threading.Thread(target=self._stream, args=(s,), daemon=True).start()

    def _stream(self, s):
        f = s.makefile("rb")
        while True:
            head = f.read(2)
            if len(head) < 2:
                return
            try:
                for reply in self._one(f.read(struct.unpack("!H", head)[0])):
                    s.sendall(struct.pack("!H", len(reply)) + reply)
            except OSError:
                return


def _head(ident, flags=0x8180, qd=1, an=0, ns=0, ar=0):
    return ident + struct.pack("!HHHHH", flags, qd, an, ns, ar)


def _rr(rtype, data, ttl=60, name=b"\xc0\x0c", rclass=1):
    return name + struct.pack("!HHIH", rtype, rclass, ttl, len(data)) + data


def _a(last, ttl=60, name=b"\xc0\x0c"):
    return _rr(1, bytes([203, 0, 113, last]), ttl, name)


def _echo_once(request, origin):
    """So that the next request needs a connection, and an address."""
    return b.echo(request, origin).replace(b"content-type:", b"connection: close\r\ncontent-type:", 1)


def _raw(bed):
    if not hasattr(bed, "raw"):
        bed.raw = Raw(bed, "203.0.113.29")
        bed.origin = b.Origin(bed, b.http(_echo_once), cert=bed.cert("api.test", "*.wide.test"))
        bed.trap = b.Origin(bed, b.http(_echo_once), address="203.0.113.20", cert=bed.cert("api.test", "*.wide.test"))
    bed.raw.queries.clear()
    bed.trap.connections = 0
    return bed.raw


def _settings(bed):
    with open(bed.settings(), encoding="utf-8") as f:
        text = f.read().replace(bed.DNS, bed.raw.address).replace("timeout: 2s", "timeout: 1s")
    return bed.write("raw.yaml", text)


def _run(bed, command, **more):
    return bed.run(command, POLICY, settings=_settings(bed), **more)


CURL = "curl -sS -m 15 -o /dev/null -w '%{http_code} ' https://NAME/ 2>/dev/null; "


def answers_to_another_question_are_not_taken(bed):
    raw = _raw(bed)

    def answer(ident, question, name, qtype):
        if qtype != 1:
            return [_head(ident) + question]
        wrong_id = bytes([ident[0] ^ 1, ident[1]])
        other = b.Dns.wire_name("other.test") + struct.pack("!HH", 1, 1)
        if name == "id.wide.test":
            return [_head(wrong_id, an=1) + question + _a(20), _head(ident, an=1) + question + _a(10)]
        if name == "question.wide.test":
            return [_head(ident, an=1) + other + _a(20), _head(ident, an=1) + question + _a(10)]
        if name == "owner.wide.test":      # an address of a name that was not asked for
            return [_head(ident, an=1) + question + _a(20, name=b.Dns.wire_name("other.test"))]
        if name == "query.wide.test":      # a query, no answer
            return [_head(ident, flags=0x0100, an=1) + question + _a(20), _head(ident, an=1) + question + _a(10)]
        return [_head(ident, flags=0x8183) + question]
    raw.answer = answer
    run = _run(bed, "".join(CURL.replace("NAME", f"{n}.wide.test") for n in ("id", "question", "owner", "query")))
    b.check(bed.trap.connections == 0, "never what was not asked for", run.out, run.records("dial"))
    b.check(run.out.split()[:2] == ["200", "200"], "the right answer counts", run.out, run.records("dns"))
    b.check(run.records("dns", name="query.wide.test", rcode="SERVFAIL"), "a query is no answer", run.records("dns"))
    b.check(run.out.split()[2] != "200", "and there is none for another owner", run.out)


def the_other_sections_are_not_believed(bed):
    raw = _raw(bed)

    def answer(ident, question, name, qtype):
        poison = _a(20, name=b.Dns.wire_name("api.test"))
        if name == "one.wide.test" and qtype == 1:
            ns = _rr(2, b.Dns.wire_name("api.test"), name=b.Dns.wire_name("test"))
            return [_head(ident, an=2, ns=1, ar=1) + question + _a(10) + poison + ns + poison]
        if name == "api.test" and qtype == 1:
            return [_head(ident, an=1) + question + _a(10)]
        return [_head(ident) + question]
    raw.answer = answer
    run = _run(bed, CURL.replace("NAME", "one.wide.test") + CURL.replace("NAME", "api.test"))
    b.check(run.out.split() == ["200", "200"] and bed.trap.connections == 0, "asked for itself, not believed from aside",
            run.out, run.records("dial"))
    b.check(("api.test", 1) in raw.queries, "its own query went out", raw.queries)


def malformed_answers_are_a_failure_and_no_more(bed):
    raw = _raw(bed)
    shapes = {
        "loop": lambda i, q: [_head(i, an=1) + q + _a(10, name=struct.pack("!H", 0xc000 | 12 + len(q)))],
        "forward": lambda i, q: [_head(i, an=1) + q + _a(10, name=b"\xff\xff")],
        "short": lambda i, q: [_head(i, an=1) + q + _a(10)[:-2]],
        "counts": lambda i, q: [_head(i, an=65535, ns=65535, ar=65535) + q + _a(10)],
        "empty": lambda i, q: [b"", i, _head(i)[:7]],
        "length": lambda i, q: [_head(i, an=1) + q + _rr(1, b"\xcb\0\x71\x0a\0")],
        "class": lambda i, q: [_head(i, an=1) + q + _rr(1, bytes([203, 0, 113, 20]), rclass=3)],
        "self": lambda i, q: [_head(i, an=1) + q + _rr(5, b"\xc0\x0c")],
        "labels": lambda i, q: [_head(i, an=1) + q + _a(10, name=b"\x3f" + b"x" * 63)],
        "nxdata": lambda i, q: [_head(i, flags=0x8183, an=1) + q + _a(20)],
        "huge": lambda i, q: [_head(i, an=4000) + q + b"".join(_a(10) for _ in range(4000))],
    }
    raw.answer = lambda ident, question, name, qtype: \
        shapes[name.split(".")[0]](ident, question) if name.endswith("wide.test") and qtype == 1 \
        else [_head(ident, an=1) + question + _a(10)] if name == "api.test" and qtype == 1 else [_head(ident) + question]
    run = _run(bed, "".join(f"(getent ahostsv4 {n}.wide.test >/dev/null; echo {n} $?) & " for n in shapes) + "wait; "
               + CURL.replace("NAME", "api.test"), timeout=90)
    b.check(run.status == 0 and run.out.split()[-1] == "200", "the service goes on", run.out, run.err)
    for n in shapes:
        found = run.records("dns", name=f"{n}.wide.test", type="A")
        b.check(found and (n == "huge" or not any("203.0.113.20" in r.get("answers", "") for r in found)),
                f"{n}: on record, without what is no answer", found)
    b.check(bed.trap.connections == 0, "nothing of it was dialled")


def a_flood_of_answers_changes_nothing(bed):
    raw = _raw(bed)

    def answer(ident, question, name, qtype):
        if qtype != 1:
            return [_head(ident) + question]
        guesses = [_head(struct.pack("!H", i), an=1) + question + _a(20) for i in range(2000)
                   if struct.pack("!H", i) != ident]
        return guesses + [_head(ident, an=1) + question + _a(10)] * 50
    raw.answer = answer
    run = _run(bed, "".join(CURL.replace("NAME", f"f{i}.wide.test") for i in range(5)))
    b.check(bed.trap.connections == 0, "no guess is taken", run.records("dial"))
    b.check(set(run.out.split()) <= {"200", "502", "504", "000"} and run.status is not None, "and it goes on", run.out)


def chains_of_aliases_end_somewhere_allowed_or_nowhere(bed):
    raw = _raw(bed)
    places = {"meta": b"\xa9\xfe\xa9\xfe", "loopback": b"\x7f\0\0\1", "own": bytes([203, 0, 113, 1]),
              "pool": b"\xc6\x12\0\x05", "good": bytes([203, 0, 113, 10])}

    def answer(ident, question, name, qtype):
        kind = name.split(".")[0]
        if qtype != 1:
            return [_head(ident) + question]
        if kind == "loop":
            one, two = (b.Dns.wire_name(f"{n}.wide.test") for n in ("loop", "pool2"))
            return [_head(ident, an=2) + question + _rr(5, two) + _rr(5, one, name=two)]
        names = [b"\xc0\x0c"] + [b.Dns.wire_name(f"hop{i}.elsewhere.test") for i in range(9)]
        chain = b"".join(_rr(5, names[i + 1], name=names[i]) for i in range(9))
        return [_head(ident, an=10) + question + chain + _rr(1, places[kind], name=names[9])]
    raw.answer = answer
    run = _run(bed, "".join(CURL.replace("NAME", f"{n}.wide.test") for n in [*places, "loop"]))
    codes = dict(zip([*places, "loop"], run.out.split()))
    b.check(codes["good"] == "200", "the rule is about the name that was asked for", codes, run.records("dns"))
    for n in ("meta", "loopback", "own", "pool"):
        b.check(codes[n] == "502", f"{n}: a prohibited address is refused in words", codes)
        found = run.records("dial", destination=f"{n}.wide.test")
        b.check(found and found[0]["proxy_error"] == "destination_ip_prohibited", n, found)
    b.check(codes["loop"] in ("000", "502"), "a loop leads nowhere", codes)


def lifetimes_are_bounded(bed):
    raw = _raw(bed)
    ttl = {"zero": 0, "top": 2 ** 31, "all": 2 ** 32 - 1}
    raw.answer = lambda ident, question, name, qtype: [
        _head(ident, an=1) + question + _a(10, ttl=ttl[name.split(".")[0]]) if qtype == 1 else _head(ident) + question]
    run = _run(bed, ["python3", "-c", """
import socket, struct
server = [l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver")][0]
for n in ("zero", "top", "all"):
    q = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(p)]) + p.encode() for p in (n + ".wide.test").split(".")) + b"\\0\\0\\1\\0\\1"
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); s.connect((server, 53)); s.send(q)
    m = s.recv(9999)
    print(n, m[3] & 15, struct.unpack("!I", m[len(q) + 6:len(q) + 10])[0])
"""])
    lines = [l.split() for l in run.out.splitlines()]
    b.check(len(lines) == 3 and all(l[1] == "0" for l in lines), "answered", run.out, run.err)
    b.check(all(1 <= int(l[2]) <= 60 for l in lines), "never 0, never for ever", run.out)


def an_old_address_is_not_used_for_ever(bed):
    """Field case F141: once it has expired, what upstream says now counts, also when it says nothing."""
    raw = _raw(bed)
    says = {"now": "good"}

    def answer(ident, question, name, qtype):
        if says["now"] == "servfail":
            return [_head(ident, flags=0x8182) + question]
        if says["now"] == "nxdomain":
            return [_head(ident, flags=0x8183) + question]
        if says["now"] == "silent":
            return []
        return [_head(ident, an=1) + question + _a(10 if says["now"] == "good" else 20, ttl=1) if qtype == 1
                else _head(ident) + question]
    raw.answer = answer
    run = bed.start("a=$(getent hosts api.test | cut -d' ' -f1); while read x; do curl -m 15 -sS -o /dev/null -w "
                    "'%{http_code}\\n' --resolve api.test:443:$a https://api.test/ 2>/dev/null; done", POLICY,
                    settings=_settings(bed), stdin=subprocess.PIPE)

    def ask():
        run.process.stdin.write(b"x\n")
        run.process.stdin.flush()
        return run.process.stdout.readline().decode().strip()
    b.check(ask() == "200", "at first")
    for what in ("servfail", "nxdomain", "silent"):
        says["now"] = what
        b.wait_until(f"{what}: the old one to be given up", lambda: ask() in ("502", "504"), 8)
        says["now"] = "good"
        b.wait_until(f"{what}: it to be back", lambda: ask() == "200", 8)
    before = bed.trap.connections
    says["now"] = "moved"
    b.wait_until("the new one", lambda: ask() == "200" and bed.trap.connections > before, 5)
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    b.check(run.status in (0, 1), "the run ends as usual", run.status, run.err)


def a_stalled_first_address_is_given_up_for_the_second(bed):
    """Field case F142: dead first A, refused first A."""
    raw = _raw(bed)
    raw.answer = lambda ident, question, name, qtype: [
        _head(ident, an=2) + question + (_a(99) if name.startswith("dead") else _a(28)) + _a(10) if qtype == 1
        else _head(ident) + question]
    run = _run(bed, "for n in dead refused; do curl -sS -o /dev/null -w '%{http_code} %{time_total}\\n' "
               "https://$n.wide.test/; done")
    lines = [l.split() for l in run.out.splitlines()]
    b.check([l[0] for l in lines] == ["200", "200"], "connected by the good one", run.out, run.err)
    b.check(all(float(l[1]) < 8 for l in lines), "long before a connect times out", run.out)
    for n, last in (("dead", 99), ("refused", 28)):
        dial = run.record("dial", destination=f"{n}.wide.test")
        b.check(dial["address"] == "203.0.113.10" and f"203.0.113.{last}" in dial["attempts"], "attempts are logged", dial)


def _told(records):
    """How many questions these records tell of."""
    return sum(r.get("count", 0) + r.get("suppressed", 0) + ("count" not in r and "suppressed" not in r)
               for r in records)


FLOOD = r"""
import socket, struct, sys, threading, time
server = [l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver")][0]
def query(name, ident):
    return struct.pack("!HHHHHH", ident & 65535, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0\0\1\0\1"
def udp(names):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((server, 53)); s.setblocking(False)
    for i, n in enumerate(names):
        try: s.send(query(n, i))
        except OSError: pass
        try:
            while True: s.recv(4096)
        except OSError: pass
def tcp(names):
    s = socket.create_connection((server, 53), timeout=30)
    f, codes, names = s.makefile("rb"), {}, list(names)
    for at in range(0, len(names), 32):
        part = names[at:at + 32]
        s.sendall(b"".join(struct.pack("!H", len(q)) + q for q in (query(n, i) for i, n in enumerate(part))))
        for _ in part:
            m = f.read(struct.unpack("!H", f.read(2))[0]); codes[m[3] & 15] = codes.get(m[3] & 15, 0) + 1
    return codes
"""


def a_box_that_floods_the_names_fills_its_own_table_only(bed):
    raw = _raw(bed)
    raw.answer = lambda ident, question, name, qtype: [
        _head(ident, an=1) + question + _a(10) if qtype == 1 else _head(ident) + question]
    run = _run(bed, ["python3", "-c", FLOOD + """
print(tcp(["api.test"]))
print(tcp(f"n{i}.wide.test" for i in range(4400)))
print(tcp(["api.test", "n1.wide.test"]), tcp(["one-more.wide.test"]))
"""], timeout=200)
    lines = [eval(l.replace("} {", "}, {")) for l in run.out.splitlines()]
    b.check(len(lines) == 3, "all answered", run.out, run.err)
    b.check(lines[1] == {0: 4095, 2: 305}, "4,096 names, and SERVFAIL for the rest", lines)
    b.check(lines[2] == ({0: 2}, {2: 1}), "names that are known go on", lines)
    full = [r for r in run.records("dns", verdict="deny") if "leased" in r.get("reason", "") or "suppressed" in r]
    b.check(full and full[0]["rcode"] == "SERVFAIL" and full[0]["name"].endswith(".wide.test"), "on record", full[:2])
    b.check(_told(full) == 306, "one by one or counted", _told(full), full[-2:])
    run.verify()


def a_flood_of_queries_is_answered_or_counted(bed):
    raw = _raw(bed)
    raw.answer = lambda ident, question, name, qtype: [
        _head(ident, an=1) + question + _a(10) if qtype == 1 else _head(ident) + question]
    run = _run(bed, ["python3", "-c", FLOOD + """
same, many = ["evil.test"] * 10000, [f"x{i}.evil.test" for i in range(10000)]
threads = [threading.Thread(target=udp, args=(n,)) for n in (same, many)]
[t.start() for t in threads]; [t.join() for t in threads]
print(tcp(same), tcp(many), flush=True)
"""] , timeout=200)
    b.check(run.out.strip() == "{0: 10000} {0: 10000}", "each that was asked over TCP has its answer", run.out, run.err)
    records = run.records("dns")
    size = os.path.getsize(run.log_path)
    b.check(size < 2_000_000, "the log stays small", size, len(records))
    b.check(_told(records) >= 20000, "and nothing is missing in its counts", _told(records), len(records))
    run.verify()


b.main(b.cases(globals()))
