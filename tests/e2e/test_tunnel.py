"""What is not opened: TLS that is passed through, and raw TCP; and that bytes, not ports, say what is spoken."""

import hashlib
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import threading

import appliance
import bed as b

MIB = 1 << 20

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: pinned, hosts: [pin.test], tls: passthrough}
  - {id: sealed-address, addresses: [203.0.113.18], ports: [443], tls: passthrough}
  - {id: raw, hosts: [raw.test], ports: [7000-7009], protocol: tcp}
  - {id: raw-address, addresses: [203.0.113.19], ports: [7000], protocol: tcp}
  - {id: shell, hosts: [ssh.test], ports: [22], protocol: tcp}
"""

# A hello of this machine's OpenSSL, for a name; and a connection.
TOOLS = r"""
import hashlib, socket, ssl, struct, sys, time
def hello(name):
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    c = ssl.create_default_context()
    c.check_hostname = False
    t = c.wrap_bio(i, o, server_hostname=name)
    try: t.do_handshake()
    except ssl.SSLWantReadError: pass
    return o.read()
def connect(name, port):
    s = socket.create_connection((name, port), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
def everything(s):
    got = b""
    while True:
        piece = s.recv(1 << 20)
        if not piece: return got
        got += piece
def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
def outcome(s):
    try: return everything(s)
    except OSError as e: return type(e).__name__
"""


def _python(bed, code, policy=POLICY, **more):
    return bed.run(["python3", "-c", TOOLS + code], policy, **more)


def _names(bed):
    bed.dns.zone.update({"pin.test": ["203.0.113.10"], "raw.test": ["203.0.113.11"], "ssh.test": ["203.0.113.12"]})


def _pinned(bed):
    """Its certificate is signed by nobody that Exeat knows."""
    _names(bed)
    if not hasattr(bed, "pinned"):
        bed.own = bed.cert("pin.test", "203.0.113.18", ca=False)
        bed.pinned = b.Origin(bed, b.http(b.echo), cert=bed.own)
        b.Origin(bed, b.http(b.echo), address="203.0.113.18", cert=bed.own)
    return pathlib.Path(bed.own[0]).read_text(encoding="ascii")


def _serve(bed, handler, port=7000, address="203.0.113.11"):
    _names(bed)
    return b.Origin(bed, handler, address=address, port=port)


def _greets(s, _origin):
    s.sendall(b"220 at your service\r\n")
    s.sendall(s.recv(100).upper())


def a_server_that_speaks_first_is_heard_through_the_explicit_proxy(bed):
    """The proxy's yes goes out before its first word, and what was sent ahead of that yes arrives."""
    _serve(bed, _greets, port=7004)
    run = _python(bed, r"""
def ask(request, n, ahead=b""):
    s = connect("exeat.internal", 3128)
    for piece in request: s.sendall(piece + (ahead if piece is request[-1] else b""))
    f = s.makefile("rb")
    print(f.read(n)[:12], f.readline(), flush=True)
    if not ahead: s.sendall(b"quit")
    print(f.read(), flush=True)
connect_to = [b"CONNECT raw.test:7004 HTTP/1.1\r\nHost: raw.test:7004\r\n\r\n"]
socks = [b"\5\1\0" + b"\5\1\0\3\x08raw.test" + struct.pack("!H", 7004)]
for ahead in (b"", b"early"):
    ask(connect_to, len(b"HTTP/1.1 200 Connection established\r\n\r\n"), ahead)
    ask(socks, 12, ahead)
""")
    lines = run.out.splitlines()
    greeting = r"b'220 at your service\r\n'"
    b.check(lines[::2] == [f"b'HTTP/1.1 200' {greeting}", r"b'\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00' " + greeting] * 2,
            "its yes, then the banner", run.out, run.err)
    b.check(lines[1::2] == ["b'QUIT'"] * 2 + ["b'EARLY'"] * 2, "and what was sent", lines)
    vias = sorted(r["via"] for r in run.records("connection", phase="close", rule="raw"))
    b.check(vias == ["connect", "connect", "socks5", "socks5"], "on record", vias)


def _closed(run):
    return run.record("connection", phase="close")


# ---- TLS, passed through ----


def a_client_that_pins_sees_the_origins_own_certificate(bed):
    pem = _pinned(bed)
    key = subprocess.run(f"openssl x509 -in {bed.own[0]} -pubkey -noout | openssl pkey -pubin -outform DER | "
                         "openssl dgst -sha256 -binary | base64", shell=True, check=True, capture_output=True, text=True).stdout.strip()
    run = bed.run(f"cat > /tmp/own.pem <<'X'\n{pem}X\n"
                  f"curl -sS --cacert /tmp/own.pem --pinnedpubkey sha256//{key} -o /dev/null -w '%{{http_code}}\\n' https://pin.test/\n"
                  "echo | openssl s_client -connect pin.test:443 -servername pin.test -CAfile /tmp/own.pem -verify_return_error "
                  "2>/dev/null | openssl x509 -noout -fingerprint -sha256\n"
                  "curl -sS https://pin.test/ 2>/dev/null; echo $?\n", POLICY)
    own = subprocess.run(["openssl", "x509", "-in", bed.own[0], "-noout", "-fingerprint", "-sha256"], check=True,
                         capture_output=True, text=True).stdout.strip()
    b.check(run.out.splitlines() == ["200", own, "60"], "pinned, shown, and judged by the client alone", run.out, run.err)
    records = run.records("connection", phase="close", tls="passthrough", sni="pin.test", rule="pinned", verdict="allow")
    b.check(len(records) == 3 and all(r["address"] == "203.0.113.10" and r["bytes_up"] and r["bytes_down"] for r in records),
            "each is on record", records)
    b.check(len(run.records("connection", phase="open", rule="pinned")) == 3, "from its beginning on")
    b.check(not run.records("request") and not run.records("credential"), "and nothing of what was in it")
    run.verify()


def an_address_is_passed_through_where_a_rule_names_it(bed):
    pem = _pinned(bed)
    run = bed.run(f"cat > /tmp/own.pem <<'X'\n{pem}X\n"
                  "curl -sS --cacert /tmp/own.pem -o /dev/null -w '%{http_code}\\n' https://203.0.113.18/\n"
                  "echo | openssl s_client -connect 203.0.113.18:443 -servername pin.test 2>&1 | grep -io 'unrecognized name' | head -n 1\n"
                  "curl -sS -k https://203.0.113.17/ 2>/dev/null; echo $?\n", POLICY)
    b.check(run.out.splitlines() == ["200", "unrecognized name", "7"], "by its address, without a name", run.out, run.err)
    run.record("connection", phase="close", rule="sealed-address", destination="203.0.113.18")


def another_name_or_none_is_refused_by_an_alert_and_listed(bed):
    _pinned(bed)
    before = bed.pinned.connections
    run = bed.run("for n in '-servername evil.example' -noservername; do "
                  "echo | openssl s_client -connect pin.test:443 $n 2>&1 | grep -io 'unrecognized name' | head -n 1; done\n"
                  "curl -sS http://exeat.internal/refusals", POLICY)
    b.check(run.out.lower().count("unrecognized name") == 2, "alerts", run.out, run.err)
    for reason in ("sni-mismatch", "no-sni"):
        record = next(r for r in run.records("connection") if r.get("reason", "").startswith(reason))
        b.check(record["refusal"] in run.out and record["verdict"] == "deny", f"{reason}: one id for the box and the log", run.out, record)
    b.check(not run.records("dial") and bed.pinned.connections == before, "and nothing went out")


def what_is_not_tls_does_not_pass_through(bed):
    _pinned(bed)
    before = bed.pinned.connections
    run = _python(bed, r"""
for data in (b"SSH-2.0-x\r\n", b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x03\x01", b"\x00" * 64,
             b"GET / HTTP/1.1\r\nHost: pin.test\r\nConnection: close\r\n\r\n"):
    s = connect("pin.test", 443); s.sendall(data); got = outcome(s)
    print(got[:12] if isinstance(got, bytes) else got)
""")
    lines = run.out.splitlines()
    b.check(len(lines) == 5 and lines[4] == "b'HTTP/1.1 403'", "HTTP in words", run.out, run.err)
    b.check(all(l == "ConnectionResetError" or l.startswith("b'\\x15") or "400" in l for l in lines[:4]), "the others at once", lines)
    b.check(not run.records("dial") and bed.pinned.connections == before, "and nothing went out")


def the_hello_arrives_byte_for_byte(bed):
    _pinned(bed)
    got = []

    def keep(s, _origin):
        data = b""
        while piece := s.recv(65536):
            data += piece
        got.append(hashlib.sha256(data).hexdigest())
    policy = POLICY + "  - {id: plain-sight, hosts: [seen.test], ports: [7005], tls: passthrough}\n"
    bed.dns.zone["seen.test"] = ["203.0.113.11"]
    origin = _serve(bed, keep, port=7005)
    run = _python(bed, r"""
for step in (1, 50, 100000):
    data = hello("seen.test") + b"\x17\x03\x03 and what comes behind it" * 1000
    s = connect("seen.test", 7005)
    for at in range(0, min(len(data), 600), step): s.sendall(data[at:at + step] if at + step < 600 else data[at:])
    s.shutdown(socket.SHUT_WR); everything(s)
    print(hashlib.sha256(data).hexdigest())
""", policy)
    b.wait_until("the origin has all", lambda: len(got) == 3)
    b.check(run.out.split() == got, "what was sent is what came", run.out, run.err, got)
    origin.close()


# ---- raw TCP ----


def a_server_that_speaks_first_is_heard_at_once(bed):
    def smtp(s, _origin):
        s.sendall(b"220 mail.test ESMTP\r\n")
        f = s.makefile("rb")
        for line in f:
            s.sendall(b"221 bye\r\n" if line == b"QUIT\r\n" else b"250 ok\r\n")
            if line == b"QUIT\r\n":
                return
    origin = _serve(bed, smtp)
    run = _python(bed, """
import smtplib
with smtplib.SMTP("raw.test", 7000, local_hostname="box", timeout=20) as m:
    print(m.ehlo()[0])
""")
    b.check(run.out.split() == ["250"], "greeted, then spoken to", run.out, run.err)
    record = _closed(run)
    b.check(record["protocol"] == "tcp" and record["rule"] == "raw" and record["address"] == "203.0.113.11"
            and record["ended"] == "ended by both sides" and record["bytes_down"] > 20, "on record", record)
    origin.close()


def an_ssh_session_works_as_it_is(bed):
    _names(bed)
    for name in ("host", "user"):
        b.sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", bed.path(f"ssh-{name}"))
    os.makedirs("/run/sshd", exist_ok=True)
    config = bed.write("sshd_config", f"HostKey {bed.path('ssh-host')}\nAuthorizedKeysFile {bed.path('ssh-user.pub')}\nStrictModes no\n"
                       "UsePAM no\nPermitRootLogin prohibit-password\nListenAddress 203.0.113.12\n")
    server = subprocess.Popen(["nsenter", f"--net=/proc/{os.getpid()}/fd/{bed.net_ns}", "/usr/sbin/sshd", "-D", "-e", "-f", config],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        host = pathlib.Path(bed.path("ssh-host.pub")).read_text(encoding="ascii")
        user = pathlib.Path(bed.path("ssh-user")).read_text(encoding="ascii")
        b.wait_until("sshd", lambda: _reaches("203.0.113.12", 22))
        run = bed.run(f"umask 077; cat > /tmp/key <<'X'\n{user}X\necho 'ssh.test {host.strip()}' > /tmp/known\n"
                      "s='ssh -F /dev/null -i /tmp/key -o UserKnownHostsFile=/tmp/known -o BatchMode=yes root@ssh.test'\n"
                      "$s echo hello; head -c 50000000 /dev/zero | $s sha256sum; $s head -c 50000000 /dev/zero | sha256sum\n", POLICY)
        zeros = hashlib.sha256(bytes(50000000)).hexdigest()
        b.check(run.out.split() == ["hello", zeros, "-", zeros, "-"], "both ways", run.out, run.err)
        b.check(len(run.records("connection", phase="close", rule="shell")) == 3, "on record", run.records("connection"))
    finally:
        server.terminate()
        server.wait(20)


def _reaches(address, port):
    try:
        socket.create_connection((address, port), 0.5).close()
    except OSError:
        return False
    return True


def a_half_close_goes_on_and_the_answer_comes_back(bed):
    def digest(s, _origin):
        h = hashlib.sha256()
        while piece := s.recv(MIB):
            h.update(piece)
        s.sendall(h.hexdigest().encode())
    origin = _serve(bed, digest)
    run = _python(bed, """
s = connect("raw.test", 7000)
h = hashlib.sha256()
for n in range(500):
    piece = bytes([n % 256]) * 40000
    h.update(piece); s.sendall(piece)
s.shutdown(socket.SHUT_WR)
print(everything(s).decode() == h.hexdigest())
""")
    b.check(run.out.split() == ["True"], "all of it, then the answer", run.out, run.err)
    b.check(_closed(run)["bytes_up"] == 20000000, "counted", _closed(run))
    origin.close()


def a_reset_is_a_reset_on_the_other_side(bed):
    seen = []

    def end(s, _origin):
        if s.recv(1) == b"r":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        try:
            seen.append(s.recv(10))
        except OSError as e:
            seen.append(type(e).__name__)
    origin = _serve(bed, end)
    run = _python(bed, """
s = connect("raw.test", 7000); s.sendall(b"r"); print(outcome(s))
s = connect("raw.test", 7000); s.sendall(b"w"); reset(s)
""")
    b.check(run.out.split() == ["ConnectionResetError"], "in the box", run.out, run.err)
    b.wait_until("the origin to hear of it, too", lambda: seen)
    b.check(seen[0] in ("ConnectionResetError", b""), "a reset", seen)
    ended = [r["ended"] for r in run.records("connection", phase="close")]
    b.check(len(ended) == 2 and ended[0].startswith("reset by the origin"), "on record", ended)
    origin.close()


def an_origin_that_refuses_resets_and_is_on_record(bed):
    _names(bed)
    run = _python(bed, """
try: print(outcome(connect("raw.test", 7009)))
except OSError as e: print(type(e).__name__)    # so soon may it come
""")
    b.check(run.out.split() == ["ConnectionResetError"], "a reset, never a silent close", run.out, run.err)
    record = _closed(run)
    b.check(record["verdict"] == "allow" and record["proxy_error"] == "connection_refused" and record["rule"] == "raw", "on record", record)


def an_address_or_port_that_no_rule_names_is_refused_at_once(bed):
    origin = _serve(bed, lambda s, o: s.sendall(b"here"), address="203.0.113.19")
    run = _python(bed, """
print(everything(connect("203.0.113.19", 7000)))
for to in (("203.0.113.19", 7001), ("raw.test", 6999), ("raw.test", 443), ("203.0.113.20", 7000)):
    try: connect(*to); print("connected")
    except OSError as e: print(type(e).__name__)
""")
    b.check(run.out.splitlines() == ["b'here'"] + ["ConnectionRefusedError"] * 4, "as the rules say", run.out, run.err)
    origin.close()


def a_gibibyte_passes_and_is_what_was_sent(bed):
    piece = bytes(range(256)) * 4096

    def send(s, _origin):
        for _ in range(1024):
            s.sendall(piece)
    origin = _serve(bed, send)
    run = _python(bed, """
s = connect("raw.test", 7000)
left, piece, n, room = 1 << 30, bytes(range(256)) * 4096, 0, bytearray(1 << 20)
view = memoryview(room)
good = True
while n < 1 << 30:
    have = 0
    while have < 1 << 20:
        got = s.recv_into(view[have:])
        if not got: break
        have += got
    good &= room == piece
    n += have
print(n, good, s.recv(1))
""", timeout=300)
    b.check(run.out.splitlines() == [f"{1 << 30} True b''"], "all of it", run.out, run.err)
    b.check(_closed(run)["bytes_down"] == 1 << 30, "counted", _closed(run))
    origin.close()


def _worker_of(run):
    return next((pid for pid, (_, name) in run.family().items() if name.startswith("exeat-worker")), None)


def _private(pid):
    """KiB that are this process's alone."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return sum(int(n) for n in re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB", text, re.M))


def a_reader_that_does_not_read_holds_the_sender_and_costs_little(bed):
    sent = [0]
    total = 256 * MIB
    go_on = threading.Event()

    def send(s, _origin):
        s.setblocking(False)
        s.send(b"!")
        b.wait_until("the box listens", lambda: go_on.is_set())
        piece = bytes(MIB)
        while sent[0] < total:
            select.select([], [s], [])
            sent[0] += s.send(piece[:min(MIB, total - sent[0])])
    origin = _serve(bed, send)
    run = bed.start(["python3", "-c", TOOLS + """
s = connect("raw.test", 7000)
print(s.recv(1), flush=True)
sys.stdin.readline()
print(len(everything(s)), flush=True)
"""], POLICY, stdin=subprocess.PIPE)
    b.check(run.process.stdout.readline() == b"b'!'\n", "connected")
    worker = b.wait_until("the worker", lambda: _worker_of(run))
    before = _private(worker)
    go_on.set()
    last = [-1, 0]

    def is_stuck():
        last[1] = last[1] + 1 if sent[0] and sent[0] == last[0] else 0
        last[0] = sent[0]
        return last[1] > 100    # hundredths of a second
    b.wait_until("the sender is held", is_stuck, 60)
    held, grown = sent[0], _private(worker) - before
    b.check(held < 64 * MIB, "by what the kernel's sockets hold", held)
    b.check(b.SANITIZED or grown < 1024, "and the worker keeps no more than a piece", grown)
    run.process.stdin.write(b"\n")
    run.process.stdin.close()
    run.process.stdin = None
    run.wait(300)
    b.check(run.out.split() == [str(total)], "then all of it comes", run.out, run.err)
    b.check(b.SANITIZED or _closed(run)["bytes_down"] == total + 1, "counted", _closed(run))
    origin.close()


# ---- limits ----


def limits_of_a_rule_hold_for_its_connections(bed):
    def talk(s, _origin):
        s.sendall(b"hi")
        while piece := s.recv(65536):
            s.sendall(piece)
    origins = [_serve(bed, talk, port=n) for n in (7000, 7001, 7002, 7003)]
    policy = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: up, hosts: [raw.test], ports: [7000], protocol: tcp, limits: {upload: 1KiB}}
  - {id: two, hosts: [raw.test], ports: [7001], protocol: tcp, limits: {concurrent: 2}}
  - {id: short, hosts: [raw.test], ports: [7002], protocol: tcp, limits: {total: 1s}}
  - {id: quiet, hosts: [raw.test], ports: [7003], protocol: tcp, limits: {idle: 1s}}
"""
    run = _python(bed, """
def greeted(port):
    s = connect("raw.test", port); s.settimeout(60); return s, s.recv(2)
def one(f):
    try: return f()
    except OSError as e: return type(e).__name__
s, hi = greeted(7000); s.sendall(b"x" * 1024); got = b""
while len(got) < 1024: got += s.recv(65536)
s.sendall(b"y"); print(hi, len(got), one(lambda: s.recv(1)))
a, b_ = greeted(7001), greeted(7001); print(a[1], b_[1], one(lambda: greeted(7001)[1]))
a[0].close(); b_[0].close()
while one(lambda: greeted(7001)[1]) != b"hi": time.sleep(0.01)
print("again")
for port in (7002, 7003):
    s, hi = greeted(port); print(hi, one(lambda: s.recv(1)))
""", policy)
    b.check(run.out.splitlines() == ["b'hi' 1024 ConnectionResetError", "b'hi' b'hi' ConnectionResetError", "again",
                                     "b'hi' ConnectionResetError", "b'hi' ConnectionResetError"], "each by a reset", run.out, run.err)
    reasons = {r["rule"]: r["reason"] for r in run.records("connection", phase="close", verdict="deny")}
    b.check(reasons == {"up": "limit-reached: upload of 1024 bytes", "two": "limit-reached: 2 at once, by two",
                        "short": "limit-reached: 1 seconds in all", "quiet": "limit-reached: 1 seconds without a byte"}, "on record", reasons)
    for origin in origins:
        origin.close()


# ---- a new policy ----


def a_reload_ends_what_it_denies_and_nothing_else(bed):
    _pinned(bed)
    origin = _serve(bed, lambda s, o: [s.sendall(piece) for piece in iter(lambda: s.recv(65536), b"")])
    client = TOOLS + """
s = connect(sys.argv[1], int(sys.argv[2]))
if sys.argv[1] == "pin.test":
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    s = c.wrap_socket(s, server_hostname="pin.test")
else:
    s.sendall(b"x"); s.recv(1)
print("open", flush=True)
# Not through ssl: that takes a reset for an end.
s = socket.socket(fileno=s.detach())
s.settimeout(60)
got = outcome(s)
print(got if isinstance(got, str) else "clean", flush=True)
"""
    a = appliance.Appliance(bed, {"sealed": POLICY, "raw": POLICY, "stays": POLICY})
    for name, to in (("sealed", ("pin.test", "443")), ("raw", ("raw.test", "7000")), ("stays", ("raw.test", "7000"))):
        a.start_box(name, ["python3", "-c", client, *to], name)
        b.wait_until(f"{name} to be connected", lambda: "open" in a.box_said(name))
    for name in ("sealed", "raw"):
        pathlib.Path(f"{a.dir}/policies/{name}.yaml").write_text(
            POLICY + "deny:\n  - {id: closed, hosts: ['**'], reason: no more}\n", encoding="utf-8")
    done = a.command("policy", "reload")
    b.check(done.returncode == 0, "the policies are taken", done.stdout, done.stderr)
    for name in ("sealed", "raw"):
        b.wait_until(f"{name} to end", lambda: a.box_said(name) != "open\n", 5)
        b.check(a.box_said(name).split() == ["open", "ConnectionResetError"], "by a reset", a.box_said(name))
        record = b.wait_until("its record", lambda: a.records("connection", phase="close", sandbox=name))[0]
        b.check(record["verdict"] == "deny" and record["rule"] == "closed" and
                record["reason"] == "a new policy denies it: no more", "on record", record)
    b.check(a.box_said("stays") == "open\n", "the other one goes on", a.box_said("stays"))
    a.end()
    origin.close()


# ---- bytes, not ports ----

READ_ONLY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: tls, hosts: [same.test], ports: [443, 8443], methods: [GET]}
  - {id: plain, hosts: [same.test], ports: [80, 8080], protocol: http, methods: [GET]}
  - {id: odd-tls, hosts: [odd.test], ports: [80, 8080], methods: [GET]}
  - {id: odd-plain, hosts: [odd.test], ports: [443, 8443], protocol: http, methods: [GET]}
"""


def the_same_verdict_whatever_the_port_and_whether_tls_or_not(bed):
    bed.dns.zone.update({"same.test": ["203.0.113.13"], "odd.test": ["203.0.113.14"]})
    cert = bed.cert("same.test", "odd.test")
    usual = ((80, None), (8080, None), (443, cert), (8443, cert))
    odd = ((80, cert), (8080, cert), (443, None), (8443, None))
    origins = [b.Origin(bed, b.http(b.echo), address=address, port=port, cert=c)
               for address, ways in (("203.0.113.13", usual), ("203.0.113.14", odd)) for port, c in ways]
    urls = [f"{'https' if c else 'http'}://{name}:{port}/x" for name, ways in (("same.test", usual), ("odd.test", odd)) for port, c in ways]
    run = bed.run("".join(f"curl -sS -o /dev/null -w '%{{http_code}} ' {u}; curl -sS -o /dev/null -w '%{{http_code}}\\n' -d x {u}\n"
                          for u in urls), READ_ONLY)
    b.check(run.out.splitlines() == ["200 403"] * len(urls), "reading is, writing is not", run.out, run.err, urls)
    b.check(sum(len([r for r in o.requests if r.method != "GET"]) for o in origins) == 0, "and no POST came anywhere")
    for origin in origins:
        origin.close()


def a_rule_for_one_protocol_is_none_for_the_other_on_its_port(bed):
    bed.dns.zone["same.test"] = ["203.0.113.13"]
    run = bed.run("for u in http://same.test:443/ http://same.test:8443/; do "
                  "curl -sS -o /dev/null -w '%{http_code} ' $u; curl -sS -o /dev/null -w '%{http_code}\\n' -d x $u; done\n"
                  "curl -sS https://same.test:80/ 2>/dev/null; echo $?; curl -sS https://same.test:8080/ -d x 2>/dev/null; echo $?\n",
                  READ_ONLY)
    b.check(run.out.split() == ["403"] * 4 + ["35"] * 2, "in words, or by an alert", run.out, run.err)
    b.check(not run.records("dial"), "and nothing went out")


b.main(b.cases(globals()))
