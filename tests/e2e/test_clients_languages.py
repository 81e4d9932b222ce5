"""Go and Java: stacks of their own for names, TLS and trust. They are heavy, and Exeat built with
sanitizers learns nothing from them that lighter clients do not teach it: they run on the other build."""

import os
import pathlib
import shutil
import subprocess

import bed as b
import clients as c

PROGRAMS = pathlib.Path(__file__).with_name("programs")
# Java's trust store is Debian's one file; its own roots are there, and Exeat's.
JAVA = "java -Xshare:auto -XX:TieredStopAtLevel=1 -cp /workspace Get "
CLIENT = c.Client(JAVA + 'client "$1"', refused="java.net.ConnectException")
CONNECTION = c.Client(JAVA + 'connection "$1"', refused="Connection refused")


def _go(resolver, program="dynamic"):
    return c.Client(f'GODEBUG=netdns={resolver} /workspace/{program} "$1"', refused="connect: connection refused")


def _workspace(bed):
    """With the programs, compiled once."""
    work = pathlib.Path(bed.path("programs"))
    if not work.exists():
        os.chmod(bed.dir, 0o755)
        work.mkdir()
        environment = dict(os.environ, GOCACHE=bed.path("go-cache"), GO111MODULE="off", HOME=bed.dir, GOFLAGS="")
        for name, cgo in (("dynamic", "1"), ("static", "0")):
            subprocess.run(["go", "build", "-o", work / name, PROGRAMS / "get.go"], check=True, capture_output=True,
                           env=dict(environment, CGO_ENABLED=cgo), cwd=bed.dir)
        subprocess.run(["javac", "-d", work, PROGRAMS / "Get.java"], check=True, capture_output=True)
    return ["--workspace", str(work)]


def go_with_its_own_resolver_is_answered_and_told(bed):
    options = _workspace(bed)
    c.is_answered(bed, _go("go"), options=options)
    c.is_told(bed, _go("go"), options=options)
    c.is_told_why(bed, _go("go"), options=options)


def go_with_the_c_librarys_resolver_is_answered_and_told(bed):
    options = _workspace(bed)
    c.is_answered(bed, _go("cgo"), options=options)
    c.is_told(bed, _go("cgo"), options=options)


def a_static_go_program_needs_nothing_but_the_certificate(bed):
    """In a root with nothing else in it, by each of the places where Go looks for roots."""
    _workspace(bed)
    root = pathlib.Path(bed.path("go-root"))
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for name in ("sh", "timeout", "env"):
        os.symlink("busybox", root / "bin" / name)
    shutil.copy(bed.path("programs/static"), root / "bin/get")
    for environment in ("", "env -i ", "env -i SSL_CERT_FILE=/etc/exeat/ca.pem ", "env -i SSL_CERT_DIR=/etc/exeat SSL_CERT_FILE= "):
        client = c.Client(environment + '/bin/get "$1"', refused="connect: connection refused")
        c.is_answered(bed, client, options=["--rootfs", str(root)])
    c.is_told(bed, client, options=["--rootfs", str(root)])


def java_httpclient_is_answered_and_told(bed):
    options = _workspace(bed)
    c.is_answered(bed, CLIENT, options=options)
    c.is_told(bed, CLIENT, options=options)


def java_urlconnection_is_answered_and_told(bed):
    options = _workspace(bed)
    c.is_answered(bed, CONNECTION, options=options)
    c.is_told(bed, CONNECTION, options=options)
    c.is_told_why(bed, CONNECTION, options=options)


if b.SANITIZED:
    print("these cases run on the build without sanitizers alone")
b.main([] if b.SANITIZED else b.cases(globals()))
