"""numpy dtypes for arrays of the packed x4 types, and the dtype names that numpy does not know by itself.

An `_x4` element is four packed 8- or 4-bit floats. On the host it is a numpy dtype of its own that stores
bits: its name is the NKI name, it reinterprets with `.view(np.uint32)`, and it refuses arithmetic casts
(`astype(float32)` raises TypeError) instead of giving wrong numbers; `neuron_dtypes.static_cast` unpacks it.

Importing this module makes `np.dtype(nl.float8_e4m3fn_x4)` and `np.zeros(n, dtype=nl.tfloat32)` work, by
adding the names to `np.sctypeDict`, as ml_dtypes does for its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.nki._numpy_dtype import register_storage_dtype
from opentrn.types import dtypes

float8_e4m3fn_x4 = register_storage_dtype("float8_e4m3fn_x4", np.dtype(np.uint32), "X")
float8_e5m2_x4 = register_storage_dtype("float8_e5m2_x4", np.dtype(np.uint32), "Y")
float4_e2m1fn_x4 = register_storage_dtype("float4_e2m1fn_x4", np.dtype(np.uint16), "Z")

BY_NAME: dict[str, np.dtype] = {
    "float8_e4m3fn_x4": float8_e4m3fn_x4,
    "float8_e5m2_x4": float8_e5m2_x4,
    "float4_e2m1fn_x4": float4_e2m1fn_x4,
}

# np.dtype() takes dtypes from this table too, whatever type numpy's stubs give it.
_dtypes: dict[str, Any] = np.sctypeDict
for _name, _dtype in BY_NAME.items():
    _dtypes.setdefault(_name, _dtype)
_dtypes.setdefault("tfloat32", np.dtype(np.float32))
_dtypes.setdefault("bool_", np.dtype(np.bool_))


def host_dtype(dtype) -> np.dtype:
    """The numpy dtype of a host array of `dtype`.

    Structured for x4, bool for bool_, else the storage dtype.
    """
    name = dtypes.dtype_of(dtype)
    if name in BY_NAME:
        return BY_NAME[name]
    return np.dtype(np.bool_) if name == dtypes.bool_ else dtypes.to_numpy_dtype(name)


def packed_name(dtype: np.dtype) -> str | None:
    """The NKI name of a packed host dtype, or None for an ordinary one."""
    return getattr(dtype.type, "nki_dtype", None)
