"""Products of fp8 by fp8: the Tensor engine takes 256 terms at once from NeuronCore-v3 on (perf_mode double_row)."""

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph

RNG = np.random.default_rng(17)
FP8 = {"f8E4M3": ml_dtypes.float8_e4m3, "f8E5M2": ml_dtypes.float8_e5m2}


def product(m: int, k: int, n: int, element: str) -> str:
    return (
        f"func.func @main(%x: tensor<{m}x{k}x{element}>, %w: tensor<{k}x{n}x{element}>) -> tensor<{m}x{n}xf32> {{\n"
        f"  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :"
        f" (tensor<{m}x{k}x{element}>, tensor<{k}x{n}x{element}>) -> tensor<{m}x{n}xf32>\n"
        f"  return %y : tensor<{m}x{n}xf32>\n}}\n"
    )


def double_rows(model: opentrn.CompiledModel) -> int:
    return model.program_text().count("perf_mode=double_row")


@pytest.mark.parametrize("element", FP8)
@pytest.mark.parametrize(
    ("m", "k", "n", "count"),
    [
        (128, 256, 512, 1),
        (128, 512, 512, 2),
        (130, 640, 100, 4),
        (60, 330, 1030, 3),
        (5, 128, 64, 0),
        (3, 200, 64, 0),
    ],
)
def test_two_blocks_of_the_contraction_at_once(m: int, k: int, n: int, count: int, element: str):
    text = product(m, k, n, element)
    model = opentrn.compile(text, target="trn2")
    x, w = RNG.standard_normal((m, k)).astype(FP8[element]), RNG.standard_normal((k, n)).astype(FP8[element])
    (want,) = graph.parse(text).evaluate(x, w, float64=True)
    # Products of fp8 are exact in fp32; sums of k terms are not.
    bound = 2.0**-23 * k * (np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64))).max()
    np.testing.assert_allclose(model(x, w)[0], want, rtol=0, atol=bound)
    assert double_rows(model) == count


def test_large_products_take_half_of_the_time_of_bf16():
    fp8 = opentrn.compile(product(1024, 2048, 8192, "f8E4M3"), target="trn2")
    bf16 = opentrn.compile(product(1024, 2048, 8192, "bf16"), target="trn2")
    assert fp8.time().time_us < 0.56 * bf16.time().time_us


def test_chips_without_the_mode_multiply_one_block_at_a_time():
    text = product(64, 512, 128, "f8E5M2")
    model = opentrn.compile(text, target="trn1")
    x, w = (
        RNG.standard_normal((64, 512)).astype(FP8["f8E5M2"]),
        RNG.standard_normal((512, 128)).astype(FP8["f8E5M2"]),
    )
    (want,) = graph.parse(text).evaluate(x, w, float64=True)
    np.testing.assert_allclose(model(x, w)[0], want, rtol=0, atol=1e-4 * np.abs(want).max())
    assert double_rows(model) == 0


def test_autocast_to_fp8_multiplies_so_and_with_the_numbers_of_the_graph():
    w = (RNG.standard_normal((512, 256)) * 512**-0.5).astype(np.float32)
    text = (
        "func.func @main(%x: tensor<256x512xf32>) -> tensor<256x256xf32> {\n"
        f'  %w = stablehlo.constant dense<"0x{w.tobytes().hex()}"> : tensor<512x256xf32>\n'
        "  %t = stablehlo.tanh %x : tensor<256x512xf32>\n"
        "  %y = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] :"
        " (tensor<256x512xf32>, tensor<512x256xf32>) -> tensor<256x256xf32>\n"
        "  return %y : tensor<256x256xf32>\n}\n"
    )
    how = {"target": "trn2", "auto_cast": "matmult", "auto_cast_type": "fp8_e4m3"}
    model = opentrn.compile(text, **how)
    x = RNG.standard_normal((256, 512)).astype(np.float32)
    (want,) = opentrn.model.prepare(text, **how).evaluate(x)
    # Two blocks of rows, four of the contraction.
    assert double_rows(model) == 2 * 2
    # The device's tanh may round to the other neighbour of fp8: 2**-3 of a term, of 512 of both signs.
    bound = 2.0**-3 * np.sqrt((np.tanh(x) ** 2) @ (w**2)).max()
    np.testing.assert_allclose(model(x)[0], want, rtol=0, atol=bound)


CONVOLUTION = """
func.func @main(%x: tensor<1x6x6x4x{0}>, %w: tensor<3x3x4x5x{0}>) -> tensor<1x4x4x5xf32> {{
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x6x6x4x{0}>, tensor<3x3x4x5x{0}>) -> tensor<1x4x4x5xf32>
  return %y : tensor<1x4x4x5xf32>
}}
"""
BYTES = {**FP8, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E3M4": ml_dtypes.float8_e3m4}


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("element", BYTES)
def test_every_pair_of_bytes_is_multiplied_on_the_device(element: str, target: str):
    for text, shapes in (
        (product(5, 40, 7, element), ((5, 40), (40, 7))),
        (CONVOLUTION.format(element), ((1, 6, 6, 4), (3, 3, 4, 5))),
    ):
        draw = [RNG.standard_normal(shape).astype(BYTES[element]) for shape in shapes]
        (want,) = graph.parse(text).evaluate(*draw, float64=True)
        got = opentrn.compile(text, target=target, strict=True)(*draw)[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("result", ["i32", "f32", "i8"])
def test_booleans_are_counted(result: str):
    text = product(9, 300, 7, "i1").replace("xf32>", f"x{result}>")
    x, w = RNG.integers(0, 2, (9, 300)).astype(bool), RNG.integers(0, 2, (300, 7)).astype(bool)
    got = opentrn.compile(text, target="trn2", strict=True)(x, w)[0]
    want = x.astype(np.int64) @ w.astype(np.int64)
    np.testing.assert_array_equal(got, want.astype(got.dtype))
