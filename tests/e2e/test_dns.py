"""The names are ours: what a resolver in the box sees, and what is asked upstream."""

import struct

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test, "*.wide.test"]}
deny:
  - {id: never, hosts: [never.wide.test], reason: Not this one.}
"""

# A resolver for the box: builds queries by hand, prints (rcode, tc, answers, authority, ede code, ede text).
RESOLVER = r"""
import socket, struct
def build(name, qtype=1, qclass=1, opcode=0, edns=None, qd=1, ident=7):
    q = b"".join(bytes([len(p)]) + p for p in (name.encode() if isinstance(name, str) else name).split(b".") if p) + b"\0"
    m = struct.pack("!HHHHHH", ident, 0x0100 | opcode << 11, qd, 0, 0, 1 if edns else 0)
    m += (q + struct.pack("!HH", qtype, qclass)) * min(qd, 1)
    return m + (b"\0" + struct.pack("!HHIH", 41, edns, 0, 0) if edns else b"")
def skip(m, at):
    while m[at]:
        if m[at] >= 192: return at + 2
        at += 1 + m[at]
    return at + 1
def read(m):
    ident, flags, qd, an, ns, ar = struct.unpack("!HHHHHH", m[:12])
    at = 12
    for _ in range(qd): at = skip(m, at) + 4
    answers, authority, ede = [], [], None
    for section, n in ((answers, an), (authority, ns), (None, ar)):
        for _ in range(n):
            at = skip(m, at)
            t, c, ttl, n = struct.unpack("!HHIH", m[at:at + 10]); at += 10
            data = m[at:at + n]; at += n
            if section is not None: section.append((t, socket.inet_ntoa(data) if t == 1 else len(data), ttl))
            elif t == 41:
                while data:
                    code, size = struct.unpack("!HH", data[:4])
                    if code == 15: ede = (struct.unpack("!H", data[4:6])[0], data[6:4 + size].decode())
                    data = data[4 + size:]
    return dict(rcode=flags & 15, tc=flags >> 9 & 1, answers=answers, authority=[a[0] for a in authority], ede=ede)
SERVER = [l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver")][0]
def raw(packet, server=None):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(8)
    s.connect((server or SERVER, 53)); s.send(packet)
    return s.recv(65535)
def ask(name, qtype=1, server=None, edns=1232, **more):
    return read(raw(build(name, qtype, edns=edns, **more), server))
"""


def _resolve(bed, code):
    return bed.run(["python3", "-c", RESOLVER + code], POLICY)


def _zone(bed):
    bed.dns.zone.update({"api.test": ["203.0.113.10"], "a.wide.test": ["203.0.113.10", "2001:db8::10"],
                         "never.wide.test": ["203.0.113.10"],
                         "nodata.wide.test": lambda t: (0, []), "servfail.wide.test": lambda t: (2, []),
                         "silent.wide.test": lambda t: None,
                         "big.wide.test": [f"203.0.113.{i}" for i in range(10, 70)]})
    bed.dns.truncate.add("big.wide.test")


def allowed_names_get_a_synthetic_address_from_any_server(bed):
    _zone(bed)
    run = _resolve(bed, """
one, two = ask("api.test"), ask("API.test", server="8.8.8.8")
print(one["answers"][0][1].startswith("198.18.") or one["answers"][0][1].startswith("198.19."), one["answers"] == two["answers"] or one["answers"][0][1] == two["answers"][0][1], one["rcode"])
print(ask("api.test", 12, server=None)["rcode"])
name = ".".join(reversed(one["answers"][0][1].split("."))) + ".in-addr.arpa"
print(ask(name, 12)["answers"][0][0])
""")
    b.check(run.out.splitlines()[0] == "True True 0", "one address, whoever is asked", run.out, run.err)
    b.check(run.out.splitlines()[2] == "12", "and its name back", run.out)


def refused_names_get_the_refusal_address_and_say_why(bed):
    _zone(bed)
    run = _resolve(bed, """
for n in ("evil.test", "never.wide.test"):
    r = ask(n); print(n, r["rcode"], len(r["answers"]), r["answers"][0][2] <= 5, r["ede"])
print(ask("evil.test")["answers"][0][1] == ask("never.wide.test")["answers"][0][1])
print(ask("evil.test", edns=None)["ede"])
""")
    lines = run.out.splitlines()
    b.check(lines[0].startswith("evil.test 0 1 True (15, ") and "default" in lines[0], "EDE 15 with the rule", run.out, run.err)
    b.check("never" in lines[1], "the deny's id", run.out)
    b.check(lines[2] == "True" and lines[3] == "None", "one shared address; no EDNS, no option", run.out)
    b.check(not bed.dns.asked("evil.test") and not bed.dns.asked("never.wide.test"), "nothing went upstream")


def other_types_are_no_data_with_a_soa(bed):
    _zone(bed)
    run = _resolve(bed, """
for n in ("api.test", "evil.test"):
    for t in (28, 65, 64, 16, 15, 33, 257): r = ask(n, t); print(r["rcode"], len(r["answers"]), r["authority"])
""")
    b.check(run.out.splitlines() == ["0 0 [6]"] * 14, "NOERROR, nothing, SOA", run.out, run.err)


def search_list_names_are_nxdomain_at_once(bed):
    _zone(bed)
    run = _resolve(bed, """
for n in ("api.test.svc.cluster.local", "api.test.example.org", "router", "printer.local", "db.home.arpa", "x.localhost", "a.internal"):
    print(n, ask(n)["rcode"])
""")
    b.check([l.split()[1] for l in run.out.splitlines()] == ["3"] * 7, "NXDOMAIN", run.out, run.err)


def upstreams_codes_are_kept(bed):
    _zone(bed)
    run = _resolve(bed, """
for n in ("nodata.wide.test", "missing.wide.test", "servfail.wide.test", "silent.wide.test"):
    r = ask(n); print(n, r["rcode"], len(r["answers"]), r["ede"] and r["ede"][0])
print(ask("big.wide.test")["rcode"], ask("api.test")["rcode"])
""")
    lines = [l.split() for l in run.out.splitlines()]
    b.check([l[1] for l in lines[:4]] == ["0", "3", "2", "2"] and all(l[2] == "0" for l in lines[:4]), "as upstream said", run.out, run.err)
    b.check(lines[3][3] in ("22", "23"), "and that it could not be reached", run.out)
    b.check(lines[4] == ["0", "0"], "a truncated answer was asked again over TCP", run.out)
    b.check(("big.wide.test", 1, "tcp") in bed.dns.queries, "over TCP", bed.dns.queries)


def odd_questions_get_their_codes_and_the_service_goes_on(bed):
    _zone(bed)
    run = _resolve(bed, r"""
print(read(raw(build("api.test", opcode=4)))["rcode"], read(raw(build("api.test", opcode=5)))["rcode"])
print(read(raw(build("api.test", qclass=3)))["rcode"])
print(read(raw(build("api.test", qd=0)))["rcode"], read(raw(build("api.test", qd=2)))["rcode"])
print(read(raw(struct.pack("!HHHHHH", 9, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1"))["rcode"])
print(ask("", 2)["rcode"], ask(b"a b.test")["rcode"] in (0, 3), ask(b"a\0b.test")["rcode"] in (0, 3))
print(ask("x" * 63 + "." + "y" * 63 + "." + "z" * 63 + "." + "w" * 60)["rcode"] in (0, 3))
print(ask("api.test")["rcode"])
""")
    lines = run.out.splitlines()
    b.check(lines[0] == "4 4", "NOTIMP", run.out, run.err)
    b.check(lines[1] == "5" and lines[2] == "1 1" and lines[3] == "1", "REFUSED, FORMERR", run.out)
    b.check(lines[4].endswith("True True") and lines[5] == "True" and lines[6] == "0", "odd names, and still there", run.out)


def tcp_takes_pipelined_and_dribbled_queries(bed):
    _zone(bed)
    run = _resolve(bed, """
s = socket.create_connection(("9.9.9.9", 53), timeout=10)
a, c = build("api.test", ident=1), build("a.wide.test", ident=2)
s.sendall(struct.pack("!H", len(a)) + a + struct.pack("!H", len(c)) + c)
f = s.makefile("rb")
got = set()
for _ in range(2):
    m = f.read(struct.unpack("!H", f.read(2))[0]); got.add(m[1]); print(read(m)["rcode"])
print(sorted(got))
s = socket.create_connection((SERVER, 53), timeout=10)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for x in struct.pack("!H", len(a)) + a: s.sendall(bytes([x]))
f = s.makefile("rb")
print(read(f.read(struct.unpack("!H", f.read(2))[0]))["rcode"])
""")
    b.check(run.out.split() == ["0", "0", "[1,", "2]", "0"], "both answers", run.out, run.err)


def rebinding_finds_nothing_to_hold(bed):
    _zone(bed)
    turn = [0]

    def flip(qtype):
        if qtype != 1:
            return 0, []
        turn[0] += 1
        address = b"\x7f\0\0\1" if turn[0] % 2 == 0 else bytes([203, 0, 113, 10])
        return 0, [(1, address, 0)]
    bed.dns.zone["flip.wide.test"] = flip
    b.Origin(bed, b.http(b.echo), cert=bed.cert("flip.wide.test"))
    run = bed.run("for i in $(seq 12); do curl -sS -o /dev/null -w '%{http_code} %{remote_ip}\\n' https://flip.wide.test/; done", POLICY)
    lines = [l.split() for l in run.out.splitlines()]
    b.check(len({l[1] for l in lines if l[0] != "000"}) == 1, "one synthetic address", run.out, run.err)
    b.check({l[0] for l in lines} <= {"200", "502"}, "the checked address or a refusal", run.out)
    b.check({r.get("address") for r in run.records("dial")} <= {"203.0.113.10", None}, "never loopback", run.records("dial"))


def a_dead_first_address_costs_little(bed):
    _zone(bed)
    bed.dns.zone["eyes.wide.test"] = ["2001:db8::77", "203.0.113.99", "203.0.113.15"]
    b.Origin(bed, b.http(b.echo), address="203.0.113.15", cert=bed.cert("eyes.wide.test"))
    run = bed.run("curl -sS -o /dev/null -w '%{http_code} %{time_total}' https://eyes.wide.test/", POLICY)
    code, seconds = run.out.split()
    b.check(code == "200" and float(seconds) < 8, "connected by the good one", run.out, run.err)
    dial = run.records("dial", destination="eyes.wide.test")
    b.check(dial and dial[0]["address"] == "203.0.113.15" and "203.0.113.99" in dial[0].get("attempts", ""), "attempts are logged", dial)


def an_origin_with_ipv6_only_is_reached(bed):
    _zone(bed)
    bed.dns.zone["six.wide.test"] = ["2001:db8::12"]
    b.Origin(bed, b.http(b.echo), address="2001:db8::12", cert=bed.cert("six.wide.test"))
    run = bed.run("curl -sS -o /dev/null -w '%{http_code}' https://six.wide.test/", POLICY)
    b.check(run.out == "200", "from an IPv4 box", run.out, run.err)
    b.check(run.records("dial", address="2001:db8::12"), "over IPv6", run.records("dial"))


b.main(b.cases(globals()))
