#!/usr/bin/env python3
"""Each case of a unit test comes to an assertion, by itself or through what it calls.

A case without one passes whatever the code does. What a test calls is looked for in its own file
and in the headers of tests/ that it includes.
"""
import glob
import re
import sys

FUNCTION = re.compile(r"^[A-Za-z_][\w \*]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.S | re.M)
MACRO = re.compile(r"^#define (\w+)\([^)]*\)((?:.*\\\n)*.*)$", re.M)
CASE = re.compile(r"(?:cmocka_unit_test\w*|\bCASE\w*)\((\w+)")
ASSERTS = re.compile(r"\b(assert_\w+|fail|fail_msg)\(")


def read(path, seen):
    if path in seen:
        return ""
    seen.add(path)
    text = open(path, encoding="utf-8").read()
    return text + "".join(read(h, seen) for h in re.findall(r'#include "(tests/[^"]+)"', text))


def asserting(text):
    bodies = dict(FUNCTION.findall(text)) | dict(MACRO.findall(text))
    good = {name for name, body in bodies.items() if ASSERTS.search(body)}
    while True:
        more = {name for name, body in bodies.items()
                if name not in good and good & set(re.findall(r"\w+", body))}
        if not more:
            return good
        good |= more


wrong = []
for test in sorted(glob.glob("tests/unit/*/test_*.c")):
    good = asserting(read(test, set()))
    cases = set(CASE.findall(open(test, encoding="utf-8").read())) - {"name", "test", "function", "f", "t"}
    if not cases:
        wrong.append(f"{test}: no cases found")
    wrong += [f"{test}: {case} comes to no assertion" for case in sorted(cases - good)]
print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
