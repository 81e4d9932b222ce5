#!/usr/bin/python3
"""A broker that was taken over: it answers the sandbox's announcement as the file "attack" beside it says."""

import os
import socket
import struct
import sys
import time

from messages import NUMBER as N

READY, SANDBOX, SANDBOX_CA = (N[m] for m in ("READY", "SANDBOX", "SANDBOX_CA"))


def ca(number, pem):
    return struct.pack("<HI", SANDBOX_CA, number) + struct.pack("<I", len(pem)) + pem + struct.pack("<I", 0)


PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
ANSWERS = {"empty": [ca(1, b"")], "another": [ca(2, PEM)], "two": [ca(1, PEM), ca(1, PEM.replace(b"A", b"B"))],
           "early": [], "large": [ca(1, b"x" * 8193)]}


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "attack"), encoding="utf-8") as f:
        what = f.read().split()[1]
    supervisor = socket.socket(fileno=3)
    os.set_blocking(3, True)
    supervisor.recvmsg(70000, 4096)
    if what == "early":
        supervisor.send(ca(1, PEM))
    supervisor.send(struct.pack("<HB", READY, 0))
    while struct.unpack("<H", supervisor.recvmsg(70000, 4096)[0][:2])[0] != SANDBOX:
        pass
    for packet in ANSWERS[what]:
        supervisor.send(packet)
    time.sleep(600)


main()
