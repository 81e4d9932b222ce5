"""The box: what cannot be done from inside it, what reaches its command, and that it goes as a whole."""

import glob
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
"""
PROBE = pathlib.Path(__file__).with_name("box_probe.py")
REFUSED = ("EPERM", "EACCES", "EROFS", "ENOENT", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT")
READ_ONLY_BUT = {"/workspace", "/proc", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/tmp", "/run", "/home/box"}
DEVICES = {"null", "random", "full", "tty", "zero", "urandom"}


def _folder(bed, name, owner=0):
    os.chmod(bed.dir, 0o755)
    folder = pathlib.Path(bed.path(name))
    folder.mkdir()
    os.chown(folder, owner, owner)
    return folder


def _probe(bed, owner):
    folder = _folder(bed, f"probe-{owner}", owner)
    shutil.copy(PROBE, folder)
    run = bed.run(["python3", "/workspace/box_probe.py"], POLICY, options=["--workspace", str(folder)])
    b.check(run.status == 0, "the probe ran", run.err)
    return json.loads(run.out)


def nothing_that_reaches_out_of_the_box_can_be_done(bed):
    for owner in (0, 12345):
        result = _probe(bed, owner)
        facts = ("mounts", "descriptors", "interfaces", "devices", "processes", "groups", "ids", "cgroups")
        tried = {k: v for k, v in result.items() if k not in facts}
        b.check(len(tried) > 90, "all was tried", len(tried))
        b.check(not {k: v for k, v in tried.items() if v not in REFUSED}, "each is refused",
                {k: v for k, v in tried.items() if v not in REFUSED})
        b.check(result["ids"] == [1000] * 6 and result["groups"] == [], "the box's user", result["ids"])
        b.check(result["descriptors"] == [0, 1, 2, 3], "no descriptor but the standard ones and the probe's own",
                result["descriptors"])
        b.check(result["interfaces"] == ["eth0", "lo"], "one way out", result["interfaces"])
        b.check(len(result["processes"]) == 2, "init and the command", result["processes"])


def every_mount_is_nosuid_and_few_are_writable(bed):
    for place, options, _ in _probe(bed, 54321)["mounts"]:
        if place.startswith("/proc/") or place.removeprefix("/dev/") in DEVICES:
            continue    # devices, and what covers files of /proc
        b.check("nosuid" in options, f"{place} is nosuid", options)
        b.check("ro" in options or place in READ_ONLY_BUT, f"{place} is read-only", options)
        b.check("nodev" in options or place in ("/dev", "/dev/pts"), f"{place} is nodev", options)


def links_in_a_workspace_resolve_inside_the_box(bed):
    folder = _folder(bed, "links")
    secret = bed.write("outside", "outside the box\n")
    for name, target in (("shadow", "/etc/shadow"), ("root", "/"), ("up", "../../../../.." + secret), ("outside", secret),
                         ("proc", "/proc/1/root/etc/shadow")):
        os.symlink(target, folder / name)
    run = bed.run("cat shadow up outside proc; ls root/", POLICY, options=["--workspace", str(folder)])
    b.check("outside the box" not in run.out and "root:$" not in run.out, "nothing of the host's", run.out)
    b.check(run.err.count("cat:") == 4 and "workspace" in run.out.split(), "the box's own root", run.out, run.err)


def a_folder_may_have_any_name(bed):
    for number, name in enumerate(("a b", "q'\"q", "new\nline", "co:lon,comma", "back\\slash", "per%cent", "\u00fc\u00f1")):
        folder = _folder(bed, name)
        (folder / "f").write_text("inside\n")
        run = bed.run("cat f && echo more > made", POLICY, options=["--workspace", str(folder)])
        b.check(run.out == "inside\n" and (folder / "made").read_text() == "more\n", f"workspace {name!r}", run.err)
        _busybox(folder)
        run = bed.run(["sh", "-c", f"echo {number}; ls /bin"], POLICY, options=["--rootfs", str(folder)])
        b.check(run.out.startswith(f"{number}\nbusybox\n"), f"rootfs {name!r}", run.out, run.err)
    link = pathlib.Path(bed.path("a-link"))
    link.symlink_to(folder)
    run = bed.run("cat f", POLICY, options=["--workspace", str(link)])
    b.check(run.out == "inside\n", "a workspace that the operator names by a link", run.err)


def a_folder_that_the_machine_or_exeat_depends_on_is_refused(bed):
    work = _folder(bed, "depended")
    (work / "token").write_text("a-long-enough-value")
    os.chmod(work / "token", 0o600)
    settings = bed.settings({"s": ({"file": str(work / "token")}, ["api.test"])})
    os.symlink("/", bed.path("to-root"))
    empty = _folder(bed, "fine")

    def told(options, text, **more):
        run = bed.run("echo started", POLICY, options=options, **more)
        b.check(run.status == 125 and text in run.err and run.err.count("\n") == 1 and not run.out, f"{options}: {text}",
                run.status, run.out, run.err)
    for folder in ("/", "/etc", "/etc/ssl", "/usr/bin", "/root", "/home", "/proc", "/dev", "/boot", "/var", "/tmp", "//etc/",
                   "/tmp/../etc/ssl/..", bed.path("to-root")):
        told(["--workspace", folder], "the system's own folder")
    told(["--workspace", bed.dir], "holds the audit log")
    told(["--workspace", str(work)], "holds the secret", settings=settings)
    told(["--rootfs", str(work)], "holds the secret", settings=settings)
    told(["--rootfs", bed.path("to-root")], "--rootfs")
    run = bed.run("echo started", POLICY, options=["--workspace", str(empty)], settings=settings)
    b.check(run.out == "started\n", "another folder is as good as any", run.err)


def the_policy_in_a_workspace_cannot_be_changed_from_the_box(bed):
    for owner in (0, 12345):
        work = _folder(bed, f"with-policy-{owner}", owner)
        (work / "conf" / "in").mkdir(parents=True)
        (work / "conf" / "in" / "policy.yaml").write_text(POLICY)
        (work / "settings.yaml").write_text(pathlib.Path(bed.settings()).read_text())
        for path in (work / "conf", work / "conf/in", work / "conf/in/policy.yaml", work / "settings.yaml"):
            os.chown(path, owner, owner)
        done = subprocess.run(
            [b.EXEAT, "run", "--policy", "conf/in/policy.yaml", "--settings", str(work / "settings.yaml"), "--log",
             bed.path("kept.jsonl"), "--workspace", ".", "--", "sh", "-c", """
                cat conf/in/policy.yaml settings.yaml | wc -l
                echo x >> conf/in/policy.yaml; echo x > settings.yaml; rm -f conf/in/policy.yaml; mv conf gone
                mv conf/in gone; rm -rf conf; mv settings.yaml gone; ln -f settings.yaml other && echo x >> other
                echo new > conf/in/beside; echo new > beside; mkdir folder && mv folder moved; find . -type f | sort"""],
            cwd=work, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        b.check((work / "conf/in/policy.yaml").read_text() == POLICY and "exeat-settings" in
                (work / "settings.yaml").read_text(), "both are as they were", done.stdout, done.stderr)
        b.check((work / "beside").exists() and (work / "moved").exists(), "all else is the box's", done.stdout, done.stderr)
    run = bed.run("echo no path", "", options=["--policy", "/dev/stdin"], stdin=open(bed.write("p", POLICY), "rb"))
    b.check(run.out == "no path\n", "a policy may be without a path", run.err)


# ---- root file systems ----


def _busybox(root):
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for name in ("sh", "ls", "wget", "cat", "touch", "cmp"):
        os.symlink("busybox", root / "bin" / name)
    return root


def a_root_of_nothing_but_busybox_is_enough(bed):
    b.Origin(bed, b.http(lambda r, o: b.answer(200, "for busybox")), "203.0.113.21", 80)
    bed.dns.zone["plain.test"] = ["203.0.113.21"]
    root = _busybox(_folder(bed, "busybox"))
    before = sorted(str(p) for p in root.rglob("*"))
    run = bed.run("wget -q -O - http://plain.test/x; touch /x; cat /etc/resolv.conf; ls /etc/exeat",
                  POLICY + "  - {id: plain, hosts: [plain.test], protocol: http}\n",
                  options=["--rootfs", str(root)])
    b.check(run.out.startswith("for busybox"), "wget works", run.out, run.err)
    b.check("Read-only" in run.err, "it is read-only", run.err)
    b.check("ca.pem" in run.out and "nameserver" in run.out, "what Exeat adds is there", run.out)
    b.check(before == sorted(str(p) for p in root.rglob("*")), "and nothing in the folder itself")


def an_odd_root_works_or_is_refused_in_words(bed):
    _folder(bed, "empty-root")
    run = bed.run(["sh"], POLICY, options=["--rootfs", bed.path("empty-root")])
    b.check(run.status == 127 and "sh: No such file" in run.err, "an empty one", run.status, run.err)
    os.symlink(_busybox(_folder(bed, "linked-root")), bed.path("root-link"))
    run = bed.run("echo in", POLICY, options=["--rootfs", bed.path("root-link")])
    b.check(run.out == "in\n", "by a link", run.err)
    for name, target in (("etc", "/nowhere"), ("tmp", "elsewhere/tmp"), ("etc", "/etc"), ("proc", None)):
        shutil.rmtree(bed.path("odd-root"), True)
        root = _busybox(_folder(bed, "odd-root"))
        if target:
            os.symlink(target, root / name)
        else:
            (root / name).write_text("a file")
        run = bed.run("echo in", POLICY, options=["--rootfs", str(root)])
        b.check(run.status == 125 and f"root file system: {name}" in run.err and run.err.count("\n") == 1,
                f"/{name} -> {target}", run.status, run.err)


def a_program_without_environment_trusts_the_certificate(bed):
    b.Origin(bed, b.http(lambda r, o: b.answer(200, "verified")), "203.0.113.22", 443, bed.cert("api.test"))
    bed.dns.zone["api.test"] = ["203.0.113.22"]
    run = bed.run("""
        env -i curl -s https://api.test/; echo
        env -i python3 -c 'import urllib.request as u; print(u.urlopen("https://api.test/").read())'
        echo | env -i openssl s_client -connect api.test:443 -servername api.test -CApath /etc/ssl/certs -no-CAfile \\
            -verify_return_error 2>&1 | grep 'Verify return code'
        for f in /etc/ssl/certs/*.0; do env -i openssl verify -CApath /etc/ssl/certs -no-CAfile $f; done | grep -vc OK
        ls -l /etc/ssl/certs/ | grep -c exeat""", POLICY)
    b.check(run.out.split("\n")[:2] == ["verified", "b'verified'"], "by the system's bundle", run.out, run.err)
    b.check("Verify return code: 0 (ok)" in run.out, "by the folder of hashes", run.out, run.err)
    b.check(run.out.endswith("\n0\n1\n"), "beside the machine's own roots", run.out, run.err)


def a_java_store_holds_the_certificate(bed):
    run = bed.run("cmp /etc/exeat/cacerts /etc/ssl/certs/java/cacerts && head -c 4 /etc/exeat/cacerts | od -An -tx1 && "
                  "python3 -c 'import base64,re; pem=open(\"/etc/exeat/ca.pem\").read(); "
                  "print(base64.b64decode(\"\".join(pem.split(\"\\n\")[1:-2])) in open(\"/etc/exeat/cacerts\",\"rb\").read())'; "
                  "command -v keytool >/dev/null && keytool -list -keystore /etc/ssl/certs/java/cacerts -storepass changeit 2>&1 "
                  "| grep -c trustedCertEntry", POLICY)
    b.check("fe ed fe ed\nTrue\n" in run.out, "in both places", run.out, run.err)
    root = _busybox(_folder(bed, "javas"))
    for home in ("usr/lib/jvm/own", "usr/lib/jvm/old/jre", "opt/java/openjdk"):
        (root / home / "lib/security").mkdir(parents=True)
        (root / home / "lib/security/cacerts").write_text("its own")
    os.symlink("own", root / "usr/lib/jvm/default")
    (root / "usr/lib/jvm/a-file").write_text("")
    (root / "usr/lib/jvm/odd/lib/security/cacerts").mkdir(parents=True)
    run = bed.run("cd /usr/lib/jvm && cmp /etc/exeat/cacerts own/lib/security/cacerts && cmp /etc/exeat/cacerts "
                  "old/jre/lib/security/cacerts && cmp /etc/exeat/cacerts default/lib/security/cacerts && cmp "
                  "/etc/exeat/cacerts /opt/java/openjdk/lib/security/cacerts && echo all",
                  POLICY, options=["--rootfs", str(root)])
    b.check(run.out == "all\n", "a Java that brings its own store trusts it, too", run.out, run.err)
    b.check((root / "usr/lib/jvm/own/lib/security/cacerts").read_text() == "its own", "and the folder is as it was")


def a_root_without_roots_gets_the_places_where_most_look(bed):
    root = _busybox(_folder(bed, "rootless"))
    run = bed.run("cmp /etc/exeat/ca-bundle.pem /etc/ssl/certs/ca-certificates.crt && cmp /etc/exeat/ca-bundle.pem "
                  "/etc/ssl/cert.pem && echo both; ls /etc/exeat", POLICY, options=["--rootfs", str(root)])
    b.check(run.out.startswith("both\n") and not (root / "etc").exists(), "in the box alone", run.out, run.err)
    (root / "etc").mkdir()
    (root / "etc/ssl").write_text("a file")
    run = bed.run("cat /etc/ssl; echo $SSL_CERT_FILE", POLICY, options=["--rootfs", str(root)])
    b.check(run.out.startswith("a file/etc/exeat/"), "where they cannot be made there is the environment", run.out, run.err)


# ---- the command ----


def arguments_arrive_byte_by_byte(bed):
    show = ["python3", "-c", "import os,sys; sys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))"]
    odd = [b"\xff\xfe\x80abc", b"\xed\xa0\x80", b"\xc2\x85", bytes(range(1, 256)), b"", b"", b"-", b"%s\\0"]
    process = bed.start(show + odd, POLICY).process
    out, err = process.communicate(timeout=60)
    b.check(out == b"|".join(odd), "each byte", out, err)
    for n, size in ((10000, 1), (12, 120000)):
        run = bed.run(show + ["x" * size] * n, POLICY)
        b.check(len(run.out) == n * size + n - 1, f"{n} arguments of {size}", run.status, run.err)


def a_command_that_cannot_be_run_is_named(bed):
    folder = _folder(bed, "relative")
    (folder / "x").write_text("#!/bin/sh\necho ran $1\n")
    os.chmod(folder / "x", 0o755)
    run = bed.run(["./x", "it"], POLICY, options=["--workspace", str(folder)])
    b.check(run.out == "ran it\n", "a relative path is the workspace's", run.err)
    for command, status in ((["./y"], 127), ([""], 127), (["/usr"], 126), (["/etc/passwd"], 126)):
        run = bed.run(command, POLICY)
        b.check(run.status == status and run.err.startswith(f"exeat: {command[0]}: "), f"{command}", run.status, run.err)


def _living(mark):
    return subprocess.run(["pgrep", "-f", mark], capture_output=True, text=True, check=False).stdout.split()


def what_the_command_leaves_running_ends_with_it(bed):
    mark = f"sleep 5{os.getpid()}"
    for script in (f"{mark} & {mark} & setsid {mark} & nohup {mark} & echo done",
                   f"(setsid sh -c '({mark} & exec {mark}) &' &); trap '' TERM HUP; sleep 0.2; echo done"):
        run = bed.run(script, POLICY, timeout=20)
        b.check("done" in run.out and run.status == 0, "it ended", run.status, run.err)
        b.check(not _living(mark), "with all of them", _living(mark))


def a_fork_bomb_is_held_by_its_limit(bed):
    run = bed.run(["python3", "-c", """
import os, time
n = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        n += 1
except OSError as e:
    print(n, e.errno)
"""], POLICY)
    b.check(run.out.endswith(" 11\n") and int(run.out.split()[0]) < 1024, "EAGAIN below 1,024", run.out, run.err)


def memory_is_limited_where_the_machine_can(bed):
    limits = glob.glob("/sys/fs/cgroup/memory") + glob.glob("/sys/fs/cgroup/memory.max")
    run = bed.start("cat /proc/self/oom_score_adj; read x", POLICY, stdin=subprocess.PIPE)
    b.check(run.process.stdout.readline() == b"500\n", "a box goes before the roles do")
    name = f"exeat-run-{run.process.pid}-1"
    values = [int(p.read_text()) for pattern in (f"memory/{name}/memory.limit_in_bytes", f"{name}/memory.max")
              for p in pathlib.Path("/sys/fs/cgroup").glob(pattern)]
    run.process.communicate(b"\n", timeout=30)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    b.check(not limits or (len(values) == 1 and 0 < values[0] < total), "a part of the machine's", values, total)


# ---- the terminal ----


def _in_terminal(bed, command):
    main, end = os.openpty()
    run = bed.start(command, POLICY, stdin=end, stdout=end, stderr=end, start_new_session=True,
                    preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))
    os.close(end)
    return main, run


def _read_until(main, word):
    text = b""
    os.set_blocking(main, False)

    def more():
        nonlocal text
        try:
            text += os.read(main, 65536)
        except BlockingIOError:
            pass
        except OSError:
            return True
        return word in text
    b.wait_until(f"{word!r} on the terminal; so far {text!r}", more)
    return text


def a_terminal_has_its_size_and_its_changes(bed):
    import fcntl
    import struct
    main, run = _in_terminal(bed, ["bash", "-c", "trap 'stty size; exit 4' WINCH; stty size; echo up; "
                                   "while :; do sleep 0.05; done"])
    _read_until(main, b"up\r\n")
    fcntl.ioctl(main, 0x5414, struct.pack("HHHH", 33, 101, 0, 0))
    text = _read_until(main, b"33 101")
    b.check(run.process.wait(20) == 4, "and it ends as it says", text)
    os.close(main)


def a_terminals_shell_has_job_control(bed):
    main, run = _in_terminal(bed, ["bash", "--norc", "-i"])
    _read_until(main, b"$ ")
    os.write(main, b"sleep 300\n")
    time.sleep(0.3)
    os.write(main, b"\x1a")
    _read_until(main, b"Stopped")
    os.write(main, b"fg\n")
    time.sleep(0.2)
    os.write(main, b"\x03")
    os.write(main, b"echo status-$?\n")
    _read_until(main, b"status-130")
    os.write(main, b"exit 9\n")
    b.check(run.process.wait(20) == 9, "and it ends as it says")
    os.close(main)


# ---- the other runtime ----


def crun_runs_a_box_as_well(bed):
    runc = next(p for p in ("/usr/sbin/runc", "/usr/bin/runc") if os.path.exists(p))
    b.sh("mount", "--bind", "/dev/null", runc)      # in this test's own mount namespace
    try:
        folder = _folder(bed, "crun")
        shutil.copy(PROBE, folder)
        run = bed.run("python3 box_probe.py; exit 7", POLICY, options=["--workspace", str(folder)])
        b.check(run.status == 7 and run.err == "", "it runs", run.status, run.err)
        b.check(run.record("sandbox_start")["isolation"].startswith("container/crun "), "and is named")
        done = {k: v for k, v in json.loads(run.out).items() if v == "done"}
        b.check(not done, "nothing more can be done in it", done)
        run.mark, run.family = "no such command", {}
        b.check(_left(run) == [], "nothing is left", _left(run))
        b.sh("mount", "--bind", "/bin/false", "/usr/bin/crun")
        run = bed.run("echo started", POLICY)
        b.check(run.status == 125 and not run.out, "a runtime that fails is not the command's failure", run.status, run.out)
        b.sh("umount", "/usr/bin/crun")
    finally:
        b.sh("umount", runc)


# ---- the end ----


def _left(run):
    """What bears the run's name: in any mount namespace, as a folder, a cgroup or a process; and which of
    its processes live (its network namespaces are theirs alone, and go with the last of them)."""
    name, found = f"run-{run.process.pid}-1", []
    for path in glob.glob("/proc/[0-9]*/mountinfo"):
        try:
            found += [path] * (f"/{name}/" in pathlib.Path(path).read_text())
        except OSError:
            pass
    found += glob.glob(f"/run/exeat/{name}") + glob.glob(f"/sys/fs/cgroup/**/exeat-{name}", recursive=True)
    return found + _living(run.mark) + [f"{p} {_name_of(p)}" for p, start in run.family.items() if start and _start_of(p) == start]


def _name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone meanwhile"


def _start_of(pid):
    """When a process was started: with its number, who it is. None for one that is gone."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _descendants(pid):
    rows = [line.split(None, 2) for line in subprocess.run(
        ["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout.splitlines()]
    family, grown = {str(pid)}, True
    while grown:
        more = {p for p, parent, _ in rows if parent in family} - family
        family, grown = family | more, bool(more)
    return {int(p): name for p, _, name in rows if p in family}


def whoever_is_killed_at_whatever_time_nothing_is_left(bed):
    chance = random.Random(7)
    hit = {}
    for n in range(32):
        who = ("exeat", "exeat-keeper", "runc", "init")[n % 4]
        mark = f"sleep 6{os.getpid()}{n}"
        run = bed.start(mark, POLICY)
        run.mark, run.family = mark, {}
        time.sleep(chance.uniform(0.0, 0.12))
        for _ in range(40):
            family = _descendants(run.process.pid)
            run.family.update((p, _start_of(p)) for p in family)
            # "runc:[2:INIT]" is a runtime, too: what becomes the box.
            found = [p for p, name in family.items() if name.partition(":")[0] == who and
                     (who == "exeat") == (p == run.process.pid)]
            if found:
                break
        for pid in found[:2]:
            try:
                os.kill(pid, signal.SIGKILL)
                hit[who] = hit.get(who, 0) + 1
            except ProcessLookupError:
                pass
        time.sleep(0.1)
        if run.process.poll() is None:
            run.process.terminate()
        run.wait(20)
        b.wait_until(f"nothing to be left of a run whose {who} was killed: {_left(run)}", lambda run=run: not _left(run), 5)
    b.check(min(hit.get(w, 0) for w in ("exeat", "exeat-keeper", "runc", "init")) >= 3, "each was killed", hit)
    b.check(bed.run("true", POLICY).status == 0, "and the next one runs")


def twenty_at_once_all_run(bed):
    started = time.monotonic()
    runs = [bed.start(f"echo number {i}; exit {i}", POLICY) for i in range(20)]
    for run in runs:
        run.wait(60)
    good = [i for i, run in enumerate(runs) if run.status == i and run.out == f"number {i}\n"]
    print(f"      {len(good)} of 20 at once, all after {time.monotonic() - started:.2f} s", flush=True)
    b.check(len(good) == 20, "all of them", [(r.status, r.err) for r in runs if r.status != runs.index(r)])


b.main(b.cases(globals()))
