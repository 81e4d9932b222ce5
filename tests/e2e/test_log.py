"""The audit log: nothing goes out that is not in it, and nothing in it can be changed unseen."""

import glob
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test], paths: [/ok/**]}
"""

# Makes one request for each line that it reads, and prints its status. The name is looked up once.
REQUESTS = ("address=$(getent hosts api.test | cut -d' ' -f1); while read path; do : > /tmp/body; "
            "curl -sS -m 20 -o /tmp/body -w '%{http_code} ' --resolve api.test:443:$address "
            "https://api.test$path 2>/tmp/err; cat /tmp/body /tmp/err | "
            "grep -ohE 'urn:exeat:refusal:log.unavailable|alert internal error' || echo; done")


def _origin(bed):
    bed.dns.zone["api.test"] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))
    bed.origin.requests.clear()


def _log(*args, env=None):
    return subprocess.run([b.EXEAT, "log", *args], capture_output=True, text=True, check=False, env=env,
                          stdin=subprocess.DEVNULL, timeout=60)


def _ask(run, path):
    run.process.stdin.write(path.encode() + b"\n")
    run.process.stdin.flush()
    return run.process.stdout.readline().decode().strip()


def _fill(path):
    """Writes until there is no room at all."""
    with open(path, "wb", buffering=0) as f:
        for size in (65536, 4096, 1):
            try:
                while True:
                    f.write(b"\0" * size)
            except OSError:
                pass


def a_full_disk_refuses_traffic_and_loses_no_record(bed):
    _origin(bed)
    small = pathlib.Path(bed.path("small"))
    small.mkdir()
    b.sh("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small))
    try:
        run = bed.start(REQUESTS, POLICY, options=["--log", str(small / "log.jsonl")], stdin=subprocess.PIPE)
        run.log_path = str(small / "log.jsonl")
        b.check(_ask(run, "/ok/first").startswith("200"), "there is room")
        _fill(small / "ballast")
        full = [_ask(run, f"/ok/full{i}") for i in range(30)]
        # When the recorder meets the full disk is its own matter; new connections are told in words, too.
        forms = ("200", "503 urn:exeat:refusal:log-unavailable")
        b.check(all(f in forms for f in full) and "200" not in full[4:], "refused, and why", full)
        b.check(full[-20:] == [forms[1]] * 20, "each, in words", full)
        reached = len(bed.origin.requests)
        _ask(run, "/ok/still-full")
        b.check(len(bed.origin.requests) == reached, "nothing reaches the origin meanwhile")
        os.unlink(small / "ballast")
        b.wait_until("requests to go on", lambda: _ask(run, "/ok/again").startswith("200"))
        run.process.stdin.close()
        run.process.stdin = None
        run.wait()
        b.check(run.status == 0, "the run goes on to its end", run.status, run.err)
        b.check("cannot be written" in run.err and "can be written again" in run.err, "the operator is told", run.err)
        for request in bed.origin.requests:
            b.check(run.records("request", path=request.target, verdict="allow", status=200),
                    f"{request.target} reached the origin and is on record", run.records("request"))
        run.verify()
    finally:
        b.sh("umount", "-l", str(small))


LOAD = ("address=$(getent hosts api.test | cut -d' ' -f1); for i in $(seq 30); do (for n in $(seq 20); do "
        "curl -sS -m 20 -o /dev/null --resolve api.test:443:$address https://api.test/ok/$i-$n; done) 2>/dev/null & done; wait")


def _stalled(bed):
    """Nothing has reached the origin for half a second."""
    before = len(bed.origin.requests)
    time.sleep(0.5)
    return len(bed.origin.requests) == before


def a_disk_that_fills_up_under_load_keeps_the_end_of_what_was_begun(bed):
    _origin(bed)
    small = pathlib.Path(bed.path("busy"))
    small.mkdir()
    b.sh("mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(small))
    try:
        run = bed.start(LOAD, POLICY, options=["--log", str(small / "log.jsonl")])
        run.log_path = str(small / "log.jsonl")
        b.wait_until("the load", lambda: len(bed.origin.requests) > 60, 90)
        for _ in range(3):
            _fill(small / "ballast")
            b.wait_until("traffic to stop", lambda: _stalled(bed))
            os.unlink(small / "ballast")
            reached = len(bed.origin.requests)
            b.wait_until("it to go on", lambda: len(bed.origin.requests) > reached or run.process.poll() is not None)
        run.wait()
        b.check(run.status == 0, "the run ends well", run.status, run.err)
        ends = [r["path"] for r in run.records("request", phase="end", verdict="allow")]
        for request in bed.origin.requests:
            b.check(ends.count(request.target) >= 1, f"{request.target} has its end on record", len(ends))
        run.verify()
    finally:
        b.sh("umount", "-l", str(small))


def a_log_on_a_full_disk_starts_nothing(bed):
    _origin(bed)
    small = pathlib.Path(bed.path("full"))
    small.mkdir()
    b.sh("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small))
    try:
        (small / "log.jsonl").touch()
        _fill(small / "ballast")
        start = time.monotonic()
        run = bed.run("echo ran; curl -sS -m 5 https://api.test/ok/x", POLICY,
                      options=["--log", str(small / "log.jsonl")])
        b.check(run.status == 125 and "audit log" in run.err, "it says why", run.status, run.out, run.err)
        b.check("ran" not in run.out, "no command is run that is not on record", run.out, run.err)
        b.check(time.monotonic() - start < 20, "and soon")
        b.check(not bed.origin.requests, "nothing reached the origin")
    finally:
        b.sh("umount", "-l", str(small))


def verify_finds_whatever_was_changed(bed):
    _origin(bed)
    run = bed.run("for i in 1 2 3; do curl -sS -o /dev/null https://api.test/ok/$i; curl -sS -o /dev/null "
                  "https://api.test/no/$i; done", POLICY)
    run.verify()
    lines = pathlib.Path(run.log_path).read_bytes().splitlines(keepends=True)
    b.check(len(lines) > 10, "a log of some length", lines)
    middle = len(lines) // 2
    flipped = bytearray(lines[middle])
    flipped[flipped.index(b'"kind"') + 8] ^= 1
    text = lines[middle].replace(b"allow", b"deny ").replace(b"api.test", b"apy.test")
    changes = {
        "a changed byte": lines[:middle] + [bytes(flipped)] + lines[middle + 1:],
        "a changed word": lines[:middle] + [text] + lines[middle + 1:],
        "a removed line": lines[:middle] + lines[middle + 1:],
        "a removed first line": lines[1:],
        "two lines swapped": lines[:middle] + [lines[middle + 1], lines[middle]] + lines[middle + 2:],
        "a line twice": lines[:middle] + [lines[middle]] + lines[middle:],
        "an added line": lines[:middle] + [b'{"seq":1,"prev":"0"}\n'] + lines[middle:],
        "an empty line": lines[:middle] + [b"\n"] + lines[middle:],
        "a half last line": lines[:-1] + [lines[-1][:40]],
    }
    for what, changed in changes.items():
        b.check(b"".join(changed) != b"".join(lines), f"{what}: it is a change")
        pathlib.Path(bed.path("changed")).write_bytes(b"".join(changed))
        done = _log("verify", bed.path("changed"))
        b.check(done.returncode == 1 and "wrong" in done.stderr, what, done.stdout, done.stderr)
    shown = _log("verify", run.log_path).stdout.split()[-1]
    pathlib.Path(bed.path("changed")).write_bytes(b"".join(lines[:-2]))
    b.check(_log("verify", bed.path("changed")).returncode == 0, "a chain cannot show that its end is gone")
    done = _log("verify", "--last", shown, bed.path("changed"))
    b.check(done.returncode == 1 and "cut off" in done.stderr, "but a hash that was kept can", done.stderr)
    b.check(_log("verify", "--last", shown, run.log_path).returncode == 0, "and is found in the whole one")


def tail_shows_so_many_lines_as_they_are_or_for_people(bed):
    _origin(bed)
    run = bed.run("for i in 1 2 3 4; do curl -sS -o /dev/null https://api.test/ok/$i; done", POLICY)
    lines = pathlib.Path(run.log_path).read_text().splitlines()
    b.check(_log("tail", "--json", "-n", "3", run.log_path).stdout.splitlines() == lines[-3:], "--json -n 3")
    b.check(_log("tail", "--json", "-n", "0", run.log_path).stdout == "", "-n 0")
    b.check(_log("tail", "--json", "-n", "100000", run.log_path).stdout.splitlines() == lines, "all of them")
    b.check(_log("tail", "--json", run.log_path).stdout.splitlines() == lines[-10:], "ten, if nothing is said")
    people = _log("tail", "-n", "100", run.log_path).stdout
    b.check(len(people.splitlines()) == len(lines) and "/ok/3" in people and "\x1b" not in people,
            "one line each, no colour in a pipe", people)
    for args, status in ((["tail", "-n", "x"], 64), (["tail", "/no/such"], 1), (["verify", "/no/such"], 1), ([], 64)):
        done = _log(*args)
        b.check(done.returncode == status and done.stderr, "wrong use is told", args, done.returncode, done.stderr)


def tail_follows_a_box_that_runs(bed):
    _origin(bed)
    run = bed.start(REQUESTS, POLICY, stdin=subprocess.PIPE)
    _ask(run, "/ok/before")
    follower = subprocess.Popen([b.EXEAT, "log", "tail", "-f", "--json", "-n", "1000", run.log_path],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = []
    threading.Thread(target=lambda: seen.extend(map(json.loads, follower.stdout)), daemon=True).start()
    b.wait_until("what was there before", lambda: any(r.get("path") == "/ok/before" for r in seen))
    _ask(run, "/ok/during")
    b.wait_until("what is added", lambda: any(r.get("path") == "/ok/during" for r in seen), 5)
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    b.wait_until("the end", lambda: any(r["kind"] == "stop" for r in seen) and seen[-1]["kind"] == "checkpoint", 5)
    follower.terminate()
    follower.wait(10)
    b.check([r["seq"] for r in seen] == list(range(1, len(seen) + 1)), "each line once")


def the_default_place_is_the_users_state(bed):
    _origin(bed)
    policy = bed.write("default-place.yaml", POLICY)
    for variable, place in (("XDG_STATE_HOME", "exeat/audit.jsonl"), ("HOME", ".local/state/exeat/audit.jsonl")):
        home = bed.path("state-" + variable)
        env = {k: v for k, v in os.environ.items() if k not in ("XDG_STATE_HOME", "HOME")} | {variable: home}
        done = subprocess.run([b.EXEAT, "run", "--policy", policy, "--settings", bed.settings(), "--", "true"],
                              capture_output=True, text=True, check=False, env=env, stdin=subprocess.DEVNULL)
        log = pathlib.Path(home) / place
        b.check(done.returncode == 0 and log.is_file(), "made there", variable, done.stderr)
        b.check(log.stat().st_mode & 0o777 == 0o600 and log.parent.stat().st_mode & 0o777 == 0o700,
                "and nobody else's to read", oct(log.stat().st_mode))
        verified, shown = _log("verify", env=env), _log("tail", "--json", "-n", "2", env=env)
        b.check(verified.returncode == 0 and str(log) in verified.stdout, "found there", verified.stderr)
        kinds = [json.loads(line)["kind"] for line in shown.stdout.splitlines()]
        b.check(kinds == ["stop", "checkpoint"], "and shown", shown.stdout)


def two_runs_into_one_log_keep_one_chain(bed):
    _origin(bed)
    log = bed.path("shared.jsonl")
    command = "for i in $(seq 15); do curl -sS -o /dev/null https://api.test/ok/$i; done"
    runs = [bed.start(command, POLICY, options=["--log", log, "--name", f"box{i}"]) for i in range(2)]
    for run in runs:
        run.wait()
        run.log_path = log
        b.check(run.status == 0, "both run", run.status, run.err)
    runs[0].verify()
    for i in range(2):
        found = runs[0].records("request", sandbox=f"box{i}", verdict="allow")
        b.check(len(found) == 15, "every request of each is there once", len(found))
    order = [r.get("sandbox") for r in runs[0].records("request")]
    b.check(order != sorted(order) and order != sorted(order, reverse=True), "they ran at once", order)
    third = bed.run("true", POLICY, options=["--log", log])
    b.check(third.status == 0, "and a third goes on from there", third.err)
    runs[0].verify()


def a_long_request_has_a_begin_before_its_end(bed):
    _origin(bed)
    gate = threading.Event()

    def slow(request, _origin):
        gate.wait(30)
        return b.answer(200, "late")
    bed.dns.zone["slow.test"] = ["203.0.113.11"]
    b.Origin(bed, b.http(slow), address="203.0.113.11", cert=bed.cert("slow.test"))
    run = bed.start("curl -sS https://slow.test/ok/slow", POLICY.replace("api.test", "slow.test"))
    begin = b.wait_until("its begin, while it waits", lambda: os.path.exists(run.log_path) and
                         run.records("request", phase="begin"))
    b.check(begin[0]["path"] == "/ok/slow" and begin[0]["verdict"] == "allow" and begin[0]["rule"] == "api" and
            "status" not in begin[0], "what is known then", begin)
    gate.set()
    run.wait()
    b.check(run.status == 0 and run.out == "late", "it is answered", run.out, run.err)
    end = run.record("request", phase="end")
    b.check(end["status"] == 200 and end["seq"] > begin[0]["seq"], "and its end comes later", end)
    b.check(len(run.records("request")) == 2, "one begin, one end", run.records("request"))
    run.verify()


def what_a_box_was_refused_last_is_counted_when_it_ends(bed):
    _origin(bed)
    run = bed.run(["python3", "-c", """
import socket
for _ in range(50):
    for host in ("203.0.113.10", "evil.test"):
        try: socket.create_connection((host, 81), 2)
        except OSError: pass
"""], POLICY)
    for kind, fields in (("connect", {"destination": "203.0.113.10"}), ("dns", {"name": "evil.test", "type": "A"})):
        found = run.records(kind, **fields)
        b.check(sum(r.get("count", 1) for r in found) == 50, "every one of them", kind, found)
        b.check(len(found) < 10, "in few lines", found)


def a_file_that_is_no_log_is_left_alone(bed):
    for what, text in (("text", "dear diary\n"), ("json", '{"a":1}\n'), ("no newline", "x" * 5000)):
        path = bed.write("no-log", text, 0o600)
        run = bed.run("echo ran", POLICY, options=["--log", path])
        b.check(run.status == 125 and "ran" not in run.out, what, run.status, run.out)
        b.check("no line of an audit log" in run.err, "it is said", run.err)
        b.check(pathlib.Path(path).read_text() == text, "and nothing is added to it")
    folder = bed.run("echo ran", POLICY, options=["--log", bed.dir])
    b.check(folder.status == 125 and "directory" in folder.err, "a folder", folder.err)
    os.mkfifo(bed.path("fifo"))
    run = bed.run("echo ran", POLICY, options=["--log", bed.path("fifo")], timeout=30)
    b.check(run.status == 125 and "ran" not in run.out and "fifo" in run.err, "a pipe", run.status, run.err)


def a_torn_last_line_is_cut_off_and_told(bed):
    _origin(bed)
    log = bed.path("torn.jsonl")
    first = bed.run("true", POLICY, options=["--log", log])
    with open(log, "ab") as f:
        f.write(b'{"seq":99,"prev":"to')
    second = bed.run("true", POLICY, options=["--log", log])
    b.check(first.status == 0 and second.status == 0, "it goes on", second.status, second.err)
    second.log_path = log
    b.check(second.record("log_fault")["count"] == 20, "and says what was lost", second.records("log_fault"))
    second.verify()


# ---- kept for months: files, checkpoints, successors ----


def _recorder(run):
    """The recorder's process number."""
    children = subprocess.run(["pgrep", "-x", "exeat-recorder", "-P", str(run.process.pid)], capture_output=True,
                              text=True, check=False).stdout.split()
    return int(children[0]) if len(children) == 1 else None


def _query(log, *args):
    done = _log("query", *args, log)
    b.check(done.returncode == 0, "the query", args, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _aside(log):
    found = glob.glob(glob.escape(log) + ".????????T??????Z-*")
    return sorted(found, key=lambda name: int(name.rpartition("-")[2]))


def a_log_is_put_aside_file_by_file_and_stays_one_log(bed):
    _origin(bed)
    run = bed.start(REQUESTS, POLICY, stdin=subprocess.PIPE,
                    settings=bed.settings(extra="log:\n  rotate: {size: 4KiB, keep: 1000}\n"))
    _ask(run, "/ok/first")
    follower = subprocess.Popen([b.EXEAT, "log", "tail", "-f", "--json", "-n", "1000", run.log_path],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = []
    threading.Thread(target=lambda: seen.extend(map(json.loads, follower.stdout)), daemon=True).start()
    b.wait_until("the first lines", lambda: seen)
    begun = seen[0]["seq"]
    for i in range(80):
        answer = _ask(run, f"/ok/{i}")
        b.check(answer.startswith("200"), "each request is answered", i, answer)
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    b.check(run.status == 0, "the run ends well", run.status, run.err)
    files = _aside(run.log_path)
    b.check(len(files) >= 5, "several files", files)
    b.check(all(os.stat(f).st_mode & 0o777 == 0o400 for f in files), "that nobody writes any more")
    done = _log("verify", run.log_path)
    b.check(done.returncode == 0 and f"in {len(files) + 1} files" in done.stdout and "right signature" in done.stdout,
            "one chain, signed", done.stdout, done.stderr)
    ends = [r["path"] for r in _query(run.log_path, "--kind", "request") if r.get("phase") == "end"]
    b.check(sorted(ends) == sorted(["/ok/first"] + [f"/ok/{i}" for i in range(80)]), "each request once", len(ends))
    for before, after in zip(files, files[1:] + [run.log_path]):
        first = json.loads(open(after, encoding="utf-8").readline())
        b.check(first["kind"] == "continued" and first["file"] == os.path.basename(before), "names the one before", first)
    b.wait_until("the follower to come to the end", lambda: any(r["kind"] == "stop" for r in seen), 5)
    follower.terminate()
    follower.wait(10)
    b.check([r["seq"] for r in seen] == list(range(begun, begun + len(seen))), "each line once, over all files", len(seen))
    victim = files[len(files) // 2]
    lines = pathlib.Path(victim).read_bytes().splitlines(keepends=True)
    pathlib.Path(victim).write_bytes(b"".join(lines[:1] + [lines[1].replace(b"api.test", b"apy.test")] + lines[2:]))
    done = _log("verify", run.log_path)
    b.check(done.returncode == 1 and f"{victim}:3: this line is wrong" in done.stderr, "the first wrong line", done.stderr)
    os.unlink(victim)
    done = _log("verify", run.log_path)
    b.check(done.returncode == 1 and "removed" in done.stderr, "a file that is gone", done.stderr)


def only_so_many_files_are_kept(bed):
    _origin(bed)
    run = bed.run("for i in $(seq 60); do curl -sS -o /dev/null https://api.test/ok/$i; done", POLICY,
                  settings=bed.settings(extra="log:\n  rotate: {size: 4KiB, keep: 2}\n"))
    b.check(run.status == 0 and len(_aside(run.log_path)) == 2, "two, and the last", run.err, _aside(run.log_path))
    done = _log("verify", run.log_path)
    b.check(done.returncode == 0 and "the files before it are not here" in done.stdout, "said", done.stdout, done.stderr)


def a_file_that_is_old_is_put_aside(bed):
    _origin(bed)
    run = bed.start(REQUESTS, POLICY, stdin=subprocess.PIPE,
                    settings=bed.settings(extra="log:\n  rotate: {age: 1s}\n"))
    _ask(run, "/ok/1")
    b.wait_until("a second file", lambda: _ask(run, "/ok/2").startswith("200") and _aside(run.log_path))
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    first = json.loads(open(_aside(run.log_path)[0], encoding="utf-8").readline())
    b.check(first["seq"] == 1 and first["kind"] == "start", "the old one is the first", first)
    run.verify()


def two_runs_into_one_log_rotate_it_together(bed):
    _origin(bed)
    log = bed.path("rotated-shared.jsonl")
    command = "for i in $(seq 40); do curl -sS -o /dev/null https://api.test/ok/$i; done"
    settings = bed.settings(extra="log:\n  rotate: {size: 4KiB, keep: 1000}\n")
    runs = [bed.start(command, POLICY, settings=settings, options=["--log", log, "--name", f"box{i}"])
            for i in range(2)]
    for run in runs:
        run.wait()
        b.check(run.status == 0, "both run", run.status, run.err)
    done = _log("verify", log)
    b.check(done.returncode == 0 and len(_aside(log)) > 4, "one chain", done.stdout, done.stderr)
    for i in range(2):
        ends = [r["path"] for r in _query(log, "--sandbox", f"box{i}", "--kind", "request") if r["phase"] == "end"]
        b.check(sorted(ends) == sorted(f"/ok/{n}" for n in range(1, 41)), "every request of each once", len(ends))


def a_recorder_that_is_killed_loses_no_record_and_writes_none_twice(bed):
    _origin(bed)
    run = bed.start(REQUESTS, POLICY, stdin=subprocess.PIPE)
    n = 0
    for _ in range(3):
        for _ in range(8):
            b.check(_ask(run, f"/ok/{n}").startswith("200"), "answered", n)
            n += 1
        old = b.wait_until("the recorder", lambda: _recorder(run))
        os.kill(old, signal.SIGKILL)
        for _ in range(8):
            b.check(_ask(run, f"/ok/{n}").startswith("200"), "traffic does not wait for its successor", n)
            n += 1
        b.wait_until("its successor", lambda: _recorder(run) not in (None, old))
    run.process.stdin.close()
    run.process.stdin = None
    run.wait()
    ends = [r["path"] for r in run.records("request", phase="end")]
    b.check(sorted(ends) == sorted(f"/ok/{i}" for i in range(n)), "each request once", len(ends), n)
    b.check(len(run.records("worker_lost", role="recorder")) == 3, "and the deaths", run.records("worker_lost"))
    run.verify()


def a_request_waits_for_the_disk_where_that_is_wanted(bed):
    _origin(bed)
    for durability, waits in (("written", False), ("synced", True)):
        run = bed.start(REQUESTS, POLICY, stdin=subprocess.PIPE,
                        settings=bed.settings(extra=f"log: {{durability: {durability}}}\n"))
        b.check(_ask(run, "/ok/before").startswith("200"), "it runs")
        pid = b.wait_until("the recorder", lambda: _recorder(run))
        slow = subprocess.Popen(["strace", "-qq", "-p", str(pid), "-e", "trace=fdatasync", "-e",
                                 "inject=fdatasync:delay_enter=700000", "-o", bed.path("strace.out")])
        b.wait_until("strace", lambda: "TracerPid:\t0\n" not in pathlib.Path(f"/proc/{pid}/status").read_text())
        bed.origin.requests.clear()
        start = time.monotonic()
        answer = _ask(run, "/ok/slow")
        took = time.monotonic() - start
        slow.send_signal(signal.SIGINT)
        slow.wait(30)
        calls = pathlib.Path(bed.path("strace.out")).read_text(encoding="utf-8")
        b.check(answer.startswith("200") and ("fdatasync" in calls) == waits and (took >= 0.7 or not waits),
                "the disk is waited for, or not asked at all", durability, took, calls)
        run.process.stdin.close()
        run.process.stdin = None
        run.wait()
        b.check(run.status == 0, "it ends well", run.err)
        run.verify()


def a_policy_is_shown_by_the_digest_that_records_name(bed):
    _origin(bed)
    run = bed.run("curl -sS -o /dev/null https://api.test/ok/x", POLICY)
    digest = run.records("request")[0]["policy"]
    for what in (digest, digest[:8]):
        done = subprocess.run([b.EXEAT, "policy", "show", what, "--log", run.log_path], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL)
        b.check(done.returncode == 0 and done.stdout == POLICY, "as it was", done.stdout, done.stderr)
    for what, status in (("0" * 64, 1), ("../../etc/passwd", 64), ("", 64)):
        done = subprocess.run([b.EXEAT, "policy", "show", what, "--log", run.log_path], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL)
        b.check(done.returncode == status and not done.stdout and done.stderr, "none", what, done.stderr)


def the_log_is_asked_and_summed_up(bed):
    _origin(bed)
    run = bed.run("for i in 1 2 3; do curl -sS -o /dev/null https://api.test/ok/$i; curl -sS -o /dev/null "
                  "https://api.test/no/$i; done; getent hosts evil.test", POLICY)
    log = run.log_path
    b.check(len(_query(log, "--kind", "request", "--verdict", "allow", "--host", "api.test")) == 3, "allowed")
    b.check({r["verdict"] for r in _query(log, "--host", "*.test", "--kind", "dns")} == {"allow", "deny"}, "names")
    b.check(all(r["rule"] == "api" for r in _query(log, "--rule", "api")) and _query(log, "--rule", "api"), "by rule")
    b.check(not _query(log, "--sandbox", "nobody") and not _query(log, "--credential", "none"), "nothing fits")
    middle = run.records("request")[2]
    since = _query(log, "--since", middle["time"])
    b.check(since[0]["time"] >= middle["time"] and middle["seq"] in [r["seq"] for r in since], "since", since[:1])
    b.check(middle["seq"] not in [r["seq"] for r in _query(log, "--until", middle["time"])], "until")
    b.check(_query(log, "--since", "1h") == run.records() and not _query(log, "--since", "0s"), "relative")
    text = _log("query", "--format", "text", "--kind", "request", log).stdout
    b.check("GET https://api.test/ok/1" in text and "{" not in text, "for people", text)
    done = _log("summary", "--json", log)
    summary = json.loads(done.stdout)
    host = next(h for h in summary["hosts"] if h["name"] == "api.test")
    b.check(host["requests"] == 3 and host["refused"] == 3 and host["bytes_down"] > 0, "counted", host)
    b.check("api.test" in _log("summary", log).stdout, "for people")
    for args in (["query", "--since", "yesterday"], ["query", "--nonsense"], ["query", "--format", "xml"],
                 ["summary", "--top", "0"], ["query", "--host", ""]):
        b.check(_log(*args, log).returncode == 64, "a wrong command line", args)
    b.check(_log("query", "/no/such").returncode == 1, "no such file")
    for what in ("query", "summary"):
        done = _log(what, "--help")
        b.check(done.returncode == 0 and "--since" in done.stdout and not done.stderr, "help", done.stdout)


def what_was_kept_elsewhere_finds_a_log_that_was_cut_or_written_anew(bed):
    _origin(bed)
    run = bed.run("curl -sS -o /dev/null https://api.test/ok/x", POLICY)
    kept = bed.write("kept.jsonl", "".join(json.dumps(r, separators=(",", ":")) + "\n"
                                           for r in _query(run.log_path, "--kind", "checkpoint")))
    b.check(_log("verify", "--checkpoint", kept, run.log_path).returncode == 0, "whole")
    lines = pathlib.Path(run.log_path).read_bytes().splitlines(keepends=True)
    cut = bed.write("cut.jsonl", b"".join(lines[:-1]).decode(), 0o600)
    done = _log("verify", "--key", run.log_path + ".pub", "--checkpoint", kept, cut)
    b.check(done.returncode == 1 and "cut off" in done.stderr, "cut", done.stderr)
    prev, anew = "0" * 64, b""
    for line in lines:      # by who has everything but the key
        record = json.loads(line.replace(b"api.test", b"apy.test")) | {"prev": prev}
        text = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
        prev, anew = hashlib.sha256(text).hexdigest(), anew + text + b"\n"
    changed = bed.write("anew.jsonl", anew.decode(), 0o600)
    b.check(_log("verify", changed).returncode == 0, "a chain alone cannot tell")
    for args in (["--key", run.log_path + ".pub"], ["--checkpoint", kept]):
        done = _log("verify", *args, changed)
        b.check(done.returncode == 1 and "written anew" in done.stderr, "a signature can", args, done.stderr)
    other = bed.run("true", POLICY)
    done = _log("verify", "--key", other.log_path + ".pub", run.log_path)
    b.check(done.returncode == 1 and "not given" in done.stderr, "another's key", done.stderr)


b.main(b.cases(globals()))
