#!/usr/bin/env python3
"""Makes the goldens of the simulator's instructions with numpy and ml_dtypes.

usage: python3 make_goldens.py            (writes <family>.json and <family>.bin beside itself)
       python3 make_goldens.py --check    (writes nothing; fails when a file is not what would be written)

A family is a list of cases; a case is one instruction with inputs, attributes and expected outputs. Arrays lie in the
.bin file, the .json file says where. Comparison modes: `bits` (bytes), `value` (bytes, any NaN equals any NaN), `tol`
(|got - want| <= atol + rtol * |want|, want in float64, NaN equals NaN, infinities equal).
Where ml_dtypes differs from the documented rule (fp8 saturates; NaN codes), the rule is applied here in closed form.
"""
import json, math, os, sys
from fractions import Fraction
import numpy as np
import ml_dtypes

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = "--check" in sys.argv[1:]
STALE = []
F32 = np.float32
ML = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float8e3": ml_dtypes.float8_e3m4,
      "float8e4": ml_dtypes.float8_e4m3, "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8e5": ml_dtypes.float8_e5m2}
INT = {"uint8": np.uint8, "int8": np.int8, "uint16": np.uint16, "int16": np.int16, "uint32": np.uint32, "int32": np.int32,
       "uint64": np.uint64, "int64": np.int64, "float8_e8m0fnu": np.uint8}
NAN_CODE = {"bfloat16": 0x7FC0, "float8e3": 0x78, "float8e4": 0x7C, "float8_e4m3fn": 0x7F, "float8e5": 0x7E}
FP8_MAX = {"float8e3": 0x6F, "float8e4": 0x77, "float8_e4m3fn": 0x7E, "float8e5": 0x7B}
ALL = list(ML) + list(INT) + ["float32", "float32r"]
np.seterr(all="ignore")


def bits_dtype(t):
    if t in ("float32", "float32r"):
        return np.uint32
    if t in INT:
        return np.dtype(INT[t])
    return np.uint16 if t in ("bfloat16", "float16") else np.uint8


def to_f32(t, raw):
    """Packed elements (as unsigned bit patterns) to float32, exactly."""
    if t in ("float32", "float32r"):
        return raw.view(F32)
    if t in INT:
        return raw.astype(INT[t]).astype(F32)
    return raw.view(ML[t]).astype(F32)


def from_f32(t, x):
    """float32 to packed elements by the documented rules; numpy and ml_dtypes do the rounding."""
    x = np.ascontiguousarray(x, dtype=F32)
    if t == "float32":
        return x.view(np.uint32).copy()
    if t == "float32r":
        b = x.view(np.uint32).astype(np.uint64)
        r = ((b + 0x7FF + ((b >> 12) & 1)) & ~np.uint64(0xFFF)).astype(np.uint32)
        return np.where(np.isfinite(x), r, x.view(np.uint32))
    if t in INT:
        dt = np.dtype(INT[t])
        info = np.iinfo(dt)
        neg = np.signbit(x)
        y = np.rint(x.astype(np.float64))
        out = np.empty(x.shape, dt)
        for i, v in np.ndenumerate(y):
            if math.isnan(v):
                out[i] = info.min if neg[i] else info.max
            elif math.isinf(v):
                out[i] = info.min if v < 0 else info.max
            else:
                out[i] = min(max(int(v), info.min), info.max)
        return out
    raw = x.astype(ML[t]).view(bits_dtype(t)).copy()
    sign = np.signbit(x)
    if t in FP8_MAX:
        top = FP8_MAX[t]
        big = np.isnan(to_f32(t, raw)) | np.isinf(to_f32(t, raw))
        raw = np.where(big & ~np.isnan(x), np.where(sign, top | 0x80, top), raw).astype(np.uint8)
    nan = np.isnan(x)
    if t == "float16":
        return np.where(nan, np.where(sign, 0xFE00, 0x7E00), raw).astype(np.uint16)
    return np.where(nan, NAN_CODE[t], raw).astype(raw.dtype)


class Family:
    def __init__(self, name):
        self.name, self.cases, self.blob, self.seen = name, [], bytearray(), {}

    def put(self, a):
        raw = np.ascontiguousarray(a).tobytes()
        if raw not in self.seen:
            self.seen[raw] = len(self.blob)
            self.blob += raw
        return {"at": self.seen[raw], "len": len(raw)}

    def tile(self, dtype, a, **kw):
        """An operand: raw bits, float32 values (for float32) or integers of the right width; shape is [P, free...]."""
        a = np.asarray(a)
        if dtype in ("float32", "float32r") and a.dtype != np.uint32:
            a = a.astype(F32)
        elif a.dtype == F32 and dtype not in ("float32", "float32r"):
            a = from_f32(dtype, a)
        return {"dtype": dtype, "shape": list(a.shape), "data": self.put(a), **kw}

    def out(self, dtype, want, mode="bits", rtol=0.0, atol=0.0, **kw):
        want = np.asarray(want)
        o = {"dtype": dtype, "shape": list(want.shape), "mode": mode, **kw}
        if mode == "tol":
            o["want"] = self.put(want.astype(np.float64))
            o["rtol"], o["atol"] = rtol, atol
        else:
            if dtype in ("float32", "float32r") and want.dtype != np.uint32:
                want = want.astype(F32)
            elif want.dtype == F32 and dtype not in ("float32", "float32r"):
                want = from_f32(dtype, want)
            o["want"] = self.put(want)
        return o

    def case(self, name, op, ins, outs, attrs=None, engine=None, **kw):
        self.cases.append({"name": name, "op": op, "ins": ins, "outs": outs, "attrs": attrs or {}, "engine": engine, **kw})

    def write(self):
        text = "[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases) + "\n]\n"
        for ext, new in ((".json", text.encode()), (".bin", bytes(self.blob))):
            path = os.path.join(HERE, self.name + ext)
            if CHECK:
                old = open(path, "rb").read() if os.path.exists(path) else b""
                if old != new:
                    STALE.append(self.name + ext)
            else:
                with open(path, "wb") as f:
                    f.write(new)
        print(f"{self.name}: {len(self.cases)} cases, {len(self.blob)} bytes")


def imm(v):
    return {"imm": v} if isinstance(v, int) else {"imm": float(v)}


SPECIAL = np.array([0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x00000001,
                    0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x40490FDB, 0xC0490FDB, 0x3F000000, 0xBF000000,
                    0x3FC00000, 0xBFC00000, 0x40200000, 0xC0200000, 0x4B000001, 0xCB800003, 0x477FE000, 0x477FF000, 0x477FEFFF,
                    0x33000000, 0x33000001, 0x33800000, 0x387FC000, 0x38800000, 0x43700000, 0x43780000, 0x43E00000, 0x43E80000,
                    0x47600000, 0x47700000, 0x3A800000, 0x3AC00000, 0x3B000000, 0x37000000, 0x37400000, 0x37800000, 0x4F000000,
                    0x4F800000, 0xCF000000, 0xCF000001, 0x5F000000, 0x5F800000, 0x42FE0000, 0x42FF0000, 0x437F0000, 0x437F8000,
                    0x46FFFE00, 0x46FFFF00, 0x477FFF00, 0x477FFF80, 0x3F808000, 0x3F818000, 0x3F801000, 0x3F803000, 0x00018000,
                    0x3E800000], dtype=np.uint32)


def casts():
    f = Family("casts")
    r = np.random.RandomState(1)
    for t in ["float8e3", "float8e4", "float8_e4m3fn", "float8e5"]:
        codes = np.arange(256, dtype=np.uint8).reshape(1, 256)
        f.case(f"decode all codes of {t}", "TensorCopy", [f.tile(t, codes)], [f.out("float32", to_f32(t, codes), "value")])
        # Dense samples: every code, the midpoints between neighbours, and one step to either side of both.
        vals = np.sort(to_f32(t, codes)[np.isfinite(to_f32(t, codes))])
        mid = (vals[1:].astype(np.float64) + vals[:-1]) / 2
        x = np.concatenate([vals, mid.astype(F32), vals * F32(1.0625), r.standard_normal(256).astype(F32) * 40])
        x = np.concatenate([x, np.nextafter(x, F32(np.inf)), np.nextafter(x, F32(-np.inf))])
        x = np.concatenate([x, SPECIAL.view(F32)]).reshape(1, -1)
        f.case(f"encode dense samples to {t}", "TensorCopy", [f.tile("float32", x)], [f.out(t, from_f32(t, x))])
    for a in ALL:
        if a in ("float32", "float32r"):
            raw = np.concatenate([SPECIAL, r.randint(0, 2**32, 64, dtype=np.uint64).astype(np.uint32)])
        elif a in INT:
            info = np.iinfo(INT[a])
            edge = [0, 1, 2, 3, 5, 127, 128, 255, info.max, info.max - 1, info.min, info.min + 1, -1, -128, -129, 16777217, 33554435,
                    65519, 65520, 448, 449, 464, 240, 248, 2**31 - 1, 2**31, 2**63 - 1, 2**53 + 1, 2**40 + 2**16 + 1]
            raw = np.array([v for v in edge if info.min <= v <= info.max], dtype=INT[a])
        else:
            n = 256 if bits_dtype(a) == np.uint8 else 0
            raw = np.arange(256, dtype=np.uint8) if n else np.concatenate(
                [from_f32(a, SPECIAL.view(F32)), r.randint(0, 65536, 64).astype(np.uint16)])
        raw = raw.reshape(1, -1)
        for b in ALL:
            want = raw if a == b else from_f32(b, to_f32(a, raw))
            mode = "bits" if a == b or b not in ("float32", "float32r") else "value"
            f.case(f"cast {a} to {b}", "TensorCopy", [f.tile(a, raw)], [f.out(b, want, mode)])
    # Packed containers: four lanes, lowest byte or nibble first.
    x = np.concatenate([SPECIAL.view(F32), r.standard_normal(64).astype(F32) * 3]).reshape(1, -1)
    for t, base in (("float8_e4m3fn_x4", "float8_e4m3fn"), ("float8_e5m2_x4", "float8e5")):
        packed = from_f32(base, x).view(np.uint32)
        f.case(f"pack {t}", "TensorCopy", [f.tile("float32", x)], [f.out(t, packed)])
        f.case(f"unpack {t}", "TensorCopy", [f.tile(t, packed)], [f.out("float32", to_f32(base, packed.view(np.uint8)), "value")])
        f.case(f"copy {t}", "TensorCopy", [f.tile(t, packed)], [f.out(t, packed)])
    y = np.nan_to_num(x, nan=0.0, posinf=6.0, neginf=-6.0)
    y = np.clip(y, -6, 6).astype(F32)
    code = y.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).astype(np.uint16).reshape(-1, 4)
    packed = (code[:, 0] | code[:, 1] << 4 | code[:, 2] << 8 | code[:, 3] << 12).reshape(1, -1)
    f.case("pack float4_e2m1fn_x4", "TensorCopy", [f.tile("float32", y)], [f.out("float4_e2m1fn_x4", packed.astype(np.uint16))])
    nib = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(F32)
    words = np.array([[0x3210, 0x7654, 0xBA98, 0xFEDC]], dtype=np.uint16)
    f.case("unpack float4_e2m1fn_x4", "TensorCopy", [f.tile("float4_e2m1fn_x4", words)], [f.out("float32", nib.reshape(1, 16))])
    f.write()


def alu_f32(op, a, b):
    one = lambda c: c.astype(F32)
    return {"bypass": lambda: a, "add": lambda: a + b, "subtract": lambda: a - b, "mult": lambda: a * b, "divide": lambda: a / b,
            "max": lambda: np.where(a > b, a, b), "min": lambda: np.where(a < b, a, b),
            "logical_and": lambda: one((a != 0) & (b != 0)), "logical_or": lambda: one((a != 0) | (b != 0)),
            "logical_xor": lambda: one((a != 0) ^ (b != 0)), "is_equal": lambda: one(a == b), "not_equal": lambda: one(a != b),
            "is_gt": lambda: one(a > b), "is_ge": lambda: one(a >= b), "is_lt": lambda: one(a < b), "is_le": lambda: one(a <= b),
            "abs": lambda: np.abs(a), "abs_max": lambda: np.where(np.abs(a) > np.abs(b), np.abs(a), np.abs(b)),
            "abs_min": lambda: np.where(np.abs(a) < np.abs(b), np.abs(a), np.abs(b))}[op]()


FLOAT_OPS = ["bypass", "add", "subtract", "mult", "divide", "max", "min", "logical_and", "logical_or", "logical_xor", "is_equal",
             "not_equal", "is_gt", "is_ge", "is_lt", "is_le", "abs", "abs_max", "abs_min"]


def alu():
    f = Family("alu")
    r = np.random.RandomState(2)
    vals = np.concatenate([SPECIAL[:18].view(F32), r.standard_normal(8).astype(F32)])
    a, b = np.meshgrid(vals, vals)
    ta, tb = f.tile("float32", a), f.tile("float32", b)
    for op in FLOAT_OPS:
        f.case(f"tensor_tensor {op}", "TensorTensor", [ta, tb], [f.out("float32", alu_f32(op, a, b), "value")], {"op": op})
    pos = np.abs(r.standard_normal((8, 32))).astype(F32) + F32(0.1)
    e = (r.standard_normal((8, 32)) * 4).astype(F32)
    f.case("tensor_tensor pow", "TensorTensor", [f.tile("float32", pos), f.tile("float32", e)],
           [f.out("float32", pos.astype(np.float64) ** e.astype(np.float64), "tol", rtol=2**-23)], {"op": "pow"}, engine="Pool")
    f.case("tensor_tensor rsqrt", "TensorTensor", [f.tile("float32", pos), f.tile("float32", e)],
           [f.out("float32", 1 / np.sqrt(pos.astype(np.float64)), "tol", rtol=2**-23)], {"op": "rsqrt"}, engine="Pool")
    # The engine field changes the result of 32-bit integers.
    x = r.randint(-2**31, 2**31, (8, 16), dtype=np.int64).astype(np.int32)
    y = r.randint(-2**31, 2**31, (8, 16), dtype=np.int64).astype(np.int32)
    for op, fn in (("add", np.add), ("subtract", np.subtract), ("mult", np.multiply)):
        f.case(f"int32 {op} wraps on Pool", "TensorTensor", [f.tile("int32", x), f.tile("int32", y)],
               [f.out("int32", fn(x, y))], {"op": op}, engine="Pool")
        f.case(f"int32 {op} goes through fp32 on DVE", "TensorTensor", [f.tile("int32", x), f.tile("int32", y)],
               [f.out("int32", from_f32("int32", fn(x.astype(F32), y.astype(F32))))], {"op": op}, engine="DVE")
    for dt in ("uint8", "int8", "uint16", "int16", "uint32", "int32"):
        t = np.dtype(INT[dt])
        info = np.iinfo(t)
        u = np.dtype(f"uint{8 * t.itemsize}")
        s = np.dtype(f"int{8 * t.itemsize}")
        x = r.randint(info.min, int(info.max) + 1, (4, 24), dtype=np.int64).astype(t)
        y = r.randint(info.min, int(info.max) + 1, (4, 24), dtype=np.int64).astype(t)
        n = (np.arange(96).reshape(4, 24) % (8 * t.itemsize)).astype(t)
        for op, w in (("bitwise_and", x & y), ("bitwise_or", x | y), ("bitwise_xor", x ^ y)):
            f.case(f"{dt} {op}", "TensorTensor", [f.tile(dt, x), f.tile(dt, y)], [f.out(dt, w)], {"op": op})
        xu = x.view(u)
        f.case(f"{dt} bitwise_not", "TensorTensor", [f.tile(dt, x), f.tile(dt, y)], [f.out(dt, ~x)], {"op": "bitwise_not"})
        nu = n.astype(u)
        for op, w in (("logical_shift_left", xu << nu), ("arith_shift_left", xu << nu), ("logical_shift_right", xu >> nu),
                      ("arith_shift_right", (x.view(s) >> n.astype(s)).view(u))):
            f.case(f"{dt} {op}", "TensorTensor", [f.tile(dt, x), f.tile(dt, n)], [f.out(dt, w.view(t))], {"op": op})
        f.case(f"{dt} two bit operations", "TensorScalarPtr", [f.tile(dt, x), imm(3), imm(1)],
               [f.out(dt, ((xu << 3) | 1).view(t))],
               {"op0": "logical_shift_left", "op1": "bitwise_or", "reverse0": False, "reverse1": False})
    z = SPECIAL.view(F32).reshape(2, 32)
    f.case("reciprocal is IEEE", "Reciprocal", [f.tile("float32", z)], [f.out("float32", F32(1) / z, "value")])
    f.write()


def scalar():
    f = Family("scalar")
    r = np.random.RandomState(3)
    P, N = 16, 40
    x = r.standard_normal((P, N)).astype(F32)
    s = r.standard_normal((P, 1)).astype(F32)
    t = r.standard_normal((P, N)).astype(F32)
    X, S, T = f.tile("float32", x), f.tile("float32", s), f.tile("float32", t)
    base = {"reverse0": False, "reverse1": False}
    for op0 in ("add", "subtract", "mult", "max", "divide", "is_gt"):
        for rev in (False, True):
            w = alu_f32(op0, s + 0 * x, x) if rev else alu_f32(op0, x, s + 0 * x)
            f.case(f"tensor_scalar {op0} tile reversed={rev}", "TensorScalarPtr", [X, S], [f.out("float32", w)],
                   {"op0": op0, "op1": "bypass", "reverse0": rev, "reverse1": False})
    w = F32(0.5) - (F32(3) - x)
    f.case("both stages reversed", "TensorScalarPtr", [X, imm(3.0), imm(0.5)], [f.out("float32", w)],
           {"op0": "subtract", "op1": "subtract", "reverse0": True, "reverse1": True})
    f.case("TensorScalar with constants", "TensorScalar", [X], [f.out("float32", (x * F32(2)) + F32(1))],
           {"op0": "mult", "const0": 2.0, "reverse0": False, "op1": "add", "const1": 1.0, "reverse1": False})
    f.case("narrow output rounds once", "TensorScalarPtr", [X, S], [f.out("bfloat16", from_f32("bfloat16", x * s))],
           {"op0": "mult", "op1": "bypass", **base})
    f.case("scalar_tensor_tensor", "TensorScalarPtr", [X, S, T], [f.out("float32", x * s + t)],
           {"op0": "mult", "op1": "add", "is_scalar_tensor_tensor": True, **base})
    f.case("scalar_tensor_tensor reversed second", "TensorScalarPtr", [X, S, T], [f.out("float32", t - x * s)],
           {"op0": "mult", "op1": "subtract", "is_scalar_tensor_tensor": True, "reverse0": False, "reverse1": True})
    # scan: r = op1(op0(x, r), t)
    for op0, op1 in (("mult", "add"), ("add", "bypass"), ("max", "min")):
        c = s[:, 0].copy()
        w = np.empty_like(x)
        for i in range(N):
            c = alu_f32(op1, alu_f32(op0, x[:, i], c), t[:, i])
            w[:, i] = c
        f.case(f"scan {op0} {op1}", "TensorScalarPtr", [X, S, T], [f.out("float32", w)],
               {"op0": op0, "op1": op1, "is_tensor_tensor_scan": True, "is_scalar_tensor_tensor": True, **base})
    # tensor_scalar_reduce: both the elements and their fold are written.
    y = x * s
    for op in ("add", "max", "min", "mult"):
        ufn = {"add": np.add, "max": np.maximum, "min": np.minimum, "mult": np.multiply}[op]
        red = ufn.accumulate(y, axis=1)[:, -1:]
        f.case(f"tensor_scalar_reduce {op}", "TensorScalarPtr", [X, S], [f.out("float32", y), f.out("float32", red)],
               {"op0": "mult", "op1": op, "acc": "ZeroAccumulate", **base})
    f.case("tensor_scalar_reduce negates its second output", "TensorScalarPtr", [X, S],
           [f.out("float32", y), f.out("float32", -np.add.accumulate(y, axis=1)[:, -1:])],
           {"op0": "mult", "op1": "add", "acc": "ZeroAccumulate", "negate_second_output": True, **base})
    for op, ufn, ident in (("add", np.add, 0), ("mult", np.multiply, 1), ("max", np.maximum, 0), ("min", np.minimum, 0)):
        f.case(f"cumulative {op}", "TensorScalarCache", [X, imm(2.0)], [f.out("float32", ufn.accumulate(x + F32(2), axis=1))],
               {"op0": "add", "op1": op, "mode": "Cumulative", "acc": "ZeroAccumulate", **base})
    f.case("cumulative from a loaded value", "TensorScalarCache", [X, imm(0.0), S],
           [f.out("float32", np.add.accumulate(np.concatenate([s, x], 1), axis=1)[:, 1:])],
           {"op0": "add", "op1": "add", "mode": "Cumulative", "acc": "LoadAccumulate", **base})
    f.write()


def reduce():
    f = Family("reduce")
    r = np.random.RandomState(4)
    x = r.standard_normal((17, 3, 4, 5, 6)).astype(F32)
    X = f.tile("float32", x)
    fold = {"add": np.add, "mult": np.multiply, "max": np.maximum, "min": np.minimum, "subtract": np.subtract}
    for axis, k in (("X", 1), ("XY", 2), ("XYZ", 3), ("XYZW", 4)):
        for op, u in fold.items():
            flat = x.reshape(x.shape[:5 - k] + (-1,))
            w = u.accumulate(flat, axis=-1)[..., -1]
            w = w.reshape(17, -1)
            f.case(f"{op} over {axis}", "TensorReduce", [X], [f.out("float32", w)], {"op": op, "axis": axis, "negate": False})
    flat = x.reshape(17, -1)
    f.case("negated", "TensorReduce", [X], [f.out("float32", -np.add.accumulate(flat, axis=1)[:, -1:])],
           {"op": "add", "axis": "XYZW", "negate": True})
    for op in ("add", "max", "min", "mult"):
        f.case(f"{op} over partitions", "TensorReduce", [X], [f.out("float32", fold[op].accumulate(flat, axis=0)[-1:])],
               {"op": op, "axis": "C"}, engine="Pool")
    scaled = (flat * (F32(1) / F32(flat.shape[1]))).astype(F32)
    f.case("average", "TensorReduce", [f.tile("float32", flat)], [f.out("float32", np.add.accumulate(scaled, axis=1)[:, -1:])],
           {"op": "average", "axis": "X"})
    b = from_f32("bfloat16", flat)
    f.case("bf16 in and out", "TensorReduce", [f.tile("bfloat16", b)],
           [f.out("bfloat16", from_f32("bfloat16", np.add.accumulate(to_f32("bfloat16", b), axis=1)[:, -1:]))],
           {"op": "add", "axis": "X"})
    i = r.randint(0, 2**16, (5, 40)).astype(np.int32)
    for op, u in (("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)):
        f.case(f"{op} of integers", "TensorReduce", [f.tile("int32", i)], [f.out("int32", u.reduce(i, axis=1).reshape(5, 1))],
               {"op": op, "axis": "X"})
    for q in ((20, 7), (64, 32)):
        y = r.standard_normal(q).astype(F32)
        t = y.T if q[0] == 20 else y.reshape(2, 32, 32).transpose(0, 2, 1).reshape(64, 32)
        f.case(f"block transpose first {q}", "TensorReduce", [f.tile("float32", y)],
               [f.out("float32", np.add.accumulate(t, axis=1)[:, -1:])], {"op": "add", "axis": "X", "apply_transpose": True})
    p = r.standard_normal((6, 5, 2, 3)).astype(F32)
    f.case("pool max", "Pool", [f.tile("float32", p)], [f.out("float32", p.max(axis=(2, 3)))], {"func": "Max"})
    s = np.add.accumulate(p.reshape(6, 5, 6), axis=2)[..., -1]
    f.case("pool average", "Pool", [f.tile("float32", p)], [f.out("float32", (s.astype(np.float64) * (1.0 / 6)).astype(F32))],
           {"func": "Avg"})
    f.write()


def activation():
    f = Family("activation")
    r = np.random.RandomState(5)
    x = (r.standard_normal((8, 24)) * 3).astype(F32)
    scale = (r.rand(8, 1) + 0.5).astype(F32)
    bias = r.standard_normal((8, 1)).astype(F32)
    pre = (x * scale + bias).astype(F32)
    d = pre.astype(np.float64)
    erf = np.vectorize(math.erf)
    sg = lambda v: 1 / (1 + np.exp(-v))
    sp = lambda v: np.log1p(np.exp(-np.abs(v))) + np.maximum(v, 0)
    dsw = lambda u: sg(u) * (1 + u * (1 - sg(u)))
    fns = {
        "Identity": d, "Copy": d, "Square": d * d, "Relu": np.maximum(d, 0), "Lrelu": np.where(d > 0, d, 0.01 * d),
        "Prelu": np.where(d > 0, d, 0.25 * d), "Sigmoid": sg(d), "Tanh": np.tanh(d), "Exp": np.exp(d), "Softplus": sp(d),
        "Erf": erf(d), "Sin": np.sin(d), "Arctan": np.arctan(d), "Sign": np.sign(d), "Gelu": 0.5 * d * (erf(d / math.sqrt(2)) + 1),
        "Mish": d * np.tanh(sp(d)), "Gelu_apprx_tanh": 0.5 * d * (np.tanh(0.7978845608028654 * (d + 0.044715 * d**3)) + 1),
        "Gelu_apprx_sigmoid": d * sg(1.702 * d), "Derivative_Gelu_apprx_sigmoid": dsw(1.702 * d),
        "Derivative_Gelu": 0.5 * (erf(d / math.sqrt(2)) + 1) + d * np.exp(-d * d / 2) / math.sqrt(2 * math.pi),
        "Derivative_Erf": 2 / math.sqrt(math.pi) * np.exp(-d * d), "Abs": np.abs(d), "Reciprocal": 1 / d,
        "Abs_reciprocal_sqrt": 1 / np.sqrt(np.abs(d)), "Silu": d * sg(d), "Derivative_silu": dsw(d), "Is_finite": np.ones_like(d)}
    X, SC, B = f.tile("float32", x), f.tile("float32", scale), f.tile("float32", bias)
    attrs = lambda fn, **kw: {"func": fn, "scale": 1.0, "alpha": 0.25, "acc": "Idle", "op0": "bypass", "op1": "bypass",
                              "reduce_op": "add", **kw}
    for fn, w in fns.items():
        # One fp32 step, plus what the reference itself loses where its terms cancel.
        f.case(fn, "Activation", [X, B, SC], [f.out("float32", w, "tol", rtol=2**-23, atol=2e-15)], attrs(fn))
    pos = np.abs(x) + F32(0.01)
    for fn, w in (("Sqrt", np.sqrt(pos)), ):
        f.case(fn, "Activation", [f.tile("float32", pos)], [f.out("float32", w)], attrs(fn))
    for fn, w in (("Rsqrt", 1 / np.sqrt(pos.astype(np.float64))), ("Ln", np.log(pos.astype(np.float64)))):
        f.case(fn, "Activation", [f.tile("float32", pos)], [f.out("float32", w, "tol", rtol=2**-23)], attrs(fn))
    e = np.exp(d)
    f.case("accumulates what it writes", "Activation", [X, B, SC],
           [f.out("float32", e, "tol", rtol=2**-23), f.out("float32", e.sum(1, keepdims=True), "tol", rtol=24 * 2**-24 * 2)],
           attrs("Exp", acc="ZeroAccumulate"), engine="Activation")
    m = x.max(1, keepdims=True)
    w = np.exp((x - m).astype(np.float64))
    f.case("exponential", "Exponential", [X, f.tile("float32", m)], [f.out("float32", w, "tol", rtol=2**-23)], {"reduce_cmd": "Idle"})
    two = np.tanh((F32(1.5) - x * F32(2)).astype(np.float64))
    f.case("activate2 with a reversed stage", "Activation", [X, imm(2.0), imm(1.5), imm(0.0)],
           [f.out("float32", two, "tol", rtol=2**-23)],
           attrs("Tanh", is_activate2=True, op0="mult", op1="subtract", reverse1=True))
    f.case("infinities and NaN", "Activation", [f.tile("float32", np.array([[np.inf, -np.inf, np.nan, 0.0, -0.0]], F32))],
           [f.out("float32", np.array([[np.inf, 0.0, np.nan, 1.0, 1.0]], F32), "value")], attrs("Exp"))
    f.case("finite flags", "Activation", [f.tile("float32", np.array([[np.inf, -np.inf, np.nan, 0.0, 1e38]], F32))],
           [f.out("float32", np.array([[0, 0, 0, 1, 1]], F32))], attrs("Is_finite"))
    f.write()


def round_f32(q):
    """A rational rounded to float32, ties to even (normal range)."""
    if q == 0:
        return F32(0)
    s, q = (-1, -q) if q < 0 else (1, q)
    e = math.floor(math.log2(q))
    while Fraction(2) ** e > q:
        e -= 1
    while Fraction(2) ** (e + 1) <= q:
        e += 1
    m = q / Fraction(2) ** (e - 23)
    n = m.numerator // m.denominator
    rest = m - n
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n % 2):
        n += 1
    return F32(s * math.ldexp(n, e - 23))


def matmul():
    f = Family("matmul")
    r = np.random.RandomState(6)
    # Exact order: acc = fma(a, b, acc), k ascending, by rational arithmetic.
    K, M, N = 12, 5, 19
    a, b = r.standard_normal((K, M)).astype(F32), r.standard_normal((K, N)).astype(F32)
    w = np.zeros((M, N), F32)
    for m in range(M):
        for n in range(N):
            acc = F32(0)
            for k in range(K):
                acc = round_f32(Fraction(float(a[k, m])) * Fraction(float(b[k, n])) + Fraction(float(acc)))
            w[m, n] = acc
    auto = {}
    f.case("fused multiply-add in k order", "Matmult", [f.tile("float32", b), f.tile("float32", a)], [f.out("float32", w, psum=True)], auto)
    K, M, N = 128, 20, 36
    a, b = r.standard_normal((K, M)).astype(F32), r.standard_normal((K, N)).astype(F32)
    bound = K * 2.0**-24 * float((np.abs(a).T @ np.abs(b)).max())
    f.case("fp32 within the bound", "Matmult", [f.tile("float32", b), f.tile("float32", a)],
           [f.out("float32", a.T.astype(np.float64) @ b.astype(np.float64), "tol", atol=bound, psum=True)])
    for t in ("bfloat16", "float16", "float8e4", "float8e5", "float8e3", "float8_e4m3fn"):
        ai, bi = r.randint(-4, 5, (64, 20)).astype(F32), r.randint(-4, 5, (64, 24)).astype(F32)
        f.case(f"small integers are exact in {t}", "Matmult", [f.tile(t, from_f32(t, bi)), f.tile(t, from_f32(t, ai))],
               [f.out("float32", ai.T @ bi, psum=True)])
    au, bu = r.randint(0, 256, (16, 8)).astype(np.uint8), r.randint(0, 256, (16, 12)).astype(np.uint8)
    w = (au.astype(F32) - 7).T @ (bu.astype(F32) - 3)
    f.case("uint8 with zero points", "Matmult", [f.tile("uint8", bu), f.tile("uint8", au)], [f.out("float32", w, psum=True)],
           {"ifmap_quant_offset": 3, "weights_quant_offset": 7})
    # DoubleRow: K split over (partition, first free dimension of 2).
    a2, b2 = r.randint(-4, 5, (32, 2, 16)).astype(F32), r.randint(-4, 5, (32, 2, 24)).astype(F32)
    w = np.einsum("kjm,kjn->mn", a2, b2)
    f.case("double row", "Matmult", [f.tile("float8e4", from_f32("float8e4", b2)), f.tile("float8e4", from_f32("float8e4", a2))],
           [f.out("float32", w, psum=True)], {"perf_mode": "DoubleRow"})
    ai = np.ascontiguousarray(a2.transpose(0, 2, 1))
    f.case("double row with interleaved weights", "Matmult",
           [f.tile("float8e4", from_f32("float8e4", b2)), f.tile("float8e4", from_f32("float8e4", ai))],
           [f.out("float32", w, psum=True)], {"perf_mode": "DoubleRowSwInterleave"})
    # PE transpose is a movement of bits.
    raw = r.randint(0, 2**32, (48, 32), dtype=np.uint64).astype(np.uint32)
    raw[0, :8] = SPECIAL[:8]
    eye = np.eye(48, dtype=F32)
    f.case("transpose of the stationary operand", "Matmult", [f.tile("float32", eye), f.tile("float32", raw)],
           [f.out("float32", raw.T, psum=True)], {"is_transpose": True})
    f.case("transpose of the moving operand", "Matmult", [f.tile("float32", raw), f.tile("float32", np.eye(32, dtype=F32))],
           [f.out("float32", raw.T, psum=True)], {"is_transpose": True})
    b16 = r.randint(0, 65536, (32, 32)).astype(np.uint16)
    f.case("transpose of bf16 bits", "Matmult", [f.tile("bfloat16", from_f32("bfloat16", np.eye(32, dtype=F32))), f.tile("bfloat16", b16)],
           [f.out("bfloat16", b16.T, psum=True)], {"is_transpose": True})
    b8 = r.randint(0, 256, (32, 16)).astype(np.uint8)
    one = from_f32("float8e4", np.eye(32, dtype=F32))
    f.case("transpose of 8-bit data gives 16-bit lanes", "Matmult", [f.tile("float8e4", one), f.tile("float8e4", b8)],
           [f.out("uint16", b8.T.astype(np.uint16), psum=True)], {"is_transpose": True})
    # MX
    P, F = 32, 8
    x = (r.standard_normal((P, 4 * F)) * np.exp2(r.randint(-6, 6, (P, 1)))).astype(F32)
    x[8:16] = 0
    xb = from_f32("bfloat16", x)
    xv = to_f32("bfloat16", xb)
    for prof, dt, emax in (("hw", "float8_e4m3fn_x4", 8), ("hw", "float8_e5m2_x4", 15), ("birsim", "float8_e4m3fn_x4", 8)):
        base = {"float8_e4m3fn_x4": "float8_e4m3fn", "float8_e5m2_x4": "float8e5"}[dt]
        blk = xv.reshape(P // 8, 8, F, 4)
        expo = (np.abs(blk).max(axis=(1, 3)).view(np.uint32) >> 23).astype(np.int64)
        s = np.clip(expo - (emax - 1), 0, 254) if prof == "hw" else np.maximum(1, np.maximum(0, expo - emax))
        q = (blk.astype(np.float64) * np.exp2(127.0 - s)[:, None, :, None]).astype(F32)
        q8 = from_f32(base, q.reshape(P, 4 * F))
        if prof == "birsim":
            tiny = np.abs(q.reshape(P, 4 * F)) < (2.0**-9 if base == "float8_e4m3fn" else 2.0**-16)
            q8 = np.where(tiny, q8 & 0x80, q8).astype(np.uint8)
        f.case(f"quantize to {dt} ({prof})", "QuantizeMx", [f.tile("bfloat16", xb)],
               [f.out(dt, q8.view(np.uint32)), f.out("uint8", s.astype(np.uint8))], profile=prof, arch="trn3")
        if prof == "hw":
            deq = (to_f32(base, q8).reshape(P // 8, 8, F, 4) * np.exp2(s - 127.0)[:, None, :, None]).reshape(P, F, 4)
            w = np.einsum("kmj,knj->mn", deq.astype(np.float64), deq.astype(np.float64))
            f.case(f"matmul of {dt}", "MatmultMx",
                   [f.tile(dt, q8.view(np.uint32)), f.tile(dt, q8.view(np.uint32)), f.tile("uint8", s.astype(np.uint8)),
                    f.tile("uint8", s.astype(np.uint8))], [f.out("float32", w, "tol", rtol=1e-5, atol=1e-4, psum=True)], arch="trn3")
    f.write()


def select():
    f = Family("select")
    r = np.random.RandomState(7)
    P, N = 32, 24
    x = r.standard_normal((P, N)).astype(F32)
    X = f.tile("float32", x)
    p, i = np.arange(P)[:, None], np.arange(N)[None, :]
    for cmp, fn in (("is_gt", np.greater), ("is_ge", np.greater_equal), ("is_equal", np.equal), ("not_equal", np.not_equal),
                    ("is_lt", np.less), ("is_le", np.less_equal)):
        v = -3 + 2 * p - i
        f.case(f"affine_select {cmp}", "TensorScalarAffineSelect", [X], [f.out("float32", np.where(fn(v, 0), x, F32(-1.5)))],
               {"base": -3, "channel_multiplier": 2, "pattern": [[-1, N]], "compare_op": cmp, "fill_value": -1.5}, engine="Pool")
    for dt in ("int32", "float32", "bfloat16", "float16", "int16"):
        v = (5 + 100 * np.arange(16)[:, None, None] + 7 * np.arange(4)[None, :, None] - 3 * np.arange(6)[None, None, :]).astype(np.int32)
        w = v if dt == "int32" else from_f32(dt, v.astype(F32))
        f.case(f"iota {dt}", "Iota", [], [f.out(dt, w)], {"base": 5, "channel_multiplier": 100, "pattern": [[7, 4], [-3, 6]]}, engine="Pool")
    big = (2**31 - 2 + np.arange(8, dtype=np.int64)).astype(np.uint32).view(np.int32).reshape(1, 8)
    f.case("iota keeps 32 bits and wraps", "Iota", [], [f.out("int32", big)], {"base": 2**31 - 2, "channel_multiplier": 0, "pattern": [[1, 8]]})
    b0, b1 = r.randint(0, 12, (P, 1)).astype(F32), r.randint(8, 24, (P, 1)).astype(F32)
    fill = F32(-3.4028235e38)
    keep = ((F32(2) + i) >= b0) & ((F32(2) + i) < b1)
    y = np.where(keep, x, fill)
    f.case("range_select", "RangeSelect", [X, f.tile("float32", b0), f.tile("float32", b1)],
           [f.out("float32", y), f.out("float32", y.max(1, keepdims=True))],
           {"base": 2.0, "compare_op0": "is_ge", "compare_op1": "is_lt", "reduce_op": "max", "reduce_cmd": "ZeroAccumulate",
            "fill_value": float(fill)})
    pred = r.randint(0, 3, (P, N)).astype(np.uint8)
    old = r.standard_normal((P, N)).astype(F32)
    for rev in (False, True):
        w = np.where((pred != 0) != rev, x, old)
        f.case(f"copy_predicated reverse={rev}", "CopyPredicated", [X, f.tile("uint8", pred)],
               [f.out("float32", w, init=f.put(old))], {"reverse_pred": rev})
    s = r.standard_normal((P, 1)).astype(F32)
    w = np.where(pred != 0, x, s)
    f.case("select_reduce", "CopyPredicated", [f.tile("uint8", pred), X, f.tile("float32", s)],
           [f.out("float32", w), f.out("float32", w.max(1, keepdims=True))], {"reduce_op": "max", "accumulator_cmd": "ZeroAccumulate"})
    one = (pred > 0).astype(np.uint8)
    f.case("select", "Select", [f.tile("uint8", one), X, f.tile("float32", old)], [f.out("float32", np.where(one, x, old))])
    for dt, bits, w in (("float32", 0x3FC00000, from_f32("float32", np.full((3, 5), 1.5, F32))),
                        ("bfloat16", 0x3FC00000, from_f32("bfloat16", np.full((3, 5), 1.5, F32))),
                        ("int16", 0xFFFFFFFE, np.full((3, 5), -2, np.int16)), ("uint8", 300, np.full((3, 5), 44, np.uint8))):
        f.case(f"memset {dt}", "Memset", [], [f.out(dt, w)], {"mode": "Const", "constant": bits})
    f.write()


def search():
    f = Family("search")
    r = np.random.RandomState(8)
    P, N = 8, 40
    x = r.randint(0, 12, (P, N)).astype(F32)
    y = r.standard_normal((P, N)).astype(F32)
    for name, a in (("ties", x), ("distinct", y)):
        top = -np.sort(-a, axis=1)[:, :8]
        f.case(f"max8 {name}", "Max", [f.tile("float32", a)], [f.out("float32", top)])
        idx = np.full((P, 8), 0xFFFFFFFF, np.uint32)
        for p in range(P):
            used = set()
            for k in range(8):
                for c in range(N):
                    if a[p, c] == top[p, k] and c not in used:
                        used.add(c)
                        idx[p, k] = c
                        break
        f.case(f"find_index8 {name}", "MaxIndex", [f.tile("float32", a), f.tile("float32", top)], [f.out("uint32", idx)])
    doc = np.array([[1, 2, 3, 4] + [8] * 7 + [0]], F32)
    vals = np.array([[3] + [8] * 7], F32)
    rep = np.array([[1, 2, -1, 4] + [-1] * 7 + [0]], F32)
    down = np.array([[2, 10, 9, 8, 7, 6, 5, 4]], np.uint32)
    up = np.array([[2, 4, 5, 6, 7, 8, 9, 10]], np.uint32)
    for prof, want in (("hw", down), ("birsim", up)):
        f.case(f"match_replace8 order of duplicates ({prof})", "MaxIndexAndMatchReplace", [f.tile("float32", doc), f.tile("float32", vals)],
               [f.out("float32", rep), f.out("uint32", want)], {"imm_value": -1.0}, profile=prof)
    f.case("match_replace8 data only", "MatchReplace", [f.tile("float32", doc), f.tile("float32", vals)], [f.out("float32", rep)],
           {"imm_value": -1.0})
    miss = np.array([[100, 8, 8, 101, 1, 102, 103, 104]], F32)
    f.case("find_index8 unmatched values are all ones", "MaxIndex", [f.tile("float32", doc), f.tile("float32", miss)],
           [f.out("uint16", np.array([[65535, 4, 5, 65535, 0, 65535, 65535, 65535]], np.uint16))])
    src = (r.rand(32, 10) < 0.4).astype(F32)
    old = np.full((32, 11), -7, np.int32)
    w = old.copy()
    for p in (0, 16):
        nz = np.nonzero(src[p])[0] + 3
        w[p] = np.concatenate([nz, np.full(10 - len(nz), -1), [len(nz)]])
    f.case("nonzero_with_count", "NonzeroWithCount", [f.tile("float32", src), imm(3), imm(-1)], [f.out("int32", w, init=f.put(old))])
    seg = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], F32)
    f.case("sequence_bounds", "GetSequenceBounds", [f.tile("float32", seg)],
           [f.out("int32", np.array([[[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]], np.int32))])
    x = r.standard_normal((9, 33)).astype(F32)
    d = x.astype(np.float64)
    ev, od = d[:, 0::2], d[:, 1::2]
    st = np.stack([np.full(9, 17.0), ev.mean(1), ev.var(1) * 17, np.full(9, 16.0), od.mean(1), od.var(1) * 16], 1)
    f.case("bn_stats", "BNStats", [f.tile("float32", x)], [f.out("float32", st, "tol", rtol=33 * 2**-24, atol=33 * 2**-24)])
    f.case("bn_aggr", "BNStatsAggregate", [f.tile("float32", st.astype(F32))],
           [f.out("float32", np.stack([d.mean(1), d.var(1)], 1), "tol", rtol=33 * 2**-24, atol=33 * 2**-24)])
    z = st.astype(F32).copy()
    z = np.concatenate([np.zeros((9, 3), F32), z], 1)
    f.case("bn_aggr skips empty triples", "BNStatsAggregate", [f.tile("float32", z)],
           [f.out("float32", np.stack([d.mean(1), d.var(1)], 1), "tol", rtol=33 * 2**-24, atol=33 * 2**-24)])
    f.write()


def movement():
    f = Family("movement")
    r = np.random.RandomState(9)
    u32 = lambda *s: r.randint(0, 2**32, s, dtype=np.uint64).astype(np.uint32)
    x = u32(64, 6)
    mask = [(7 * i + 3) % 32 for i in range(32)]
    mask[5] = 255
    old = u32(64, 6)
    w = old.copy()
    for p in range(64):
        if mask[p % 32] != 255:
            w[p] = x[p // 32 * 32 + mask[p % 32]]
    f.case("shuffle keeps rows of mask 255", "StreamShuffle", [f.tile("float32", x)], [f.out("float32", w, init=f.put(old))], {"mask": mask})
    for P, N in ((32, 32), (32, 16), (20, 32), (64, 96)):
        x = u32(P, N)
        if P == 64:
            w = x.reshape(2, 32, 3, 32).transpose(0, 3, 2, 1).reshape(64, 96)
        else:
            w = x.T
        f.case(f"stream transpose {P}x{N}", "StreamTranspose", [f.tile("uint32", x)], [f.out("uint32", w)])
    src = u32(3, 4, 5, 6)
    for name in ("None", "WZXY", "WXZY", "WYXZ", "ZWYX", "ZYWX", "ZYXW", "YXWZ", "YXZW", "YWZX", "XWZY", "XZYW", "XYZW", "XYWZ"):
        order = [("WZYX").index(c) for c in (name if name != "None" else "WZYX")]
        f.case(f"dma transpose {name}", "DMACopy", [f.tile("uint32", src, dram=True)],
               [f.out("uint32", src.transpose(order), dram=True)], {"mode": "Transpose", "transpose_op": name})
    two = u32(16, 40)
    f.case("dma transpose of two dimensions", "DMACopy", [f.tile("float32", two, dram=True)], [f.out("float32", two.T)],
           {"mode": "Transpose", "transpose_op": "XZYW"})
    rows = u32(4, 7)
    f.case("dma replicate", "DMACopy", [f.tile("float32", rows)], [f.out("float32", np.tile(rows, (3, 1)))], {"mode": "Replicate"})
    a, b, c = (r.standard_normal((8, 9)).astype(F32) for _ in range(3))
    A, B, C = (f.tile("float32", v) for v in (a, b, c))
    f.case("cce add is left to right", "DMACopy", [A, B, C], [f.out("float32", (a + b) + c)], {"mode": "CCE", "cce_op": "add"})
    f.case("cce with scales", "DMACopy", [A, B], [f.out("float32", a * F32(0.5) + b * F32(2))],
           {"mode": "CCE", "cce_op": "add", "constants": [0.5, 2.0]})
    an, bn = a.copy(), b.copy()
    an[0, :3] = np.nan
    bn[0, 2:5] = np.nan
    f.case("cce max ignores NaN", "DMACopy", [f.tile("float32", an), f.tile("float32", bn)],
           [f.out("float32", np.fmax(an, bn), "value")], {"mode": "CCE", "cce_op": "max"})
    f.case("cce min ignores NaN", "DMACopy", [f.tile("float32", an), f.tile("float32", bn)],
           [f.out("float32", np.fmin(an, bn), "value")], {"mode": "CCE", "cce_op": "min"})
    f.case("dma converts when dtypes differ", "DMACopy", [A], [f.out("bfloat16", from_f32("bfloat16", a))], {"mode": "Copy"})
    f.case("dma accumulate fp32", "DMACopy", [A], [f.out("float32", b + a, init=f.put(b))], {"mode": "Copy", "cce_op": "add"})
    for t in ("bfloat16", "float16"):
        x, y = from_f32(t, a), from_f32(t, b)
        f.case(f"dma accumulate {t}", "DMACopy", [f.tile(t, x)], [f.out(t, from_f32(t, to_f32(t, y) + to_f32(t, x)), init=f.put(y))],
               {"cce_op": "add"})
    i, j = (r.randint(-2**31, 2**31, (4, 5), dtype=np.int64).astype(np.int32) for _ in range(2))
    f.case("dma accumulate int32 wraps", "DMACopy", [f.tile("int32", i)], [f.out("int32", i + j, init=f.put(j))], {"cce_op": "add"})
    for prof, want in (("hw", 0x77), ("birsim", 0x78)):
        x8 = from_f32("float8e4", np.full((1, 4), 200, F32))
        f.case(f"dma accumulate fp8 overflow ({prof})", "DMACopy", [f.tile("float8e4", x8)],
               [f.out("float8e4", np.full((1, 4), want, np.uint8), init=f.put(x8))], {"cce_op": "add"}, profile=prof)
    # Gather inside partitions.
    data = u32(32, 20)
    idx = r.randint(0, 20, (32, 6)).astype(np.uint32)
    f.case("gather per partition", "Gather", [f.tile("float32", data), f.tile("uint32", idx)],
           [f.out("float32", np.take_along_axis(data, idx.astype(np.int64), 1))])
    for per in (1, 2, 4):
        cnt = 24
        idx = r.randint(0, 20 - per + 1, (32, 2)).astype(np.uint16)
        out = np.zeros((32, cnt * per), np.uint32)
        for g in (0, 16):
            lst = [idx[g + k % 16, k // 16] for k in range(cnt)]
            for k, v in enumerate(lst):
                out[g:g + 16, k * per:(k + 1) * per] = data[g:g + 16, v:v + per]
        f.case(f"local gather, {per} elements per index", "IndirectCopy", [f.tile("float32", data), f.tile("uint16", idx), imm(per)],
               [f.out("float32", out)], {"num_valid_indices": cnt})
    f.write()


def rng():
    f = Family("rng")

    def xorwow(s):
        t = (s[0] ^ (s[0] >> 2)) & 0xFFFFFFFF
        s[0:4] = s[1:5]
        s[4] = (s[4] ^ (s[4] << 4) ^ t ^ (t << 1)) & 0xFFFFFFFF
        s[5] = (s[5] + 362437) & 0xFFFFFFFF
        return (s[5] + s[4]) & 0xFFFFFFFF

    s = [0xFFFFFFFF] * 6
    w = np.array([[xorwow(s) for _ in range(40)]], np.uint32)
    f.case("memset random on Pool is XORWOW from all ones", "Memset", [], [f.out("uint32", w)], {"mode": "Random", "constant": 0}, engine="Pool")
    s = [0xFFFFFFFF] * 6
    u = np.array([[xorwow(s) for _ in range(16)]], np.uint32)
    u = ((u & 0x7FFFFF) | 0x3F800000).view(F32) - F32(1)
    f.case("rand2 range", "Rand2", [imm(-2.0), imm(3.0)], [f.out("float32", F32(-2) + F32(5) * u)], engine="Pool")
    x = np.arange(1, 17, dtype=F32).reshape(1, 16)
    f.case("dropout drops below the rate", "Dropout", [f.tile("float32", x), imm(0.5)], [f.out("float32", np.where(u < 0.5, 0, x).astype(F32))], engine="Pool")
    f.case("dropout 0 keeps all", "Dropout", [f.tile("float32", x), imm(0.0)], [f.out("float32", x)], engine="Pool")
    f.case("dropout 1 drops all", "Dropout", [f.tile("float32", x), imm(1.0)], [f.out("float32", x * 0)], engine="Pool")
    f.write()


if __name__ == "__main__":
    for fn in (casts, alu, scalar, reduce, activation, matmul, select, search, movement, rng):
        fn()
    if STALE:
        sys.exit("not what this script writes: " + ", ".join(STALE))
