"""Exceptions. Each carries findings as data, and the lines of the kernel they speak about."""

from __future__ import annotations

import json as _json
import linecache

from ._core import FieldError, TraceError

__all__ = [
    "CheckError",
    "Finding",
    "KernelError",
    "RunError",
    "TandemError",
    "TraceError",
    "FieldError",
    "TRACE_CODES",
]

#: Codes of what can go wrong while a kernel is traced.
TRACE_CODES = {
    "T0001": "a call names an argument the function does not have, or leaves one out",
    "T0002": "an operand does not fit its argument",
    "T0003": "KLR has no operator or field for this",
    "T0004": "control flow that cannot be captured by running the kernel",
    "T0005": "the cores' traces do not fit together",
    "T0006": "the kernel's inputs or outputs cannot be passed",
    "T0007": "a view or an allocation is not possible",
    "T0008": "a function of a kernel was called outside a kernel",
}


class Finding(dict):
    """One finding: `code`, `severity`, `message`, `file`, `line`, `column`, `notes`, `help` as items and attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self):
        out = [f"{self.get('severity', 'error')}[{self['code']}]: {self['message']}"]
        for site in [self, *self.get("sites", ())]:
            file, line = site.get("file"), site.get("line")
            if not file:
                continue
            label = site.get("label")
            out.append(f"  --> {file}:{line}" + (f" ({label})" if label else ""))
            source = linecache.getline(file, line or 0).strip()
            if source:
                out.append(f"      {source}")
        out += [f"  note: {n}" for n in self.get("notes", ())]
        if self.get("help"):
            out.append(f"  help: {self['help']}")
        return "\n".join(out)


class TandemError(Exception):
    """Base of all errors about kernels."""

    def __init__(self, findings):
        self.findings = [f if isinstance(f, Finding) else Finding(f) for f in findings]
        super().__init__("\n".join(str(f) for f in self.findings))

    @property
    def code(self):
        """Code of the first finding of severity error."""
        for f in self.findings:
            if f.get("severity", "error") == "error":
                return f["code"]
        return self.findings[0]["code"] if self.findings else None

    def json(self):
        """The findings as a JSON text."""
        return _json.dumps(self.findings, sort_keys=True)


class KernelError(TandemError):
    """The kernel cannot be traced."""

    def __init__(self, code, message, *, function=None, argument=None, file=None, line=None, sites=(), help=None):
        self.function, self.argument, self.file, self.line = function, argument, file, line
        if function and argument:
            message = f"{function}: argument `{argument}`: {message}"
        elif function:
            message = f"{function}: {message}"
        finding = {"code": code, "severity": "error", "message": message, "file": file, "line": line}
        if sites:
            finding["sites"] = list(sites)
        if help:
            finding["help"] = help
        super().__init__([finding])


class CheckError(TandemError):
    """A check found errors."""


class RunError(TandemError):
    """A run found errors: a race, a deadlock, a fault."""
