"""Views whose conjugate or negative PyTorch takes late: what kernels are handed is memory as it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn.torch  # noqa: E402, F401


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(len(shape)))


SQUARE = drawn(4, 4)
BATCH = drawn(2, 4, 4)
ROW = SQUARE[0].clone()

READS: dict[str, Callable[..., Any]] = {
    "mm left": lambda a, b, v: torch.mm(a.conj(), a),
    "mm right": lambda a, b, v: torch.mm(a, a.mH),
    "mm both": lambda a, b, v: torch.mm(a.conj(), a.mH),
    "matmul": lambda a, b, v: b @ a.mH,
    "mv": lambda a, b, v: torch.mv(a.conj(), v.conj()),
    "dot": lambda a, b, v: torch.dot(v, v.conj()),
    "vdot": lambda a, b, v: torch.vdot(v.conj(), v),
    "bmm": lambda a, b, v: torch.bmm(b, b.mH),
    "addmm": lambda a, b, v: torch.addmm(a.conj(), a, a.mH, beta=2, alpha=1j),
    "baddbmm": lambda a, b, v: torch.baddbmm(b.conj(), b, b.mH),
    "einsum": lambda a, b, v: torch.einsum("bij,bkj->bik", b, b.conj()),
    "linear": lambda a, b, v: torch.nn.functional.linear(b, a.conj(), v.conj()),
    "cov": lambda a, b, v: torch.cov(a),
    "corrcoef": lambda a, b, v: torch.corrcoef(a),
    "inverse of a Gram matrix": lambda a, b, v: torch.linalg.inv(a @ a.mH + 4 * torch.eye(4, device=a.device)),
    "svd of a conjugate": lambda a, b, v: torch.linalg.svdvals(a.conj()),
    "triangular solve of a negative": lambda a, b, v: torch.linalg.solve_triangular(
        a.conj().imag.triu() + 3 * torch.eye(4, device=a.device), b.conj().imag[0], upper=True
    ),
    "negative alone": lambda a, b, v: torch.linalg.solve_triangular(
        torch._neg_view(a.real.tril() + 3 * torch.eye(4, device=a.device)), torch._neg_view(b[0].real), upper=False
    ),
    "several": lambda a, b, v: torch.cat([a.conj(), a, torch._neg_view(a)]),
    "reductions": lambda a, b, v: a.conj().sum(0) * torch._neg_view(a).prod(1),
}


def through(write: Callable[[Any, Any], object]) -> Callable[..., Any]:
    """What memory holds after a write through a view of it."""

    def run(a: Any, b: Any, v: Any) -> Any:
        held = a.clone()
        write(held, a)
        return held

    return run


WRITES = {
    "addmm_ of a conjugate": through(lambda held, a: held.conj().addmm_(a, a.mH)),
    "mm into a conjugate": through(lambda held, a: torch.mm(a, a, out=held.conj())),
    "mm into a negative": through(lambda held, a: torch.mm(a, a, out=torch._neg_view(held))),
    "mul_ of a conjugate": through(lambda held, a: held.conj().mul_(2j)),
    "copy_ into a conjugate": through(lambda held, a: held.conj()[0].copy_(a[1])),
    "fill_ of a conjugate": through(lambda held, a: held.conj().fill_(1 + 2j)),
    "conj_physical_ of a conjugate": through(lambda held, a: held.conj().conj_physical_()),
    "imaginary part": through(lambda held, a: held.conj().imag.add_(3)),
}


@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_eager_values_are_those_of_the_cpu(name: str) -> None:
    run = {**READS, **WRITES}[name]
    tensors = (SQUARE, BATCH, ROW)
    torch.testing.assert_close(run(*(each.to("neuron") for each in tensors)).cpu(), run(*tensors), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["mm both", "einsum", "linear", "cov", "negative alone"])
def test_gradients_are_those_of_the_cpu(name: str) -> None:
    def gradients(device: str) -> list[Any]:
        tensors = [each.clone().to(device).requires_grad_() for each in (SQUARE, BATCH, ROW)]
        READS[name](*tensors).abs().sum().backward()
        return [each.grad.cpu() for each in tensors if each.grad is not None]

    torch.testing.assert_close(gradients("neuron"), gradients("cpu"), rtol=1e-4, atol=1e-4)


def test_result_of_a_write_is_the_view_that_was_given() -> None:
    view = SQUARE.to("neuron").conj()
    assert view.addmm_(view, view) is view and view.is_conj()


@pytest.mark.parametrize("device", ["cpu", "neuron"])
@pytest.mark.parametrize("name", ["mm both", "several", "negative alone"])
def test_compiled_graphs_have_no_op_on_the_host(name: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    tensors = (SQUARE, BATCH, ROW)
    found = torch.compile(READS[name], backend="neuron")(*(each.to(device) for each in tensors))
    torch.testing.assert_close(found.cpu(), READS[name](*tensors), rtol=1e-4, atol=1e-4)
    assert "runs on the host" not in capfd.readouterr().err


SPREADS: dict[str, Callable[[Any], object]] = {
    "var": lambda a: a.var(),
    "var of rows": lambda a: a.var(1, unbiased=False),
    "var_mean": lambda a: torch.var_mean(a, 0),
    "std": lambda a: a.std(1, keepdim=True),
    "std_mean": lambda a: torch.std_mean(a, correction=2),
}


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_variances_of_complex_numbers_count_both_parts(name: str, is_compiled: bool) -> None:
    run = torch.compile(SPREADS[name], backend="neuron") if is_compiled else SPREADS[name]
    found, wanted = run(SQUARE.to("neuron")), SPREADS[name](SQUARE)
    torch.testing.assert_close(torch.utils._pytree.tree_map(torch.Tensor.cpu, found), wanted)
