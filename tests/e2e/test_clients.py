"""Unmodified clients in the box, real servers outside: they work, and never know of a token."""

import os
import shutil
import subprocess

import bed as b
import clients as c

TOKEN = "real-token-5f3a9c2e7d1b"

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  git: {kind: basic, user: robot, secret: token, hosts: [git.test]}
  api: {kind: bearer, secret: token, hosts: [api.test]}
allow:
  - {id: git, hosts: [git.test], credential: git}
  - {id: api, hosts: [api.test], credential: api}
  - {id: files, hosts: [files.test]}
"""

SECRETS = {"token": (TOKEN, ["git.test", "api.test"])}


def _api(request, _origin):
    if request.get("authorization") != f"Bearer {TOKEN}":
        return b.answer(401, "no\n", reason="Unauthorized")
    return b.answer(200, f"{request.method} {len(request.body)} by the token's holder\n")


def _git_backend(root):
    """git's own CGI program behind the test's HTTP server: smart HTTP as it is spoken everywhere."""
    def serve(request, _origin):
        import base64
        want = "Basic " + base64.b64encode(f"robot:{TOKEN}".encode()).decode()
        if request.get("authorization") != want:
            return b.answer(401, "", [("www-authenticate", 'Basic realm="git"')], reason="Unauthorized")
        path, _, query = request.target.partition("?")
        environment = {"GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                       "QUERY_STRING": query, "REQUEST_METHOD": request.method, "REMOTE_USER": "robot",
                       "CONTENT_TYPE": request.get("content-type", ""), "PATH": os.environ["PATH"],
                       "CONTENT_LENGTH": str(len(request.body)), "REMOTE_ADDR": "203.0.113.1",
                       "HTTP_CONTENT_ENCODING": request.get("content-encoding", ""),
                       "GIT_PROTOCOL": request.get("git-protocol", ""), "HOME": root}
        done = subprocess.run(["git", "http-backend"], input=request.body, capture_output=True,
                              env=environment, check=False)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields, status = [], 200
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "status":
                status = int(value.split()[0])
            elif name:
                fields.append((name, value))
        return b.answer(status, body, fields)
    return serve


def _origins(bed):
    bed.dns.zone.update({"api.test": ["203.0.113.10"], "git.test": ["203.0.113.11"], "files.test": ["203.0.113.12"]})
    if hasattr(bed, "git_root"):
        return
    bed.api = b.Origin(bed, b.http(_api), cert=bed.cert("api.test"))
    bed.git_root = bed.path("repositories")
    environment = dict(os.environ, HOME=bed.dir, GIT_CONFIG_NOSYSTEM="1")
    run = lambda *a, **k: subprocess.run(a, check=True, env=environment, capture_output=True, **k)
    run("git", "init", "-q", "-b", "main", bed.path("seed"))
    with open(bed.path("seed/big"), "wb") as f:
        f.write(os.urandom(3 << 20))
    run("git", "-C", bed.path("seed"), "add", ".")
    run("git", "-C", bed.path("seed"), "-c", "user.name=T", "-c", "user.email=t@test", "commit", "-qm", "first")
    run("git", "clone", "-q", "--bare", bed.path("seed"), bed.git_root + "/site.git")
    run("git", "-C", bed.git_root + "/site.git", "config", "http.receivepack", "true")
    bed.git = b.Origin(bed, b.http(_git_backend(bed.git_root)), address="203.0.113.11", cert=bed.cert("git.test"))
    _nginx(bed)


def _nginx(bed):
    """nginx in the internet's namespace, with files of known content."""
    root = bed.path("www")
    os.mkdir(root)
    with open(root + "/five", "wb") as f:
        f.write(os.urandom(5 << 20))
    os.chmod(bed.dir, 0o755)
    crt, key = bed.cert("files.test")
    conf = bed.write("nginx.conf", f"""
        worker_processes 1; pid {bed.path('nginx.pid')}; error_log {bed.path('nginx.err')}; user root;
        events {{}}
        http {{ access_log off; client_body_temp_path {bed.path('nb')}; proxy_temp_path {bed.path('np')};
          fastcgi_temp_path {bed.path('nf')}; uwsgi_temp_path {bed.path('nu')}; scgi_temp_path {bed.path('ns')};
          server {{ listen 203.0.113.12:443 ssl; ssl_certificate {crt}; ssl_certificate_key {key};
            keepalive_requests 1000000; root {root}; gzip on; gzip_min_length 1; gzip_types text/plain; }} }}""")
    # It ends with us, whatever ends us.
    bed.nginx = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "nsenter", f"--net=/proc/{bed.holder.pid}/ns/net", "nginx",
                                  "-g", "daemon off;", "-c", conf], stdin=subprocess.DEVNULL)
    b.wait_until("nginx", lambda: os.path.exists(bed.path("nginx.pid")) and os.path.getsize(bed.path("nginx.pid")))


def curl_is_answered_as_the_tokens_holder(bed):
    _origins(bed)
    run = bed.run("curl -sS https://api.test/ && curl -sS -d @/usr/bin/curl https://api.test/up", POLICY, secrets=SECRETS)
    size = os.path.getsize("/usr/bin/curl")
    b.check(run.out.startswith("GET 0 by the token's holder\nPOST "), "both requests", run.out, run.err)
    b.check(size > 0 and "POST" in run.out, "the body arrived")
    b.check(len(run.records("request", credential="api", status=200)) == 2, "recorded with the credential's name",
            run.records("request"))
    with open(run.log_path, encoding="utf-8") as f:
        b.check(TOKEN not in f.read(), "and never its value")
    run.verify()


def curl_downloads_from_nginx_whole(bed):
    _origins(bed)
    run = bed.run("curl -sS https://files.test/five | sha256sum; curl -sS -r 100-199 https://files.test/five | wc -c;"
                  "curl -sS --compressed -o /dev/null -w '%{http_code}' https://files.test/none", POLICY, secrets=SECRETS)
    want = subprocess.run(["sha256sum", bed.path("www/five")], capture_output=True, text=True, check=True).stdout.split()[0]
    b.check(run.out.split()[0] == want, "every byte", run.out, run.err)
    b.check(run.out.split()[-2:] == ["100", "404"], "ranges and errors as nginx said", run.out)


def many_requests_on_one_connection(bed):
    _origins(bed)
    run = bed.run("curl -sS -w '%{num_connects}\\n' $(for i in $(seq 200); do echo -o /dev/null https://files.test/five?$i; done | head -n 20) | sort | uniq -c",
                  POLICY, secrets=SECRETS)
    b.check("1 1" in run.out and "19 0" in run.out, "kept alive", run.out, run.err)


def git_clones_and_pushes_over_smart_http(bed):
    _origins(bed)
    run = bed.run("cd /workspace && git clone -q https://git.test/site.git && cd site && sha256sum big && echo more > more "
                  "&& git add . && git -c user.name=B -c user.email=b@test commit -qm second && git push -q origin HEAD:main && echo pushed",
                  POLICY, secrets=SECRETS)
    b.check("pushed" in run.out, "cloned and pushed with no credential in the box", run.out, run.err)
    log = subprocess.run(["git", "-C", bed.git_root + "/site.git", "log", "--format=%s", "main"], capture_output=True,
                         text=True, check=True).stdout.split()
    b.check(log == ["second", "first"], "the push arrived", log)
    b.check(run.records("request", host="git.test", credential="git"), "recorded", run.records("request")[:2])


def python_urllib_works_with_the_system_store(bed):
    _origins(bed)
    run = bed.run(["python3", "-c", "import urllib.request as u; print(u.urlopen('https://api.test/').read().decode());"
                   "r = u.Request('https://api.test/p', data=b'x' * 300000, method='PUT'); print(u.urlopen(r).read().decode())"],
                  POLICY, secrets=SECRETS)
    b.check("GET 0 by" in run.out and "PUT 300000 by" in run.out, "urllib", run.out, run.err)


def node_fetch_works(bed):
    _origins(bed)
    run = bed.run(["node", "-e", "(async () => { const r = await fetch('https://api.test/'); console.log(r.status, await r.text());"
                   "const p = await fetch('https://api.test/p', {method: 'POST', body: 'y'.repeat(200000)}); console.log(await p.text()) })()"],
                  POLICY, secrets=SECRETS)
    b.check("200 GET 0 by" in run.out and "POST 200000 by" in run.out, "fetch", run.out, run.err)


def openssl_verifies_the_leaf_strictly(bed):
    _origins(bed)
    run = bed.run("echo | openssl s_client -connect api.test:443 -servername api.test -x509_strict -verify_return_error "
                  "-verify_hostname api.test -showcerts 2>&1 | grep -E 'Verification|Verify return'", POLICY, secrets=SECRETS)
    b.check("Verification: OK" in run.out, "strict verification", run.out, run.err)


# ---- each of these answered, refused, and told why ----

CURL = c.Client('curl -sS -i "$1"', refused="Failed to connect to evil.test port")
WGET = c.Client('wget -nv -O - "$1"')
GIT = c.Client('git ls-remote "$1"', refused="Failed to connect to evil.test port", shows_id=False)
URLLIB = c.Client("""python3 -c '
import sys, urllib.request as u, urllib.error
try:
    print(u.urlopen(sys.argv[1]).read().decode())
except urllib.error.HTTPError as e:
    print(e, e.read().decode())' "$1" """)
REQUESTS = c.Client("""python3 -c '
import sys, requests
r = requests.get(sys.argv[1])
print(r.status_code, r.reason, r.text)' "$1" """)
HTTPX = c.Client("""python3 -c '
import sys, httpx
r = httpx.get(sys.argv[1])
print(r.status_code, r.reason_phrase, r.text)' "$1" """)
FETCH = c.Client("""node -e '
fetch(process.argv[1]).then(async r => console.log(r.status, r.statusText, await r.text()))' "$1" """, refused="ECONNREFUSED")
HTTPS = c.Client("""node -e '
require(process.argv[1].split(":")[0]).get(process.argv[1], r => {
    console.log(r.statusCode, r.statusMessage); r.pipe(process.stdout) })' "$1" """, refused="ECONNREFUSED")


def curl_is_answered_and_told(bed):
    c.is_answered(bed, CURL)
    c.is_told(bed, CURL)
    c.is_told_why(bed, CURL)


def wget_is_answered_and_told(bed):
    c.is_answered(bed, WGET)
    c.is_told(bed, WGET)
    c.is_told_why(bed, WGET)


def git_is_told(bed):
    c.is_told(bed, GIT)
    c.is_told_why(bed, GIT)


def python_urllib_is_answered_and_told(bed):
    c.is_answered(bed, URLLIB)
    c.is_told(bed, URLLIB)


def python_requests_is_answered_and_told(bed):
    c.is_answered(bed, REQUESTS)
    c.is_told(bed, REQUESTS)
    c.is_told_why(bed, REQUESTS)


def python_httpx_is_answered_and_told(bed):
    c.is_answered(bed, HTTPX)
    c.is_told(bed, HTTPX)
    c.is_told_why(bed, HTTPX)


def node_fetch_is_answered_and_told(bed):
    c.is_answered(bed, FETCH)
    c.is_told(bed, FETCH)
    c.is_told_why(bed, FETCH)


def node_https_is_answered_and_told(bed):
    c.is_answered(bed, HTTPS)
    c.is_told(bed, HTTPS)


b.main(b.cases(globals()))
