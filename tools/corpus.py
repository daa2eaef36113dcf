#!/usr/bin/env python3
"""Run the `tandem` binary over a folder of KLR files with a manifest and compare with numpy.

usage: corpus.py --tandem PATH [--dir DIR] [--only REGEX] [--extra "ARGS"] [--json]

Needs numpy and ml_dtypes. For every entry of DIR/manifest.json:
  valid      inputs are made from `input_recipe`, `tandem run` must exit 0 and every output in `expr`
             must match numpy within `tolerance`
  illegal    `tandem check FILE` must exit 1 (finding), 3 (not supported) or 2 with a P code (refused on reading),
             with a diagnostic code, within 10 s
  malformed  `tandem check FILE` must exit 2 with a P code (1 where the defect is a rule, not a form), within 10 s,
             in less than 1.5 GiB of address space
  accept     as valid where it has an `expr`, else `tandem info FILE` must exit 0
  quirk      either a clean exit 2 or as valid
  fault      `tandem check FILE`, or else `tandem run FILE` on made inputs, must exit 1 with a diagnostic code
A panic text, a signal or exit 70 is a failure everywhere. Last line: `N passed, M failed`.
"""
import argparse, json, os, re, resource, shlex, subprocess, sys, tempfile
import numpy as np
import ml_dtypes

DT = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "int32": np.int32,
      "uint32": np.uint32, "int16": np.int16, "uint16": np.uint16, "int8": np.int8, "uint8": np.uint8}


def make_inputs(entry):
    r = np.random.RandomState(42)
    out = {}
    for t in entry.get("inputs", []):
        if t["dtype"] == "int32":
            out[t["name"]] = r.randint(-2**31, 2**31 - 1, size=t["shape"]).astype(np.int32)
        else:
            out[t["name"]] = r.standard_normal(t["shape"]).astype(np.float32).astype(DT[t["dtype"]])
    return out


def compare(got, want, dtype, tol):
    got = np.asarray(got)
    if got.dtype.kind == "V" or (dtype == "bfloat16" and got.dtype == np.uint16):
        got = got.view(DT[dtype])
    if got.shape != tuple(want.shape):
        return f"shape {got.shape} != {tuple(want.shape)}"
    if tol is None:
        # bytes, so that -0.0 is not 0.0 and NaN payloads count
        same = np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(want).tobytes()
        return None if same else f"not exact, max |d| {np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)))}"
    g, w = got.astype(np.float64), want.astype(np.float64)
    ok = np.allclose(g, w, rtol=tol[0], atol=tol[1])
    return None if ok else f"max |d| {np.max(np.abs(g - w))} outside {tol}"


def tolerance(text):
    m = re.findall(r"(rtol|atol)\s*([0-9.e+-]+)", text or "")
    if not m:
        return None
    d = dict(m)
    return float(d.get("rtol", 0)), float(d.get("atol", 0))


def call(args, timeout=60, limit=8 << 30):
    try:
        p = subprocess.run(args, capture_output=True, text=True, timeout=timeout,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        return p.returncode, p.stdout + p.stderr
    except subprocess.TimeoutExpired:
        return None, "timeout"


def bad(code, text):
    if code is None:
        return "timed out"
    if code < 0 or code == 70 or "panicked at" in text or "internal error" in text:
        return f"crash or internal error (exit {code}): {text.strip()[-200:]}"
    return None


def run_valid(tandem, extra, folder, e):
    with tempfile.TemporaryDirectory() as tmp:
        ins = make_inputs(e)
        args = [tandem, "run", os.path.join(folder, e["file"]), "-o", os.path.join(tmp, "out")] + extra
        for k, v in ins.items():
            f = os.path.join(tmp, f"in_{len(args)}.npy")
            np.save(f, v)
            args += ["-i", f"{k}={f}"]
        code, text = call(args)
        why = bad(code, text)
        if why:
            return why
        if code != 0:
            return f"exit {code}: {text.strip()[-3000:]}"
        env = {"np": np, "bf16": lambda a: a.astype(ml_dtypes.bfloat16)}
        env.update({k: (v.astype(np.float64) if e.get("wide") else v) for k, v in ins.items()})
        dtypes = {o["name"]: o["dtype"] for o in e["outputs"]}
        for name, expr in e["expr"].items():
            if expr.startswith("npy:"):
                want = np.load(os.path.join(folder, expr[4:]))
                if dtypes[name] == "bfloat16":
                    want = want.view(ml_dtypes.bfloat16)
            else:
                want = np.asarray(eval(expr, env)).astype(DT[dtypes[name]])
            f = os.path.join(tmp, "out", name + ".npy")
            if not os.path.exists(f):
                return f"no output file {name}.npy"
            why = compare(np.load(f, allow_pickle=False), want, dtypes[name], tolerance(e.get("tolerance")))
            if why:
                return f"output {name}: {why}"
    return None


def one(tandem, extra, folder, e):
    path = os.path.join(folder, e["file"])
    v = e["verdict"]
    if v == "fault":
        code, text = call([tandem, "check", path], 30)
        why = bad(code, text)
        if why is None and code == 0:
            why = run_valid(tandem, extra, folder, dict(e, expr={}))
            if why is None:
                return f"not found: {e['expected']}"
            return None if re.search(r"exit 1: .*\b[A-Z]\d{4}\b", why, re.S) else why
        if why:
            return why
        return None if code == 1 and re.search(r"\b[A-Z]\d{4}\b", text) else f"exit {code}: {text.strip()[-200:]}"
    if v in ("valid", "accept") and "expr" in e:
        return run_valid(tandem, extra, folder, e)
    if v == "quirk":
        code, text = call([tandem, "check", path], 10)
        why = bad(code, text)
        if why or (code == 2 and re.search(r"\bP\d{4}\b", text)):
            return why
        return run_valid(tandem, extra, folder, e) if code == 0 and "expr" in e else f"exit {code}: {text.strip()[-200:]}"
    if v == "accept":
        code, text = call([tandem, "info", path], 10)
        return bad(code, text) or (None if code == 0 else f"exit {code}, wanted 0: {text.strip()[-200:]}")
    code, text = call([tandem, "check", path], 10, (3 << 29) if v == "malformed" else 8 << 30)
    why = bad(code, text)
    if why:
        return why
    want = {"illegal": (1, 2, 3), "malformed": (1, 2)}[v]
    if e.get("either"):
        want += (0,)
    if code not in want:
        return f"exit {code}, wanted one of {want}: {e['expected']}"
    if code != 0 and not re.search(r"\bP\d{4}\b" if code == 2 else r"\b[A-Z]\d{4}\b", text):
        return "no diagnostic code in the output"
    return None


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    ap = argparse.ArgumentParser()
    ap.add_argument("--tandem", required=True)
    ap.add_argument("--dir", default=os.path.join(here, "..", "testdata", "klr"))
    ap.add_argument("--only")
    ap.add_argument("--extra", default="")
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    entries = json.load(open(os.path.join(a.dir, "manifest.json")))["files"]
    passed, failed, rows = 0, 0, []
    for e in entries:
        if a.only and not re.search(a.only, e["name"]):
            continue
        try:
            why = one(a.tandem, shlex.split(a.extra), a.dir, e)
        except Exception as ex:  # a broken harness entry must be seen, not hidden
            why = f"harness: {type(ex).__name__}: {ex}"
        rows.append({"name": e["name"], "verdict": e["verdict"], "why": why})
        passed, failed = passed + (why is None), failed + (why is not None)
        if why and not a.json:
            print(f"FAIL {e['name']} ({e['verdict']}): {why}")
    if a.json:
        print(json.dumps(rows, indent=1))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
