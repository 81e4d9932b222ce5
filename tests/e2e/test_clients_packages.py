"""Package managers against registries of the test's own: apt over http and https, pip, npm.

Each tries again by itself where a connection is refused, for seconds (apt, pip) or a minute (npm): that
is switched off where a refused host is meant to be told at once; under refusal: explain it needs not be.
The tools are heavy and ask nothing of Exeat that lighter clients do not: they run on the build without
sanitizers."""

import base64
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile
import zipfile

import bed as b
import clients as c

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: debian, hosts: [deb.test], methods: [GET]}
  - {id: debian-plain, hosts: [mirror.test], protocol: http, methods: [GET]}
  - {id: pypi, hosts: [pypi.test], methods: [GET, HEAD]}
  - {id: npm, hosts: [npm.test], methods: [GET]}
deny:
  - {id: withdrawn, hosts: [deb.test, mirror.test, pypi.test, npm.test], paths: ["/pool/withdrawn*", "/files/withdrawn*", "/withdrawn/-/**"],
     reason: This package is withdrawn.}
"""
NAMES = ("probe", "withdrawn")


def _serve(request, origin):
    """Files by their paths, as they were put there."""
    found = origin.files.get(request.target.partition("?")[0].replace("/./", "/"))
    if found is None:
        return b.answer(404, "no such file\n", reason="Not Found")
    return b.answer(200, b"" if request.method == "HEAD" else found[1],
                    [("content-type", found[0]), ("content-length", str(len(found[1])))], length=False)


def _debian(bed):
    """What apt-ftparchive makes of two packages."""
    pool = pathlib.Path(bed.path("debian/pool"))
    pool.mkdir(parents=True)
    quiet = {"check": True, "capture_output": True, "cwd": pool.parent}
    for name in NAMES:
        tree = pathlib.Path(bed.path(f"deb-{name}"))
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: T <t@test>\n"
                                             "Description: a package\n")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, pool / f"{name}_1.0_all.deb"], **quiet)
    packages = subprocess.run(["apt-ftparchive", "packages", "pool"], **quiet).stdout
    (pool.parent / "Packages").write_bytes(packages)
    release = subprocess.run(["apt-ftparchive", "release", "."], **quiet).stdout
    (pool.parent / "Release").write_bytes(release)
    return {"/" + str(f.relative_to(pool.parent)): ("application/octet-stream", f.read_bytes())
            for f in pool.parent.rglob("*") if f.is_file()}


def _pypi():
    files = {}
    for name in NAMES:
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as z:
            z.writestr(f"{name}.py", f"print('this is {name}')\n")
            z.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            z.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            z.writestr(f"{name}-1.0.dist-info/RECORD", f"{name}.py,,\n{name}-1.0.dist-info/METADATA,,\n{name}-1.0.dist-info/WHEEL,,\n")
        digest = hashlib.sha256(wheel.getvalue()).hexdigest()
        file = f"/files/{name}-1.0-py3-none-any.whl"
        files[file] = ("application/octet-stream", wheel.getvalue())
        page = f'<!DOCTYPE html><html><body><a href="{file}#sha256={digest}">{os.path.basename(file)}</a></body></html>'
        files[f"/simple/{name}/"] = ("text/html", page.encode())
    return files


def _npm():
    files = {}
    for name in NAMES:
        package = json.dumps({"name": name, "version": "1.0.0", "main": "index.js"}).encode()
        tarball = io.BytesIO()
        with tarfile.open(fileobj=tarball, mode="w:gz") as t:
            for path, content in (("package.json", package), ("index.js", f"console.log('this is {name}')\n".encode())):
                entry = tarfile.TarInfo("package/" + path)
                entry.size = len(content)
                t.addfile(entry, io.BytesIO(content))
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball.getvalue()).digest()).decode()
        path = f"/{name}/-/{name}-1.0.0.tgz"
        files[path] = ("application/octet-stream", tarball.getvalue())
        version = {"name": name, "version": "1.0.0", "dist": {"tarball": "https://npm.test" + path, "integrity": integrity}}
        files["/" + name] = ("application/json", json.dumps(
            {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode())
    return files


def _origins(bed):
    bed.dns.zone.update({name: ["203.0.113.16"] for name in ("deb.test", "mirror.test", "pypi.test", "npm.test", "evil.test")})
    if hasattr(bed, "registry"):
        return
    bed.registry = b.Origin(bed, b.http(_serve), "203.0.113.16", 443, bed.cert("deb.test", "pypi.test", "npm.test", "evil.test"))
    bed.mirror = b.Origin(bed, b.http(_serve), "203.0.113.16", 80)
    bed.registry.files = {**_debian(bed), **_pypi(), **_npm()}
    bed.mirror.files = bed.registry.files


def _run(bed, script, **more):
    """In a box; what it printed, and the exit status of each command that was marked with `did`."""
    _origins(bed)
    did = f'did() {{ timeout -k 1 {c.BOUND} "$@" </dev/null 2>&1; echo "<<$?>>"; }}; cd /workspace\n'
    run = bed.run(did + script, more.pop("policy", POLICY), **more)
    statuses = [int(n) for n in re.findall(r"<<(\d+)>>", run.out)]
    b.check(124 not in statuses and 137 not in statuses, "none hangs", run.out)
    return run, statuses


def _denied(run, host, path, text):
    record = run.record("request", host=host, path=path, verdict="deny")
    b.check(record["rule"] == "withdrawn" and record["status"] == 403, "the refusal is on record", record)
    b.check(record["refusal"] in text and "This package is withdrawn" in text, "and shown with its reason and id", record, text)


# ---- apt ----

APT = """export APT_CONFIG=/workspace/apt.conf
mkdir -p etc/apt.conf.d etc/preferences.d state/lists/partial cache/archives/partial; touch status
cat >apt.conf <<X
Dir::Etc "/workspace/etc"; Dir::State "/workspace/state"; Dir::State::status "/workspace/status"; Dir::Cache "/workspace/cache";
X
"""


def apt_updates_and_downloads_over_https_and_http(bed):
    for url, host in (("https://deb.test", "deb.test"), ("http://mirror.test", "mirror.test")):
        run, statuses = _run(bed, APT + f"""echo 'deb [trusted=yes] {url} ./' >etc/sources.list
did apt-get -q update; did apt-get -q download probe; did dpkg-deb -I probe_1.0_all.deb; did apt-get -q download withdrawn""")
        b.check(statuses == [0, 0, 0, 100], f"{url}: the package is there, the other not", run.out, run.err)
        b.check("Package: probe" in run.out, "whole", run.out)
        _denied(run, host, "/pool/withdrawn_1.0_all.deb", run.out)
        b.check([r for r in run.records("request", host=host, status=200) if r["path"].endswith("/Release")]
                and [r for r in run.records("request", host=host, status=200) if r["path"].endswith("/pool/probe_1.0_all.deb")],
                "each file is on record", run.records("request"))
        run.verify()


def apt_is_told_of_a_refused_host(bed):
    script = """echo 'deb [trusted=yes] %s://evil.test ./' >etc/sources.list
did apt-get -q %s -o APT::Update::Error-Mode=any update\n"""
    for scheme, port in (("https", 443), ("http", 80)):
        run, statuses = _run(bed, APT + script % (scheme, "-o Acquire::Retries=0"))
        b.check(statuses == [100] and "connect (111: Connection refused)" in run.out, "refused", run.out)
        c.is_refused_on_record(bed, run, "evil.test", port)
        run, statuses = _run(bed, APT + script % (scheme, ""), policy=POLICY + "refusal: explain\n")
        denied = run.records("request", host="evil.test", verdict="deny")
        b.check(statuses == [100] and any(r["refusal"] in run.out for r in denied), "told, and not tried again", run.out)


# ---- pip ----

PIP = "python3 -m pip --no-cache-dir --disable-pip-version-check"


def pip_installs_from_an_index(bed):
    run, statuses = _run(bed, f"""did {PIP} install --target t --index-url https://pypi.test/simple/ probe
PYTHONPATH=t did python3 -c 'import probe'; did {PIP} download --index-url https://pypi.test/simple/ withdrawn""")
    b.check(statuses == [0, 0, 1] and "this is probe" in run.out, "one is installed, the other not", run.out, run.err)
    _denied(run, "pypi.test", "/files/withdrawn-1.0-py3-none-any.whl", run.out)
    b.check([r["status"] for r in run.records("request", path="/files/probe-1.0-py3-none-any.whl")] == [200], "the wheel is on record",
            run.records("request"))
    run.verify()


def pip_is_told_of_a_refused_host(bed):
    command = f"did {PIP} -vv download %s --index-url https://evil.test/simple/ probe"
    run, statuses = _run(bed, command % "--retries 1")
    b.check(statuses == [1] and "Connection refused" in run.out, "refused", run.out)
    c.is_refused_on_record(bed, run, "evil.test", 443)
    run, statuses = _run(bed, command % "", policy=POLICY + "refusal: explain\n")
    denied = run.record("request", host="evil.test", verdict="deny")
    b.check(statuses == [1] and denied["refusal"] in run.out, "told, and not tried again", run.out)


# ---- npm ----

NPM = "npm --no-audit --no-fund --no-update-notifier --cache /tmp/npm --registry"


def npm_installs_from_a_registry(bed):
    run, statuses = _run(bed, f"""did {NPM} https://npm.test/ install probe; did node node_modules/probe
did {NPM} https://npm.test/ install withdrawn""")
    b.check(statuses == [0, 0, 1] and "this is probe" in run.out, "one is installed, the other not", run.out, run.err)
    b.check("E403" in run.out, "npm has the code", run.out)
    _denied(run, "npm.test", "/withdrawn/-/withdrawn-1.0.0.tgz", run.out)
    b.check([r["status"] for r in run.records("request", path="/probe/-/probe-1.0.0.tgz")] == [200], "the tarball is on record",
            run.records("request"))
    run.verify()


def npm_is_told_of_a_refused_host(bed):
    run, statuses = _run(bed, f"did {NPM} https://evil.test/ --fetch-retries 0 install probe")
    b.check(statuses == [1] and "ECONNREFUSED" in run.out, "refused", run.out)
    c.is_refused_on_record(bed, run, "evil.test", 443)
    run, statuses = _run(bed, f"did {NPM} https://evil.test/ install probe", policy=POLICY + "refusal: explain\n")
    denied = run.record("request", host="evil.test", verdict="deny")
    b.check(statuses == [1] and "E403" in run.out and denied["refusal"] in run.out, "told, and not tried again", run.out)


if b.SANITIZED:
    print("these cases run on the build without sanitizers alone")
b.main([] if b.SANITIZED else b.cases(globals()))
