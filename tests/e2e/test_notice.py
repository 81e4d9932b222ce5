#!/usr/bin/env python3
"""The notice page, asked by curl in a box: each page, what it says, and what it does not."""

import json
import ssl

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  hidden-credential: {kind: bearer, secret: hidden_secret, hosts: [api.test]}
allow:
  - id: api
    hosts: [api.test]
    methods: [GET]
    credential: hidden-credential
  - {id: web, hosts: [api.test], protocol: http}
deny:
  - id: no-gists
    hosts: [api.test]
    paths: [/gists/**]
    reason: Gists are readable by anyone with the link.
"""
SECRETS = {"hidden_secret": ("s3cr3t-value-of-the-token", ["api.test"])}
URL = "http://exeat.internal"


def _origins(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))
        bed.plain = b.Origin(bed, b.http(b.echo), port=80)


def _run(bed, command):
    _origins(bed)
    return bed.run(command, POLICY, secrets=SECRETS)


def the_first_page_says_where_one_is_and_needs_no_rule(bed):
    run = _run(bed, f"curl -sS -i {URL}/")
    b.check(run.out.startswith("HTTP/1.1 200 OK"), "200", run.out, run.err)
    b.check("text/plain" in run.out and "only way out of this sandbox" in run.out, "plain text", run.out)
    b.check("access-control-allow-origin" not in run.out.lower(), "no CORS", run.out)
    record = run.record("request", host="exeat.internal")
    b.check(record["verdict"] == "allow" and record["status"] == 200 and record["path"] == "/"
            and "address" not in record, "on record, and nothing was dialled", record)
    names = run.records("dns", name="exeat.internal", verdict="allow")
    b.check(names and not any("rule" in r for r in names), "no rule allowed the name", names)
    b.check(bed.dns.asked("exeat.internal") == [], "the name is not asked upstream")
    b.check(bed.plain.connections == 0, "and nothing went out")
    run.verify()


def the_operators_words_stand_on_it(bed):
    settings = bed.settings(SECRETS, extra="notice:\n  contact: Ask in \"#sandboxes\", please.\n")
    _origins(bed)
    run = bed.run(f"curl -sS {URL}/", POLICY, settings=settings)
    b.check('Ask in "#sandboxes", please.' in run.out, "whom to ask", run.out, run.err)


def the_gateways_address_serves_it_and_only_port_80_of_it(bed):
    run = _run(bed, "set -- $(cat /etc/resolv.conf); shift; curl -sS -o /dev/null -w '%{http_code} ' http://$1/policy;"
               f"curl -sS -o /dev/null -w '%{{remote_ip}} ' {URL}/; echo $1; curl -sS https://exeat.internal/; echo $?")
    words = run.out.split()
    b.check(words[0] == "200" and words[1] == words[2] and words[3] == "7", "by address and by name", run.out, run.err)


def every_refusal_is_listed_with_rule_and_reason(bed):
    run = _run(bed, "curl -sS -o /dev/null https://evil.test/; curl -sS -o /dev/null http://203.0.113.99/;"
               "curl -sS https://api.test/gists/1; curl -sS -o /dev/null https://api.test/gists/1;"
               "curl -sS -k -o /dev/null --connect-to evil.test:443:api.test:443 https://evil.test/;"
               f"curl -sS {URL}/refusals; curl -sS {URL}/refusals?format=text")
    decoder = json.JSONDecoder()
    problem, end = decoder.raw_decode(run.out)
    b.check(problem["help"] == f"{URL}/refusals", "the 403 says where to look", problem)
    page, n = decoder.raw_decode(run.out[end:].lstrip())
    text = run.out[end:].lstrip()[n:]
    listed = page["refusals"]
    by = lambda **want: [r for r in listed if all(r.get(k) == v for k, v in want.items())]
    gists = by(step="http", path="/gists/1")
    b.check(len(gists) == 1 and gists[0]["rule"] == "no-gists" and gists[0]["count"] == 2
            and gists[0]["reason"].startswith("Gists are") and gists[0]["retry"] == "ask"
            and gists[0]["method"] == "GET", "the request, counted", listed)
    b.check(run.records("request", refusal=gists[0]["id"]), "its id is the log's", gists, run.records("request"))
    b.check(by(step="dns", host="evil.test", rule="default"), "the name", listed)
    b.check(by(step="connect", host="203.0.113.99", port=80, rule="default"), "the address", listed)
    b.check(by(step="tls", host="api.test", retry="never"), "the hello", listed)
    b.check(listed[0]["step"] == "tls", "the newest first", listed)
    b.check("rule no-gists: Gists are readable" in text and "refusal " + gists[0]["id"] in text, "and as text", text)


def the_policy_is_told_without_its_secrets(bed):
    run = _run(bed, f"curl -sS {URL}/policy; curl -sS -H 'Accept: text/plain' {URL}/policy")
    page, end = json.JSONDecoder().raw_decode(run.out)
    allow, deny = page["allow"], page["deny"]
    b.check([r["id"] for r in allow] == ["api", "web"] and [r["id"] for r in deny] == ["no-gists"], "all rules", page)
    b.check(allow[0]["hosts"] == ["api.test"] and allow[0]["methods"] == ["GET"] and allow[0]["ports"] == ["443"]
            and allow[0]["protocols"] == ["https"] and allow[0]["credential"] is True, "with what they say", allow)
    b.check(deny[0]["paths"] == ["/gists/**"] and deny[0]["reason"].startswith("Gists"), "denies too", deny)
    b.check(page["default"] == "deny" and page["complete"] is True, "and how it ends", page)
    b.check("no-gists: Gists are" in run.out[end:] and "methods: GET" in run.out[end:], "as text", run.out[end:])
    b.check("hidden" not in run.out and "s3cr3t" not in run.out and ".yaml" not in run.out,
            "no credential's name, no secret, no file", run.out)


def check_answers_as_explain_would(bed):
    run = _run(bed, f"for q in 'url=https%3A%2F%2Fapi.test%2Fx' 'method=POST&url=https://api.test/x' 'url=https://api.test/gists/1'"
               f" 'url=https://evil.test/' 'url=https://api.test/a%252fb'; do curl -sS \"{URL}/check?$q\"; done;"
               f"for q in '' 'url=%' 'url=x' 'url=https://api.test/&b=c' 'url=https://api.test/&url=x' 'url=https://a.test/%0a'; do"
               f" curl -sS -w '%{{http_code}} ' -o /dev/null \"{URL}/check?$q\"; done")
    decoder, found, rest = json.JSONDecoder(), [], run.out
    for _ in range(5):
        one, end = decoder.raw_decode(rest)
        found.append(one)
        rest = rest[end:].lstrip()
    allowed, method, gists, evil, ambiguous = found
    b.check(allowed["verdict"] == "allow" and allowed["rule"] == "api", "an allowed one", allowed, run.err)
    b.check(method["verdict"] == "deny" and any("if the method were GET" in l for l in method["explanation"]),
            "a near miss", method)
    b.check(gists["verdict"] == "deny" and gists["rule"] == "no-gists" and gists["retry"] == "ask"
            and gists["reason"].startswith("Gists"), "a deny", gists)
    b.check(evil["verdict"] == "deny" and evil["rule"] == "default", "a name that no rule has", evil)
    b.check(ambiguous["verdict"] == "deny" and "rule" not in ambiguous, "a path with two readings", ambiguous)
    b.check(rest.split() == ["400"] * 6, "what is no question is 400", rest)
    b.check("hidden" not in run.out and ".yaml" not in run.out, "no credential's name, no file", run.out)


def access_is_asked_for_and_on_record(bed):
    run = _run(bed, f"curl -sS -i {URL}/request --data-urlencode method=POST --data-urlencode url=https://new.test/x?y=1"
               " --data-urlencode reason='to send the report'; echo;"
               f"curl -sS {URL}/request -H 'Content-Type: application/json' -d '{{\"url\":\"https://new.test/z\"}}';"
               f"curl -sS {URL}/request -d url=https://api.test/x; curl -sS -o /dev/null -w '%{{http_code}} ' {URL}/request -d url=x;"
               f"curl -sS -o /dev/null -w '%{{http_code}} ' {URL}/request -H 'Content-Type: text/plain' -d url=x")
    b.check(run.out.startswith("HTTP/1.1 202 Accepted"), "202", run.out, run.err)
    b.check('"number":1,"state":"open"' in run.out and '"number":2' in run.out, "with a number", run.out)
    b.check('"state":"allowed","rule":"api"' in run.out, "what is allowed need not be asked for", run.out)
    b.check(run.out.endswith("400 415 "), "what is no request is told", run.out)
    record = run.record("access_request", number=1)
    b.check(record["event"] == "asked" and record["method"] == "POST" and record["url"] == "https://new.test/x?y=1"
            and record["reason"] == "to send the report", "it is on record", record)
    b.check(len(run.records("access_request")) == 2, "once each", run.records("access_request"))
    run.verify()


def asking_too_often_is_a_429(bed):
    run = _run(bed, f"for i in $(seq 12); do curl -sS -o /dev/null -D - {URL}/request -d url=https://new.test/$i; done")
    b.check(run.out.count("HTTP/1.1 202") == 10 and run.out.count("HTTP/1.1 429") == 2, "ten a minute", run.out)
    b.check(run.out.lower().count("retry-after:") == 2, "and when again", run.out)


def the_certificate_is_the_boxes_own(bed):
    run = _run(bed, f"curl -sS {URL}/ca.pem > /tmp/ca.pem; cat /tmp/ca.pem; curl -sS -o /dev/null -w '%{{http_code}}'"
               f" --cacert /tmp/ca.pem https://api.test/x; curl -sS {URL}/ca.pem")
    pems = run.out.split("-----END CERTIFICATE-----\n")
    b.check(pems[1].startswith("200"), "curl with that alone verifies", run.out, run.err)
    b.check(pems[0] == pems[1][3:], "it stays the same", pems)
    ssl.PEM_cert_to_DER_cert(pems[0] + "-----END CERTIFICATE-----\n")


def a_page_of_somebody_elses_reads_nothing(bed):
    run = _run(bed, f"c() {{ curl -sS -o /dev/null -w '%{{http_code}} ' \"$@\"; }}; c -H 'Host: evil.test' {URL}/refusals;"
               f"c --resolve evil.test:80:$(getent ahostsv4 exeat.internal | head -1 | cut -d' ' -f1) http://evil.test/;"
               f"c -H 'Origin: http://evil.test' {URL}/request -d url=https://x.test/;"
               f"c -H 'Origin: {URL}' {URL}/policy; c -0 {URL}/; c -I {URL}/policy; c -X OPTIONS {URL}/policy;"
               f"c -X DELETE {URL}/; c {URL}/nothing; c {URL}/refusals/; c {URL}/policy?x=1; c {URL}/request")
    b.check(run.out.split() == "421 421 403 200 200 200 405 405 404 404 400 405".split(), "each its status", run.out,
            run.err)
    b.check(len(run.records("request", status=421, verdict="deny", reason="host-mismatch")) == 2, "and on record",
            run.records("request"))
    b.check(not run.records("access_request"), "nothing was asked for")


def a_flood_of_requests_is_counted_and_slowed(bed):
    run = _run(bed, f"curl -sS -o /dev/null -w '%{{http_code}}\\n' '{URL}/policy?format=text#[1-400]'")
    codes = run.out.split()
    b.check(len(codes) == 400 and codes.count("200") >= 100 and "429" in codes, "a burst, then 429",
            {c: codes.count(c) for c in set(codes)}, run.err)
    records = run.records("request", host="exeat.internal")
    b.check(len(records) < 60, "few lines", len(records))
    b.check(sum(r.get("count", 1) for r in records) == 400, "which tell of all", records)


b.main(b.cases(globals()))
