"""The wire: whatever is sent on it, by the box or by somebody who is root in its network, it leads to
the gateway alone; what is refused is on record, and a flood of it does no harm."""

import glob
import os
import pathlib
import signal
import subprocess
import time

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test], protocol: http}
"""

# What the attacker's programs share. They run as root in the box's network namespace.
ATTACK = r"""
import os, socket, struct, subprocess, sys, time
def total(data):
    data += b"\0" * (len(data) % 2)
    n = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while n >> 16:
        n = (n & 0xffff) + (n >> 16)
    return ~n & 0xffff
def ip(source, to, protocol, body, ident=1, fragment=0, options=b"", ttl=64):
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, words * 4 + len(body), ident, fragment, ttl, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(to)) + options
    return head[:10] + struct.pack("!H", total(head)) + head[12:] + body
def udp(port, data, own=4000):
    return struct.pack("!HHHH", own, port, 8 + len(data), 0) + data
def tcp(source, to, port, flags=2, own=4001):
    head = struct.pack("!HHIIBBHHH", own, port, 7, 0, 0x50, flags, 1024, 0, 0)
    pseudo = socket.inet_aton(source) + socket.inet_aton(to) + struct.pack("!BBH", 0, 6, len(head))
    return head[:16] + struct.pack("!H", total(pseudo + head)) + head[18:]
def query(name):
    return struct.pack("!HHHHHH", 9, 0x100, 1, 0, 0, 0) + b"".join(
        bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0" + struct.pack("!HH", 1, 1)
def run(*args):
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
packet.bind(("eth0", 0))
own_mac = packet.getsockname()[4]
rows = [l.split() for l in open("/proc/net/route")][1:]
gateway = next(socket.inet_ntoa(struct.pack("=I", int(r[2], 16))) for r in rows if r[1] == "00000000")
first, last = gateway.rsplit(".", 1)
own, other = "%s.%d" % (first, int(last) + 1), "%s.%d" % (first, int(last) + 5)     # and the next box's
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", (gateway, 9))    # so that its MAC is known
time.sleep(0.1)
packet.recv(65535)
neighbours = [l.split() for l in open("/proc/net/arp")][1:]
gateway_mac = bytes.fromhex(next(n[3] for n in neighbours if n[0] == gateway).replace(":", ""))
def ether(body, kind=0x0800, to=None, source=None):
    try:
        packet.send((to or gateway_mac) + (source or own_mac) + struct.pack("!H", kind) + body)
    except OSError as e:
        if e.errno not in (90, 105):    # too long; a queue that is full
            raise
def heard(seconds=0.5):
    packet.settimeout(0.1)
    end, found = time.monotonic() + seconds, []
    while time.monotonic() < end:
        try:
            data, address = packet.recvfrom(65535)
        except socket.timeout:
            continue
        if address[2] != 4 and data[12:14] == b"\x08\0":
            found.append(data[14:])
    return found
"""


class Attacker:
    """A box that waits, and root in its network."""

    def __init__(self, bed, policy=POLICY):
        self.run = bed.start("read go; exec sh -c \"$go\"", policy, stdin=subprocess.PIPE)
        self.pid = b.wait_until("the box", self._box)

    def _box(self):
        """The process of the box that is not the runtime's: its network has an eth0 that is up."""
        for path in glob.glob("/proc/[0-9]*/root/etc/exeat/command"):
            pid = path.split("/")[2]
            try:
                if f"exeat-run-{self.run.process.pid}-1\n" in pathlib.Path(f"/proc/{pid}/cgroup").read_text() and \
                        pathlib.Path(f"/proc/{pid}/comm").read_text() == "sh\n":
                    return int(pid)
            except OSError:
                continue
        return None

    def does(self, script, timeout=60):
        done = subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", "unshare", "-m", "python3", "-c",
                               ATTACK + script], capture_output=True, text=True, timeout=timeout, check=False)
        b.check(done.returncode == 0, "the attack itself ran", done.stderr)
        return done.stdout

    def box_does(self, script, timeout=60):
        """Ends the box with this as its last word."""
        out, err = self.run.process.communicate(script.encode() + b"\n", timeout=timeout)
        self.run.status = self.run.process.returncode
        return out.decode(), err.decode()


def _capture():
    dump = subprocess.Popen(["tcpdump", "-i", "up0", "-n", "-l", "-Q", "out", "not arp and not (ip6 and dst net ff02::/16)"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "listening" not in (dump.stderr.readline() or "listening"):
        pass
    return dump


def _seen(dump):
    dump.send_signal(signal.SIGINT)
    return [line for line in dump.communicate(timeout=10)[0].splitlines() if line.strip()]


def _origin(bed, address="203.0.113.21", name="api.test"):
    if name not in bed.dns.zone:
        b.Origin(bed, b.http(lambda r, o: b.answer(200, "it works")), address, 80)
        bed.dns.zone[name] = [address]


def _still_works(attacker):
    out, err = attacker.box_does("curl -s -m 5 http://api.test/")
    b.check(out == "it works", "the box's own requests go on", out, err)


def a_forged_source_is_answered_by_nobody_and_asks_nothing(bed):
    _origin(bed)
    attacker, dump = Attacker(bed), _capture()
    out = attacker.does(r"""
for source in ("203.0.113.10", "127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", gateway, "198.18.0.5",
               other, "10.1.2.3"):
    for to in (gateway, "8.8.8.8", "127.0.0.1", "203.0.113.21"):
        ether(ip(source, to, 17, udp(53, query("api.test"))))
        ether(ip(source, to, 17, udp(5353, b"x")))
        for port in (53, 80, 443, 15001):
            ether(ip(source, to, 6, tcp(source, to, port)))
        ether(ip(source, to, 1, struct.pack("!BBHHH", 8, 0, total(struct.pack("!BBHHH", 8, 0, 0, 1, 1)), 1, 1)))
print([socket.inet_ntoa(p[12:16]) + ">" + socket.inet_ntoa(p[16:20]) for p in heard(1) if p[20:22] != b"\3\3"])
""")
    packets = _seen(dump)
    b.check(packets == [] and bed.dns.queries == [], "nothing on the way out, nothing asked", packets[:5], bed.dns.queries)
    b.check(out == "[]\n", "and nothing came back", out)
    _still_works(attacker)


def another_address_or_mac_on_eth0_is_worth_nothing(bed):
    _origin(bed)
    attacker, dump = Attacker(bed), _capture()
    out = attacker.does(r"""
run("ip", "addr", "add", "203.0.113.77/32", "dev", "eth0")
run("ip", "addr", "add", other + "/29", "dev", "eth0")
for source in ("203.0.113.77", other):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((source, 0)); s.settimeout(0.3)
    s.sendto(query("api.test"), (gateway, 53))
    try: s.recv(512); print("answered", source)
    except OSError: pass
    t = socket.socket(); t.bind((source, 0)); t.settimeout(0.3)
    try: t.connect((gateway, 53)); print("connected", source)
    except OSError: pass
run("ip", "addr", "del", "203.0.113.77/32", "dev", "eth0")
run("ip", "addr", "del", other + "/29", "dev", "eth0")
# ARP: we are the gateway, and everybody else.
for claimed in (gateway, "203.0.113.1", "0.0.0.0", other):
    for op in (1, 2):
        ether(struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, op, own_mac, socket.inet_aton(claimed), gateway_mac,
                          socket.inet_aton(claimed)), 0x0806, b"\xff" * 6)
ether(ip(other, gateway, 17, udp(53, query("api.test"))), source=b"\2\1\1\1\1\1")
run("ip", "link", "set", "eth0", "mtu", "9000")
ether(ip(own, gateway, 17, udp(53, b"j" * 8000)))
run("ip", "link", "set", "eth0", "mtu", "1500")
""")
    packets = _seen(dump)
    b.check(out == "" and packets == [] and bed.dns.queries == [], "no answer, nothing asked", out, packets[:5],
            bed.dns.queries)
    _still_works(attacker)


def broken_and_odd_packets_lead_nowhere(bed):
    _origin(bed)
    attacker, dump = Attacker(bed), _capture()
    attacker.does(r"""
import random
random.seed(5)
q, chance = udp(53, query("api.test")), random.Random(5)
for to in (gateway, "8.8.8.8", "203.0.113.21"):
    for cut in (8, 16, 24):                                             # fragments, tiny and overlapping
        ether(ip(own, to, 17, q[:cut], 77 + cut, 0x2000)); ether(ip(own, to, 17, q[cut:], 77 + cut, cut // 8))
        ether(ip(own, to, 17, q[cut - 8:], 77 + cut, (cut - 8) // 8))
    t = tcp(own, to, 80)
    ether(ip(own, to, 6, t[:8], 99, 0x2000)); ether(ip(own, to, 6, t[8:], 99, 1))
    for options in (b"\x83\x07\x04\xcb\x00\x71\x1f\x00", b"\x89\x07\x04\xcb\x00\x71\x1f\x00", b"\x94\x04\0\0",
                    b"\x07\x27\x04" + b"\0" * 36 + b"\0", b"\x44\x08\x05\0\0\0\0\0", b"\xff\xff\xff\xff"):
        ether(ip(own, to, 17, q, options=options)); ether(ip(own, to, 6, t, options=options))
    for flags in (0, 1, 3, 4, 16, 41, 255):                             # null, fin, syn+fin, rst, ack, xmas
        for port in (53, 80, 15001):
            ether(ip(own, to, 6, tcp(own, to, port, flags)))
    for kind, code in ((5, 0), (5, 1), (3, 4), (9, 0), (10, 0), (13, 0), (17, 0), (0, 0), (11, 0)):
        body = struct.pack("!BBH4s", kind, code, 0, socket.inet_aton(own)) + ip("203.0.113.21", own, 6, b"\0" * 8)
        ether(ip(own, to, 1, body[:2] + struct.pack("!H", total(body)) + body[4:]))
    for protocol in (0, 2, 4, 41, 47, 50, 51, 58, 89, 103, 132, 33, 136, 255):   # IGMP, tunnels, IPsec, SCTP...
        ether(ip(own, to, protocol, ip(own, "203.0.113.21", 17, q)))
    ether(ip(own, to, 17, q, ttl=1)); ether(ip(own, to, 17, q)[:19]); ether(b"\x45"); ether(b"")
    ether(b"\x4f" + ip(own, to, 17, q)[1:]); ether(b"\x41" + ip(own, to, 17, q)[1:])
for _ in range(2000):
    ether(chance.randbytes(chance.randrange(1, 200)), chance.choice((0x0800, 0x0800, 0x86dd, 0x0806, 0x8100, 0x88cc, 0x8847, 0)),
          chance.choice((gateway_mac, b"\xff" * 6, b"\x01\x80\xc2\0\0\0")))
""")
    packets = _seen(dump)
    left = [p for p in packets if "203.0.113.53.53" not in p]
    b.check(left == [], "nothing left but the resolver's question", left[:5])
    _still_works(attacker)
    attacker.run.verify()


def ipv6_switched_on_from_inside_leads_nowhere(bed):
    _origin(bed)
    attacker, dump = Attacker(bed), _capture()
    out = attacker.does(r"""
run("mount", "-t", "proc", "proc", "/proc")
for name in ("all", "default", "eth0"):
    open("/proc/sys/net/ipv6/conf/%s/disable_ipv6" % name, "w").write("0")
run("ip", "link", "set", "eth0", "down"); run("ip", "link", "set", "eth0", "up")
run("ip", "-6", "addr", "add", "2001:db8:5::2/64", "dev", "eth0", "nodad")
run("ip", "-6", "route", "replace", "default", "dev", "eth0")
import socket
for to in ("2001:db8::10", "2001:db8::1", "ff02::1%eth0", "2001:db8:5::1"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(socket.AF_INET6, kind); s.settimeout(0.3)
        try:
            s.connect(socket.getaddrinfo(to, 53)[0][4]); s.send(query("api.test")); s.recv(512); print("answered", to)
        except OSError: pass
run("ip", "route", "replace", "default", "via", gateway)
""")
    b.check("answered" not in out, "nobody answers", out)
    b.check(_seen(dump) == [] and bed.dns.queries == [], "nothing on the way out, nothing asked")
    _still_works(attacker)


def of_all_ports_of_the_gateway_only_53_80_and_3128_answer(bed):
    script = r"""
import errno, socket, time
gateway = open("/etc/resolv.conf").read().split()[1]
start, answered, other = time.monotonic(), [], {}
for port in range(1, 65536):
    s = socket.socket()
    s.settimeout(3)
    code = s.connect_ex((gateway, port))
    if code == 0: answered.append(port)
    elif code != errno.ECONNREFUSED: other[port] = code
    s.close()
print(answered, other, time.monotonic() - start)
"""
    run = bed.run(["python3", "-c", script], POLICY)
    b.check(run.out.startswith("[53, 80, 3128] {} "), "these answer, each other one refuses", run.out, run.err)
    print(f"      65,533 refusals in {float(run.out.split()[-1]):.1f} s", flush=True)
    told = [r for r in run.records("connect") if r["verdict"] == "deny"]
    b.check(100 < len(told) < 20000, "some on record, not all", len(told))
    run.verify()


def each_kind_of_refused_packet_is_on_record(bed):
    attacker = Attacker(bed)
    attacker.does(r"""
for to, port in (("255.255.255.255", 67), ("224.0.0.251", 5353), ("239.255.255.250", 1900), ("203.0.113.255", 137)):
    ether(ip(own, to, 17, udp(port, b"who is there")), to=b"\xff" * 6)
ether(ip(own, "8.8.8.8", 17, udp(443, b"quic")))
ether(ip(own, "169.254.169.254", 6, tcp(own, "169.254.169.254", 80)))
body = struct.pack("!BBHHH", 8, 0, 0, 1, 1)
ether(ip(own, "8.8.4.4", 1, body[:2] + struct.pack("!H", total(body)) + body[4:]))
ether(ip(own, "192.0.2.9", 132, struct.pack("!HH", 1, 38412) + b"\0" * 8))
ether(ip(own, "192.0.2.10", 47, b"\0" * 8))
""")
    attacker.box_does("sleep 0.3")
    text = [str(r) for r in attacker.run.records()]
    for to, port in (("255.255.255.255", 67), ("224.0.0.251", 5353), ("239.255.255.250", 1900), ("8.8.8.8", 443),
                     ("169.254.169.254", 80), ("8.8.4.4", None), ("192.0.2.9", 38412), ("192.0.2.10", None)):
        found = [t for t in text if f"'{to}'" in t and (port is None or f": {port}" in t)]
        b.check(len(found) == 1, f"{to} port {port}: one record", found, text[-12:])
    attacker.run.verify()


def a_flood_of_refusals_is_bounded_and_starves_nobody(bed):
    _origin(bed)
    script = r"""
import socket, subprocess, sys, threading, time
end, sent = time.monotonic() + 5, 0
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
slow = []
def requests():
    while time.monotonic() < end:
        start = time.monotonic()
        if subprocess.run(["curl", "-s", "-m", "5", "-o", "/dev/null", "http://api.test/"]).returncode: slow.append(99)
        slow.append(time.monotonic() - start)
t = threading.Thread(target=requests); t.start()
while time.monotonic() < end:
    for i in range(200):
        try: s.sendto(b"x", ("203.0.113.%d" % (i % 250), 1 + (sent + i) % 65000))
        except OSError: pass
    sent += 200
t.join()
print(sent, len(slow), max(slow))
"""
    run = bed.start(["python3", "-c", script], POLICY)
    run.wait(60)
    sent, requests, slowest = run.out.split()
    size = os.path.getsize(run.log_path)
    print(f"      {sent} packets, {requests} requests meanwhile, the slowest {float(slowest):.2f} s; log {size} bytes", flush=True)
    b.check(int(sent) > 20000 and int(requests) > 5 and float(slowest) < 8, "requests go on", run.out, run.err)
    b.check(size < 4 << 20, "the log is bounded", size)
    run.verify()


b.main(b.cases(globals()))
