#!/usr/bin/env python3
"""run.py BUILD [WORD...]: runs the end-to-end tests, each file in a process (and network) of its own.

A word picks the files whose name has it."""

import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import time

# Long ones, to whom the build makes no difference but for what the sanitizers see: they run on theirs alone.
SANITIZED_ALONE = {"test_clients_curl.py", "test_clients_languages.py", "test_clients_packages.py", "test_field_http1.py",
                   "test_field_streams.py", "test_explicit.py", "test_hung.py"}
AT_ONCE = 3     # files: each waits much of its time, and two cores are enough for the rest
HERE = os.path.dirname(os.path.abspath(__file__))


def one(path, build):
    began = time.monotonic()
    status, text = run(path, build)
    return status, text, time.monotonic() - began


def run(path, build):
    environment = dict(os.environ, EXEAT=os.path.abspath(os.path.join(build, "exeat")),
                       PYTHONDONTWRITEBYTECODE="1",
                       ASAN_OPTIONS="detect_leaks=0:abort_on_error=0")
    try:
        done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True,
                              timeout=900, check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as e:
        return 1, (e.stdout or b"").decode() + "\n0 passed, 1 failed\n"


def main():
    build, words = sys.argv[1], sys.argv[2:]
    files = [f for f in sorted(glob.glob(os.path.join(HERE, "test_*.py")))
             if not words or any(w in f for w in words)]
    if os.path.basename(build) == "debug" and not words:
        files = [f for f in files if os.path.basename(f) not in SANITIZED_ALONE]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for path, (status, text, seconds) in zip(files, pool.map(lambda f: one(f, build), files)):
            counts = re.search(r"^(\d+) passed, (\d+) failed$", text, re.M)
            print(f"-- {os.path.basename(path)} ({seconds:.0f} s)")
            print(re.sub(r"^\d+ passed, \d+ failed\n", "", text, flags=re.M).rstrip(), flush=True)
            good, bad = (int(counts[1]), int(counts[2])) if counts else (0, 1)
            if status != 0 and bad == 0:
                bad = 1
            passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
