"""gRPC through Exeat, with its own library on both ends: calls of all four kinds, their ends, and a refusal."""

import subprocess

import bed as b

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  token: {kind: bearer, secret: token, hosts: [grpc.test]}
allow:
  - {id: calls, hosts: [grpc.test], paths: [/t.Echo/**], credential: token}
deny:
  - {id: no-admin, hosts: [grpc.test], paths: [/t.Echo/Admin], reason: "not from a box"}
"""
TOKEN = "tok-grpc-51e0c7"

SERVER = r"""
import sys, grpc
from concurrent import futures
cert, key, address = sys.argv[1:]
def one(request, c):
    meta = dict(c.invocation_metadata())
    c.set_trailing_metadata((("x-end", "1"),))
    return request + b"/" + meta.get("authorization", "none").encode() + b"/" + meta.get("x-mine", "").encode()
def many(request, c):
    for i in range(5):
        yield b"%d" % i
def gather(requests, c):
    return b"".join(requests)
def talk(requests, c):
    for r in requests:
        yield r.upper()
def fail(request, c):
    c.abort(grpc.StatusCode.NOT_FOUND, "nothing here")
class H(grpc.GenericRpcHandler):
    def service(self, d):
        return {"/t.Echo/One": grpc.unary_unary_rpc_method_handler(one), "/t.Echo/Many": grpc.unary_stream_rpc_method_handler(many),
                "/t.Echo/Gather": grpc.stream_unary_rpc_method_handler(gather), "/t.Echo/Talk": grpc.stream_stream_rpc_method_handler(talk),
                "/t.Echo/Fail": grpc.unary_unary_rpc_method_handler(fail), "/t.Echo/Admin": grpc.unary_unary_rpc_method_handler(one)}.get(d.method)
s = grpc.server(futures.ThreadPoolExecutor(8))
s.add_generic_rpc_handlers((H(),))
s.add_secure_port(address + ":443", grpc.ssl_server_credentials([(open(key, "rb").read(), open(cert, "rb").read())]))
s.start()
print("ready", flush=True)
s.wait_for_termination()
"""

CLIENT = r"""
import grpc, os, queue
roots = open(os.environ["SSL_CERT_FILE"], "rb").read()
ch = grpc.secure_channel("grpc.test:443", grpc.ssl_channel_credentials(roots))
r, call = ch.unary_unary("/t.Echo/One").with_call(b"one", metadata=(("x-mine", "yes"),), timeout=30)
print("one", r, dict(call.trailing_metadata()).get("x-end"), flush=True)
print("many", list(ch.unary_stream("/t.Echo/Many")(b"", timeout=30)), flush=True)
print("gather", ch.stream_unary("/t.Echo/Gather")(iter([b"a", b"b", b"c" * 500000]), timeout=30)[:3], flush=True)
q = queue.Queue()
answers = ch.stream_stream("/t.Echo/Talk")(iter(q.get, None), timeout=30)
got = []
for word in (b"each", b"when", b"said"):      # the next is said when the last was answered
    q.put(word)
    got.append(next(answers))
q.put(None)
print("talk", got, list(answers), flush=True)
for method in ("Fail", "Admin"):
    try:
        ch.unary_unary("/t.Echo/" + method)(b"", timeout=30)
    except grpc.RpcError as e:
        print(method, e.code().name, e.details(), flush=True)
"""


def calls_of_every_kind_and_their_ends(bed):
    bed.dns.zone["grpc.test"] = ["203.0.113.10"]
    server = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "nsenter", f"--net=/proc/{bed.holder.pid}/ns/net", "/usr/bin/python3", "-c", SERVER,
                               *bed.cert("grpc.test"), "203.0.113.10"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    b.check(server.stdout.readline() == b"ready\n", "the server is up")
    run = bed.run(["/usr/bin/python3", "-c", CLIENT], POLICY, secrets={"token": (TOKEN, ["grpc.test"])})
    server.kill()
    lines = run.out.splitlines()
    b.check(len(lines) == 6, "all calls came back", run.out, run.err)
    b.check(lines[0].startswith("one b'one/Bearer [exeat:token]") and lines[0].endswith("/yes' 1"), "with the credential, and its trailers", lines)
    b.check(lines[1] == "many [b'0', b'1', b'2', b'3', b'4']" and lines[2] == "gather b'abc'", "streams each way", lines)
    b.check(lines[3] == "talk [b'EACH', b'WHEN', b'SAID'] []", "both ways at once, each as it is said", lines)
    b.check(lines[4] == "Fail NOT_FOUND nothing here", "the origin's no, in a head alone", lines)
    b.check(lines[5].startswith("Admin PERMISSION_DENIED") and "no-admin" in lines[5] and "not from a box" in lines[5], "the policy's, in gRPC's words", lines)
    ends = run.records("request", phase="end")
    b.check(len(ends) == 6 and sum(r["verdict"] == "deny" for r in ends) == 1, "on record", ends)


if __name__ == "__main__":
    b.main(b.cases(globals()))
