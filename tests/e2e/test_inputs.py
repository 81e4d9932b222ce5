"""What the operator gives and the host has: secrets, settings, name servers; each fault is one clear line."""

import os
import pathlib
import subprocess

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  c: {kind: bearer, secret: s, hosts: [api.test]}
allow:
  - {id: api, hosts: [api.test], credential: c}
"""
PLAIN = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test, "*.wide.test"]}
"""
VALUE = "first-value-of-the-secret"


def _settings(bed, path):
    return bed.write("secrets.yaml", f"""exeat-settings: 1
resolver: {{servers: ["{bed.DNS}:53"]}}
trust: {{system: false, add: [{bed.ca_pem}]}}
secrets:
  s: {{file: {path}, hosts: [api.test]}}
""")


def _origin(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))
    bed.origin.requests.clear()


def a_secret_is_read_once_when_the_run_starts(bed):
    _origin(bed)
    path = bed.write("changing", VALUE + "\n", 0o600)
    run = bed.start("echo up; read go; curl -sS https://api.test/", POLICY, settings=_settings(bed, path),
                    stdin=subprocess.PIPE)
    b.check(run.process.stdout.readline() == b"up\n", "the box is up")
    os.unlink(path)
    bed.write("changing", "another-value-of-the-secret", 0o644)
    run.process.stdin.write(b"go\n")
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    b.check(run.status == 0, "it is answered", run.err)
    b.check(bed.origin.requests[0].get("authorization") == f"Bearer {VALUE}", "what was there at the start counts",
            bed.origin.requests[0].fields)
    b.check(VALUE not in run.out, "and is not in the answer", run.out)


def a_secret_that_is_no_plain_file_is_named_and_nothing_starts(bed):
    good = bed.write("good", VALUE, 0o600)
    os.mkdir(bed.path("folder"))
    os.mkfifo(bed.path("fifo"), 0o600)
    os.symlink("/no/such", bed.path("dangling"))
    bed.write("huge", "x" * 1000000, 0o600)
    bed.write("other", VALUE, 0o600)
    os.chown(bed.path("other"), 12345, 12345)
    for name, words in (("folder", "regular file"), ("fifo", "regular file"), ("dangling", "No such file"),
                        ("not-there", "No such file"), ("huge", "longer than 16384"), ("other", "belongs to somebody"),
                        ("/dev/zero", "regular file"), ("/dev/null", "regular file")):
        run = bed.run("echo ran", POLICY, settings=_settings(bed, bed.path(name)), timeout=30)
        b.check(run.status == 125 and "ran" not in run.out, f"{name}: nothing is run", run.status, run.out)
        b.check('"s"' in run.err and words in run.err, f"{name}: it is said", run.err)
        b.check(not run.left_behind(), f"{name}: nothing is left", run.left_behind())
    os.symlink(good, bed.path("link"))
    run = bed.run("echo ran", POLICY, settings=_settings(bed, bed.path("link")))
    b.check(run.status == 0 and run.out == "ran\n", "a link to a good one is followed", run.status, run.err)


def a_secret_from_the_environment_is_taken_and_forgotten(bed):
    _origin(bed)
    settings = bed.write("env.yaml", f"""exeat-settings: 1
resolver: {{servers: ["{bed.DNS}:53"]}}
trust: {{system: false, add: [{bed.ca_pem}]}}
secrets:
  s: {{env: THE_SECRET, hosts: [api.test]}}
""")
    run = bed.start("echo up; read go; curl -sS https://api.test/; env", POLICY, settings=settings,
                    stdin=subprocess.PIPE, env=dict(os.environ, THE_SECRET=VALUE))
    b.check(run.process.stdout.readline() == b"up\n", "the box is up")
    children = subprocess.run(["pgrep", "-P", str(run.process.pid)], capture_output=True, text=True, check=True).stdout
    for pid in [str(run.process.pid), *children.split()]:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        b.check(VALUE.encode() not in environment, "no process shows it", pid)
    run.process.stdin.write(b"go\n")
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    b.check(bed.origin.requests[0].get("authorization") == f"Bearer {VALUE}", "it is put on", run.err)
    b.check(VALUE not in run.out, "and is nowhere in the box", run.out)
    for value, words in ((None, "is not set"), ("", "empty"), ("x" * 20000, "THE_SECRET"), ("short", "short")):
        env = {k: v for k, v in os.environ.items()} | ({"THE_SECRET": value} if value is not None else {})
        run = bed.run("echo ran", POLICY, settings=settings, env=env)
        b.check(run.status == 125 and "ran" not in run.out and '"s"' in run.err and words in run.err, words,
                run.status, run.err)


def broken_settings_are_told_with_their_place(bed):
    for text, words in (("exeat-settings: 1\nresolver: [", "s.yaml:"), ("", "s.yaml"), ("exeat-settings: 9\n", "9"),
                        ("exeat-settings: 1\nresolvr: {}\n", "resolver"), ("\0\0\0", "s.yaml"),
                        ("exeat-settings: 1\nresolver: {servers: [nonsense]}\n", "nonsense"),
                        ("exeat-settings: 1\nresolver: {timeout: 0s}\n", "timeout"),
                        ("exeat-settings: 1\na: &a [*a]\n", "s.yaml:"),
                        ("exeat-settings: 1\n" + "#" * 3000000, "s.yaml")):
        run = bed.run("echo ran", PLAIN, settings=bed.write("s.yaml", text), timeout=30)
        b.check(run.status == 125 and "ran" not in run.out and words in run.err, f"{text[:40]!r}", run.status, run.err[:400])
    for path in (bed.dir, "/no/such", "/dev/null"):
        run = bed.run("echo ran", PLAIN, settings=path, timeout=30)
        b.check(run.status == 125 and path in run.err, path, run.status, run.err)


def a_name_server_that_is_not_there_fails_names_and_nothing_else(bed):
    _origin(bed)
    settings = bed.write("nowhere.yaml", f"""exeat-settings: 1
resolver: {{servers: ["203.0.113.28:53"], timeout: 1s, names: {{fixed.wide.test: [203.0.113.10]}}}}
trust: {{system: false, add: [{bed.ca_pem}]}}
""")
    b.Origin(bed, b.http(b.echo), address="203.0.113.14", cert=bed.cert("fixed.wide.test"))
    run = bed.run("curl -sS -m 20 https://api.test/; echo $?; getent hosts fixed.wide.test >/dev/null; echo $?", PLAIN,
                  settings=settings)
    b.check(run.out.split() == ["6", "0"], "no such host; a name of the settings is known", run.out, run.err)
    b.check(run.records("dns", name="api.test", verdict="allow", rcode="SERVFAIL"), "on record", run.records("dns"))


def without_any_name_server_it_still_starts(bed):
    """No servers in the settings, and a host whose /etc/resolv.conf is empty or names none."""
    _origin(bed)
    settings = bed.write("none.yaml", f"exeat-settings: 1\ntrust: {{system: false, add: [{bed.ca_pem}]}}\n")
    for text in ("", "nameserver nonsense\noptions x\n", "\0\xff" * 5000, "nameserver 203.0.113.53\n"):
        b.sh("mount", "--bind", bed.write("resolv.conf", text), "/etc/resolv.conf")
        try:
            run = bed.run("curl -sS -m 40 -o /dev/null -w '%{http_code}' https://api.test/", PLAIN, settings=settings)
        finally:
            b.sh("umount", "/etc/resolv.conf")
        want = "200" if "203" in text else "000"
        b.check(run.out == want, "names fail, or go to the system's server", text[:20], run.status, run.out, run.err)
        b.check(run.records("sandbox_start"), "and the box starts", run.err)


b.main(b.cases(globals()))
