"""Running sums, products and extremes by the scan of the Vector engine: the values of NumPy."""

import ml_dtypes
import numpy as np
import pytest

import opentrn

OPS = {
    "add": (np.cumsum, "0.0"),
    "multiply": (np.cumprod, "1.0"),
    "maximum": (np.maximum.accumulate, "0xFF800000"),
    "minimum": (np.minimum.accumulate, "0x7F800000"),
}
BITS = {"f32": {"0xFF800000": "0xFF800000", "0x7F800000": "0x7F800000"},
        "bf16": {"0xFF800000": "0xFF80", "0x7F800000": "0x7F80"}}  # fmt: skip


def program(shape: tuple[int, ...], axis: int, op: str, backward: bool, element: str = "f32") -> str:
    rank, length = len(shape), shape[axis]
    kind = f"tensor<{'x'.join(map(str, shape))}x{element}>"
    sizes = [length if d == axis else 1 for d in range(rank)]
    padding = [[0, 0] for _ in shape]
    padding[axis] = [0, length - 1] if backward else [length - 1, 0]
    start = BITS[element].get(OPS[op][1], OPS[op][1])
    return f"""
func.func @main(%x: {kind}) -> {kind} {{
  %start = stablehlo.constant dense<{start}> : tensor<{element}>
  %y = "stablehlo.reduce_window"(%x, %start) <{{window_dimensions = array<i64: {", ".join(map(str, sizes))}>,
    padding = dense<{padding}> : tensor<{rank}x2xi64>}}> ({{
    ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    %r = stablehlo.{op} %a, %b : tensor<{element}>
    stablehlo.return %r : tensor<{element}>
  }}) : ({kind}, tensor<{element}>) -> {kind}
  return %y : {kind}
}}
"""


def expected(x: np.ndarray, axis: int, op: str, backward: bool) -> np.ndarray:
    turned = np.flip(x, axis) if backward else x
    made = OPS[op][0](turned.astype(np.float64), axis=axis)
    return np.flip(made, axis) if backward else made


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((300,), 0), ((5, 40), 1), ((40, 5), 0), ((3, 130, 7), 1), ((5, 130, 130), 1), ((20000,), 0), ((3, 9001), 1)],
)
def test_values_are_numpys(shape: tuple[int, ...], axis: int, op: str, backward: bool) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    if op == "multiply":
        x = 1 + x / 100
    (y,) = opentrn.compile(program(shape, axis, op, backward), strict=True)(x)
    np.testing.assert_allclose(y, expected(x, axis, op, backward), rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("length", [50, 10000])
def test_what_is_not_finite_passes_on(length: int) -> None:
    x = np.ones((3, length), np.float32)
    x[0, 20], x[1, 7], x[1, 30], x[2, length - 1] = np.nan, np.inf, -np.inf, np.inf
    (y,) = opentrn.compile(program(x.shape, 1, "add", False), strict=True)(x)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(y, np.cumsum(x.astype(np.float64), axis=1), rtol=1e-6)


def test_bfloat16_is_summed_in_fp32() -> None:
    x = np.ones((2, 1000), ml_dtypes.bfloat16)
    (y,) = opentrn.compile(program(x.shape, 1, "add", False, "bf16"), strict=True)(x)
    np.testing.assert_array_equal(y, np.cumsum(np.ones((2, 1000), np.float32), 1).astype(ml_dtypes.bfloat16))
