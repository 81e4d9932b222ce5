"""wire.py BUILD [SANDBOXES]: what a sandbox costs: time and memory of its wire and its worker.

An appliance (`exeat serve`) in a network namespace of its own is asked, over its control socket, to attach
namespaces that are there: one after the other, 200 in a burst, and the last of SANDBOXES (1,000) alone. A
sandbox counts once a name that was asked for from inside it has been answered, so once its worker is at work;
how many of a burst came so far is the first figure. A client that is told to come again later (503: there are
more connections than the socket takes) does. Memory is PSS of all of Exeat's processes together. Needs
root, and 2 GiB of memory for 1,000.
"""

import concurrent.futures
import ctypes
import http.client
import json
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
ONE_BY_ONE, BURST = 20, 200
POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: all-of-it, hosts: [wire.test]}
"""


def must(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def new_namespace(home):
    """A descriptor of a network namespace with nothing but loopback."""
    must(LIBC.unshare(CLONE_NEWNET))
    fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    must(LIBC.setns(home, CLONE_NEWNET))
    return fd


class Control(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)    # waits while others wait to be accepted
        self.sock.settimeout(self.timeout)


class Appliance:
    def __init__(self, build):
        must(LIBC.unshare(CLONE_NEWNET | CLONE_NEWNS))
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.dir = tempfile.mkdtemp(prefix="exeat-wire-")
        self.socket = f"{self.dir}/control.sock"
        pathlib.Path(f"{self.dir}/policy.yaml").write_text(POLICY)
        pathlib.Path(f"{self.dir}/exeat.yaml").write_text(
            f"exeat-settings: 1\nresolver: {{names: {{wire.test: [192.0.2.1]}}, servers: ['192.0.2.53:53']}}\n"
            f"log: {{path: {self.dir}/audit.jsonl}}\ncontrol: {{socket: {self.socket}}}\n")
        self.process = subprocess.Popen([f"{build}/exeat", "serve", "--settings", f"{self.dir}/exeat.yaml"],
                                        stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while not os.path.exists(self.socket):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit("exeat serve does not listen")
            time.sleep(0.01)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.dir)

    def attach(self, number, netns):
        """Seconds until a name is answered from inside, or why not."""
        began = time.monotonic()
        try:
            status, text = self.ask(number, netns)
            while status == 503 and time.monotonic() - began < 30:    # more at once than it listens to
                time.sleep(0.02)
                status, text = self.ask(number, netns)
            return self.look_up(netns, began) if status < 300 else text
        except OSError as error:
            return str(error)

    def ask(self, number, netns):
        control = Control(self.socket)
        try:
            control.request("POST", "/v1/sandboxes", json.dumps({
                "name": f"wire-{number}", "policy_file": f"{self.dir}/policy.yaml",
                "netns": f"/proc/{os.getpid()}/fd/{netns}"}), {"content-type": "application/json"})
            answer = control.getresponse()
            return answer.status, answer.read().decode()
        except (BrokenPipeError, ConnectionResetError):
            return 503, "closed before it was asked"
        finally:
            control.close()

    def look_up(self, netns, began):
        must(LIBC.setns(netns, CLONE_NEWNET))
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        must(LIBC.setns(self.home, CLONE_NEWNET))
        query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + b"\x04wire\x04test\0\0\x01\0\x01"
        s.settimeout(0.5)
        while time.monotonic() - began < 30:
            try:
                s.sendto(query, ("192.0.2.53", 53))    # whatever its destination, the worker has it
                answer = s.recv(512)
                s.close()
                return time.monotonic() - began if answer[3] & 15 == 0 and answer[7] else "refused"
            except OSError:
                time.sleep(0.002)
        return "no answer"

    def processes(self):
        out, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            out.append(pid)
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                todo += [int(p) for p in task.read_text().split()]
        return out

    def pss(self):
        total = 0
        for pid in self.processes():
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) if line.startswith("Pss:") else 0
        return total


def show(what, results):
    good = sorted(r for r in results if isinstance(r, float))
    bad = [r for r in results if not isinstance(r, float)]
    line = f"{what:<28}{len(good):>5} of {len(results):<5}"
    if good:
        line += (f"median {1000 * statistics.median(good):8.1f} ms   "
                 f"9 of 10 {1000 * good[len(good) * 9 // 10]:8.1f}   worst {1000 * good[-1]:8.1f}")
    print(line + (f"   first failure: {bad[0]}" if bad else ""), flush=True)


def main():
    build, last = os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    appliance = Appliance(build)
    try:
        namespaces = [new_namespace(appliance.home) for _ in range(last)]
        numbers = iter(range(last))
        attach = lambda n: appliance.attach(n, namespaces[n])
        show("one after the other", [attach(next(numbers)) for _ in range(ONE_BY_ONE)])
        first = appliance.pss()
        with concurrent.futures.ThreadPoolExecutor(BURST) as pool:
            began = time.monotonic()
            results = list(pool.map(attach, [next(numbers) for _ in range(BURST)]))
            took = time.monotonic() - began
            show(f"{BURST} at once", results)
            print(f"{'':28}all in {1000 * took:.0f} ms, {1000 * took / BURST:.1f} ms each")
            time.sleep(1)
            grown = appliance.pss() - first
            came = sum(isinstance(r, float) for r in results)
            print(f"{'an idle sandbox':28}{grown / max(came, 1):.0f} KiB (PSS, all processes), "
                  f"{first / 1024:.1f} MiB with the first {ONE_BY_ONE}")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            show("those up to the last", list(pool.map(attach, range(ONE_BY_ONE + BURST, last - 1))))
        show(f"number {last:,}, alone", [attach(last - 1)])
        print(f"{'':28}{appliance.pss() / 1024:.1f} MiB in all")
    finally:
        appliance.stop()


main()
