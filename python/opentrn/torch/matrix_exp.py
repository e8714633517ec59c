"""exp of matrices: Taylor's polynomial of the matrix over a power of two, squared as often.

The polynomial has 18 terms, whose sum is exact to float32 up to a norm of 3. How often a matrix is squared is a value:
the loop goes on until the largest of a batch is done, and leaves the others as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_TERMS = 18
# Up to this 1-norm 18 terms are exact to float32 (Bader, Blanes and Casas, 2019, as PyTorch's own kernel has it).
_NORM = 3.010066362817634


def _polynomial(a: Tensor) -> Tensor:
    """The first 18 powers of a, each over its factorial, and one: by the powers up to three, three at a time."""
    one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    square = a @ a
    powers = [one, a, square]
    cube = square @ a

    def part(k: int) -> Tensor:
        """Of the powers 3 k, 3 k + 1 and 3 k + 2, over the cube's k-th power."""
        factors = [1 / math.factorial(3 * k + i) for i in range(3)]
        return powers[0] * factors[0] + powers[1] * factors[1] + powers[2] * factors[2]

    total = one * (1 / math.factorial(_TERMS))
    for k in reversed(range(_TERMS // 3)):
        total = cube @ total + part(k)
    return total


def matrix_exp(a: Tensor) -> Tensor:
    """aten.linalg_matrix_exp"""
    size = a.shape[-1]
    if not a.numel():
        return a.clone()
    if size == 1:
        return a.exp()
    wide = a if a.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128) else a.to(torch.float32)
    matrices = wide.reshape(-1, size, size)
    norm = matrices.abs().sum(-2).amax(-1)
    # A norm that is infinite or no number makes no more squares: the polynomial has such numbers already.
    is_finite = norm < float("inf")
    often = torch.where(is_finite, torch.log2(norm / _NORM).ceil().clamp(min=0), 0.0).to(torch.int32)
    scale = torch.exp2(-often.to(norm.dtype)).to(wide.dtype)
    start = _polynomial(matrices * scale.reshape(-1, 1, 1))
    most = often.amax()

    def goes_on(i: Tensor, _: Tensor, times: Tensor, last: Tensor) -> Tensor:
        return i < last

    def step(i: Tensor, x: Tensor, times: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, torch.where(i < times.reshape(-1, 1, 1), x @ x, x)

    first = torch.zeros((), dtype=torch.int32, device=a.device)
    loop: Any = torch.ops.higher_order.while_loop
    _, made = loop(goes_on, step, (first, start), (often, most))
    return made.reshape(a.shape).to(a.dtype)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {aten.linalg_matrix_exp.default: matrix_exp}
