"""Origins that speak HTTP/2 (RFC 9113), real ones: node, nginx, nghttpd. A box that speaks HTTP/1.1 reaches them; what
their answers mean stays what it was."""

import hashlib
import json
import os
import subprocess

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  token: {kind: bearer, secret: token, hosts: [h2.test]}
allow:
  - {id: h2, hosts: [h2.test], credential: token}
  - {id: free, hosts: [free.test, nginx.test, nghttpd.test, two.test]}
"""
SECRET = "s3cr3t-of-the-origin"
HERE = os.path.dirname(os.path.abspath(__file__))


def _setup(bed):
    if hasattr(bed, "h2"):
        return
    for name, last in (("h2.test", 10), ("free.test", 10), ("nginx.test", 11), ("nghttpd.test", 12), ("two.test", 13)):
        bed.dns.zone[name] = [f"203.0.113.{last}"]
    cert, key = bed.cert("h2.test", "free.test", "nginx.test", "nghttpd.test", "two.test")
    bed.h2 = [_start(bed, "node", os.path.join(HERE, "programs", "h2_origin.js"), cert, key, "203.0.113.10"),
              _start(bed, "node", os.path.join(HERE, "programs", "h2_origin.js"), cert, key, "203.0.113.13", "h1")]
    os.mkdir(bed.path("root"))
    bed.write("root/file", "from a file\n" * 1000)
    conf = bed.write("h2.conf", f"""
        worker_processes 1; pid {bed.path('h2.pid')}; error_log {bed.path('h2.err')}; user root;
        events {{ worker_connections 512; }}
        http {{ access_log {bed.path('h2.log')}; keepalive_requests 3;
                server {{ listen 203.0.113.11:443 ssl http2; ssl_certificate {cert}; ssl_certificate_key {key};
                          root {bed.path('root')}; }} }}""")
    bed.h2.append(_start(bed, "nginx", "-c", conf, "-g", "daemon off;", ready=False))
    bed.h2.append(_start(bed, "nghttpd", "-a", "203.0.113.12", "-d", bed.path("root"), "443", key, cert, ready=False))
    for last in (11, 12):
        b.wait_until("the origin listens", lambda last=last: _listens(bed, f"203.0.113.{last}"))


def _listens(bed, address):
    import socket
    try:
        bed.in_internet(lambda: socket.create_connection((address, 443), 1)).close()
        return True
    except OSError:
        return False


def _start(bed, *command, ready=True):
    p = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "nsenter", f"--net=/proc/{bed.holder.pid}/ns/net", *command],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    if ready:
        b.check(p.stdout.readline() == b"ready\n", f"{command[0]} is ready")
    return p


def _curl(bed, *commands, tools="curl -sS --http1.1 --max-time 60"):
    _setup(bed)
    run = bed.run("; ".join(f"{tools} {c}" for c in commands), POLICY, secrets={"token": (SECRET, ["h2.test"])})
    run.verify()
    return run


def h1_box_reaches_an_h2_origin_with_its_credential(bed):
    run = _curl(bed, "-d name=value -H 'X-Mine: 1' https://h2.test/echo?q=1")
    seen = json.loads(run.out)
    h = seen["headers"]
    b.check((h[":method"], h[":path"], h[":authority"], h[":scheme"]) == ("POST", "/echo?q=1", "h2.test", "https"), "as asked", h)
    b.check(h["authorization"].startswith("Bearer [exeat:token"), "the value was put on, and covered on its way back", h)
    b.check(seen["body"] == "name=value" and h["content-length"] == "10" and h["x-mine"] == "1", "whole", seen)
    b.check(not any(n in h for n in ("connection", "host", "transfer-encoding", "keep-alive")), "nothing of the other hop", h)
    end = run.record("request", phase="end")
    b.check(end["status"] == 200 and end["credential"] == "token" and end["scrubbed"] == 1, "on record", end)


def a_large_upload_and_a_large_answer_are_whole(bed):
    run = _curl(bed, "-T /tmp/up https://free.test/echo; curl -sS --http1.1 https://free.test/big | sha256sum",
                tools="head -c 9000000 /dev/zero > /tmp/up; curl -sS --http1.1")
    seen = json.loads(run.out[:run.out.rindex("}") + 1])
    b.check(seen["n"] == 9_000_000 and seen["sha"] == hashlib.sha256(b"\0" * 9_000_000).hexdigest(), "upload", seen)
    b.check(hashlib.sha256(b"z" * (8 << 20)).hexdigest() in run.out, "download", run.out[-200:])


def chunked_upload_has_no_length_at_an_h2_origin(bed):
    run = _curl(bed, "-T - https://free.test/echo", tools="printf hello | curl -sS --http1.1")
    seen = json.loads(run.out)
    b.check(seen["body"] == "hello" and "content-length" not in seen["headers"] and "transfer-encoding" not in seen["headers"],
            "a stream stays one", seen)


def trailers_reach_an_h1_box(bed):
    run = _curl(bed, "-i --raw -H 'TE: trailers' https://free.test/trailers", "-i https://free.test/trailers-only")
    b.check("grpc-status: 0\r\n" in run.out and "x-last: yes\r\n" in run.out, "trailers behind the body", run.out)
    b.check("grpc-status: 5" in run.out and "content-length: 0" in run.out.lower(), "an answer that is a head alone", run.out)


def interim_answers_and_head_requests_are_right(bed):
    run = _curl(bed, "-i https://free.test/interim", "-I https://free.test/any", "-i https://free.test/late-end")
    b.check(run.out.count("HTTP/1.1 103") == 2 and "</b.css>" in run.out and "done" in run.out, "both 103s, then the answer", run.out)
    b.check("1488324" in run.out, "HEAD's length is kept", run.out)
    b.check(run.out.endswith("four"), "an end in a frame of its own", run.out)


def an_answer_before_the_request_has_ended_is_whole(bed):
    run = _curl(bed, "-i -T /tmp/up https://free.test/early", tools="head -c 3000000 /dev/zero > /tmp/up; curl -sS --http1.1")
    b.check("HTTP/1.1 200" in run.out and run.out.endswith("early"), "the whole answer", run.out)


def a_broken_stream_is_never_a_clean_end(bed):
    run = _curl(bed, "https://free.test/broken; echo code $?")
    b.check("code 0" not in run.out, "curl sees that it was cut", run.out)
    end = run.record("request", phase="end")
    b.check("response-incomplete" in end["reason"], "the reason is on record", end)


def a_box_that_goes_away_cancels_its_stream(bed):
    run = _curl(bed, "--max-time 1 https://free.test/hang; while ! curl -sS --http1.1 https://free.test/counts | "
                     "grep -q '\"finished\":1'; do :; done; curl -sS --http1.1 https://free.test/counts")
    counts = json.loads(run.out[run.out.rindex("{"):])
    b.check(counts["finished"] == 1, "the origin saw that nobody listens", counts)


def a_stream_that_was_refused_unlooked_at_is_asked_again(bed):
    run = _curl(bed, "-d body=1 https://two.test/counts", "-X POST https://two.test/refuse")
    b.check(run.out.endswith("second"), "once more, though a POST", run.out)


def an_origin_that_says_goodbye_gets_a_new_connection(bed):
    run = _curl(bed, "https://free.test/goaway", "https://free.test/goaway", "https://free.test/echo")
    b.check(run.out.startswith("goinggoing{"), "each was answered", run.out)


def an_origin_that_pings_between_requests_is_answered(bed):
    run = _curl(bed, "https://free.test/ping-later; while ! curl -sS --http1.1 https://h2.test/counts | grep -q '\"pinged\":1'; do :; done; echo yes")
    b.check(run.out == "lateryes\n", "at once, not with the next request", run.out)


def many_requests_of_a_box_are_on_one_connection(bed):
    _setup(bed)
    before = json.loads(_curl(bed, "https://free.test/counts").out)["sessions"]
    run = _curl(bed, "--parallel --parallel-immediate --parallel-max 40 'https://free.test/echo?[1-120]' -o /dev/null",
                "https://free.test/counts")
    b.check(json.loads(run.out[run.out.rindex("{"):])["sessions"] - before <= 3, "few connections carry them all", run.out[-200:])
    b.check(len(run.records("request", phase="end", status=200)) == 121, "each on record")


def nginx_and_nghttpd_over_h2(bed):
    run = _curl(bed, *("https://nginx.test/file | sha256sum",) * 8, *("https://nghttpd.test/file | sha256sum",) * 3)
    want = hashlib.sha256(b"from a file\n" * 1000).hexdigest()
    b.check(run.out.count(want) == 11, "also behind nginx's GOAWAY after three requests", run.out)
    with open(bed.path("h2.log"), encoding="utf-8") as f:
        b.check(f.read().count("HTTP/2.0") >= 8, "nginx was spoken to in HTTP/2")


if __name__ == "__main__":
    b.main(b.cases(globals()))
