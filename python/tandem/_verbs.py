"""Verbs of the bundled command for a traced kernel: predicted time and the report page.

The command runs as a process of its own on the saved file, so that Python, the command line and CI say the same.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from ._arrays import to_numpy
from .errors import Finding, RunError, TandemError

__all__ = ["Timing"]

#: Options that only a run has.
_RUN_ONLY = {"level", "schedule", "race_check", "uninit", "check", "progress"}


class Timing(dict):
    """A predicted time: the numbers of `tandem time --format json` as items; prints as the command does."""

    _again = None

    @property
    def text(self):
        """What the command prints; made when it is asked for."""
        files, argv = self._again
        return command(*argv)[1] if files else ""

    @property
    def ns(self):
        """Predicted time of the whole kernel in nanoseconds."""
        return self["total_ns"]

    @property
    def us(self):
        """The same in microseconds."""
        return self.ns / 1000.0

    def __str__(self):
        return self.text

    def json(self):
        """The numbers as JSON."""
        return json.dumps(self, sort_keys=True)

    def _repr_html_(self):
        import html

        return f"<pre>{html.escape(self.text)}</pre>"


def flags(options, target):
    """Options of the command line."""
    out = []
    for name, value in options._dict(target).items():
        if name in _RUN_ONLY or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        out += [flag] if value is True else [flag, str(value)]
    return out


class Files:
    """A kernel and its inputs as files of a folder that goes away."""

    def __init__(self, traced, values):
        self._folder = tempfile.TemporaryDirectory(prefix="tandem-")
        folder = pathlib.Path(self._folder.name)
        self.kernel = traced.save(folder / (traced.name.rpartition(".")[2] + ".klr"))
        self.inputs = []
        for i, (name, value) in enumerate(values.items()):
            if value is not None:
                path = folder / f"input{i}.npy"
                array = to_numpy(value)
                np.save(path, array.reshape(array.shape or (1,)))
                self.inputs += ["-i", f"{name}={path}"]
        if len(self.inputs) < 2 * len(traced.inputs):
            self.inputs += ["--random", "0"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()


def command(*argv):
    """Runs the command; `(exit code, standard output, standard error)`."""
    argv = [sys.executable, "-m", "tandem._command", *map(str, argv)]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def time(traced, values, options, finding):
    """The predicted time of a traced kernel."""
    files = Files(traced, values)
    argv = ["time", files.kernel, *files.inputs, *flags(options, traced.target)]
    code, out, err = command(*argv, "--format", "json")
    try:
        made = json.loads(out)
    except ValueError:
        raise TandemError([_failed(code, err)]) from None
    found = [finding(d) for d in made["diagnostics"]]
    if made["timing"] is None or any(d["severity"] == "error" for d in found):
        raise RunError(found)
    timing = Timing(made["timing"])
    # The folder lives as long as the value, for the text.
    timing._again = (files, argv)
    return timing


def _failed(code, err):
    """The finding of a command that gave nothing."""
    return Finding(code="T0006", severity="error", message=err.strip() or f"the command ended with code {code}")


def report(traced, values, options, path):
    """Writes the report page; the page's text."""
    with Files(traced, values) as f:
        page = pathlib.Path(path) if path is not None else f.kernel.with_suffix(".html")
        code, _, err = command("report", f.kernel, *f.inputs, *flags(options, traced.target), "-o", page)
        # Findings are part of the page; without a page something else is wrong.
        if not page.exists():
            raise TandemError([_failed(code, err)])
        return page.read_text(encoding="utf-8")
