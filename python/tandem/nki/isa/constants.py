"""Enumerations of `nki.isa`."""

from ..._enums import *  # noqa: F403
