"""Reading operands as float32 and rounding results once to the destination's format.

The contract (design.md section 4): arithmetic instructions compute in float32 and round once, to nearest
even, to the destination's dtype. What overflow does, per format:
- float16, bfloat16, float8_e5m2, float8_e4m3 (max 240), float8_e3m4: infinity. The documents say so for a
  downcast of FP32_MIN (nisa.range_select, "Note on numerical stability").
- float8_e4m3fn has no infinity: NaN, as ml_dtypes and the OCP table without saturation do.
- integers: round to nearest even, saturate, NaN gives 0. No public document states it; assumed.
- tfloat32: rounded to 10 mantissa bits, stored in 4 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, require
from opentrn.oracle.tensor import ENGINE_GROUP, NkiTensor
from opentrn.types.dtypes import dtype_of, is_integer, is_packed_x4, to_numpy_dtype


def round_tfloat32(values: np.ndarray) -> np.ndarray:
    """float32 rounded to nearest even at 10 mantissa bits; NaN and infinity stay."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x0FFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)


def cast_from_f32(values: np.ndarray, dtype: Any) -> np.ndarray:
    """float32 to the storage format of `dtype`, one rounding (see the table above)."""
    dtype = dtype_of(dtype)
    if dtype == "float32":
        return values
    if dtype == "tfloat32":
        return round_tfloat32(values)
    target = to_numpy_dtype(dtype)
    if is_packed_x4(dtype):
        raise NkiValidationError(f"{dtype} has no conversion from float32: use quantize_mx")
    with np.errstate(all="ignore"):
        if is_integer(dtype):
            limits = np.iinfo(target)
            # float64 holds every 32-bit limit; for 64-bit types the top is the next lower double.
            top = float(limits.max) if target.itemsize < 8 else np.nextafter(float(limits.max), 0.0)
            rounded = np.clip(np.rint(values.astype(np.float64)), float(limits.min), top)
            return np.where(np.isnan(rounded), 0, rounded).astype(target)
        return values.astype(target)


def load_f32(tensor: NkiTensor, group: int = ENGINE_GROUP) -> np.ndarray:
    """The tensor's elements as float32, shaped like the view (a view of the storage when it is float32)."""
    if is_packed_x4(tensor.dtype):
        raise NkiValidationError(f"{tensor!r} holds packed values: only nc_matmul_mx and copies read them")
    with np.errstate(all="ignore"):
        return tensor.numpy_or_gather(group).astype(np.float32, copy=False)


def rows_f32(tensor: NkiTensor, group: int = ENGINE_GROUP) -> np.ndarray:
    """The tensor's elements as float32 [partitions, elements per partition]."""
    return load_f32(tensor, group).reshape(tensor.shape[0], -1)


def rows_raw(tensor: NkiTensor, group: int = ENGINE_GROUP) -> np.ndarray:
    """The tensor's elements in their storage format, [partitions, elements per partition]."""
    return tensor.numpy_or_gather(group).reshape(tensor.shape[0], -1)


def store(dst: NkiTensor, values: np.ndarray, group: int = ENGINE_GROUP) -> None:
    """Round float32 `values` to the destination's dtype and write them; reshaped when the counts agree."""
    values = cast_from_f32(np.asarray(values, np.float32), dst.dtype)
    dst.write(values.reshape(dst.shape) if values.size == dst.size else values, group)


def store_raw(dst: NkiTensor, values: np.ndarray, group: int = ENGINE_GROUP) -> None:
    """Write values that are already in the destination's storage format."""
    dst.write(values.reshape(dst.shape) if values.size == dst.size else values, group)


def scalar_or_vector(operand: Any, partitions: int, what: str) -> np.ndarray | np.float32:
    """An immediate as float32, or a [partitions, 1] tile as float32 [partitions, 1]."""
    if isinstance(operand, NkiTensor):
        require(
            operand.size == operand.shape[0] and operand.shape[0] in (partitions, 1),
            f"{what}: {operand!r} must have one element in each of {partitions} partitions",
        )
        return load_f32(operand).reshape(-1, 1)
    return np.float32(operand)


def same_elements(instruction: str, dst: NkiTensor, *sources: NkiTensor) -> None:
    """Every tile has the destination's partitions and elements per partition."""
    for src in sources:
        require(
            src.shape[0] == dst.shape[0] and src.size == dst.size,
            f"{instruction}: {src!r} and dst {dst!r} must have equal partitions and elements per partition",
        )
