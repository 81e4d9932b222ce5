"""Runs inside a box: tries what a box must not be able to do, and prints {name: what came of it} as JSON.

What comes of it is the name of the error, or "done"; a test decides which of them are right."""

import ctypes
import errno
import glob
import json
import os
import socket
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"unshare": 272, "mount": 165, "ptrace": 101, "keyctl": 250, "add_key": 248, "bpf": 321, "io_uring_setup": 425,
           "userfaultfd": 323, "setns": 308, "pivot_root": 155, "init_module": 175, "kexec_load": 246,
           "perf_event_open": 298, "open_by_handle_at": 304, "open_tree": 428, "fsopen": 430, "clone": 56,
           "clone3": 435, "reboot": 169, "sethostname": 170, "swapon": 167, "mknod": 133, "chmod": 90, "chroot": 161,
           "syslog": 103, "process_vm_readv": 310, "quotactl": 179, "settimeofday": 164, "umount2": 166,
           "fanotify_init": 300, "pidfd_getfd": 438, "setuid": 105, "setgroups": 116, "acct": 163, "iopl": 172}


def call(name, *args):
    result = LIBC.syscall(NUMBERS[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return errno.errorcode[ctypes.get_errno()] if result == -1 else "done"


def attempt(function):
    try:
        function()
        return "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))


def put(path, text="1"):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def take(path):
    with open(path, "rb") as f:
        f.read(1)


def netlink(kind, flags, body):
    """One rtnetlink request; the kernel's error, or none."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.bind((0, 0))
        s.send(struct.pack("=IHHII", 16 + len(body), kind, flags | 5, 1, 0) + body)
        code = struct.unpack("=i", s.recv(4096)[16:20])[0]
        if code:
            raise OSError(-code, "netlink")


def index(name):
    return socket.if_nametoindex(name)


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def raw(family, kind, protocol=0):
    return lambda: socket.socket(family, kind, protocol).close()


def system_calls():
    null = ctypes.c_char_p(None)
    text = ctypes.create_string_buffer(b"tmpfs")
    where = ctypes.create_string_buffer(b"/tmp")
    yield "unshare user", call("unshare", 0x10000000)
    yield "unshare net", call("unshare", 0x40000000)
    yield "unshare mount", call("unshare", 0x00020000)
    yield "clone user", call("clone", 0x10000000 | 17, 0, 0, 0, 0)
    yield "clone net", call("clone", 0x40000000 | 17, 0, 0, 0, 0)
    yield "clone3", call("clone3", 0, 0)
    yield "mount", call("mount", text, where, text, 0, null)
    yield "umount proc", call("umount2", ctypes.c_char_p(b"/proc"), 2)
    yield "open_tree", call("open_tree", -100, where, 1)
    yield "fsopen", call("fsopen", text, 0)
    yield "pivot_root", call("pivot_root", where, where)
    yield "chroot", call("chroot", where)
    yield "setns", call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)
    yield "ptrace init", call("ptrace", 16, 1, 0, 0)
    room = ctypes.create_string_buffer(8)
    vector = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(room), 8))
    yield "process_vm_readv init", call("process_vm_readv", 1, vector, 1, vector, 1, 0)
    yield "keyctl", call("keyctl", 0, -3, 0)
    yield "add_key", call("add_key", text, text, text, 1, -3)
    yield "bpf", call("bpf", 0, 0, 0)
    yield "io_uring", call("io_uring_setup", 4, ctypes.create_string_buffer(256))
    yield "userfaultfd", call("userfaultfd", 1)
    yield "perf", call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0)
    yield "module", call("init_module", 0, 0, text)
    yield "kexec", call("kexec_load", 0, 0, 0, 0)
    yield "handle", call("open_by_handle_at", -100, 0, 0)
    yield "reboot", call("reboot", 0xfee1dead - (1 << 32), 672274793, 0, 0)
    yield "hostname", call("sethostname", text, 5)
    yield "swapon", call("swapon", where, 0)
    yield "acct", call("acct", null)
    yield "iopl", call("iopl", 3)
    yield "syslog", call("syslog", 3, ctypes.create_string_buffer(64), 64)
    yield "fanotify", call("fanotify_init", 0, 0)
    yield "time", call("settimeofday", ctypes.create_string_buffer(16), 0)
    yield "setuid root", call("setuid", 0)
    yield "setgroups", call("setgroups", 0, 0)
    yield "device node", call("mknod", ctypes.c_char_p(b"/tmp/sda"), 0o060600, 0x0800)
    yield "setuid bit", attempt(lambda: (put("/workspace/s"), os.chmod("/workspace/s", 0o4755)))
    yield "setgid bit on creation", attempt(lambda: os.open("/workspace/g", os.O_CREAT | os.O_WRONLY, 0o2755))


def files():
    yield "init's root", attempt(lambda: os.listdir("/proc/1/root"))
    yield "init's descriptors", attempt(lambda: os.listdir("/proc/1/fd"))
    yield "init's memory", attempt(lambda: take("/proc/1/mem"))
    yield "init's environment", attempt(lambda: take("/proc/1/environ"))
    yield "sysrq", attempt(lambda: put("/proc/sysrq-trigger", "h"))
    yield "core_pattern", attempt(lambda: put("/proc/sys/kernel/core_pattern", "|/tmp/x"))
    yield "modprobe", attempt(lambda: put("/proc/sys/kernel/modprobe", "/tmp/x"))
    yield "ip_forward", attempt(lambda: put("/proc/sys/net/ipv4/ip_forward"))
    yield "ipv6 on", attempt(lambda: put("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0"))
    yield "ipv6 on eth0", attempt(lambda: put("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "0"))
    yield "uid_map", attempt(lambda: put("/proc/self/uid_map", "0 0 1"))
    yield "kcore", attempt(lambda: take("/proc/kcore") or None)
    yield "oom of init", attempt(lambda: put("/proc/1/oom_score_adj", "-1000"))
    yield "oom of oneself", attempt(lambda: put("/proc/self/oom_score_adj", "-1000"))
    for path in ("/", "/usr/bin", "/etc", "/etc/exeat", "/dev", "/var", "/opt", "/proc"):
        yield f"write {path}", attempt(lambda path=path: put(f"{path}/probe-file"))
    for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/passwd", "/etc/ssl/certs/ca-certificates.crt",
                 "/usr/bin/env", "/proc/1/comm"):
        yield f"change {path}", attempt(lambda path=path: os.close(os.open(path, os.O_WRONLY)))
    for path in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/loop0",
                 "/dev/vsock", "/dev/port", "/etc/shadow", "/sys/fs/cgroup", "/sys/kernel", "/run/exeat",
                 "/var/run/docker.sock", "/root/.ssh", "/boot"):
        yield f"open {path}", attempt(lambda path=path: os.close(os.open(path, os.O_RDONLY)))


def network():
    yield "AF_PACKET", attempt(raw(17, socket.SOCK_RAW, 0x0300))
    yield "AF_VSOCK", attempt(raw(40, socket.SOCK_STREAM))
    yield "AF_ALG", attempt(raw(38, socket.SOCK_SEQPACKET))
    yield "AF_KEY", attempt(raw(15, socket.SOCK_RAW, 2))
    yield "AF_XDP", attempt(raw(44, socket.SOCK_RAW))
    yield "AF_BLUETOOTH", attempt(raw(31, socket.SOCK_RAW))
    yield "raw TCP", attempt(raw(socket.AF_INET, socket.SOCK_RAW, 6))
    yield "raw ICMP", attempt(raw(socket.AF_INET, socket.SOCK_RAW, 1))
    yield "raw IPv6", attempt(raw(socket.AF_INET6, socket.SOCK_RAW, 58))
    for name, kind, protocol in (("SCTP", socket.SOCK_STREAM, 132), ("DCCP", 6, 33), ("L2TP", socket.SOCK_DGRAM, 115)):
        yield name, attempt(raw(socket.AF_INET, kind, protocol))
        yield name + " IPv6", attempt(raw(socket.AF_INET6, kind, protocol))
    for name, protocol in (("xfrm", 6), ("audit", 9), ("connector", 11), ("generic", 16), ("crypto", 21)):
        yield f"netlink {name}", attempt(raw(socket.AF_NETLINK, socket.SOCK_RAW, protocol))
    yield "netfilter change", attempt(nftables)
    eth0 = index("eth0")
    address = struct.pack("=BBBBI", 2, 24, 0, 0, eth0) + attribute(2, socket.inet_aton("10.9.9.9"))
    yield "second address", attempt(lambda: netlink(20, 0x600, address))
    route = struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, 3, 0, 1, 0) + \
        attribute(1, socket.inet_aton("10.9.8.0")) + attribute(4, struct.pack("=I", eth0))
    yield "route", attempt(lambda: netlink(24, 0x400, route))
    link = struct.pack("=BxHiII", 0, 0, eth0, 0, 0)
    yield "link down", attempt(lambda: netlink(16, 0, struct.pack("=BxHiII", 0, 0, eth0, 0, 1)))
    yield "MTU", attempt(lambda: netlink(16, 0, link + attribute(4, struct.pack("=I", 9000))))
    yield "MAC", attempt(lambda: netlink(16, 0, link + attribute(1, b"\2\0\0\0\0\1")))
    neighbour = struct.pack("=BxxxiHBB", 2, eth0, 0x80, 0, 0) + attribute(1, socket.inet_aton("10.9.9.9")) + \
        attribute(2, b"\2\0\0\0\0\1")
    yield "neighbour", attempt(lambda: netlink(28, 0x400, neighbour))
    yield "forged by IP_FREEBIND", attempt(forged_by_freebind)
    for name, level, option, value in (("IP_TRANSPARENT", 0, 19, 1), ("SO_MARK", 1, 36, 1)):
        yield name, attempt(lambda level=level, option=option, value=value: sockopt(level, option, value))


def sockopt(level, option, value):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(level, option, value)


def forged_by_freebind():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(0, 15, 1)
        s.bind(("198.51.100.7", 0))
        try:
            s.sendto(b"x", ("198.51.100.8", 53))
        except OSError as e:
            raise PermissionError(errno.EPERM, "no such source") from e


def nftables():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as s:
        s.bind((0, 0))
        begin = struct.pack("=IHHII", 20, 16, 1, 1, 0) + struct.pack("=BBH", 0, 0, socket.htons(10))
        body = struct.pack("=BBH", 1, 0, 0) + attribute(1, b"t\0")
        s.send(begin + struct.pack("=IHHII", 16 + len(body), 0xa00, 5 | 0x400, 2, 0) + body +
               struct.pack("=IHHII", 20, 17, 1, 3, 0) + struct.pack("=BBH", 0, 0, socket.htons(10)))
        s.settimeout(2)
        code = struct.unpack("=i", s.recv(4096)[16:20])[0]
        if code:
            raise OSError(-code, "netlink")


def facts():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        yield "mounts", [(l.split()[4], l.split()[5].split(","), l.split(" - ")[1].split()) for l in f]
    yield "descriptors", sorted(int(n) for n in os.listdir("/proc/self/fd"))
    yield "interfaces", sorted(n for _, n in socket.if_nameindex())
    yield "devices", sorted(os.listdir("/dev"))
    yield "processes", sorted(int(p.split("/")[2]) for p in glob.glob("/proc/[0-9]*"))
    yield "groups", os.getgroups()
    yield "ids", os.getresuid() + os.getresgid()
    with open("/proc/self/cgroup", encoding="utf-8") as f:
        yield "cgroups", f.read().split()


def main():
    result = {}
    for group in (facts, system_calls, files, network):
        result.update(group())
    json.dump(result, sys.stdout)


main()
