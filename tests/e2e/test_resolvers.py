"""What resolvers make of the names here: musl's, which asks for A and AAAA at once, takes no REFUSED for an
answer and knows no TCP; glibc's with each of its options; c-ares, by way of node. In a root of musl and
busybox alone, and in the usual one."""

import os
import pathlib
import shutil
import subprocess

import bed as b
import clients as c

PROGRAMS = pathlib.Path(__file__).with_name("programs")
POLICY = """exeat: 1
precedence: deny-over-allow
allow:
  - {id: api, hosts: [api.test, plain.test], protocol: http}
  - {id: wide, hosts: ["*.wide.test", "**.deep.test"]}
deny:
  - {id: never, hosts: [never.wide.test], reason: Not this one.}
"""
LONG = ".".join(["x" * 63, "y" * 63, "z" * 63, "w" * 51]) + ".deep.test"    # 253 bytes


def _zone(bed):
    bed.dns.zone.update({
        "api.test": ["203.0.113.17"], "plain.test": ["203.0.113.17"], "two.wide.test": ["203.0.113.17", "2001:db8::17"],
        "six.wide.test": ["2001:db8::17"], "never.wide.test": ["203.0.113.17"], "under_score.wide.test": ["203.0.113.17"],
        LONG: ["203.0.113.17"], "nodata.wide.test": lambda t: (0, []), "servfail.wide.test": lambda t: (2, []),
        "refused.wide.test": lambda t: (5, []), "silent.wide.test": lambda t: None,
        "big.wide.test": [f"203.0.113.{i}" for i in range(10, 70)],
        # AAAA of a name is refused where its A is not, as some servers do.
        "half.wide.test": lambda t: (0, [(1, bytes([203, 0, 113, 17]), 60)]) if t == 1 else (5, []),
        "lies.wide.test": lambda t: (0, [(1, bytes([203, 0, 113, 17]), 60)]) if t == 1 else (3, [])})
    bed.dns.truncate.add("big.wide.test")
    if not hasattr(bed, "plain"):
        bed.plain = b.Origin(bed, b.http(c.page), "203.0.113.17", 80)


def _musl_root(bed):
    """busybox and the program, linked with musl: as it is, and with a resolv.conf that the box may write."""
    root = pathlib.Path(bed.path("musl"))
    if not root.exists():
        os.chmod(bed.dir, 0o755)
        (root / "bin").mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "bin/busybox")
        for name in ("sh", "cat", "sort", "uniq", "seq", "nslookup", "sed", "wget"):
            os.symlink("busybox", root / "bin" / name)
        subprocess.run(["musl-gcc", "-static", "-O1", "-o", root / "bin/resolve", PROGRAMS / "resolve.c"], check=True, capture_output=True)
        program = (root / "bin/resolve").read_bytes()
        b.check(program.count(b"/etc/resolv.conf\0") == 1, "the place of resolv.conf")
        (root / "bin/resolve-tmp").write_bytes(program.replace(b"/etc/resolv.conf\0", b"/tmp/resolv.conf\0"))
        (root / "bin/resolve-tmp").chmod(0o755)
    return ["--rootfs", str(root)]


def _musl(bed, script, **more):
    _zone(bed)
    run = bed.run(["sh", "-c", script], POLICY, options=_musl_root(bed), **more)
    return run, [line.split(" ", 1) for line in run.out.splitlines()]


def _is_synthetic(text):
    return text.startswith(("198.18.", "198.19.")) and " " not in text and text != c.REFUSAL_ADDRESS


def _asked_once(run, *names):
    """One question for A, one for AAAA: nothing made the resolver ask again, or wait."""
    for name in names:
        types = sorted((r["type"], r.get("count", 1)) for r in run.records("dns", name=name))
        b.check(types == [("A", 1), ("AAAA", 1)], f"{name} is asked for once", types)


def musl_resolves_what_has_addresses_of_one_kind_or_both(bed):
    names = ("api.test", "two.wide.test", "six.wide.test", "half.wide.test", "lies.wide.test", "big.wide.test",
             "under_score.wide.test", LONG)
    run, lines = _musl(bed, f"resolve any {' '.join(names)}")
    b.check([l[0] for l in lines] == list(names) and all(_is_synthetic(l[1]) for l in lines), "one address each", run.out, run.err)
    _asked_once(run, *names)
    b.check(all(r["verdict"] == "allow" and r["rcode"] == "NOERROR" for r in run.records("dns")), "on record", run.records("dns"))
    b.check(("big.wide.test", 1, "tcp") in bed.dns.queries, "the truncated answer was fetched whole", bed.dns.queries)


def musl_is_told_what_does_not_exist_or_fails(bed):
    """It waits five seconds after a failure, whoever said it, and of a server that is silent no longer."""
    settings = bed.settings(servers=False, extra=f'resolver:\n  servers: ["{bed.DNS}:53"]\n  timeout: 1s\n')
    run, lines = _musl(bed, """resolve any missing.wide.test nodata.wide.test router; resolve 6 api.test
for n in refused servfail silent; do resolve any $n.wide.test & done | sort; resolve any api.test""", settings=settings)
    b.check(lines[0] == ["missing.wide.test", "NONAME"], "NXDOMAIN", lines, run.err)
    b.check(lines[1][1] not in ("AGAIN",) and not _is_synthetic(lines[1][1]), "no data is no failure", lines)
    b.check(lines[2] == ["router", "NONAME"], "a single label is nobody's", lines)
    b.check(not _is_synthetic(lines[3][1]) and lines[3][1] != "AGAIN", "no address of the other kind", lines)
    failures = ("refused.wide.test", "servfail.wide.test", "silent.wide.test")
    b.check(lines[4:7] == [[name, "AGAIN"] for name in failures], "failures may pass", lines)
    b.check(_is_synthetic(lines[7][1]), "and the next name is found", lines)
    _asked_once(run, "missing.wide.test", "nodata.wide.test")
    for name in failures:
        b.check({(r["verdict"], r["rcode"]) for r in run.records("dns", name=name)} == {("allow", "SERVFAIL")}, "on record",
                run.records("dns", name=name))


def musl_is_told_of_a_refused_name_by_the_connection(bed):
    run, lines = _musl(bed, "resolve any evil.test never.wide.test; resolve get evil.test never.wide.test plain.test 2>&1")
    b.check([l[1] for l in lines[:2]] == [c.REFUSAL_ADDRESS] * 2, "the refusal address", lines, run.err)
    b.check(lines[2:4] == [["evil.test:", "Connection refused"], ["never.wide.test:", "Connection refused"]], "refuses at once", lines)
    b.check(lines[4] == ["plain.test", "HTTP/1.1 200 OK"], "and what is allowed is answered", lines)
    b.check(run.records("dns", name="never.wide.test", verdict="deny", rule="never"), "by its rule", run.records("dns"))
    c.is_refused_on_record(bed, run, "evil.test", 80)


CLUSTER = "search svc.cluster.local cluster.local corp.example\\noptions ndots:5 timeout:5 attempts:2"


def musl_with_a_search_list_comes_to_the_name_that_is_meant(bed):
    """As a container of Kubernetes has it: each name is tried under each domain first."""
    run, lines = _musl(bed, f"""{{ cat /etc/resolv.conf | sed -n '/nameserver/p'; printf '{CLUSTER}\\n'; }} >/tmp/resolv.conf
resolve-tmp any api.test two.wide.test two.wide.test. router
resolve-tmp get evil.test 2>&1
printf 'search wide.test\\n' >>/tmp/resolv.conf
resolve-tmp any two nobody""")
    b.check([l[0] for l in lines[:3]] == ["api.test", "two.wide.test", "two.wide.test."] and all(_is_synthetic(l[1]) for l in lines[:3]),
            "each is found", lines, run.err)
    b.check(lines[1][1] == lines[2][1], "at one address", lines)
    b.check(lines[3] == ["router", c.REFUSAL_ADDRESS], "a name that is only made is refused as any other", lines)
    b.check(lines[4] == ["evil.test:", "Connection refused"], "a refused name is refused, whatever was behind it", lines)
    b.check(_is_synthetic(lines[5][1]) and lines[5][0] == "two", "a short name by its domain", lines)
    b.check(lines[6] == ["nobody", "NONAME"], "and none that is not there", lines)
    asked = {q[0] for q in bed.dns.queries}
    b.check(asked == {"api.test", "two.wide.test", "nobody.wide.test"}, "nothing else went upstream", asked)


def junk_of_search_lists_is_few_lines(bed):
    run, lines = _musl(bed, f"""{{ cat /etc/resolv.conf | sed -n '/nameserver/p'; printf '{CLUSTER}\\n'; }} >/tmp/resolv.conf
for i in $(seq 100); do resolve-tmp any h$i.wide.test; done | sort | uniq -c | sed -n '$p'""")
    junk = [r for r in run.records("dns", verdict="deny") if "search list" in r.get("reason", "")]
    total = sum(r.get("count", 1) for r in junk)
    b.check(total == 600, "all are accounted for", total, junk[:3])
    b.check(len(junk) < 60, "in few lines", len(junk))
    b.check(len({r["name"] for r in run.records("dns", verdict="allow")}) == 100, "what is meant has its own", lines)


def any_server_that_a_box_asks_is_ours(bed):
    run, lines = _musl(bed, """printf 'nameserver 8.8.8.8\\nnameserver 203.0.113.53\\nnameserver 1.1.1.1\\n' >/tmp/resolv.conf
resolve-tmp any api.test missing.wide.test; resolve-tmp get evil.test 2>&1; resolve any api.test""")
    b.check(_is_synthetic(lines[0][1]) and lines[0] == lines[3], "one address, whoever is asked", lines, run.err)
    b.check(lines[1] == ["missing.wide.test", "NONAME"] and lines[2][1] == "Connection refused", "and one refusal", lines)
    b.check(len(run.records("dns", name="api.test", type="A")) == 4, "each question is on record", run.records("dns"))


def many_resolvers_at_once_all_get_their_answer(bed):
    run, _ = _musl(bed, "for i in $(seq 40); do resolve any api.test two.wide.test six.wide.test missing.wide.test & done | "
                        "sed 's/198.1[89][0-9.]*/ok/' | sort | uniq -c")
    b.check([l.split() for l in run.out.splitlines()] == [["40", "api.test", "ok"], ["40", "missing.wide.test", "NONAME"],
            ["40", "six.wide.test", "ok"], ["40", "two.wide.test", "ok"]], "all of them", run.out, run.err)
    b.check(len(bed.dns.asked("six.wide.test")) <= 4, "and upstream was asked once", bed.dns.queries)


def addresses_have_their_names_back(bed):
    run, lines = _musl(bed, "resolve any api.test two.wide.test | sed 's/.* //' >/tmp/a; resolve name $(cat /tmp/a) 8.8.8.8; nslookup api.test")
    b.check([l[1] for l in lines[:2]] == ["api.test", "two.wide.test"], "each its own", lines, run.err)
    b.check(lines[2][0] == "8.8.8.8" and "." not in lines[2][1], "others none", lines)
    b.check(run.out.count("Address: 198.18.") == 1, "busybox's nslookup finds it, too", run.out)
    b.check(not [q for q in bed.dns.queries if q[0].endswith("arpa")], "nothing of it went upstream", bed.dns.queries)


# ---- glibc ----

PYTHON = """python3 -c '
import socket, sys
for name in sys.argv[1:]:
    try:
        print(name, *sorted({a[4][0] for a in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)}))
    except socket.gaierror as e:
        print(name, e.args[1])' """


def _glibc(bed, script, **more):
    _zone(bed)
    run = bed.run(script, POLICY, **more)
    return run, [line.split(" ", 1) for line in run.out.splitlines()]


def glibc_resolves_with_each_of_its_options(bed):
    options = ("ndots:0", "use-vc", "edns0", "single-request", "single-request-reopen", "trust-ad", "rotate", "no-tld-query",
               "no-aaaa", "attempts:1 timeout:2")
    names = "api.test two.wide.test half.wide.test big.wide.test missing.wide.test"
    run, lines = _glibc(bed, "\n".join(f"RES_OPTIONS='{o}' {PYTHON} {names}" for o in options))
    b.check(len(lines) == 5 * len(options), "each is over", run.out, run.err)
    for i, option in enumerate(options):
        mine = lines[5 * i:5 * i + 5]
        b.check(all(_is_synthetic(l[1]) for l in mine[:4]), f"{option}: addresses", mine)
        b.check(mine[4][1] == "Name or service not known", f"{option}: and none", mine)
    b.check(not run.records("dns", verdict="deny") and not run.records("connect"), "nothing was refused", run.records("dns", verdict="deny"))


def glibc_with_a_search_list_comes_to_the_name_that_is_meant(bed):
    run, lines = _glibc(bed, f"""export LOCALDOMAIN='svc.cluster.local cluster.local corp.example' RES_OPTIONS=ndots:5
{PYTHON} api.test two.wide.test router evil.test; getent hosts api.test; LOCALDOMAIN=wide.test {PYTHON} two nobody
curl -sS http://evil.test/ 2>&1""")
    b.check(_is_synthetic(lines[0][1]) and _is_synthetic(lines[1][1]), "found", lines, run.err)
    b.check([l[1] for l in lines[2:4]] == [c.REFUSAL_ADDRESS] * 2, "refused", lines)
    b.check(lines[4][1].split()[-1] == "api.test", "getent, too", lines)
    b.check(_is_synthetic(lines[5][1]) and lines[6][1] == "Name or service not known", "a short name by its domain", lines)
    b.check("Failed to connect to evil.test" in run.out, "at once", run.out)


def glibc_is_told_of_failures_and_goes_on(bed):
    run, lines = _glibc(bed, PYTHON + "servfail.wide.test refused.wide.test nodata.wide.test api.test; getent ahosts six.wide.test")
    b.check([l[1] for l in lines[:2]] == ["Temporary failure in name resolution"] * 2, "failures", lines, run.err)
    b.check(lines[2][1] in ("No address associated with hostname", "Name or service not known"), "no data", lines)
    b.check(_is_synthetic(lines[3][1]) and "198.1" in run.out.splitlines()[4], "and the next", lines)


def c_ares_gets_no_data_for_what_is_not_there(bed):
    run, lines = _glibc(bed, """node -e '
const dns = require("dns").promises;
(async () => {
    for (const [kind, name] of [["A", "api.test"], ["AAAA", "api.test"], ["MX", "api.test"], ["TXT", "api.test"], ["SRV", "api.test"],
            ["CNAME", "api.test"], ["NS", "api.test"], ["CAA", "api.test"], ["NAPTR", "api.test"], ["SOA", "api.test"], ["ANY", "api.test"],
            ["A", "missing.wide.test"], ["AAAA", "missing.wide.test"], ["A", "evil.test"], ["AAAA", "evil.test"], ["TXT", "evil.test"]])
        await dns.resolve(name, kind).then(a => console.log(kind + "/" + name, "" + a), e => console.log(kind + "/" + name, e.code));
    console.log("lookup", (await dns.lookup("api.test", {all: true})).map(a => a.address).join());
    console.log("reverse", (await dns.reverse((await dns.resolve4("api.test"))[0])).join());
})()'""")
    found = dict(lines)
    b.check(_is_synthetic(found["A/api.test"]) and found["lookup"] == found["A/api.test"], "the address", run.out, run.err)
    b.check(all(found[f"{kind}/api.test"] == "ENODATA" for kind in ("AAAA", "MX", "TXT", "SRV", "CNAME", "NS", "CAA", "NAPTR", "SOA", "ANY")),
            "no data, never a refusal", run.out)
    b.check([found[f"{kind}/missing.wide.test"] for kind in ("A", "AAAA")] == ["ENOTFOUND"] * 2, "one code for one name", run.out)
    b.check(found["A/evil.test"] == c.REFUSAL_ADDRESS and found["AAAA/evil.test"] == found["TXT/evil.test"] == "ENODATA", "of a refused one, too",
            run.out)
    b.check(found["reverse"] == "api.test", "and back", run.out)
    b.check({q[1] for q in bed.dns.queries} <= {1, 28}, "no other type went upstream", bed.dns.queries)


b.main(b.cases(globals()))
