"""From a kernel function and its arguments to a traced kernel."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect

from . import _core, _trace
from ._arrays import Spec, is_array, spec_of
from .errors import KernelError

__all__ = ["Kernel", "Traced", "jit", "simulate", "trace"]

#: Suffix by which callers mark inputs that a kernel updates in place.
ALIAS_SUFFIX = ".must_alias_input"


class Kernel:
    """A kernel function: `kernel[n]` launches it on n cores; inside another kernel it is a plain call."""

    def __init__(self, function, grid=None):
        while isinstance(function, Kernel):
            function = function.function
        functools.update_wrapper(self, function)
        self.function = function
        self.grid = grid

    def __getitem__(self, grid):
        if isinstance(grid, tuple) and len(grid) == 1:
            grid = grid[0]
        grid = getattr(grid, "size", grid) if not isinstance(grid, int) else grid
        if isinstance(grid, bool) or not isinstance(grid, int) or grid not in (1, 2):
            raise KernelError(
                "T0006",
                f"a launch on {grid!r} cores; a logical core has 1 or 2",
                function=self.__name__,
                help="collectives between several logical cores run with Options(ranks=N)",
            )
        return Kernel(self.function, grid)

    def __call__(self, *args, **kwargs):
        if _trace.tracing():
            return self.function(*args, **kwargs)
        return simulate(self)(*args, **kwargs)

    def __repr__(self):
        grid = f"[{self.grid}]" if self.grid else ""
        return f"<kernel {self.function.__module__}.{self.function.__qualname__}{grid}>"

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return functools.partial(self, instance)


def jit(function=None, **options):
    """Marks a kernel. Options of the vendor's decorator are taken and have no effect; the target comes at launch."""
    del options
    if function is None:
        return lambda f: Kernel(f)
    return Kernel(function)


class _Inputs:
    """The arrays of a call: names, specs, and how to put tensors in their place."""

    def __init__(self, function, args, kwargs):
        self.names, self.specs, self.values, self.aliased = [], [], [], []
        cleaned = {}
        for key, value in kwargs.items():
            if key.endswith(ALIAS_SUFFIX):
                key = key[: -len(ALIAS_SUFFIX)]
                self.aliased.append(key)
            cleaned[key] = value
        signature = inspect.signature(function)
        try:
            bound = signature.bind(*args, **cleaned)
        except TypeError as e:
            raise KernelError("T0006", str(e), function=function.__name__) from None
        self.args = {}
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                self.args[name] = {k: self._plan(k, v) for k, v in value.items()}
            else:
                self.args[name] = self._plan(name, value)
        self.signature = signature

    def _plan(self, name, value):
        """The same value with places for tensors where arrays were."""
        if is_array(value):
            try:
                spec = spec_of(value)
            except TypeError as e:
                raise KernelError("T0006", f"input `{name}`: {e}") from None
            self.names.append(name)
            self.specs.append(spec)
            self.values.append(None if isinstance(value, Spec) else value)
            return _Place(len(self.names) - 1)
        if isinstance(value, tuple) and _holds_array(value):
            parts = [self._plan(f"{name}_{i}", v) for i, v in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list) and _holds_array(value):
            return [self._plan(f"{name}_{i}", v) for i, v in enumerate(value)]
        if isinstance(value, dict) and _holds_array(list(value.values())):
            return {k: self._plan(f"{name}.{k}", v) for k, v in value.items()}
        if hasattr(value, "__dict__") and not isinstance(value, type) and _holds_array(list(vars(value).values())):
            made = copy.copy(value)
            for k, v in vars(value).items():
                if is_array(v) or isinstance(v, (tuple, list, dict)):
                    object.__setattr__(made, k, self._plan(f"{name}.{k}", v))
            return made
        return value

    def bind(self, tensors):
        """Arguments of one core's run."""
        filled = {name: _fill(value, tensors) for name, value in self.args.items()}
        bound = self.signature.bind_partial()
        bound.arguments.update(filled)
        return bound.args, bound.kwargs


class _Place:
    __slots__ = ("index",)

    def __init__(self, index):
        self.index = index


def _holds_array(values):
    return any(is_array(v) or (isinstance(v, (tuple, list)) and _holds_array(v)) for v in values)


def _fill(value, tensors):
    if isinstance(value, _Place):
        return tensors[value.index]
    if isinstance(value, tuple):
        parts = [_fill(v, tensors) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [_fill(v, tensors) for v in value]
    if isinstance(value, dict):
        return {k: _fill(v, tensors) for k, v in value.items()}
    if hasattr(value, "__dict__") and any(isinstance(v, _Place) for v in _deep(vars(value))):
        made = copy.copy(value)
        for k, v in vars(value).items():
            object.__setattr__(made, k, _fill(v, tensors))
        return made
    return value


def _deep(items):
    for v in items.values():
        yield v
        if isinstance(v, (tuple, list)):
            yield from v


@dataclasses.dataclass(frozen=True)
class Output:
    """An output: name, shape, element type, and the input it is, if it is one."""

    name: str
    shape: tuple
    dtype: str
    alias: str | None = None


def trace(kernel, /, *args, grid=None, target=None, **kwargs):
    """Traces a kernel: `tandem.trace(kernel[2], a, b)`.

    Arguments are those of the kernel, arrays of numpy or torch or a `Spec` for those without values. `grid` is another
    way to give the number of cores. The result can be saved, checked, run, timed and explained.
    """
    from .nki import isa

    if not isinstance(kernel, Kernel):
        kernel = Kernel(kernel)
    if grid is not None:
        kernel = kernel[grid]
    generation = _generation(isa, target)
    function = kernel.function
    inputs = _Inputs(function, args, kwargs)
    count = kernel.grid or 1
    cores, results, views = [], [], []
    for index in range(count):
        core = _trace.Core(index, count, kernel.grid is not None, None, generation)
        tensors = _input_tensors(core, inputs, count)
        call_args, call_kwargs = inputs.bind(tensors)
        results.append(_trace.run_core(core, function, call_args, call_kwargs))
        cores.append(core)
        views.append(tensors)
    return _assemble(function, inputs, cores, results, views, generation)


def _generation(isa, target):
    if target is None:
        return isa.default_target()
    if target not in isa.TARGETS:
        raise KernelError("T0006", f"no target {target!r}; there are {', '.join(isa.TARGETS)}")
    return isa.TARGETS[target]


def _input_tensors(core, inputs, count):
    from .nki.language import MemoryRegion

    region = MemoryRegion.shared_hbm if count > 1 else MemoryRegion.hbm
    made = []
    for name, spec in zip(inputs.names, inputs.specs):
        shape = list(spec.shape) or [1]
        if 0 in shape:
            raise KernelError("T0006", f"input `{name}` has no elements: shape {spec.shape}")
        made.append(core.body.tensor(name, shape, spec.dtype, "hbm", region, None, False, None, "input"))
    return made


def _assemble(function, inputs, cores, results, views, generation):
    name = f"{function.__module__}.{function.__qualname__}".replace(".<locals>", "")
    _same_labels(name, cores)
    outputs = _trace.flatten(results[0])
    for core, result in zip(cores[1:], results[1:]):
        got = [t.name for t in _trace.flatten(result)]
        if got != [t.name for t in outputs]:
            raise KernelError(
                "T0005",
                f"core 0 returns {[t.name for t in outputs]}, core {core.index} returns {got}",
                function=name,
                help="make the outputs on every core, in one order; give them names",
            )
    given = set(inputs.names)
    described, seen = [], set()
    for t in outputs:
        if t._on_chip or getattr(t.buffer, "value", "") == "private_hbm":
            where = getattr(t.buffer, "value", t.buffer)
            raise KernelError("T0006", f"returns {t!r}, which lies in {where}; outputs lie in shared_hbm", function=name)
        if t.name in seen:
            raise KernelError("T0006", f"returns {t!r} twice", function=name)
        seen.add(t.name)
        described.append(Output(t.name, tuple(t.shape), t.dtype, t.name if t.name in given else None))
    if not outputs and not any(n in given for core in cores for n in core.body.written()):
        raise KernelError("T0006", "neither returns a tensor nor writes an input", function=name)
    shared, notes = _shared(name, cores, given, seen)
    constants = {}
    for core in cores:
        for key, (_, file, data) in core.constants.items():
            constants[key] = (file, data)
    edges = []
    for core in cores:
        edges += [e for e in core.edges if e not in edges]
    for core in cores:
        if sorted(core.edges) != sorted(edges):
            raise KernelError("T0005", f"depends_on differs between the cores: core {core.index} lacks some", function=name)
    kernel = _core.Kernel.assemble(
        name,
        views[0],
        outputs,
        [core.body for core in cores],
        shared,
        [(key, constants[key][0]) for key in sorted(constants)],
        edges,
    )
    written = []
    for core in cores:
        written += [n for n in core.body.written() if n in given and n not in written]
        notes += core.notes
    mutated = [n for n in inputs.names if n in written]
    return Traced(
        kernel=kernel,
        inputs=dict(zip(inputs.names, inputs.specs)),
        values=dict(zip(inputs.names, inputs.values)),
        outputs=described,
        mutated=mutated,
        constants={file: data for file, data in constants.values()},
        target=generation,
        notes=notes,
        operators=sum(core.body.operators for core in cores),
    )


def _same_labels(name, cores):
    first = cores[0].body.labels()
    for core in cores[1:]:
        labels = core.body.labels()
        if labels != first:
            at = next((i for i, (a, b) in enumerate(zip(first, labels)) if a != b), min(len(first), len(labels)))
            one = first[at] if at < len(first) else "the end"
            two = labels[at] if at < len(labels) else "the end"
            raise KernelError(
                "T0005",
                f"the blocks of core 0 and core {core.index} differ at block {at}: {one} and {two}; "
                "dynamic loops must be the same on all cores",
                function=name,
            )


def _shared(name, cores, given, outputs):
    """Names of the shared buffers, and notes about those only some cores have."""
    per_core = [{n: (shape, dtype, place) for n, shape, dtype, place in c.body.memory_tensors()} for c in cores]
    constants = {n for c in cores for n in c.constants}
    notes, shared = [], []
    if len(cores) == 1:
        return [n for n in per_core[0] if n not in given and n not in constants], notes
    everywhere = list(dict.fromkeys(n for tensors in per_core for n in tensors))
    for n in everywhere:
        if n in given or n in constants:
            continue
        have = [(i, t[n]) for i, t in enumerate(per_core) if n in t]
        if len(have) < len(cores):
            index, (_, _, where) = have[0]
            if n in outputs or n.startswith("shbm."):
                raise KernelError(
                    "T0005",
                    f"shared tensor `{n}` exists on core {index} only",
                    function=name,
                    sites=[_site(where, f"made on core {index}")],
                    help="make it on every core; give it a name",
                )
            file, _, line = where.rpartition(":")
            notes.append((f"shared tensor `{n}` exists on core {index} only", file, int(line) if line.isdigit() else 0))
            continue
        shapes = {(tuple(shape), dtype) for _, (shape, dtype, _) in have}
        if len(shapes) > 1:
            raise KernelError(
                "T0005",
                f"shared tensor `{n}` has different shapes or types on the cores: {sorted(map(str, shapes))}",
                function=name,
                sites=[_site(where, f"core {i}") for i, (_, _, where) in have],
            )
        if n not in outputs:
            shared.append(n)
    return shared, notes


def _site(where, label):
    file, _, line = where.rpartition(":")
    return {"file": file, "line": int(line) if line.isdigit() else 0, "label": label}


from ._run import Traced  # noqa: E402


class _Simulation:
    """`simulate(kernel)`: call it with arrays."""

    def __init__(self, kernel, options=None):
        self.kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
        self.options = options

    def __getitem__(self, grid):
        return _Simulation(self.kernel[grid], self.options)

    def __call__(self, *args, **kwargs):
        target = getattr(self.options, "target", None)
        traced = trace(self.kernel, *args, target=target, **kwargs)
        return traced._simulate(self.options)


def simulate(kernel, options=None):
    """`simulate(kernel)[2](a, b)` runs a kernel on arrays of numpy or torch and returns what it returns.

    Inputs that the kernel writes are updated. A finding of severity error raises; races are looked for.
    """
    return _Simulation(kernel, options)

