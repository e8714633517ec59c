"""Gradients of interpolation by the nearest element: what came of one element is added up.

Torch has kernels for these, and no form of other ops. A whole number of results of each element is a sum over a
dimension of that length; otherwise each result's place of origin takes it in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _gradient(shift: float) -> Callable[..., Tensor]:
    def gradient(given: Tensor, output_size: Sequence[int], input_size: Sequence[int], *scales: float | None) -> Tensor:
        wide = given.float() if given.dtype in (torch.float16, torch.bfloat16) else given
        scales = (*scales, *[None] * (len(output_size) - len(scales)))
        for axis, (out, scale) in enumerate(zip(output_size, scales), 2):
            size = int(input_size[axis])
            if out % size == 0 and (not scale or scale * size == out):
                wide = wide.reshape([*wide.shape[:axis], size, out // size, *wide.shape[axis + 1 :]]).sum(axis + 1)
                continue
            step = 1 / scale if scale else size / out  # torch's kernels count in float32
            places = (torch.arange(out, dtype=torch.float32, device=given.device) + shift) * step
            sums = wide.new_zeros([*wide.shape[:axis], size, *wide.shape[axis + 1 :]])
            wide = sums.index_add(axis, places.to(torch.int64).clamp_max(size - 1), wide)
        return wide.to(given.dtype)

    return gradient


def _decompositions() -> dict[Any, Any]:
    found = {}
    for name, shift in (("upsample_nearest", 0.0), ("_upsample_nearest_exact", 0.5)):
        for rank in (1, 2, 3):
            found[getattr(aten, f"{name}{rank}d_backward").default] = _gradient(shift)
    return found


DECOMPOSITIONS: dict[Any, Any] = _decompositions()
