"""What clients in the box are held to: what each saw, and that the log says the same.

A client is a shell command that fetches "$1". Whatever it is, it gets the origin's answer from a host
and a path that are allowed; and what is refused it is told at once, in its own words, by a message."""

import dataclasses
import hashlib
import json
import re

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
  - {id: plain, hosts: [plain.test], protocol: http}
deny:
  - {id: closed, hosts: [api.test, plain.test], paths: [/closed/**], reason: Closed to boxes.}
"""
EXPLAIN = POLICY + "refusal: explain\n"
ORIGIN, REFUSAL_ADDRESS = "203.0.113.14", "198.18.0.1"
HELLO = "hello from the origin"
BOUND = 30    # seconds; far from what a refusal takes, and from what a client waits that gets no answer
ATTEMPTS = """c=$1; shift
for u; do timeout -k 1 %d sh -c "$c" client "$u" </dev/null 2>&1; r=$?; echo; echo "<<$r>>"; done""" % BOUND


@dataclasses.dataclass
class Client:
    command: str
    refused: str = "Connection refused"    # what it says of a host that is refused
    denied: str = "403"                    # and of a path
    shows_id: bool = True                  # of a refused path, too
    tls: str = "TLSv1.3"


@dataclasses.dataclass
class Attempt:
    status: int
    text: str


def page(request, _origin):
    """The origin: what it got, as JSON, behind a greeting."""
    return b.answer(200, HELLO + " " + json.dumps(
        {"method": request.method, "target": request.target, "version": request.version, "fields": request.fields,
         "length": len(request.body), "sha256": hashlib.sha256(request.body).hexdigest()}) + "\n",
        [("content-type", "text/plain")])


def origins(bed):
    """api.test over TLS and plain.test over HTTP, at one address; evil.test, which no rule allows, too."""
    bed.dns.zone.update({name: [ORIGIN] for name in ("api.test", "plain.test", "evil.test")})
    if not hasattr(bed, "tls"):
        bed.tls = b.Origin(bed, b.http(page), address=ORIGIN, cert=bed.cert("api.test", "evil.test"))
        bed.plain = b.Origin(bed, b.http(page), address=ORIGIN, port=80)


def attempts(bed, client, *urls, policy=POLICY, shell="sh", **more):
    """One box in which the client is run for each URL."""
    command = client.command if isinstance(client, Client) else client
    run = bed.run([shell, "-c", ATTEMPTS, "sh", command, *urls], policy, **more)
    found = [Attempt(int(status), text) for text, status in re.findall(r"(.*?)\n<<(\d+)>>\n", run.out, re.S)]
    b.check(len(found) == len(urls), "each attempt came to its end", run.out, run.err)
    for url, attempt in zip(urls, found):
        b.check(attempt.status not in (124, 137), f"{url} does not hang", attempt.text)
    return run, found


def is_answered(bed, client, **more):
    """By both origins; and each request is on record as what it was."""
    origins(bed)
    urls = ("https://api.test/hello?q=1", "http://plain.test/hello?q=1")
    run, found = attempts(bed, client, *urls, **more)
    for url, attempt in zip(urls, found):
        b.check(attempt.status == 0 and HELLO in attempt.text, f"{url} is answered", attempt.text, run.err)
        scheme, _, host = url.split("/")[:3]
        record = run.record("request", host=host)
        b.check(record["verdict"] == "allow" and record["status"] == 200 and record["scheme"] + ":" == scheme
                and record["path"].split("?")[0] == "/hello" and record["address"] == ORIGIN, "and on record", record)
    closed = run.record("connection", phase="close", destination="api.test")
    b.check(closed["tls"] == client.tls and closed["sni"] == "api.test", "over TLS", closed)
    run.verify()
    return run


def is_told(bed, client, **more):
    """Of a path that is denied, and of a host that no rule allows: by a message, and at once."""
    origins(bed)
    before = bed.tls.connections + bed.plain.connections
    paths = ("https://api.test/closed/x", "http://plain.test/closed/x")
    run, found = attempts(bed, client, *paths, "https://evil.test/x", "http://evil.test/x", **more)
    for url, attempt in zip(paths, found):
        b.check(client.denied in attempt.text, f"{url} is denied in words", attempt.text)
        record = run.record("request", host=url.split("/")[2])
        b.check(record["verdict"] == "deny" and record["rule"] == "closed" and record["status"] == 403
                and record["reason"] == "Closed to boxes.", "the record says by what", record)
        b.check(not client.shows_id or record["refusal"] in attempt.text, "the client shows its id", record, attempt.text)
    for attempt in found[2:]:
        b.check(attempt.status != 0 and client.refused in attempt.text, "a refused host is told", attempt.text)
    is_refused_on_record(bed, run, "evil.test", 443, 80)
    b.check(not run.records("dial") and bed.tls.connections + bed.plain.connections == before, "nothing was dialled")
    run.verify()
    return run


def is_told_why(bed, client, **more):
    """Under refusal: explain, a refused host's 403 is read as that of a path is."""
    origins(bed)
    run, found = attempts(bed, client, "https://evil.test/x", "http://evil.test/x", policy=EXPLAIN, **more)
    for attempt, scheme in zip(found, ("https", "http")):
        record = run.record("request", host="evil.test", scheme=scheme)
        b.check(record["verdict"] == "deny" and record["rule"] == "default", "on record", record)
        b.check(client.denied in attempt.text, "a refused host is told", attempt.text)
        b.check(not client.shows_id or record["refusal"] in attempt.text, "with its id", attempt.text)
    connections = run.records("connection")
    b.check(connections and all(r.get("verdict") == "deny" for r in connections), "as are the connections", connections)
    return run


def is_refused_on_record(bed, run, name, *ports):
    """The name and each port of the address that it got, as denied; and nobody else was asked for it."""
    b.check(run.records("dns", name=name, verdict="deny", rule="default"), f"{name} is on record", run.records("dns"))
    b.check(not bed.dns.asked(name), "and was not asked for upstream", bed.dns.queries)
    for port in ports:
        b.check(run.records("connect", destination=REFUSAL_ADDRESS, port=port, protocol="tcp", verdict="deny"),
                f"port {port}, too", run.records("connect"))
