"""names.py ADDRESS: the benchmark's DNS server. Names under many.bench.test are 198.18.2.3, all others
under bench.test 198.18.2.2; type A only, the rest has no data."""

import socket
import struct
import sys


def answer(query):
    ident, = struct.unpack("!H", query[:2])
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].lower())
        at += 1 + query[at]
    question, (kind,) = query[12:at + 5], struct.unpack("!H", query[at + 1:at + 3])
    known = labels[-2:] == [b"bench", b"test"]
    found = known and kind == 1
    reply = struct.pack("!6H", ident, 0x8580 | (0 if known else 3), 1, int(found), 0, 0) + question
    if found:
        last = 3 if labels[-3:-2] == [b"many"] else 2
        reply += struct.pack("!HHHIH4B", 0xc00c, 1, 1, 300, 4, 198, 18, 2, last)
    return reply


def main():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((sys.argv[1], 53))
    while True:
        query, peer = s.recvfrom(4096)
        if len(query) > 16:
            s.sendto(answer(query), peer)


main()
