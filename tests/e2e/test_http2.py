"""HTTP/2 from the box, with clients that nobody here wrote; an origin that speaks HTTP/1.1 is reached by
them as well. What a peer does that means no good ends its connection, and nothing else."""

import hashlib
import json
import pathlib
import threading
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  token: {kind: bearer, secret: token, hosts: [secret.test]}
allow:
  - {id: api, hosts: [api.test]}
  - {id: secret, hosts: [secret.test], credential: token}
  - {id: plain, hosts: [plain.test], protocol: http}
deny:
  - {id: no-admin, hosts: [api.test], paths: [/admin/**], reason: Not for boxes.}
"""
TOKEN = "tok-7d1c0f9ab3e64258"
SECRETS = {"token": (TOKEN, ["secret.test"])}
BIG = 30_000_000

# A raw client for the box: python3-h2 says what it is told, and what the other side says is kept.
CLIENT = r"""
import socket, ssl, struct, sys, time
import h2.config, h2.connection, h2.events, h2.settings
def connect(name="api.test", port=443):
    s = socket.create_connection((name, port), timeout=30)
    if port == 443:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["h2"])
        s = context.wrap_socket(s, server_hostname=name)
    return s
class Client:
    def __init__(self, name="api.test", port=443):
        self.name, self.s = name, connect(name, port)
        self.scheme = "https" if port == 443 else "http"
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(
            header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False))
        self.c.initiate_connection()
        self.events, self.ended = [], None
        self.flush()
    def flush(self):
        self.s.sendall(self.c.data_to_send())
    def get(self, path, method="GET", more=(), end=True, authority=None):
        i = self.c.get_next_available_stream_id()
        self.c.send_headers(i, [(":method", method), (":scheme", self.scheme), (":authority", authority or self.name),
                                (":path", path), *more], end_stream=end)
        self.flush()
        return i
    def read(self):
        try:
            data = self.s.recv(65536)
        except OSError as e:
            self.ended = type(e).__name__
            return False
        if not data:
            self.ended = "closed"
            return False
        self.events += self.c.receive_data(data)
        self.flush()
        return True
    def until(self, kind, stream=None):
        while True:
            for e in self.events:
                if isinstance(e, kind) and (stream is None or e.stream_id == stream):
                    return e
            if not self.read():
                return None
    def status(self, stream):
        e = self.until(h2.events.ResponseReceived, stream)
        return dict(e.headers).get(":status") if e else None
    def body(self, stream):
        self.until(h2.events.StreamEnded, stream)
        return b"".join(e.data for e in self.events if isinstance(e, h2.events.DataReceived) and e.stream_id == stream)
def frame(kind, flags, stream, data=b""):
    return struct.pack("!I", len(data))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + data
"""


def _late(request, _origin):
    time.sleep(0.5)
    return b.answer(200, "late")


def _origin(s, origin):
    """Answers by the path."""
    f = s.makefile("rb")
    while True:
        request = b.read_request(f, read_body=False)
        if request is None:
            return
        with origin.lock:
            origin.requests.append(request)
        path = request.target.partition("?")[0]
        if path in SCRIPT:
            if SCRIPT[path](s, f, request, origin) is False:
                return
        else:
            _hash(s, f, request, origin)


def _body(f, request):
    if request.get("transfer-encoding"):
        while True:
            size = int(f.readline(), 16)
            data = f.read(size)
            if size == 0:
                while f.readline() not in (b"\r\n", b""):
                    pass
                return
            f.readline()
            yield data
    left = int(request.get("content-length") or 0)
    while left:
        data = f.read(min(left, 65536))
        if not data:
            raise ValueError("cut off")
        left -= len(data)
        yield data


def _hash(s, f, request, _origin):
    h, n = hashlib.sha256(), 0
    for data in _body(f, request):
        h.update(data)
        n += len(data)
    s.sendall(b.answer(200, json.dumps({"n": n, "sha256": h.hexdigest(), "fields": request.fields, "target": request.target})))


def _big(s, _f, _request, _origin):
    s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % BIG)
    for _ in range(BIG // 100_000):
        s.sendall(b"x" * 100_000)


def _silent(s, _f, _request, origin):
    origin.waits += 1
    try:
        s.recv(1)
    except OSError:
        pass
    origin.gone.append(time.monotonic())
    return False


def _early(s, _f, _request, _origin):
    s.sendall(b.answer(413, "too much", reason="Too Large"))
    return False


def _cut(s, _f, _request, _origin):
    s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
    return False


def _raw(data):
    def step(s, _f, _request, _origin):
        s.sendall(data)
    return step


SCRIPT = {
    "/big": _big, "/silent": _silent, "/early": _early, "/cut": _cut,
    "/interim": _raw(b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n" + b.answer(200, "ok")),
    "/204": _raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "/304": _raw(b"HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n"),
    "/head": _raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1488324\r\n\r\n"),
    "/cookies": _raw(b.answer(200, "ok", [("set-cookie", "a=1"), ("set-cookie", "b=2")])),
    "/trailers": _raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 9\r\n\r\n"),
}


def _origins(bed):
    bed.dns.zone.update({"api.test": ["203.0.113.10"], "secret.test": ["203.0.113.11"], "plain.test": ["203.0.113.12"]})
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, _origin, cert=bed.cert("api.test"))
        bed.secret = b.Origin(bed, _origin, address="203.0.113.11", cert=bed.cert("secret.test"))
        bed.plain = b.Origin(bed, _origin, address="203.0.113.12", port=80)
    bed.origin.waits, bed.origin.gone = 0, []
    bed.origin.requests.clear()


def _client(bed, code, **more):
    return bed.run(["python3", "-c", CLIENT + code], POLICY, secrets=SECRETS, **more)


# ---- clients ----


def curl_speaks_http2_to_an_origin_that_does_not(bed):
    _origins(bed)
    run = bed.run("curl -sS -o /dev/null -w '%{http_version} %{http_code}\n' https://api.test/a -o /dev/null https://api.test/b; "
                  "curl -sS -o /dev/null --http2-prior-knowledge -w '%{http_version} %{http_code}\n' http://plain.test/c;"
                  "curl -sS -o /dev/null -w '%{http_version} %{http_code}\n' https://api.test/admin/x", POLICY, secrets=SECRETS)
    b.check(run.out.splitlines() == ["2 200"] * 3 + ["2 403"], "answered over HTTP/2", run.out, run.err)
    closed = run.records("connection", phase="close", protocol="https")
    b.check([r["alpn"] for r in closed] == ["h2"] * 2, "on record", closed)
    b.check(len(run.records("connection", phase="close")) == 3, "two requests of one client are one connection")
    refused = run.record("request", status=403)
    b.check(refused["rule"] == "no-admin" and refused["path"] == "/admin/x", "and so is the refusal", refused)


def curl_uploads_and_downloads_whole(bed):
    _origins(bed)
    run = bed.run(f"head -c {BIG} /dev/zero | tr '\\0' x > /tmp/f; sha256sum < /tmp/f;"
                  "curl -sS -T /tmp/f https://api.test/up; echo; cat /tmp/f | curl -sS -T - https://api.test/up; echo;"
                  "curl -sS https://api.test/big | sha256sum; curl -sS --limit-rate 40M https://api.test/big | sha256sum;"
                  "curl -sS -d hello https://api.test/small", POLICY, secrets=SECRETS)
    lines = run.out.splitlines()
    want = lines[0].split()[0]
    b.check(all(json.loads(l)["sha256"] == want for l in lines[1:3]), "up", run.out, run.err)
    b.check([l.split()[0] for l in lines[3:5]] == [want] * 2, "down", run.out, run.err)
    b.check(json.loads(lines[5])["n"] == 5, "and little", run.out)


def nghttp_and_h2load_are_answered(bed):
    _origins(bed)
    run = bed.run("nghttp https://api.test/1 https://api.test/2; echo; nghttp -v -H ':method: HEAD' https://api.test/head | "
                  "grep -o 'content-length: 1488324';"
                  "h2load -n 3000 -c 4 -m 32 https://api.test/x", POLICY, secrets=SECRETS)
    b.check(run.out.count('"target"') == 2 and "content-length: 1488324" in run.out, "nghttp", run.out, run.err)
    b.check("3000 succeeded, 0 failed, 0 errored" in run.out, "h2load", run.out, run.err)
    run.verify()


NODE = r"""
const http2 = require('http2');
const c = http2.connect('https://api.test');
let left = 60, bad = [];
c.on('error', e => { console.log('error', e.message); process.exit(1); });
for (let i = 0; i < 60; i++) {
  const r = c.request({':path': '/n' + i, ':method': i % 2 ? 'POST' : 'GET'});
  let body = '', status;
  r.on('response', h => status = h[':status']);
  r.on('data', d => body += d);
  r.on('end', () => {
    const got = JSON.parse(body);
    if (status != 200 || got.target != '/n' + i || got.n != (i % 2 ? 10000 * i : 0)) bad.push([i, status, got.n]);
    if (--left == 0) { console.log('bad', JSON.stringify(bad)); c.close(); }
  });
  if (i % 2) r.end('y'.repeat(10000 * i)); else r.end();
}
"""


def node_has_sixty_requests_at_once(bed):
    _origins(bed)
    run = bed.run(["node", "-e", NODE], POLICY, secrets=SECRETS)
    b.check(run.out.strip() == "bad []", "each its own answer", run.out, run.err)


def httpx_speaks_http2(bed):
    _origins(bed)
    run = bed.run(["python3", "-c", "import httpx\nwith httpx.Client(http2=True) as c:\n"
                   "    for i in range(5):\n        r = c.post('https://api.test/p', content=b'x' * 100000)\n"
                   "        print(r.http_version, r.status_code, r.json()['n'])"], POLICY, secrets=SECRETS)
    b.check(run.out.splitlines() == ["HTTP/2 200 100000"] * 5, "answered", run.out, run.err)


# ---- messages ----


def heads_without_bodies_and_heads_before_the_head(bed):
    _origins(bed)
    run = _client(bed, r"""
c = Client()
for path, method in (("/head", "HEAD"), ("/204", "GET"), ("/304", "GET"), ("/interim", "GET")):
    i = c.get(path, method)
    body = c.body(i)
    head = dict(c.until(h2.events.ResponseReceived, i).headers)
    print(head[":status"], head.get("content-length"), head.get("etag"), body)
early = c.until(h2.events.InformationalResponseReceived)
print([v for k, v in early.headers])
""")
    b.check(run.out.splitlines() == ["200 1488324 None b''", "204 None None b''", "304 None \"x\" b''", "200 2 None b'ok'",
                                     "['103', '</a.css>']"], "as the origin said", run.out, run.err)


def cookies_are_one_field_there_and_set_cookies_two_here(bed):
    _origins(bed)
    run = _client(bed, r"""
c = Client()
c.body(c.get("/x", more=[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3")]))
i = c.get("/cookies")
c.body(i)
print([v for k, v in c.until(h2.events.ResponseReceived, i).headers if k == "set-cookie"])
""")
    b.check([v for k, v in bed.origin.requests[0].fields if k.lower() == "cookie"] == ["a=1; b=2; c=3"], "joined",
            bed.origin.requests[0].fields)
    b.check(run.out.strip() == "['a=1', 'b=2']", "apart", run.out, run.err)


def trailers_pass_both_ways(bed):
    _origins(bed)
    run = _client(bed, r"""
c = Client()
i = c.get("/trailers", more=[("te", "trailers")])
print(c.body(i), c.until(h2.events.TrailersReceived, i).headers)
i = c.get("/up", "POST", end=False)
c.c.send_data(i, b"body")
c.c.send_headers(i, [("x-check", "7")], end_stream=True)
c.flush()
print(c.status(i))
""")
    b.check(run.out.splitlines()[0] == "b'hi' [('x-sum', '9')]" and run.out.splitlines()[1] == "200", "both", run.out, run.err)
    b.check(bed.origin.requests[0].get("te") == "trailers", "and te: trailers", bed.origin.requests[0].fields)


def what_is_put_on_stays_outside(bed):
    _origins(bed)
    run = _client(bed, r"""
c = Client("secret.test")
for n in range(3):
    print(c.body(c.get("/x", more=[("authorization", "Bearer mine")])).decode())
""")
    b.check(all(r.get("authorization") == f"Bearer {TOKEN}" for r in bed.secret.requests), "put on", bed.secret.requests[0].fields)
    b.check(len(run.out.splitlines()) == 3 and TOKEN not in run.out, "and cut out", run.out, run.err)


def an_answer_before_the_end_arrives_whole(bed):
    _origins(bed)
    run = bed.run("for i in 1 2 3; do head -c 50000000 /dev/zero | curl -sS -m 30 -T - -w ' %{http_code} %{exitcode}\\n' https://api.test/early; done",
                  POLICY, secrets=SECRETS)
    b.check(run.out.splitlines() == ["too much 413 0"] * 3, "the origin's answer", run.out, run.err)
    run = bed.run("head -c 50000000 /dev/zero | curl -sS -m 30 -T - -o /dev/null -w '%{http_code} %{exitcode}\\n' https://api.test/admin/x",
                  POLICY, secrets=SECRETS)
    b.check(run.out.splitlines() == ["403 0"], "and ours", run.out, run.err)


def a_broken_answer_is_an_abort(bed):
    _origins(bed)
    run = _client(bed, r"""
c = Client()
i = c.get("/cut")
e = c.until(h2.events.StreamReset, i)
print(int(e.error_code), c.status(c.get("/x")))
""")
    b.check(run.out.split() == ["2", "200"], "of its stream alone", run.out, run.err)


def cancelling_is_passed_on(bed):
    _origins(bed)
    run = bed.start(["python3", "-c", CLIENT + r"""
c = Client()
i, other = c.get("/silent"), c.get("/silent")
sys.stdin.readline()
c.c.reset_stream(i, 8)
c.flush()
sys.stdin.readline()
c.s.close()
"""], POLICY, secrets=SECRETS, stdin=-1)
    b.wait_until("two requests", lambda: bed.origin.waits == 2)
    for n in (1, 2):
        run.process.stdin.write(b"\n")
        run.process.stdin.flush()
        b.wait_until("the origin's side ends", lambda: len(bed.origin.gone) >= n, 5)
        if n == 1:
            b.check(len(bed.origin.gone) == 1, "that one alone", bed.origin.gone)
    run.wait()


def a_slow_reader_is_no_other_streams_matter(bed):
    _origins(bed)
    run = _client(bed, r"""
c = Client()
slow = [c.get("/big") for _ in range(8)]
# Nothing of them is acknowledged: their windows run out. (python3-h2 does that only when asked.)
for i in slow: c.status(i)
c.c.increment_flow_control_window(1 << 30)
c.flush()
print([c.status(c.get("/x")) for _ in range(20)])
got = {}
for i in slow:
    c.c.increment_flow_control_window(40_000_000, i)
c.flush()
while sum(isinstance(e, h2.events.StreamEnded) for e in c.events) < 28 and c.read(): pass
for e in c.events:
    if isinstance(e, h2.events.DataReceived) and e.stream_id in slow: got[e.stream_id] = got.get(e.stream_id, 0) + len(e.data)
print(sorted(got.values()))
""")
    b.check(run.out.splitlines() == [str(["200"] * 20), str([BIG] * 8)], "fast ones pass, slow ones come whole", run.out, run.err)


# ---- who may be asked for what ----


def other_names_on_the_connection_are_misdirected(bed):
    """F106: a connection is its name's, whatever requests say. A client that coalesces is told to open another."""
    _origins(bed)
    run = _client(bed, r"""
c = Client()
print([c.status(c.get("/x", authority=a)) for a in ("secret.test", "api.test:444", "API.test", "api.test:443", "api.test", "other.test")])
i = c.get("/x", more=[("host", "secret.test")])
print(c.status(i))
""")
    b.check(run.out.splitlines()[0] == str(["421", "421", "200", "200", "200", "421"]), "421 for each other one", run.out, run.err)
    b.check(run.out.splitlines()[1] == "400", "and Host is no way around", run.out, run.err)
    b.check(not bed.secret.requests or all(r.get("host") == "secret.test" for r in bed.secret.requests), "nothing went elsewhere")
    b.check(run.records("request", status=421), "on record", run.records("request"))


def extended_connect_and_connect_are_refused(bed):
    _origins(bed)
    run = _client(bed, r"""
c = Client()
i = c.c.get_next_available_stream_id()
c.c.send_headers(i, [(":method", "CONNECT"), (":authority", "api.test:443")])
c.flush()
print(c.status(i))
print(c.c.remote_settings.enable_connect_protocol)
""")
    b.check(run.out.split() == ["403", "0"], "and not offered", run.out, run.err)


# ---- floods ----


FLOODS = {
    "pings": "b''.join(frame(6, 0, 0, b'12345678') for _ in range(20000))",
    "settings": "b''.join(frame(4, 0, 0, b'\\0\\3\\0\\0\\0\\1') for _ in range(20000))",
    "empty bodies": "GET_OPEN + b''.join(frame(0, 0, 1) for _ in range(50000))",
    "continuations": "frame(1, 1, 1, HEAD) + b''.join(frame(9, 0, 1) for _ in range(50000))",
    "rapid reset": "b''.join(frame(1, 5, i, HEAD) + frame(3, 0, i, b'\\0\\0\\0\\x08') for i in range(1, 20000, 2))",
    "priorities": "b''.join(frame(2, 0, 3, b'\\0\\0\\0\\0\\1') for _ in range(50000))",
    "window updates": "b''.join(frame(8, 0, 0, b'\\0\\0\\0\\1') for _ in range(50000))",
    "a window overflow": "frame(8, 0, 0, b'\\x7f\\xff\\xff\\xff') * 2",
    "16 MB of head": "frame(1, 1, 1, HEAD) + b''.join(frame(9, 0, 1, b'\\x40\\x01x\\x7f\\xe1\\x7e' + b'v' * 16352) for _ in range(1000))",
    "a head that unpacks": "frame(1, 1, 1, HEAD + b'\\x40\\x01x\\x7f\\x91\\x1e' + b'v' * 4000) + frame(9, 4, 1, b'\\xbe' * 16000)",
    "malformed heads": "b''.join(frame(1, 5, i, b'\\x84') for i in range(1, 4000, 2))",
}


def _peak(run, stop, peak):
    while not stop.wait(0.05):
        for pid, (_, name) in run.family().items():
            try:
                if name == "exeat-worker":
                    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
                    peak[0] = max(peak[0], next((int(l.split()[1]) for l in text.splitlines() if l.startswith("VmHWM:")), 0))
            except OSError:
                pass


def floods_end_their_connection_and_nothing_else(bed):
    """F105."""
    _origins(bed)
    run = bed.start(["python3", "-c", CLIENT + r"""
HEAD = b"\x82\x87\x84\x41\x08api.test"
GET_OPEN = frame(1, 4, 1, HEAD)
floods = {""" + ", ".join(f"{k!r}: {v}" for k, v in FLOODS.items()) + r"""}
other = Client()
for name, data in floods.items():
    s = connect()
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
    got = b""
    s.settimeout(0.5)
    ended = None
    while ended is None:
        try:
            if data:
                data = data[s.send(data[:65536]):]
                s.setblocking(False)
            more = s.recv(65536)
            if not more: ended = "closed"
            got += more
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError, TimeoutError):
            s.settimeout(20)
        except OSError as e:
            ended = type(e).__name__
    at, code = 0, None
    while at + 9 <= len(got):
        n = int.from_bytes(got[at:at + 3], "big")
        if got[at + 3] == 7: code = int.from_bytes(got[at + 13:at + 17], "big")
        at += 9 + n
    print(name, "|", code, "|", other.status(other.get("/x")))
"""], POLICY, secrets=SECRETS)
    stop, peak = threading.Event(), [0]
    watch = threading.Thread(target=_peak, args=(run, stop, peak))
    watch.start()
    try:
        run.wait()
    finally:
        stop.set()
        watch.join()
    lines = [l.split(" | ") for l in run.out.splitlines()]
    b.check([l[0] for l in lines] == list(FLOODS), "each came to its end", run.out, run.err)
    for name, code, other in lines:
        b.check(code in ("1", "3", "11") and other == "200", f"{name}: told, and nobody else's matter", code, other)
    b.check(0 < peak[0] < (64 if not b.SANITIZED else 512) * 1024, "the worker's memory stays small", peak[0])
    ended = [r["ended"] for r in run.records("connection", phase="close")]
    b.check(sum("lood" in e or "too many" in e.lower() or "far over" in e for e in ended) >= 6, "on record", ended)
    run.verify()


b.main(b.cases(globals()))
