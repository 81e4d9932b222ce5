"""curl with every option that asks something else of Exeat, and openssl's client with the kinds of
hello: what comes of each, and what is on record."""

import gzip
import hashlib
import re

import bed as b
import clients as c

BODY = bytes(range(256)) * 4096    # one MiB


def _serve(request, origin):
    path = request.target.partition("?")[0]
    if path == "/gzip":
        accepted = "gzip" in (request.get("accept-encoding") or "")
        return b.answer(200, gzip.compress(c.HELLO.encode()) if accepted else c.HELLO,
                        [("content-encoding", "gzip")] if accepted else [])
    if path == "/range":
        first, last = map(int, request.get("range").removeprefix("bytes=").split("-"))
        return b.answer(206, BODY[first:last + 1], [("content-range", f"bytes {first}-{last}/{len(BODY)}")])
    if path == "/head":
        return b.answer(200, b"", [("content-length", "1488324")], length=False)
    if path == "/busy":
        done = len([r for r in origin.requests if r.target == request.target])
        return b.answer(503, "busy") if done < 3 else b.answer(200, c.HELLO)
    if path == "/away":
        return b.answer(302, b"", [("location", "https://evil.test/x")])
    return c.page(request, origin)


def _handle(s, origin):
    """As any server, but for /never: no answer, and the end of the connection is waited for."""
    f = s.makefile("rb")
    while request := b.read_request(f):
        origin.requests.append(request)
        if request.target == "/never":
            origin.held += 1
            f.read(1)
            origin.left += 1
            return
        s.sendall(_serve(request, origin))


def _curl(bed, *lines, policy=c.POLICY, **more):
    """Each line a curl; its status and how it ended are printed as "[status] " behind what it printed."""
    if not hasattr(bed, "curled"):
        bed.curled = [b.Origin(bed, _handle, "203.0.113.15", 443, bed.cert("api.test", "other.test")),
                      b.Origin(bed, _handle, "203.0.113.15", 80)]
        for origin in bed.curled:
            origin.held = origin.left = 0
    bed.dns.zone.update({"api.test": ["203.0.113.15", "2001:db8::15"], "plain.test": ["203.0.113.15"],
                         "other.test": ["203.0.113.15"], "evil.test": ["203.0.113.15"]})
    script = "cd /tmp; " + "".join(f"timeout -k 1 {c.BOUND} {line} 2>&1; echo \" [$?]\"\n" for line in lines)
    run = bed.run(script, policy, **more)
    found = re.findall(r"(.*?) \[(\d+)\]\n", run.out, re.S)
    b.check(len(found) == len(lines), "each came to its end", run.out, run.err)
    b.check(all(status not in ("124", "137") for _, status in found), "none hangs", found)
    return run, [(text, int(status)) for text, status in found]


CODE = "curl -sS -o /dev/null -w '%{http_code} %{http_version}' "


def v4_works_and_v6_finds_no_way(bed):
    run, found = _curl(bed, CODE + "-4 https://api.test/", CODE + "-6 https://api.test/", CODE + "'https://[2001:db8::15]/'",
                       CODE + "-6 https://evil.test/")
    b.check(found[0] == ("200 2", 0), "-4", found)
    b.check([f[1] for f in found[1:]] == [7, 7, 7] and all("connect to" in f[0] for f in found[1:]),
            "-6, an address and a refused name find no way", found)
    empty = run.records("dns", name="api.test", type="AAAA", rcode="NOERROR", verdict="allow")
    b.check(empty and not any("answers" in r for r in empty), "on record, with no address", run.records("dns"))
    b.check(run.record("dial")["address"] == "203.0.113.15", "one was dialled", run.records("dial"))


def each_version_of_tls_is_on_record(bed):
    run, found = _curl(bed, CODE + "--tls-max 1.2 https://api.test/", CODE + "--tlsv1.3 https://api.test/",
                       CODE + "--tlsv1.0 --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0 https://api.test/")
    b.check([f[0] for f in found[:2]] == ["200 2"] * 2, "1.2 and 1.3", found)
    b.check(found[2][1] == 35 and "alert protocol version" in found[2][0], "1.1 gets the alert", found)
    closed = run.records("connection", phase="close")
    b.check([r.get("tls") for r in closed] == ["TLSv1.2", "TLSv1.3", None], "on record", closed)
    b.check("unsupported protocol" in closed[2]["ended"], "and why it ended", closed[2])
    b.check(len(run.records("dial")) == 1, "one connection to the origin served both, and nothing was dialled for it", run.records("dial"))


def each_version_of_http_gets_what_it_can_read(bed):
    run, found = _curl(bed, CODE + "--http1.0 https://api.test/", CODE + "--http1.1 https://api.test/",
                       CODE + "--http2 https://api.test/", CODE + "--http2 http://plain.test/",
                       CODE + "--http2-prior-knowledge http://plain.test/", CODE + "--http2-prior-knowledge https://api.test/",
                       CODE + "--no-alpn https://api.test/")
    b.check([f[0] for f in found] == ["200 1.1", "200 1.1", "200 2", "200 1.1", "200 2", "200 2", "200 1.1"],
            "by ALPN, or a preface in plain; an offer to upgrade is not taken", found)
    seen = [r for r in bed.curled[1].requests if r.get("upgrade") or r.get("http2-settings")]
    b.check(not seen, "an offer of h2c does not reach the origin", [r.fields for r in seen])
    b.check([r["status"] for r in run.records("request")] == [200] * 7, "on record", run.records("request"))
    closed = run.records("connection", phase="close", protocol="https")
    b.check([r.get("alpn") for r in closed] == ["http/1.0", "http/1.1", "h2", "h2", None], "with what was chosen", closed)


def a_connection_to_another_address_or_name_is_refused(bed):
    """F147: an address that the box chose is never trusted, and the name in the hello is the name that was resolved."""
    before = bed.curled[0].connections if hasattr(bed, "curled") else 0
    run, found = _curl(bed, CODE + "--resolve api.test:443:203.0.113.15 https://api.test/",
                       CODE + "--resolve api.test:443:198.18.0.9 https://api.test/",
                       CODE + "-k --connect-to evil.test:443:api.test:443 https://evil.test/",
                       CODE + "--connect-to other.test:443:api.test:443 https://other.test/",
                       CODE + "--connect-to api.test:443:api.test:443 https://api.test/",
                       CODE + "-H 'Host: other.test' https://api.test/",
                       CODE + "-H 'Host: 203.0.113.15' http://plain.test/",
)
    b.check(found[0][1] == 7 and found[1][1] == 7, "literal addresses are refused", found)
    b.check([f[1] for f in found[2:4]] == [35, 35] and all("unrecognized name" in f[0] for f in found[2:4]),
            "another name gets the alert", found)
    b.check(found[4] == ("200 2", 0), "the right one works", found)
    b.check([f[0] for f in found[5:]] == ["421 2", "421 1.1"], "another Host is misdirected", found)
    for address in ("203.0.113.15", "198.18.0.9"):
        b.check(run.records("connect", destination=address, port=443, verdict="deny"), f"{address} is on record", run.records("connect"))
    b.check([r["sni"] for r in run.records("connection", reason="sni-mismatch")] == ["evil.test", "other.test"], "as are names",
            run.records("connection"))
    b.check([r["reason"] for r in run.records("request", status=421)] == [f"host-mismatch: {h}" for h in ("other.test", "203.0.113.15")],
            "and Hosts", run.records("request"))
    b.check(bed.curled[0].connections - before == 1, "one connection reached the origin")


def uploads_in_every_form_arrive_whole(bed):

    make = "head -c 1000000 /dev/zero >up; "
    run, found = _curl(bed, f"sh -c \"{make} curl -sS -H 'Expect:' -T up https://api.test/t\"",
                       "sh -c 'head -c 1000000 /dev/zero | curl -sS -H Expect: -T - https://api.test/chunked'",
                       "curl -sS --data-binary @up https://api.test/d",
                       "curl -sS -H 'Expect: 100-continue' --expect100-timeout 25 -T up -w ' %{time_total}' https://api.test/e",
                       "curl -sS -H 'Expect: 100-continue' --expect100-timeout 25 -T up -w ' %{time_total}' https://api.test/closed/e",
                       "curl -sS -H 'Expect:' -T up http://plain.test/p",
                       "curl -sS --http1.0 -H Expect: -T up https://api.test/ten",
                       "curl -sS -F file=@up -F name=value https://api.test/form",
                       "curl -sS -X PATCH -d a=b https://api.test/patch", "curl -sS -X DELETE https://api.test/delete",
                       "curl -sS --limit-rate 4M -H Expect: -T up https://api.test/slow")
    zeros = hashlib.sha256(bytes(1000000)).hexdigest()
    for (text, status), name in zip(found, ("t", "chunked", "d", "e", None, "p", "ten", "form", "patch", "delete", "slow")):
        b.check(status == 0, f"{name}: curl is content", text)
        if name not in (None, "form", "patch", "delete"):
            b.check(zeros in text, f"{name}: every byte", text)
    fields = {r.target: dict((k.lower(), v) for k, v in r.fields) for o in bed.curled for r in o.requests}
    b.check(fields["/t"].get("content-length") == "1000000" and "transfer-encoding" not in fields["/t"], "framed as it was",
            fields["/t"])
    b.check(fields["/chunked"].get("transfer-encoding") == "chunked", "chunked as it was", fields["/chunked"])
    b.check(float(found[3][0].split()[-1]) < 20 and float(found[4][0].split()[-1]) < 20, "nobody waits for a 100 in vain", found)
    b.check("Refused by policy" in found[4][0] and not any("closed" in t for t in fields), "a refused body stays here", found[4])
    denied = run.record("request", path="/closed/e")
    b.check(denied["status"] == 403 and denied["rule"] == "closed" and denied["bytes_up"] == 0, "on record", denied)
    for path, method in (("/t", "PUT"), ("/chunked", "PUT"), ("/d", "POST"), ("/patch", "PATCH"), ("/delete", "DELETE")):
        b.check(run.record("request", path=path, phase="end")["method"] == method, f"{path} is on record", run.records("request"))
    b.check(run.record("request", path="/t", phase="end")["bytes_up"] == 1000000, "with its bytes", run.records("request", path="/t"))


def downloads_in_every_form_are_what_the_origin_sent(bed):
    run, found = _curl(bed, "curl -sS --compressed https://api.test/gzip", "curl -sS https://api.test/gzip",
                       "curl -sS -r 1000-1999 https://api.test/range -o part -w '%{http_code} %{size_download}'",
                       "sha256sum part", "curl -sS -I https://api.test/head", "curl -sS --tr-encoding https://api.test/te",
                       "curl -sS -Z " + " ".join(f"https://api.test/z?{i}" for i in range(20)),
                       "curl -sS --tcp-fastopen https://api.test/tfo", "curl -sS --interface eth0 https://api.test/if",
                       "curl -sS https://api.test/one --next -d x=y https://api.test/two --next -I https://api.test/head")
    b.check(found[0][0] == c.HELLO and found[1][0] == c.HELLO, "compressed and not", found[:2])
    b.check(found[2] == ("206 1000", 0) and hashlib.sha256(BODY[1000:2000]).hexdigest() in found[3][0], "a range", found[2:4])
    b.check("content-length: 1488324" in found[4][0].lower() and found[4][1] == 0, "HEAD has the length, and ends", found[4])
    b.check(all(c.HELLO in f[0] and f[1] == 0 for f in found[5:9]), "TE, fast open, an interface", found[5:9])
    b.check(found[6][0].count(c.HELLO) == 20, "twenty at once", found[6])
    b.check(found[9][0].count(c.HELLO) == 2 and "1488324" in found[9][0] and found[9][1] == 0, "one connection, three kinds", found[9])
    b.check(run.record("request", path="/range")["status"] == 206, "on record", run.records("request"))
    b.check(len(run.records("request", path="/z", status=200)) == 20, "each of them", run.records("request"))
    b.check(len(run.records("request", path="/head", method="HEAD", status=200)) == 2, "HEAD, too", run.records("request"))


def times_and_retries_are_the_clients(bed):
    run, found = _curl(bed, CODE + "-m 1 https://api.test/never", CODE.replace("/dev/null", "busy") + "--retry 2 --retry-delay 1 https://api.test/busy",
                       CODE + "--retry 1 --retry-delay 1 --retry-connrefused https://evil.test/",
                       CODE + "--connect-timeout 20 https://evil.test/", CODE + "--retry 2 --retry-delay 1 https://api.test/closed/x")
    b.check(found[0][1] == 28, "--max-time ends it", found)
    b.check(found[1][1] == 0 and found[1][0].endswith("200 2"), "the third answer is taken", found)
    b.check(found[2][1] == 7 and found[3][1] == 7, "a refusal stays one", found)
    b.check(found[4][0] == "403 2", "and is not tried again", found)
    never = run.record("request", path="/never", phase="end")
    b.check(never["verdict"] == "allow" and "status" not in never and never["ended"], "its end is on record", never)
    b.check([r["status"] for r in run.records("request", path="/busy")] == [503, 503, 200], "each try", run.records("request", path="/busy"))
    b.check(len(run.records("request", path="/closed/x")) == 1, "one refusal", run.records("request", path="/closed/x"))
    c.is_refused_on_record(bed, run, "evil.test", 443)


def a_client_that_gives_up_is_noticed_while_the_origin_still_thinks(bed):
    """Its close looks like that of its half alone; one that waits for its answer behind it gets it."""
    _curl(bed, "true")
    held, left = bed.curled[0].held, bed.curled[0].left
    run = bed.start("curl -sS -m 1 https://api.test/never; sleep 600", c.POLICY)
    b.wait_until("the request", lambda: bed.curled[0].held > held)
    ended = b.wait_until("its end on record", lambda: run.records("request", path="/never", phase="end"), 60)[0]
    b.check(ended["ended"] == "reset by the client", "while the box is still there", ended)
    b.wait_until("the end of the connection to the origin", lambda: bed.curled[0].left > left)
    run.process.terminate()
    run.wait()


def a_redirect_to_a_refused_host_ends_at_once(bed):
    run, found = _curl(bed, *["curl -sS -L https://api.test/away"] * 5, "curl -sS -L -o /dev/null --doh-url https://8.8.8.8/dns-query https://api.test/")
    b.check(all(f[1] == 7 and "evil.test" in f[0] for f in found[:5]), "each time", found)
    b.check(found[5][1] in (6, 7), "and no resolver of the box's own choice is reached", found)
    b.check(len(run.records("request", path="/away", status=302)) == 5, "the redirect is on record", run.records("request"))
    c.is_refused_on_record(bed, run, "evil.test", 443)
    b.check(run.records("connect", destination="8.8.8.8", port=443, verdict="deny"), "as is the resolver", run.records("connect"))


# ---- openssl s_client: the hellos ----

SAYS = "-brief -connect api.test:443 </dev/null"


def each_kind_of_hello_is_answered_or_alerted(bed):
    hello = lambda *options: f"openssl s_client {' '.join(options)} {SAYS}"
    run, found = _curl(
        bed, hello("-servername api.test -tls1_2"), hello("-servername api.test -tls1_3"), hello("-noservername"),
        hello("-servername evil.test"), hello("-servername API.test"), hello("-servername api.test. -verify_hostname api.test"),
        hello("-servername api.test -tls1_1 -cipher DEFAULT@SECLEVEL=0"),
        hello("-servername api.test -tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256"),
        hello("-servername api.test -alpn h3"), hello("-servername api.test -alpn http/1.1"), hello("-servername api.test -status"),
        hello("-servername api.test -groups X448:P-521:P-384"), hello("-servername api.test -groups P-256"),
        hello("-servername api.test -no_ticket -tls1_2"), hello("-servername 203.0.113.15"),
        hello("-servername api.test -sigalgs RSA+SHA256 -tls1_2"))
    good = [0, 1, 4, 9, 10, 11, 12, 13]
    for i in good:
        b.check("Verification: OK" in found[i][0] and found[i][1] == 0, f"hello {i} is answered", found[i])
    b.check("TLSv1.2" in found[0][0] and "TLSv1.3" in found[1][0], "in the version asked for", found[:2])
    b.check("unrecognized name" in found[2][0] and "unrecognized name" in found[3][0], "no name, and another", found[2:4])
    b.check("alert protocol version" in found[6][0], "an old version", found[6])
    b.check(all("handshake failure" in found[i][0] for i in (7, 15)), "nothing in common", found[7], found[15])
    b.check("no application protocol" in found[8][0], "HTTP/3 alone", found[8])
    b.check(found[14][1] != 0, "an address is no name", found[14])
    closed = run.records("connection", phase="close")
    b.check([r.get("reason") for r in closed[2:4]] == ["no-sni", "sni-mismatch"], "on record by their reasons", closed)
    b.check(all("no shared cipher" in closed[i]["ended"] or "signature" in closed[i]["ended"] for i in (7, 15)), "and in words",
            closed[7], closed[15])
    b.check(not run.records("dial"), "none of them was dialled for", run.records("dial"))


b.main(b.cases(globals()))
