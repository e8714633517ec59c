"""Ops whose numbers are inputs of their programs: an optimizer's step sizes change at every step.

Each is written with tensors of no dimensions in place of those numbers. Low precisions compute in float32 and round
once, as torch's kernels do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from opentrn.torch.types import math_dtype


def _wide(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(each.to(math_dtype(each.dtype)) for each in tensors)


def _result(value: Tensor, *tensors: Tensor) -> Tensor:
    dtype = tensors[0].dtype
    for each in tensors[1:]:
        dtype = torch.promote_types(dtype, each.dtype)
    return value.to(dtype)


def _terms(left: Tensor, right: Any, alpha: Any) -> tuple[Tensor, Any, torch.dtype]:
    """Terms of a sum, and its type. Beside tensors of 16 bits torch rounds numbers to that type, and the sum once."""
    dtype = torch.result_type(left, right)
    if dtype not in (torch.float16, torch.bfloat16):
        return left, right * alpha, dtype
    a, b, factor = (each.to(dtype).float() if isinstance(each, Tensor) else each for each in (left, right, alpha))
    return a, b * factor, dtype


def add(left: Tensor, right: Any, *, alpha: Any = 1) -> Tensor:
    a, b, dtype = _terms(left, right, alpha)
    return (a + b).to(dtype)


def sub(left: Tensor, right: Any, *, alpha: Any = 1) -> Tensor:
    a, b, dtype = _terms(left, right, alpha)
    return (a - b).to(dtype)


def addcmul(x: Tensor, left: Tensor, right: Tensor, *, value: Any = 1) -> Tensor:
    a, b, c = _wide(x, left, right)
    if not any(each.is_floating_point() or each.is_complex() for each in (a, b, c)):
        value = value.trunc()  # whole numbers are multiplied with the whole part
    return _result(a + value * b * c, x, left, right)


def addcdiv(x: Tensor, left: Tensor, right: Tensor, *, value: Any = 1) -> Tensor:
    a, b, c = _wide(x, left, right)
    return _result(a + value * (b / c), x, left, right)


def lerp(start: Tensor, end: Tensor, weight: Any) -> Tensor:
    a, b = _wide(start, end)
    near = weight.abs() < 0.5
    return _result(torch.where(near, a + weight * (b - a), b - (b - a) * (1 - weight)), start, end)


def fill(x: Tensor, value: Any) -> Tensor:
    return value.to(x.dtype).expand(x.shape)


# By the name of the overload that mutates or writes `out`, and of the functional one.
FORMS: dict[str, Callable[..., Tensor]] = {}
for _name, _form, _overload in (
    ("add", add, "Tensor"), ("sub", sub, "Tensor"), ("addcmul", addcmul, ""), ("addcdiv", addcdiv, ""),
    ("lerp", lerp, "Scalar"), ("fill", fill, "Scalar"),
):  # fmt: skip
    _dot = f".{_overload}" if _overload else ""
    FORMS[f"aten::{_name}{_dot}"] = FORMS[f"aten::{_name}_{_dot}"] = _form
    FORMS[f"aten::{_name}.{'Scalar_out' if _overload == 'Scalar' else 'out'}"] = _form
