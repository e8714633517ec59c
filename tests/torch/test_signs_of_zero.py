"""Zeros that ops give on the device have the sign that they have on the CPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn.torch  # noqa: E402, F401

NAMES = ["round", "ceil", "floor", "trunc", "tanh", "expm1", "sin", "atan", "erf", "log1p"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_of_functions_of_one_number(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([-0.0, 0.0, -0.3, 0.3, -0.5, 0.5, 1.5, -1.5, -9.0], dtype=dtype)
    wanted, found = getattr(torch, name)(x), getattr(torch, name)(x.to("neuron")).cpu()
    torch.testing.assert_close(found, wanted, equal_nan=True)
    is_number = ~wanted.isnan()
    assert torch.signbit(found[is_number]).tolist() == torch.signbit(wanted[is_number]).tolist()


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_of_whole_quotients(mode: str) -> None:
    a = torch.tensor([0.0, -0.0, 0.0, -0.0, 0.3, -0.3, 0.3, -0.3, 7.0])
    b = torch.tensor([1.0, 1.0, -1.0, -1.0] * 2 + [2.0])
    wanted = torch.div(a, b, rounding_mode=mode)
    found = torch.div(a.to("neuron"), b.to("neuron"), rounding_mode=mode).cpu()
    assert found.tolist() == wanted.tolist() and torch.signbit(found).tolist() == torch.signbit(wanted).tolist()


def test_of_a_compiled_exponential_unit() -> None:
    x = torch.tensor([-0.0, 0.0, -1.0])
    found = torch.compile(torch.nn.functional.elu, backend="neuron")(x)
    assert torch.signbit(found).tolist() == [True, False, True]
