"""What a policy's words come to, for clients as they are: ports, methods and paths whatever the protocol,
names in every layer, and the ways around that clients know: proxies, numbers for addresses, names that
two readers read differently, redirects, credentials of their own."""

import base64

import bed as b
import clients as c

TOKEN = "real-token-77d0c1b2a396"
CODE = "curl -sS -k -o /dev/null -w '%{http_code} ' "


def _origin(bed):
    """One origin for every name and several ports, of TLS and of plain HTTP."""
    if hasattr(bed, "secure"):
        return
    names = ("svc.test", "git.test", "blob.test", "apex.test", "*.apex.test", "*.sub.test", "trusted.test", "wide.test", "*.wide.test")
    bed.secure = {port: b.Origin(bed, b.http(_serve), "203.0.113.19", port, bed.cert(*names)) for port in (443, 8443)}
    bed.clear = {port: b.Origin(bed, b.http(_serve), "203.0.113.19", port) for port in (80, 8080, 3142)}
    for origin in [*bed.secure.values(), *bed.clear.values()]:
        origin.got = []


def _serve(request, origin):
    if request.target == "/moved":
        return b.answer(302, b"", [("location", "https://blob.test/object?X-Amz-Signature=deadbeefcafe&X-Amz-Expires=60")])
    if request.target == "/whoami":
        user = base64.b64encode(f"robot:{TOKEN}".encode()).decode()
        mine = request.get("authorization") == "Basic " + user
        return b.answer(200, "the robot\n") if mine else b.answer(401, "no\n", [("www-authenticate", 'Basic realm="git"')])
    return c.page(request, origin)


def _run(bed, script, rules, names=(), **more):
    _origin(bed)
    bed.dns.zone.update({name: ["203.0.113.19"] for name in names})
    return bed.run(script, "exeat: 1\nprecedence: deny-over-allow\n" + rules, **more)


def _reached(bed):
    return sum(o.connections for o in [*bed.secure.values(), *bed.clear.values()])


def a_rule_for_a_port_opens_no_other(bed):
    _origin(bed)
    before = _reached(bed)
    closed = (22, 80, 444, 853, 3000, 5432, 8080, 9999, 65535)
    run = _run(bed, CODE + "https://svc.test/; echo; for p in " + " ".join(map(str, closed)) + "; do " + CODE +
               "http://svc.test:$p/ 2>/dev/null; echo $?; done", "allow:\n  - {id: svc, hosts: [svc.test], ports: [443]}\n", ["svc.test"])
    lines = run.out.split("\n")
    b.check(lines[0] == "200 " and lines[1:-1] == ["000 7"] * len(closed), "one works, all others are refused", run.out, run.err)
    refused = {r["port"] for r in run.records("connect", destination="svc.test", verdict="deny", protocol="tcp")}
    b.check(refused == set(closed), "each is on record with its port and name", refused)
    b.check(_reached(bed) - before == 1, "nothing else reached the origin")


def a_rule_for_methods_and_paths_holds_on_every_port_and_protocol(bed):
    rules = """allow:
  - {id: read, hosts: [git.test], methods: [GET], ports: [443, 8443]}
  - {id: read-plain, hosts: [git.test], methods: [GET], protocol: http, ports: [80, 8080]}
  - {id: write, hosts: [git.test], paths: [/myorg/**], ports: [443, 8443]}
  - {id: write-plain, hosts: [git.test], paths: [/myorg/**], protocol: http, ports: [80, 8080]}
"""
    tries = (("GET", "/other/x", 200), ("POST", "/other/x", 403), ("POST", "/myorg/x", 200), ("POST", "/myorgevil/x", 403),
             ("POST", "/myorg/../other/x", 403), ("get", "/other/x", 403), ("PROPFIND", "/other/x", 403), ("PROPFIND", "/myorg/x", 200))
    bases = ("https://git.test", "https://git.test:8443", "http://git.test", "http://git.test:8080")
    run = _run(bed, "".join(f"{CODE} --path-as-is -X {m} '{base}{path}';" for base in bases for m, path, _ in tries), rules, ["git.test"])
    codes = [int(n) for n in run.out.split()]
    for i, base in enumerate(bases):
        b.check(codes[8 * i:8 * i + 8] == [status for _, _, status in tries], f"{base}: the same verdicts", codes, run.err)
    denied = run.records("request", verdict="deny")
    b.check(len(denied) + sum(r.get("count", 0) for r in denied) >= 20 and {r.get("status", 403) for r in denied} == {403}, "on record", denied)
    b.check({r["rule"] for r in run.records("request", method="POST", verdict="allow")} == {"write", "write-plain"}, "by their rules",
            run.records("request", method="POST"))


def apex_and_wildcard_are_two_things_in_every_layer(bed):
    names = ("apex.test", "www.apex.test", "a.www.apex.test", "www.sub.test", "sub.test", "trusted.test", "eviltrusted.test", "xtrusted.test",
             "trusted.test.evil.test")
    want = dict(zip(names, (200, 0, 0, 200, 0, 200, 0, 0, 0)))
    rules = 'allow:\n  - {id: apex, hosts: [apex.test, trusted.test]}\n  - {id: below, hosts: ["*.sub.test"]}\n'
    run = _run(bed, "".join(f"{CODE} https://{n}/ 2>/dev/null; echo;" for n in names) + "".join(
        f"{CODE} -H 'Host: {n}' https://apex.test/; {CODE} --connect-to {n}:443:apex.test:443 https://{n}/ 2>/dev/null; echo;"
        for n in names), rules, names)
    lines = run.out.split("\n")
    b.check([int(l) for l in lines[:9]] == list(want.values()), "as names", run.out, run.err)
    b.check([l.split() for l in lines[9:18]] == [["200", "200"]] + [["421", "000"]] * 8, "as Host and SNI on another's connection", lines[9:])
    for name in [n for n in names if not want[n]]:
        b.check(not bed.dns.asked(name) and run.records("dns", verdict="deny"), f"{name} was not asked for upstream", bed.dns.queries)


def numbers_are_no_names_and_no_addresses(bed):
    """F23: none of the forms in which inet_aton() reads an address leads to it."""
    forms = ("2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518", "127.1", "0", "0x7f.1", "017700000001")
    rules = "allow:\n  - {id: svc, hosts: [svc.test], protocol: http}\n  - {id: any, hosts: [\"*.wide.test\"]}\n"
    run = _run(bed, "".join(f"curl -sS -m 20 -o /dev/null http://{f}/ 2>/dev/null; echo $?;" for f in forms) +
               "".join(f"{CODE} -H 'Host: {f}' http://svc.test/; echo;" for f in forms) +
               "".join(f"python3 -c 'import socket; s = socket.create_connection((\"svc.test\", 80), 20); s.sendall(b\"GET http://{f}/ HTTP/1.1\\r\\n"
                       f"Host: svc.test\\r\\n\\r\\n\"); print(s.recv(99).split()[1].decode())';" for f in forms), rules, ["svc.test"])
    lines = run.out.split()
    # 127.1 and 0 are the box itself, to the kernel in the box.
    b.check(lines[:8] == ["7"] * 8, "as destinations", run.out, run.err)
    b.check(set(lines[8:16]) <= {"400", "421"} and set(lines[16:]) <= {"400", "421"} and len(lines) == 24, "as Host and in the target", lines)
    b.check(not bed.dns.queries or {q[0] for q in bed.dns.queries} == {"svc.test"}, "none was asked for", bed.dns.queries)
    b.check(run.records("connect", destination="169.254.169.254", verdict="deny"), "on record as what they are", run.records("connect"))
    b.check(not run.records("dial"), "and nothing was dialled")


def a_name_that_readers_read_differently_is_refused(bed):
    """F11: in Host and in the server name; with the bytes escaped in the log."""
    odd = ("evil.test\\\\0.svc.test", "svc.te\\\\tst", "svc.test%00.evil.test", "svc.test%2eevil.test", "evil.test@svc.test", "svc.test#x",
           "svc.test\\\\\\\\evil.test", "svc..test", ".svc.test", "svc.test..", "y" * 64 + ".svc.test", "svc.test:443:80", "svc.test:x", "[svc.test]",
           "svc.test,evil.test", "svc.test\\\\xff", "\\\\xef\\\\xbc\\\\xb3vc.test", "svc.test/", "svc.test?")
    code = r"""
import socket, ssl
def ask(host):
    s = ssl.create_default_context().wrap_socket(socket.create_connection(("svc.test", 443), 20), server_hostname="svc.test")
    s.sendall(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
    return s.recv(99).split()[1].decode()
def hello(name):
    # A client's hello of the library, with another name put in by hand: all lengths that hold it grow.
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    t = ssl.create_default_context().wrap_bio(i, o, server_hostname="q" * 30 + ".test")
    try: t.do_handshake()
    except ssl.SSLWantReadError: pass
    h = bytearray(o.read()); old = b"q" * 30 + b".test"; at = h.find(old); grow = len(name) - len(old)
    for place, size in ((at - 2, 2), (at - 5, 2), (at - 7, 2), (3, 2), (6, 3)):
        h[place:place + size] = (int.from_bytes(h[place:place + size], "big") + grow).to_bytes(size, "big")
    sizes = 43 + 1 + h[43] ; sizes += 2 + int.from_bytes(h[sizes:sizes + 2], "big"); sizes += 1 + h[sizes]
    h[sizes:sizes + 2] = (int.from_bytes(h[sizes:sizes + 2], "big") + grow).to_bytes(2, "big")
    at = h.find(old); h[at:at + len(old)] = name
    s = socket.create_connection(("svc.test", 443), 20); s.sendall(bytes(h))
    got = s.recv(99)
    return got[0] if got else "closed"
print(ask(b"svc.test"), hello(b"svc.test"), hello(b"SVC.test"))
for odd in (ODD): print(ask(odd), hello(odd))
"""
    code = code.replace("ODD", ", ".join('b"%s"' % o.replace("\\\\", "\\") for o in odd) + ",")
    run = _run(bed, ["python3", "-c", code], "allow:\n  - {id: svc, hosts: [svc.test]}\n", ["svc.test"])
    lines = [l.split() for l in run.out.splitlines()]
    b.check(len(lines) == 1 + len(odd) and lines[0] == ["200", "22", "22"], "the name itself is answered", run.out, run.err)
    for name, (status, record) in zip(odd, lines[1:]):
        b.check(status in ("400", "421"), f"Host {name}", status)
        b.check(record == "21", f"server name {name}: an alert", record)
    b.check(len(run.records("dial")) == 1, "nothing was dialled for it", run.records("dial"))
    b.check({q[0] for q in bed.dns.queries} == {"svc.test"}, "nor asked for", bed.dns.queries)
    denied = run.records("connection", phase="close", verdict="deny")
    b.check(sum(r.get("count", 1) for r in denied) >= len(odd), "each hello is on record", len(denied))
    with open(run.log_path, "rb") as f:
        b.check(not [l for l in f.read().splitlines() if any(x < 32 or x == 127 for x in l)], "with no control byte in the log")


def a_proxy_of_the_boxs_choice_is_none(bed):
    """F35: a target in another's form is never dialled, whatever stands in it."""
    rules = """allow:
  - {id: cache, hosts: [cache.test], protocol: http, ports: [3142]}
  - {id: svc, hosts: [svc.test]}
"""
    _origin(bed)
    before = bed.clear[3142].connections, bed.clear[80].connections
    run = _run(bed, CODE + "-x http://cache.test:3142 http://deb.test/x; echo $?;" + CODE + "-x http://cache.test:3142 https://svc.test/; echo $?;"
               "curl -sS -x http://cache.test:3142 http://deb.test/x; " + CODE + "-x socks5h://cache.test:3142 https://svc.test/ 2>/dev/null; echo $?;"
               "https_proxy=http://proxy.test:8080 " + CODE + "https://svc.test/ 2>/dev/null; echo $?;" + CODE + "http://cache.test:3142/x; echo $?",
               rules, ["cache.test", "svc.test", "deb.test", "proxy.test"])
    lines = run.out.splitlines()
    b.check(lines[0] == "421 0", "an absolute target of another host is misdirected", run.out, run.err)
    b.check(lines[1].startswith("000 ") and lines[1] != "000 0", "CONNECT is refused", lines)
    b.check("deb.test" in lines[2] and '"retry":"never"' in lines[2], "in words that name the mismatch", lines)
    b.check(lines[3].split()[0] == "000" and lines[4] == "000 7" and lines[5] == "200 0", "nor any other kind; the cache itself works", lines)
    b.check(run.records("request", host="cache.test", status=421) and run.records("request", host="cache.test", status=403, method="CONNECT"),
            "on record", run.records("request"))
    b.check(not bed.dns.asked("deb.test") and (bed.clear[3142].connections - before[0], bed.clear[80].connections - before[1]) == (1, 0),
            "and nothing was dialled")


RULES_WITH_TOKEN = """credentials:
  git: {kind: basic, user: robot, secret: token, hosts: [git.test]}
allow:
  - {id: git, hosts: [git.test], credential: git}
  - {id: blob, hosts: [blob.test]}
"""


def a_redirect_takes_no_credential_along(bed):
    run = _run(bed, "curl -sS -L https://git.test/moved; " + CODE + "-I -L https://git.test/moved", RULES_WITH_TOKEN, ["git.test", "blob.test"],
               secrets={"token": (TOKEN, ["git.test"])})
    b.check(c.HELLO in run.out and run.out.endswith("200 "), "followed", run.out, run.err)
    objects = [r for r in bed.secure[443].requests if r.target.startswith("/object?")]
    b.check(len(objects) == 2 and all(r.get("authorization") is None for r in objects), "the other host got none", [r.fields for r in objects])
    b.check(all("X-Amz-Signature=deadbeefcafe" in r.target for r in objects), "and its own signature whole", [r.target for r in objects])
    b.check([r.get("credential") for r in run.records("request", phase="end")] == ["git", None, "git", None], "on record", run.records("request"))
    with open(run.log_path, encoding="utf-8") as f:
        b.check("deadbeefcafe" not in f.read(), "which has no signature in it")


def a_credential_that_a_client_brings_gives_way_to_ours(bed):
    """F112: whatever the client makes of it: Basic by URL, option and netrc, before and after a 401."""
    run = _run(bed, """cd /tmp; printf 'machine git.test login me password placeholder\\n' >.netrc; chmod 600 .netrc; export HOME=/tmp
curl -sS https://me:placeholder@git.test/whoami; curl -sS -u me:placeholder https://git.test/whoami; curl -sS -n https://git.test/whoami
curl -sS --anyauth -u me:placeholder https://git.test/whoami; curl -sS --oauth2-bearer placeholder https://git.test/whoami
wget -q -O - --user me --password placeholder --auth-no-challenge https://git.test/whoami; wget -q -O - https://git.test/whoami
python3 -c 'import requests; print(requests.get("https://me:placeholder@git.test/whoami").text, end="")'
curl -sS -u 'user-only:' https://git.test/whoami; curl -sS -H 'Authorization: Basic !!!' https://git.test/whoami""",
               RULES_WITH_TOKEN, ["git.test"], secrets={"token": (TOKEN, ["git.test"])})
    b.check(run.out == "the robot\n" * 10, "each is the robot", run.out, run.err)
    b.check(not [r for r in bed.secure[443].requests if "placeholder" in str(r.fields)], "what it brought was not sent on")
    stripped = run.records("credential", event="stripped")
    b.check(len(stripped) >= 5 and {r["field"] for r in stripped} == {"authorization"}, "and is on record as stripped", stripped)
    with open(run.log_path, encoding="utf-8") as f:
        text = f.read()
    b.check("placeholder" not in text and TOKEN not in text and base64.b64encode(b"me:placeholder").decode() not in text, "by name alone")


def a_name_whose_addresses_change_all_the_time_is_always_reached(bed):
    """F43, F139: eight of five hundred addresses in each answer, and a life of a second."""
    _origin(bed)
    turn = [0]

    def rotating(qtype):
        if qtype != 1:
            return 0, []
        turn[0] += 1
        # All but the last lead nowhere: an address that was vetted before is not a reason to refuse.
        dead = [(1, bytes([203, 0, 113, 100 + (7 * turn[0] + i) % 100]), 1) for i in range(1)]
        return 0, [(1, bytes([203, 0, 113, 19]), 1)] + dead
    bed.dns.zone["s3.wide.test"] = rotating
    run = _run(bed, "for i in $(seq 60); do " + CODE + " --no-keepalive https://s3.wide.test/$i; done; getent ahostsv4 s3.wide.test | sort -u | "
               "cut -d' ' -f1 | sort -u", 'allow:\n  - {id: s3, hosts: ["*.wide.test"]}\n')
    words = run.out.split()
    b.check(words[:60] == ["200"] * 60 and len(words) == 61, "each time, at one address in the box", run.out, run.err)
    b.check(len(run.records("request", host="s3.wide.test", status=200)) == 60, "on record", len(run.records("request")))


b.main(b.cases(globals()))
