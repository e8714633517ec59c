"""Numbers of Python's in ops of tensors: what type they have, and what is taken of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "remainder": torch.remainder, "fmod": torch.fmod, "copysign": torch.copysign, "xlogy": torch.xlogy,
    "and": torch.bitwise_and, "left": torch.bitwise_left_shift, "right": torch.bitwise_right_shift,
    "from the left": lambda x, n: n >> x if isinstance(n, int) else n % x,
}  # fmt: skip


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("number", [3, -2, 2.5])
@pytest.mark.parametrize("x", [torch.tensor(5), torch.tensor(7, dtype=torch.uint8), torch.tensor(5.5)], ids=str)
def test_a_number_beside_tensors_without_dimensions(op: str, number: float, x: Any) -> None:
    """Torch's schemas of these ops take no number for a tensor, as those of sums do."""
    try:
        wanted = OPS[op](x, number)
    except (RuntimeError, NotImplementedError) as refusal:
        with pytest.raises(type(refusal)):
            OPS[op](x.to("neuron"), number)
        return
    found = OPS[op](x.to("neuron"), number).cpu()
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("value", [0.5, -2.5, 3])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.float32])
def test_whole_numbers_are_multiplied_with_the_whole_part(value: float, dtype: Any) -> None:
    x = torch.tensor([3, -2, 5]).to(dtype)
    wanted = torch.addcmul(x, x, x, value=value)
    for found in (
        torch.addcmul(x.to("neuron"), x.to("neuron"), x.to("neuron"), value=value).cpu(),
        torch.compile(lambda x: torch.addcmul(x, x, x, value=value), backend="neuron")(x),
        torch._foreach_addcmul([x.to("neuron")], [x.to("neuron")], [x.to("neuron")], value=value)[0].cpu(),
    ):
        assert torch.equal(found, wanted)


def test_powers_of_a_whole_number() -> None:
    exponents = torch.tensor([0, 1, 5, 19])
    assert (3 ** exponents.to("neuron")).tolist() == [1, 3, 243, 3**19]
    assert torch.compile(lambda e: 3**e, backend="neuron")(exponents).tolist() == [1, 3, 243, 3**19]


@pytest.mark.parametrize("name", ["i0", "special.i0e", "special.i1", "special.i1e"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_bessel_functions_are_programs_of_the_core(name: str, dtype: Any, capfd: pytest.CaptureFixture[str]) -> None:
    function = torch
    for part in name.split("."):
        function = getattr(function, part)
    x = torch.linspace(-60, 60, 601).to(dtype)
    wanted = function(x)
    close = {"rtol": 1e-2 if dtype == torch.bfloat16 else 2e-6, "atol": 1e-6}
    torch.testing.assert_close(function(x.to("neuron")).cpu(), wanted, **close)
    torch.testing.assert_close(torch.compile(function, backend="neuron")(x), wanted, **close)
    assert "host" not in capfd.readouterr().err
    ends = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0])
    torch.testing.assert_close(function(ends.to("neuron")).cpu(), function(ends), equal_nan=True)
