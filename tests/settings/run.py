#!/usr/bin/env python3
"""`exeat settings`: what it shows, and that its JSON Schema and the loader say the same of a file.

    tests/settings/run.py PROGRAM_DIR
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import jsonschema
import yaml

EXEAT = os.path.join(os.path.abspath(sys.argv[1]), "exeat")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENTS = 400
work = tempfile.TemporaryDirectory()


def exeat(*args, **env):
    return subprocess.run([EXEAT, "settings", *args], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, HOME=work.name, **env), stdin=subprocess.DEVNULL)


def write(text, name="exeat.yaml"):
    path = os.path.join(work.name, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def check(good, *what):
    if not good:
        raise AssertionError(" ".join(str(w) for w in what))


def keys_of(schema, path=""):
    for key, inner in schema.get("properties", {}).items():
        if "properties" in inner:
            yield from keys_of(inner, path + key + ".")
        else:
            yield path + key


# ---- show ----

def every_key_is_shown_with_where_it_comes_from():
    path = write("exeat-settings: 1\nlimits:\n  idle: 5m\n")
    shown = json.loads(exeat("show", "--settings", path, "--json").stdout)
    keys = {k["key"]: k for k in shown["keys"]}
    check(shown["file"] == path, shown["file"])
    check(set(keys) == set(keys_of(schema)), set(keys) ^ set(keys_of(schema)))
    check(keys["limits.idle"] == {"key": "limits.idle", "value": "5m", "from": "file", "line": 3}, keys["limits.idle"])
    check(keys["limits.leases"]["value"] == "4096" and keys["limits.leases"]["from"] == "default", keys)
    text = exeat("show", "--settings", path).stdout
    check(f"# {path}:3\n" in text and len(text.splitlines()) == len(keys), text)


def the_defaults_are_shown_where_there_is_no_file():
    if os.path.exists("/etc/exeat/exeat.yaml"):
        return
    shown = json.loads(exeat("show", "--json").stdout)
    check(shown["file"] is None and all(k["from"] == "default" for k in shown["keys"]), shown)


def a_secret_is_shown_as_its_source_alone():
    secret = write("very-secret-value\n", "secret")
    path = write(f"exeat-settings: 1\nsecrets:\n  a: {{file: {secret}, hosts: [x.test]}}\n"
                 "  b: {env: B_VALUE, hosts: [y.test]}\n")
    for args in ([], ["--json"]):
        r = exeat("show", "--settings", path, *args, B_VALUE="very-secret-value")
        check(r.returncode == 0 and secret in r.stdout and "B_VALUE" in r.stdout, r.stdout, r.stderr)
        check("very-secret-value" not in r.stdout + r.stderr, r.stdout)


def what_does_not_load_is_not_shown():
    r = exeat("show", "--settings", write("exeat-settings: 1\nlimts: {}\n"))
    check(r.returncode == 1 and r.stdout == "" and "unknown key" in r.stderr, r)


def the_commands_take_what_is_theirs_and_nothing_else():
    for args in ([], ["shwo"], ["check"], ["show", "x"], ["check", "a", "b"], ["schema", "--json"], ["show", "--nope"],
                 ["check", "--settings", "x", "y"]):
        r = exeat(*args)
        check(r.returncode == 64 and r.stdout == "" and r.stderr, args, r)
    for args in (["--help"], ["show", "--help"]):
        check(exeat(*args).returncode == 0 and "usage: exeat settings" in exeat(*args).stdout, args)
    check(subprocess.run([EXEAT, "settings", "schema"], stdout=open("/dev/full", "w"), timeout=60).returncode == 1,
          "what cannot be written is a failure")


def the_example_loads_and_is_wholly_of_the_table():
    example = os.path.join(ROOT, "conf/examples/exeat.yaml")
    r = exeat("show", "--settings", example)
    check(r.returncode == 0 and r.stderr == "", r)
    document = yaml.safe_load(open(example, encoding="utf-8"))
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    # What it calls a default is one, and each key stands in it, if only behind a "#".
    text = open(example, encoding="utf-8").read()
    for key in keys_of(schema):
        check(f"{key.split('.')[-1]}:" in text, key, "is not in the example")
    for key in json.loads(exeat("show", "--json", "--settings", example).stdout)["keys"]:
        line = text.splitlines()[key["line"] - 1] if "line" in key else ""
        if line.rstrip().endswith("default"):
            default = [k for k in json.loads(exeat("show", "--json", "--settings", write("exeat-settings: 1\n")).stdout)["keys"]
                       if k["key"] == key["key"]][0]
            check(default["value"] == key["value"], key, "is not the default", default)


# ---- check ----

def a_file_that_fits_passes():
    path = write("exeat-settings: 1\n")
    r = exeat("check", path)
    check(r.returncode == 0 and r.stdout == f"{path}: loads, and fits this machine\n" and r.stderr == "", r)


# ---- schema ----

def the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema)
    check(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema", schema["$schema"])


def value(s, rng, key):
    """Something that may be right: by its schema, or for what a schema cannot say by its key."""
    special = {"servers": ["192.0.2.1", "192.0.2.1:53", "[2001:db8::1]:53"], "link_pool": ["10.0.0.0/16"],
               "synthetic_pool": ["198.18.0.0/16"], "add": ["/etc/ca.pem"], "hosts": ["a.test", "*.b.test"],
               "timeout": ["500ms", "2s", "1m"], "age": ["1s", "9h", "30d"], "idle": ["1s", "10m", "1d"]}
    if key in special:
        one = rng.choice(special[key])
        return [one] if s["type"] == "array" else one
    if "enum" in s:
        return rng.choice(s["enum"])
    if s["type"] == "object":
        return document(s, rng)
    if s["type"] == "boolean":
        return rng.random() < 0.5
    if s["type"] == "array":
        return [rng.choice(["192.0.2.7", "2001:db8::7"])]
    if s["type"] == "integer":
        return rng.choice([s["minimum"], s["maximum"], rng.randint(s["minimum"], s["maximum"])])
    if isinstance(s["type"], list):
        n = rng.randint(s["minimum"], min(s["maximum"], 1 << 30))
        return rng.choice([n, f"{-(-s['minimum'] // 1024)}KiB" if s["minimum"] else "1KiB"])
    return "/" + "x" * rng.randint(0, 20) if s.get("pattern") == "^/" else "X" * rng.randint(1, 20)


def document(s, rng):
    if isinstance(s.get("additionalProperties"), dict):
        each, made = s["additionalProperties"], {}
        for i in range(rng.randint(0, 3)):
            made[f"n{i}.test"] = value(each, rng, "")
            if "properties" in each:      # a secret: one source
                made[f"n{i}.test"].pop(rng.choice(["file", "env"]), None)
                if not {"file", "env"} & set(made[f"n{i}.test"]):
                    made[f"n{i}.test"]["env"] = "A"
        return made
    return {key: value(inner, rng, key) for key, inner in s["properties"].items()
            if key in s["required"] or rng.random() < 0.4}


def spoil(doc, rng):
    """One thing of another kind, somewhere."""
    places = []

    def walk(node):
        for key in list(node):
            places.append((node, key))
            if isinstance(node[key], dict):
                walk(node[key])
    walk(doc)
    node, key = rng.choice(places)
    kind = rng.randrange(5)
    if kind == 0:
        node["no-such-key"] = 1
    elif kind == 1:
        del node[key]
    elif kind == 2:
        node[key] = rng.choice([["a", ["b"]], [], {"a": "b"}, {}, "text", 7, -1, 1 << 70, True, None, "7 s", ""])
    elif kind == 3:
        node[key] = [node[key]]
    else:
        node[key + "x"] = node.pop(key)


def errors_of(validator, doc):
    """What the schema has against it; but the loader takes every scalar as the text that it is."""
    return [e for e in validator.iter_errors(doc)
            if not (e.validator in ("type", "enum") and not isinstance(e.instance, (list, dict)))]


def the_schema_and_the_loader_agree():
    validator = jsonschema.Draft202012Validator(schema)
    rng = random.Random(7)
    loaded = refused = 0
    for i in range(DOCUMENTS):
        doc = document(schema, rng)
        good = i % 2 == 0
        if not good:
            spoil(doc, rng)
        text = json.dumps(doc, indent=1)
        r = exeat("show", "--settings", write(text))
        fits = not errors_of(validator, doc)
        check(r.returncode in (0, 1), r)
        check(not (r.returncode == 0 and not fits), "loads, but does not fit the schema:", text,
              [e.message for e in errors_of(validator, doc)])
        if good:
            check(fits and r.returncode == 0, "is right, and refused:", text, r.stderr,
                  [e.message for e in validator.iter_errors(doc)])
        loaded += r.returncode == 0
        refused += not fits
    check(loaded > DOCUMENTS / 2 and refused > DOCUMENTS / 8, "both kinds were tried", loaded, refused)


schema = json.loads(exeat("schema").stdout)
cases = [every_key_is_shown_with_where_it_comes_from, the_defaults_are_shown_where_there_is_no_file,
         a_secret_is_shown_as_its_source_alone, what_does_not_load_is_not_shown,
         the_commands_take_what_is_theirs_and_nothing_else, the_example_loads_and_is_wholly_of_the_table,
         a_file_that_fits_passes, the_schema_is_one, the_schema_and_the_loader_agree]
failed = 0
for case in cases:
    try:
        case()
        print(f"ok    {case.__name__}")
    except Exception as e:
        failed += 1
        print(f"FAIL  {case.__name__}: {type(e).__name__}: {e}")
print(f"{len(cases) - failed} passed, {failed} failed")
sys.exit(failed != 0)
