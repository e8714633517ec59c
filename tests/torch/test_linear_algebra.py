"""Decompositions of matrices on the device, against LAPACK's through eager torch; nothing on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")

import opentrn.torch  # noqa: E402, F401

RNG = np.random.default_rng(0)
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="neuron", fullgraph=True)


def matrices(*shape: int) -> torch.Tensor:
    return torch.from_numpy(RNG.standard_normal(shape).astype(np.float32))


def positive(a: torch.Tensor) -> torch.Tensor:
    return a @ a.mT + torch.eye(a.shape[-1])


def without_signs(q: torch.Tensor) -> torch.Tensor:
    """Singular and eigenvectors are known but for the sign of each column."""
    return q * torch.sign(q.sum(-2, keepdim=True))


FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "cholesky": lambda a: torch.linalg.cholesky(positive(a)),
    "cholesky_solve": lambda a: torch.cholesky_solve(a[..., :2], torch.linalg.cholesky(positive(a).mT).mH, upper=True),
    "inv": torch.linalg.inv,
    "solve": lambda a: torch.linalg.solve(a, a[..., :3].cos()),
    "solve_from_the_right": lambda a: torch.linalg.solve(a, a[..., :3, :].cos(), left=False),
    "solve_triangular": lambda a: torch.linalg.solve_triangular(positive(a), a, upper=True),
    "det": torch.linalg.det,
    "slogdet": torch.linalg.slogdet,
    "lu": torch.linalg.lu,
    "qr": lambda a: torch.linalg.qr(a[..., :4]),
    "qr_complete": lambda a: torch.linalg.qr(a[..., :4], mode="complete"),
    "eigvalsh": lambda a: torch.linalg.eigvalsh(positive(a)),
    "eigh": lambda a: without_signs(torch.linalg.eigh(positive(a)).eigenvectors),
    "svdvals": lambda a: torch.linalg.svdvals(a[..., :4, :]),
    "svd": lambda a: [without_signs(each) for each in torch.svd(a[..., :4])[::2]],
    "pinv": lambda a: torch.linalg.pinv(a[..., :4]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_lapacks(name: str) -> None:
    a = matrices(2, 7, 7)
    ours, theirs = on_device(FUNCTIONS[name])(a), FUNCTIONS[name](a)
    as_lists = [list(each) if isinstance(each, tuple) else each for each in (ours, theirs)]
    torch.testing.assert_close(*as_lists, **CLOSE)


@pytest.mark.parametrize("name", ["cholesky", "solve", "det", "qr", "eigvalsh", "svdvals", "pinv"])
def test_gradients_are_lapacks(name: str) -> None:
    given = matrices(5, 5) + 3 * torch.eye(5)

    def loss(a: torch.Tensor) -> torch.Tensor:
        made = FUNCTIONS[name](a)
        parts = made if isinstance(made, (tuple, list)) else [made]
        return sum(each.sin().sum() for each in parts)

    gradients = []
    for function in (on_device(loss), loss):
        a = given.clone().requires_grad_()
        function(a).backward()
        gradients.append(a.grad)
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


def test_all_singular_vectors_of_a_matrix_of_low_rank_are_at_right_angles() -> None:
    a = matrices(9, 2) @ matrices(2, 6)
    u, s, vh = on_device(lambda a: torch.linalg.svd(a))(a)
    torch.testing.assert_close(u.mT @ u, torch.eye(9), **CLOSE)
    torch.testing.assert_close(vh @ vh.mT, torch.eye(6), **CLOSE)
    torch.testing.assert_close((u[:, :6] * s) @ vh, a, **CLOSE)
    assert float(s[2]) < 1e-5 * float(s[0])


@pytest.mark.parametrize("name", ["cholesky", "inv", "solve"])
def test_what_has_no_solution_is_torchs_error(name: str) -> None:
    bad = torch.zeros(2, 7, 7) if name != "cholesky" else -torch.eye(7).expand(2, 7, 7)
    function = torch.linalg.cholesky if name == "cholesky" else FUNCTIONS[name]
    with pytest.raises(torch.linalg.LinAlgError) as theirs:
        function(bad)
    with pytest.raises(torch.linalg.LinAlgError) as ours:
        on_device(function)(bad)
    assert str(ours.value) == str(theirs.value)


def test_the_minor_that_is_not_positive_is_named() -> None:
    a = torch.stack([torch.eye(4), torch.diag(torch.tensor([1.0, 2.0, -1.0, 1.0]))])
    assert on_device(lambda a: torch.linalg.cholesky_ex(a).info)(a).tolist() == [0, 3]


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("size", [1, 4, 37])
def test_places_in_sorted_rows(size: int, right: bool) -> None:
    rows = torch.from_numpy(np.sort(RNG.integers(0, 20, (3, size)), -1))
    values = torch.from_numpy(RNG.integers(-2, 22, (3, 50)))
    for table, given in ((rows, values), (rows[0], values), (rows.float(), values.float() + 0.5)):
        made = on_device(lambda t, v: torch.searchsorted(t, v, right=right))(table, given)
        assert torch.equal(made, torch.searchsorted(table, given, right=right))


def test_a_product_of_complex_vectors_conjugates_the_first() -> None:
    a, b = (torch.complex(matrices(5), matrices(5)) for _ in range(2))
    torch.testing.assert_close(on_device(torch.vdot)(a, b), torch.vdot(a, b), **CLOSE)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_factors_solve_op_by_op(upper: bool) -> None:
    factor, b = torch.linalg.cholesky(positive(matrices(2, 6, 6)), upper=upper), matrices(2, 6, 3)
    found = [
        torch.cholesky_solve(b.to("neuron"), factor.to("neuron"), upper=upper),
        torch.cholesky_inverse(factor.to("neuron"), upper=upper),
    ]
    wanted = [torch.cholesky_solve(b, factor, upper=upper), torch.cholesky_inverse(factor, upper=upper)]
    for a, e in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), e, **CLOSE)


@pytest.mark.parametrize("shape", [(5, 0), (2, 4, 0)])
def test_the_whole_q_of_a_matrix_without_columns_is_the_identity(shape: tuple[int, ...]) -> None:
    wanted = torch.linalg.qr(torch.zeros(shape), mode="complete")
    found = torch.linalg.qr(torch.zeros(shape, device="neuron"), mode="complete")
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)
