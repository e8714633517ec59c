"""Stand-in for `neuron_dtypes`: numpy dtypes of Neuron formats and casts between them.

Shapes: a cast to an `_x4` type packs the last dimension by four, a cast from one unpacks it. Rounding is to
nearest even; values outside a format's range follow ml_dtypes (infinity where the format has one, else
NaN). Source: the uses in nki-library's tests; the package itself is not published.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from opentrn.errors import InputError
from opentrn.nki import _x4
from opentrn.types import dtypes as _dtypes

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
bfloat16 = ml_dtypes.bfloat16
tfloat32 = np.float32  # stored in 32 bits
float8_e3m4 = ml_dtypes.float8_e3m4
float8_e4m3 = ml_dtypes.float8_e4m3
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e5m2 = ml_dtypes.float8_e5m2
float8_e8m0fnu = ml_dtypes.float8_e8m0fnu
float8_e4m3fn_x4 = _x4.float8_e4m3fn_x4
float8_e5m2_x4 = _x4.float8_e5m2_x4
float4_e2m1fn_x4 = _x4.float4_e2m1fn_x4

_TABLE_FROM = 1 << 20  # elements: below this a table costs more than it saves


def _name(dtype: Any) -> _dtypes.DType | None:
    """The NKI dtype that a dtype, type, name or x4 dtype stands for; None for a foreign one."""
    packed = getattr(getattr(dtype, "type", dtype), "nki_dtype", None)
    try:
        return _dtypes.dtype_of(packed or dtype)
    except TypeError:
        return None


def _host_dtype(dtype: Any) -> np.dtype:
    name = _name(dtype)
    return np.dtype(dtype) if name is None else _x4.host_dtype(name)


def static_cast(value: Any, dtype: Any) -> np.ndarray:
    """`value` converted to `dtype`, value by value; packs or unpacks the last dimension for `_x4` types."""
    array = np.asarray(value)
    target = _name(dtype)
    source_packed = _x4.packed_name(array.dtype)
    if source_packed is not None:
        if target == source_packed:
            return array
        storage = array.view(_dtypes.to_numpy_dtype(source_packed))
        array = _dtypes.unpack_x4(storage, source_packed)
        array = array.reshape(*array.shape[:-2], -1)
    if target is not None and _dtypes.is_packed_x4(target):
        if array.shape[-1] % 4:
            raise InputError(
                f"a cast to {target} packs the last dimension by 4; it has {array.shape[-1]} elements",
                label="dtype.packed", hint="pad the last dimension",
            )
        groups = array.astype(np.float32).reshape(*array.shape[:-1], array.shape[-1] // 4, 4)
        return _dtypes.pack_x4(groups, target).view(_x4.host_dtype(target))
    host = _host_dtype(dtype)
    if target == _dtypes.tfloat32:
        return _round_to_tfloat32(array.astype(np.float32))
    if array.dtype == host:
        return array
    if array.dtype.itemsize <= 2 and array.size >= _TABLE_FROM:
        table = _cast_table(array.dtype, host)
        return table[np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")]
    return _cast(array, host)


def _cast(array: np.ndarray, host: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(host)


@functools.cache
def _cast_table(source: np.dtype, target: np.dtype) -> np.ndarray:
    """The cast of every bit pattern of a format of one or two bytes: looked up four times faster than cast."""
    patterns = np.arange(256**source.itemsize, dtype=f"u{source.itemsize}").view(source)
    return _cast(patterns, target)


def _round_to_tfloat32(array: np.ndarray) -> np.ndarray:
    """fp32 rounded to 10 mantissa bits, to nearest even; infinities and NaN unchanged."""
    bits: np.ndarray = array.view(np.uint32)
    dropped = 13
    rounded = bits + ((1 << (dropped - 1)) - 1) + ((bits >> dropped) & 1)
    rounded &= np.uint32(0xFFFFFFFF ^ ((1 << dropped) - 1))
    return np.where(np.isfinite(array), rounded.view(np.float32), array).astype(np.float32)


def sizeinbytes(dtype: Any) -> int:
    """Bytes of one element."""
    return _host_dtype(dtype).itemsize


def is_float_type(dtype: Any) -> bool:
    """True for scalar floating-point formats, fp8 and bfloat16 included."""
    name = _name(dtype)
    return np.issubdtype(dtype, np.floating) if name is None else _dtypes.is_float(name)


def is_integer_type(dtype: Any) -> bool:
    """True for integer formats."""
    name = _name(dtype)
    return np.issubdtype(dtype, np.integer) if name is None else _dtypes.is_integer(name)


def finfo(dtype: Any) -> Any:
    """Limits of a floating-point format, as ml_dtypes.finfo; of an `_x4` type those of its element."""
    name = _name(dtype)
    elements = {
        "float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn,
        "float8_e5m2_x4": ml_dtypes.float8_e5m2,
        "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn,
    }
    return ml_dtypes.finfo(elements[name] if name in elements else _host_dtype(dtype))
