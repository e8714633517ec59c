"""Linear algebra taken apart into the decompositions that have rules (ops/triangular.py, ops/decompositions.py).

As torch's own CPU kernels do it (2.13): the backward pass of `det` reads the factors and takes them, where the matrix
is real and contiguous, for those of its transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _factors_for_det(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return aten.linalg_lu_factor_ex(a.mT if a.is_contiguous() and not a.is_complex() else a)


def _solve(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """aten._linalg_solve_ex: (X, LU, pivots, info)"""
    packed, pivots, info = aten.linalg_lu_factor_ex(a)
    if check_errors:
        aten._linalg_check_errors(info, "torch.linalg.solve_ex", is_matrix=a.dim() == 2)
    is_vector = b.dim() == 1 or a.dim() - 1 == b.dim() and b.shape == a.shape[:-1]
    given = b.unsqueeze(-1) if is_vector else b
    made = aten.linalg_lu_solve(packed, pivots, given, left=left)
    return made.squeeze(-1) if is_vector else made, packed, pivots, info


def _inverse(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """aten.linalg_inv_ex: (inverse, info)"""
    packed, pivots, info = aten.linalg_lu_factor_ex(a)
    if check_errors:
        aten._linalg_check_errors(info, "torch.linalg.inv_ex", is_matrix=a.dim() == 2)
    one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    return aten.linalg_lu_solve(packed, pivots, one), info


def _sign_of_exchanges(pivots: Tensor) -> Tensor:
    """1 or -1, int64."""
    places = torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    return 1 - 2 * ((pivots != places).sum(-1) % 2)


def _det(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """aten._linalg_det: (determinant, LU, pivots)"""
    packed, pivots, _ = _factors_for_det(a)
    diagonal = packed.diagonal(0, -2, -1)
    return diagonal.prod(-1) * _sign_of_exchanges(pivots).to(a.dtype), packed, pivots


def _slogdet(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """aten._linalg_slogdet: (sign, logarithm of the determinant's size, LU, pivots)"""
    packed, pivots, _ = _factors_for_det(a)
    diagonal = packed.diagonal(0, -2, -1)
    sign = diagonal.sgn().prod(-1) * _sign_of_exchanges(pivots).to(a.dtype)
    return sign, diagonal.abs().log().sum(-1), packed, pivots


def _tolerance(a: Tensor, atol: Tensor | None, rtol: Tensor | None, largest: Tensor) -> Tensor:
    """[..., 1]: what of singular values counts as zero; torch's defaults."""
    usual = torch.finfo(a.dtype).eps * max(a.shape[-2:])
    if rtol is None:
        rtol = torch.full((), usual, dtype=largest.dtype, device=a.device)
        if atol is not None:
            rtol = torch.where(atol > 0, 0.0, rtol)
    relative = rtol.unsqueeze(-1) * largest
    return relative if atol is None else torch.maximum(atol.unsqueeze(-1).to(relative.dtype), relative)


def _pinv(
    a: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """aten.linalg_pinv: by eigenvalues of Hermitian matrices, by singular values of others."""
    if not a.numel():
        return a.new_zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    if hermitian:
        values, u = aten._linalg_eigh(a)
        v = u
    else:
        u, values, vh = aten._linalg_svd(a)
        v = vh.mH
    sizes = values.abs()
    is_zero = sizes <= _tolerance(a, atol, rtol, sizes.amax(-1, keepdim=True))
    inverse = torch.where(is_zero, 0.0, values.reciprocal()).to(a.dtype)
    return (v * inverse.unsqueeze(-2)) @ u.mH


def _cholesky_solve(b: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """aten._cholesky_solve_helper: by the one triangular factor, then by the other."""
    first, then = (factor.mH, factor) if upper else (factor, factor.mH)
    return torch.linalg.solve_triangular(
        then, torch.linalg.solve_triangular(first, b, upper=False), upper=True
    )


def _cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    one = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device).expand(factor.shape)
    return _cholesky_solve(one, factor.triu() if upper else factor.tril(), upper)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten._cholesky_solve_helper.default: _cholesky_solve,
    aten.cholesky_inverse.default: _cholesky_inverse,
    aten._linalg_solve_ex.default: _solve,
    aten.linalg_inv_ex.default: _inverse,
    aten._linalg_det.default: _det,
    aten._linalg_slogdet.default: _slogdet,
    aten.linalg_pinv.atol_rtol_tensor: _pinv,
}
