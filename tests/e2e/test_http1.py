"""HTTP/1.1 through Exeat: framing kept, nothing forwarded that was not understood, nothing made whole
that was cut off."""

import hashlib
import json
import os
import threading
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
  - {id: free, hosts: [free.test]}
deny:
  - {id: no-admin, hosts: [api.test], paths: [/admin/**]}
"""

# A raw TLS client for the box: sends what is given, prints what comes until the end (or a reset).
CLIENT = r"""
import socket, ssl, sys, time
def connect(name="api.test"):
    return ssl.create_default_context().wrap_socket(socket.create_connection((name, 443), timeout=30), server_hostname=name)
def talk(data, name="api.test", end=True):
    s = connect(name)
    got = b""
    try:
        for piece in ([data] if isinstance(data, bytes) else data):
            s.sendall(piece)
        while end:
            more = s.recv(65536)
            if not more: break
            got += more
        ended = "closed"
    except (ConnectionResetError, ssl.SSLError, BrokenPipeError, OSError) as e:
        ended = type(e).__name__
    s.close()
    return got, ended
"""


def _client(bed, code, **more):
    return bed.run(["python3", "-c", CLIENT + code], POLICY, **more)


def _scripted(script):
    """An origin that reads a request's head and then does as the script for its path says."""
    def handler(s, origin):
        f = s.makefile("rb")
        while True:
            request = b.read_request(f, read_body=False)
            if request is None:
                return
            with origin.lock:
                origin.requests.append(request)
            step = script.get(request.target.partition("?")[0])
            if step is None:
                n = int(request.get("content-length") or 0)
                request.body = f.read(n)
                s.sendall(b.echo(request, origin))
            elif step(s, f, request, origin) is False:
                return
    return handler


def _raw(data, keep=True):
    def step(s, _f, _request, _origin):
        s.sendall(data)
        return keep
    return step


def _late_continue(s, f, request, _origin):
    time.sleep(0.3)
    s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = f.read(int(request.get("content-length")))
    s.sendall(b.answer(200, str(len(body))))


def _no_continue(s, f, request, _origin):
    body = f.read(int(request.get("content-length")))
    s.sendall(b.answer(200, str(len(body))))


def _hash(s, f, request, _origin):
    h, n = hashlib.sha256(), 0
    if request.get("transfer-encoding"):
        while True:
            size = int(f.readline(), 16)
            data = f.read(size)
            f.readline()
            if size == 0:
                break
            h.update(data)
            n += size
    else:
        left = int(request.get("content-length"))
        while left:
            data = f.read(min(left, 65536))
            if not data:
                raise ValueError("cut off")
            h.update(data)
            left -= len(data)
            n += len(data)
    s.sendall(b.answer(200, f"{n} {h.hexdigest()}"))


def _count_body(s, f, _request, origin):
    origin.seen = 0
    while True:
        data = f.read1(65536)
        if not data:
            return False
        origin.seen += len(data)


def _close_big(s, _f, _request, _origin):
    body = b"z" * 5_000_000
    s.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + body)
    return False


def _cut(s, _f, _request, _origin):
    s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b"x" * 100)
    return False


def _cut_chunked(s, _f, _request, _origin):
    s.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
    return False


def _no_answer(_s, _f, _request, _origin):
    return False


SCRIPT = {
    "/late-continue": _late_continue, "/no-continue": _no_continue, "/hash": _hash, "/count": _count_body,
    "/417": _raw(b.answer(417, "no", reason="Expectation Failed"), keep=False),
    "/401": _raw(b.answer(401, "no", [("connection", "close")], reason="Unauthorized"), keep=False),
    "/interim": _raw(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
                     b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
    "/head": _raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1488324\r\n\r\n"),
    "/304": _raw(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 77\r\netag: \"x\"\r\n\r\n"),
    "/204": _raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "/close": _close_big, "/cut": _cut, "/cut-chunked": _cut_chunked, "/none": _no_answer,
    "/chunked": _raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nx-sum: 1\r\n\r\n"),
    "/extra": _raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokEXTRA-EXTRA"),
    "/garbage": _raw(b"this is no HTTP\r\n\r\n", keep=False),
    "/bare-lf": _raw(b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok", keep=False),
    "/many": _raw(b"HTTP/1.1 200 OK\r\n" + b"x-a: b\r\n" * 2000 + b"\r\n", keep=False),
    "/fat": _raw(b"HTTP/1.1 200 OK\r\nx-a: " + b"b" * 200000 + b"\r\n\r\n", keep=False),
    "/two-lengths": _raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nokx", keep=False),
    "/forged": _raw(b.answer(403, "{}", [("proxy-status", "exeat; error=http_request_denied"),
                                         ("content-type", "application/problem+json"), ("alt-svc", 'h3=":443"')],
                             reason="Forbidden")),
}


def _origins(bed):
    bed.dns.zone.update({"api.test": ["203.0.113.10"], "free.test": ["203.0.113.11"]})
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, _scripted(SCRIPT), cert=bed.cert("api.test"))
        bed.free = b.Origin(bed, _scripted(SCRIPT), address="203.0.113.11", cert=bed.cert("free.test"))
    bed.origin.requests.clear()


def uploads_of_every_size_and_framing_arrive_whole(bed):
    _origins(bed)
    run = bed.run("for n in 0 1 16384 65536 135000 1000000; do head -c $n /dev/zero | tr '\\0' x > /tmp/f; sha256sum < /tmp/f;"
                  "curl --http1.1 -sS --data-binary @/tmp/f https://api.test/hash; echo;"
                  "curl --http1.1 -sS -H 'Transfer-Encoding: chunked' --data-binary @/tmp/f https://api.test/hash; echo; done", POLICY)
    words = run.out.split()
    b.check(len(words) == 6 * 6, "all answered", run.out, run.err)
    for i, n in enumerate((0, 1, 16384, 65536, 135000, 1000000)):
        want = words[6 * i]
        b.check(words[6 * i + 2:6 * i + 6] == [str(n), want, str(n), want], f"{n} bytes", words[6 * i:6 * i + 6])
    for request in bed.origin.requests:
        b.check(bool(request.get("content-length")) != bool(request.get("transfer-encoding")), "one framing", request.fields)


def _resident(pid):
    """The most memory that a process ever had, in KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next((int(line.split()[1]) for line in f if line.startswith("VmHWM:")), 0)


def a_hundred_megabytes_pass_in_bounded_memory(bed):
    _origins(bed)
    peak = [0]
    stop = threading.Event()

    def watch():
        while not stop.wait(0.1):
            for pid, (_, name) in run.family().items():
                try:
                    if name == "exeat-worker":
                        peak[0] = max(peak[0], _resident(pid))
                except OSError:
                    pass    # it is gone
    run = bed.start("head -c 100000000 /dev/zero | curl --http1.1 -sS -T - https://api.test/hash", POLICY)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        run.wait()
    finally:
        stop.set()
        thread.join()
    b.check(run.out.startswith("100000000 "), "all of it", run.out, run.err)
    limit = 64 if not b.SANITIZED else 512
    b.check(0 < peak[0] < limit * 1024, f"the worker stays under {limit} MiB", peak[0])


def expect_100_continue_never_hangs(bed):
    _origins(bed)
    run = bed.run("head -c 500000 /dev/zero > /tmp/f; for p in late-continue no-continue 417 401; do "
                  "curl --http1.1 -sS -m 20 -H 'Expect: 100-continue' -T /tmp/f -w ' %{http_code} %{exitcode}\\n' https://api.test/$p; done",
                  POLICY)
    b.check([l.split() for l in run.out.splitlines()] == [["500000", "200", "0"], ["500000", "200", "0"], ["no", "417", "0"],
            ["no", "401", "0"]], "each answered", run.out, run.err)


def interim_answers_are_not_the_final_one(bed):
    _origins(bed)
    run = _client(bed, r"""
s = connect()
s.sendall(b"GET /interim HTTP/1.1\r\nHost: api.test\r\n\r\n")
got = b""
while not got.endswith(b"ok"): got += s.recv(4096)
s.sendall(b"GET /x HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
more = b""
while True:
    d = s.recv(4096)
    if not d: break
    more += d
print(got.count(b"HTTP/1.1 103"), got.count(b"HTTP/1.1 200"), more.split(b"\r\n")[0].decode())
old, _ = talk(b"GET /interim HTTP/1.0\r\nHost: api.test\r\n\r\n")
print(old.count(b" 103 "), old.split(b"\r\n")[0].decode())
""")
    lines = run.out.splitlines()
    b.check(lines[0] == "2 1 HTTP/1.1 200 OK", "interim ones pass, and the next answer is right", run.out, run.err)
    b.check(lines[1].startswith("0 HTTP/1.") and "200" in lines[1], "none to a 1.0 client", run.out)


def answers_without_a_body_keep_their_fields(bed):
    _origins(bed)
    run = _client(bed, r"""
s = connect()
f = s.makefile("rb")
for line in (b"HEAD /head", b"GET /304", b"GET /204", b"GET /x"):
    s.sendall(line + b" HTTP/1.1\r\nHost: api.test\r\n\r\n")
    head = b""
    while not head.endswith(b"\r\n\r\n"): head += f.readline()
    print(head.split(b" ")[1].decode(), [l.split(b":")[1].strip().decode() for l in head.lower().split(b"\r\n") if l.startswith(b"content-length")])
""")
    lines = run.out.splitlines()
    b.check(lines[0] == "200 ['1488324']" and lines[1] == "304 ['77']" and lines[2] == "204 []" and lines[3].startswith("200"),
            "as the origin said", run.out, run.err)


def a_close_delimited_answer_arrives_whole(bed):
    _origins(bed)
    run = bed.run("for i in $(seq 10); do curl --http1.1 -sS --limit-rate 50M -H 'Connection: close' https://api.test/close | wc -c; done", POLICY)
    b.check(run.out.split() == ["5000000"] * 10, "every byte, every time", run.out, run.err)


def chunked_answers_and_trailers_pass_without_extensions(bed):
    _origins(bed)
    run = _client(bed, r"""
got, _ = talk(b"GET /chunked HTTP/1.1\r\nHost: api.test\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n")
print(got)
""")
    b.check("hello" in run.out and " world" in run.out and "ext=1" not in run.out and "x-sum: 1" in run.out.lower(), "re-framed",
            run.out, run.err)


def a_cut_off_answer_is_an_abort(bed):
    _origins(bed)
    run = bed.run("for p in cut cut-chunked; do curl --http1.1 -sS -o /dev/null https://api.test/$p; echo $?; done;"
                  "curl --http1.1 -sS -i https://api.test/none | head -n 1", POLICY)
    lines = run.out.split("\n")
    b.check(lines[0] in ("18", "56") and lines[1] in ("18", "56"), "curl sees a broken transfer", run.out, run.err)
    b.check(" 502 " in lines[2], "an origin that closes without a word is a 502", run.out, run.err)
    b.check(run.records("request", proxy_error="connection_terminated") or
            run.records("request", proxy_error="http_response_incomplete"), "with the reason", run.records("request"))


def a_truncated_request_is_never_made_whole(bed):
    _origins(bed)
    bed.origin.seen = None
    run = _client(bed, r"""
import struct
for end in ("fin", "rst"):
    s = connect()
    s.sendall(b"POST /count HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1007\r\n\r\n" + b"x" * 300)
    time.sleep(0.3)
    if end == "rst":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
print("done")
""")
    b.wait_until("the abort", lambda: bed.origin.seen is not None)
    b.check(bed.origin.seen <= 300, "no byte was made up", bed.origin.seen)
    b.check(run.records("request", path="/count"), "recorded", run.records("request"), run.err)


def an_early_answer_is_delivered_while_the_body_still_comes(bed):
    _origins(bed)
    run = bed.run("head -c 50000000 /dev/zero | curl --http1.1 -sS -m 30 -H 'Expect:' -T - -o /dev/null -w '%{http_code}' https://api.test/401", POLICY)
    b.check(run.out.endswith("401"), "the answer arrives", run.out, run.err)


def an_early_answer_reaches_a_client_that_sends_all_before_it_reads(bed):
    _origins(bed)
    run = _client(bed, r"""
import http.client
for path in ("/401", "/admin/x"):
    c = http.client.HTTPSConnection("api.test", timeout=30)
    c.request("POST", path, body=b"x" * 60000000)
    r = c.getresponse()
    print(r.status, len(r.read()) > 0)
""")
    b.check(run.out.split() == ["401", "True", "403", "True"], "the origin's and ours", run.out, run.err)


def smuggling_is_400_and_nothing_goes_up(bed):
    _origins(bed)
    vectors = {
        "both": b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "two lengths": b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "list": b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5, 5\r\n\r\nhello",
        "plus": b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: +5\r\n\r\nhello",
        "hex": b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0x5\r\n\r\nhello",
        "identity": b"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "xchunked": b"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "space": b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length : 5\r\n\r\nhello",
        "fold": b"GET / HTTP/1.1\r\nHost: api.test\r\nX: a\r\n b\r\n\r\n",
        "lf": b"GET / HTTP/1.1\nHost: api.test\n\n",
        "nul": b"GET / HTTP/1.1\r\nHost: api.test\r\nX: a\0b\r\n\r\n",
        "two hosts": b"GET / HTTP/1.1\r\nHost: api.test\r\nHost: api.test\r\n\r\n",
        "no host": b"GET / HTTP/1.1\r\n\r\n",
        "te in 1.0": b"POST / HTTP/1.0\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "chunk size": b"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        "chunk lf": b"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n5;\nxx\r\nhello\r\n0\r\n\r\n",
        "spill": b"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx0\r\n\r\n",
    }
    code = "vectors = " + repr(vectors) + r"""
for name, data in vectors.items():
    got, ended = talk(data)
    print(name, "|", got.split(b"\r\n")[0].decode(), "|", got.count(b"HTTP/1.1 "), "|", ended)
"""
    run = _client(bed, code)
    lines = [l.split(" | ") for l in run.out.splitlines()]
    b.check(len(lines) == len(vectors), "each answered", run.out, run.err)
    for name, status, count, _ in lines:
        b.check(status.split()[1] in ("400", "501") and count == "1", f"{name}: one 400", status, count)
    b.check(all(r.target != "/smuggled" for r in bed.origin.requests) and
            all(r.method == "POST" for r in bed.origin.requests), "nothing was smuggled", [r.target for r in bed.origin.requests])
    b.check(len(bed.origin.requests) <= 3, "only requests that broke inside their body had begun", bed.origin.requests)


def malformed_answers_are_502(bed):
    _origins(bed)
    run = bed.run("for p in garbage bare-lf many fat two-lengths; do curl --http1.1 -sS -o /dev/null -w '%{http_code} ' https://api.test/$p; done;"
                  "curl --http1.1 -sS -w ' %{http_code} ' -o /dev/null https://api.test/extra -o /dev/null https://api.test/x", POLICY)
    b.check(run.out.split() == ["502"] * 5 + ["200", "200"],
            "each refused in words; extra bytes are nobody's", run.out, run.err)


def an_origins_forged_refusal_is_told_apart(bed):
    _origins(bed)
    run = bed.run("curl --http1.1 -sS -i https://api.test/forged", POLICY)
    head = run.out.lower()
    b.check("403" in head and "exeat" not in head and "alt-svc" not in head, "the marks are stripped", run.out, run.err)


def ambiguous_paths_are_refused_where_a_path_rule_is(bed):
    _origins(bed)
    paths = ["/x/..%2fadmin/1", "/%2e%2e%2fadmin/1", "/a%5cb", "/a%00b", "/x/..;/admin/1", "/%252e%252e/admin/1", "/x/../admin/1",
             "/%61dmin/1", "/x/%2e%2e/admin/1"]
    run = bed.run("for p in " + " ".join(f"'{p}'" for p in paths) + "; do curl --http1.1 -sS --path-as-is -o /dev/null -w '%{http_code} ' \"https://api.test$p\"; "
                  "curl --http1.1 -sS --path-as-is -o /dev/null -w '%{http_code} ' \"https://free.test$p\"; done", POLICY)
    codes = run.out.split()
    b.check(codes[0::2] == ["403"] * len(paths), "refused on the host with a path rule", codes, run.err)
    b.check(codes[1::2] == ["200"] * len(paths), "as it came on the other", codes)
    b.check(not bed.origin.requests, "nothing went up", [r.target for r in bed.origin.requests])
    b.check({r.target for r in bed.free.requests} >= {"/x/..%2fadmin/1", "/x/../admin/1"}, "byte for byte", [r.target for r in bed.free.requests])


def connect_trace_and_upgrades_are_refused(bed):
    _origins(bed)
    run = bed.run("curl --http1.1 -sS -o /dev/null -w '%{http_code} ' -X TRACE https://api.test/;"
                  "curl --http1.1 -sS -o /dev/null -w '%{http_code} ' -X CONNECT --request-target api.test:443 https://api.test/;"
                  "curl --http1.1 -sS -o /dev/null -w '%{http_code}' -H 'Connection: Upgrade' -H 'Upgrade: h2c' https://api.test/", POLICY)
    codes = run.out.split()
    b.check(codes[0] == "403" and codes[1] in ("403", "400") and codes[2] == "200", "refused; an upgrade is not passed on", run.out, run.err)
    b.check(all(not r.get("upgrade") for r in bed.origin.requests), "no upgrade upstream")


def the_dead_kept_alive_connection_is_replaced(bed):
    _origins(bed)
    run = _client(bed, r"""
s = connect()
f = s.makefile("rb")
def ask(line, body=b""):
    s.sendall(line + b" HTTP/1.1\r\nHost: api.test\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    head = b""
    while not head.endswith(b"\r\n\r\n"): head += f.readline()
    n = [int(l.split(b":")[1]) for l in head.lower().split(b"\r\n") if l.startswith(b"content-length")][0]
    f.read(n)
    return head.split(b" ")[1].decode()
print(ask(b"GET /extra"))
print(ask(b"GET /one"))
print(ask(b"GET /401"))
time.sleep(0.5)
""")
    b.check(run.out.split()[:3] == ["200", "200", "401"], "each answered", run.out, run.err)


def a_thousand_connections_and_parallel_ones_all_work(bed):
    _origins(bed)
    run = _client(bed, r"""
import threading, http.client
bad = []
def many(n, keep):
    try:
        c = http.client.HTTPSConnection("free.test", timeout=60)
        for _ in range(n):
            c.request("GET", "/x"); r = c.getresponse(); r.read()
            if r.status != 200: bad.append(r.status)
            if not keep: c.close(); c = http.client.HTTPSConnection("free.test", timeout=60)
    except Exception as e:
        bad.append(repr(e))
ts = [threading.Thread(target=many, args=(50, True)) for _ in range(32)] + [threading.Thread(target=many, args=(50, False)) for _ in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
print("bad", bad[:5])
""")
    b.check(run.out.strip() == "bad []", "every one", run.out, run.err)
    run.verify()


def what_was_reached_is_on_record(bed):
    _origins(bed)
    run = bed.run("curl --http1.1 -sS -o /dev/null 'https://api.test/x?token=query-secret-value'", POLICY)
    opened, closed = run.record("connection", phase="open"), run.record("connection", phase="close")
    b.check(opened["destination"] == "api.test" and opened["port"] == 443 and closed["bytes_up"] > 0 and closed["bytes_down"] > 0
            and closed["address"] == "203.0.113.10" and closed["tls"].startswith("TLS"), "open and close", opened, closed)
    request = run.record("request")
    b.check(request["rule"] == "api" and request["status"] == 200 and request["path"] == "/x", "the request, without its query", request)
    with open(run.log_path, encoding="utf-8") as f:
        text = f.read()
    b.check("query-secret-value" not in text, "no query in the log")
    for kind in ("start", "policy_load", "sandbox_start", "dns", "dial", "sandbox_stop", "stop"):
        b.check(run.records(kind), f"a {kind} record", text)
    run.verify()


b.main(b.cases(globals()))
