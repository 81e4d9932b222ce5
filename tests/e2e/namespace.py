"""A network namespace of a test's own, to attach to, and what is done in it."""

import concurrent.futures
import os
import socket
import struct

import bed as b


class Namespace:
    """One that is there (its descriptor, taken over), or a new one with nothing in it but loopback."""

    def __init__(self, ns=None):
        self.ns = self._there(self._make) if ns is None else ns

    @staticmethod
    def _there(function):
        """In a thread of its own, which ends with it, and with it the namespace that it went to."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(function).result(60)

    @staticmethod
    def _make():
        b._check(b.LIBC.unshare(b.CLONE_NEWNET))
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    def run(self, function):
        def there():
            b._check(b.LIBC.setns(self.ns, b.CLONE_NEWNET))
            return function()
        return self._there(there)

    @property
    def path(self):
        return f"/proc/{os.getpid()}/fd/{self.ns}"

    def close(self):
        os.close(self.ns)

    # ---- what is done in it ----

    def gateway(self):
        def read():
            with open("/proc/thread-self/net/route", encoding="ascii") as f:
                line = next(line.split() for line in f if line.split()[1] == "00000000")
            return socket.inet_ntoa(struct.pack("<I", int(line[2], 16)))
        return self.run(read)

    def interfaces(self):
        def read():
            with open("/proc/thread-self/net/dev", encoding="ascii") as f:
                return sorted(line.split(":")[0].strip() for line in f.readlines()[2:])
        return self.run(read)

    def resolve(self, name, server):
        """An address, or the answer's code."""
        query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + b.Dns.wire_name(name) + b"\0\x01\0\x01"

        def ask():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(20)
                s.connect((server, 53))
                s.send(query)
                answer = s.recv(512)
            return socket.inet_ntoa(answer[-4:]) if struct.unpack("!H", answer[6:8])[0] else answer[3] & 15
        return self.run(ask)

    def get(self, address, host, path="/", port=80, seconds=20):
        """The answer, or the name of the error."""
        def ask():
            try:
                with socket.create_connection((address, port), seconds) as s:
                    s.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
                    got = b""
                    while piece := s.recv(65536):
                        got += piece
                    return got.decode(errors="replace")
            except OSError as e:
                return type(e).__name__
        return self.run(ask)
