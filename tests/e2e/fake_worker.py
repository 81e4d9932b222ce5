#!/usr/bin/python3
"""A worker that was taken over: it stands where exeat-worker does, as the nursery first, and the workers forked
from it say what the file "attack" beside it has: a line "target attack"."""

import array
import ctypes
import os
import signal
import socket
import struct
import sys
import time

from messages import NUMBER as N

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
READY, LEASE, RESOLVE, DIAL, LEAF, GRANT = (N[m] for m in ("READY", "LEASE", "RESOLVE", "DIAL", "LEAF", "GRANT"))
WRONG_DIRECTION = struct.pack("<HQ", N["TICKET_END"], 7)
CLONE_PARENT = 0x8000
supervisor = socket.socket(fileno=3)


def text(s):
    return struct.pack("<I", len(s)) + s


def lease(number, name=b"api.test", ports=(443,)):
    return struct.pack("<HI", LEASE, number) + text(name) + text(b"".join(struct.pack("<H", p) for p in ports))


def resolve(number, name=b"api.test"):
    return struct.pack("<HI", RESOLVE, number) + text(name)


def dial(number, name=b"api.test", literal=0, port=443):
    return struct.pack("<HI", DIAL, number) + text(name) + struct.pack("<BH", literal, port)


def leaf(number, name=b"api.test"):
    return struct.pack("<HI", LEAF, number) + text(name) + b"\0"


def grant(number, ticket=1):
    return struct.pack("<HIQB", GRANT, number, ticket, 0) + text(b"GET") + text(b"/")


def receive():
    """A packet of the supervisor's, and the descriptors that it brought."""
    fds = array.array("i")
    packet, control, _, _ = supervisor.recvmsg(70000, socket.CMSG_SPACE(40 * 4))
    for _, _, data in control:
        fds.frombytes(data[:len(data) - len(data) % 4])
    return packet, list(fds)


def pong(to, packet):
    """Answers where it is asked whether it is alive: it is to be ended for what it does, not for silence."""
    if struct.unpack_from("<H", packet)[0] != N["PING"]:
        return False
    to.send(struct.pack("<H", N["PONG"]) + packet[2:])
    return True


def nursery():
    """Comes back in each worker that is launched, with its own channel to the supervisor."""
    receive()
    supervisor.send(struct.pack("<HB", READY, 0))
    while True:
        packet, _ = receive()
        if len(packet) < 2:
            sys.exit(0)
        if pong(supervisor, packet):
            continue
        theirs, mine = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = ctypes.CDLL(None).syscall(56, CLONE_PARENT | signal.SIGCHLD, None, None, None, None)
        if pid == 0:
            return mine
        supervisor.sendmsg([struct.pack("<HIII", N["LAUNCHED"], *struct.unpack_from("<I", packet, 2), pid, 0)],
                           [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno(), os.pidfd_open(pid)]))])
        theirs.close()
        mine.close()


def start():
    _, fds = receive()
    for fd in (supervisor.fileno(), fds[8], fds[9]):
        os.set_blocking(fd, True)
    return socket.socket(fileno=fds[8]), socket.socket(fileno=fds[9])


def flood(to, packets):
    """Sends without reading, for as long as the other side takes it."""
    for packet in packets:
        to.send(packet)


def ask(to, packet):
    to.send(packet)
    while pong(to, answer := to.recv(70000)):
        pass
    return answer


ONE = {"supervisor": lease, "dialer": resolve, "broker": leaf}


def attack(what, to, one):
    if what == "unknown":
        to.send(struct.pack("<H", 999))
    elif what == "direction":
        to.send(WRONG_DIRECTION)
    elif what == "cut-short":
        to.send(one(1)[:-3])
    elif what == "too-much":
        to.send(one(1) + b"x")
    elif what == "over-its-cap":
        to.send(one(1, b"x" * 254))
    elif what == "oversized":
        to.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        to.send(one(1) + b"x" * 70000)
    elif what == "nothing":
        to.send(b"x")
    elif what == "descriptors":
        to.sendmsg([one(1)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    elif what == "repeated":
        to.send(struct.pack("<HB", READY, 0))
    elif what == "unread":
        flood(to, (one(i) for i in range(3_000_000)))
    elif what == "leases":
        given = sum(ask(to, lease(i, b"n%d.wide.test" % i, range(1, 1025)))[6] for i in range(4200))
        print("leases given:", given, file=sys.stderr, flush=True)
    elif what == "dials":
        flood(to, (dial(i, b"n%d.wide.test" % i) for i in range(200_000)))
    elif what == "guesses":
        granted = sum(ask(to, grant(i, i))[6] == 1 for i in range(20_000))
        print("grants given:", granted, file=sys.stderr, flush=True)
    elif what == "probes":
        targets = [(b"evil.test", 0), (b"203.0.113.10", 1), (b"127.0.0.1", 1), (b"169.254.169.254", 1),
                   (b"api.test.", 0), (b"API.test", 0), (b"", 0), (b"\0", 0), (b"api.test\0", 0)]
        made = sum(ask(to, dial(i, *t))[6] == 0 for i, t in enumerate(targets))
        print("dials made:", made, file=sys.stderr, flush=True)


def main():
    global supervisor
    os.set_blocking(3, True)
    supervisor = nursery()
    with open(os.path.join(HERE, "attack"), encoding="utf-8") as f:
        target, what = f.read().split()
    dialer, broker = start()
    to = {"supervisor": supervisor, "dialer": dialer, "broker": broker}[target]
    if what == "early":
        to.send(ONE[target](1))
    if what != "mute":
        supervisor.send(struct.pack("<HB", READY, 0))
    try:
        attack(what, to, ONE[target])
    except (OSError, struct.error) as e:
        print("the channel is closed:", e, file=sys.stderr, flush=True)
    while pong(supervisor, receive()[0].ljust(2, b"\0")):
        pass
    time.sleep(600)     # it never goes by itself


main()
