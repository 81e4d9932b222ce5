"""TLS towards the box and towards origins: hellos in pieces, names held, leaves in shape."""

import base64
import pathlib
import socket
import struct

import bed as b

LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 55, "test"])
NAMES = ["api.test", "a" * 59 + ".test", "a" * 60 + ".test", ("a" * 35 + ".") * 2 + "test", LONG[-253:]]

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test, "**.test"], any_tenant: true}
  - {id: by-address, addresses: [203.0.113.18], ports: [443]}
"""

# Records a real ClientHello of this machine's OpenSSL, then replays it in other pieces.
HELLO = r"""
import socket, ssl, struct, sys, time
def hello(name, extra=0, alpn=None):
    c = ssl.create_default_context()
    if extra or alpn: c.set_alpn_protocols(alpn or [("x%d-" % i).ljust(200, "p") for i in range(extra)] + ["http/1.1"])
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    t = c.wrap_bio(i, o, server_hostname=name)
    try: t.do_handshake()
    except ssl.SSLWantReadError: pass
    return t, i, o, o.read()
def finish(s, t, i, o):
    while True:
        try:
            t.do_handshake(); break
        except ssl.SSLWantReadError:
            pending = o.read()
            if pending: s.sendall(pending)
            data = s.recv(65536)
            if not data: return "closed"
            i.write(data)
    s.sendall(o.read())
    t.write(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n"); s.sendall(o.read())
    while True:
        try:
            return t.read(4096).split(b"\r\n")[0].decode()
        except ssl.SSLWantReadError:
            data = s.recv(65536)
            if not data: return "closed"
            i.write(data)
def connect(name="api.test"):
    s = socket.create_connection((name, 443), timeout=20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
def records(data, n):
    body = data[5:]
    size = len(body) // n + 1
    return b"".join(data[:3] + struct.pack("!H", len(body[k:k + size])) + body[k:k + size] for k in range(0, len(body), size))
"""


def _origins(bed):
    for name in NAMES:
        bed.dns.zone[name] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert(*NAMES, "*.test"))
        bed.literal = b.Origin(bed, b.http(b.echo), address="203.0.113.18", cert=bed.cert("203.0.113.18"))


def _python(bed, code):
    return bed.run(["python3", "-c", HELLO + code], POLICY)


def a_client_hello_may_come_in_any_pieces(bed):
    _origins(bed)
    run = _python(bed, """
for cuts in ([1], [5], [6], [100], [1, 5, 6, 300], None):
    t, i, o, data = hello("api.test")
    s = connect()
    last = 0
    for c in (cuts if cuts is not None else range(1, len(data))):
        s.sendall(data[last:c]); last = c
        if cuts is not None: time.sleep(0.05)
    s.sendall(data[last:])
    print(finish(s, t, i, o))
t, i, o, data = hello("api.test"); s = connect(); s.sendall(records(data, 3)); print(finish(s, t, i, o))
""")
    b.check(run.out.splitlines() == ["HTTP/1.1 200 OK"] * 7, "each completes", run.out, run.err)


def a_real_post_quantum_hello_is_answered_in_any_pieces(bed):
    """As OpenSSL 3.5 sends it, in two segments of a usual network. It cannot be finished here; the answer to it
    is a ServerHello and, encrypted, the leaf."""
    _origins(bed)
    data = (pathlib.Path(__file__).parents[2] / "fuzz/fuzz_hello.in/post-quantum").read_bytes()
    run = _python(bed, f"""
import base64
data = base64.b64decode("{base64.b64encode(data).decode()}")
def flight(s):
    got = b""
    while len(got) < 700: got += s.recv(65536) or sys.exit("closed after %d" % len(got))
    return got[0] == 22 and got[5] == 2 and b"\\x14\\x03\\x03\\x00\\x01\\x01\\x17\\x03\\x03" in got
for cuts in ([1], [5], [6], [600], [1447], list(range(1, len(data))), []):
    s = connect()
    for a, z in zip([0] + cuts, cuts + [len(data)]):
        s.sendall(data[a:z])
        if len(cuts) == 1: time.sleep(0.2)     # so that it is two segments
    print(flight(s))
s = connect(); s.sendall(records(data, 3)); print(flight(s))
""")
    b.check(run.out.splitlines() == ["True"] * 8, "each is answered", run.out, run.err)


def a_client_hello_of_sixteen_kilobytes_works_and_a_huge_one_is_refused(bed):
    _origins(bed)
    run = _python(bed, """
t, i, o, data = hello("api.test", extra=75)
print(len(data) > 15000)
s = connect(); s.sendall(data); print(finish(s, t, i, o))
s = connect(); s.sendall(b"\\x16\\x03\\x01\\x40\\x00\\x01\\x01\\x80\\x00" + b"\\x03" * 16380)
try:
    for _ in range(5): s.sendall(b"\\x16\\x03\\x01\\x40\\x00" + b"\\x03" * 16384)
    print(s.recv(100)[:1])
except OSError as e: print(b"\\x15")
""")
    b.check(run.out.splitlines() == ["True", "HTTP/1.1 200 OK", "b'\\x15'"], "as it should", run.out, run.err)
    b.check(run.records("connection", reason="hello-too-long") or run.records("connection", reason="bad-hello"),
            "recorded", run.records("connection"))


def names_of_every_length_get_a_strict_leaf_with_one_san(bed):
    _origins(bed)
    for name in NAMES:
        run = bed.run(f"echo | openssl s_client -connect {name}:443 -servername {name} -x509_strict -verify_return_error 2>/dev/null "
                      "| openssl x509 -noout -ext subjectAltName,extendedKeyUsage,keyUsage,authorityKeyIdentifier,subjectKeyIdentifier -serial -dates -subject", POLICY)
        b.check(f"DNS:{name}\n" in run.out.replace(" ", "").replace("\r", ""), f"{len(name)} bytes: one SAN", run.out, run.err)
        b.check(run.out.count("DNS:") == 1 and "TLS Web Server" in run.out and "Digital Signature" in run.out, "profile", run.out)


def no_sni_and_foreign_sni_end_in_an_alert(bed):
    _origins(bed)
    run = bed.run("echo | openssl s_client -connect api.test:443 -noservername 2>&1 | grep -c -i alert;"
                  "echo | openssl s_client -connect api.test:443 -servername evil.example 2>&1 | grep -i -o 'unrecognized name' | head -n 1", POLICY)
    b.check(run.out.split("\n")[0] != "0" and "unrecognized name" in run.out, "alerts", run.out, run.err)
    reasons = {r.get("reason") for r in run.records("connection")}
    b.check({"no-sni", "sni-mismatch"} <= reasons, "with their reasons", run.records("connection"))
    b.check(not run.records("dial"), "and nothing was dialled")


def an_address_as_server_name_ends_in_an_alert(bed):
    """RFC 6066 3 does not know it: for a name's address it is another name, for a literal's it says nothing."""
    _origins(bed)
    run = bed.run("for at in api.test 203.0.113.18; do echo | openssl s_client -connect $at:443 -servername 203.0.113.18 2>&1 |"
                  " grep -i -o 'unrecognized name' | head -n 1; done;"
                  "echo | openssl s_client -connect 203.0.113.18:443 -noservername -verify_return_error -verify_ip 203.0.113.18 2>&1 |"
                  " grep -o 'Verification: OK'; echo | openssl s_client -connect 203.0.113.19:443 -noservername 2>&1 |"
                  " grep -i -o 'connection refused' | head -n 1", POLICY)
    b.check(run.out.splitlines() == ["unrecognized name"] * 2 + ["Verification: OK", "Connection refused"], "each its own end", run.out, run.err)
    b.check([r.get("reason") for r in run.records("connection")][:2] == ["sni-mismatch: an IP address"] * 2, "recorded", run.records("connection"))


def the_leaf_bears_the_one_name_whatever_the_origins_certificate_bears(bed):
    """Else a browser takes one connection for all of them, and is refused."""
    _origins(bed)
    run = bed.run("curl -sS -o /dev/null https://api.test/; echo | openssl s_client -connect api.test:443 -servername api.test 2>/dev/null"
                  " | openssl x509 -noout -ext subjectAltName", POLICY)
    b.check([line.strip() for line in run.out.splitlines()][1:] == ["DNS:api.test"], "exactly it", run.out, run.err)


def libcurl_with_the_certificate_alone_fetches_many_files_at_once(bed):
    """As cargo does: a multi handle, HTTP/2 where it is had, one file of roots, no revocation list to be found."""
    _origins(bed)
    urls = " ".join(f"-o /dev/null https://api.test/index/{i}" for i in range(40))
    run = bed.run(f"env -i PATH=$PATH HOME=/ curl -sS -Z --parallel-max 20 --http2 --cacert /etc/exeat/ca.pem -w '%{{http_code}}\\n' {urls} | sort | uniq -c;"
                  "echo | openssl s_client -connect api.test:443 -servername api.test 2>/dev/null | openssl x509 -noout -text |"
                  " grep -c -i -e 'CRL Distribution' -e OCSP", POLICY)
    b.check(run.out.split() == ["40", "200", "0"], "all of them, and no place to ask for revocations", run.out, run.err)


def garbage_on_a_tls_port_is_refused(bed):
    _origins(bed)
    run = _python(bed, """
for data in (b"SSH-2.0-x\\r\\n", b"\\x16\\x03\\x01\\x00\\x05hello", b"\\x80\\x2e\\x01\\x03\\x01", b"\\x00" * 64):
    s = connect(); s.sendall(data)
    try: print(len(s.recv(1000)) < 1000)
    except OSError: print(True)
t, i, o, data = hello("api.test"); s = connect(); s.sendall(data); print(finish(s, t, i, o))
""")
    b.check(run.out.splitlines() == ["True"] * 4 + ["HTTP/1.1 200 OK"], "each ends, the next works", run.out, run.err)


def h2_is_agreed_on_and_what_nobody_speaks_is_refused(bed):
    _origins(bed)
    run = bed.run("echo | openssl s_client -connect api.test:443 -servername api.test -alpn h2 2>&1 | grep -o 'ALPN protocol: h2';"
                  "echo | openssl s_client -connect api.test:443 -servername api.test -alpn h3 2>&1 | grep -i -o 'no application protocol' | head -n 1;"
                  "curl -sS -o /dev/null -w '%{http_version}' --http2 https://api.test/", POLICY)
    b.check(run.out.split("\n") == ["ALPN protocol: h2", "no application protocol", "2"], "each", run.out, run.err)


def a_literal_that_a_rule_names_works_over_tls(bed):
    _origins(bed)
    run = bed.run("curl -sS -o /dev/null -w '%{http_code}\\n' https://203.0.113.18/; curl -sS https://203.0.113.19/; echo $?", POLICY)
    b.check(run.out.split() == ["200", "7"], "that one, and no other", run.out, run.err)


def an_incomplete_chain_and_resets_are_told_in_words(bed):
    _origins(bed)
    b.sh("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", bed.path("mid.key"),
         "-out", bed.path("mid.csr"), "-subj", "/CN=Intermediate", "-addext", "basicConstraints=critical,CA:TRUE")
    b.sh("openssl", "x509", "-req", "-in", bed.path("mid.csr"), "-out", bed.path("mid.pem"), "-copy_extensions", "copy", "-CA", bed.ca_pem,
         "-CAkey", bed.path("origin-ca.key"), "-CAcreateserial", "-days", "9")
    b.sh("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", bed.path("end.key"),
         "-out", bed.path("end.csr"), "-subj", "/CN=end", "-addext", "subjectAltName=DNS:chain.test")
    b.sh("openssl", "x509", "-req", "-in", bed.path("end.csr"), "-out", bed.path("end.pem"), "-copy_extensions", "copy", "-CA",
         bed.path("mid.pem"), "-CAkey", bed.path("mid.key"), "-CAcreateserial", "-days", "9")
    bed.dns.zone.update({"chain.test": ["203.0.113.20"], "reset.test": ["203.0.113.21"], "shut.test": ["203.0.113.22"],
                         "closed.test": ["203.0.113.23"]})
    b.Origin(bed, b.http(b.echo), address="203.0.113.20", cert=(bed.path("end.pem"), bed.path("end.key")))

    def reset(s):
        s.recv(4096)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return True
    b.Origin(bed, None, address="203.0.113.21", before_tls=reset)
    b.Origin(bed, lambda s, o: s.recv(4096), address="203.0.113.22", cert=bed.cert("shut.test"))
    run = bed.run("for n in chain reset shut closed; do curl -sS -i https://$n.test/; echo; done", POLICY)
    b.check(run.out.count("HTTP/2 502") == 4, "four 502", run.out, run.err)
    for text in ("unable to get local issuer certificate", "chain.test", "connection_refused", "connection_terminated"):
        b.check(text in run.out, f"says {text}", run.out)


def a_refusal_never_hangs(bed):
    _origins(bed)
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    run = bed.run("for i in $(seq 100); do timeout 5 curl -sS -k --connect-to evil.example:443:api.test:443 https://evil.example/ 2>/dev/null; echo $?; done | sort | uniq -c;"
                  "seq 30 | xargs -P 30 -I{} sh -c 'timeout 5 curl -sS -k --connect-to evil.example:443:api.test:443 https://evil.example/ 2>/dev/null; echo $?' | sort | uniq -c", POLICY)
    b.check(run.out.split() == ["100", "35", "30", "35"], "every one ends with the alert", run.out, run.err)


b.main(b.cases(globals()))
