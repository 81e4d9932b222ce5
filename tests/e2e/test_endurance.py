"""What hostile and broken ends do to a worker: slow ones, endless ones, ones that break off, too many.
None may cost another connection its service, the worker its memory, or the log its truth."""

import os
import re
import subprocess
import time
from datetime import datetime

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
    return ssl.create_default_context().wrap_socket(socket.create_connection((name, 443), timeout=timeout), server_hostname=name)
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


def _seconds(record):
    return datetime.fromisoformat(record["time"].replace("Z", "+00:00")).timestamp()


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


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
SCRIPTS = {
    "/big": _big,
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
    opened = {r["connection"]: r for r in run.records("connection", phase="open")}
    for r in run.records("connection", phase="close"):
        b.check(_seconds(r) - _seconds(opened[r["connection"]]) < 1.5 and "closed" in r["ended"],
                "closed when the client did", opened[r["connection"]], r)
    b.check("bad" not in run.out, "every one was served", run.out, run.err)
    run.verify()


b.main(b.cases(globals()))
