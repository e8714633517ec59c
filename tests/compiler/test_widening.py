"""16-bit floats that arithmetic reads as fp32 are read as they lie: no kernel widens them into memory (plan.h).

A widened value that is also a result of the model is made in memory: that program is the comparison.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph

RNG = np.random.default_rng(11)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def function(arguments: str, body: str, result: tuple[str, str], widened: tuple[str, str]) -> tuple[str, str]:
    """The model with the result alone, and with the widened value as a second one."""
    alone = f"func.func @main({arguments}) -> {result[1]} {{\n{body}  return {result[0]} : {result[1]}\n}}\n"
    both = (
        f"func.func @main({arguments}) -> ({result[1]}, {widened[1]}) {{\n{body}"
        f"  return {result[0]}, {widened[0]} : {result[1]}, {widened[1]}\n}}\n"
    )
    return alone, both


def layer(rows: int, columns: int, kind: str = "bf16") -> tuple[str, str]:
    """x + norm(x) w for x = a + b, where `kind` is what lies between the kernels and fp32 what is computed in."""
    narrow, wide = f"tensor<{rows}x{columns}x{kind}>", f"tensor<{rows}x{columns}xf32>"
    column, weight = f"tensor<{rows}xf32>", f"tensor<{columns}x{columns}x{kind}>"
    body = f"""  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %share = stablehlo.constant dense<{1 / columns}> : {column}
  %aw = stablehlo.convert %a : ({narrow}) -> {wide}
  %bw = stablehlo.convert %b : ({narrow}) -> {wide}
  %s = stablehlo.add %aw, %bw : {wide}
  %x = stablehlo.convert %s : ({wide}) -> {narrow}
  %xw = stablehlo.convert %x : ({narrow}) -> {wide}
  %xx = stablehlo.multiply %xw, %xw : {wide}
  %sum = stablehlo.reduce(%xx init: %zero) applies stablehlo.add across dimensions = [1]
      : ({wide}, tensor<f32>) -> {column}
  %mean = stablehlo.multiply %sum, %share : {column}
  %root = stablehlo.rsqrt %mean : {column}
  %roots = stablehlo.broadcast_in_dim %root, dims = [0] : ({column}) -> {wide}
  %even = stablehlo.multiply %xw, %roots : {wide}
  %in = stablehlo.convert %even : ({wide}) -> {narrow}
  %p = stablehlo.dot_general %in, %w, contracting_dims = [1] x [0] : ({narrow}, {weight}) -> {wide}
  %y = stablehlo.add %xw, %p : {wide}
  %r = stablehlo.convert %y : ({wide}) -> {narrow}
"""
    arguments = f"%a: {narrow}, %b: {narrow}, %w: {weight}"
    return function(arguments, body, ("%r", narrow), ("%xw", wide))


def drawn(dtype: np.dtype, *shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32).astype(dtype)


def moved(text: str, target: str = "trn2") -> int:
    summary = opentrn.compile(text, target=target).time().profile()["summary"]
    return summary["hbm_read_bytes"] + summary["hbm_write_bytes"]


def test_rows_between_kernels_are_moved_as_narrow_as_they_are():
    """a, b, x and its norm out and in, r, two bytes each: what is widened is written in four bytes, and read so."""
    rows, columns = 32768, 1024  # 64 MiB each: none stays in SBUF
    alone, both = layer(rows, columns)
    elements, weight = rows * columns, columns * columns
    assert moved(alone) <= 2 * (7 * elements + weight)
    assert moved(both) - moved(alone) >= 1.9 * 2 * elements


@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_bits_are_those_of_widened_rows(kind, target):
    dtype = BFLOAT16 if kind == "bf16" else np.dtype(np.float16)
    arrays = [drawn(dtype, 256, 192), drawn(dtype, 256, 192), drawn(dtype, 192, 192)]
    alone, both = (opentrn.compile(text, target=target) for text in layer(256, 192, kind))
    (got,) = alone(*arrays)
    np.testing.assert_array_equal(got.view(np.uint8), both(*arrays)[0].view(np.uint8))
    (want,) = graph.parse(layer(256, 192, kind)[0]).evaluate(*arrays, float64=True)
    want = np.asarray(want, np.float64)
    assert np.abs(got.astype(np.float64) - want).max() <= 0.02 * np.abs(want).max()


OPS = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
FUNCTIONS = ["exponential", "tanh", "logistic", "sqrt", "rsqrt"]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("other", ["full", "row", "column", "one_column"])
def test_arithmetic_of_widened_operands(op, other):
    """Of a tensor with one that is whole, or the same in every row or column, or of one column itself."""
    columns = 1 if other == "one_column" else 96
    narrow, wide = f"tensor<200x{columns}xbf16>", f"tensor<200x{columns}xf32>"
    shape = {"row": (columns,), "column": (200,)}.get(other, (200, columns))
    kinds = [f"tensor<{'x'.join(map(str, shape))}x{element}>" for element in ("bf16", "f32")]
    places = {"row": "[1]", "column": "[0]"}.get(other, "[0, 1]")
    body = f"""  %aw = stablehlo.convert %a : ({narrow}) -> {wide}
  %bw = stablehlo.convert %b : ({kinds[0]}) -> {kinds[1]}
  %bs = stablehlo.broadcast_in_dim %bw, dims = {places} : ({kinds[1]}) -> {wide}
  %c = stablehlo.{op} %aw, %bs : {wide}
  %r = stablehlo.{op} %bs, %c : {wide}
"""
    alone, both = function(f"%a: {narrow}, %b: {kinds[0]}", body, ("%r", wide), ("%bw", kinds[1]))
    arrays = [drawn(BFLOAT16, 200, columns), drawn(BFLOAT16, *shape)]
    (got,) = opentrn.compile(alone)(*arrays)
    np.testing.assert_array_equal(got.view(np.uint8), opentrn.compile(both)(*arrays)[0].view(np.uint8))


@pytest.mark.parametrize("op", [*FUNCTIONS, "sum"])
def test_functions_and_sums_of_widened_rows(op):
    narrow, wide, column = "tensor<160x300xbf16>", "tensor<160x300xf32>", "tensor<160xf32>"
    made = (
        "  %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "  %r = stablehlo.reduce(%aw init: %zero) applies stablehlo.add across dimensions = [1]\n"
        f"      : ({wide}, tensor<f32>) -> {column}\n"
        if op == "sum"
        else f"  %r = stablehlo.{op} %aw : {wide}\n"
    )
    body = f"  %aw = stablehlo.convert %a : ({narrow}) -> {wide}\n" + made
    alone, both = function(f"%a: {narrow}", body, ("%r", column if op == "sum" else wide), ("%aw", wide))
    array = np.abs(drawn(BFLOAT16, 160, 300)) + np.array(0.5, BFLOAT16)
    (got,) = opentrn.compile(alone)(array)
    np.testing.assert_array_equal(got.view(np.uint8), opentrn.compile(both)(array)[0].view(np.uint8))


def test_what_products_read_keeps_a_widened_copy():
    """Products want their operand over columns, and the sum its rows: each has its own."""
    kind, wide, weight = "tensor<256x256xbf16>", "tensor<256x256xf32>", "tensor<256x256xbf16>"
    body = f"""  %aw = stablehlo.convert %a : ({kind}) -> {wide}
  %t = stablehlo.tanh %aw : {wide}
  %x = stablehlo.convert %t : ({wide}) -> {kind}
  %xw = stablehlo.convert %x : ({kind}) -> {wide}
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({kind}, {weight}) -> {wide}
  %r = stablehlo.add %xw, %p : {wide}
"""
    alone, both = function(f"%a: {kind}, %w: {weight}", body, ("%r", wide), ("%xw", wide))
    arrays = [drawn(BFLOAT16, 256, 256), drawn(BFLOAT16, 256, 256)]
    (got,) = opentrn.compile(alone)(*arrays)
    np.testing.assert_array_equal(got.view(np.uint8), opentrn.compile(both)(*arrays)[0].view(np.uint8))
