"""What a short program takes besides its bytes: waits for transfers, function tables, values that go to memory and
come back, products of one row. Values beside the evaluator's; times by what is in the program."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn
from opentrn import graph


def compiled(text: str, target: str = "trn2"):
    return opentrn.compile(text, target=target, strict=True)


def transfers(text: str) -> int:
    return compiled(text).time().profile()["summary"]["dma_transfer_count"]


def check(text: str, *inputs: np.ndarray, tolerance: float = 0.0) -> None:
    (made,), (wanted,) = compiled(text)(*inputs), graph.parse(text).evaluate(*inputs)
    if tolerance == 0:
        np.testing.assert_array_equal(made, wanted)
    else:
        np.testing.assert_allclose(made, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


MANY_LOADS = f"""func.func @main({", ".join(f"%a{i}: tensor<32x32xf32>" for i in range(10))}) -> tensor<320x32xf32> {{
  %r = stablehlo.concatenate {", ".join(f"%a{i}" for i in range(10))}, dim = 0
    : ({", ".join(["tensor<32x32xf32>"] * 10)}) -> tensor<320x32xf32>
  return %r : tensor<320x32xf32>
}}"""


def test_transfers_do_not_wait_for_one_anothers_descriptors() -> None:
    """Generated while the program runs, ten would begin 600 ns after one another."""
    timing = compiled(MANY_LOADS).time()
    assert timing.profile()["summary"]["dma_transfer_count"] == 10
    assert "dge hwdge" not in timing.executable_text(0)
    assert timing.time_us < 4.0


def unary(op: str) -> str:
    return f"""func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {{
  %r = stablehlo.{op} %x : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}}"""


@pytest.mark.parametrize("op", ["exponential", "log_plus_one", "sine"])
def test_a_function_table_is_loaded_while_the_operand_comes(op: str) -> None:
    model = compiled(unary(op))
    tables = [line for line in model.program_text().splitlines() if line.startswith("activation")]
    waited = model.time().time_us - compiled(unary("abs")).time().time_us
    assert len(tables) >= 2  # one that loads it, on one element
    assert "@" in tables[0]  # and belongs to the op
    assert waited < (0.8 if op == "exponential" else 4.5)


LAYER = """func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %b = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %c = stablehlo.multiply %a, %b : tensor<64xf32>
  %d = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
  %r = stablehlo.add %x, %d : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}"""


def test_equal_reductions_are_made_once() -> None:
    model = compiled(LAYER)
    assert sum(line.startswith("tensor_reduce") for line in model.program_text().splitlines()) == 1
    check(LAYER, drawn(64, 64), tolerance=1e-6)


KEPT = {
    "pad": """func.func @main(%x: tensor<63x64xf32>) -> tensor<64x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.add %x, %x : tensor<63x64xf32>
  %r = stablehlo.pad %y, %zero, low = [LOW, 0], high = [HIGH, 0], interior = [0, 0]
    : (tensor<63x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}""",
    "concatenate": """func.func @main(%x: tensor<63x64xf32>) -> tensor<126x64xf32> {
  %y = stablehlo.add %x, %x : tensor<63x64xf32>
  %r = stablehlo.concatenate %x, %y, dim = 0 : (tensor<63x64xf32>, tensor<63x64xf32>) -> tensor<126x64xf32>
  return %r : tensor<126x64xf32>
}""",
    "one_row": """func.func @main(%x: tensor<63x64xf32>) -> tensor<f32> {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [0, 1]
    : (tensor<63x64xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}""",
}


@pytest.mark.parametrize(
    "text, most",
    [
        (KEPT["pad"].replace("LOW", "0").replace("HIGH", "1"), 2),
        (KEPT["pad"].replace("LOW", "1").replace("HIGH", "0"), 3),  # other partitions: a transfer within SBUF
        (KEPT["concatenate"], 3),
        (KEPT["one_row"], 3),
    ],
)
def test_values_in_sbuf_do_not_go_to_memory_and_back(text: str, most: int) -> None:
    assert transfers(text) <= most
    check(text, drawn(63, 64))


def pooled(op: str, start: str, size: int, step: int, shape: tuple[int, ...], pad: int) -> str:
    n, c, h, w = shape
    out = [(length + 2 * pad - size) // step + 1 for length in (h, w)]
    x, y = f"tensor<{n}x{c}x{h}x{w}xf32>", f"tensor<{n}x{c}x{out[0]}x{out[1]}xf32>"
    return f"""func.func @main(%x: {x}) -> {y} {{
  %start = stablehlo.constant dense<{start}> : tensor<f32>
  %y = "stablehlo.reduce_window"(%x, %start) <{{window_dimensions = array<i64: 1, 1, {size}, {size}>,
      window_strides = array<i64: 1, 1, {step}, {step}>,
      padding = dense<[[0, 0], [0, 0], [{pad}, {pad}], [{pad}, {pad}]]> : tensor<4x2xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.{op} %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
  }}) : ({x}, tensor<f32>) -> {y}
  return %y : {y}
}}"""


@pytest.mark.parametrize("size, step, pad", [(3, 2, 1), (3, 1, 1), (2, 2, 0), (2, 5, 0), (5, 3, 2)])
@pytest.mark.parametrize(
    ("op", "start"), [("maximum", "0xFF800000"), ("maximum", "-0.5"), ("add", "0.0"), ("add", "1.5")]
)
def test_windows_are_combined_by_columns_and_rows(op: str, start: str, size: int, step: int, pad: int) -> None:
    text = pooled(op, start, size, step, (2, 5, 17, 13), pad)
    check(text, drawn(2, 5, 17, 13), tolerance=0.0 if op == "maximum" else 1e-6)


def test_a_window_of_nine_places_is_four_steps() -> None:
    text = pooled("maximum", "0xFF800000", 3, 2, (1, 32, 17, 17), 1)
    steps = [line for line in compiled(text).program_text().splitlines() if line.startswith("tensor_tensor")]
    assert len(steps) == 4


def convolved(channels: int, features: int, length: int, taps: int, stride: int, pad: int, rows: int = 0) -> str:
    out = (length + 2 * pad - taps) // stride + 1
    space = f"{rows}x" if rows else ""
    one, spatial = ("1x", "0, 1") if rows else ("", "0")
    x, k = f"tensor<2x{channels}x{space}{length}xf32>", f"tensor<{features}x{channels}x{one}{taps}xf32>"
    y = f"tensor<2x{features}x{space}{out}xf32>"
    padding = f"[[0, 0], [{pad}, {pad}]]" if rows else f"[[{pad}, {pad}]]"
    return f"""func.func @main(%x: {x}, %k: {k}) -> {y} {{
  %r = stablehlo.convolution(%x, %k) dim_numbers = [b, f, {spatial}]x[o, i, {spatial}]->[b, f, {spatial}],
    window = {{stride = [{'1, ' if rows else ''}{stride}], pad = {padding}}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({x}, {k}) -> {y}
  return %r : {y}
}}"""


@pytest.mark.parametrize(
    "channels, features, length, taps, stride, pad, rows",
    [
        (1, 130, 1024, 256, 64, 0, 0),  # two blocks of taps, two of features
        (1, 20, 300, 200, 1, 0, 0),
        (3, 20, 300, 50, 2, 0, 0),
        (2, 20, 120, 7, 3, 3, 0),
        (1, 6, 50, 9, 1, 4, 5),  # windows of one row
        (2, 6, 50, 9, 2, 0, 5),
    ],
)
def test_taps_of_few_channels_lie_over_partitions(
    channels: int, features: int, length: int, taps: int, stride: int, pad: int, rows: int
) -> None:
    text = convolved(channels, features, length, taps, stride, pad, rows)
    shape = (2, channels, rows, length) if rows else (2, channels, length)
    kernel = (features, channels, 1, taps) if rows else (features, channels, taps)
    check(text, drawn(*shape), drawn(*kernel), tolerance=1e-5)


def test_a_window_of_one_channel_is_few_products() -> None:
    text = convolved(1, 128, 1024, 256, 64, 0)
    products = [line for line in compiled(text).program_text().splitlines() if line.startswith("nc_matmul")]
    assert len(products) <= 4  # 256 of one row each before
    assert compiled(text).time().time_us < 25


def test_whole_numbers_are_converted_in_one_step() -> None:
    text = """func.func @main(%x: tensor<64x64xi8>, %y: tensor<64x64xf32>) -> (tensor<64x64xi32>, tensor<64x64xi32>) {
  %a = stablehlo.convert %x : (tensor<64x64xi8>) -> tensor<64x64xf32>
  %b = stablehlo.add %a, %a : tensor<64x64xf32>
  %r = stablehlo.convert %b : (tensor<64x64xf32>) -> tensor<64x64xi32>
  %s = stablehlo.convert %y : (tensor<64x64xf32>) -> tensor<64x64xi32>
  return %r, %s : tensor<64x64xi32>, tensor<64x64xi32>
}"""
    x = np.random.default_rng(0).integers(-128, 127, (64, 64)).astype(np.int8)
    y = 100 * drawn(64, 64)
    model = compiled(text)
    made, wanted = model(x, y), graph.parse(text).evaluate(x, y)
    for ours, theirs in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert sum("fmod" in line for line in model.program_text().splitlines()) == 1  # of y alone


def extremes(op: str, rows: int, width: int, count: int) -> str:
    table, updates = f"tensor<{rows}x{width}xf32>", f"tensor<{count}x{width}xf32>"
    return f"""func.func @main(%x: {table}, %i: tensor<{count}x1xi32>, %u: {updates}) -> {table} {{
  %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.{op} %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
  }}) : ({table}, tensor<{count}x1xi32>, {updates}) -> {table}
  return %r : {table}
}}"""


@pytest.mark.parametrize("op", ["maximum", "minimum", "multiply"])
@pytest.mark.parametrize(("rows", "width", "count"), [(7, 5, 40), (30, 1, 9), (50, 64, 150)])
def test_extremes_of_rows_are_taken_in_sbuf(op: str, rows: int, width: int, count: int) -> None:
    """Equal indices meet, and indices outside change nothing."""
    text = extremes(op, rows, width, count)
    places = np.random.default_rng(count).integers(-2, rows + 2, (count, 1)).astype(np.int32)
    places[:2] = [[-(2**31)], [2**31 - 1]]
    inputs = (drawn(rows, width), places, drawn(count, width))
    (made,), (wanted,) = compiled(text)(*inputs), graph.parse(text).evaluate(*inputs)
    np.testing.assert_array_equal(made, wanted)


def test_a_window_of_an_extreme_is_one_instruction() -> None:
    """Three transfers one after another took 3.4 us for each."""
    assert compiled(extremes("maximum", 50, 64, 150)).time().time_us < 150
