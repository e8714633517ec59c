"""What is chosen and then rounded is rounded first: windows' largest numbers, and parts side by side (simplify.cc).

A chosen value that is also a result of the model stays in fp32: that program is the comparison.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph

RNG = np.random.default_rng(13)
TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}


def pooled(shape: tuple[int, int, int, int], kind: str, op: str) -> tuple[str, str]:
    """The largest (or smallest) of 3 x 3 of relu(x), rounded to `kind`; with it in fp32 beside."""
    n, c, h, w = shape
    wide, out = f"tensor<{n}x{c}x{h}x{w}xf32>", f"{n}x{c}x{h // 2}x{w // 2}"
    first = "0xFF800000" if op == "maximum" else "0x7F800000"
    body = f"""  %zero = stablehlo.constant dense<0.0> : {wide}
  %r = stablehlo.maximum %x, %zero : {wide}
  %init = stablehlo.constant dense<{first}> : tensor<f32>
  %p = "stablehlo.reduce_window"(%r, %init) <{{window_dimensions = array<i64: 1, 1, 3, 3>,
      window_strides = array<i64: 1, 1, 2, 2>,
      padding = dense<[[0, 0], [0, 0], [1, 0], [1, 0]]> : tensor<4x2xi64>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.{op} %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }}) : ({wide}, tensor<f32>) -> tensor<{out}xf32>
  %c = stablehlo.convert %p : (tensor<{out}xf32>) -> tensor<{out}x{kind}>
"""
    narrow, apart = f"tensor<{out}x{kind}>", f"tensor<{out}xf32>"
    return (
        f"func.func @main(%x: {wide}) -> {narrow} {{\n{body}  return %c : {narrow}\n}}\n",
        f"func.func @main(%x: {wide}) -> ({narrow}, {apart}) {{\n{body}  return %c, %p : {narrow}, {apart}\n}}\n",
    )


def moved(text: str) -> int:
    summary = opentrn.compile(text, target="trn1").time().profile()["summary"]
    return summary["hbm_read_bytes"] + summary["hbm_write_bytes"]


def test_a_rounded_pool_moves_half_of_it():
    alone, apart = pooled((16, 64, 112, 112), "bf16", "maximum")
    elements = 16 * 64 * 112 * 112
    # x comes in with four bytes; relu's result goes out and in with two.
    assert moved(alone) < 4 * elements + 2.5 * 2 * elements + elements
    assert moved(apart) > 4 * elements + 2 * 4 * elements


@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_the_bits_are_those_of_rounding_last(kind, op):
    """Among the numbers: infinities, zeros of both signs, and what overflows fp16."""
    alone, apart = pooled((2, 8, 12, 12), kind, op)
    x = RNG.standard_normal((2, 8, 12, 12), np.float32) * np.float32(1e4)
    x.flat[::17], x.flat[::23], x.flat[::29] = -0.0, np.inf, 7e4
    (got,) = opentrn.compile(alone)(x)
    both = opentrn.compile(apart)(x)
    np.testing.assert_array_equal(got.view(np.uint16), both[0].view(np.uint16))
    (want,) = graph.parse(alone).evaluate(x)
    np.testing.assert_array_equal(got, np.asarray(want).view(TYPES[kind]))


def test_parts_side_by_side_are_rounded_where_they_are_made():
    kind, whole = "tensor<64x96xf32>", "tensor<64x192x"
    body = f"""  %a = stablehlo.tanh %x : {kind}
  %b = stablehlo.exponential %x : {kind}
  %c = stablehlo.concatenate %a, %b, dim = 1 : ({kind}, {kind}) -> {whole}f32>
  %r = stablehlo.convert %c : ({whole}f32>) -> {whole}bf16>
"""
    alone = f"func.func @main(%x: {kind}) -> {whole}bf16> {{\n{body}  return %r : {whole}bf16>\n}}\n"
    apart = (
        f"func.func @main(%x: {kind}) -> ({whole}bf16>, {whole}f32>) {{\n{body}"
        f"  return %r, %c : {whole}bf16>, {whole}f32>\n}}\n"
    )
    x = RNG.standard_normal((64, 96), np.float32)
    (got,) = opentrn.compile(alone)(x)
    np.testing.assert_array_equal(got.view(np.uint16), opentrn.compile(apart)(x)[0].view(np.uint16))
    assert moved(alone) < moved(apart) - 4 * 64 * 192
