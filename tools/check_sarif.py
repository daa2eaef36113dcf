#!/usr/bin/env python3
"""Validate what `tandem check` and `tandem run` write as SARIF against the standard's JSON schema.

usage: check_sarif.py --tandem PATH [--schema FILE]   (without a schema: the one inside the npm package @microsoft/jest-sarif)

Needs the PyPI package jsonschema, and npm when no schema is given. `crates/tandem/tests/sarif.rs` has the rules written out and
needs neither. Last line: `N documents, M results, K errors`.
"""
import argparse, glob, json, os, subprocess, sys, tarfile, tempfile

import jsonschema

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PACKAGE, MEMBER = "@microsoft/jest-sarif@1.0.0-beta.0", "package/lib/schemas/sarif-2.1.0-rtm.5.json"


def schema(path):
    if path:
        with open(path) as f:
            return json.load(f)
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=d, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(glob.glob(os.path.join(d, "*.tgz"))[0]) as t:
            return json.load(t.extractfile(MEMBER))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tandem", required=True)
    p.add_argument("--schema")
    a = p.parse_args()
    s = schema(a.schema)
    check = jsonschema.validators.validator_for(s)(s, format_checker=jsonschema.FormatChecker())
    tandem = os.path.abspath(a.tandem)
    os.chdir(ROOT)
    files = [f for pattern in ("filetests/check/**/*.bir", "testdata/codes/**/*.bir", "examples/kernels/*.klr")
             for f in sorted(glob.glob(pattern, recursive=True))]
    documents = results = errors = 0
    for f in files:
        for args in (["check", f], ["run", f, "--random", "1"]):
            if args[0] == "run" and not f.startswith("filetests"):
                continue
            out = subprocess.run([tandem, *args, "--format", "sarif"], capture_output=True, text=True).stdout
            v = json.loads(out)
            documents += 1
            results += len(v["runs"][0]["results"])
            for e in check.iter_errors(v):
                errors += 1
                print(f"{f} ({args[0]}): {list(e.path)}: {e.message[:300]}")
    print(f"{documents} documents, {results} results, {errors} errors")
    return 1 if errors or not results else 0


if __name__ == "__main__":
    sys.exit(main())
