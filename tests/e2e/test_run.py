"""exeat run is the command: its exit status, signals, streams and files; and nothing stays behind."""

import datetime
import os
import pathlib
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


def the_exit_status_is_the_commands(bed):
    for status in (0, 7, 255):
        run = bed.run(f"exit {status}", POLICY)
        b.check(run.status == status, f"exit {status}", run.status, run.err)
    run = bed.run("kill -SEGV $$", POLICY)
    b.check(run.status == 128 + signal.SIGSEGV, "a signal is 128 + its number", run.status, run.err)
    run = bed.run(["/no/such/program"], POLICY)
    b.check(run.status in (126, 127), "a command that is not there", run.status, run.err)


def a_run_is_over_when_its_command_is(bed):
    """No part of it has to be waited for, or killed: that would take five seconds."""
    run = bed.run("true", POLICY)
    end = time.time()
    stop = datetime.datetime.fromisoformat(run.record("stop")["time"].replace("Z", "+00:00")).timestamp()
    b.check(end - stop < 4, "nothing is waited for behind the last record", end - stop)


def stdin_stdout_and_stderr_are_the_commands(bed):
    process = bed.start("tr a-z A-Z; echo problem >&2", POLICY, stdin=subprocess.PIPE).process
    out, err = process.communicate(b"hello\n" * 20000, timeout=60)
    b.check(out == b"HELLO\n" * 20000, "all of the input comes out", len(out), err)
    b.check(err == b"problem\n", "stderr is the command's and nothing else's", err)


def a_signal_reaches_the_command(bed):
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        run = bed.start("trap 'echo got; exit 3' TERM INT HUP USR1; echo up; while :; do sleep 0.05; done", POLICY)
        b.check(run.process.stdout.readline() == b"up\n", "the command is up")
        run.process.send_signal(sig)
        run.wait(30)
        b.check(run.status == 3 and run.out == "got\n", f"{sig.name} arrives", run.status, run.out, run.err)


def a_signal_that_comes_while_the_box_starts_is_not_lost(bed):
    for i in range(20):
        run = bed.start(["sleep", "600"], POLICY)
        b.wait_until("the box to be started", lambda: os.path.exists(run.log_path) and run.records("sandbox_start"))
        time.sleep(i * 0.003)
        run.process.send_signal(signal.SIGINT if i % 2 else signal.SIGTERM)
        run.wait(20)
        b.check(run.status in (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM),
                "it ends the command, or the start", i, run.status, run.err)


def a_terminal_is_the_commands(bed):
    import pty
    main, end = pty.openpty()
    run = bed.start("stty size; tty -s && echo terminal", POLICY, stdin=end, stdout=end, stderr=end)
    os.close(end)
    run.process.wait(30)
    text = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        text += piece
    b.check(b"terminal" in text, "stdin is a terminal in the box", text)


def a_workspace_is_written_as_its_owner(bed):
    folder = pathlib.Path(bed.path("work"))
    folder.mkdir()
    os.chmod(bed.dir, 0o755)
    os.chown(folder, 12345, 12345)
    run = bed.run("id -u; echo made > /workspace/file; pwd", POLICY, options=["--workspace", str(folder)])
    b.check(run.status == 0 and run.out.split()[0] != "0", "not root in the box", run.out, run.err)
    b.check((folder / "file").read_text() == "made\n" and (folder / "file").stat().st_uid == 12345,
            "written, and the owner's", run.err)


def a_callers_umask_does_not_lock_the_box_out(bed):
    run = bed.run("umask; id -u; cat /etc/resolv.conf >/dev/null && echo fine", POLICY, umask=0o077)
    b.check(run.status == 0 and run.out.endswith("fine\n"), "the box starts", run.status, run.out, run.err)


def the_box_is_locked_down(bed):
    run = bed.run("grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; "
                  "touch /usr/x /etc/x /x 2>/dev/null; echo $?; ls /sys 2>/dev/null | wc -l; "
                  "cat /proc/net/route | wc -l; ls /sys/class/net 2>/dev/null; env", POLICY)
    for text in ("CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000",
                 "NoNewPrivs:\t1", "Seccomp:\t2"):
        b.check(text in run.out, text, run.out, run.err)
    b.check("\n1\n0\n" in run.out, "read-only root, no /sys", run.out)
    for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
                 "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "PIP_CERT", "DENO_CERT", "CARGO_HTTP_CAINFO"):
        b.check(f"\n{name}=/" in run.out, f"{name} is set", run.out)


def what_a_box_may_use_and_has_used_is_on_record(bed):
    run = bed.run("python3 -c 'import time\nwhile time.process_time() < 0.5: pass' & wait; "
                  "getent hosts some.test; exit 5", POLICY)
    start, stop = run.record("sandbox_start"), run.record("sandbox_stop")
    for text in ("memory ", "processor 512 of 1024 shares", "processes 1024", "leases 4096", "connections 1024", "idle 3600 s"):
        b.check(text in start["limits"], text, start)
    b.check(stop["exit"] == 5 and 500 <= stop["cpu_ms"] < 5000, "processor time", stop)
    b.check(stop["bytes_up"] > 50 and stop["bytes_down"] > 50, "what went over its wire", stop)
    said = subprocess.run([b.EXEAT, "log", "tail", "-n", "3", run.log_path], capture_output=True, text=True, check=True).stdout
    b.check(f"box ends with 5 after {stop['seconds']} s, {stop['cpu_ms']} ms of processor, {stop['bytes_up']} bytes up, "
            f"{stop['bytes_down']} down\n" in said, "and told to people", said)
    killed = bed.run("python3 -c 'import time\nwhile time.process_time() < 0.5: pass\nprint()' | (read x; kill -9 $$); sleep 9", POLICY)
    b.check(killed.record("sandbox_stop")["cpu_ms"] >= 500, "also of what is killed", killed.records())


def nothing_of_the_hosts_environment_is_in_the_box(bed):
    run = bed.run("env; cat /proc/*/environ", POLICY, env=dict(os.environ, MY_SECRET="do-not-tell-anyone"))
    b.check("do-not-tell-anyone" not in run.out and "MY_SECRET" not in run.out, "not there", run.out)


def nothing_is_left_behind(bed):
    run = bed.run("true", POLICY)
    b.check(run.status == 0, "it ran", run.err)
    b.check(run.left_behind() == [], "no mount, folder, cgroup, link or process", run.left_behind())


def nothing_is_left_behind_after_a_kill(bed):
    mark = f"sleep 6{os.getpid()}"
    run = bed.start(f"echo up; {mark}", POLICY)
    b.check(run.process.stdout.readline() == b"up\n", "the command is up")
    run.process.kill()
    run.process.wait()
    b.wait_until("the box to be gone", lambda: subprocess.run(
        ["pgrep", "-f", mark], capture_output=True, check=False).returncode != 0)
    b.wait_until("the folders and mounts to be gone", lambda: not run.left_behind())


def _for_everybody(bed):
    """The program at a place that any user can reach, wherever this checkout lies."""
    folder = bed.path("programs")
    if not os.path.exists(folder):
        os.makedirs(folder)
        for program in pathlib.Path(b.EXEAT).parent.glob("exeat*"):
            shutil.copy(program, folder)
    os.chmod(bed.dir, 0o755)
    return folder + "/exeat"


def wrong_input_is_one_clear_line(bed):
    exeat = _for_everybody(bed)

    def told(args, text, status, **more):
        done = subprocess.run([exeat, "run", *args], capture_output=True, text=True, check=False, **more)
        b.check(done.returncode == status and text in done.stderr, f"{args}: {text!r}", done.returncode,
                done.stderr)
    policy = bed.write("ok.yaml", POLICY)
    told([], "--policy FILE is needed", 64)
    told(["--policy", policy], "no command", 64)
    told(["--policy", "/no/such", "--log", bed.path("no.jsonl"), "--", "true"], "/no/such", 1)
    told(["--policy", bed.write("bad.yaml", POLICY.replace("allow:", "alow:")), "--log", bed.path("no.jsonl"), "--", "true"],
         'did you mean "allow"?', 1)
    told(["--policy", policy, "--workspace", "/no/such", "--", "true"], "no such folder", 125)
    told(["--policy", policy, "--log", "/proc/nope/x", "--", "true"], "audit log", 125)
    told(["--policy", policy, "--", "true"], "must be root", 125, user=65534)
    done = subprocess.run([exeat, "policy", "check", policy], user=65534, capture_output=True, text=True, check=False)
    b.check(done.returncode == 1 and "must be root" in done.stderr, "the same of a check", done)
    for runtime in filter(os.path.exists, ("/usr/sbin/runc", "/usr/bin/crun")):
        b.sh("mount", "--bind", "/dev/null", runtime)   # in this test's own mount namespace
    told(["--policy", policy, "--log", bed.path("no.jsonl"), "--", "true"], "apt-get install runc", 125)
    b.sh("umount", "/usr/sbin/runc")


CAP_NET_ADMIN, CAP_KILL = 12, 5
PR_CAPBSET_DROP = 24


def a_machine_that_lacks_something_is_told_in_one_line(bed):
    policy, exeat = bed.write("ok.yaml", POLICY), _for_everybody(bed)

    def told(text, *before, **more):
        done = subprocess.run([*before, exeat, "run", "--policy", policy, "--log", bed.path("lacks.jsonl"), "--", "true"],
                              capture_output=True, text=True, check=False, **more)
        b.check(done.returncode == 125 and text in done.stderr and done.stderr.count("\n") == 1, f"one line: {text}",
                done.returncode, done.stderr)
    def without(capability):
        return lambda: b.LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    told("must be root", user=65534)
    told("missing: CAP_NET_ADMIN;", preexec_fn=without(CAP_NET_ADMIN))
    told("missing: CAP_KILL;", preexec_fn=without(CAP_KILL))
    told("root of a user namespace is not enough", "unshare", "-Ur")
    for role in ("reader", "worker", "broker", "dialer", "recorder"):
        folder = bed.path(f"without-{role}")
        shutil.copytree(os.path.dirname(b.EXEAT), folder, ignore=lambda d, names: [n for n in names if not n.startswith("exeat")])
        os.unlink(f"{folder}/exeat-{role}")
        done = subprocess.run([f"{folder}/exeat", "run", "--policy", policy, "--log", bed.path("lacks.jsonl"), "--", "true"],
                              capture_output=True, text=True, check=False)
        own = 1 if role == "reader" else 125    # without a reader no policy loads
        b.check(done.returncode == own and done.stderr.count("\n") == 1, f"one line without exeat-{role}", done.stderr)
        os.symlink("/bin/false", f"{folder}/exeat-{role}")
        done = subprocess.run([f"{folder}/exeat", "run", "--policy", policy, "--log", bed.path("lacks.jsonl"), "--", "true"],
                              capture_output=True, text=True, check=False)
        lines = done.stderr.splitlines()
        gone = {"reader": "reader ended", "worker": "nursery is gone"}.get(role, f"{role} is gone")
        b.check(done.returncode == own and len(lines) == 1 and f"the {gone}" in lines.pop(), f"one line where exeat-{role} ends at once", done.stderr)


def a_policy_that_does_not_load_is_on_record(bed):
    run = bed.run("echo ran", POLICY.replace("allow:", "alow:"))
    b.check(run.status == 1 and run.out == "" and 'did you mean "allow"?' in run.err, "nothing is run", run.status, run.err)
    record = run.record("policy_reject")
    b.check(record["file"] == bed.path(f"policy{bed.runs}.yaml") and 'did you mean "allow"?' in record["diagnostics"],
            "which file, and what is wrong", record)
    b.check([r["kind"] for r in run.records()] == ["start", "policy_reject", "stop", "checkpoint"], "and no more", run.records())
    b.check(run.record("stop")["ended"] == "not started", "it was not started")
    run.verify()
    log = bed.path("unread.jsonl")
    subprocess.run([b.EXEAT, "run", "--policy", "/no/such", "--log", log, "--", "true"], capture_output=True, check=False)
    with open(log, encoding="utf-8") as f:
        b.check('"kind":"policy_reject"' in f.read(), "one that cannot be read, too")


def descriptors_that_the_caller_closed_are_nobodys(bed):
    for fd in (0, 1, 2):
        run = bed.run("cat; echo out; echo err >&2; exit 3", POLICY, preexec_fn=lambda n=fd: os.close(n))
        b.check(run.status == 3, "the command runs", fd, run.status, run.out, run.err)
        b.check(run.out == ("" if fd == 1 else "out\n") and run.err == ("" if fd == 2 else "err\n"),
                "and says what it can", fd, run.out, run.err)
        run.verify()


def secrets_that_the_policy_does_not_name_are_not_opened(bed):
    settings = bed.write("s.yaml", "exeat-settings: 1\nsecrets:\n  other: {file: /no/such/secret, hosts: [api.test]}\n"
                         "  more: {env: NO_SUCH_VARIABLE, hosts: [api.test]}\n")
    run = bed.run("echo started", POLICY, settings=settings)
    b.check(run.status == 0 and run.out == "started\n", "the box runs without them", run.status, run.out, run.err)
    b.check(run.err == "", "and nothing is said of them", run.err)


def a_bad_secret_is_named_and_nothing_starts(bed):
    policy = POLICY.replace("allow:", "credentials:\n  c: {kind: bearer, secret: s, hosts: [api.test]}\nallow:")
    for value, mode, word in (("", 0o600, "empty"), ("abc12", 0o600, "short"), ("with\x01control-byte", 0o600, "control"),
                              ("good-enough-value", 0o644, "read")):
        bed.write("bad-secret", value, mode)
        settings = bed.write("s.yaml", "exeat-settings: 1\nsecrets:\n  s: {file: " + bed.path("bad-secret")
                             + ", hosts: [api.test]}\n")
        run = bed.run("echo started", policy, settings=settings)
        b.check(run.status == 125 and "started" not in run.out, "not started", run.status, run.out)
        b.check('"s"' in run.err and word in run.err, f"named: {word}", run.err)
        b.check("is gone" not in run.err, "and nothing else is told", run.err)
        b.check(not value or value not in run.err, "and its value is not told", run.err)


b.main(b.cases(globals()))
