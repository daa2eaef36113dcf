"""A traced kernel: saved, checked, run, explained."""

from __future__ import annotations

import dataclasses
import html
import json
import pathlib
import sys
import time as _time

import numpy as np

from . import _core, _verbs
from ._arrays import Spec, bits_of, is_torch, numpy_dtype, spec_of, store_back, to_numpy, to_torch
from .errors import CheckError, Finding, KernelError, RunError

__all__ = ["Options", "Report", "Traced"]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of compiling, checking and running; each is the command line's option of that name.

    `target` trn1, trn2, trn3 · `level` bir, lowered, linked, bundles · `transport` auto, gpsimd, dma, request · `schedule` eager, late,
    seed=N · `numeric_profile` hw, birsim · `ranks` N whole logical cores instead of one.
    """

    target: str | None = None
    level: str | None = None
    transport: str | None = None
    sendrecv_to_gpsimd_max_bpp: int | None = None
    local_allreduce: str | None = None
    ptcom: str | None = None
    ptcom_barrier_distance: int | None = None
    ranks: int | None = None
    sb2sb_repack: bool | None = None
    sb2sb_elide_end_barrier: bool | None = None
    enable_remote_semaphore_dma: bool | None = None
    run_shared_allocation_before_post_sched: bool | None = None
    separate_lifetime_corebarriers: bool | None = None
    skip_barrier_checker: bool | None = None
    strict_2_24: bool | None = None
    schedule: str | None = None
    numeric_profile: str | None = None
    max_steps: int | None = None
    #: Memory that a simulation may take, in GiB (8).
    max_memory: int | None = None
    race_check: bool | None = None
    #: Use of bytes that nothing has written: error, warn, off.
    uninit: str | None = None
    #: Run the static checks before running.
    check: bool = True
    #: A line of progress on a terminal for work of over a second.
    progress: bool = True

    def _dict(self, target):
        own = ("check", "progress")
        out = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in own}
        out = {k: v for k, v in out.items() if v is not None}
        out.setdefault("target", {2: "trn1", 3: "trn2", 4: "trn3"}[int(target)])
        return out


def _options(options, changes):
    base = options or Options()
    try:
        return dataclasses.replace(base, **changes) if changes else base
    except TypeError:
        names = {f.name for f in dataclasses.fields(Options)}
        wrong = ", ".join(sorted(set(changes) - names))
        raise TypeError(f"no such option: {wrong}; there are {', '.join(sorted(names))}") from None


def _findings(text):
    """Findings of the compiler in the shape of this package's."""
    return [_finding(d) for d in (json.loads(text) if isinstance(text, str) else text)]


def _finding(d):
    sites = []
    for s in d.get("sites", ()):
        source = s.get("source") or {}
        site = {k: s[k] for k in ("core", "block", "inst", "label") if k in s}
        site.update({k: source[k] for k in ("file", "line", "column") if k in source})
        sites.append(site)
    out = {"code": d["code"], "severity": d["severity"], "message": d["message"], "notes": d.get("notes", [])}
    first = sites[0] if sites else {}
    out.update(first)
    out["sites"] = sites[1:]
    if d.get("help"):
        out["help"] = d["help"]
    return Finding(out)


class Report(list):
    """Findings; prints as people read them."""

    @property
    def errors(self):
        """Findings of severity error."""
        return [f for f in self if f["severity"] == "error"]

    @property
    def ok(self):
        """No errors."""
        return not self.errors

    def raise_errors(self, kind=CheckError):
        """Raises when there is an error."""
        if self.errors:
            raise kind(self)
        return self

    def __str__(self):
        return "\n".join(str(f) for f in self) or "clean"

    def json(self):
        """The findings as JSON."""
        return json.dumps(list(self), sort_keys=True)

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"


class Explanation(list):
    """One row per swap or collective; prints as text."""

    text = ""

    def __str__(self):
        return self.text or "no swaps and no collectives"

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"


class Run:
    """What a run gave: outputs by name, new values of written inputs, findings, counts."""

    def __init__(self, outputs, updated, report, seconds):
        #: Arrays by output name, in the order of the kernel's return.
        self.outputs = outputs
        #: New values of the inputs the kernel writes, by name.
        self.updated = updated
        #: Why it stopped: `finished`, `deadlock`, `steplimit`, `fault`, `cancelled`, `not run`.
        self.stop = report["stop"]
        #: Findings of the checks and of the run.
        self.findings = Report(_findings(report["findings"]))
        #: Executed instructions per core and type.
        self.stats = report.get("stats")
        #: Who waits for whom, after a deadlock.
        self.wait_for = report.get("wait_for")
        #: What `nl.device_print` printed.
        self.prints = report.get("prints", [])
        #: Wall time.
        self.seconds = seconds

    def __getitem__(self, key):
        if isinstance(key, int):
            return list(self.outputs.values())[key]
        return self.outputs[key] if key in self.outputs else self.updated[key]

    def __iter__(self):
        return iter(self.outputs.values())

    def __len__(self):
        return len(self.outputs)

    def __repr__(self):
        made = ", ".join(f"{k} {v.dtype} {list(v.shape)}" for k, v in self.outputs.items())
        return f"<run {self.stop}: {made or 'no outputs'}; {len(self.findings)} findings>"

    def _repr_html_(self):
        return f"<pre>{html.escape(repr(self))}\n{html.escape(str(self.findings))}</pre>"


class _Progress:
    """One line on a terminal, from the second second on."""

    def __init__(self, wanted):
        self.on = wanted and sys.stderr is not None and sys.stderr.isatty()
        self.start = _time.monotonic()
        self.shown = False

    def __call__(self, count):
        passed = _time.monotonic() - self.start
        if passed > 1.0:
            self.shown = True
            sys.stderr.write(f"\rtandem: {count} instructions, {passed:.0f} s ")
            sys.stderr.flush()

    def close(self):
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Page(str):
    """The report page; a notebook shows it in a frame."""

    def _repr_html_(self):
        return f'<iframe srcdoc="{html.escape(self)}" style="width:100%;height:40em;border:0"></iframe>'


class Traced:
    """A traced kernel."""

    def __init__(self, *, kernel, inputs, values, outputs, mutated, constants, target, notes, operators):
        self._kernel = kernel
        #: Specs of the inputs by name.
        self.inputs = inputs
        #: Arrays given while tracing, by name; None where a `Spec` was given.
        self.values = values
        #: Outputs in the order of the kernel's return.
        self.outputs = outputs
        #: Names of the inputs that the kernel writes.
        self.mutated = mutated
        self.constants = constants
        self.target = target
        #: `(text, file, line)` of things worth knowing.
        self.notes = notes
        #: Operators over all cores.
        self.operators = operators

    # -- the file ------------------------------------------------------------------------------------------------

    @property
    def name(self):
        """Full name of the kernel."""
        return self._kernel.name

    @property
    def cores(self):
        """Number of cores."""
        return self._kernel.cores

    def __repr__(self):
        return f"<traced {self.name}: {self.cores} cores, {self.operators} operators>"

    def to_bytes(self):
        """The bytes of the `.klr` file."""
        return self._kernel.to_bytes()

    def text(self):
        """The kernel as text, one operator a line."""
        return self._kernel.text()

    def operators_of(self, core):
        """KLR names of a core's operators in order."""
        return self._kernel.operators(core)

    def save(self, path):
        """Writes the `.klr` file, and the constants beside it; returns the path."""
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, data in sorted(self.constants.items()):
            target = path.parent / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        path.write_bytes(self.to_bytes())
        return path

    write = save

    # -- what the compiler says ----------------------------------------------------------------------------------

    def _constants(self):
        return sorted(self.constants.items())

    def check(self, options=None, *, strict=False, **changes):
        """Verifies and analyses without inputs, at every level. `strict` raises on an error."""
        o = _options(options, changes)
        report = Report(_findings(_core.check(self._kernel, self._constants(), o._dict(self.target))))
        return report.raise_errors() if strict else report

    def lower(self, options=None, **changes):
        """The program at a level (`level="bir"` or `"lowered"`) as text; raises on an error."""
        o = _options(options, changes)
        text, found = _core.lower(self._kernel, self._constants(), o._dict(self.target))
        Report(_findings(found)).raise_errors()
        return text

    def explain(self, options=None, **changes):
        """For each swap and collective: the transport, each predicate with its value, the barriers, and why."""
        o = _options(options, changes)
        rows, text, found = _core.explain(self._kernel, self._constants(), o._dict(self.target))
        Report(_findings(found)).raise_errors()
        out = Explanation(json.loads(rows))
        out.text = text
        return out

    # -- numbers -------------------------------------------------------------------------------------------------

    def run(self, *args, options=None, strict=True, **kwargs):
        """Simulates on all cores. Inputs by position or by name; those given while tracing are taken where none is
        given. Options by name are taken too. With `ranks=N` an input may have a leading dimension of N, one part for each
        logical core, and outputs have it. `strict` raises `RunError` when a finding is an error.
        """
        names = list(self.inputs)
        changes = {k: kwargs.pop(k) for k in list(kwargs) if k not in self.inputs and k in _OPTION_NAMES}
        o = _options(options, changes)
        if len(args) > len(names):
            raise KernelError("T0006", f"{len(args)} inputs given, the kernel has {len(names)}", function=self.name)
        given = dict(zip(names, args))
        for k, v in kwargs.items():
            if k not in self.inputs or k in given:
                why = "is given twice" if k in given else "is no input of the kernel"
                raise KernelError("T0006", f"`{k}` {why}; the inputs are {', '.join(names)}", function=self.name)
            given[k] = v
        inputs = []
        for name, spec in self.inputs.items():
            value = given.get(name, self.values.get(name))
            if value is None or isinstance(value, Spec):
                raise KernelError("T0006", f"input `{name}` has no values", function=self.name)
            got = spec_of(value)
            if o.ranks and got == Spec((o.ranks, *spec.shape), spec.dtype):
                # One for each logical core.
                for rank, part in enumerate(to_numpy(value)):
                    inputs.append((f"rank{rank}:{name}", spec.dtype, list(spec.shape) or [1], bits_of(part)))
                continue
            if got != spec:
                text = f"input `{name}` is {got.dtype} {got.shape}, the traced kernel wants {spec.dtype} {spec.shape}"
                raise KernelError("T0006", text, function=self.name)
            inputs.append((name, spec.dtype, list(spec.shape) or [1], bits_of(to_numpy(value))))
        extra = [n for n in self.mutated if n not in [out.name for out in self.outputs]]
        bar = _Progress(o.progress)
        start = _time.monotonic()
        try:
            made, report = _core.run(
                self._kernel,
                inputs,
                extra,
                self._constants(),
                o._dict(self.target),
                o.check,
                bar if bar.on else None,
            )
        finally:
            bar.close()
        outputs, updated = self._collect(made, extra)
        result = Run(outputs, updated, json.loads(report), _time.monotonic() - start)
        if strict:
            result.findings.raise_errors(RunError)
        return result

    def time(self, options=None, **changes):
        """The predicted time: numbers by name, `.ns`, `.us`; prints as `tandem time` does.

        Control flow that depends on data takes the values given while tracing, others are made up.
        """
        return _verbs.time(self, self.values, _options(options, changes), _finding)

    def report(self, path=None, options=None, **changes):
        """One self-contained HTML page: swaps, timeline, memory, findings. Written to `path` when there is one."""
        return Page(_verbs.report(self, self.values, _options(options, changes), path))

    def _collect(self, made, extra):
        """Arrays from bytes; of several ranks, a leading dimension is the rank."""
        outputs, updated = {}, {}
        if not made:
            return outputs, updated
        wanted = [(o.name, o.shape, o.dtype, outputs) for o in self.outputs]
        wanted += [(n, self.inputs[n].shape, self.inputs[n].dtype, updated) for n in extra]
        per = len(wanted)
        ranks = len(made) // per if per else 1
        for i, (name, shape, dtype, into) in enumerate(wanted):
            parts = []
            for r in range(ranks):
                data = made[r * per + i][2]
                parts.append(np.frombuffer(data, dtype=numpy_dtype(dtype)).reshape(shape))
            into[name] = parts[0] if ranks == 1 else np.stack(parts)
        for out in self.outputs:
            if out.alias is not None:
                updated[out.alias] = outputs[out.name].reshape(self.inputs[out.alias].shape)
        return outputs, updated

    def _simulate(self, options):
        return self._results(self.run(options=options))

    def _results(self, result, update=True):
        """What the kernel returns, of torch when an input is; the inputs it writes are updated, unless they are to stay."""
        as_torch = any(is_torch(v) for v in self.values.values())
        for name, new in result.updated.items():
            target = self.values[name]
            if update and target is not None and new.shape == tuple(self.inputs[name].shape):
                store_back(target, new)
        out = []
        for o in self.outputs:
            given = self.values[o.alias] if update and o.alias is not None else None
            if given is not None and not is_torch(given):
                out.append(given.reshape(o.shape))
                continue
            array = result.outputs[o.name]
            out.append(to_torch(array) if as_torch else array)
        if not out:
            return None
        return out[0] if len(out) == 1 else tuple(out)

    def _repr_html_(self):
        rows = "".join(
            f"<tr><td>{kind}</td><td>{html.escape(name)}</td><td>{dtype}</td><td>{list(shape)}</td></tr>"
            for kind, name, dtype, shape in [
                *(("input", n, s.dtype, s.shape) for n, s in self.inputs.items()),
                *(("output", o.name, o.dtype, o.shape) for o in self.outputs),
            ]
        )
        head = f"{html.escape(self.name)}: {self.cores} cores, {self.operators} operators"
        return f"<b>{head}</b><table>{rows}</table><pre>{html.escape(str(self.check()))}</pre>"


_OPTION_NAMES = {f.name for f in dataclasses.fields(Options)}
