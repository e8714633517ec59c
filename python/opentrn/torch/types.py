"""Element types of torch, of StableHLO and of a NeuronCore, and how types of several operands join.

A device has no 64-bit types: int64 is held as int32, float64 as float32 and complex128 as complex64
(docs/pytorch.md); results come back in the type that torch states.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any, cast

import torch

from opentrn import _core

aten = _core.aten  # said by _core, where a build has none

ELEMENTS: dict[torch.dtype, str] = {
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "ui8",
    torch.uint16: "ui16",
    torch.uint32: "ui32",
    torch.uint64: "ui64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.float8_e4m3fnuz: "f8E4M3FNUZ",
    torch.float8_e5m2fnuz: "f8E5M2FNUZ",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
}


def is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def integer_range(dtype: torch.dtype) -> tuple[int, int]:
    """The lowest and the highest value on a device."""
    return aten.integer_range(dtype)


def math_dtype(dtype: torch.dtype) -> torch.dtype:
    """What a formula of several steps is computed in: fp32 for narrower floats, as torch's own kernels do."""
    return torch.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype


@functools.cache
def _promoted(left: torch.dtype, left_rank: bool, right: Any, right_rank: bool) -> torch.dtype:
    def like(what: Any, has_rank: bool) -> Any:
        return torch.empty((1,) if has_rank else (), dtype=what, device="meta")

    scalar = {int: 1, float: 1.0, bool: True, complex: 1j}
    second = scalar[right] if right in scalar else like(right, right_rank)
    return torch.result_type(like(left, left_rank), second)


def promoted(*operands: Any) -> torch.dtype:
    """torch's result type of tensors and Python numbers: tensors of no dimension and numbers give way.

    AssertionError without a tensor.
    """
    tensors = [value for value in operands if hasattr(value, "dtype")]
    numbers = [value for value in operands if not hasattr(value, "dtype")]
    if not tensors:
        raise AssertionError("promoted() takes at least one tensor")
    # result_type() of pairs is not associative where ranks differ: those with dimensions come first.
    tensors.sort(key=lambda value: len(value.shape) == 0)
    dtype, has_rank = tensors[0].dtype, bool(tensors[0].shape)
    for value in tensors[1:]:
        dtype = _promoted(dtype, has_rank, value.dtype, bool(value.shape))
    for number in numbers:
        dtype = _promoted(dtype, has_rank, cast(Hashable, type(number)), False)
    return dtype


def bytes_of(flat: torch.Tensor) -> bytes:
    """Of a tensor's elements, one after the other."""
    return flat.clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().tobytes()


def _byte_of(number: float, dtype: torch.dtype) -> int:
    """A number as a float of one byte."""
    return bytes_of(torch.tensor([number]).to(dtype))[0]


# Before 2.13 torch converted what is out of float8_e4m3fn's range to NaN.
aten.know_torch(list(ELEMENTS.items()), _byte_of, not torch.tensor(1e4).to(torch.float8_e4m3fn).isnan().item())
