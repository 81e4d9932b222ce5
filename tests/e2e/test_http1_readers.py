"""What is passed on is read in one way: requests, valid and odd, that go through the gateway are read by nginx and by node
as they were written, and as the record says. They are drawn from the fuzz corpus and from a grammar (SEED in the
environment chooses others), some with a byte or two changed in them.

A reader may refuse what another takes. It may not see another request: another method, target, field, body; nor two."""

import collections
import glob
import hashlib
import json
import os
import random
import re
import subprocess
import threading

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: readers, hosts: [raw.test, nginx.test, node.test], protocol: http}
"""
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../fuzz/fuzz_http1_request.in")
DRAWN = 300
READERS = ("raw.test", "nginx.test", "node.test")
# Between two neighbours, and not of the message; or the same in other words.
NOT_COMPARED = {"connection", "te", "expect", "content-length", "transfer-encoding", "keep-alive", "upgrade"}

CLIENT = r"""
import json, socket, sys
for name in sys.argv[2:]:
    for data in json.load(open(sys.argv[1])):
        s = socket.create_connection((name, 80), timeout=60)
        try:
            s.sendall(data.encode("latin-1").replace(b"HOST", name.encode()))
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536): pass
        except OSError: pass
        s.close()
print("done")
"""

NODE = r"""
const fs = require('fs'), http = require('http'), crypto = require('crypto');
http.createServer((q, a) => {
  const parts = [];
  q.on('data', d => parts.push(d));
  q.on('end', () => {
    fs.appendFileSync(process.argv[2], JSON.stringify({ method: q.method, target: q.url, fields: q.rawHeaders, trailers: q.rawTrailers,
      body: crypto.createHash('sha256').update(Buffer.concat(parts)).digest('hex') }) + '\n');
    a.end('ok');
  });
}).listen(80, '203.0.113.12', () => fs.appendFileSync(process.argv[2], ''));
"""

Seen = collections.namedtuple("Seen", "method target host fields body trailers")


# ---- what is sent ----

ODD_NAMES = ("X-A", "x-!#$%&'*+-.^_`|~", "X_Under", "x.dot", "1x", "Cookie", "Accept", "X-A", "Via", "Forwarded", "Content-Type", "Range")
ODD_VALUES = ("", "a", " a", "a  ", "\ta\t", "a b", "a\tb", "a,b", ", ,", "\"q\\\"uoted\"", "\x80\xff", "a:b", ":", "=", "'", "GET / HTTP/1.1", "x" * 2000)
ODD_TARGETS = ("/", "/a", "//", "/a//b", "/a/./b", "/%41", "/%2e%2e/x", "/a;b=c", "/a,b", "/?", "/??a", "/a?b=c?d=e&f", "/'(x)*!~", "/a:b@c", "/[x]", "/a|b",
               "/%00", "/\\x", "/a\"b", "/{x}", "http://HOST/abs?x=y", "http://HOST", "HTTP://HOST:80/port", "*", "a/b", "/a^b`", "/<x>")
METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "PROPFIND", "M-SEARCH", "get", "PURGE", "X!")
ODD_BYTES = ("\r", "\n", "\r\n", "\t", "\0", " ", ":", ",", ";", "\x0b", "\x0c", "\x7f", "\x80", "\x85", "\xa0", "0", "-", "\"", "#", "\r\n ", "\r\n\r\n")


def _chunks(draw, body):
    out = ""
    while body:
        n = draw.randint(1, len(body))
        size = draw.choice(("%x", "%X", "0%x", "%x;a", "%x;a=b", "%x ; a=\"b;c\""))
        out += size % n + "\r\n" + body[:n] + "\r\n"
        body = body[n:]
    return out + draw.choice(("0\r\n\r\n", "0\r\n\r\n", "000;last\r\n\r\n", "0\r\nX-Trailer: t\r\nx-other:  u \r\n\r\n"))


def _drawn(draw):
    method, target = draw.choice(METHODS), draw.choice(ODD_TARGETS)
    fields = [(draw.choice(ODD_NAMES), draw.choice(ODD_VALUES)) for _ in range(draw.randint(0, 5))]
    body = "".join(draw.choice("ab\r\n0G \xff") for _ in range(draw.randint(0, 200)))
    kind = draw.choice(("none", "none", "length", "chunked"))
    tail = "" if kind == "none" else body if kind == "length" else _chunks(draw, body)
    if kind == "length":
        fields.append((draw.choice(("Content-Length", "content-length")), draw.choice(("%d", " %d ", "%d", "00%d")) % len(body)))
    if kind == "chunked":
        fields.append(("Transfer-Encoding", draw.choice(("chunked", "Chunked", " chunked "))))
    draw.shuffle(fields)
    rest = "".join(f"{name}:{draw.choice(('', ' '))}{value}\r\n" for name, value in fields) + "\r\n" + tail
    return f"{method} {target} HTTP/1.1\r\nHost: HOST\r\n", rest


def _from_corpus(text):
    head, _, rest = text.partition("\r\n")
    return head.replace("a.test", "HOST") + "\r\nHost: HOST\r\n", re.sub(r"(?im)^host:[^\r\n]*\r\n", "", rest, count=1)


def _changed(draw, text):
    for _ in range(draw.randint(1, 2)):
        at = draw.randint(0, max(0, min(len(text), 400) - 1))
        text = text[:at] + draw.choice(ODD_BYTES) + text[at + draw.randint(0, 1):]
    return text


def _requests(seed):
    """Each with its number in a field of its own, that nothing is changed in."""
    draw, pairs = random.Random(seed), []
    for path in sorted(glob.glob(CORPUS + "/*")):
        with open(path, "rb") as f:
            pairs.append(_from_corpus(f.read()[1:].decode("latin-1")))
    pairs += [_drawn(draw) for _ in range(DRAWN)]
    changed = [(first, _changed(draw, rest)) if draw.random() < 0.8 else (_changed(draw, first), rest) for first, rest in pairs]
    return [first + f"X-Case: {n}\r\n" + rest for n, (first, rest) in enumerate(pairs + changed)]


# ---- what is seen ----

def _seen(method, target, fields, body, trailers=()):
    """(number of the case, what a reader saw)."""
    value = lambda name: [v.strip(" \t") for k, v in fields if k.lower() == name]
    kept = sorted((k.lower(), v.strip(" \t")) for k, v in fields if k.lower() not in NOT_COMPARED | {"host"})
    return value("x-case"), Seen(method, target, value("host"), kept, body, sorted((k.lower(), v.strip(" \t")) for k, v in trailers))


def _read_lines(f):
    lines = []
    while (line := f.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1")[:-2].partition(":")
        lines.append((name, value))
    return lines


def _recorder(bed, name):
    """An origin that takes requests apart at their CRLFs and nothing else, and keeps what it saw."""
    def handler(s, _origin):
        f = s.makefile("rb")
        while line := f.readline():
            method, target, _ = line.decode("latin-1").split(" ")
            fields = _read_lines(f)
            get = dict((k.lower(), v.strip()) for k, v in fields)
            body, trailers = b"", []
            if "transfer-encoding" in get:
                while size := int(f.readline(), 16):
                    body += f.read(size)
                    if f.readline() != b"\r\n":
                        raise ValueError("cut off")
                trailers = _read_lines(f)
            else:
                body = f.read(int(get.get("content-length", 0)))
                if len(body) < int(get.get("content-length", 0)):
                    raise ValueError("cut off")
            with bed.lock:
                bed.seen[name].append(_seen(method, target, fields, _hash(body), trailers))
            s.sendall(b.answer(200, "" if method == "HEAD" else "ok"))
    return handler


def _hash(body):
    return hashlib.sha256(body).hexdigest()


def _origins(bed):
    bed.dns.zone.update({name: [f"203.0.113.{10 + i}"] for i, name in enumerate(READERS)})
    bed.lock, bed.seen = threading.Lock(), {"raw.test": [], "nginx.test": []}
    b.Origin(bed, _recorder(bed, "raw.test"), address="203.0.113.10", port=80)
    b.Origin(bed, _recorder(bed, "nginx.test"), address="203.0.113.13", port=8080)   # behind nginx
    os.chmod(bed.dir, 0o755)
    conf = bed.write("nginx.conf", f"""
        worker_processes 1; pid {bed.path('nginx.pid')}; error_log {bed.path('nginx.err')}; user root; events {{}}
        http {{ access_log off; client_body_temp_path {bed.path('nb')}; proxy_temp_path {bed.path('np')};
          fastcgi_temp_path {bed.path('nf')}; uwsgi_temp_path {bed.path('nu')}; scgi_temp_path {bed.path('ns')};
          ignore_invalid_headers off; underscores_in_headers on;
          server {{ listen 203.0.113.11:80; location / {{ proxy_pass http://203.0.113.13:8080; proxy_http_version 1.1;
            proxy_set_header Host $http_host; }} }} }}""")
    inside = ["setpriv", "--pdeathsig", "TERM", "nsenter", f"--net=/proc/{bed.holder.pid}/ns/net"]
    nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    bed.nginx = subprocess.Popen(inside + ["nginx", "-g", "daemon off;", "-c", conf], **nothing)
    bed.node = subprocess.Popen(inside + ["node", bed.write("server.js", NODE), bed.path("node.seen")], **nothing)
    b.wait_until("nginx", lambda: os.path.exists(bed.path("nginx.pid")) and os.path.getsize(bed.path("nginx.pid")))
    b.wait_until("node", lambda: os.path.exists(bed.path("node.seen")))


def _node_saw(bed):
    pairs = lambda flat: list(zip(flat[0::2], flat[1::2]))
    with open(bed.path("node.seen"), encoding="utf-8") as f:
        found = [json.loads(line) for line in f]
    return [_seen(x["method"], x["target"], pairs(x["fields"]), x["body"], pairs(x["trailers"])) for x in found]


def _by_case(name, seen):
    """What a reader saw of each case: once, and nothing that is no case."""
    cases = {}
    for numbers, what in seen:
        b.check(len(numbers) == 1, f"{name}: every request that is seen was sent", numbers, what)
        n = int(numbers[0])
        b.check(n not in cases, f"{name}: none is seen twice", n, cases.get(n), what)
        cases[n] = what._replace(host=[h.lower() for h in what.host] == [name])
    return cases


def nginx_and_node_read_what_the_engine_meant(bed):
    seed = int(os.environ.get("SEED", "1"))
    sent = _requests(seed)
    _origins(bed)
    os.mkdir(bed.path("work"))
    bed.write("work/requests.json", json.dumps(sent))
    os.chmod(bed.path("work"), 0o755)
    run = bed.run(["python3", "-c", CLIENT, "/workspace/requests.json", *READERS], POLICY, options=["--workspace", bed.path("work")], timeout=300)
    b.check(run.out == "done\n", "all were sent", run.out, run.err)
    saw = {name: _by_case(name, seen) for name, seen in (*bed.seen.items(), ("node.test", _node_saw(bed)))}
    raw = saw["raw.test"]
    for name in READERS[1:]:
        b.check(set(saw[name]) <= set(raw), f"{name}: sees only what was let through", set(saw[name]) - set(raw))
        for n, what in saw[name].items():
            want = raw[n] if name == "node.test" else raw[n]._replace(trailers=[])     # nginx drops them
            b.check(what == want, f"seed {seed}, case {n}: {name} reads it as it was written", sent[n], what, want)
    recorded = [(r["method"], r["path"]) for r in run.records("request", host="raw.test", phase="end", verdict="allow", status=200)]
    b.check(recorded == [(raw[n].method, raw[n].target.partition("?")[0]) for n in sorted(raw)], "the record says the same")
    print(f"      of {len(sent)} requests {len(raw)} were let through, of these nginx took {len(saw['nginx.test'])}, node {len(saw['node.test'])}")
    b.check(all(len(seen) > len(sent) // 5 for seen in saw.values()), "enough to say so", {name: len(seen) for name, seen in saw.items()})


b.main(b.cases(globals()))
