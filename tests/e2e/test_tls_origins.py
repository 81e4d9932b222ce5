"""Origins as a worker knows them: whose certificates will do, which sessions are resumed, what is said of failures."""

import socket
import ssl
import struct
import subprocess

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: test, hosts: ["**.test"], any_tenant: true}
  - {id: by-address, addresses: [203.0.113.18], ports: [443]}
"""


def _one_request(bytes_of):
    """A handler that takes one request on each connection."""
    def handler(s, origin):
        request = b.read_request(s.makefile("rb"))
        if request:
            origin.requests.append(request)
            s.sendall(bytes_of(s))
    return handler


def certificates_that_bear_another_name_get_nothing_of_the_request(bed):
    certs = {"deep.sub.test": (bed.cert(san="DNS:*.test"), "hostname mismatch"),
             "two.sub.test": (bed.cert(san="DNS:*.*.test"), "hostname mismatch"),
             "part.sub.test": (bed.cert(san="DNS:p*.sub.test"), "hostname mismatch"),
             "common.sub.test": (bed.cert(cn="common.sub.test", san=""), "hostname mismatch"),
             "address.sub.test": (bed.cert(san="IP:203.0.113.14"), "hostname mismatch"),
             "lone.sub.test": (bed.cert("lone.sub.test", ca=False), "self-signed certificate"),
             "203.0.113.18": (bed.cert(san="DNS:203.0.113.18"), "IP address mismatch")}
    origins = {}
    for n, (name, (cert, _)) in enumerate(certs.items()):
        address = name if name[0].isdigit() else f"203.0.113.{10 + n}"
        bed.dns.zone[name] = [address]
        origins[name] = b.Origin(bed, _one_request(lambda s: b.answer(200)), address=address, cert=cert)
    for name, (_, text) in certs.items():
        run = bed.run(f"curl -sS -i -H 'x-token: hunter2' https://{name}/", POLICY)
        b.check("HTTP/2 502" in run.out and text.lower() in run.out.lower(), f"{name}: {text}", run.out, run.err)
        b.check(origins[name].connections and not origins[name].requests, f"{name} got nothing", origins[name].requests)
        b.check(run.records("request", proxy_error="tls_certificate_error"), "recorded", run.records("request"))
    for origin in origins.values():
        origin.close()


def a_wildcard_is_one_whole_label(bed):
    bed.dns.zone["one.sub.test"] = ["203.0.113.19"]
    origin = b.Origin(bed, b.http(b.echo), address="203.0.113.19", cert=bed.cert(san="DNS:*.sub.test"))
    run = bed.run("curl -sS -o /dev/null -w '%{http_code}' https://one.sub.test/", POLICY)
    b.check(run.out == "200", "accepted", run.out, run.err)
    origin.close()


def sessions_are_resumed_and_the_record_knows_the_certificate(bed):
    bed.dns.zone["again.test"] = ["203.0.113.20"]
    origin = b.Origin(bed, _one_request(lambda s: b.answer(200, str(s.session_reused).encode(), [("connection", "close")])),
                      address="203.0.113.20", cert=bed.cert("again.test"))
    run = bed.run("for i in 1 2 3; do curl -sS https://again.test/; echo; done", POLICY)
    b.check(run.out.split() == ["False", "True", "True"], "after the first", run.out, run.err)
    prints = [r.get("upstream_cert") for r in run.records("request")]
    b.check(len(prints) == 3 and prints[0] and len(set(prints)) == 1, "each bears its fingerprint", prints)
    run = bed.run("curl -sS https://again.test/", POLICY)
    b.check(run.out == "False", "another sandbox begins anew", run.out, run.err)
    origin.close()


def who_is_offered_a_session_and_cannot_resume_it_proves_its_name(bed):
    """A successor with a certificate of its own and other keys for tickets; then a rogue in its place."""
    def context(cert):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(*cert)
        return made
    bed.dns.zone["moved.test"] = ["203.0.113.21"]
    origin = b.Origin(bed, _one_request(lambda s: b.answer(200, str(s.session_reused).encode(), [("connection", "close")])),
                      address="203.0.113.21", cert=bed.cert("moved.test"))
    get = "curl -sS -w ' %{http_code}\\n' https://moved.test/ | tail -n 1"
    run = bed.start(f"{get}; read x; {get}; {get}; read x; {get}", POLICY, stdin=subprocess.PIPE)
    answers = [run.process.stdout.readline()]
    for cert in (bed.cert("moved.test", days="20"), bed.cert("rogue.test")):
        origin.context = context(cert)
        run.process.stdin.write(b"\n")
        run.process.stdin.flush()
        answers.append(run.process.stdout.readline())
        if len(answers) == 2:
            answers.append(run.process.stdout.readline())
    run.wait()
    b.check([a.split() for a in answers[:3]] == [[b"False", b"200"], [b"False", b"200"], [b"True", b"200"]], "by its own certificate", answers)
    b.check(answers[3].split()[-1] == b"502" and len(origin.requests) == 3, "the rogue got nothing", answers, origin.requests)
    b.check(run.records("request", proxy_error="tls_certificate_error"), "recorded", run.records("request"))
    origin.close()


def an_origin_that_breaks_off_is_told_apart_from_a_refusal(bed):
    def reset(s):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def after_the_request(s, origin):
        origin.requests.append(b.read_request(s.makefile("rb")))
        reset(s)
        s.close()

    def at_once(s):
        s.recv(4096)
        reset(s)
        return True
    bed.dns.zone.update({"hello.test": ["203.0.113.24"], "request.test": ["203.0.113.25"], "silent.test": ["203.0.113.26"]})
    origins = [b.Origin(bed, None, address="203.0.113.24", before_tls=at_once, cert=bed.cert("hello.test")),
               b.Origin(bed, after_the_request, address="203.0.113.25", cert=bed.cert("request.test")),
               b.Origin(bed, lambda s, o: s.recv(4096), address="203.0.113.26", cert=bed.cert("silent.test"))]
    run = bed.run("for n in hello request silent; do curl -sS -i -d x https://$n.test/; echo; done", POLICY)
    b.check(run.out.count("HTTP/2 502") == 3 and run.out.count("connection_terminated") == 3, "each a 502 with its error", run.out, run.err)
    b.check("HTTP/2 403" not in run.out and len(run.records("request", proxy_error="connection_terminated")) == 3, "no policy refusal",
            run.records("request"))
    for origin in origins:
        origin.close()


b.main(b.cases(globals()))
