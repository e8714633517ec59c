"""Numbers of unusual types against eager torch: 8-bit floats of every input, and Python's complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")
import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


BITS = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
EIGHT_BITS = torch.arange(2**8, dtype=torch.int32).to(torch.uint8)
SOURCES = {
    "bfloat16": BITS.view(torch.bfloat16),
    "float16": BITS.view(torch.float16),
    "float32": BITS.view(torch.bfloat16).float(),
    "between bfloat16": torch.nextafter(BITS.view(torch.bfloat16).float(), torch.tensor(0.0)),
    "float64": BITS.view(torch.bfloat16).double(),
    "int32": torch.arange(-70000, 70000, 7, dtype=torch.int32),
    "int8": EIGHT_BITS.view(torch.int8),
    "float8_e5m2": EIGHT_BITS.view(torch.float8_e5m2),
    "float8_e4m3fn": EIGHT_BITS.view(torch.float8_e4m3fn),
}
# Types without a form on the device are converted by the reference evaluator on the host.
EIGHT_BIT_TYPES = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", EIGHT_BIT_TYPES, ids=str)
def test_conversion_to_8_bit_floats(source: str, kind: torch.dtype) -> None:
    x = SOURCES[source]
    given = torch.compile(lambda value: value.to(kind), backend="neuron")(x).float()
    wanted = x.to(kind).float()
    assert torch.equal(given.isnan(), wanted.isnan())
    number = ~wanted.isnan()
    assert torch.equal(given[number], wanted[number])
    assert torch.equal(given[number].signbit(), wanted[number].signbit())


def test_large_numbers_saturate_as_in_this_torch() -> None:
    x = torch.tensor([448.0, 465.0, 1e4, -500.0, float("inf"), float("-inf")])
    given = torch.compile(lambda value: value.to(torch.float8_e4m3fn).float(), backend="neuron")(x)
    torch.testing.assert_close(given, x.to(torch.float8_e4m3fn).float(), rtol=0, atol=0, equal_nan=True)


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.complex(x, x * 0.5 + 0.1)


FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "1j * x": lambda x: 1j * x,
    "x * 1j, absolute": lambda x: (x * 1j).abs(),
    "x + 2j": lambda x: x + 2j,
    "x - 2j": lambda x: x - 2j,
    "2j - x": lambda x: 2j - x,
    "x / 2j": lambda x: x / 2j,
    "(1 + 2j) / x": lambda x: (1 + 2j) / x,
    "c * 3j": lambda x: _complex(x) * 3j,
    "3j * c": lambda x: 3j * _complex(x),
    "c / (1 - 1j)": lambda x: _complex(x) / (1 - 1j),
    "(1 - 1j) / c": lambda x: (1 - 1j) / _complex(x),
    "c - 1j": lambda x: _complex(x) - 1j,
    "1j - c": lambda x: 1j - _complex(x),
    "c ** 2": lambda x: _complex(x) ** 2,
    "c ** 1j": lambda x: _complex(x) ** 1j,
    "x ** 1j": lambda x: x ** (1j),
    "2 ** c": lambda x: 2 ** _complex(x),
    "(1j) ** c": lambda x: (1j) ** _complex(x),
    "2 * c": lambda x: 2 * _complex(x),
    "2.5 * c": lambda x: 2.5 * _complex(x),
    "True * c": lambda x: True * _complex(x),
    "exp(1j x)": lambda x: torch.exp(1j * x),
    "sin(1j x)": lambda x: torch.sin(1j * x),
    "where with a number": lambda x: torch.where(x > 1, _complex(x), 2j),
    "masked_fill": lambda x: _complex(x).masked_fill(x > 1, 1j),
    "full": lambda x: torch.full((6,), 1 + 2j) * x,
    "full_like": lambda x: torch.full_like(_complex(x), 1 + 2j) * x,
    "add with alpha": lambda x: torch.add(_complex(x), _complex(x), alpha=2j),
    "sub with alpha": lambda x: torch.sub(_complex(x), x, alpha=1 - 2j),
    "addcmul": lambda x: torch.addcmul(_complex(x), _complex(x), 1j * x, value=2j),
    "addmm": lambda x: torch.addmm(_complex(x), _complex(x), _complex(x), beta=1j, alpha=2 - 1j),
    "lerp": lambda x: torch.lerp(_complex(x), 2j * x, 0.3),
    "conjugate": lambda x: (_complex(x) * 1j).conj() * _complex(x),
    "real of a product": lambda x: (_complex(x) * (2 + 1j)).real,
    "imaginary of a product": lambda x: (1j * _complex(x)).imag,
    "angle": lambda x: torch.angle(_complex(x) * 1j),
    "equal to a number": lambda x: torch.where(_complex(x) == 1j, x, 2 * x),
    "sum of numbers": lambda x: sum([1j * x, 2 * x, 3j]),
    "scalar tensor": lambda x: torch.tensor(2j) * x,
    "clamp below of the real part": lambda x: (1j * x).real.clamp(min=0.1) + x,
}


@pytest.mark.parametrize("name", FORMS)
def test_complex_numbers_of_python(name: str) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        out = FORMS[name](x)
        out = torch.view_as_real(out) if out.is_complex() else out
        return (out * torch.linspace(0.5, 1.5, out.numel()).reshape(out.shape)).sum()

    x = torch.rand(6, 6) + 0.5
    values = []
    for function in (loss, torch.compile(loss, backend="neuron", fullgraph=True)):
        given = x.clone().requires_grad_()
        out = function(given)
        out.backward()
        values.append((out.detach(), given.grad))
    torch.testing.assert_close(values[1], values[0], rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(loss, backend="neuron", fullgraph=True)(x), values[0][0], rtol=1e-4, atol=1e-4
        )
