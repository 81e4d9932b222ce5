"""HTTP/2 from the box, with clients that nobody here wrote; an origin that speaks HTTP/1.1 is reached by
them as well. What a peer does that means no good ends its connection, and nothing else."""

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
  - {id: free, hosts: [free.test]}
  - {id: plain, hosts: [plain.test], protocol: http}
deny:
  - {id: no-admin, hosts: [api.test], paths: [/admin/**]}
"""


def _origins(bed):
    bed.dns.zone.update({"api.test": ["203.0.113.10"], "free.test": ["203.0.113.11"], "plain.test": ["203.0.113.12"]})
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))
        bed.plain = b.Origin(bed, b.http(b.echo), address="203.0.113.12", port=80)


def curl_speaks_http2_to_an_origin_that_does_not(bed):
    _origins(bed)
    run = bed.run("curl -sS --http2 -w ' %{http_version} %{http_code}\n' https://api.test/a https://api.test/b; "
                  "curl -sS --http2-prior-knowledge -w ' %{http_version} %{http_code}\n' http://plain.test/c;"
                  "curl -sS --http2 -w ' %{http_version} %{http_code}\n' https://api.test/admin/x", POLICY)
    b.check(run.out.count(" 2 200") == 3 and run.out.count(" 2 403") == 1, "answered over HTTP/2", run.out, run.err)


b.main(b.cases(globals()))
