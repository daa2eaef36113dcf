"""A traced kernel: saved, checked, run, explained."""

from __future__ import annotations

import pathlib

__all__ = ["Traced"]


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


