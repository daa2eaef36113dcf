"""Plug-in for the vendor kernel library's own tests: `pytest -p tandem.nki.pytest --test-mode=simulation`."""

from . import shim

shim.install()
