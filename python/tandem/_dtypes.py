"""Element types by the names kernels use."""

from __future__ import annotations

import numpy as _np


def dtype_name(dtype):
    """The kernel's name of an element type given as a name, a numpy type or a torch type; None if it is none."""
    if isinstance(dtype, str):
        name = dtype
    elif type(dtype).__module__ == "torch":
        name = str(dtype).removeprefix("torch.")
    else:
        try:
            made = _np.dtype(dtype)
            name = made.name
            if made.names and made.itemsize == _PACKED.get(made.names[0]) and len(made.names) == 1:
                # A packed type is a structure of one field of its name.
                name = made.names[0]
        except TypeError:
            name = getattr(dtype, "__name__", str(dtype))
    name = {"bool_": "bool", "float8_e4m3b11fnuz": None}.get(name, name)
    return name if name in _ELEMENTS else None


#: Bytes of the packed types.
_PACKED = {"float8_e4m3fn_x4": 4, "float8_e5m2_x4": 4, "float4_e2m1fn_x4": 2}

_ELEMENTS = frozenset(
    """bfloat16 bool float16 float32 float4_e2m1fn_x4 float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3fn_x4
    float8_e5m2 float8_e5m2_x4 float8_e8m0fnu int16 int32 int64 int8 tfloat32 uint16 uint32 uint64 uint8""".split()
)
