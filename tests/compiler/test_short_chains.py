"""Short programs are chains of instructions that wait for one another: fewer of them, on the engines that end first.
Values beside the evaluator's; times by what is in the program."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn
from opentrn import graph


def compiled(text: str):
    return opentrn.compile(text, target="trn2", strict=True)


def lines(text: str, op: str) -> int:
    return sum(line.startswith(op) for line in compiled(text).program_text().splitlines())


def check(text: str, *inputs: np.ndarray, tolerance: float = 0.0) -> None:
    (made,), (wanted,) = compiled(text)(*inputs), graph.parse(text).evaluate(*inputs)
    if tolerance == 0:
        np.testing.assert_array_equal(made, wanted)
    else:
        np.testing.assert_allclose(made, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


CHAIN = """func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<64x64xf32>
  %one = stablehlo.constant dense<1.0> : tensor<64x64xf32>
""" + "".join(
    f"""  %m{i} = stablehlo.multiply {f'%a{i - 1}' if i else '%x'}, %half : tensor<64x64xf32>
  %a{i} = stablehlo.add %m{i}, %one : tensor<64x64xf32>
""" for i in range(8)) + """  return %a7 : tensor<64x64xf32>
}"""  # fmt: skip


def test_a_chain_stays_on_the_engine_that_ends_first() -> None:
    """By load alone every fourth step went to Scalar, which takes twice as long."""
    steps = [line for line in compiled(CHAIN).program_text().splitlines() if line.startswith("tensor_scalar")]
    assert len(steps) == 8 and not any("scalar" in line.split("dst")[0][len("tensor_scalar") :] for line in steps)
    check(CHAIN, drawn(64, 64))


KEPT = """func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %p = stablehlo.compare GT, %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xi1>
  %s = stablehlo.add %x, %y : tensor<32x32xf32>
  %d = stablehlo.subtract %x, %y : tensor<32x32xf32>
  %c = stablehlo.select %p, %s, %d : tensor<32x32xi1>, tensor<32x32xf32>
  %r = stablehlo.multiply %c, MORE : tensor<32x32xf32>
  return %r : tensor<32x32xf32>
}"""


def test_select_writes_over_what_nobody_reads_again() -> None:
    once, again = KEPT.replace("MORE", "%x"), KEPT.replace("MORE", "%d")
    assert (lines(once, "tensor_copy "), lines(again, "tensor_copy ")) == (0, 1)
    for text in (once, again):
        check(text, drawn(32, 32), drawn(32, 32)[::-1].copy())


FAR = 2**24  # beyond, fp32 has no whole number of its own for each
EDGES = np.array([-(2**31), -FAR - 1, -FAR, -1, 0, 1, 62, 63, 64, FAR - 1, FAR, FAR + 1, 2**31 - 1], np.int32)


@pytest.mark.parametrize("number", [0, 63, 16777215, -16777215, 16777216, 16777217])
@pytest.mark.parametrize("direction", ["LT", "GE", "EQ", "NE"])
def test_whole_numbers_beside_a_number(direction: str, number: int) -> None:
    """Exact whether the Vector engine, in fp32, or GpSimd compares."""
    text = f"""func.func @main(%x: tensor<13xi32>) -> tensor<13xi1> {{
  %c = stablehlo.constant dense<{number}> : tensor<13xi32>
  %r = stablehlo.compare {direction}, %x, %c, SIGNED : (tensor<13xi32>, tensor<13xi32>) -> tensor<13xi1>
  return %r : tensor<13xi1>
}}"""
    assert lines(text, "tensor_tensor") == (0 if abs(number) < 2**24 else 1)
    check(text, EDGES)


@pytest.mark.parametrize("low,high", [(0, 63), (-5, 16777215), (0, 16777217)])
def test_whole_numbers_between_numbers(low: int, high: int) -> None:
    text = f"""func.func @main(%x: tensor<13xi32>) -> tensor<13xi32> {{
  %low = stablehlo.constant dense<{low}> : tensor<i32>
  %high = stablehlo.constant dense<{high}> : tensor<i32>
  %r = stablehlo.clamp %low, %x, %high : (tensor<i32>, tensor<13xi32>, tensor<i32>) -> tensor<13xi32>
  return %r : tensor<13xi32>
}}"""
    assert lines(text, "tensor_scalar") == (1 if high < 2**24 else 0)
    check(text, EDGES)


TAKEN = """func.func @main(%x: tensor<64x16xf32>, %i: tensor<32xi32>) -> tensor<32x16xf32> {
  %one = stablehlo.constant dense<1> : tensor<32xi32>
  %j = stablehlo.add %i, %one : tensor<32xi32>
  %k = stablehlo.reshape %j : (tensor<32xi32>) -> tensor<32x1xi32>
  %r = "stablehlo.gather"(%x, %k) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 16>}> : (tensor<64x16xf32>, tensor<32x1xi32>) -> tensor<32x16xf32>
  return %r : tensor<32x16xf32>
}"""


def test_indices_of_a_gather_lie_one_in_a_partition() -> None:
    assert compiled(TAKEN).time().profile()["summary"]["dma_transfer_count"] == 3  # indices, rows, result
    indices = np.arange(-16, 80, 3, dtype=np.int32)
    check(TAKEN, drawn(64, 16), indices)
    indices[:3] = [-(2**31), 2**31 - 2, 2**24 + 3]
    check(TAKEN, drawn(64, 16), indices)


def reflected(rows: int, columns: int) -> str:
    tall, wide = rows + 2, columns + 2
    whole = f"tensor<{tall}x{columns + 1}xf32>"
    return f"""func.func @main(%x: tensor<{rows}x{columns}xf32>) -> tensor<{tall}x{wide}xf32> {{
  %a = stablehlo.slice %x [1:2, 0:{columns}] : (tensor<{rows}x{columns}xf32>) -> tensor<1x{columns}xf32>
  %b = stablehlo.concatenate %a, %x, dim = 0
    : (tensor<1x{columns}xf32>, tensor<{rows}x{columns}xf32>) -> tensor<{rows + 1}x{columns}xf32>
  %c = stablehlo.slice %b [{rows - 1}:{rows}, 0:{columns}]
    : (tensor<{rows + 1}x{columns}xf32>) -> tensor<1x{columns}xf32>
  %d = stablehlo.concatenate %b, %c, dim = 0
    : (tensor<{rows + 1}x{columns}xf32>, tensor<1x{columns}xf32>) -> tensor<{tall}x{columns}xf32>
  %e = stablehlo.slice %d [0:{tall}, 1:2] : (tensor<{tall}x{columns}xf32>) -> tensor<{tall}x1xf32>
  %f = stablehlo.concatenate %e, %d, dim = 1
    : (tensor<{tall}x1xf32>, tensor<{tall}x{columns}xf32>) -> {whole}
  %g = stablehlo.slice %f [0:{tall}, {columns - 1}:{columns}] : ({whole}) -> tensor<{tall}x1xf32>
  %h = stablehlo.concatenate %f, %g, dim = 1
    : ({whole}, tensor<{tall}x1xf32>) -> tensor<{tall}x{wide}xf32>
  return %h : tensor<{tall}x{wide}xf32>
}}"""


def test_concatenations_of_parts_are_one() -> None:
    text = reflected(24, 20)
    assert compiled(text).time().profile()["summary"]["dma_transfer_count"] == 6  # three parts, twice
    check(text, drawn(24, 20))


GAPS = [
    ((32, 32), (0, 0), (0, 0), (1, 1)),
    ((5, 7), (1, 2), (0, 3), (2, 0)),
    ((5, 7), (0, 2), (3, 0), (0, 3)),
    ((2, 3, 4), (0, 1, 0), (0, 2, 1), (0, 1, 2)),
    ((130, 6), (1, 0), (2, 0), (1, 0)),
    ((1, 1), (2, 1), (0, 1), (4, 4)),
]


@pytest.mark.parametrize("shape,low,high,interior", GAPS)
def test_gaps_are_written_once(shape, low, high, interior) -> None:
    out = [a + b + n + (n - 1) * gap for n, a, b, gap in zip(shape, low, high, interior)]
    source, result = ("tensor<" + "x".join(map(str, dims)) + "xf32>" for dims in (shape, out))
    text = f"""func.func @main(%x: {source}) -> {result} {{
  %c = stablehlo.constant dense<-1.5> : tensor<f32>
  %r = stablehlo.pad %x, %c, low = {list(low)}, high = {list(high)}, interior = {list(interior)}
    : ({source}, tensor<f32>) -> {result}
  return %r : {result}
}}"""
    check(text, drawn(*shape))
    assert compiled(text).time().time_us < 5.0


@pytest.mark.parametrize("matrix,vector,dims", [("8x32x32", "8x32", "[2] x [1]"), ("8x32", "8x24x32", "[1] x [2]")])
def test_matrices_by_vectors_are_the_vector_engines(matrix: str, vector: str, dims: str) -> None:
    rows = max(matrix, vector, key=len).split("x")[1]
    text = f"""func.func @main(%a: tensor<{matrix}xf32>, %b: tensor<{vector}xf32>) -> tensor<8x{rows}xf32> {{
  %r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = {dims}
    : (tensor<{matrix}xf32>, tensor<{vector}xf32>) -> tensor<8x{rows}xf32>
  return %r : tensor<8x{rows}xf32>
}}"""
    assert lines(text, "nc_matmul") == 0
    shapes = [[int(size) for size in each.split("x")] for each in (matrix, vector)]
    check(text, drawn(*shapes[0]), drawn(*shapes[1]), tolerance=1e-5)


TWO_FUNCTIONS = """func.func @main(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %e = stablehlo.exponential %x : tensor<64x64xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %r = stablehlo.log %s : tensor<64xf32>
  return %r : tensor<64xf32>
}"""


def test_the_next_table_is_loaded_behind_the_last_use_of_the_one_before() -> None:
    functions = [line.split("op=")[1].split()[0] for line in compiled(TWO_FUNCTIONS).program_text().splitlines()
                 if line.startswith("activation")]  # fmt: skip
    assert functions == ["exp", "exp", "log", "log"]
    check(TWO_FUNCTIONS, drawn(64, 64), tolerance=1e-5)


SQUARES = """func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = stablehlo.multiply %x, %y : tensor<64x64xf32>
  %b = stablehlo.multiply %y, %x : tensor<64x64xf32>
  %c = stablehlo.subtract %a, %b : tensor<64x64xf32>
  %d = stablehlo.multiply %x, %x : tensor<64x64xf32>
  %e = stablehlo.multiply %y, %y : tensor<64x64xf32>
  %f = stablehlo.add %d, %e : tensor<64x64xf32>
  %r = stablehlo.maximum %c, %f : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}"""


def test_a_small_input_that_kernels_share_is_loaded_once() -> None:
    assert compiled(SQUARES).time().profile()["summary"]["dma_transfer_count"] == 3  # two inputs, the result
    check(SQUARES, drawn(64, 64), drawn(64, 64) + 1)


def place_of_extreme(better: str, start: str) -> str:
    return f"""func.func @main(%x: tensor<8x40xf32>) -> tensor<8xi32> {{
  %i = stablehlo.iota dim = 1 : tensor<8x40xi32>
  %s = stablehlo.constant dense<{start}> : tensor<f32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %s), (%i init: %z) across dimensions = [1]
    : (tensor<8x40xf32>, tensor<8x40xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%k: tensor<i32>, %l: tensor<i32>) {{
      %2 = stablehlo.compare {better}, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %k, %l, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %a, %b : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %k, %l : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }}
  return %r#1 : tensor<8xi32>
}}"""


@pytest.mark.parametrize("better,start", [("GT", "0xFF800000"), ("LT", "0x7F800000")])
def test_places_of_extremes(better: str, start: str) -> None:
    text = place_of_extreme(better, start)
    values = drawn(8, 40)
    values[1, [7, 9]] = np.nan
    values[2] = 1.0
    values[3, [0, 39]] = [-np.inf, np.inf]
    values[4, 0] = np.nan
    values[5, 39] = np.nan
    values[6] = np.inf
    values[7] = -np.inf
    check(text, values)
    assert compiled(text).time().time_us < 5.5


def steps_of_a_recurrence(rows: int) -> str:
    """Of h [rows, 24] by parts of a constant [2, 40, 24], contracted along its last dimension."""
    random = np.random.default_rng(1).standard_normal((2, 40, 24)).astype(np.float32).round(3)
    text = f"""func.func @main(%h: tensor<{rows}x24xf32>) -> tensor<{rows}x24xf32> {{
  %w = stablehlo.constant dense<{random.tolist()}> : tensor<2x40x24xf32>
  %one = stablehlo.slice %w [1:2, 0:40, 0:24] : (tensor<2x40x24xf32>) -> tensor<1x40x24xf32>
  %all = stablehlo.reshape %one : (tensor<1x40x24xf32>) -> tensor<40x24xf32>
  %part = stablehlo.slice %all [8:32, 0:24] : (tensor<40x24xf32>) -> tensor<24x24xf32>
"""
    for step in range(3):
        before = f"%t{step - 1}" if step else "%h"
        text += f"""  %p{step} = stablehlo.dot_general {before}, %part, contracting_dims = [1] x [1]
    : (tensor<{rows}x24xf32>, tensor<24x24xf32>) -> tensor<{rows}x24xf32>
  %t{step} = stablehlo.tanh %p{step} : tensor<{rows}x24xf32>
"""
    return text + f"  return %t2 : tensor<{rows}x24xf32>\n}}"


@pytest.mark.parametrize("rows", [2, 40])
def test_steps_of_a_recurrence_do_not_turn_their_weights_again(rows: int) -> None:
    text = steps_of_a_recurrence(rows)
    turned = [line for line in compiled(text).program_text().splitlines() if "_T" in line and "rhs" in line]
    assert bool(turned) == (rows > 32)
    check(text, drawn(rows, 24), tolerance=1e-5)
