"""What a client in the box and an origin tell each other beside what is tried, so that neither has to guess how far
the other is."""

import threading

import bed as b

# tell(what): the origin hears of it. after(what): waits until the origin says so. Both on a connection of their own.
CLIENT = r"""
import http.client, socket, ssl, struct, sys, threading
context = ssl.create_default_context()
def connect(name="api.test", timeout=60):
    s = context.wrap_socket(socket.create_connection((name, 443), timeout=timeout), server_hostname=name, suppress_ragged_eofs=False)
    return s
def aside(path):
    c = http.client.HTTPSConnection("free.test", timeout=60, context=context)
    c.request("GET", path); c.getresponse().read(); c.close()
def tell(what): aside("/tell/" + what)
def after(what): aside("/after/" + what)
def to_end(s):
    got = b""
    try:
        while more := s.recv(65536): got += more
        return got, "closed"
    except OSError as e:
        return got, "broken"
def head(f):
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        line = f.readline()
        if not line: return got
        got += line
    return got
def get(f, s, line, name="api.test", more=b"", body=b""):
    # One request on a connection that is kept; its status and body, by Content-Length.
    s.sendall(line + b" HTTP/1.1\r\nHost: " + name.encode() + b"\r\n" + more + b"\r\n" + body)
    while True:
        h = head(f)
        status = h[9:12].decode()
        if not status.startswith("1"): break
    length = [int(l.split(b":")[1]) for l in h.lower().split(b"\r\n") if l.startswith(b"content-length")]
    none = line.startswith(b"HEAD") or status in ("204", "304")
    return status, f.read(0 if none else sum(length)).decode()
"""


class Told:
    """What client and origin tell each other, beside the connection that is tried."""

    def __init__(self):
        self.lock, self.events = threading.Lock(), {}

    def event(self, name):
        with self.lock:
            return self.events.setdefault(name, threading.Event())

    def tell(self, name):
        self.event(name).set()

    def after(self, name):
        if not self.event(name).wait(60):
            raise ValueError(f"nobody told of {name}")


def aside(request, origin):
    _, verb, what = request.target.split("/", 2)
    if verb == "tell":
        origin.told.tell(what)
    else:
        origin.told.after(what)
    return b.answer(200, "")
