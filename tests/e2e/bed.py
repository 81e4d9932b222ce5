"""The test bed: a network of the test's own, with origins, a scripted DNS server and a packet capture.

The process moves into a network namespace of its own first ("the host": no uplink to anything
real), and makes a second one ("the internet", 203.0.113.0/24 and 2001:db8::/64) joined to it by a
veth. Servers are threads whose sockets were opened in the internet's namespace. Exeat runs on the
host side, as an operator would start it.
"""

import ctypes
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
EXEAT = os.environ.get("EXEAT", "build/debug/exeat")
# AddressSanitizer keeps what was freed, and turns a fault into an exit: memory is measured, and deaths
# are told by signal, on the build without it.
SANITIZED = "asan" in EXEAT
WAIT = 20.0  # seconds that anything waited for may take


def _check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def sh(*args):
    subprocess.run(args, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def wait_until(what, condition, seconds=WAIT):
    """Waits for a condition to hold; fails the test by name where it never does."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for: {what}")
        time.sleep(0.01)


class Failure(AssertionError):
    pass


def check(condition, message, *detail):
    if not condition:
        raise Failure(message + "".join(f"\n      {d!r}" for d in detail))


class Bed:
    HOST, DNS = "203.0.113.1", "203.0.113.53"

    def __init__(self):
        _check(LIBC.unshare(CLONE_NEWNET | CLONE_NEWNS))
        sh("mount", "--make-rprivate", "/")
        self.dir = tempfile.mkdtemp(prefix="exeat-test-")
        self.host_ns = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._internet()
        self.dns = Dns(self)
        wait_until("the internet's wire carries", self._reaches_dns)
        self._ca()
        self.runs = 0

    def _internet(self):
        holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)   # ends with us: its input does
        wait_until("the internet's namespace", lambda: os.readlink(f"/proc/{holder.pid}/ns/net")
                   != os.readlink("/proc/self/ns/net"))
        self.net_ns = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "up0", "type", "veth", "peer", "name", "net0", "netns", str(holder.pid))
        sh("ip", "addr", "add", f"{self.HOST}/24", "dev", "up0")
        sh("ip", "-6", "addr", "add", "2001:db8::1/64", "dev", "up0", "nodad")
        sh("ip", "link", "set", "up0", "up")
        # A default route, so that a leak would leave and be seen.
        inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "ip"]
        sh(*inside, "link", "set", "lo", "up")
        sh(*inside, "link", "set", "net0", "up")
        sh(*inside, "addr", "add", "203.0.113.254/24", "dev", "net0")
        for last in list(range(10, 30)) + [53]:
            sh(*inside, "addr", "add", f"203.0.113.{last}/24", "dev", "net0")
        for last in range(10, 20):
            sh(*inside, "-6", "addr", "add", f"2001:db8::{last}/64", "dev", "net0", "nodad")
        sh("ip", "route", "add", "default", "via", "203.0.113.254")
        self.holder = holder

    def _reaches_dns(self):
        """A veth that is up drops what is sent until the kernel's own watch over links has seen that, which on a
        loaded machine is seconds later."""
        try:
            socket.create_connection((self.DNS, 53), 0.5).close()
        except OSError:
            return False
        return True

    def in_internet(self, function):
        """Runs a function with this thread in the internet's namespace."""
        _check(LIBC.setns(self.net_ns, CLONE_NEWNET))
        try:
            return function()
        finally:
            _check(LIBC.setns(self.host_ns, CLONE_NEWNET))

    def listen(self, address, port, kind=socket.SOCK_STREAM):
        def make():
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            s = socket.socket(family, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address, port))
            if kind == socket.SOCK_STREAM:
                s.listen(128)
            return s
        return self.in_internet(make)

    # ---- certificates ----

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def _ca(self):
        self.ca_pem = self.path("origin-ca.pem")
        sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
           "-keyout", self.path("origin-ca.key"), "-out", self.ca_pem, "-days", "30",
           "-subj", "/CN=Test origins", "-addext", "basicConstraints=critical,CA:TRUE",
           "-addext", "keyUsage=critical,keyCertSign")
        self.certs = {}

    def cert(self, *names, days="10", start=None, ca=True, cn=None, san=None):
        """(certificate, key) for names, by the test's CA, or self-signed."""
        key = (names, days, start, ca, cn, san)
        if key in self.certs:
            return self.certs[key]
        base = self.path(f"cert{len(self.certs)}")
        kind = lambda n: "IP" if n.replace(".", "").isdigit() or ":" in n else "DNS"
        alt = san if san is not None else ",".join(f"{kind(n)}:{n}" for n in names)
        extra = ["-addext", f"subjectAltName={alt}"] if alt else []
        subject = f"/CN={cn or 'origin'}"
        sh("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
           base + ".key", "-out", base + ".csr", "-subj", subject, *extra)
        signer = ["-CA", self.ca_pem, "-CAkey", self.path("origin-ca.key"), "-CAcreateserial"] if ca \
            else ["-signkey", base + ".key"]
        if start:
            self._sign_from(base, start)
        else:
            sh("openssl", "x509", "-req", "-in", base + ".csr", "-out", base + ".pem", "-days", days,
               "-copy_extensions", "copy", *signer)
        self.certs[key] = (base + ".pem", base + ".key")
        return self.certs[key]

    def _sign_from(self, base, start):
        """By the test's CA, for a time that begins at start ("20300101000000Z")."""
        conf = f"{base}.conf"
        pathlib.Path(f"{base}.index").touch()
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"[ca]\ndefault_ca=c\n[c]\ndatabase={base}.index\nrand_serial=yes\nnew_certs_dir={self.dir}\n"
                    "default_md=sha256\npolicy=p\ncopy_extensions=copy\n[p]\ncommonName=supplied\n")
        sh("openssl", "ca", "-batch", "-notext", "-config", conf, "-in", base + ".csr", "-out", base + ".pem",
           "-cert", self.ca_pem, "-keyfile", self.path("origin-ca.key"), "-startdate", start, "-enddate",
           f"{int(start[:4]) + 1}{start[4:]}")

    # ---- Exeat ----

    def settings(self, secrets=None, extra="", servers=True, trust=True):
        text = "exeat-settings: 1\n"
        if servers:
            text += f'resolver:\n  servers: ["{self.DNS}:53"]\n  timeout: 2s\n'
        if trust:
            text += f"trust:\n  system: false\n  add: [{self.ca_pem}]\n"
        if secrets:
            text += "secrets:\n"
            for name, (value, hosts) in secrets.items():
                if isinstance(value, dict):
                    source = ", ".join(f"{k}: {v}" for k, v in value.items())
                else:
                    source = f"file: {self.write('secret-' + name, value, 0o600)}"
                text += f"  {name}: {{{source}, hosts: [{', '.join(hosts)}]}}\n"
        return self.write(f"exeat{self.runs}.yaml", text + extra)

    def start(self, command, policy, secrets=None, settings=None, options=(), **popen):
        """Starts `exeat run`; returns a Run."""
        self.runs += 1
        policy_file = self.write(f"policy{self.runs}.yaml", policy)
        log = self.path(f"audit{self.runs}.jsonl")
        args = [EXEAT, "run", "--policy", policy_file, "--settings", settings or self.settings(secrets),
                "--log", log, *options, "--"]
        args += ["sh", "-c", command] if isinstance(command, str) else list(command)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("stdin", subprocess.DEVNULL)
        return Run(self, subprocess.Popen(args, **popen), log)

    def run(self, command, policy, timeout=120, **more):
        return self.start(command, policy, **more).wait(timeout)


class Run:
    def __init__(self, bed, process, log):
        self.bed, self.process, self.log_path = bed, process, log
        self.out = self.err = ""
        self.status = None

    def wait(self, timeout=120):
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise Failure("exeat run did not end", out, err) from None
        self.out = out.decode(errors="replace") if out is not None else ""
        self.err = err.decode(errors="replace") if err is not None else ""
        self.status = self.process.returncode
        return self

    def records(self, kind=None, **fields):
        found = []
        if not os.path.exists(self.log_path):
            return found
        with open(self.log_path, encoding="utf-8") as f:
            for line in f:
                if not line.endswith("\n"):
                    break   # it is being written
                record = json.loads(line)
                if (kind is None or record["kind"] == kind) and \
                        all(record.get(k) == v for k, v in fields.items()):
                    found.append(record)
        return found

    def record(self, kind, **fields):
        found = self.records(kind, **fields)
        check(len(found) == 1, f"one {kind} record with {fields}, found {len(found)}",
              found or self.records(kind), self.err)
        return found[0]

    def family(self):
        """This run's own processes, and no other run's: {pid: (pid of its parent, name)}."""
        processes, found = {}, {self.process.pid}
        for entry in os.listdir("/proc"):
            try:
                stat = pathlib.Path(f"/proc/{entry}/stat").read_text(encoding="latin-1") if entry.isdigit() else ""
            except OSError:
                continue
            if stat:
                rest = stat.rpartition(") ")[2].split()
                processes[int(entry)] = (int(rest[1]), stat.partition("(")[2].rpartition(") ")[0])
        while True:
            more = {pid for pid, (parent, _) in processes.items() if parent in found} - found
            if not more:
                return {pid: processes[pid] for pid in found if pid in processes}
            found |= more

    def left_behind(self):
        """What bears this run's name: mounts, folders, control groups, links, processes; and its children."""
        name = f"run-{self.process.pid}-1"
        text = lambda *args: subprocess.run(args, capture_output=True, text=True, check=True).stdout.splitlines()
        mounts = [m for m in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines() if name in m]
        folders = [str(p) for p in pathlib.Path("/run/exeat").glob("*") if name in p.name]
        cgroups = [os.path.join(path, d) for path, folders_there, _ in os.walk("/sys/fs/cgroup")
                   for d in folders_there if name in d]
        links = [l for l in text("ip", "-o", "link") if ": ex-" in l]
        processes = [p for p in text("ps", "-eo", "pid,ppid,stat,args")
                     if name in p or p.split()[1] == str(self.process.pid)]
        return mounts + folders + cgroups + links + processes

    def verify(self):
        done = subprocess.run([EXEAT, "log", "verify", self.log_path], capture_output=True, check=False)
        check(done.returncode == 0, "the log's chain verifies", done.stdout, done.stderr)


# ---- servers ----


class Dns:
    """A scripted DNS server, UDP and TCP. zone[name] is a list of addresses, or a function of the
    query type that returns (rcode, [(type, rdata bytes, ttl)]), or None for no answer at all."""

    A, AAAA, CNAME, SOA = 1, 28, 5, 6

    def __init__(self, bed):
        self.zone, self.queries, self.ttl, self.truncate = {}, [], 60, set()
        self.udp = bed.listen(bed.DNS, 53, socket.SOCK_DGRAM)
        self.tcp = bed.listen(bed.DNS, 53)
        threading.Thread(target=self._serve_udp, daemon=True).start()
        threading.Thread(target=self._serve_tcp, daemon=True).start()

    def asked(self, name):
        return [t for n, t, _ in self.queries if n == name.lower()]

    def _serve_udp(self):
        while True:
            packet, peer = self.udp.recvfrom(65535)
            answer = self._answer(packet, False)
            if answer:
                self.udp.sendto(answer, peer)

    def _serve_tcp(self):
        while True:
            s, _ = self.tcp.accept()
            threading.Thread(target=self._serve_stream, args=(s,), daemon=True).start()

    def _serve_stream(self, s):
        with s:
            f = s.makefile("rb")
            while True:
                head = f.read(2)
                if len(head) < 2:
                    return
                packet = f.read(struct.unpack("!H", head)[0])
                answer = self._answer(packet, True)
                if answer:
                    s.sendall(struct.pack("!H", len(answer)) + answer)

    @staticmethod
    def rdata(address):
        if ":" in address:
            return Dns.AAAA, socket.inet_pton(socket.AF_INET6, address)
        return Dns.A, socket.inet_aton(address)

    @staticmethod
    def wire_name(name):
        return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"

    def _answer(self, packet, tcp):
        ident, at, labels = packet[:2], 12, []
        while packet[at]:
            labels.append(packet[at + 1:at + 1 + packet[at]].decode("latin-1"))
            at += 1 + packet[at]
        qtype = struct.unpack("!H", packet[at + 1:at + 3])[0]
        question = packet[12:at + 5]
        name = ".".join(labels).lower()
        self.queries.append((name, qtype, "tcp" if tcp else "udp"))
        entry = self.zone.get(name)
        rcode, answers = 0, []
        if name not in self.zone:
            rcode = 3
        elif callable(entry):
            result = entry(qtype)
            if result is None:
                return None
            rcode, answers = result
        else:
            answers = [(t, d, self.ttl) for t, d in map(self.rdata, entry) if t == qtype]
        flags = 0x8180 | rcode
        if name in self.truncate and not tcp:
            return ident + struct.pack("!HHHHH", flags | 0x0200, 1, 0, 0, 0) + question
        body = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", t, 1, ttl, len(d)) + d for t, d, ttl in answers)
        return ident + struct.pack("!HHHHH", flags, 1, len(answers), 0, 0) + question + body


class Origin:
    """A server that hands each connection (TLS done, where it has a certificate) to a function
    f(connection, origin). Counts connections and keeps what was received."""

    def __init__(self, bed, handler, address="203.0.113.10", port=443, cert=None, before_tls=None):
        self.handler, self.before_tls = handler, before_tls
        self.connections, self.bytes, self.requests = 0, b"", []
        self.lock = threading.Lock()
        self.context = None
        if cert:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*cert)
        self.socket = bed.listen(address, port)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)  # else it listens until accept() has returned
        self.socket.close()

    def _serve(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(s,), daemon=True).start()

    def _one(self, s):
        try:
            # As servers do: else the kernel may keep an answer back, and forget it at a close that
            # leaves bytes unread.
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.before_tls and self.before_tls(s):
                return
            if self.context:
                s = self.context.wrap_socket(s, server_side=True)
            self.handler(s, self)
            if self.context:
                s.settimeout(2)
                s.unwrap()      # close_notify: the end is meant
        except (OSError, ssl.SSLError, ValueError):
            pass
        finally:
            try:
                s.close()
            except OSError:
                pass


class Request:
    """One HTTP/1.1 request as an origin received it."""

    def __init__(self, line, fields, body):
        self.method, self.target, self.version = line.split(" ", 2)
        self.fields, self.body = fields, body

    def get(self, name, default=None):
        return next((v for k, v in self.fields if k.lower() == name.lower()), default)


def read_request(f, read_body=True):
    """Reads one request from a file object; None at its end."""
    line = f.readline().decode("latin-1").rstrip("\r\n")
    if not line:
        return None
    fields = []
    while True:
        text = f.readline()
        if text in (b"\r\n", b""):
            break
        name, _, value = text.decode("latin-1").partition(":")
        fields.append((name, value.strip()))
    request = Request(line, fields, b"")
    if not read_body:
        return request
    if (request.get("transfer-encoding") or "").lower() == "chunked":
        while True:
            size = f.readline()
            if not size:
                raise ValueError("cut off")
            n = int(size.split(b";")[0], 16)
            if n == 0:
                while f.readline() not in (b"\r\n", b""):
                    pass
                break
            data = f.read(n)
            if len(data) < n:
                raise ValueError("cut off")
            request.body += data
            f.readline()
    else:
        n = int(request.get("content-length") or 0)
        request.body = f.read(n)
        if len(request.body) < n:
            raise ValueError("cut off")
    return request


def answer(status, body=b"", fields=(), reason="OK", length=True):
    if isinstance(body, str):
        body = body.encode()
    head = f"HTTP/1.1 {status} {reason}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields)
    if length:
        head += f"content-length: {len(body)}\r\n"
    return head.encode("latin-1") + b"\r\n" + body


def http(function):
    """A handler for Origin: function(request, origin) gives the bytes of the answer, or None to close."""
    def handler(s, origin):
        f = s.makefile("rb")
        while True:
            request = read_request(f)
            if request is None:
                return
            with origin.lock:
                origin.requests.append(request)
            reply = function(request, origin)
            if reply is None:
                return
            s.sendall(reply)
    return handler


def echo(request, _origin):
    """Tells what came, as JSON."""
    return answer(200, json.dumps({"method": request.method, "target": request.target,
                                   "fields": request.fields, "length": len(request.body)}),
                  [("content-type", "application/json")])


# ---- running the tests of one file ----


def cases(module):
    """The functions of a test file that take the bed: its cases, in order."""
    return [v for v in module.values() if getattr(v, "__code__", None) and v.__module__ == "__main__"
            and v.__code__.co_varnames[:v.__code__.co_argcount] == ("bed",)
            and not v.__name__.startswith("_")]


def main(tests, names=None):
    """Runs functions test(bed); their names, underscores as spaces, are the cases' names."""
    names = names or sys.argv[1:]
    bed = Bed()
    passed = failed = 0
    for test in tests:
        name = test.__name__.replace("_", " ")
        if names and not any(n in name for n in names):
            continue
        bed.dns.queries.clear()
        try:
            test(bed)
            passed += 1
            print(f"ok    {name}", flush=True)
        except Exception as e:  # noqa: BLE001 - whatever it is, the case failed
            failed += 1
            text = str(e) if isinstance(e, AssertionError) else f"{type(e).__name__}: {e}"
            print(f"FAIL  {name}\n      {text}", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.stdout.flush()
    shutil.rmtree(bed.dir, True)
    os._exit(1 if failed else 0)    # at once: servers' threads may stand in accept()
