"""A role that dies is replaced, and its successor has what the box relied on: the CA, the secrets, live connections."""

import os
import signal
import subprocess

import bed as b

TOKENS = {"api.test": "tok-4c8e1f0a9b7d6e53", "env.test": "tok-9b1d77e2c05f4a86"}
SECRETS = {"file": (TOKENS["api.test"], ["api.test"]), "variable": ({"env": "EXEAT_TEST_TOKEN"}, ["env.test"])}

POLICY = """exeat: 1
precedence: deny-over-allow
credentials:
  api: {kind: bearer, secret: file, hosts: [api.test]}
  env: {kind: bearer, secret: variable, hosts: [env.test]}
allow:
  - {id: api, hosts: [api.test], credential: api}
  - {id: env, hosts: [env.test], credential: env}
"""

# One line in, one request on a connection that is kept, or on a new one; one line out.
CLIENT = r"""
import http.client, ssl, sys
kept = {}
def ask(how, host, path):
    c = kept.get(host)
    if how == "new" or not c:
        c = kept[host] = http.client.HTTPSConnection(host, timeout=30, context=ssl.create_default_context())
    try:
        c.request("GET", path)
        r = c.getresponse()
        r.read()
        return r.status
    except Exception as e:
        kept.pop(host).close()
        return type(e).__name__ + ": " + str(e)
print("up", flush=True)
for line in sys.stdin:
    print(ask(*line.split()), flush=True)
"""


def _pid(run, role):
    """The process of a role, or None."""
    for entry in os.listdir("/proc"):
        try:
            stat = open(f"/proc/{entry}/stat", encoding="latin-1").read() if entry.isdigit() else ""
        except OSError:
            continue
        name, _, rest = stat.partition(") ")
        fields = rest.split()
        if rest and int(fields[1]) == run.process.pid and name.endswith(f"(exeat-{role}"[:16]) and fields[0] != "Z":
            return int(entry)
    return None


def _origin(bed):
    for name in TOKENS:
        bed.dns.zone[name] = ["203.0.113.10"]
    if not hasattr(bed, "origin"):
        bed.origin = b.Origin(bed, b.http(b.echo), cert=bed.cert(*TOKENS))
    bed.origin.requests.clear()


def _start(bed):
    _origin(bed)
    run = bed.start(["python3", "-c", CLIENT], POLICY, secrets=SECRETS, stdin=subprocess.PIPE,
                    env=dict(os.environ, EXEAT_TEST_TOKEN=TOKENS["env.test"]))
    b.check(run.process.stdout.readline() == b"up\n", "the box is up")
    return run


def _ask(bed, run, how, host):
    """One request of the box: what it got, and what the origin did."""
    seen = len(bed.origin.requests)
    run.process.stdin.write(f"{how} {host} /{how}\n".encode())
    run.process.stdin.flush()
    got = run.process.stdout.readline().decode().strip()
    return got, [r.get("authorization") for r in bed.origin.requests[seen:]]


def _asks_as_before(bed, run, *when):
    for how in ("kept", "new", "kept"):
        for host, token in TOKENS.items():
            got, fields = _ask(bed, run, how, host)
            b.check(got == "200" and fields == [f"Bearer {token}"], "answered, with its credential", how, host, got, fields, *when)


def _end(run):
    run.process.stdin.close()
    run.process.stdin = None
    run.wait(60)
    b.check(run.status == 0, "the command ends as it would have", run.status, run.err)
    run.verify()


def _kill(run, role):
    before = b.wait_until(role, lambda: _pid(run, role))
    os.kill(before, signal.SIGKILL)
    return before


def _succeeded(run, role, before):
    """What a worker has already (a leaf, a connection, a grant for its second) needs nobody: so it may come later."""
    b.wait_until(f"another {role}", lambda: _pid(run, role) not in (None, before))


def a_brokers_successor_has_the_ca_and_the_secrets_of_file_and_environment(bed):
    run = _start(bed)
    _asks_as_before(bed, run)
    for n in range(3):
        before = _kill(run, "broker")
        _asks_as_before(bed, run, "killed", n)
        _succeeded(run, "broker", before)
    _end(run)
    b.check(len(run.records("worker_lost", role="broker")) == 3, "each death is on record", run.err)


def a_dialers_successor_connects_where_the_first_did(bed):
    run = _start(bed)
    _asks_as_before(bed, run)
    for n in range(3):
        before = _kill(run, "dialer")
        _asks_as_before(bed, run, "killed", n)
        _succeeded(run, "dialer", before)
    _end(run)


def dialer_and_broker_may_die_at_once(bed):
    run = _start(bed)
    _asks_as_before(bed, run)
    for first, second in (("dialer", "broker"), ("broker", "dialer")):
        _kill(run, first)
        _kill(run, second)
        _asks_as_before(bed, run, first, second)
    _end(run)


def a_connection_that_was_made_before_the_broker_died_bears_credentials_after(bed):
    run = _start(bed)
    b.check(_ask(bed, run, "new", "api.test")[0] == "200", "answered")
    connections = bed.origin.connections
    _kill(run, "broker")
    got, fields = _ask(bed, run, "kept", "api.test")
    b.check(got == "200" and fields == [f"Bearer {TOKENS['api.test']}"], "answered, with its credential", got, fields)
    b.check(bed.origin.connections == connections, "over the connection that was there")
    _end(run)


def a_workers_successor_has_the_ca_that_the_box_trusts(bed):
    run = _start(bed)
    _asks_as_before(bed, run)
    before = _kill(run, "worker")
    for host in TOKENS:
        _ask(bed, run, "kept", host)    # it may have been told of the connection's end, or not
    b.wait_until("another worker", lambda: _pid(run, "worker") not in (None, before))
    _asks_as_before(bed, run)
    _end(run)


def a_secrets_file_that_is_gone_when_the_broker_dies_costs_what_needs_it_and_no_more(bed):
    run = _start(bed)
    _asks_as_before(bed, run)
    os.unlink(bed.path("secret-file"))
    _kill(run, "broker")
    got, fields = _ask(bed, run, "new", "env.test")
    b.check(got == "200" and fields == [f"Bearer {TOKENS['env.test']}"], "the other secret is there", got, fields, run.err)
    # What the old one granted lasts a second on its connection.
    def refused():
        got, fields = _ask(bed, run, "kept", "api.test")
        b.check(fields == ([f"Bearer {TOKENS['api.test']}"] if got == "200" else []), "no request without its credential", got, fields)
        return got not in ("200", "")
    b.wait_until("it is missed", refused)
    _end(run)
    b.check("secret-file" in run.err, "it is told", run.err)


def a_stopped_role_is_replaced_like_a_dead_one(bed):
    run = _start(bed)
    for role in ("broker", "dialer"):
        before = b.wait_until(role, lambda: _pid(run, role))
        os.kill(before, signal.SIGSTOP)
        _asks_as_before(bed, run, "stopped", role)
        _succeeded(run, role, before)
    _end(run)


def roles_that_answer_are_left_alone(bed):
    _origin(bed)
    run = bed.run("sleep 8; curl -sS -o /dev/null https://env.test/", POLICY, secrets=SECRETS,
                  env=dict(os.environ, EXEAT_TEST_TOKEN=TOKENS["env.test"]))
    b.check(run.status == 0 and not run.err, "nothing has been said to be gone", run.status, run.err)
    b.check(not run.records("worker_lost"), "and nothing was", run.records("worker_lost"))


LOAD = """for i in $(seq 10); do
    (for k in $(seq 30); do curl -sS -m 30 -o /dev/null -w '%{http_code}\\n' https://api.test/$i-$k; done) &
done; wait"""


def under_load_the_deaths_of_broker_and_dialer_cost_no_request(bed):
    _origin(bed)
    run = bed.start(LOAD, POLICY, secrets=SECRETS, env=dict(os.environ, EXEAT_TEST_TOKEN=TOKENS["env.test"]))
    for n, role in enumerate(("broker", "dialer", "broker", "dialer")):
        b.wait_until("the load", lambda: len(bed.origin.requests) > 50 * (n + 1), 60)
        before = _kill(run, role)
        b.wait_until("its successor", lambda: _pid(run, role) not in (None, before))
    run.wait(120)
    b.check(run.out.split() == ["200"] * 300, "each request is answered", run.out.split().count("200"), run.err)
    b.check({r.get("authorization") for r in bed.origin.requests} == {f"Bearer {TOKENS['api.test']}"}, "with its credential")
    run.verify()


b.main(b.cases(globals()))
