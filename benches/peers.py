#!/usr/bin/env python3
"""Times of `tandem run` against numpy doing the same work, as ratios.

    python3 benches/peers.py --tandem target/release/tandem [--only WORD] [--rounds N] [--markdown]

Every figure of tandem is a whole process: start, reading the program, lowering, checking, running, writing. Where a row
is about one kind of instruction, two programs are timed that differ in the number of turns of a loop, and the difference
counts. Both sides of a row are timed alternately and the least of each counts, so that a busy machine slows both. numpy
computes in place (`out=`) on one thread; it needs no more than numpy.

A row holds when its ratio (tandem's time over numpy's, or what its name says) is at most the limit; the exit status is 1
when one does not.
"""

import argparse
import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

P = 128


# --- programs -----------------------------------------------------------------------------------------------------


class Core:
    """One core's module in textual BIR: on-chip tensors at fixed places, one block, perhaps a loop."""

    def __init__(self, core):
        self.core = core
        self.sets = []
        self.at = 0
        self.psum = 0

    def sbuf(self, name, cols, dtype="float32"):
        size = {"float32": 4, "bfloat16": 2, "uint8": 1, "int32": 4}[dtype] * cols
        self.sets.append(
            f"set @{name}_set = Internal NeuronSBTensor Local {dtype} [{P} x {cols}] "
            f"{{ loc @{name} = SB [{P}, {size}] addr {self.at} allocated }}"
        )
        self.at += (size + 63) // 64 * 64

    def psum_tile(self, name, cols, rows=P):
        self.sets.append(
            f"set @{name}_set = Internal NeuronPSUMTensor Local float32 [{rows} x {cols}] "
            f"{{ loc @{name} = PSUM [{rows}, {4 * cols}] addr {self.psum} allocated }}"
        )
        self.psum += 4 * cols

    def dram(self, kind, name, cols):
        self.sets.append(
            f"set @{name}_set = {kind} Tensor Shared float32 [{2 * P} x {cols}] {{ loc @{name} = DRAM [{2 * P}, {4 * cols}] }}"
        )

    def text(self, head, body, turns, tail=""):
        block = head
        if turns is not None:
            block += (
                f'l = Loop Unassigned {{LoopAxis = {{"name":"k","lb":0,"ub":{turns},"stride":1}}}} '
                f"regions {{\n block b1 {{\n{body}\n }}\n}}\n"
            )
        else:
            block += body + "\n"
        block += tail
        sets = "\n".join(self.sets)
        return (
            f"module @nc0{self.core} core {self.core} arch gen3 {{\n func @f {{\n{sets}\n block main {{\n{block} }}\n }}\n}}\n"
        )


def rows(name, cols, off=0, step=None, n=None):
    """The pattern of a tile: 128 partitions, `n` elements of distance `step`."""
    o = f"off {off}, " if off else ""
    return f"@{name}[{o}[{cols},{P}] [{step or 1},{n or cols}]]"


def swap_program(steps, looped):
    """`b = partner's a; a = a + b; a = a * 0.5` on both cores, [128 x 64] f32."""
    out = 'bir 1\nprogram "swap" lnc 2 level bir\ninput "x" = @x float32 [256 x 64]\noutput "out" = @out float32 [256 x 64]\n'
    t = "float32"

    def step(core, k):
        other = 1 - core
        a, b = f"{rows('a', 64)} {t}", f"{rows('b', 64)} {t}"
        return (
            f"s{k} = CollectiveCompute Unassigned {b} <- {a} {{kind = SendRecv, is_local = true, "
            f"recv_from_rank = [{other}], send_to_rank = {other}}}\n"
            f"a{k} = TensorTensor DVE {a} <- {a}, {b} {{op = add}}\n"
            f"m{k} = TensorScalar DVE {a} <- {a} {{op0 = mult, const0 = 0.5, op1 = bypass, const1 = 0.0}}\n"
        )

    for core in (0, 1):
        c = Core(core)
        c.dram("ExternalInput", "x", 64)
        c.dram("ExternalOutput", "out", 64)
        c.sbuf("a", 64)
        c.sbuf("b", 64)
        off = f"off {core * P * 64}, " if core else ""
        head = f"P = DMACopy Unassigned {rows('a', 64)} {t} <- @x[{off}[64,{P}] [1,64]] {t}\n"
        tail = f"C = DMACopy Unassigned @out[{off}[64,{P}] [1,64]] {t} <- {rows('a', 64)} {t}\n"
        if looped:
            out += c.text(head, step(core, 0), steps, tail)
        else:
            out += c.text(head, "".join(step(core, k) for k in range(steps)), None, tail)
    return out


def loop_program(setup, head, body, turns, cores=1, idle=False):
    """`body` in a loop of `turns` on `cores` cores; an idle second core has one small instruction."""
    n = 2 if idle else cores
    out = f'bir 1\nprogram "loop" lnc {n} level bir\ninput "in" = @in float32 [256 x 8192]\n'
    for core in range(n):
        c = Core(core)
        setup(c)
        if idle and core == 1:
            out += c.text("z = Memset DVE @z[[1,128] [1,1]] float32 {mode = Const, constant = 1}\n", "", None)
        else:
            out += c.text(head, body, turns)
    return out


# --- clocks -------------------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, args):
        self.tandem = args.tandem
        self.rounds = args.rounds
        self.cpu = args.clock == "cpu"
        self.only = args.only
        self.dir = Path(tempfile.mkdtemp(prefix="peers"))
        self.results = []
        self.made = {}

    def wanted(self, name):
        return not self.only or any(w in name for w in self.only)

    def inputs(self):
        """The input of every program but the swaps: [256 x 8192] normal values."""
        path = self.dir / "in.npy"
        if not path.exists():
            v = np.random.default_rng(2).standard_normal((2 * P, 2 * COLS)).astype(np.float32)
            np.save(path, v)
        return ("-i", f"in={path}")

    def file(self, name, text):
        path = self.dir / f"{name}.bir"
        if name not in self.made:
            path.write_text(text())
            self.made[name] = path
        return path

    def process(self, path, *extra, inputs=(), threads=None):
        """Seconds and peak memory (MiB) of one `tandem run`, on all host threads or as many as given."""
        env = dict(os.environ) if threads is None else {**os.environ, "RAYON_NUM_THREADS": str(threads)}
        argv = [self.tandem, "run", str(path), *map(str, inputs), "-q", "-o", str(self.dir / "out"), *extra]
        before = time.perf_counter()
        p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
        err = p.stderr.read()
        _, status, usage = os.wait4(p.pid, 0)
        took = time.perf_counter() - before
        if self.cpu:
            took = usage.ru_utime + usage.ru_stime
        if status != 0:
            sys.exit(f"{' '.join(argv)} ended with {status}:\n{err.decode()[:2000]}")
        return took, usage.ru_maxrss / 1024

    def least(self, *sides, rounds=None):
        """The least of each side, run in turn; of a `PerTurn` the least of both its processes."""
        best = [[float("inf")] * (2 if isinstance(f, PerTurn) else 1) for f in sides]
        for _ in range(rounds or self.rounds):
            for k, f in enumerate(sides):
                took = [f.few(), f.many()] if isinstance(f, PerTurn) else [f()]
                best[k] = [min(a, b) for a, b in zip(best[k], took)]
        return [(v[1] - v[0]) / f.turns if isinstance(f, PerTurn) else v[0] for f, v in zip(sides, best)]

    def row(self, group, name, ratio, limit, note="", at_least=False):
        holds = ratio >= limit if at_least else ratio <= limit
        self.results.append((group, name, ratio, limit, at_least, holds, note))
        sign = ">=" if at_least else "<="
        print(f"{'  ' if holds else 'X '}{group:<13} {name:<44} {ratio:7.2f}  {sign} {limit:<5} {note}", flush=True)


NOW = time.perf_counter


def clock(f, reps):
    before = NOW()
    for _ in range(reps):
        f()
    return (NOW() - before) / reps


# --- swap step ----------------------------------------------------------------------------------------------------


def swap_rows(b):
    x = np.random.default_rng(1).standard_normal((2 * P, 64)).astype(np.float32)
    np.save(b.dir / "x.npy", x)
    inputs = [b.dir / "x.npy"]
    a = [x[:P].copy(), x[P:].copy()]
    r = [np.empty_like(a[0]) for _ in a]
    half = np.float32(0.5)

    def step():
        np.copyto(r[0], a[1])
        np.copyto(r[1], a[0])
        for k in (0, 1):
            np.add(a[k], r[k], out=a[k])
            np.multiply(a[k], half, out=a[k])

    # The result is the same, bit for bit.
    b.process(b.file("swap7", lambda: swap_program(7, True)), inputs=inputs)
    a[0][:], a[1][:] = x[:P], x[P:]
    for _ in range(7):
        step()
    got = np.load(b.dir / "out" / "out.npy")
    assert np.array_equal(got, np.concatenate(a)), "the swap step computes something else than numpy"
    a[0][:], a[1][:] = x[:P], x[P:]

    n = 20_000
    loop = b.file("swap_loop", lambda: swap_program(n, True))
    un1 = b.file("swap_1000", lambda: swap_program(1000, False))
    un10 = b.file("swap_10000", lambda: swap_program(10_000, False))
    run = lambda f, *e: b.process(f, *e, inputs=inputs)[0]
    peer, t_loop, t_free = b.least(
        lambda: clock(step, n), lambda: run(loop) / n, lambda: run(loop, "--no-race-check", "--uninit", "off") / n
    )
    us = lambda s: f"{s * 1e6:.1f} us"
    b.row("swap", f"run-time loop of {n}", t_loop / peer, 3, f"{us(t_loop)} a step, numpy {us(peer)}")
    b.row("checks", "race and undefined checks on the swap loop", t_loop / t_free, 1.5, f"without {us(t_free)}")
    peer, t10, t1 = b.least(
        lambda: clock(step, 10_000), lambda: run(un10) / 10_000, lambda: run(un1) / 1000
    )
    b.row("swap", "unrolled 10,000 times", t10 / peer, 8, f"{us(t10)} a step, numpy {us(peer)}")
    b.row("swap", "10,000 steps against 1,000", 10 * t10 / t1, 11)
    short = b.file("swap_2000", lambda: swap_program(2000, True))
    m_short, m_long = b.process(short, inputs=inputs)[1], b.process(loop, inputs=inputs)[1]
    b.row("swap", "memory of 20,000 turns against 2,000", m_long / m_short, 1.05, f"{m_long:.0f} MiB")


# --- single instructions ------------------------------------------------------------------------------------------

COLS = 4096


def element_setup(dtype):
    def setup(c):
        c.sbuf("x", COLS, dtype)
        c.sbuf("y", COLS, dtype)
        c.sbuf("z", COLS, dtype)
        c.sbuf("m", COLS, "uint8")
        c.sbuf("s", 2)
        c.sbuf("f", COLS)
        c.dram("ExternalInput", "in", 2 * COLS)

    return setup


def element_head(dtype):
    t = "float32"
    r = lambda n, d=dtype: f"{rows(n, COLS)} {d}"
    # A transfer moves bits, a copy on an engine converts.
    load = lambda n, half: (
        f"l{n} = DMACopy SP {rows('f', COLS)} {t} <- @in[off {half * COLS}, [{2 * COLS},{P}] [1,{COLS}]] {t}\n"
        f"c{n} = TensorCopy DVE {r(n)} <- {rows('f', COLS)} {t}\n"
    )
    return (
        load("x", 0)
        + load("y", 1)
        + f"h2 = TensorCopy DVE {r('z')} <- {r('x')}\n"
        + f"h3 = Memset Pool {r('m', 'uint8')} {{mode = Const, constant = 1}}\n"
        + f"h4 = DMACopy SP @s[[2,{P}] [1,2]] {t} <- @in[[{2 * COLS},{P}] [1,2]] {t}\n"
    )


class PerTurn:
    """Seconds of one turn of a loop: two whole processes with few and many turns, the difference."""

    def __init__(self, few, many, turns):
        self.few, self.many, self.turns = few, many, turns


def per_turn(b, name, setup, head, body, few, many, cores=1, extra=()):
    extra = (*extra, *b.inputs())
    key = name.replace(" ", "_").replace("/", "_")
    one = b.file(key + "_few", lambda: loop_program(setup, head, body, few, cores))
    two = b.file(key + "_many", lambda: loop_program(setup, head, body, many, cores))
    return PerTurn(lambda: b.process(one, *extra)[0], lambda: b.process(two, *extra)[0], many - few)


def against(b, group, name, setup, head, body, peer, limit, reps=20, turns=400):
    if not b.wanted(f"{group} {name}"):
        return
    mine = per_turn(b, f"{group}_{name}", setup, head, body, 5, 5 + turns)
    t, p = b.least(mine, lambda: clock(peer, reps))
    b.row(group, name, t / p, limit, f"{t * 1e6:.0f} us, numpy {p * 1e6:.0f} us")


def element_rows(b):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((P, COLS)).astype(np.float32)
    y = rng.standard_normal((P, COLS)).astype(np.float32)
    z = np.empty_like(x)
    s = rng.standard_normal((P, 1)).astype(np.float32)
    mask = np.ones((P, COLS), dtype=bool)
    c0, c1 = np.float32(1.5), np.float32(0.25)

    def two(f, g):
        f()
        g()

    for dtype, limit in (("float32", 1.0), ("bfloat16", 2.0)):
        X, Y, Z, M = (f"{rows(n, COLS)} {d}" for n, d in (("x", dtype), ("y", dtype), ("z", dtype), ("m", "uint8")))
        s1 = f"@s[[2,{P}] [1,1]] float32"
        cases = [
            ("tensor_tensor add", f"i = TensorTensor DVE {Z} <- {X}, {Y} {{op = add}}", lambda: np.add(x, y, out=z)),
            ("tensor_tensor max", f"i = TensorTensor DVE {Z} <- {X}, {Y} {{op = max}}", lambda: np.maximum(x, y, out=z)),
            (
                "tensor_scalar mult",
                f"i = TensorScalar DVE {Z} <- {X} {{op0 = mult, const0 = 1.5, op1 = bypass, const1 = 0.0}}",
                lambda: np.multiply(x, c0, out=z),
            ),
            (
                "tensor_scalar mult add",
                f"i = TensorScalar DVE {Z} <- {X} {{op0 = mult, const0 = 1.5, op1 = add, const1 = 0.25}}",
                lambda: two(lambda: np.multiply(x, c0, out=z), lambda: np.add(z, c1, out=z)),
            ),
            (
                "tensor_scalar by partition",
                f"i = TensorScalarPtr DVE {Z} <- {X}, {s1} {{op0 = mult, op1 = bypass, reverse0 = false, reverse1 = false}}",
                lambda: np.multiply(x, s, out=z),
            ),
            ("copy", f"i = TensorCopy DVE {Z} <- {X}", lambda: np.copyto(z, x)),
            (
                "copy_predicated",
                f"i = CopyPredicated DVE {Z} <- {X}, {M}",
                lambda: np.copyto(z, x, where=mask),
            ),
            (
                "select",
                f"i = CopyPredicated DVE {Z} <- {M}, {X}, {Y}",
                lambda: np.copyto(z, np.where(mask, x, y)),
            ),
            (
                "affine_select",
                f"i = TensorScalarAffineSelect Pool {Z} <- {X} {{compare_op = is_ge, base = -100, "
                f"channel_multiplier = 1, pattern = [[1,{COLS}]], fill_value = 0.5}}",
                lambda: np.copyto(z, np.where(mask, x, c0)),
            ),
            (
                "reduce add",
                f"i = TensorReduce DVE @s[off 1, [2,{P}] [1,1]] float32 <- {X} {{op = add, axis = X}}",
                lambda: np.add.reduce(x, axis=1),
            ),
            (
                "reduce max",
                f"i = TensorReduce DVE @s[off 1, [2,{P}] [1,1]] float32 <- {X} {{op = max, axis = X}}",
                lambda: np.maximum.reduce(x, axis=1),
            ),
        ]
        for name, body, peer in cases:
            short = "f32" if dtype == "float32" else "bf16"
            against(b, short, name, element_setup(dtype), element_head(dtype), body, peer, limit)


def function_rows(b):
    # The values that the programs get.
    x = np.load(b.inputs()[1].split("=", 1)[1])[:P, :COLS].copy()
    z = np.empty_like(x)
    np.seterr(all="ignore")
    one, half = np.float32(1), np.float32(0.5)
    c, k = np.float32(0.7978845608), np.float32(0.044715)

    def sigmoid(out):
        np.negative(x, out=out)
        np.exp(out, out=out)
        np.add(out, one, out=out)
        np.divide(one, out, out=out)

    def silu():
        sigmoid(z)
        np.multiply(z, x, out=z)

    def gelu():
        np.multiply(x, x, out=z)
        np.multiply(z, k, out=z)
        np.add(z, one, out=z)
        np.multiply(z, x, out=z)
        np.multiply(z, c, out=z)
        np.tanh(z, out=z)
        np.add(z, one, out=z)
        np.multiply(z, x, out=z)
        np.multiply(z, half, out=z)

    def rsqrt():
        np.sqrt(x, out=z)
        np.divide(one, z, out=z)

    peers = {
        "Exp": lambda: np.exp(x, out=z),
        "Tanh": lambda: np.tanh(x, out=z),
        "Sigmoid": lambda: sigmoid(z),
        "Silu": silu,
        "Gelu_apprx_tanh": gelu,
        "Ln": lambda: np.log(x, out=z),
        "Sqrt": lambda: np.sqrt(x, out=z),
        "Rsqrt": rsqrt,
        "Sin": lambda: np.sin(x, out=z),
    }
    X, Z = f"{rows('x', COLS)} float32", f"{rows('z', COLS)} float32"
    for func, peer in peers.items():
        body = f"i = Activation Activation {Z} <- {X}, 0.0 float32 {{func = {func}, scale = 1.0, alpha = 0.0, acc = Idle, op0 = mult, op1 = add, reduce_op = add}}"
        against(b, "function", func, element_setup("float32"), element_head("float32"), body, peer, 2.0)


def matmul_rows(b):
    if not b.wanted("matmul"):
        return
    k, m, n = 128, 128, 512
    a = np.random.default_rng(3).standard_normal((k, m)).astype(np.float32)
    w = np.random.default_rng(4).standard_normal((k, n)).astype(np.float32)
    out = np.empty((m, n), dtype=np.float32)
    peer = lambda: np.matmul(a.T, w, out=out)
    turns, few = 2000, 5
    times = {}
    for dtype in ("float32", "bfloat16"):

        def setup(c, dtype=dtype):
            c.sbuf("w", m, dtype)
            c.sbuf("x", n, dtype)
            c.sbuf("f", n)
            c.psum_tile("p", n)
            c.dram("ExternalInput", "in", 2 * COLS)

        source = lambda n: f"@in[[{2 * COLS},{P}] [1,{n}]] float32"
        head = (
            f"ld = DMACopy SP {rows('f', n)} float32 <- {source(n)}\n"
            f"c0 = TensorCopy DVE {rows('w', m)} {dtype} <- @f[[{n},{P}] [1,{m}]] float32\n"
            f"c1 = TensorCopy DVE {rows('x', n)} {dtype} <- {rows('f', n)} float32\n"
        )
        # 1 + 2: starts and ends its group.
        body = (
            f"i = Matmult PE {rows('p', n)} float32 <- {rows('x', n)} {dtype}, {rows('w', m)} {dtype} "
            f"{{accumulation_flag = 3}}"
        )
        times[dtype] = per_turn(b, f"matmul_{dtype}", setup, head, body, few, few + turns)
    p, f32, bf16 = b.least(lambda: clock(peer, 50), times["float32"], times["bfloat16"])
    rate = lambda t: f"{2 * k * m * n / t / 1e9:.1f} GFLOP/s"
    b.row("matmul", "128 x 128 x 512 f32", f32 / p, 2, f"{rate(f32)}, OpenBLAS {rate(p)}")
    b.row("matmul", "bf16 against f32", bf16 / f32, 1.05, rate(bf16))


def view_rows(b):
    # All operands of every form fit into a second-level cache of 2 MiB: the ratios are of ways to read, not of caches.
    h = 512
    x = np.random.default_rng(5).standard_normal((P, 2 * h)).astype(np.float32)
    y = np.random.default_rng(6).standard_normal((P, 2 * h)).astype(np.float32)
    sq = np.empty((P, h), dtype=np.float32)
    xc, yc = np.ascontiguousarray(x[:, :h]), np.ascontiguousarray(y[:, :h])
    side = 32

    def tile(name, kind):
        if kind == "contiguous":
            return f"@{name}[[{COLS},{P}] [1,{h}]] float32"
        if kind == "strided":
            return f"@{name}[[{COLS},{P}] [2,{h}]] float32"
        return f"@{name}[[{COLS},{P}] [1,{side}] [{side},{h // side}]] float32"

    t = lambda v: v.reshape(P, h // side, side).transpose(0, 2, 1)
    peers = {
        "copy": {
            "contiguous": lambda: np.copyto(sq, xc),
            "strided": lambda: np.copyto(sq, x[:, ::2]),
            "transposed": lambda: np.copyto(sq.reshape(P, side, h // side), t(xc)),
        },
        "add": {
            "contiguous": lambda: np.add(xc, yc, out=sq),
            "strided": lambda: np.add(x[:, ::2], y[:, ::2], out=sq),
            "transposed": lambda: np.add(t(xc), t(yc), out=sq.reshape(P, side, h // side)),
        },
    }
    for op, kinds in peers.items():
        base = {}
        for kind, peer in kinds.items():
            if not b.wanted(f"views {op} {kind}"):
                continue
            src = ", ".join(tile(n, kind) for n in (("x",) if op == "copy" else ("x", "y")))
            dst = tile("z", "contiguous")
            body = (
                f"i = TensorCopy DVE {dst} <- {src}" if op == "copy" else f"i = TensorTensor DVE {dst} <- {src} {{op = add}}"
            )
            mine = per_turn(
                b, f"views_{op}_{kind}", element_setup("float32"), element_head("float32"), body, 5, 2005
            )
            t_mine, t_peer = b.least(mine, lambda: clock(peer, 100))
            base[kind] = (t_mine, t_peer)
        if "contiguous" not in base:
            continue
        c_mine, c_peer = base["contiguous"]
        for kind in ("strided", "transposed"):
            if kind in base:
                t_mine, t_peer = base[kind]
                # Within 2 x of contiguous where numpy is; elsewhere no slower than numpy on the same view.
                note = f"{t_mine * 1e6:.0f} us, numpy {t_peer * 1e6:.0f} us ({t_peer / c_peer:.1f} x its contiguous)"
                if t_peer <= 2.0 * c_peer:
                    b.row("views", f"{op}, {kind} against contiguous", t_mine / c_mine, 2.0, note)
                else:
                    b.row("views", f"{op}, {kind} against numpy", t_mine / t_peer, 1.0, note)


# --- two cores and the checks ---------------------------------------------------------------------------------------


def compute_parts():
    def setup(c):
        c.sbuf("x", 512)
        c.sbuf("y", 512)
        c.sbuf("w", 128)
        c.sbuf("z", 1)
        c.psum_tile("p", 512)
        c.dram("ExternalInput", "in", 2 * COLS)

    t = "float32"
    source = lambda n: f"@in[[{2 * COLS},{P}] [1,{n}]] {t}"
    head = "".join(f"h{n} = DMACopy SP {rows(n, k)} {t} <- {source(k)}\n" for n, k in (("w", 128), ("x", 512), ("y", 512)))
    body = (
        f"m = Matmult PE {rows('p', 512)} {t} <- {rows('x', 512)} {t}, {rows('w', 128)} {t} {{accumulation_flag = 3}}\n"
        f"e = Activation Activation {rows('y', 512)} {t} <- {rows('p', 512)} {t}, 0.0 {t} {{func = Tanh, scale = 0.01, "
        f"alpha = 0.0, acc = Idle, op0 = mult, op1 = add, reduce_op = add}}\n"
        f"a = TensorTensor DVE {rows('x', 512)} {t} <- {rows('x', 512)} {t}, {rows('y', 512)} {t} {{op = max}}\n"
    )
    return setup, head, body


def core_rows(b):
    setup, head, body = compute_parts()
    few, many = 5, 505

    def turn(name, cores, idle, extra=(), threads=None):
        extra = (*extra, *b.inputs())
        one = b.file(f"{name}_few", lambda: loop_program(setup, head, body, few, cores, idle))
        two = b.file(f"{name}_many", lambda: loop_program(setup, head, body, many, cores, idle))
        run = lambda f: b.process(f, *extra, threads=threads)[0]
        return PerTurn(lambda: run(one), lambda: run(two), many - few)

    off = ("--no-race-check", "--uninit", "off")
    one, idle, free, alone, both = b.least(
        turn("one", 1, False),
        turn("idle", 2, True),
        turn("one", 1, False, off),
        turn("both", 2, False, threads=1),
        turn("both", 2, False),
    )
    us = lambda t: f"{t * 1e6:.0f} us a turn"
    b.row("checks", "race and undefined checks, compute-bound", one / free, 1.1, f"{us(one)}, without {us(free)}")
    b.row("cores", "an idle second core against one core", idle / one, 1.05, us(idle))
    note = f"{us(both)}, one thread {us(alone)}"
    b.row("cores", "two busy cores: speed against one thread", alone / both, 1.6, note, at_least=True)


# --- front half -----------------------------------------------------------------------------------------------------


def front_rows(b):
    steps = 60_000
    path = b.file("front", lambda: swap_program(steps, False))
    insts = 2 * (3 * steps + 2)
    argv = [b.tandem, "check", str(path), "-q"]

    def check():
        before = time.perf_counter()
        p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(p.pid, 0)
        took = usage.ru_utime + usage.ru_stime if b.cpu else time.perf_counter() - before
        # A process counts the memory of the one it was started from: only the first, before the program is loaded here.
        check.rss = check.rss or usage.ru_maxrss / 1024
        if status != 0:
            sys.exit(f"{' '.join(argv)} ended with {status}")
        return took

    check.rss = None
    check()
    done = subprocess.run([b.tandem, "lower", str(path), "--emit", "bir", "--format", "json", "-q"], capture_output=True, check=True)
    program = json.loads(done.stdout)

    def dump():
        before = NOW()
        with open(b.dir / "front.json", "w") as f:
            json.dump(program, f)
        return NOW() - before

    mine, peer = b.least(check, dump, rounds=2)
    b.row("front", f"check of {insts} instructions against json.dump", mine / peer, 10, f"{mine:.2f} s, {check.rss:.0f} MiB")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tandem", required=True)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--only", action="append", default=[], metavar="WORD", help="rows whose name has WORD")
    ap.add_argument("--markdown", action="store_true", help="print a table at the end")
    ap.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu counts processor time on both sides, for a busy machine; rows about several threads need wall",
    )
    args = ap.parse_args()
    if args.clock == "cpu":
        global NOW
        NOW = time.process_time
    b = Bench(args)
    cpu = platform.processor() or "unknown"
    flags = ""
    try:
        info = Path("/proc/cpuinfo").read_text()
        cpu = next((l.split(":", 1)[1].strip() for l in info.splitlines() if l.startswith("model name")), cpu)
        flags = next((l for l in info.splitlines() if l.startswith("flags")), "")
    except OSError:
        pass
    width = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "baseline"
    print(f"{cpu}, {os.cpu_count()} threads, {width}; numpy {np.__version__}, one thread; least of {args.rounds}")
    print(f"{'  group':<15} {'row':<44} {'ratio':>7}  limit")
    for word, f in (
        ("swap checks", swap_rows),
        ("matmul", matmul_rows),
        ("f32 bf16", element_rows),
        ("function", function_rows),
        ("views", view_rows),
        ("cores checks", core_rows),
        ("front", front_rows),
    ):
        if f in (element_rows, function_rows, view_rows) or not b.only or any(w in o or o in w for w in word.split() for o in b.only):
            f(b)
    if args.markdown:
        print("\n| | row | ratio | limit | |\n|---|---|---|---|---|")
        for group, name, ratio, limit, at_least, holds, note in b.results:
            print(f"| {group} | {name} | {ratio:.2f} | {'≥' if at_least else '≤'} {limit} | {note} |")
    missed = [r for r in b.results if not r[5]]
    print(f"\n{len(b.results) - len(missed)} of {len(b.results)} hold")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
