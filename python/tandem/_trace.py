"""Tracing: a kernel runs once per core as ordinary Python, and what it calls is recorded."""

from __future__ import annotations

import ast
import itertools
import linecache
import os
import sys
import threading

from . import _core
from ._core import Body, NkiTensor, Pos
from .errors import FieldError, KernelError

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_local = threading.local()
#: Places and files of the trace that runs.
_positions, _shorts = {}, {}


def current(function="this function"):
    """The core being traced; an error outside a kernel."""
    core = getattr(_local, "core", None)
    if core is None:
        raise KernelError(
            "T0008",
            "only has a meaning while a kernel is traced",
            function=function,
            help="launch the kernel: tandem.trace(kernel[2], ...) or tandem.simulate(kernel)[2](...)",
        )
    return core


def tracing():
    """Whether a kernel is being traced on this thread."""
    return getattr(_local, "core", None) is not None


def _kernel_frame(depth=1):
    """The innermost frame outside this package."""
    frame = sys._getframe(depth + 1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def _span(code, lasti):
    """`(line, end line, column, end column)` of an instruction; entries may be None."""
    return next(itertools.islice(code.co_positions(), lasti // 2, None), (None,) * 4)


def short(file):
    """A file below the working directory by its path from there, so that traces do not depend on where that is."""
    known = _shorts.get(file)
    if known is None:
        known = _shorts[file] = file.removeprefix(os.getcwd() + os.sep) if file else file
    return known


def here():
    """Where the kernel is, as the extension's `Pos`."""
    frame = _kernel_frame()
    if frame is None:
        return Pos("<unknown>", 0, 0, None, None)
    code = frame.f_code
    key = (id(code), frame.f_lasti)
    known = _positions.get(key)
    if known is None or known[0] is not code:
        line, end, column, end_column = _span(code, frame.f_lasti)
        pos = Pos(short(code.co_filename), line or frame.f_lineno, column or 0, end, end_column)
        known = _positions[key] = (code, pos)
    return known[1]


def place():
    """`(file, line)` of the kernel."""
    frame = _kernel_frame()
    return (short(frame.f_code.co_filename), frame.f_lineno) if frame is not None else (None, None)


def error(code, message, function=None, argument=None, help=None):
    """An error at the place where the kernel is."""
    file, line = place()
    return KernelError(code, message, function=function, argument=argument, file=file, line=line, help=help)


def _while_node(frame):
    """The syntax node of the `while` whose condition the frame is evaluating, if it is one."""
    line, end, column, end_column = _span(frame.f_code, frame.f_lasti)
    tree = _tree(frame.f_code.co_filename, frame.f_globals)
    if tree is None or line is None:
        return None, None
    best = None
    for node in ast.walk(tree):
        if not hasattr(node, "lineno") or isinstance(node, ast.Module):
            continue
        if (node.lineno, node.end_lineno) != (line, end):
            continue
        if column is not None and (node.col_offset, node.end_col_offset) != (column, end_column):
            continue
        best = node
        break
    if best is None:
        return None, None
    if isinstance(best, ast.While):
        return best, best
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and node.test is best:
            return node, best
    return None, best


_trees = {}


def _tree(filename, module_globals):
    lines = linecache.getlines(filename, module_globals)
    key = (filename, len(lines), hash("".join(lines)))
    if key not in _trees:
        try:
            _trees[key] = ast.parse("".join(lines)) if lines else None
        except SyntaxError:
            _trees[key] = None
    return _trees[key]


class VirtualRegister:
    """A 32-bit register of the core. Its value is not known while tracing."""

    __slots__ = ("_register", "_frozen")

    def __init__(self, register, frozen=False):
        self._register = register
        self._frozen = frozen

    def __repr__(self):
        return f"<register {self._register}>"

    def __bool__(self):
        return current("a register as a condition").while_register(self, sys._getframe(1))

    def _alu(self, other, op, word):
        core = current("register arithmetic")
        if isinstance(other, bool) or not isinstance(other, int):
            raise error("T0003", f"a register {word} {type(other).__name__}: KLR takes a register and a whole number")
        out = core.fresh_register()
        core.emit("registerAluOp", (out._register, self._register, other, op), prefix="inst")
        return out

    def __add__(self, other):
        return self._alu(other, "add", "plus")

    __radd__ = __add__

    def __sub__(self, other):
        return self._alu(other, "subtract", "minus")

    def __mul__(self, other):
        return self._alu(other, "mult", "times")

    __rmul__ = __mul__

    def _no(self, *_):
        raise error("T0004", f"the value of {self!r} is not known while tracing")

    __int__ = __float__ = __index__ = _no
    __lt__ = __le__ = __gt__ = __ge__ = _no
    __hash__ = object.__hash__


def _patch_index():
    # `operator.index` and `range` must refuse registers with a sentence, not with a bare TypeError.
    def refuse(self):
        raise error("T0004", f"{self!r} where a number is needed; use nl.dynamic_range or nl.ds(register, size)")

    VirtualRegister.__index__ = refuse


_patch_index()


class Core:
    """The trace of one core."""

    def __init__(self, index, grid, launched, api, target):
        self.index = index
        self.grid = grid
        self.launched = launched
        self.api = api
        self.target = target
        self.body = Body(index)
        self.counters = {}
        self.loops = []
        self.cache = {}
        self.pending = None
        self.no_reorder = False
        self.psum = []
        self.constants = {}
        self.edges = []
        self.notes = []
        self.open_block(self.label("main"))

    # -- names ---------------------------------------------------------------------------------------------------

    def count(self, kind):
        n = self.counters.get(kind, 0)
        self.counters[kind] = n + 1
        return n

    def label(self, prefix):
        return f"{prefix}.{self.count('label') + 1}"

    def fresh_register(self, prefix="reg", frozen=False):
        return VirtualRegister(f"{prefix}.{self.count(prefix) + 1}", frozen)

    # -- recording -----------------------------------------------------------------------------------------------

    def open_block(self, label, no_reorder=False):
        self.body.block(label, no_reorder)

    def emit(self, op, values, name=None, prefix="inst"):
        """Appends an operator; raises `FieldError` when a value does not fit."""
        if self.pending is not None:
            raise self.pending
        return self.body.emit(op, values, name, prefix, here())

    def jump(self, label):
        self.emit("cmpBranch", ("", "", 0, "always", label, ""), prefix="jmp")

    def branch_less(self, a, b, yes, no):
        self.emit("cmpBranch", (a, b, 0, "lt_reg", yes, no), prefix="brlt")

    def branch_nonzero(self, register, yes, no):
        self.emit("cmpBranch", (register, "", 0, "ne_imm", yes, no), prefix="brnz")

    def move(self, register, value):
        """`register := value`, a number or a register."""
        if isinstance(value, VirtualRegister):
            self.emit("registerAluOp", (register._register, value._register, 0, "add"), prefix="move")
        else:
            self.emit("registerMove", (register._register, value), prefix="move")

    def tensor(self, shape, dtype, region, buffer, name="", address=None, shared=False):
        kind = {"sbuf": "tensor", "psum": "psum", "private_hbm": "phbm"}.get(region, "shbm")
        name = name or f"{kind}.{self.count(kind)}"
        file, line = place()
        return self.body.tensor(name, shape, dtype, region, buffer, address, shared, None, f"{file}:{line}")

    # -- dynamic control flow ------------------------------------------------------------------------------------

    def _dynamic(self, what):
        if self.no_reorder:
            raise error("T0004", f"{what} inside `with nl.no_reorder()`")

    def dynamic_range(self, start, stop, step):
        """The generator behind `nl.dynamic_range` and `nl.fori_loop`."""
        self._dynamic("a dynamic loop")
        if isinstance(step, VirtualRegister) or not isinstance(step, int) or step < 1:
            raise error("T0004", f"the step of a dynamic loop is a positive number, not {step!r}", "nl.dynamic_range")
        file, line = place()
        body, leave = self.label("body"), self.label("exit")
        init, test = self.label("label"), self.label("label")
        self.jump(init)
        self.open_block(init)
        index, limit = self.fresh_register(frozen=True), self.fresh_register(frozen=True)
        self.move(index, start)
        self.move(limit, stop)
        self.jump(test)
        self.open_block(test)
        self.branch_less(index._register, limit._register, body, leave)
        self.open_block(body)
        self.loops.append(("for", body))
        try:
            yield index
        except GeneratorExit:
            self.pending = KernelError(
                "T0004",
                "a dynamic loop was left by break, return or an exception; its body has to run to its end",
                function="nl.dynamic_range",
                file=file,
                line=line,
            )
            return
        if self.loops[-1] != ("for", body):
            raise error("T0004", "a loop inside a dynamic loop did not end", "nl.dynamic_range")
        self.loops.pop()
        self.emit("registerAluOp", (index._register, index._register, step, "add"))
        self.branch_less(index._register, limit._register, body, leave)
        self.open_block(leave)

    def while_register(self, register, frame):
        """`while register:` evaluated by the frame: True the first time, False when the body has run."""
        node, found = _while_node(frame)
        if node is None:
            what = type(found).__name__ if found is not None else "an expression"
            raise error(
                "T0004",
                f"a register decides here ({what}), and its value is not known while tracing",
                help="only `while register:` can be captured; use nl.while_loop or nl.fori_loop",
            )
        key = ("while", id(frame), node.lineno, node.col_offset)
        if self.loops and self.loops[-1][:4] == key:
            _, _, _, _, body, leave = self.loops.pop()
            self.branch_nonzero(register._register, body, leave)
            self.open_block(leave)
            return False
        self._dynamic("a loop on a register")
        body, leave = self.label("body"), self.label("exit")
        self.branch_nonzero(register._register, body, leave)
        self.open_block(body)
        self.loops.append((*key, body, leave))
        return True

    def while_loop(self, init, body_fun):
        self._dynamic("a loop on a register")
        if not isinstance(init, VirtualRegister):
            raise error("T0002", f"expected a register, not {init!r}", "nl.while_loop", "init")
        condition = self.fresh_register()
        self.move(condition, init)
        body, leave = self.label("body"), self.label("exit")
        self.branch_nonzero(condition._register, body, leave)
        self.open_block(body)
        self.loops.append(("loop", body))
        result = body_fun(condition)
        if not isinstance(result, VirtualRegister):
            raise error("T0002", "the body returns the register of the next test", "nl.while_loop", "body_fun")
        if result is not condition:
            self.move(condition, result)
        if self.loops.pop() != ("loop", body):
            raise error("T0004", "a loop inside a dynamic loop did not end", "nl.while_loop")
        self.branch_nonzero(condition._register, body, leave)
        self.open_block(leave)

    def enter_no_reorder(self):
        if self.no_reorder:
            raise error("T0004", "inside another `with nl.no_reorder()`", "nl.no_reorder")
        inner, after = self.label("no_reorder"), self.label("label")
        self.jump(inner)
        self.open_block(inner, True)
        self.no_reorder = True
        return after

    def leave_no_reorder(self, after):
        self.jump(after)
        self.no_reorder = False
        self.open_block(after)

    def finish(self):
        if self.pending is not None:
            raise self.pending
        if self.loops:
            raise KernelError("T0004", "the kernel returned inside a dynamic loop")

    # -- PSUM accumulation ---------------------------------------------------------------------------------------

    def psum_event(self, view, kind):
        self.psum.append((kind, view.name, view._extent()))

    def psum_accumulates(self, view):
        """Whether the automatic rule accumulates a matrix product into this view; None when parts differ.

        Per byte: a matrix product opens it, a read or another write closes it; a product accumulates on open bytes.
        """
        row, rows_end, first, end = view._extent()
        open_ = [False] * max(end - first, 0)
        for kind, name, (r0, r1, b0, b1) in self.psum:
            if name != view.name or r1 <= row or r0 >= rows_end:
                continue
            lo, hi = max(b0, first) - first, min(b1, end) - first
            for i in range(lo, hi):
                open_[i] = kind == "matmul"
        if all(open_):
            return True
        return None if any(open_) else False


class _Traced:
    """The cores' traces of one launch, before assembly."""

    def __init__(self, cores, outputs, inputs):
        self.cores, self.outputs, self.inputs = cores, outputs, inputs


def run_core(core, function, args, kwargs):
    """Runs the kernel for one core."""
    before = getattr(_local, "core", None)
    if before is not None:
        raise error("T0008", "a launch of another kernel inside a kernel")
    _local.core = core
    if core.index == 0:
        _positions.clear()
        _shorts.clear()
    try:
        result = function(*args, **kwargs)
        core.finish()
        return result
    except (_core.TraceError, FieldError) as e:
        file, line = _from_traceback(e)
        text = e.args[0] if not isinstance(e, FieldError) else f"field `{e.args[0]}`: {e.args[1]}"
        raise KernelError("T0007", text, file=file, line=line) from None
    finally:
        _local.core = None


def _from_traceback(exc):
    file = line = None
    tb = exc.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not name.startswith(_PACKAGE):
            file, line = short(name), tb.tb_lineno
        tb = tb.tb_next
    return file, line


def flatten(value):
    """The tensors of a returned value in order; None and plain values are dropped."""
    if isinstance(value, NkiTensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in flatten(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in flatten(v)]
    return []
