"""NKI kernels called with torch tensors inside torch.compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tensors are torch's")

import opentrn  # noqa: E402
import opentrn.nki as nki  # noqa: E402
import opentrn.nki.isa as nisa  # noqa: E402
import opentrn.nki.language as nl  # noqa: E402
import opentrn.nki_legacy as legacy  # noqa: E402
import opentrn.torch  # noqa: E402, F401

RNG = np.random.default_rng(0)


@nki.jit
def mixed(a, b, scale):
    """(a + scale b, scale b) for tiles of 128 rows."""
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    scaled = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_scalar(y, y, nl.multiply, scale)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=total, src=x)
    nisa.dma_copy(dst=scaled, src=y)
    return total, scaled


class Mixed(torch.autograd.Function):
    """The kernel's derivative is its author's to say."""

    @staticmethod
    def forward(context: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return mixed(a, b, scale=3.0)[0]

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return gradient, mixed(gradient, gradient, scale=3.0)[1]


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()


def operands() -> list[torch.Tensor]:
    return [torch.from_numpy(RNG.standard_normal((128, 48)).astype(np.float32)) for _ in range(2)]


@pytest.mark.parametrize("backend", ["neuron", "aot_eager"])
def test_a_kernel_is_part_of_a_compiled_graph(backend: str) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total, scaled = mixed(a * 2, b.relu(), scale=3.0)
        return (total - scaled).sum(0)

    a, b = operands()
    result = torch.compile(function, backend=backend, fullgraph=True)(a, b)
    torch.testing.assert_close(result, (a * 2).sum(0), rtol=1e-4, atol=1e-4)


def test_it_trains_with_its_authors_derivative() -> None:
    a, b = (each.requires_grad_() for each in operands())
    loss = torch.compile(lambda a, b: Mixed.apply(a * a, b).sin().sum(), backend="neuron")(a, b)
    given = torch.autograd.grad(loss, (a, b))
    wanted_loss = (a * a + 3 * b).sin().sum()
    torch.testing.assert_close(loss, wanted_loss, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(given, torch.autograd.grad(wanted_loss, (a, b)), rtol=1e-4, atol=1e-4)


def test_a_kernels_refusal_is_the_users_exception() -> None:
    a, b = torch.zeros(256, 8), torch.zeros(256, 8)  # more rows than a tile has
    with pytest.raises(Exception, match="partition"):
        torch.compile(lambda a, b: mixed(a, b, scale=1.0)[0], backend="neuron")(a, b)


@nki.jit
def halves_on_two_cores(x):
    core, rows = nl.program_id(0), x.shape[0] // 2
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[core * rows : (core + 1) * rows])
    nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
    nisa.core_barrier(out, (0, 1))
    nisa.dma_copy(out[core * rows : (core + 1) * rows], tile)
    return out


def test_a_launch_on_two_cores_takes_the_time_of_both_at_once() -> None:
    x = torch.randn(256, 512)
    compiled = torch.compile(lambda x: halves_on_two_cores[2](x), backend="neuron")
    compiled(x)
    with opentrn.profile_program() as profile:
        result = compiled(x)
    torch.testing.assert_close(result, x / 2, rtol=0, atol=0)
    alone = opentrn.run(halves_on_two_cores[2], x.numpy(), target="trn2")
    (row,) = profile.data["programs"]
    assert row["device_us"] == pytest.approx(alone.time_us, rel=1e-3)
    assert profile.step_us == pytest.approx(row["device_us"] + row["launch_us"])


@nki.jit
def first_half(a):
    """Leaves the other half of its rows unwritten."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0:64], src=nl.load(a)[0:64])
    return out


def test_what_a_kernel_leaves_unwritten_is_told():
    a, _ = operands()
    compiled = torch.compile(lambda x: first_half(x), backend="neuron")
    with pytest.warns(opentrn.errors.UnwrittenOutputWarning, match="nothing wrote 3072 of the 6144 elements"):
        result = compiled(a)
    assert torch.equal(result[:64], a[:64]) and bool(result[64:].isnan().all())


@nki.jit
def by_scalars(a, ops, dtype, first=2.0):
    tile, out = nl.load(a), nl.ndarray(a.shape, dtype=dtype, buffer=nl.sbuf)
    result = nl.ndarray(a.shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.tensor_scalar(dst=out, data=tile, op0=ops[0], operand0=first, op1=ops[1], operand1=1.0)
    nisa.dma_copy(dst=result, src=out)
    return result


def test_operators_and_types_are_arguments_of_a_kernel() -> None:
    """Dynamo has no form for a function in a graph's call: `nl.add` as an argument was refused."""
    a, _ = operands()
    result = torch.compile(lambda x: by_scalars(x, (nl.multiply, nl.add), nl.float32), backend="neuron", fullgraph=True)
    torch.testing.assert_close(result(a), a * 2 + 1)
    named = torch.compile(lambda x: by_scalars(x, ops=[nl.add, nl.multiply], dtype="float32"), backend="neuron")
    torch.testing.assert_close(named(a), a + 2)


@legacy.jit
def lower_triangle(a):
    rows, columns = a.shape
    i, j = legacy.language.arange(rows)[:, None], legacy.language.arange(columns)[None, :]
    out = legacy.language.ndarray(a.shape, dtype=a.dtype, buffer=legacy.language.shared_hbm)
    tile = legacy.language.zeros(a.shape, a.dtype)
    tile[i, j] = legacy.language.copy(legacy.language.load(a), mask=(i >= j))
    legacy.language.store(out, tile)
    return out


def test_rows_of_a_kernel_of_nki_0_1_may_begin_on_any_partition() -> None:
    """Its compiler moves rows: a mask that takes the kernel's rows one by one was refused inside of a model."""
    a, _ = operands()
    result = torch.compile(lambda x: lower_triangle(x) + 1, backend="neuron", fullgraph=True)(a)
    torch.testing.assert_close(result, a.tril() + 1)
