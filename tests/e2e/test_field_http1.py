"""HTTP/1 as the field breaks it: what other proxies were found to do wrong, each a case of its own.

Cases that are tests elsewhere already (t: tests/e2e/test_*.py; unit tests beside them in tests/unit/proxy):
  F68 Expect             http1: expect 100 continue never hangs; engine_http1: final answer to an expectation ...
  F70 interim answers    http1: interim answers are not the final one; here: in any number and apart
  F71 no body            http1: answers without a body keep their fields; here: with framing that does not fit
  F72 smuggling          http1: smuggling is 400 and nothing goes upstream; here: the other spellings, and the log
  F74 F144 chunks        test_http1.c has every form; here: both ways through the gateway
  F75 data and close     http1: a close delimited answer arrives whole; here: small, often, and read late
  F77 stale upstreams    here; engine_http1: get on a dying upstream is retried and post is not
  F78 uploads            http1: uploads of every size, an early answer ...; engine_http1: large upload to a slow origin
  F80 framing kept       here, with a credential
  F82 cut requests       http1: a truncated request is never made whole; here: chunks, and what the record says
  F83 rules everywhere   rules: a rule for methods and paths holds on every port and protocol
  F85 dead origins       http1: a cut off answer ...; endurance: an origin may reset at every stage; here: one that swallows
  F87 refusals end       tls: a refusal never hangs; refusals: a refused host port and literal are refused at once
  F89 load               http1: a thousand connections ...; endurance: two thousand connections; here: idle ones, descriptors
  F90 odd answers        http1: malformed answers are 502; here: too many, too early
  F139 rotating names    rules: a name whose addresses change all the time is always reached
  F141 F142 addresses    dns_hostile: an old address is not used for ever, a stalled first address is given up
  F147 literals          clients_curl: a connection to another address or name is refused; tls: no sni and foreign sni ...
"""

import os
import socket
import ssl
import struct

import bed as b
import told

TOKEN = "tok-field-77aa31c95e"
POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  key: {kind: bearer, secret: token, hosts: [key.test]}
allow:
  - {id: api, hosts: [api.test]}
  - {id: free, hosts: [free.test]}
  - {id: key, hosts: [key.test], credential: key}
  - {id: hole, hosts: [hole.test]}
"""
SECRETS = {"token": (TOKEN, ["key.test"])}
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"

def _scripted(s, origin):
    """Does as origin.scripts says for a path; others are echoed."""
    f = s.makefile("rb")
    while True:
        request = b.read_request(f, read_body=False)
        if request is None:
            return
        with origin.lock:
            origin.requests.append(request)
        step = origin.scripts.get(request.target)
        if isinstance(step, bytes):
            s.sendall(step)
        elif step:
            if step(s, f, request) is not True:
                return
        else:
            request.body = f.read(int(request.get("content-length") or 0))
            if request.get("transfer-encoding"):
                request.body = _chunks(f)
            s.sendall(b.echo(request, origin))


def _chunks(f):
    body = b""
    while True:
        size = int(f.readline().split(b";")[0], 16)
        body += f.read(size)
        if size == 0:
            while f.readline() not in (b"\r\n", b""):
                pass
            return body
        f.readline()


def _origins(bed, scripts=None):
    bed.dns.zone.update({"api.test": ["203.0.113.10"], "free.test": ["203.0.113.11"], "key.test": ["203.0.113.12"]})
    if not hasattr(bed, "origin"):
        bed.told = told.Told()
        bed.origin = b.Origin(bed, _scripted, cert=bed.cert("api.test"))
        bed.free = b.Origin(bed, b.http(told.aside), address="203.0.113.11", cert=bed.cert("free.test"))
        bed.key = b.Origin(bed, _scripted, address="203.0.113.12", cert=bed.cert("key.test"))
        bed.free.told = bed.told
        bed.key.scripts = {}
    bed.origin.scripts = scripts or {}
    bed.origin.requests.clear()
    bed.origin.connections = 0
    bed.told.events.clear()


def _start(bed, code, **more):
    return bed.start(["python3", "-c", told.CLIENT + code], POLICY, secrets=SECRETS, **more)


def _client(bed, code, **more):
    return _start(bed, code, **more).wait()


def interim_answers_in_any_number_and_apart_do_not_shift_the_next_answer(bed):
    """F70"""
    def apart(s, _f, _request):
        for i, line in enumerate((b"102 Processing", b"103 Early Hints", b"103 Early Hints", b"100 Continue")):
            s.sendall(b"HTTP/1.1 " + line + b"\r\nx-n: %d\r\n\r\n" % i)
            bed.told.after(f"interim{i}")
        s.sendall(OK + b"content-length: 5\r\n\r\n")
        bed.told.after("head")
        s.sendall(b"final")
        return True
    _origins(bed, {"/apart": apart, "/at-once": b"HTTP/1.1 100 Continue\r\n\r\n" * 10 + OK + b"content-length: 7\r\n\r\nat once"})
    run = _client(bed, r"""
s = connect(); f = s.makefile("rb")
s.sendall(b"GET /apart HTTP/1.1\r\nHost: api.test\r\n\r\n")
for i in range(4):
    h = head(f); print(h[9:12].decode(), (b"x-n: %d" % i) in h); tell("interim%d" % i)
h = head(f); print(h[9:12].decode()); tell("head"); print(f.read(5).decode())
print(*get(f, s, b"GET /at-once")); print(get(f, s, b"GET /next")[0])
""")
    b.check(run.out.splitlines() == ["102 True", "103 True", "103 True", "100 True", "200", "final", "200 at once", "200"],
            "each as it was sent, and no answer is another's", run.out, run.err)


def framing_that_does_not_fit_a_bodyless_answer_shifts_nothing(bed):
    """F71"""
    _origins(bed, {
        "/304-coded": b"HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\netag: \"a\"\r\n\r\n",
        "/204-length": b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n",
        "/205": b"HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n",
        "/head-coded": OK + b"transfer-encoding: chunked\r\n\r\n",
    })
    run = _client(bed, r"""
s = connect(); f = s.makefile("rb")
for line in (b"GET /304-coded", b"GET /204-length", b"GET /205", b"HEAD /head-coded"):
    print(line.decode(), *get(f, s, line)); status, body = get(f, s, b"GET /next"); print("next", status, "/next" in body)
""")
    lines = run.out.splitlines()
    b.check([l.strip() for l in lines[0::2]] == ["GET /304-coded 304", "GET /204-length 204", "GET /205 205", "HEAD /head-coded 200"]
            and lines[1::2] == ["next 200 True"] * 4, "no body, no wait, and the next answer is right", run.out, run.err)


POST = b"POST /v HTTP/1.1\r\nHost: api.test\r\n"
END = b"\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"
SPELLINGS = {
    "two equal lengths": POST + b"Content-Length: 0\r\nContent-Length: 0\r\n" + END,
    "a length in a list": POST + b"Content-Length: 0, 0\r\n" + END,
    "an empty length": POST + b"Content-Length:\r\n" + END,
    "a negative length": POST + b"Content-Length: -1\r\n" + END,
    "a length with a space in it": POST + b"Content-Length: 1 0\r\n" + END,
    "a length of twenty digits": POST + b"Content-Length: 18446744073709551617\r\n" + END,
    "a length by underscore": POST + b"Content-Length: 1_0\r\n" + END,
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n" + END,
    "a tab before the colon": POST + b"Transfer-Encoding\t: chunked\r\n" + END,
    "a vertical tab before the value": POST + b"Transfer-Encoding: \x0bchunked\r\n" + END,
    "a form feed after the value": POST + b"Transfer-Encoding: chunked\x0c\r\n" + END,
    "chunked twice in one field": POST + b"Transfer-Encoding: chunked, chunked\r\n" + END,
    "chunked in two fields": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + END,
    "chunked, then identity": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n" + END,
    "identity, then chunked": POST + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n" + END,
    "chunked with a comma": POST + b"Transfer-Encoding: chunked,\r\n" + END,
    "chunked in quotes": POST + b"Transfer-Encoding: 'chunked'\r\n" + END,
    "chunked with a NUL": POST + b"Transfer-Encoding: chunked\0\r\n" + END,
    "a folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\n" + END,
    "a coding behind a bare CR": POST + b"X: y\rTransfer-Encoding: chunked\r\n" + END,
    "a coding behind a bare LF": POST + b"X: y\nTransfer-Encoding: chunked\r\n" + END,
    "a field without a name": POST + b": chunked\r\n" + END,
    "a line without a colon": POST + b"Transfer-Encoding chunked\r\n" + END,
    "a folded first line": b"POST /v HTTP/1.1\r\n Host: api.test\r\nHost: api.test\r\n" + END,
    "a byte above ASCII in a name": POST + b"Transfer-\xc4ncoding: chunked\r\n" + END,
    "length and coding": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n" + END,
    "coding and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n" + END,
    "a coding in HTTP/1.0": POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n" + END,
    "two spaces in the first line": b"POST  /v HTTP/1.1\r\nHost: api.test\r\n" + END,
    "a tab in the first line": b"POST /v\tHTTP/1.1\r\nHost: api.test\r\n" + END,
    "an unknown version": b"POST /v HTTP/1.2\r\nHost: api.test\r\n" + END,
    "a version without its dot": b"POST /v HTTP/11\r\nHost: api.test\r\n" + END,
    "a lower-case version": b"POST /v http/1.1\r\nHost: api.test\r\n" + END,
    "a fragment in the target": b"GET /v#x HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n",
    "a Host with a space": b"GET /v HTTP/1.1\r\nHost: api.test x\r\nConnection: close\r\n\r\n",
    "a list of Hosts": b"GET /v HTTP/1.1\r\nHost: api.test, api.test\r\nConnection: close\r\n\r\n",
    "another Host in the target": b"GET http://free.test/v HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n",
}


def every_spelling_that_smuggles_is_refused_once_and_on_record(bed):
    """F72"""
    _origins(bed)
    run = _client(bed, f"spellings = {SPELLINGS!r}\n" + r"""
for name, data in spellings.items():
    s = connect(); s.sendall(data); got, how = to_end(s)
    print(name, "|", got[9:12].decode(), "|", got.count(b"HTTP/1.1 "), "|", how, flush=True)
""")
    lines = [l.split(" | ") for l in run.out.splitlines()]
    b.check([l[0] for l in lines] == list(SPELLINGS), "each answered", run.out, run.err)
    for name, status, count, how in lines:
        b.check(status in ("400", "421", "501", "505") and count == "1" and how == "closed", f"{name}: one refusal, and closed", status, count, how)
    b.check(not bed.origin.requests and bed.origin.connections == 0, "nothing went up", [r.target for r in bed.origin.requests])
    told = [r for r in run.records("request") if r["verdict"] == "deny"]
    b.check(sum(r.get("count", 1) for r in told) == len(SPELLINGS) and all(r.get("reason") or "count" in r for r in told),
            "each on record with its reason", told)


SIZES = {  # what follows the head: (as chunks of "hello", is it whole?)
    "an extension": (b"5;a=b\r\nhello\r\n0\r\n\r\n", True),
    "whitespace before an extension": (b"5 ;x\r\nhello\r\n0\r\n\r\n", True),
    "a quoted extension": (b"5;a=\"b;\\\"c\"\r\nhello\r\n0;z\r\n\r\n", True),
    "sixteen digits": (b"0000000000000005\r\nhello\r\n0\r\n\r\n", True),
    "capitals and pieces": (b"1\r\nh\r\n0004\r\nello\r\n000\r\n\r\n", True),
    "a trailer": (b"5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n", True),
    "a tab after the size": (b"5\t\r\nhello\r\n0\r\n\r\n", False),
    "seventeen digits": (b"00000000000000005\r\nhello\r\n0\r\n\r\n", False),
    "a size of 2^64": (b"10000000000000005\r\nhello\r\n0\r\n\r\n", False),
    "minus": (b"-5\r\nhello\r\n0\r\n\r\n", False),
    "0x": (b"0x5\r\nhello\r\n0\r\n\r\n", False),
    "an empty size": (b"\r\nhello\r\n0\r\n\r\n", False),
    "lines by LF": (b"5\nhello\n0\n\n", False),
    "TERM.EXT": (b"5;\nxx\r\nhello\r\n0\r\n\r\n", False),
    "EXT.TERM": (b"5;a\rb\r\nhello\r\n0\r\n\r\n", False),
    "TERM.SPILL": (b"5\r\nhello0\r\n\r\n", False),
    "SPILL.TERM": (b"5\r\nhello\n0\r\n\r\n", False),
    "an extension of 64 KiB": (b"5;" + b"e" * 65536 + b"\r\nhello\r\n0\r\n\r\n", False),
    "Content-Length in a trailer": (b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", False),
    "Transfer-Encoding in a trailer": (b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n", False),
}


def chunks_in_a_request_are_whole_or_refused(bed):
    """F74, F144"""
    _origins(bed)
    run = _client(bed, f"sizes = {SIZES!r}\n" + r"""
for name, (data, _) in sizes.items():
    s = connect(); s.sendall(b"POST /c HTTP/1.1\r\nHost: api.test\r\nX-Case: " + name.encode())
    s.sendall(b"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + data)
    print(name, "|", to_end(s)[0][9:12].decode())
""")
    lines = dict(l.split(" | ") for l in run.out.splitlines())
    b.check(list(lines) == list(SIZES), "each answered", run.out, run.err)
    for name, (_, whole) in SIZES.items():
        b.check(lines[name] == ("200" if whole else "400"), f"{name}: {'passes' if whole else 'refused'}", lines[name])
        got = [r.body for r in bed.origin.requests if r.get("x-case") == name]
        b.check(got == [b"hello"] if whole else all(body != b"hello" for body in got), f"{name}: at the origin", got)


def chunks_in_an_answer_are_whole_or_seen_to_break(bed):
    """F74, F144"""
    def closing(data):
        def step(s, _f, _request):
            s.sendall(CHUNKED + data)
            return False
        return step
    _origins(bed, {f"/{i}": closing(data) for i, (data, _) in enumerate([*SIZES.values(), (b"5\r\nhello\r\n0\r\n", False)])})
    run = _client(bed, f"n = {len(SIZES) + 1}\n" + r"""
for i in range(n):
    s = connect(); s.sendall(b"GET /%d HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n" % i)
    got, how = to_end(s)
    hello = b"hello" in got.replace(b"1\r\nh\r\n4\r\nello", b"hello")
    print(got.endswith(b"\r\n\r\n") and b"\r\n0\r\n" in got and how == "closed", hello, b";" in got, got[9:12].decode())
""")
    lines = [l.split() for l in run.out.splitlines()]
    for (name, (_, whole)), line in zip([*SIZES.items(), ("no last CRLF", (b"", False))], lines, strict=True):
        b.check(line[0] == str(whole) and line[2] == "False", f"{name}: {'whole' if whole else 'no clean end'}, without extensions", line)
        b.check(not whole or line[1] == "True", f"{name}: its body", line)


def every_byte_before_a_close_arrives_however_late_it_is_read(bed):
    """F75"""
    def gone(size, name):
        def step(s, _f, _request):
            s.sendall(OK + b"connection: close\r\n\r\n" + b"Z" * size)
            s.unwrap()
            s.close()
            bed.told.tell(name)
            return False
        return step
    _origins(bed, {"/small": gone(7728, "small"), "/large": gone(300000, "large"), "/huge": gone(5_000_000, "huge")})
    run = _client(bed, r"""
sizes = set()
for _ in range(200):
    s = connect(); s.sendall(b"GET /small HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
    got, how = to_end(s); sizes.add((got.count(b"Z"), how, got.endswith(b"\r\n0\r\n\r\n")))
print(*sizes)
s = connect(); s.sendall(b"GET /large HTTP/1.0\r\nHost: api.test\r\n\r\n")
after("large")
got, how = to_end(s); print(len(got.partition(b"\r\n\r\n")[2]), how)
s = connect(); s.sendall(b"GET /huge HTTP/1.0\r\nHost: api.test\r\n\r\n")
got = b""
while more := s.recv(900): got += more
print(len(got.partition(b"\r\n\r\n")[2]))
""")
    lines = run.out.splitlines()
    b.check(lines[0] == "(7728, 'closed', True)", "two hundred times the same", run.out, run.err)
    b.check(lines[1] == "300000 closed", "read only when the origin was gone", lines)
    b.check(lines[2] == "5000000", "read in crumbs", lines)


def a_kept_connection_that_died_costs_no_request(bed):
    """F77: the origin closes after each answer, in three ways; the next request comes when it has."""
    half_closed = []

    def dying(how, name):
        def step(s, f, request):
            f.read(int(request.get("content-length") or 0))
            s.sendall(OK + b"content-length: 2\r\n\r\nok")
            bed.told.after(f"{name}-got")
            if how == "rst":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if how == "notify":
                s.setblocking(False)
                try:
                    s.unwrap()
                except ssl.SSLWantReadError:
                    pass    # it is sent; the other side's is not waited for, and TCP stays open
            raw = socket.socket(fileno=s.detach())
            if how == "notify":
                half_closed.append(raw)
            else:
                raw.close()
            bed.told.tell(f"{name}-dead")
            return False
        return step
    _origins(bed, {f"/{how}{i}": dying(how, f"{how}{i}") for how in ("fin", "rst", "notify") for i in range(3)})
    run = _client(bed, r"""
for how in ("fin", "rst", "notify"):
    for i, (line, body) in enumerate(((b"GET /next", b""), (b"POST /next", b"hello"), (b"DELETE /next", b""))):
        s = connect(); f = s.makefile("rb")
        first = get(f, s, b"GET /%s%d" % (how.encode(), i))
        tell(f"{how}{i}-got"); after(f"{how}{i}-dead")
        print(how, line.decode(), *first, get(f, s, line, more=b"Content-Length: %d\r\n" % len(body), body=body)[0])
""")
    b.check([l.split()[3:] for l in run.out.splitlines()] == [["200", "ok", "200"]] * 9, "each on a new connection", run.out, run.err)
    b.check(len([r for r in bed.origin.requests if r.target == "/next"]) == 9, "and once", [r.target for r in bed.origin.requests])


def a_credential_changes_no_framing(bed):
    """F80"""
    _origins(bed)
    bed.key.requests.clear()
    run = _client(bed, r"""
s = connect("key.test"); f = s.makefile("rb")
print(get(f, s, b"POST /a", "key.test", b"Content-Length: 5\r\n", b"hello")[0])
print(get(f, s, b"POST /b", "key.test", b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n")[0])
print(get(f, s, b"PUT /c", "key.test", b"Content-Length: 0\r\n")[0], get(f, s, b"GET /d", "key.test")[0])
s = connect("key.test"); s.sendall(b"POST /e HTTP/1.0\r\nHost: key.test\r\nContent-Length: 5\r\n\r\nhello"); print(to_end(s)[0][9:12].decode())
""")
    b.check(run.out.split() == ["200"] * 5, "all answered", run.out, run.err)
    framing = [(r.target, r.get("content-length"), r.get("transfer-encoding"), r.body) for r in bed.key.requests]
    b.check(framing == [("/a", "5", None, b"hello"), ("/b", None, "chunked", b"hello"), ("/c", "0", None, b""), ("/d", None, None, b""),
                        ("/e", "5", None, b"hello")], "as it came", framing)
    b.check(all(r.get("authorization") == f"Bearer {TOKEN}" for r in bed.key.requests), "with the credential")


def chunks_that_break_off_are_never_a_whole_request_and_on_record(bed):
    """F82"""
    seen = {}

    def count(s, f, request):
        seen[request.target] = b""
        try:
            while more := f.read1(65536):
                seen[request.target] += more
        except OSError:
            pass
        bed.told.tell(request.target)
        return False
    _origins(bed, {path: count for path in ("/fin", "/rst", "/fin-chunked", "/rst-chunked")})
    run = _client(bed, r"""
for path, more, body in ((b"", b"Content-Length: 1007\r\n", b"x" * 300), (b"-chunked", b"Transfer-Encoding: chunked\r\n", b"12c\r\n" + b"x" * 300 + b"\r\n")):
    for end in (b"fin", b"rst"):
        s = connect(); s.sendall(b"POST /" + end + path + b" HTTP/1.1\r\nHost: api.test\r\n" + more + b"\r\n" + body)
        if end == b"rst": s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
""")
    for path in ("/fin", "/rst", "/fin-chunked", "/rst-chunked"):
        if path in seen:    # the reset can overtake what was sent before it
            bed.told.after(path)
            b.check(b"0\r\n\r\n" not in seen[path] and len(seen[path]) < 400, f"{path}: the origin sees no end", seen[path])
        b.check(all("client" in r.get("ended", "") for r in run.records("request", path=path, phase="end")), f"{path}: whose fault", run.records("request"))
    b.check(len(run.records("request", path="/fin", phase="end")) == 1 and len(run.records("request", path="/fin-chunked", phase="end")) == 1,
            "on record", run.records("request"), run.err)


def an_address_that_swallows_everything_is_a_504_in_time(bed):
    """F85"""
    _origins(bed)
    bed.dns.zone["hole.test"] = ["203.0.113.77"]
    b.sh("ip", "neigh", "replace", "203.0.113.77", "lladdr", "02:00:00:00:00:77", "dev", "up0", "nud", "permanent")
    run = bed.run("curl -sS -m 60 -i -w '%{time_total}' https://hole.test/", POLICY, secrets=SECRETS)
    b.check(" 504 " in run.out and "connection_timeout" in run.out and 9 < float(run.out.rsplit("}", 1)[1]) < 30, "in words, after ten seconds",
            run.out, run.err)
    b.check("203.0.113.77" in run.record("request", host="hole.test", phase="end")["reason"], "and on record", run.records("request"))


def _descriptors(run):
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid, (_, name) in run.family().items() if name == "exeat-worker")


def a_thousand_connections_and_five_hundred_idle_ones_leave_nothing(bed):
    """F89"""
    _origins(bed)
    run = _start(bed, r"""
def one():
    s = connect(); f = s.makefile("rb"); status = get(f, s, b"GET /x")[0]; return s, status
one()[0].close(); tell("first"); after("counted")
bad = 0
for _ in range(1000):
    s, status = one(); bad += status != "200"; s.close()
idle = [one() for _ in range(500)]
print(bad, sum(status != "200" for _, status in idle), one()[1]); tell("held"); after("held-counted")
for s, _ in idle: s.close()
tell("closed"); after("end")
""")
    bed.told.after("first")
    before = _descriptors(run)
    bed.told.tell("counted")
    b.wait_until("a thousand and five hundred", lambda: bed.told.event("held").is_set() or run.process.poll() is not None, 300)
    held = _descriptors(run)
    bed.told.tell("held-counted")
    bed.told.after("closed")
    b.wait_until("the descriptors to be closed", lambda: _descriptors(run) <= before + 4)
    bed.told.tell("end")
    run.wait()
    b.check(run.out.strip() == "0 0 200" and held >= 500, "every one was served", run.out, run.err, held)


def answers_too_many_or_too_early_are_nobody_elses(bed):
    """F90"""
    lines = b"".join(b"x-%d: y\r\n" % i for i in range(200))
    _origins(bed, {
        "/two": OK + b"content-length: 3\r\n\r\none" + OK + b"content-length: 6\r\n\r\nsecond",
        "/lines": OK + lines + b"content-length: 2\r\n\r\nok",
        "/line": OK + b"x-a: " + b"b" * 65536 + b"\r\ncontent-length: 2\r\n\r\nok",
        "/0.9": b"<html>hello</html>\n",
    })
    bed.dns.zone["hole.test"] = ["203.0.113.13"]

    def early(s, origin):
        s.sendall((OK + b"content-length: 5\r\n\r\nearly") * 2)
        _scripted(s, origin)
    eager = b.Origin(bed, early, address="203.0.113.13", cert=bed.cert("hole.test"))
    eager.scripts = {}
    run = _client(bed, r"""
s = connect(); f = s.makefile("rb")
print(*get(f, s, b"GET /two"))
status, body = get(f, s, b"GET /next"); print(status, "/next" in body)
print(*get(f, s, b"GET /lines"))
for path in (b"/line", b"/0.9"): s = connect(); f = s.makefile("rb"); print(get(f, s, b"GET " + path)[0])
s = connect("hole.test"); f = s.makefile("rb")
print(*[get(f, s, b"GET /early%d" % i, "hole.test")[1] for i in range(2)])
""")
    lines = run.out.splitlines()
    b.check(lines[:5] == ["200 one", "200 True", "200 ok", "502", "502"], "the second answer goes to nobody, limits are 502", run.out, run.err)
    b.check(lines[5] == "early early" and eager.connections == 2, "what was left over is read by nobody", lines, eager.connections)
    eager.close()


b.main(b.cases(globals()))
