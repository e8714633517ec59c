"""Element-wise ops of images whose sides are repeated: each element is loaded once and repeated on chip.

Against NumPy; how many descriptors there are, by the profile of the predicted run.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opentrn


def repeated(shape: tuple[int, int, int], times: tuple[int, int], op: str) -> opentrn.CompiledModel:
    """[channels, height, width], each row and column so many times."""
    channels, height, width = shape
    wide = f"{channels}x{height}x{times[0]}x{width}x{times[1]}xf32"
    image = f"{channels}x{height * times[0]}x{width * times[1]}x"
    result = f"{image}{'bf16' if op == 'convert' else 'f32'}"
    call = (
        f"stablehlo.convert %r : (tensor<{image}f32>) -> tensor<{result}>"
        if op == "convert"
        else f"stablehlo.{op} %r : tensor<{result}>"
    )
    text = f"""module {{
  func.func public @main(%x: tensor<{channels}x{height}x{width}xf32>) -> tensor<{result}> {{
    %w = stablehlo.broadcast_in_dim %x, dims = [0, 1, 3]
         : (tensor<{channels}x{height}x{width}xf32>) -> tensor<{wide}>
    %r = stablehlo.reshape %w : (tensor<{wide}>) -> tensor<{image}f32>
    %y = {call}
    return %y : tensor<{result}>
  }}
}}"""
    return opentrn.compile(text, target="trn2")


@pytest.mark.parametrize("op", ["convert", "negate"])
@pytest.mark.parametrize(
    ("shape", "times"),
    [
        ((8, 16, 16), (2, 2)),
        ((130, 12, 20), (2, 2)),
        ((4, 7, 33), (3, 2)),
        ((3, 5, 16), (1, 4)),
        ((200, 64, 64), (2, 2)),
        ((1, 96, 96), (2, 3)),
    ],
)
def test_values(shape, times, op):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    want = x.repeat(times[0], 1).repeat(times[1], 2)
    want = want.astype(ml_dtypes.bfloat16) if op == "convert" else -want
    (got,) = repeated(shape, times, op).run([x])
    np.testing.assert_array_equal(np.asarray(got), want)


def test_no_element_has_a_descriptor_of_its_own():
    shape = (256, 64, 64)
    model = repeated(shape, (2, 2), "convert")
    assert model.time().profile()["dma"]["descriptors"] < 256 * 64 * 64 / 16


# Rows [36, 7] of [7, 36] planes: a tile of 128 of them ends inside of a plane, so that its last two rows are a
# transfer of their own, which begins where no engine does. [op, dimensions of its result, NumPy's]
UNEVEN_ROWS = {
    "repeated": (
        "broadcast_in_dim %t, dims = [0, 1, 2, 3]",
        "36x7x7x16x7",
        lambda t: t[..., None].repeat(7, -1),
    ),
    "strided": ("slice %t [0:36, 0:7, 0:7, 0:16:2]", "36x7x7x8", lambda t: t[..., ::2]),
    "strided rows": ("slice %t [0:36, 0:7, 0:1, 0:16:2]", "36x7x1x8", lambda t: t[:, :, :1, ::2]),
}


@pytest.mark.parametrize("what", UNEVEN_ROWS)
def test_rows_that_begin_where_no_engine_does(what):
    op, dims, of_numpy = UNEVEN_ROWS[what]
    x = np.random.default_rng(0).standard_normal((7, 36, 7, 16)).astype(np.float32)
    want = of_numpy(x.transpose(1, 0, 2, 3))
    other = np.random.default_rng(1).standard_normal(want.shape).astype(np.float32)
    result = f"tensor<{dims}xf32>"
    text = f"""module {{
  func.func public @main(%x: tensor<7x36x7x16xf32>, %o: {result}) -> {result} {{
    %t = stablehlo.transpose %x, dims = [1, 0, 2, 3] : (tensor<7x36x7x16xf32>) -> tensor<36x7x7x16xf32>
    %r = stablehlo.{op} : (tensor<36x7x7x16xf32>) -> {result}
    %y = stablehlo.add %r, %o : {result}
    return %y : {result}
  }}
}}"""
    (got,) = opentrn.compile(text, target="trn2").run([x, other])
    np.testing.assert_array_equal(np.asarray(got), want + other)
