"""What hostile and broken ends do to a worker: slow ones, endless ones, ones that break off, too many.
None may cost another connection its service, the worker its memory, or the log its truth."""

import os
import re
import subprocess
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
  - {id: read, hosts: [read.test], methods: [GET]}
"""

# What the clients in the box are made of.
CLIENT = r"""
import os, socket, ssl, struct, sys, threading, time
def connect(name="api.test", timeout=60):
    return ssl.create_default_context().wrap_socket(socket.create_connection((name, 443), timeout=timeout), server_hostname=name, suppress_ragged_eofs=False)
def ask(s, path="/ok", name="api.test", more=b""):
    s.sendall(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: " + name.encode() + b"\r\n" + more + b"\r\n")
def read_to_end(s):
    got = b""
    try:
        while True:
            more = s.recv(65536)
            if not more: return got, "closed"
            got += more
    except OSError as e:
        return got, type(e).__name__
def status(got):
    return got.split(b" ")[1].decode() if got.startswith(b"HTTP/1.1 ") else "none"
def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
"""


def _client(bed, code, **more):
    return bed.run(["python3", "-c", CLIENT + code], POLICY, **more)


def _start(bed, code, **more):
    return bed.start(["python3", "-c", CLIENT + code], POLICY, **more)


def _worker(run):
    """The process id of a run's worker."""
    def find():
        out = subprocess.run(["ps", "-o", "pid=,ppid=,args=", "-e"], capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in out.splitlines()]
        mine = {str(run.process.pid)}
        for _ in range(3):
            mine |= {pid for pid, parent, _ in rows if parent in mine}
        return [int(pid) for pid, _, args in rows if pid in mine and "exeat-worker" in args.split()[0]]
    return b.wait_until("the worker", find)[0]


def _memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def _descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def _forever(first, piece):
    """Sends @first and then @piece until it cannot; counts the bytes."""
    def step(s, origin):
        origin.sent = 0
        s.sendall(first)
        while True:
            s.sendall(piece)
            origin.sent += len(piece)
    return step


def _handler(scripts):
    def handler(s, origin):
        f = s.makefile("rb")
        while True:
            request = b.read_request(f, read_body=False)
            if request is None:
                return
            path = request.target.partition("?")[0]
            with origin.lock:
                origin.requests.append(request)
            if path in scripts:
                if scripts[path](s, origin) is not True:
                    return
            else:
                f.read(int(request.get("content-length") or 0))
                s.sendall(b.answer(200, "ok"))
    return handler


def _big(s, origin):
    origin.sent = 0
    s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
    for _ in range(1000):
        s.sendall(b"y" * 100000)
        origin.sent += 100000
    return True


def _slow(s, _origin):
    time.sleep(0.5)
    s.sendall(b.answer(200, "ok"))
    return True


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
SCRIPTS = {
    "/big": _big, "/slow": _slow,
    "/endless-header": _forever(OK, b"x-more: " + b"h" * 8000 + b"\r\n"),
    "/endless-line": _forever(OK + b"x-more: ", b"h" * 8000),
    "/endless-status": _forever(b"HTTP/1.1 200 ", b"K" * 8000),
    "/endless-interim": _forever(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 100),
    "/endless-extension": _forever(CHUNKED + b"5;", b"e" * 8000),
    "/endless-size": _forever(CHUNKED, b"0" * 8000),
    "/endless-trailers": _forever(CHUNKED + b"0\r\n", b"x-trailer: " + b"t" * 8000 + b"\r\n"),
    "/endless-body": _forever(CHUNKED, b"2000\r\n" + b"b" * 0x2000 + b"\r\n"),
    "/endless-garbage": _forever(b"", b"\r\n" * 4000),
}


def _origins(bed):
    bed.dns.zone.update({"api.test": ["203.0.113.10"], "read.test": ["203.0.113.11"]})
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, _handler(SCRIPTS), cert=bed.cert("api.test"))
        bed.read = b.Origin(bed, _handler(SCRIPTS), address="203.0.113.11", cert=bed.cert("read.test"))
    bed.origin.requests.clear()


def a_client_that_closes_is_on_record_at_once_and_leaves_no_descriptor(bed):
    _origins(bed)
    run = bed.start("curl -sS -o /dev/null https://api.test/ok; sleep 1; i=0; while [ $i -lt 200 ]; do curl -sS -o /dev/null "
                    "https://api.test/ok || echo bad; i=$((i + 1)); done; echo done; sleep 2; curl -sS -o /dev/null https://api.test/ok", POLICY)
    worker = _worker(run)
    b.wait_until("the first connection's close record", lambda: run.records("connection", phase="close"))
    before = _descriptors(worker)
    b.wait_until("200 more", lambda: len(run.records("connection", phase="close")) >= 201, 60)
    b.check(_descriptors(worker) <= before, "no descriptor is left behind", before, _descriptors(worker))
    run.wait()
    live = most = 0
    for r in run.records("connection"):
        live += 1 if r["phase"] == "open" else -1
        most = max(most, live)
        b.check(r["phase"] == "open" or "closed" in r["ended"], "closed when the client did", r)
    b.check(most <= 20, "each is over before many others have come", most)
    b.check("bad" not in run.out, "every one was served", run.out, run.err)
    run.verify()


def refused_requests_are_counted_and_every_id_is_on_record(bed):
    _origins(bed)
    run = _client(bed, r"""
import json
s = connect("read.test"); f = s.makefile("rb")
ids = set()
for i in range(3000):
    s.sendall(b"DELETE /x HTTP/1.1\r\nHost: read.test\r\ncontent-length: 0\r\n\r\n")
    n = 0
    while True:
        line = f.readline()
        if line.lower().startswith(b"content-length:"): n = int(line.split(b":")[1])
        if line == b"\r\n": break
    ids.add(json.loads(f.read(n))["refusal"])
    if i % 300 == 0:
        ask(s, "/allowed%d" % i, "read.test")
        while f.readline() != b"\r\n": pass
        f.read(2)
print(*ids)
""")
    denied = [r for r in run.records("request") if r["verdict"] == "deny"]
    b.check(sum(r.get("count", 1) for r in denied) == 3000, "all are accounted for", [r.get("count", 1) for r in denied], run.err)
    b.check(len(denied) < 200, "in few lines", len(denied))
    recorded = {r["refusal"] for r in denied if "count" not in r}
    b.check(run.out.split() and set(run.out.split()) <= recorded, "each answer's id is on record", run.out, denied)
    b.check(len([r for r in run.records("request", verdict="allow", phase="end")]) == 10, "what is allowed has its own line each",
            run.records("request", verdict="allow"))
    run.verify()


def refused_connections_are_counted(bed):
    _origins(bed)
    run = _client(bed, r"""
for i in range(500):
    s = socket.create_connection(("api.test", 443))
    s.sendall(b"\x16 is no hello")
    while s.recv(100): pass
    s.close()
""")
    denied = [r for r in run.records("connection") if r.get("verdict") == "deny"]
    b.check(sum(r.get("count", 1) for r in denied) == 500 and len(denied) < 100, "all, in few lines", denied[:5], run.err)
    run.verify()


def an_origin_that_stalls_its_handshake_is_a_504_with_the_reason(bed):
    bed.dns.zone["stall.test"] = ["203.0.113.12"]
    release = []
    origin = b.Origin(bed, _handler(SCRIPTS), address="203.0.113.12", cert=bed.cert("stall.test"),
                      before_tls=lambda s: b.wait_until("the end", lambda: release, 60))
    start = time.monotonic()
    run = bed.run("curl -sS -m 30 -i https://stall.test/", POLICY.replace("[api.test]", "[stall.test]"))
    release.append(1)
    b.check(9 < time.monotonic() - start < 15, "after ten seconds", time.monotonic() - start)
    b.check(" 504 " in run.out and "TLS handshake timed out" in run.out, "a 504 that says why", run.out, run.err)
    record = run.record("request", phase="end")
    b.check(record["proxy_error"] == "connection_timeout" and "TLS handshake timed out" in record["reason"] and record["verdict"] == "allow",
            "as the record does", record)
    origin.close()


def slow_readers_cost_bounded_memory_and_nobody_else(bed):
    _origins(bed)
    run = _start(bed, r"""
slow = []
for _ in range(20):
    s = connect(); ask(s, "/big"); slow.append(s)
print("reading", flush=True)
worst = 0
for i in range(100):
    for s in slow: s.recv(1)
    began = time.monotonic()
    s = connect(); ask(s, more=b"connection: close\r\n"); got, _ = read_to_end(s)
    worst = max(worst, time.monotonic() - began)
    if status(got) != "200": print("bad", got)
print("worst", worst < 8, worst)
""")
    worker = _worker(run)
    first = b.wait_until("the worker's memory", lambda: _memory_kib(worker))
    peak = [first]
    while run.process.poll() is None:
        try:
            peak.append(_memory_kib(worker))
        except (FileNotFoundError, AttributeError):
            break
        time.sleep(0.1)
    run.wait()
    b.check("worst True" in run.out and "bad" not in run.out, "others are served at once", run.out, run.err)
    limit = 32 if not b.SANITIZED else 256
    b.check(max(peak) - first < limit * 1024, "memory is bounded", first, max(peak))
    b.check(bed.origin.sent < 20_000_000, "the origin is held back", bed.origin.sent)


def slow_senders_meet_named_timeouts(bed):
    _origins(bed)
    run = _client(bed, r"""
def dribble(began, s, data, every, out):
    got = b""
    s.settimeout(every)
    try:
        for i in range(10000):
            s.sendall(data[i:i + 1] or b"x")
            try:
                got = s.recv(65536); break
            except (socket.timeout, TimeoutError):
                pass
    except OSError as e:
        got = type(e).__name__.encode()
    out.append((status(got), int(time.monotonic() - began)))
hello, head = [], []
ts = [threading.Thread(target=dribble, args=(time.monotonic(), socket.create_connection(("api.test", 443)), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 0.5, hello)) for _ in range(50)]
ts += [threading.Thread(target=dribble, args=(time.monotonic(), connect(), b"GET / HTTP/1.1\r\nHost: api.test\r\nX-Slow: ", 0.5, head)) for _ in range(50)]
[t.start() for t in ts]
fine = []
for _ in range(20):
    began = time.monotonic()
    s = connect(); ask(s, more=b"connection: close\r\n"); got, _ = read_to_end(s)
    fine.append(status(got) == "200" and time.monotonic() - began < 8); time.sleep(0.2)
[t.join() for t in ts]
print(all(fine), all(9 <= t <= 25 for _, t in hello), all(c == "408" and 29 <= t <= 60 for c, t in head), hello[:2], head[:2])
""")
    b.check(run.out.startswith("True True True"), "others go on; hellos end after 10 s, heads after 30 s with a 408", run.out, run.err)
    late = run.records("connection", phase="close", reason="hello-timeout") + run.records("connection", reason="hello-timeout")
    b.check(late, "the hellos' timeout is on record", run.records("connection")[:5])
    b.check([r for r in run.records("request") if r.get("reason", "").startswith("request-timeout")], "and the heads'", run.records("request")[:5])


def answers_without_end_are_ended(bed):
    _origins(bed)
    paths = [p for p in SCRIPTS if p.startswith("/endless") and p != "/endless-body"]
    run = _start(bed, f"paths = {paths!r}\n" + r"""
for path in paths:
    began = time.monotonic()
    s = connect(); ask(s, path, more=b"connection: close\r\n"); got, how = read_to_end(s)
    print(path, status(got[got.rfind(b"HTTP/1.1 "):]), how != "TimeoutError", time.monotonic() - began < 10, len(got) < 100000)
""")
    worker = _worker(run)
    first, peak = _memory_kib(worker), 0
    while run.process.poll() is None:
        try:
            peak = max(peak, _memory_kib(worker))
        except (FileNotFoundError, AttributeError):
            break
        time.sleep(0.02)
    run.wait()
    lines = [l.split() for l in run.out.splitlines()]
    b.check(len(lines) == len(paths), "each ended", run.out, run.err)
    for path, code, *rest in lines:
        begun = path in ("/endless-extension", "/endless-size", "/endless-trailers")
        b.check(code in (("200", "none") if begun else ("502",)) and rest == ["True"] * 3, f"{path}: refused in words, or broken off", code, rest)
    b.check(peak - first < (32 if not b.SANITIZED else 256) * 1024, "memory is bounded", first, peak)
    ends = run.records("request", phase="end")
    b.check(len(ends) == len(paths) and all(r.get("proxy_error") for r in ends), "each on record with its reason", ends)


def a_body_without_end_is_held_back_by_a_slow_box(bed):
    _origins(bed)
    run = _start(bed, r"""
s = connect(); ask(s, "/endless-body")
for _ in range(30): s.recv(1); time.sleep(0.1)
reset(s)
s = connect(); ask(s, more=b"connection: close\r\n"); print(status(read_to_end(s)[0]))
""")
    worker = _worker(run)
    first = _memory_kib(worker)
    b.wait_until("the end of the body", lambda: run.records("request", path="/endless-body", phase="end"), 30)
    after = _memory_kib(worker)
    run.wait()
    b.check(run.out.strip() == "200" and after - first < (16 if not b.SANITIZED else 128) * 1024, "bounded", run.out, first, after)
    b.check(bed.origin.sent < 20_000_000, "the origin was held back", bed.origin.sent)


def _reset_now(s):
    import socket
    import struct
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def an_origin_may_reset_at_every_stage(bed):
    bed.dns.zone["broken.test"] = ["203.0.113.13"]
    stage = ["accept"]

    def before_tls(s):
        if stage[0] == "accept":
            _reset_now(s)
            return True
        if stage[0] == "hello":
            s.recv(10)
            _reset_now(s)
            return True
        if stage[0] == "server-hello":
            s.recv(4096)
            s.sendall(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03")
            _reset_now(s)
            return True
        return False

    texts = {"request": b"", "status": b"HTTP/1.1 20", "head": b"HTTP/1.1 200 OK\r\nx-a: b\r\n", "interim": b"HTTP/1.1 100 Continue\r\n\r\n",
             "length": b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n", "body": b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234",
             "chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n01", "trailer": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\nx: y",
             "close": b"HTTP/1.1 200 OK\r\n\r\n01234", "whole": b.answer(200, "ok")}

    def handler(s, origin):
        f = s.makefile("rb")
        while True:
            request = b.read_request(f)
            if request is None:
                return
            if stage[0] == "fine":
                s.sendall(b.answer(200, "ok"))
                continue
            s.sendall(texts[stage[0]])
            time.sleep(0.05)
            _reset_now(s)
            return
    origin = b.Origin(bed, handler, address="203.0.113.13", cert=bed.cert("broken.test"), before_tls=before_tls)
    results, policy = {}, POLICY.replace("[api.test]", "[broken.test]")
    read, write = os.pipe()
    run = bed.start(["python3", "-c", CLIENT + r"""
s = None
while sys.stdin.readline():
    try:
        s = connect("broken.test"); ask(s, "/", "broken.test", b"connection: close\r\n"); got, how = read_to_end(s)
        print(status(got), how, flush=True)
    except OSError as e:
        print("failed", type(e).__name__, flush=True)
"""], policy, stdin=read)
    for name in ["accept", "hello", "server-hello", *texts, "fine"]:
        stage[0] = name
        os.write(write, b"\n")
        results[name] = run.process.stdout.readline().decode().split()
    os.close(write)
    os.close(read)
    run.wait()
    for name in ("accept", "hello", "server-hello", "request", "status", "head", "interim"):
        b.check(results[name] == ["502", "closed"] or (name == "interim" and results[name][0] == "100"), f"{name}: a 502", results, run.err)
    for name in ("length", "body", "chunk", "trailer", "close"):
        b.check(results[name][0] in ("200", "none") and results[name][1] != "closed", f"{name}: broken off, and that is seen", results, run.err)
    for name in ("whole", "fine"):
        b.check(results[name] == ["200", "closed"], f"{name}: whole", results, run.err)
    ends = run.records("request", phase="end")
    b.check(len(ends) == len(results), "each on record", ends)
    origin.close()
    run.verify()


def a_box_may_reset_at_every_stage(bed):
    _origins(bed)
    run = _start(bed, r"""
def tcp(): return socket.create_connection(("api.test", 443))
def stages():
    yield tcp()
    s = tcp(); s.sendall(b"\x16\x03\x01"); yield s
    s = tcp(); s.sendall(b"\x16\x03\x01\x00\x05\x01\x00"); yield s
    s = tcp(); s.setblocking(False)
    c = ssl.create_default_context(); i, o = ssl.MemoryBIO(), ssl.MemoryBIO(); t = c.wrap_bio(i, o, server_hostname="api.test")
    try: t.do_handshake()
    except ssl.SSLWantReadError: pass
    s.sendall(o.read()); yield s
    yield connect()
    for part in (b"GE", b"GET / HTTP/1.1\r\nHo", b"POST /ok HTTP/1.1\r\nHost: api.test\r\ncontent-length: 10\r\n\r\n",
                 b"POST /ok HTTP/1.1\r\nHost: api.test\r\ncontent-length: 10\r\n\r\n01234",
                 b"POST /ok HTTP/1.1\r\nHost: api.test\r\ntransfer-encoding: chunked\r\n\r\n5\r\n01",
                 b"GET /ok HTTP/1.1\r\nHost: api.test\r\n\r\n", b"GET /big HTTP/1.1\r\nHost: api.test\r\n\r\n"):
        s = connect(); s.sendall(part); yield s
    s = connect(); ask(s, "/big"); s.recv(100000); yield s
    s = connect(); ask(s); s.recv(1000); yield s
s = connect(); ask(s, more=b"connection: close\r\n"); read_to_end(s); s.close(); time.sleep(1)
for wait in (0, 0.05):
    for how in (reset, lambda s: s.close()):
        for _ in range(5):
            for s in stages():
                time.sleep(wait)
                how(s)
print("done", flush=True)
time.sleep(3)
s = connect(); ask(s, more=b"connection: close\r\n"); print(status(read_to_end(s)[0]))
""")
    worker = _worker(run)
    b.wait_until("the first connection's end", lambda: run.records("connection", phase="close"))
    before = _descriptors(worker)
    b.wait_until("the resets", lambda: len(run.records("connection", phase="close")) >= 281, 90)
    b.wait_until("no descriptor is left", lambda: _descriptors(worker) <= before, 10)
    run.wait()
    b.check(run.out.split() == ["done", "200"], "and it still works", run.out, run.err)
    opened = {r["connection"] for r in run.records("connection", phase="open")}
    closed = {r["connection"] for r in run.records("connection", phase="close")}
    b.check(opened <= closed, "what was opened was closed", opened - closed)
    begun = [r for r in run.records("request", phase="end") if not r.get("ended")]
    b.check(not begun and not run.records("worker_lost"), "each request says how it ended", begun)
    run.verify()


def two_thousand_connections_at_once_meet_the_limit_and_leave_it(bed):
    _origins(bed)
    run = _client(bed, r"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
address = socket.getaddrinfo("api.test", 443, socket.AF_INET, socket.SOCK_STREAM)[0][4]
all_ = []
for i in range(2000):
    s = socket.socket(); s.setblocking(False); s.connect_ex(address)
    all_.append(s)
# All are connected, but for those that were reset: those cannot name their peer.
def state(s):
    if s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 2: return "connecting"
    return "gone" if s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 7 else "there"
while any(state(s) == "connecting" for s in all_): time.sleep(0.1)
time.sleep(0.5)
gone = sum(state(s) == "gone" for s in all_)
print("gone", gone, flush=True)
[s.close() for s in all_]
time.sleep(1)
s = connect(); ask(s, more=b"connection: close\r\n"); print(status(read_to_end(s)[0]))
""")
    words = run.out.split()
    b.check(len(words) == 3 and int(words[1]) >= 2000 - 1024 and words[2] == "200", "what is over is reset, then all is well", run.out, run.err)
    over = [r for r in run.records("connect", verdict="deny") if r.get("reason") == "too-many-connections"]
    b.check(sum(r["count"] for r in over) == 2000 - 1024, "counted on record", over)


def pipelined_requests_are_answered_in_order(bed):
    _origins(bed)
    run = _client(bed, r"""
s = connect()
s.sendall(b"".join(b"POST /%d HTTP/1.1\r\nHost: api.test\r\ncontent-length: 3\r\n\r\nabc" % i for i in range(500)) +
          b"GET /last HTTP/1.1\r\nHost: api.test\r\nconnection: close\r\n\r\n")
got, how = read_to_end(s)
print(got.count(b"HTTP/1.1 200"), how)
""")
    b.check(run.out.split() == ["501", "closed"], "each answered", run.out, run.err)
    b.check([r.target for r in bed.origin.requests] == [f"/{i}" for i in range(500)] + ["/last"], "in order",
            [r.target for r in bed.origin.requests][:10])


def a_half_closed_box_gets_its_answer(bed):
    _origins(bed)
    run = _client(bed, r"""
s = connect()
ask(s, "/slow")
socket.socket(fileno=os.dup(s.fileno())).shutdown(socket.SHUT_WR)
got, how = read_to_end(s)
print(status(got), got.endswith(b"ok"), how)
""")
    b.check(run.out.split()[:2] == ["200", "True"], "the answer arrives", run.out, run.err)


b.main(b.cases(globals()))
