"""Comparisons of two tensors, or of a tensor and a number, in the type that torch says joins them."""

from __future__ import annotations

from typing import Any

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value
from opentrn.torch.types import promoted


def _comparison(direction: str, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
        dtype = promoted(left, right)
        a, b = body.tensor(left, dtype, out.shape), body.tensor(right, dtype, out.shape)
        return body.compare(direction, a, b)


for _direction in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_direction.upper(), f"{_direction}.Tensor", f"{_direction}.Scalar", f"prims.{_direction}")
