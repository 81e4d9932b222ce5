#!/usr/bin/env python3
"""What the prose and the headers name is there.

1. A comment that names a function(), a CONSTANT_NAME or a file, and a document that names a file:
   it exists. A theory of operation outlives its code otherwise, and misleads.
2. A function that a header declares is called by the programs, not by its tests alone: what nobody
   calls is one more thing to keep right. Those that only let a test look in say so below.
3. A function stands once: no two files have functions with the same body.
"""
import glob
import os
import re
import sys

FOLDERS = ("conf", "policy", "sandbox", "broker", "proxy")
SOURCES = sorted(f for d in FOLDERS for f in glob.glob(f"{d}/*.[ch]"))
DOCUMENTS = ["README.md", "ARCHITECTURE.md"]

# Named to say what is not used, or used by a program that is not ours.
ELSEWHERE = {
    "inet_aton",             # whose forms of addresses are refused
    "SO_MARK", "TCP_ULP", "TCP_FASTOPEN_CONNECT",    # options that a role is refused
    "RST_STREAM", "WINDOW_UPDATE", "NO_ERROR", "INTERNAL_ERROR", "ENHANCE_YOUR_CALM",    # HTTP/2's own words
    "NO_COPY",               # of NGHTTP2_DATA_FLAG_NO_COPY
    "ARES_ECONNREFUSED", "X509_STORE", "MASKED_EQ",  # parts of names that libraries have
}
# Let a test see that a limit holds or that nothing is left behind.
FOR_TESTS = {
    "askers_free", "broker_sandboxes", "channel_queued", "connections_count", "control_clients",
    "dialer_sandboxes", "h2_count",
    "log_last_seq", "pool_count", "pool_idle",
    "resolver_cache_count", "tickets_count", "tls_sessions_count", "wire_gateway_netns",
}

COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
FILE = re.compile(r"(?<![\w/])((?:conf|policy|sandbox|broker|proxy|tests|fuzz)/[\w/.-]*\.(?:[ch]|py|sh|yaml|mk))(?!\w)")
wrong = []


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def code_of(text):
    return COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)


texts = {f: open(f, encoding="utf-8").read() for f in SOURCES}
code = {f: code_of(t) for f, t in texts.items()}
words = {f: set(re.findall(r"[A-Za-z_]\w*", t)) for f, t in code.items()}
known = set().union(*words.values()) | ELSEWHERE


def check_comment(file, text, comment):
    def missing(kind, name, at):
        wrong.append(f"{file}:{line_of(text, comment.start() + at)}: {kind} {name} is not in the tree")

    body = comment.group()
    for m in re.finditer(r"(?<![/\w])([A-Za-z]\w*)\(\)", body):
        if m.group(1) not in known:
            missing("function", m.group(1) + "()", m.start())
    for m in re.finditer(r"(?<![-/\w])([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?![\w*])", body):
        if m.group(1) not in known:
            missing("name", m.group(1), m.start())
    for m in FILE.finditer(body):
        if not os.path.exists(m.group(1)):
            missing("file", m.group(1), m.start())


def check_document(file):
    text = open(file, encoding="utf-8").read()
    for m in FILE.finditer(text):
        if not os.path.exists(m.group(1)):
            wrong.append(f"{file}:{line_of(text, m.start())}: file {m.group(1)} is not in the tree")
    for m in re.finditer(r"`([a-z]\w*)\(\)`", text):
        if m.group(1) not in known:
            wrong.append(f"{file}:{line_of(text, m.start())}: function {m.group(1)}() is not in the tree")


def check_callers(header):
    text = STRING.sub('""', code[header])
    for m in re.finditer(r"^(?!static|typedef|#|\t)[\w \*]*?\b(\w+)\([^;{]*\)[^;{]*;", text, re.M):
        name = m.group(1)
        own = header[:-1] + "c"
        called = any(name in w for f, w in words.items() if f.endswith(".c") and f != own)
        called = called or len(re.findall(rf"\b{name}\b", code.get(own, ""))) > 1
        called = called or len(re.findall(rf"\b{name}\(", text)) > 1    # by what is inline there
        if called == (name in FOR_TESTS):
            wrong.append(f"{header}:{line_of(text, m.start())}: {name}() is " +
                         ("called: take it out of FOR_TESTS" if called else "called by no program"))


BODY = re.compile(r"^[\w \*]*?\b(\w+)\(([^;{}]*)\)\n\{\n(.*?)^\}", re.S | re.M)
BODY_LINES = 3    # shorter ones look alike without being one thing


def check_copies():
    first = {}
    for f, text in code.items():
        for m in BODY.finditer(text):
            body = " ".join(m.group(3).replace(m.group(1) + "(", "self(").split())
            if m.group(3).count("\n") < BODY_LINES:
                continue
            where = f"{f}:{line_of(text, m.start())}: {m.group(1)}()"
            if body in first and not first[body].startswith(f + ":"):
                wrong.append(f"{where} is {first[body]} again")
            first.setdefault(body, where)


check_copies()
for f, text in texts.items():
    for comment in COMMENT.finditer(text):
        check_comment(f, text, comment)
    if f.endswith(".h"):
        check_callers(f)
for f in DOCUMENTS:
    check_document(f)
print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
