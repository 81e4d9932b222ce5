"""Credentials: put on outside the box, only where they are bound, and cut out of what comes back."""

import base64
import json
import os
import subprocess

import bed as b

TOKEN = "tok-4c8e1f0a9b7d6e53"

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  api: {kind: bearer, secret: token, hosts: [api.test]}
  key: {kind: header, header: x-api-key, secret: token, hosts: [key.test]}
  user: {kind: basic, user: robot, secret: token, hosts: [basic.test]}
allow:
  - {id: api, hosts: [api.test], credential: api}
  - {id: key, hosts: [key.test], credential: key}
  - {id: basic, hosts: [basic.test], credential: user}
  - {id: other, hosts: [mine.test]}
"""

SECRETS = {"token": (TOKEN, ["api.test", "key.test", "basic.test"])}
NAMES = ("api.test", "key.test", "basic.test", "mine.test")


# Looks for the value, which it is given in two halves, in files and processes.
SEARCH = """
import os, urllib.request
urllib.request.urlopen("https://api.test/").read()
value, hits = ("%s" "%s").encode(), []
def look(path):
    try:
        with open(path, "rb") as f:
            if value in f.read(1 << 24):
                hits.append(path)
    except OSError:
        pass
for root in ("/etc", "/home", "/workspace", "/tmp", "/run", "/var"):
    for folder, _, files in os.walk(root):
        for name in files:
            look(os.path.join(folder, name))
for p in filter(str.isdigit, os.listdir("/proc")):
    look("/proc/" + p + "/environ")
    look("/proc/" + p + "/cmdline")
print("hits", hits)
"""


def _mirror(request, _origin):
    """Sends back all that came, in header and body, in awkward pieces."""
    authorization = request.get("authorization", "")
    value = authorization.split(" ")[-1] or request.get("x-api-key", "")
    body = json.dumps({"fields": request.fields, "body": request.body.decode("latin-1")})
    if request.target.startswith("/split"):
        n = int(request.target[6:])
        text = f"<<{value}>>".encode()
        chunks = [text[:n], text[n:]]
        return (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                + b"".join(f"{len(c):x}\r\n".encode() + c + b"\r\n" for c in chunks if c) + b"0\r\n\r\n")
    if request.target == "/gzip":
        import gzip
        return b.answer(200, gzip.compress(body.encode()), [("content-encoding", "gzip")])
    return b.answer(200, body, [("x-mirror", value), ("set-cookie", f"t={value}"), ("location", f"/?{value}")])


def _origins(bed):
    for name in NAMES:
        bed.dns.zone[name] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(_mirror), cert=bed.cert(*NAMES))
        bed.plain = b.Origin(bed, b.http(_mirror), port=80)
    bed.origin.requests.clear()


def each_kind_puts_its_field_on(bed):
    _origins(bed)
    run = bed.run("for n in api key basic mine; do curl -sS -o /dev/null https://$n.test/; done", POLICY, secrets=SECRETS)
    got = {r.get("host"): r for r in bed.origin.requests}
    b.check(got["api.test"].get("authorization") == f"Bearer {TOKEN}", "bearer", run.err)
    b.check(got["key.test"].get("x-api-key") == TOKEN and not got["key.test"].get("authorization"), "header")
    want = "Basic " + base64.b64encode(f"robot:{TOKEN}".encode()).decode()
    b.check(got["basic.test"].get("authorization") == want, "basic")
    b.check(not got["mine.test"].get("authorization") and not got["mine.test"].get("x-api-key"), "nothing elsewhere")
    b.check(len(run.records("credential", event="granted", source="file")) == 3, "each grant is recorded, with the source",
            run.records("credential"))


def a_grant_lasts_for_its_connection_where_only_the_host_counts(bed):
    _origins(bed)
    urls = lambda name: " ".join(f"-o /dev/null https://{name}.test/{i}" for i in range(8))
    run = bed.run(f"curl -sS {urls('api')}; curl -sS {urls('key')}", POLICY.replace("hosts: [key.test], credential: key",
                                                                          "hosts: [key.test], methods: [GET], credential: key"),
                  secrets=SECRETS)
    sent = [r.get("authorization") or r.get("x-api-key") for r in bed.origin.requests]
    b.check(sent == [f"Bearer {TOKEN}"] * 8 + [TOKEN] * 8, "each request bears it", run.err)
    granted = [r["destination"] for r in run.records("credential", event="granted")]
    b.check(0 < granted.count("api.test") < 8, "the broker is asked again once a second, not for each", granted)
    b.check(granted.count("key.test") == 8, "and for each where the request itself is judged", granted)
    named = [r.get("credential") for r in run.records("request", phase="end")]
    b.check(named == ["api"] * 8 + ["key"] * 8, "each request's record names it", named)


def the_answer_is_searched_and_filled_over_at_the_same_length(bed):
    _origins(bed)
    run = bed.run("curl -sS -i https://api.test/; curl -sS -i https://basic.test/", POLICY, secrets=SECRETS)
    encoded = base64.b64encode(f"robot:{TOKEN}".encode()).decode()
    b.check(run.out.count("HTTP/2 200") == 2, "both answered", run.out, run.err)
    b.check(TOKEN not in run.out and encoded not in run.out, "neither form comes back", run.out)
    b.check("[exeat:api]" in run.out, "it is filled over", run.out)
    b.check(any(r.get("scrubbed", 0) >= 3 for r in run.records("request")), "counted", run.records("request"))


def a_value_split_anywhere_is_found(bed):
    _origins(bed)
    run = bed.run(f"for i in $(seq 0 {len(TOKEN) + 4}); do curl -sS https://api.test/split$i; echo; done", POLICY, secrets=SECRETS)
    lines = run.out.split()
    b.check(len(lines) == len(TOKEN) + 5, "each answered", run.out, run.err)
    for line in lines:
        b.check(TOKEN not in line and len(line) == len(TOKEN) + 4 and line.startswith("<<[exeat"), "filled over", line)


def a_coding_that_cannot_be_searched_is_asked_away_and_refused(bed):
    _origins(bed)
    run = bed.run("curl -sS --compressed -o /dev/null https://api.test/; curl -sS https://api.test/gzip", POLICY, secrets=SECRETS)
    accepts = bed.origin.requests[0].get("accept-encoding")
    b.check(accepts in (None, "identity"), "identity is asked for", accepts)
    b.check("cannot be searched" in run.out, "a coding that comes anyway is refused", run.out, run.err)


def what_the_box_brings_itself_is_stripped_and_recorded(bed):
    _origins(bed)
    run = bed.run("curl -sS -o /dev/null -H 'Authorization: Bearer mine-mine-mine' -H 'Cookie: a=b' -H 'X-Api-Key: mine' https://api.test/;"
                  "curl -sS -o /dev/null -H 'Authorization: Bearer mine-mine-mine' https://mine.test/", POLICY, secrets=SECRETS)
    first, second = bed.origin.requests
    b.check(first.get("authorization") == f"Bearer {TOKEN}" and not first.get("cookie") and not first.get("x-api-key"),
            "only Exeat's own", first.fields, run.err)
    b.check(len([f for f in first.fields if f[0].lower() == "authorization"]) == 1, "and once", first.fields)
    b.check(second.get("authorization") == "Bearer mine-mine-mine", "elsewhere it is the box's business", second.fields)
    stripped = set(" ".join(r["field"] for r in run.records("credential", event="stripped")).split())
    b.check({"authorization", "cookie", "x-api-key"} <= stripped, "recorded by name", stripped)
    with open(run.log_path, encoding="utf-8") as f:
        b.check("mine-mine-mine" not in f.read(), "never by value")


def foreign_refuse_refuses(bed):
    _origins(bed)
    run = bed.run("curl -sS -H 'Authorization: Bearer mine-mine-mine' https://api.test/", POLICY.replace(
        "secret: token, hosts: [api.test]}", "secret: token, hosts: [api.test], foreign: refuse}"), secrets=SECRETS)
    b.check("credential of its own" in run.out and not bed.origin.requests, "refused, nothing sent", run.out, run.err)


def the_value_follows_no_spoofed_host(bed):
    _origins(bed)
    run = bed.run("for h in 'Host: api.test' 'X-Forwarded-Host: api.test'; do curl -sS -o /dev/null -w '%{http_code} ' -H \"$h\" https://mine.test/; done;"
                  "curl -sS --http1.1 -o /dev/null -w '%{http_code} ' --request-target https://api.test/ https://mine.test/;"
                  "printf 'GET / HTTP/1.1\\r\\nHost: mine.test\\r\\nHost: api.test\\r\\n\\r\\n' | openssl s_client -quiet -connect mine.test:443 -servername mine.test 2>/dev/null | head -c 12",
                  POLICY, secrets=SECRETS)
    b.check(run.out.startswith("421 200 421 HTTP/1.1 400"), "each refused but the harmless one", run.out, run.err)
    for request in bed.origin.requests:
        b.check(TOKEN not in str(request.fields), "no origin got it", request.fields)


def nothing_is_sent_to_an_origin_that_does_not_verify(bed):
    _origins(bed)
    received = []

    def swallow(s, origin):
        received.append(s.recv(4096))
    bad = {"wrong": bed.cert("elsewhere.test"), "expired": bed.cert("api.test", days="-1"),
           "early": bed.cert("api.test", start="20400101000000Z"),
           "self": bed.cert("api.test", ca=False), "cn": bed.cert(cn="api.test", san="DNS:other.test")}
    for n, (why, cert) in enumerate(bad.items()):
        address = f"203.0.113.{20 + n}"
        bed.dns.zone["api.test"] = [address]
        origin = b.Origin(bed, swallow, address=address, cert=cert)
        run = bed.run("curl -sS -i https://api.test/", POLICY, secrets=SECRETS)
        b.check("HTTP/2 502" in run.out and "tls_certificate_error" in run.out, "502 with the exact error", why, run.out, run.err)
        b.check(origin.connections >= 1 and not any(received), "not a byte of the request was sent", why, received)
        text = {"wrong": "hostname mismatch", "expired": "expired", "early": "not yet valid", "self": "self-signed",
                "cn": "hostname mismatch"}[why]
        b.check(text in run.out.lower(), f"it says {text}", run.out)
        b.check(run.records("request", proxy_error="tls_certificate_error"), "recorded", run.records("request"))
        b.check(not run.records("credential", event="granted"), "nothing was granted", why)


def a_credential_is_not_put_on_over_plain_http(bed):
    _origins(bed)
    policy = POLICY.replace("- {id: api, hosts: [api.test], credential: api}",
                            "- {id: api, hosts: [api.test], protocol: http, credential: api}")
    run = bed.run("curl -sS http://api.test/", policy, secrets=SECRETS)
    b.check(run.status == 1 and "not put on over plain HTTP" in run.err, "such a policy does not load", run.err)
    policy = policy.replace("protocol: http, credential", "protocol: http, plaintext: true, credential")
    run = bed.run("curl -sS http://api.test/", policy, secrets=SECRETS)
    b.check(bed.plain.requests[0].get("authorization") == f"Bearer {TOKEN}" and TOKEN not in run.out,
            "unless it says that it may", run.out, run.err)


def a_secret_from_the_environment_is_used_and_taken_away(bed):
    _origins(bed)
    secrets = {"token": ({"env": "EXEAT_TEST_TOKEN"}, ["api.test", "key.test", "basic.test"])}
    run = bed.start("curl -sS -o /dev/null https://api.test/; echo up; read x", POLICY, secrets=secrets,
                    stdin=subprocess.PIPE, env=dict(os.environ, EXEAT_TEST_TOKEN=TOKEN))
    b.check(run.process.stdout.readline() == b"up\n", "the command is up")
    family = run.family()
    b.check({"exeat", "exeat-broker", "exeat-worker"} <= {name for _, name in family.values()}, "all are looked at", family)
    for pid in family:
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                environment = f.read()
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                environment += f.read()
        except OSError:
            continue
        b.check(TOKEN.encode() not in environment, "in no process's environment or arguments", pid)
    run.process.stdin.write(b"\n")
    run.process.stdin.close()
    run.process.stdin = None
    run.wait(30)
    b.check(bed.origin.requests[-1].get("authorization") == f"Bearer {TOKEN}", "it was used", run.err)


def the_value_is_nowhere_in_the_box_or_its_kin(bed):
    _origins(bed)
    search = SEARCH % (TOKEN[:9], TOKEN[9:])
    run = bed.run(["python3", "-c", search], POLICY, secrets=SECRETS)
    b.check("hits []" in run.out, "found nowhere", run.out, run.err)
    b.check(TOKEN not in run.err, "nor in what Exeat says")


b.main(b.cases(globals()))
