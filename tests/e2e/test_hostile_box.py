"""A box, or who is root in an attached network, that does its worst: what its neighbour and the appliance see of it."""

import os
import subprocess

import appliance as ap
import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test]}
"""


def _appliance(bed):
    if not hasattr(bed, "hostile"):
        bed.dns.zone["api.test"] = ["203.0.113.10"]
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert("api.test"))
        bed.hostile = ap.Appliance(bed, {"web": POLICY})
    return bed.hostile


class Pod:
    """A network namespace of somebody else's that has a wire, and its root."""

    def __init__(self, a, name):
        self.holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.ns = f"/proc/{self.holder.pid}/ns/net"
        b.wait_until("its namespace", lambda: os.readlink(self.ns) != os.readlink("/proc/self/ns/net"))
        done = a.command("sandbox", "attach", name, "--netns", self.ns, "--policy", "web")
        b.check(done.returncode == 0, "it is attached", done.stderr)

    def does(self, *command):
        done = subprocess.run(["nsenter", f"--net={self.ns}", *command], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=60)
        b.check(done.returncode == 0, "the attack itself ran", done.stderr)
        return done.stdout

    def end(self):
        self.holder.communicate()


def no_wire_needs_the_table_of_neighbours_that_all_namespaces_share(bed):
    a = _appliance(bed)
    pod = Pod(a, "quiet")
    got = pod.does("python3", "-c", r"""
import http.client, socket
arp = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
arp.setblocking(False)
gateway = next(l.split()[2] for l in open("/proc/net/route") if l.split()[1] == "00000000")
gateway = socket.inet_ntoa(int(gateway, 16).to_bytes(4, "little"))
c = http.client.HTTPConnection(gateway, timeout=20)
c.request("GET", "/policy")
print(c.getresponse().status, open("/proc/net/arp").read().splitlines()[1:])
try:
    print("asked:", arp.recv(2048).hex())
except BlockingIOError:
    print("nobody asks")
""")
    b.check(got.startswith("200 ") and "nobody asks" in got, "each end knows the other's hardware address", got)
    a.stop_box("quiet")
    pod.end()


if __name__ == "__main__":
    b.main(b.cases(globals()))
