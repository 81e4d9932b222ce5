"""Streams as the field breaks them (F102, F103): events that wait for others, silences that are cut, cuts that look like
ends; and slow clients beside quick ones. Where a test says "as it is sent", the origin sends an event only after the
client has told that it has the one before.

How long a stream may stand still is tried in hours by tests/unit/proxy/test_engine_streams.c, which puts the clock
forward. See also endurance: slow readers cost bounded memory, slow senders meet named timeouts, an origin may reset
at every stage; limits: a stream over its time is broken off; http2, grpc: streams of theirs."""

import socket
import statistics
import struct
import time
import zlib

import bed as b
import told

TOKEN = "tok-stream-51d0e77b2a"
POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  key: {kind: bearer, secret: token, hosts: [key.test]}
allow:
  - {id: free, hosts: [free.test]}
  - {id: sse, hosts: [sse.test]}
  - {id: key, hosts: [key.test], credential: key}
  - {id: plain, hosts: [plain.test], protocol: http}
  - {id: short, hosts: [short.test], limits: {idle: 2s}}
"""
SECRETS = {"token": (TOKEN, ["key.test"])}
NAMES = ("sse.test", "key.test", "short.test")
EVENTS = 20
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"

# events(): reads a stream; says of each event when it came, and tells the origin.
CLIENT = told.CLIENT + r"""
import os, subprocess, time, zlib
def events(name, path):
    c = http.client.HTTPSConnection(name, timeout=60, context=context)
    c.request("GET", path, headers={"Accept-Encoding": "gzip"})
    r = c.getresponse()
    unzip = zlib.decompressobj(31).decompress if r.getheader("content-encoding") == "gzip" else bytes
    got, seen = b"", 0
    while piece := r.read1(65536):
        at = time.monotonic()
        got += unzip(piece)
        while got.count(b"\n\n") > seen:
            print(name + path, seen, at, flush=True); tell(name + path + "/" + str(seen)); seen += 1
    print(name + path, "end", seen, flush=True)
"""


def _chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def _events(bed, s, request):
    """One event after the other, each when the one before has come; says in bed.sent when each went out."""
    kind = request.target.split("/")[2]
    packer = zlib.compressobj(wbits=31)
    s.sendall({"chunked": CHUNKED, "close": OK + b"\r\n",
               "gzip": OK + b"content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"}[kind])
    for n in range(EVENTS):
        data = b"data: event %08d of them\n\n" % n
        if kind == "gzip":
            data = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
        what = f"{request.get('host')}{request.target}/{n}"
        bed.sent[what] = time.monotonic()
        s.sendall(data if kind == "close" else _chunk(data))
        bed.told.after(what)
    if kind == "gzip":
        s.sendall(_chunk(packer.flush()))
    if kind != "close":
        s.sendall(b"0\r\n\r\n")
    return kind != "close"


def _silent(s):
    time.sleep(4)
    s.sendall(CHUNKED + _chunk(b"data: late\n\n"))
    time.sleep(4)
    s.sendall(_chunk(b"data: later\n\n") + b"0\r\n\r\n")
    return True


BEGUN = {"/begun/chunked": CHUNKED + _chunk(b"data: begun\n\n"), "/begun/length": OK + b"content-length: 100\r\n\r\ndata: begun\n\n",
         "/begun/close": OK + b"\r\ndata: begun\n\n", "/begun/not": b""}


def _begun(bed, s, path):
    s.sendall(BEGUN[path])
    bed.told.after("over")


def _reset(bed, s, path):
    s.sendall(BEGUN["/begun/" + path.rpartition("/")[2]])
    bed.told.after("begun" + path)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    socket.socket(fileno=s.detach()).close()


def _big(s):
    s.sendall(OK + b"content-length: 100000000\r\n\r\n")
    for _ in range(1000):
        s.sendall(b"y" * 100000)
    return True


def _answer(bed, s, f, request):
    """True: the connection goes on."""
    path = request.target
    if path.startswith("/events/"):
        return _events(bed, s, request)
    if path == "/silent":
        return _silent(s)
    if path == "/big":
        return _big(s)
    if path in BEGUN:
        return _begun(bed, s, path)
    if path.startswith("/reset/"):
        return _reset(bed, s, path)
    f.read(int(request.get("content-length") or 0))
    s.sendall(b.answer(200, "ok"))
    return True


def _handler(bed):
    def handler(s, _origin):
        f = s.makefile("rb")
        while (request := b.read_request(f, read_body=False)) is not None:
            if not _answer(bed, s, f, request):
                return
    return handler


def _origins(bed):
    if not hasattr(bed, "origin"):
        bed.dns.zone.update({name: ["203.0.113.10"] for name in NAMES} | {"plain.test": ["203.0.113.10"],
                                                                              "free.test": ["203.0.113.11"]})
        bed.told, bed.sent = told.Told(), {}
        bed.origin = b.Origin(bed, _handler(bed), cert=bed.cert(*NAMES))
        bed.plain = b.Origin(bed, _handler(bed), port=80)
        bed.free = b.Origin(bed, b.http(told.aside), address="203.0.113.11", cert=bed.cert("free.test"))
        bed.free.told = bed.told
    bed.told.events.clear()
    bed.sent.clear()


def _start(bed, code, **more):
    _origins(bed)
    return bed.start(["python3", "-c", CLIENT + code], POLICY, secrets=None if "settings" in more else SECRETS, **more)


def _client(bed, code, **more):
    return _start(bed, code, **more).wait()


def events_arrive_as_they_are_sent_whatever_frames_them(bed):
    """F102: chunked, until the close, and with gzip flushed after each; with a credential on, so that they are searched,
    and without."""
    streams = ("sse.test/events/chunked", "sse.test/events/close", "sse.test/events/gzip", "key.test/events/chunked", "key.test/events/close")
    run = _client(bed, "".join(f"events({name!r}, '/{path}')\n" for name, _, path in (s.partition("/") for s in streams)))
    lines = [l.split() for l in run.out.splitlines()]
    for stream in streams:
        b.check([stream, "end", str(EVENTS)] in lines, f"{stream}: every one, and a clean end", run.out[-500:], run.err)
        added = [1000 * (float(l[2]) - bed.sent[f"{stream}/{l[1]}"]) for l in lines if l[0] == stream and l[1] != "end"]
        print(f"      {stream}: from origin to client in {statistics.median(added):.1f} ms, at most {max(added):.1f} ms")
    b.check(len(run.records("request", credential="key", status=200)) == 2, "with the credential on", run.records("request", host="key.test"))


NODE = """const get = async (u, n) => {
  let seen = 0, text = '';
  const d = new TextDecoder();
  for await (const c of (await fetch(u)).body) {
    text += d.decode(c);
    while (text.split('\\\\n\\\\n').length - 1 > seen)
      await (await fetch('https://free.test/tell/' + n + '/' + seen++)).text();
  }
  console.log('node', seen);
};
get('https://key.test/events/chunked', 'key.test/events/chunked')"""


def events_reach_curl_and_node_as_they_are_sent(bed):
    """F102, with clients of others, over HTTP/1.1 and HTTP/2."""
    _origins(bed)
    run = bed.run("for v in --http1.1 --http2; do for h in sse.test key.test; do "
                  "curl -sN $v https://$h/events/chunked/$v | (n=0; while IFS= read -r line; do [ -z \"$line\" ] || "
                  "{ curl -s https://free.test/tell/$h/events/chunked/$v/$n; n=$((n + 1)); }; done; echo curl $n); done; done; "
                  f"node -e \"{NODE}\"", POLICY, secrets=SECRETS)
    b.check(run.out.splitlines() == [f"curl {EVENTS}"] * 4 + [f"node {EVENTS}"], "every one", run.out, run.err)
    alpn = {r.get("alpn") for r in run.records("connection", phase="close", destination="sse.test")}
    b.check(alpn == {"http/1.1", "h2"}, "over both", alpn)


def an_origin_that_is_silent_for_a_while_is_waited_for(bed):
    """F103: before its first byte, and between events."""
    run = _client(bed, r"""
for name in ("sse.test", "key.test"):
    s = connect(name); s.sendall(b"GET /silent HTTP/1.1\r\nHost: " + name.encode() + b"\r\nConnection: close\r\n\r\n"); got, how = to_end(s)
    print(how, b"data: late\n\n" in got, b"data: later\n\n" in got, got.endswith(b"\r\n0\r\n\r\n"))
""")
    b.check(run.out.splitlines() == ["closed True True True"] * 2, "all of it, and a clean end", run.out, run.err)


CUT = r"""
def cut(name, path, minor=1):
    s = connect(name); s.sendall(b"GET %s HTTP/1.%d\r\nHost: %s\r\n\r\n" % (path.encode(), minor, name.encode()))
    got = b""
    while b"begun" not in got: got += s.recv(65536)
    tell("begun" + path); more, how = to_end(s); got += more
    print(path, minor, got[9:12].decode(), how, got.endswith(b"0\r\n\r\n"), flush=True)
def cut2(name, path):
    p = subprocess.Popen(["curl", "-sSN", "-m", "60", "--http2", f"https://{name}{path}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.readline(); tell("begun" + path); p.communicate()
    print(path, 2, "200", "closed" if p.returncode == 0 else "broken", False, flush=True)
"""


def _is_cut(bed, run, reason, host, *more):
    bed.told.tell("over")
    lines = [l.split() for l in run.out.splitlines()]
    b.check(len(lines) == 5 + len(more), "each came to its end", run.out, run.err)
    for path, minor, status, how, last in lines[:5]:
        b.check((status, how, last) == ("200", "broken", "False"), f"{path}, HTTP/{minor}: breaks off, and never ends", lines)
    ends = [r.get("reason", "") for r in run.records("request", host=host, phase="end")]
    b.check(len(ends) == 5 + len(more) and all(r.startswith(reason) for r in ends), "the record has the reason", ends)
    b.check([l[2:4] for l in lines[5:]] == [[status, "closed"] for status in more], "in words where nothing has begun", lines)


def a_stream_that_its_rules_limit_ends_is_seen_to_break_off(bed):
    """F103"""
    run = _client(bed, CUT + r"""
cut("short.test", "/begun/chunked"); cut("short.test", "/begun/length"); cut("short.test", "/begun/close"); cut("short.test", "/begun/close", 0)
cut2("short.test", "/begun/chunked")
s = connect("short.test"); s.sendall(b"GET /begun/not HTTP/1.1\r\nHost: short.test\r\nConnection: close\r\n\r\n"); got, how = to_end(s)
print("/begun/not", 1, got[9:12].decode(), how, False)
""")
    _is_cut(bed, run, "response-timeout: nothing moved for 2 s", "short.test", "504")


def a_stream_that_the_settings_limit_ends_is_seen_to_break_off(bed):
    """F103, with a credential on."""
    run = _client(bed, CUT + r"""
cut("key.test", "/begun/chunked"); cut("key.test", "/begun/length"); cut("key.test", "/begun/close"); cut("key.test", "/begun/close", 0)
cut2("key.test", "/begun/length")
""", settings=bed.settings(SECRETS, "limits: {idle: 2s}\n"))
    _is_cut(bed, run, "response-timeout: nothing moved for 2 s", "key.test")


def a_stream_that_its_origin_resets_is_seen_to_break_off(bed):
    """With a credential on, and what was held back for the search: nothing makes it whole."""
    run = _client(bed, CUT + r"""
cut("key.test", "/reset/chunked"); cut("key.test", "/reset/length"); cut("key.test", "/reset/close"); cut("key.test", "/reset/close/1", 0)
cut2("key.test", "/reset/2/chunked")
""".replace("/reset/close/1", "/reset/1/close"))
    _is_cut(bed, run, "response-incomplete", "key.test")


def a_client_that_stands_still_is_broken_off_and_on_record_as_the_cause(bed):
    run = _start(bed, r"""
s = connect("short.test"); s.sendall(b"GET /big HTTP/1.1\r\nHost: short.test\r\n\r\n")
t = connect("short.test"); t.sendall(b"POST /x HTTP/1.1\r\nHost: short.test\r\nContent-Length: 10\r\n\r\nhalf")
got, how = to_end(t); print(got[9:12].decode(), how)
after("unread")
got, how = to_end(s); print(got[9:12].decode(), how, len(got) < 100000000)
""")
    b.wait_until("the record", lambda: run.records("request", path="/big", phase="end"), 60)
    bed.told.tell("unread")
    run.wait()
    lines = run.out.splitlines()
    b.check(lines[0] == "408 closed" and lines[1].split()[1:] == ["broken", "True"], "who may still be told is told", run.out, run.err)
    b.check(run.record("request", path="/big", phase="end")["reason"] == "answer-unread: nothing moved for 2 s"
            and run.record("request", path="/x", phase="end")["reason"] == "request-timeout: nothing moved for 2 s", "whose fault it was",
            run.records("request"))


MODES = {"slow headers": "-H -x 24", "slow bodies": "-B -s 8192 -x 10", "slow readers": "-X -w 512 -y 1024 -n 5 -z 32 -k 3",
         "ranges": "-R -a 10 -b 3000"}


def slowhttptest_in_the_box_holds_up_nobody_else(bed):
    """Two hundred connections of each of its kinds, while others ask on new connections and on a kept one. Over plain HTTP:
    it sends no server name."""
    run = _client(bed, f"modes = {MODES!r}\n" + r"""
for name, mode in modes.items():
    p = subprocess.Popen(["slowhttptest", *mode.split(), "-c", "200", "-r", "100", "-i", "3", "-l", "8", "-p", "5", "-u", "http://plain.test/big"],
                         stdout=open("/tmp/said", "w"), stderr=subprocess.STDOUT)
    kept = connect("sse.test"); k = kept.makefile("rb"); bad, asked = [], 0
    while p.poll() is None:
        s = connect("sse.test"); f = s.makefile("rb")
        for status, body in (get(f, s, b"GET /x", "sse.test"), get(k, kept, b"GET /x", "sse.test")):
            asked += 1
            if (status, body) != ("200", "ok"): bad.append(status)
        s.close()
    said = open("/tmp/said").read()
    print(name, "|", "Hit test time limit" in said or "No open connections left" in said, asked > 20, len(bad), "|", asked, repr(said[-600:]), flush=True)
""")
    lines = [l.split(" | ") for l in run.out.splitlines()]
    b.check([l[:2] for l in lines] == [[name, "True True 0"] for name in MODES], "every one of the others is answered", run.out, run.err)
    b.check(not run.records("worker_lost"), "by one worker")
    run.verify()


b.main(b.cases(globals()))
