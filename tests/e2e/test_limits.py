"""A rule's limits, as the box sees them: how often, how many at once, how much, how long. And refusals as gRPC has them."""

import json
import threading

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: often, hosts: [often.test], limits: {requests: 3/h}}
  - {id: once, hosts: [once.test], limits: {concurrent: 1}}
  - {id: sizes, hosts: [sizes.test], limits: {upload: 10KiB, download: 20KiB}}
  - {id: times, hosts: [times.test], limits: {idle: 1s, total: 4s}}
  - {id: wide, hosts: [often.test, other.test], paths: [/**], limits: {requests: 1000/s}}
deny:
  - {id: no-service, hosts: [other.test], paths: [/pkg.Admin/**], reason: "100% no: ask José"}
"""
BIG = b"z" * 100_000


def _handler(s, origin):
    f = s.makefile("rb")
    while (request := b.read_request(f)) is not None:
        with origin.lock:
            origin.requests.append(request)
        if request.target == "/hold":
            origin.held.set()
            origin.go.wait(60)
        if request.target in ("/silent", "/drip"):
            s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n")
            while request.target == "/drip" and not origin.go.wait(0.3):
                s.sendall(b"1\r\n.\r\n")
            origin.go.wait(60)
            return
        if request.target == "/chunks":
            s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"186a0\r\n" + BIG + b"\r\n0\r\n\r\n")
        elif request.target == "/big":
            s.sendall(b.answer(200, BIG))
        else:
            s.sendall(b.answer(200, str(len(request.body or b""))))


def _origin(bed):
    names = ("often.test", "once.test", "sizes.test", "times.test", "other.test")
    if not hasattr(bed, "origin"):
        bed.dns.zone.update({n: ["203.0.113.10"] for n in names})
        bed.origin = b.Origin(bed, _handler, cert=bed.cert(*names))
    bed.origin.requests.clear()
    bed.origin.go, bed.origin.held = threading.Event(), threading.Event()
    return bed.origin


def _run(bed, command):
    _origin(bed)
    run = bed.run(command, POLICY)
    bed.origin.go.set()
    run.verify()
    return run


def requests_over_their_rate_get_429_and_when_to_come_back(bed):
    run = _run(bed, "for i in 1 2 3; do curl -sS https://often.test/$i; done; curl -sS -i --http1.1 https://often.test/4; "
                    "curl -sS https://other.test/free")
    b.check(run.out.startswith("000HTTP/1.1 429 "), "three, then no more", run.out)
    head, _, body = run.out[3:].partition("\r\n\r\n")
    problem = json.loads(body[:body.index("}") + 1])
    after = int(next(line for line in head.split("\r\n") if line.lower().startswith("retry-after:")).split(":")[1])
    b.check(1150 <= after <= 1200 and problem["retry_after"] == after, "in a third of an hour", head, problem)
    b.check(problem["reason"] == "limit-reached" and "3 requests in 3600 s, by often" in problem["detail"], "says which", problem)
    b.check(run.out.endswith("0") and len(bed.origin.requests) == 4, "nothing of it went out, other rules go on", run.out)
    end = run.record("request", status=429)
    b.check(end["verdict"] == "deny" and "limit-reached" in end["reason"], "on record", end)


def so_many_at_once_and_the_next_when_one_is_over(bed):
    origin = _origin(bed)
    run = bed.start("curl -sS https://once.test/hold -o /tmp/held & while ! curl -sS -o /tmp/x -w '%{http_code}\\n' https://once.test/a "
                    "| grep 429; do :; done; echo now; read line; wait; curl -sS -w '%{http_code}\\n' https://once.test/b; cat /tmp/held",
                    POLICY, stdin=b.subprocess.PIPE)
    b.check(origin.held.wait(60), "one is held")
    lines = [run.process.stdout.readline() for _ in range(2)]
    b.check(lines == [b"429\n", b"now\n"], "the next is refused", lines)
    origin.go.set()
    run.process.stdin.write(b"go\n")
    run.process.stdin.flush()
    run.wait(60)
    b.check(run.out.split() == ["0200", "0"], "both were answered in the end", run.out)


def streams_of_one_connection_are_counted_each(bed):
    origin = _origin(bed)
    run = bed.start("curl -sS --no-progress-meter --http2 -Z -o /tmp/a -o /tmp/b -o /tmp/c -w '%{stderr}%{http_code} %{http_version}\\n' "
                    "https://once.test/hold https://once.test/hold https://once.test/hold 2>&1", POLICY)
    b.check(origin.held.wait(60), "one is held")
    lines = [run.process.stdout.readline() for _ in range(2)]
    b.check(lines == [b"429 2\n"] * 2, "the others are refused meanwhile", lines)
    origin.go.set()
    run.wait(60)
    b.check(run.out == "200 2\n", "it goes on", run.out)
    b.check(len({r["connection"] for r in run.records("request", phase="end")}) == 1, "all in one connection", run.records("request"))


def an_upload_over_its_bytes_is_refused_before_it_is_sent_where_it_says_its_length(bed):
    run = _run(bed, "head -c 20000 /dev/zero > /tmp/f; curl -sS -w ' %{http_code}' -H Expect: --data-binary @/tmp/f https://sizes.test/up; "
                    "cat /tmp/f | curl -sS -w ' %{http_code}' -H Expect: -T - https://sizes.test/up; "
                    "head -c 10240 /tmp/f | curl -sS -w ' %{http_code}' -H Expect: --data-binary @- https://sizes.test/up")
    b.check(run.out.count("upload-too-large") >= 2 and run.out.count(" 413") == 2, "413, also where it shows on the way", run.out)
    b.check(run.out.endswith("10240 200"), "up to the limit it passes", run.out)
    b.check([r.get("content-length") for r in bed.origin.requests if r.body is not None][-1:] == ["10240"], "whole at the origin once")
    b.check(len(run.records("request", status=413)) == 2, "on record", run.records("request"))


def a_download_over_its_bytes_is_refused_or_broken_off(bed):
    run = _run(bed, "curl -sS -w ' %{http_code}' https://sizes.test/big; curl -sS https://sizes.test/chunks | wc -c; "
                    "curl -sS -o /dev/null https://sizes.test/chunks; echo code $?")
    b.check("download-too-large" in run.out and " 502" in run.out, "in words before it begins", run.out)
    b.check("code 0" not in run.out, "by a break afterwards", run.out)
    b.check(any("download-too-large" in r.get("reason", "") for r in run.records("request", phase="end", status=200)), "on record",
            run.records("request"))


def a_stream_over_its_time_is_broken_off_and_never_ends_cleanly(bed):
    run = _run(bed, "curl -sS https://times.test/silent; echo code $?; curl -sS https://times.test/drip > /tmp/d; echo code $?")
    b.check(run.out.count("code") == 2 and "code 0" not in run.out, "curl sees the break", run.out)
    ends = [r["reason"] for r in run.records("request", phase="end", host="times.test")]
    b.check("nothing moved for 1 s" in ends[0] and "4 seconds in all" in ends[1], "each by its limit", ends)


def a_grpc_client_is_refused_in_its_own_words(bed):
    run = _run(bed, "curl -sS -i --http1.1 -H 'content-type: application/grpc+proto' -H 'te: trailers' --data-binary x https://other.test/pkg.Admin/Drop")
    b.check(run.out.startswith("HTTP/1.1 200"), "a status of HTTP that says nothing", run.out)
    low = run.out.lower()
    b.check("grpc-status: 7\r\n" in low and "content-type: application/grpc\r\n" in low, "PERMISSION_DENIED", run.out)
    message = next(line for line in run.out.split("\r\n") if line.startswith("grpc-message: "))
    b.check("no-service" in message and "100%25 no: ask Jos%C3%A9" in message, "the rule and its reason, escaped", message)
    b.check(run.record("request", phase="end")["verdict"] == "deny", "on record")


if __name__ == "__main__":
    b.main(b.cases(globals()))
