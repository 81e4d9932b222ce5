"""What a refusal looks like from inside the box: at once, in the protocol's own form."""

import json

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - id: api
    hosts: [api.test]
    methods: [GET]
  - id: all-of-wide
    hosts: ["*.wide.test"]
deny:
  - id: no-gists
    hosts: [api.test]
    paths: [/gists/**]
    reason: Gists are readable by anyone with the link.
  - id: never
    hosts: [never.wide.test]
    reason: Not this one.
"""

# Prints errno and milliseconds of a connection, or of a datagram's answer.
PROBE = """
import errno, socket, sys, time
def tcp(host, port):
    start = time.monotonic()
    try:
        socket.create_connection((host, port), timeout=5).close()
        result = "connected"
    except OSError as e:
        result = errno.errorcode.get(e.errno, type(e).__name__)
    print(host, port, result, "slow" if time.monotonic() - start > 3 else "fast", flush=True)
def udp(host, port):
    start = time.monotonic()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.connect((host, port))
    try:
        s.send(b"x" * 1200)
        s.recv(100)
        result = "answered"
    except OSError as e:
        result = errno.errorcode.get(e.errno, type(e).__name__)
    print("udp", host, port, result, "slow" if time.monotonic() - start > 3 else "fast", flush=True)
"""


def python(code):
    return ["python3", "-c", PROBE + code]


def _origins(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    bed.dns.zone["evil.test"] = ["203.0.113.10"]
    bed.dns.zone["ok.wide.test"] = ["203.0.113.10"]
    bed.dns.zone["never.wide.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test", "*.wide.test", "evil.test"))
        bed.plain = b.Origin(bed, b.http(b.echo), port=80)


def a_refused_host_port_and_literal_are_refused_at_once(bed):
    _origins(bed)
    run = bed.run(python("""
tcp("evil.test", 443)
tcp("never.wide.test", 443)
tcp("api.test", 80)
tcp("api.test", 9999)
tcp("203.0.113.10", 443)
tcp("203.0.113.10", 80)
tcp("169.254.169.254", 80)
tcp("203.0.113.1", 22)
tcp("api.test", 15001)
tcp("8.8.8.8", 15001)
"""), POLICY)
    lines = run.out.splitlines()
    b.check(len(lines) == 10, "every probe answered", run.out, run.err)
    for line in lines:
        b.check(line.endswith("ECONNREFUSED fast"), "refused, and at once", line)
    b.check("evil.test" not in [q[0] for q in bed.dns.queries], "a refused name is not asked upstream",
            bed.dns.queries)
    b.check(bed.origin.connections == 0, "nothing reached the origin")
    b.check(run.records("dns", name="evil.test", verdict="deny", rule="default"), "the name is recorded",
            run.records("dns"))
    b.check(run.records("dns", name="never.wide.test", verdict="deny", rule="never"), "with its rule")
    b.check(run.records("connect", destination="169.254.169.254", port=80, verdict="deny"),
            "the literal is recorded", run.records("connect"))
    run.verify()


def udp_and_quic_are_refused_at_once(bed):
    _origins(bed)
    run = bed.run(python("""
udp("203.0.113.10", 443)
udp("203.0.113.10", 5353)
"""), POLICY)
    for line in run.out.splitlines():
        b.check(line.endswith("ECONNREFUSED fast"), "port unreachable, and at once", line)
    b.wait_until("the record", lambda: run.records("connect", protocol="udp", port=443, verdict="deny"), 5)


def ipv6_leads_nowhere(bed):
    _origins(bed)
    run = bed.run(python("""
import socket
for target in ("2001:db8::10", "fe80::1%eth0", "::1"):
    s = socket.socket(socket.AF_INET6)
    s.settimeout(2)
    try:
        s.connect((target, 443)); print(target, "connected")
    except OSError as e:
        print(target, "refused")
"""), POLICY)
    b.check(run.out.count("refused") == 3, "no address of IPv6 is reachable", run.out, run.err)


def a_deny_by_path_is_a_403_with_rule_and_reason(bed):
    _origins(bed)
    run = bed.run("curl -sS -i https://api.test/gists/1; curl -sS -o /dev/null -w '%{http_code}' https://api.test/x;"
                  "curl -sS -o /dev/null -w ' %{http_code}' -X POST -d x https://api.test/x", POLICY)
    head, _, rest = run.out.replace("\r", "").partition("\n\n")
    b.check(head.startswith("HTTP/2 403"), "403", run.out, run.err)
    b.check("proxy-status: exeat; error=http_request_denied" in head.lower(), "Proxy-Status", head)
    b.check("application/problem+json" in head, "problem+json", head)
    body, end = json.JSONDecoder().raw_decode(rest)
    b.check(body["rule"] == "no-gists" and "Gists are readable" in json.dumps(body), "rule and reason", body)
    b.check(rest[end:].strip() == "200 403", "GET passes, POST does not", rest[end:])
    record = run.record("request", path="/gists/1")
    b.check(record["verdict"] == "deny" and record["rule"] == "no-gists" and record["status"] == 403,
            "the record says the same", record)
    b.check(record["refusal"] == body["refusal"], "one id ties body and record", record, body)
    b.check(record["rule_at"].endswith(":10"), "and where the rule stands", record)
    run.verify()


def a_plain_request_to_a_tls_port_and_tls_to_a_plain_one_are_refused(bed):
    _origins(bed)
    policy = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: tls, hosts: [api.test]}
  - {id: plain, hosts: [evil.test], protocol: http}
"""
    run = bed.run("curl -sS -i http://api.test:443/; echo; curl -sS https://evil.test:80/; echo $?;"
                  "curl -sS -o /dev/null -w '%{http_code}' http://evil.test/", policy)
    b.check(run.out.startswith("HTTP/1.1 4"), "plain HTTP where the rule wants TLS", run.out)
    b.check("\n35\n" in run.out, "TLS where the rule wants plain HTTP ends with an alert", run.out, run.err)
    b.check(run.out.endswith("200"), "the plain rule works", run.out)


def explain_tells_why_instead_of_refusing_the_connection(bed):
    _origins(bed)
    run = bed.run("curl -sS -i https://evil.test/a; echo; curl -sS -i http://evil.test/b",
                  POLICY.replace("allow:", "refusal: explain\nallow:", 1))
    b.check(run.out.startswith("HTTP/2 403") and run.out.count("HTTP/1.1 403") == 1, "both schemes get the 403", run.out, run.err)
    b.check(run.out.count('"rule":"default"') == 2, "with the rule", run.out)
    b.check(bed.dns.asked("evil.test") == [], "and still nothing is asked upstream")


def a_host_that_is_not_the_resolved_name_is_misdirected(bed):
    _origins(bed)
    run = bed.run("curl -sS -o /dev/null -w '%{http_code}\\n' -H 'Host: ok.wide.test' https://api.test/;"
                  "curl -sS -k --connect-to evil.test:443:api.test:443 https://evil.test/; echo $?", POLICY)
    b.check(run.out.startswith("421\n"), "a foreign Host is 421", run.out, run.err)
    b.check(run.out.endswith("35\n"), "a foreign SNI is an alert", run.out, run.err)
    record = run.records("request", status=421)
    b.check(record and record[0]["verdict"] == "deny", "recorded", run.records("request"))


def names_match_in_any_case_and_with_a_final_dot(bed):
    _origins(bed)
    run = bed.run("for n in API.Test api.test. OK.Wide.TEST; do curl -sS -k -o /dev/null -w '%{http_code} ' https://$n/; done;"
                  "for n in NEVER.wide.test. eviltest.test x.ok.wide.test wide.test; do curl -sS https://$n/ 2>/dev/null; echo $?; done",
                  POLICY)
    b.check(run.out.split() == ["200", "200", "200", "7", "7", "7", "7"], "allowed and refused as written",
            run.out, run.err)
    b.check({r["host"] for r in run.records("request")} == {"api.test", "ok.wide.test"},
            "one canonical name in every record", run.records("request"))


def a_name_that_resolves_into_a_prohibited_range_is_not_dialled(bed):
    _origins(bed)
    answers = {"meta.wide.test": "169.254.169.254", "loop.wide.test": "127.0.0.1", "priv.wide.test": "10.0.0.5",
               "cgn.wide.test": "100.64.0.1", "zero.wide.test": "0.0.0.0", "own.wide.test": bed.HOST}
    for name, address in answers.items():
        bed.dns.zone[name] = [address]
    bed.dns.zone["mix.wide.test"] = ["10.0.0.5", "203.0.113.10"]
    run = bed.run(f"for n in {' '.join(answers)} mix.wide.test; do curl -sS -o /dev/null -w '%{{http_code}}\\n' https://$n/; done",
                  POLICY)
    b.check(run.out.split() == ["502"] * len(answers) + ["200"], "502 for each, the public one of a mix is used",
            run.out, run.err)
    b.check(len([r for r in run.records("request") if r.get("proxy_error") == "destination_ip_prohibited"])
            == len(answers), "with the exact error", run.records("request"))


b.main(b.cases(globals()))
