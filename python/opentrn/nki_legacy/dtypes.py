"""Dtypes of NKI 0.1, which are numpy dtypes, and its type promotion.

Source: nki/api/nki.api.shared.rst at 1db4d74e, "Supported Data Types" and "NKI Type Promotion".
"""

from __future__ import annotations

import functools
import os
from typing import Any

import ml_dtypes
import numpy as np

from opentrn.errors import NkiValidationError
from opentrn.types.dtypes import DType, dtype_of, is_float, to_numpy_dtype

bool_ = np.bool_
int8 = np.int8
int16 = np.int16
int32 = np.int32
uint8 = np.uint8
uint16 = np.uint16
uint32 = np.uint32
float16 = np.float16
float32 = np.float32
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3 = np.dtype(ml_dtypes.float8_e4m3)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
tfloat32 = np.dtype("V4")  # numpy has no such type: four bytes

_FP32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)


def host_dtype(dtype: Any) -> np.dtype:
    """The numpy dtype that stands for `dtype` (numpy or ml_dtypes, a DType or a name) in this dialect."""
    if isinstance(dtype, np.dtype):
        return dtype
    if isinstance(dtype, str):
        name = dtype_of(dtype)
        if name == "tfloat32":
            return tfloat32
        return np.dtype(np.bool_) if name == "bool_" else to_numpy_dtype(name)
    try:
        return np.dtype(dtype)
    except TypeError:
        return host_dtype(str(dtype_of(dtype)))


def device_dtype(dtype: Any) -> DType:
    """The dtype that the machine knows `dtype` by."""
    return _device_dtype(host_dtype(dtype))


@functools.lru_cache(maxsize=256)
def _device_dtype(dtype: np.dtype) -> DType:
    if dtype == tfloat32:
        return dtype_of("tfloat32")
    try:
        return dtype_of(dtype)
    except TypeError:
        raise NkiValidationError(f"{dtype} is not an NKI dtype", label="dtype.unknown") from None


WIDE_ENV = "OPENTRN_NKI01_CUSTOM_DTYPES"


def tile_dtype(dtype: Any, on_chip: bool) -> np.dtype:
    """The dtype that a tensor asked for as `dtype` gets: that one, or float32 for a custom float on chip.

    The simulator of NKI 0.1 keeps tiles of the dtypes that numpy lacks in float32 (nki_known_issues.rst at
    1db4d74e, "Custom data types like nl.float32r, nl.bfloat16, nl.float8_e4m3, and nl.float8_e5m2 simulate in
    fp32 precision"). The device rounds, and so does OpenTrn, unless OPENTRN_NKI01_CUSTOM_DTYPES=fp32 asks for
    that simulator's results.
    """
    mode = os.environ.get(WIDE_ENV, "")
    if mode not in ("", "fp32"):
        raise NkiValidationError(f"{WIDE_ENV} is {mode!r}", label="environment", hint="fp32, or unset it")
    dtype = host_dtype(dtype)
    custom = dtype == tfloat32 or (is_floating(dtype) and dtype.type.__module__ != "numpy")
    return _FP32 if mode and on_chip and custom else dtype


def is_floating(dtype: Any) -> bool:
    return is_float(device_dtype(dtype))


def _float_promotion(a: np.dtype, b: np.dtype) -> np.dtype:
    if a.itemsize == b.itemsize:
        # Two 8-bit formats widen to bfloat16, two 16-bit ones to float32; tfloat32 meets float32 in float32.
        return bfloat16 if a.itemsize == 1 else _FP32
    return a if a.itemsize > b.itemsize else b


def promote(a: Any, b: Any) -> np.dtype:
    """Result dtype of an arithmetic operation on dtypes `a` and `b`."""
    a, b = host_dtype(a), host_dtype(b)
    if a == b:
        return a
    if is_floating(a) and is_floating(b):
        return _float_promotion(a, b)
    if is_floating(a) or is_floating(b):
        return a if is_floating(a) else b
    a, b = (np.dtype(np.uint8) if d == np.bool_ else d for d in (a, b))
    wide = np.promote_types(a, b)
    return _FP32 if wide.itemsize > 4 else wide  # no int64 on the device


def scalar_dtype(value: Any) -> np.dtype:
    """Dtype of a scalar operand: its own for numpy scalars; uint8, int32 or float32 for Python's."""
    if isinstance(value, (bool, np.bool_)):
        return np.dtype(np.uint8)
    if isinstance(value, np.generic):
        return _FP32 if value.dtype == np.float64 else _INT32 if value.dtype == np.int64 else value.dtype
    if isinstance(value, int):
        return _INT32
    if isinstance(value, float):
        return _FP32
    raise NkiValidationError(f"{value!r} is not a scalar operand", label="nki.operand")


def static_cast(input_data: Any, dtype: Any) -> Any:
    """A scalar or array as another dtype, on the host."""
    return np.asarray(input_data).astype(host_dtype(dtype))


def finfo(dtype: Any) -> Any:
    """Limits of a float dtype, as numpy.finfo."""
    return ml_dtypes.finfo(host_dtype(dtype))


class _Fp32:
    min = float(np.finfo(np.float32).min)


class _Bfp16:
    # Bit pattern 0xff80 as documented, which is minus infinity, not the smallest finite bfloat16.
    min = float("-inf")


fp32 = _Fp32()
bfp16 = _Bfp16()
