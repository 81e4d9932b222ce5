#!/usr/bin/env python3
"""The explicit proxy, asked by clients that nobody here wrote: CONNECT, whole URLs and SOCKS5 reach what the
policy allows and nothing else, are told of refusals in their own words, and are on record like any connection."""

import json
import os
import pathlib
import subprocess

import appliance
import bed as b
import clients as c

PROXY = "http://exeat.internal:3128"
SOCKS = "exeat.internal:3128"
TOKEN = "real-token-5f3a9c2e7d1b"
POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  key: {kind: bearer, secret: token, hosts: [secret.test]}
allow:
  - {id: api, hosts: [api.test, git.test]}
  - {id: plain, hosts: [plain.test, other.test], protocol: http}
  - {id: secret, hosts: [secret.test], credential: key}
  - {id: address, addresses: [203.0.113.14/32], ports: [80], protocol: http}
deny:
  - {id: closed, hosts: [api.test, plain.test], paths: [/closed/**], reason: Closed to boxes.}
"""
SECRETS = {"token": (TOKEN, ["secret.test"])}
CODE = "curl -sS -o /dev/null -w '%{http_code} '"
# Raw bytes: `say` prints the answer to what is sent, "-" where there is none; SOCKS names and addresses.
TALK = r"""
import socket, struct, sys, time
def dial():
    return socket.create_connection(("exeat.internal", 3128), 20)
def rest(s):
    got = b""
    try:
        while piece := s.recv(65536):
            got += piece
    except OSError as e:
        return got + b"!" + type(e).__name__.encode()
    return got
def say(*pieces, end=True):
    try:
        with dial() as s:
            for p in pieces:
                s.sendall(p)
            if end:
                s.shutdown(socket.SHUT_WR)
            return rest(s)
    except ConnectionResetError as e:     # so early can it come
        return b"!" + type(e).__name__.encode()
def name(host, port=443, command=1):
    return b"\5\1\0\5" + bytes([command]) + b"\0\3" + bytes([len(host)]) + host.encode() + struct.pack("!H", port)
def v4(host, port=80):
    return b"\5\1\0\5\1\0\1" + socket.inet_aton(host) + struct.pack("!H", port)
def v6(host, port=80):
    return b"\5\1\0\5\1\0\4" + socket.inet_pton(socket.AF_INET6, host) + struct.pack("!H", port)
def status(answer):
    return answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/1.1 ") else repr(answer[:40])
"""


def _origins(bed):
    bed.dns.zone.update({n: [c.ORIGIN] for n in ("api.test", "plain.test", "other.test", "secret.test", "git.test", "evil.test")})
    if hasattr(bed, "tls"):
        return
    bed.files = {}

    def serve(request, origin):
        file = bed.files.get(request.target.partition("?")[0])
        return b.answer(200, file) if file is not None else c.page(request, origin)
    bed.tls = b.Origin(bed, b.http(serve), address=c.ORIGIN,
                       cert=bed.cert("api.test", "secret.test", "git.test", "evil.test"))
    bed.plain = b.Origin(bed, b.http(c.page), address=c.ORIGIN, port=80)


def _run(bed, command, **more):
    _origins(bed)
    more.setdefault("secrets", SECRETS)
    return bed.run(command, POLICY, **more)


def _talk(bed, code, **more):
    return _run(bed, ["python3", "-c", TALK + code], **more)


def _is_on_record(run, via, host, port):
    closed = run.record("connection", phase="close", via=via, destination=host, port=port)
    b.check("synthetic" not in closed, "by its name, with no address of the box's", closed)
    return closed


# ---- what goes through ----


def curl_connect_is_answered_and_on_record(bed):
    run = _run(bed, f"curl -sS -x {PROXY} https://api.test/hello; curl -sS -x {PROXY} -p http://plain.test/hello")
    b.check(run.out.count(c.HELLO) == 2, "both", run.out, run.err)
    b.check(run.record("request", host="api.test")["verdict"] == "allow", "each request on record")
    closed = _is_on_record(run, "connect", "api.test", 443)
    b.check(closed["sni"] == "api.test" and closed["tls"] == "TLSv1.3" and closed["address"] == c.ORIGIN, "as any", closed)
    _is_on_record(run, "connect", "plain.test", 80)
    b.check(not run.records("dns", name="api.test"), "the box has resolved nothing", run.records("dns"))
    run.verify()


def curl_whole_urls_name_one_host_after_the_other(bed):
    run = _run(bed, f"curl -sS -x {PROXY} http://plain.test/1 http://other.test/2 http://plain.test/closed/x http://evil.test/3"
               f" http://other.test/4 -w '%{{http_code}} %{{num_connects}}\\n' | grep -v '^{{\\|^hello'")
    b.check(run.out.split("\n")[:5] == ["200 1", "200 0", "403 0", "403 0", "200 0"], "one connection, each judged", run.out, run.err)
    hosts = [(r["host"], r["verdict"]) for r in run.records("request", phase="end")]
    b.check(hosts == [("plain.test", "allow"), ("other.test", "allow"), ("plain.test", "deny"), ("evil.test", "deny"),
                      ("other.test", "allow")], "on record", hosts)
    opened = run.record("connection", phase="open", via="absolute")
    b.check("destination" not in opened and opened["port"] == 3128, "the connection is the proxy's", opened)
    run.verify()


def curl_socks5_by_name_and_by_address(bed):
    run = _run(bed, f"curl -sS --socks5-hostname {SOCKS} https://api.test/1; curl -sS --socks5 {SOCKS} https://api.test/2;"
               f"curl -sS -x socks5h://{SOCKS} http://plain.test/3; curl -sS -x socks5h://u:p@{SOCKS} http://plain.test/4;"
               f"curl -sS -x socks5h://{SOCKS} http://{c.ORIGIN}/5; curl -sS -g -x socks5h://{SOCKS} 'http://[2001:db8::14]/6' 2>&1; echo [$?]")
    b.check(run.out.count(c.HELLO) == 5 and "[97]" in run.out, "all", run.out, run.err)
    records = run.records("connection", phase="close", via="socks5")
    b.check(len(records) == 6, "on record", records)
    b.check([r for r in records if r["destination"] == "api.test" and r.get("synthetic", "").startswith("198.18.")],
            "an address that stands for a name is that name", records)
    b.check([r for r in records if r["destination"] == c.ORIGIN and r["rule"] == "address"], "one that does not is judged as one", records)
    b.check([r for r in records if r["destination"] == "2001:db8::14" and r["verdict"] == "deny"], "IPv6, too", records)
    run.verify()


def a_credential_is_put_on_whatever_the_way(bed):
    run = _run(bed, f"curl -sS -x {PROXY} https://secret.test/; curl -sS --socks5-hostname {SOCKS} https://secret.test/;"
               f"curl -sS -x {PROXY} -H 'Proxy-Authorization: Basic bWluZQ==' https://secret.test/")
    got = [r for r in bed.tls.requests if r.get("host") == "secret.test"]
    b.check(len(got) == 3 and all(r.get("authorization") == f"Bearer {TOKEN}" for r in got), "at the origin", run.out, run.err)
    b.check(not any(r.get("proxy-authorization") for r in got), "and nothing that was the proxy's")
    b.check(TOKEN not in run.out and len(run.records("request", credential="key", phase="end")) == 3, "not in the box", run.out)


def the_variables_that_clients_know(bed):
    """wget, git, python's urllib and requests by the environment; requests with SOCKS by PySocks."""
    _origins(bed)
    seed, bare = bed.path("explicit-seed"), bed.path("explicit.git")
    git = lambda *args: subprocess.run(("git", *args), check=True, capture_output=True,
                                       env=dict(os.environ, HOME=bed.dir, GIT_CONFIG_NOSYSTEM="1"))
    if not os.path.exists(bare):
        git("init", "-q", "-b", "main", seed)
        pathlib.Path(seed, "file").write_text("kept\n", encoding="utf-8")
        git("-C", seed, "add", ".")
        git("-C", seed, "-c", "user.name=T", "-c", "user.email=t@test", "commit", "-qm", "first")
        git("clone", "-q", "--bare", seed, bare)
        git("-C", bare, "update-server-info")
    bed.files = {f"/site.git/{p.relative_to(bare)}": p.read_bytes() for p in pathlib.Path(bare).rglob("*") if p.is_file()}
    requests = "import requests as r; print(r.get('https://api.test/requests').text, r.get('http://plain.test/requests').text)"
    run = _run(bed, f"export http_proxy={PROXY} https_proxy={PROXY} HTTPS_PROXY={PROXY}; cd /tmp;"
               "wget -qO- https://api.test/wget; wget -qO- http://plain.test/wget;"
               "git clone -q https://git.test/site.git && cat site/file;"
               f'python3 -c "{requests}";'
               "python3 -c \"import urllib.request as u; print(u.urlopen('https://api.test/urllib').read())\";"
               f"export https_proxy=socks5h://{SOCKS} http_proxy=socks5://{SOCKS} HTTPS_PROXY=socks5h://{SOCKS};"
               f'python3 -c "{requests}"')
    b.check(run.out.count(c.HELLO) == 7 and "kept\n" in run.out, "all are answered", run.out, run.err)
    closed = [(r["via"], r.get("destination")) for r in run.records("connection", phase="close")]
    for way in (("connect", "api.test"), ("connect", "git.test"), ("absolute", None), ("socks5", "api.test"), ("socks5", "plain.test")):
        b.check(way in closed, "as they were asked to", way, closed)
    b.check(all(r.get("via") for r in run.records("connection")), "none went another way", closed)
    run.verify()


def undicis_proxy_agent(bed):
    code = ("const {request, ProxyAgent} = require('undici'); const dispatcher = new ProxyAgent('%s');"
            "(async () => { for (const u of ['https://api.test/a', 'https://api.test/b', 'http://plain.test/c', 'https://evil.test/'])"
            " try { const r = await request(u, {dispatcher}); console.log(r.statusCode, (await r.body.text()).slice(0, 21)) }"
            " catch (e) { console.log('refused', e.message) } })()" % PROXY)
    run = _run(bed, ["env", "NODE_PATH=/usr/share/nodejs", "NODE_EXTRA_CA_CERTS=/etc/exeat/ca.pem", "node", "-e", code])
    lines = run.out.splitlines()
    b.check(lines[:3] == [f"200 {c.HELLO}"] * 3 and "Proxy response !== 200" in lines[3], "each", run.out, run.err)


def an_agent_that_uses_a_proxy_for_everything_reads_the_gateways_page(bed):
    run = _run(bed, f"export http_proxy={PROXY} https_proxy={PROXY} ALL_PROXY={PROXY};"
               f"{CODE} https://evil.test/; curl -sS http://plain.test/ http://exeat.internal/refusals http://plain.test/ -w '[%{{http_code}}]';"
               "curl -sS -p http://exeat.internal/policy?format=text -o /tmp/policy; grep -c plain.test /tmp/policy;"
               f"curl -sS --socks5-hostname {SOCKS} http://exeat.internal/ | grep -o 'internal:3128 (CONNECT';"
               f"{CODE} -X POST -d url=https://evil.test/ http://exeat.internal/request")
    b.check(run.out.count("[200]") == 3, "between others, too", run.out, run.err)
    page = json.JSONDecoder().raw_decode(run.out[run.out.index('{"sandbox') if '{"sandbox' in run.out else run.out.index('{"refusals'):])[0]
    listed = [r for r in page["refusals"] if r.get("host") == "evil.test"]
    b.check(len(listed) == 1 and listed[0]["step"] == "connect" and listed[0]["port"] == 443 and listed[0]["rule"] == "default"
            and listed[0]["id"] == run.record("connection", destination="evil.test")["refusal"], "the refusal is listed", page)
    b.check("internal:3128 (CONNECT" in run.out, "which says where the proxy is", run.out)
    b.check(run.out.rstrip().endswith("202"), "and access is asked for", run.out)
    run.verify()


# ---- what is refused ----


def a_refused_connect_is_told_before_any_tunnel(bed):
    run = _run(bed, f"curl -sS -i -x {PROXY} https://evil.test/ 2>&1; echo [$?];"
               f"curl -sS -x {PROXY} https://plain.test/ 2>&1; echo [$?];"
               f"curl -sS --socks5-hostname {SOCKS} https://evil.test/ 2>&1; echo [$?];"
               f"wget -qO- -e https_proxy={PROXY} https://evil.test/ 2>&1; echo [$?];"
               f"curl -sS -x {PROXY} https://api.test/closed/1")
    b.check("HTTP/1.1 403 Refused by policy" in run.out and "response 403" in run.out and "[56]" in run.out, "curl says it", run.out)
    b.check("proxy-status: exeat; error=http_request_denied" in run.out, "with Proxy-Status", run.out)
    b.check("[97]" in run.out, "SOCKS has its own word", run.out)
    b.check('"rule":"closed"' in run.out, "and inside, paths are judged", run.out)
    record = run.record("connection", phase="close", via="connect", destination="evil.test")
    b.check(record["verdict"] == "deny" and record["rule"] == "default" and record["refusal"] in run.out
            and record["port"] == 443, "its id is the one that curl shows", record, run.out)
    b.check(run.records("connection", via="socks5", destination="evil.test", verdict="deny"), "SOCKS' as well")
    b.check(not run.records("dial", destination="evil.test") and not bed.dns.asked("evil.test"), "nobody was asked")
    run.verify()


def names_in_a_tunnel_are_the_tunnels(bed):
    run = _run(bed, f"curl -sS -k -x {PROXY} --connect-to evil.test:443:api.test:443 https://evil.test/ 2>&1; echo [$?];"
               f"{CODE} -x {PROXY} -H 'Host: evil.test' https://api.test/; {CODE} -x {PROXY} -p -H 'Host: evil.test' http://plain.test/;"
               f"{CODE} -x {PROXY} -H 'Host: evil.test' http://plain.test/")
    b.check("[35]" in run.out and run.out.count("421 ") == 3, "no other SNI, no other Host", run.out, run.err)
    b.check(run.records("connection", via="connect", destination="api.test", sni="evil.test", verdict="deny"), "on record")


def addresses_are_addresses_and_numbers_are_none(bed):
    run = _run(bed, "".join(f"{CODE} -g -x {PROXY} -p 'http://{host}/' 2>/dev/null; {CODE} -g -x {PROXY} 'http://{host}/'; echo;" for host in
               (c.ORIGIN, "203.0.113.15", "[2001:db8::14]", "[::ffff:203.0.113.14]", "169.254.169.254", "127.0.0.1")))
    b.check(run.out.splitlines() == ["200 200 "] + ["000 403 "] * 5, "by rules for addresses alone", run.out, run.err)
    run = _talk(bed, "for h in '0x7f.1', '2852039166', '127.1', '0177.0.0.1', '1.2.3', '0x7f000001':\n"
                " print(status(say(f'CONNECT {h}:80 HTTP/1.1\\r\\nHost: {h}:80\\r\\n\\r\\n'.encode())),"
                " status(say(f'GET http://{h}/ HTTP/1.1\\r\\nHost: {h}\\r\\n\\r\\n'.encode())), say(name(h, 80))[3])")
    b.check(run.out.splitlines() == ["400 400 1"] * 6, "number forms", run.out, run.err)
    b.check(not run.records("dial") and not [q for q in bed.dns.queries if q[0][0].isdigit()], "nobody was asked")


def the_gateway_and_the_proxy_itself_are_no_destination(bed):
    run = _talk(bed, "import socket\ngw = socket.gethostbyname('exeat.internal')\n"
                "for t in 'exeat.internal:3128', f'{gw}:3128', f'{gw}:443', 'EXEAT.internal.:53':\n"
                " print(status(say(f'CONNECT {t} HTTP/1.1\\r\\nHost: {t}\\r\\n\\r\\n'.encode())))\n"
                "print(status(say(f'GET http://{gw}:3128/ HTTP/1.1\\r\\nHost: {gw}:3128\\r\\n\\r\\n'.encode())), say(v4(gw, 3128))[3], say(name('exeat.internal', 3128))[3])\n"
                "for p in 443, 3129, 15001:\n"
                " try: socket.create_connection((gw, p), 5); print('in')\n"
                " except ConnectionRefusedError: print('refused')\n")
    b.check(run.out.split() == ["502"] * 5 + ["2", "2"] + ["refused"] * 3, "loops", run.out, run.err)
    b.check(run.records("connection", via="connect", destination="exeat.internal", port=3128, verdict="deny", reason="proxy-loop"), "on record",
            run.records("connection"))


def what_is_no_request_of_a_proxy_is_told(bed):
    run = _talk(bed, r"""
host = b"\r\nHost: api.test:443\r\n"
print(status(say(b"CONNECT api.test HTTP/1.1\r\nHost: api.test\r\n\r\n")),
      status(say(b"CONNECT api.test:443 HTTP/1.1" + host + b"Content-Length: 5\r\n\r\nhello")),
      status(say(b"CONNECT api.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")),
      status(say(b"CONNECT api.test:443 HTTP/1.1" + host + b"X: " + b"a" * 70000 + b"\r\n\r\n")),
      status(say(b"CONNECT " + b"a" * 40000 + b":443 HTTP/1.1" + host + b"\r\n")),
      status(say(b"CONNECT api.test:443 HTTP/1.1\nHost: api.test\n\n")),
      status(say(b"GET / HTTP/1.1" + host + b"\r\n")),
      status(say(b"GET gopher://api.test/ HTTP/1.1" + host + b"\r\n")),
      status(say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
print(say(b"\5\1\2"), say(name("api.test", command=2))[2:4], say(name("api.test", command=3))[2:4],
      say(b"\5\1\0\5\1\0\7")[2:4], say(b"\4\1\1\xbb\1\2\3\4\0")[:2], say(name("api.test", 0))[2:4], say(b"\5\1\0\5\1\1\1")[2:4])
print(say(b"\x16\3\1\0\5\1\0\0\1\0", end=False)[:1], say(b"\0\0\0", end=False))
""")
    lines = run.out.splitlines()
    b.check(lines[0] == "400 400 421 431 414 400 400 400 505", "HTTP", run.out, run.err)
    b.check(lines[1] == r"b'\x05\xff' b'\x05\x07' b'\x05\x07' b'\x05\x08' b'\x00[' b'\x05\x01' b'\x05\x01'", "SOCKS", run.out, run.err)
    b.check(lines[2].startswith(r"b'\x15' b'") and "ConnectionResetError" in lines[2], "neither", run.out, run.err)
    b.check(not run.records("dial"), "nobody was dialled")
    run.verify()


def bytes_split_and_sent_ahead_are_read_as_they_are(bed):
    run = _talk(bed, r"""
request = b"GET /x HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n"
connect = b"CONNECT plain.test:80 HTTP/1.0\r\n\r\n"
print(b"hello from" in say(connect + request))
print(b"hello from" in say(name("plain.test", 80) + request))
print(all(b"hello from" in say(*[whole[i:i + 1] for i in range(len(whole))]) for whole in
          (connect + request, name("plain.test", 80) + request,
           b"GET http://plain.test/x HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n")))
refused = say(b"CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test\r\n\r\n" + request)
print(status(refused), refused.count(b"HTTP/1.1 "), say(name("evil.test", 80) + request)[2:].hex())
""")
    b.check(run.out.splitlines() == ["True", "True", "True", "403 1 05020001000000000000"], "each", run.out, run.err)
    b.check(len([r for r in run.records("request", host="plain.test", phase="end")]) == 5, "and nothing behind a refusal", run.records("request"))


def who_does_not_say_where_to_meets_a_named_timeout(bed):
    run = _talk(bed, r"""
import threading
found = {}
def wait(beginning):
    began = time.monotonic()
    s = dial(); s.sendall(beginning)
    got = rest(s)
    found[beginning] = (got, 9 <= time.monotonic() - began <= 40)
all_ = [b"", b"\5", b"\5\1\0\5", b"CON", b"CONNECT plain.test:80 HTTP/1.1\r\nHo", b"GET http://pl"]
ts = [threading.Thread(target=wait, args=(x,)) for x in all_]
[t.start() for t in ts]; [t.join() for t in ts]
print(all(late for _, late in found.values()), found[b""][0], found[b"\5"][0].hex(), found[b"\5\1\0\5"][0].hex(),
      status(found[all_[4]][0]), status(found[all_[5]][0]))
""")
    b.check(run.out.strip() == "True b'!ConnectionResetError' 05ff 050005010001000000000000 408 408", "in their own words", run.out, run.err)
    b.check(run.records("connection", via="connect", reason="request-timeout"), "on record", run.records("connection"))


# ---- settings, limits, policies ----


def it_can_be_elsewhere_or_not_at_all(bed):
    _origins(bed)
    other = bed.settings(SECRETS, extra="proxy: {port: 8888}\n")
    run = _run(bed, f"{CODE} -x http://exeat.internal:8888 https://api.test/; curl -sS -x {PROXY} https://api.test/ 2>&1; echo [$?]", settings=other)
    b.check(run.out.startswith("200 ") and "[7]" in run.out, "at another port", run.out, run.err)
    bed.runs += 1
    off = bed.settings(SECRETS, extra="proxy: {explicit: false}\n")
    run = _run(bed, f"curl -sS -x {PROXY} https://api.test/ 2>&1; echo [$?]; {CODE} https://api.test/; env | grep -ic proxy", settings=off)
    b.check("[7]" in run.out and "200 0" in run.out, "refused by the kernel; the box has no variables", run.out, run.err)
    b.check(run.records("connect", port=3128, verdict="deny"), "on record", run.records("connect"))


def it_counts_among_the_boxs_connections(bed):
    _origins(bed)
    few = bed.settings(SECRETS, extra="limits: {connections: 4}\n")
    run = _talk(bed, r"""
held = [dial() for _ in range(4)]
[s.sendall(b"\5\1\0") for s in held]
print([s.recv(2) for s in held] == [b"\5\0"] * 4, say(b"\5\1\0"))
""", settings=few)
    b.check(run.out.strip() == "True b'!ConnectionResetError'", "no more than any", run.out, run.err)
    b.check(run.records("connect", reason="too-many-connections"), "on record", run.records("connect"))


def a_reload_keeps_the_proxy_and_judges_what_it_carries(bed):
    _origins(bed)
    app = appliance.Appliance(bed, {"p": POLICY}, SECRETS)
    app.start_box("box", ["python3", "-c", TALK + r"""
s = dial()
s.sendall(b"CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test\r\n\r\nGET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
got = b""
while b"hello from" not in got:
    got += s.recv(65536)
print("open", flush=True)
print("ended", rest(s)[-3:], flush=True)
time.sleep(3600)
"""], "p")
    b.wait_until("a tunnel", lambda: "open" in app.box_said("box"))
    pathlib.Path(f"{app.dir}/policies/p.yaml").write_text(POLICY.replace("plain.test, other.test", "other.test"), encoding="utf-8")
    b.check(app.command("policy", "reload").returncode == 0, "policies are read again", app.said())
    b.wait_until("its end", lambda: "ended" in app.box_said("box"))
    ask = lambda url: app.command("sandbox", "exec", "box", "--", "curl", "-s", "-p", "-o", "/dev/null", "-w", "%{http_connect} %{http_code}",
                                  "-x", PROXY, url).stdout
    b.check([ask("http://plain.test/"), ask("http://other.test/"), ask("https://api.test/")] == ["403 000", "200 200", "200 200"],
            "the new policy holds, and the port is still there", app.said())
    app.end()


b.main(b.cases(globals()))
