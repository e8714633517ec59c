"""Ops that are compiled in a form of their own because their shape asks for it: bits or values of the evaluator, and
time beside that of an op that moves or adds as much."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph

DTYPES = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "i32": np.int32,
    "i1": np.bool_,
}
SPECIAL = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42], np.float32)


def kind(shape, dtype: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


def time_of(text: str) -> float:
    return opentrn.compile(text, strict=True).time().time_us


def reduction(shape, dims, dtype: str, combiner: str, start: str) -> str:
    result = kind([size for d, size in enumerate(shape) if d not in dims], dtype)
    return f"""
func.func @main(%x: {kind(shape, dtype)}) -> {result} {{
  %start = stablehlo.constant dense<{start}> : tensor<{dtype}>
  %y = stablehlo.reduce(%x init: %start) applies stablehlo.{combiner} across dimensions = {list(dims)}
    : ({kind(shape, dtype)}, tensor<{dtype}>) -> {result}
  return %y : {result}
}}
"""


def drawn(shape, dtype: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype in ("i32", "i1"):
        return random.integers(0, 2 if dtype == "i1" else 2**30, shape).astype(DTYPES[dtype])
    return random.standard_normal(shape).astype(DTYPES[dtype])


@pytest.mark.parametrize(
    "shape, dims",
    [
        ((64, 64), (0, 1)),
        ((513, 70), (0, 1)),
        ((8192,), (0,)),
        ((3, 9000), (1,)),
        ((3, 30, 7, 50), (0, 1, 3)),
        ((2, 64, 28, 28), (0, 2, 3)),
        ((1, 4, 33, 1), (0, 3)),
        ((1, 5, 1), (0, 2)),
        ((1, 9, 20), (0, 2)),
    ],
)
@pytest.mark.parametrize(
    "dtype, combiner, start",
    [
        ("f32", "add", "0.0"),
        ("bf16", "add", "0.0"),
        ("f32", "maximum", "0xFF800000"),
        ("i32", "add", "0"),
        ("i32", "minimum", "2147483647"),
        ("i1", "or", "false"),
        ("f32", "add", "2.5"),
    ],
)
def test_reductions_of_few_rows(shape, dims, dtype: str, combiner: str, start: str) -> None:
    text = reduction(shape, dims, dtype, combiner, start)
    x = drawn(shape, dtype)
    (made,) = opentrn.compile(text, strict=True)(x)
    if combiner == "add" and dtype != "i32":  # in any order, and rounded to the type once
        numbers = x.astype(np.float64)
        exact, sizes = numbers.sum(dims) + float(start), np.abs(numbers).sum(dims)
        one_rounding = 2.0**-8 if dtype == "bf16" else 2.0**-23
        assert (np.abs(made.astype(np.float64) - exact) <= one_rounding * np.abs(exact) + 2.0**-23 * sizes).all()
    else:
        np.testing.assert_array_equal(made, graph.parse(text).evaluate(x)[0])


def test_negative_zero_meets_the_initial_value() -> None:
    """A dimension of one element is reduced to itself and the start: +0 of -0 and 0."""
    text = reduction((1, 4), (0,), "f32", "add", "0.0")
    (made,) = opentrn.compile(text, strict=True)(np.full((1, 4), -0.0, np.float32))
    assert not np.signbit(made).any()


def test_the_sum_of_everything_takes_little_longer_than_sums_of_rows() -> None:
    everything, rows = (
        reduction((512, 512), dims, "f32", "add", "0.0") for dims in ((0, 1), (1,))
    )
    assert time_of(everything) < 3 * time_of(rows)


ARGMAX = """
func.func @main(%x: {x}) -> {y} {{
  %i = stablehlo.iota dim = {dim} : {places}
  %worst = stablehlo.constant dense<{worst}> : tensor<{dtype}>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %worst), (%i init: %zero) across dimensions = [{dim}]
      : ({x}, {places}, tensor<{dtype}>, tensor<i32>) -> ({values}, {y})
    reducer(%a: tensor<{dtype}>, %b: tensor<{dtype}>) (%p: tensor<i32>, %q: tensor<i32>) {{
      %1 = stablehlo.compare {better}, %a, %b, FLOAT : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
      %2 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
      %3 = stablehlo.or %1, %2 : tensor<i1>
      %4 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
      %5 = stablehlo.compare LT, %p, %q, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %6 = stablehlo.and %4, %5 : tensor<i1>
      %7 = stablehlo.or %3, %6 : tensor<i1>
      %8 = stablehlo.select %3, %a, %b : tensor<i1>, tensor<{dtype}>
      %9 = stablehlo.select %7, %p, %q : tensor<i1>, tensor<i32>
      stablehlo.return %8, %9 : tensor<{dtype}>, tensor<i32>
    }}
  return %r#1 : {y}
}}
"""


def argmax(shape, dim: int, dtype: str, better: str) -> str:
    left = [size for d, size in enumerate(shape) if d != dim]
    infinity = {"f32": ("0xFF800000", "0x7F800000"), "bf16": ("0xFF80", "0x7F80")}[dtype]
    return ARGMAX.format(x=kind(shape, dtype), y=kind(left, "i32"), places=kind(shape, "i32"),
                         values=kind(left, dtype), dim=dim, dtype=dtype, better=better,
                         worst=infinity[better == "LT"])  # fmt: skip


@pytest.mark.parametrize("better", ["GT", "LT"])
@pytest.mark.parametrize("shape, dim", [((40, 33), 1), ((40, 33), 0), ((3, 20, 9), 1), ((130, 600), 1), ((2, 9000), 1),
                                        ((3, 1500), 0), ((2, 21, 40, 30), 1)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("specials", [SPECIAL, SPECIAL[2:], SPECIAL[3:4]])
def test_places_of_extremes(shape, dim: int, dtype: str, better: str, specials) -> None:
    random = np.random.default_rng(4)
    x = random.integers(-5, 6, shape).astype(np.float32)
    x = np.where(random.random(shape) < 0.02, specials[random.integers(0, len(specials), shape)], x)
    if len(specials) == 1:
        x[:] = specials[0]
    x = x.astype(DTYPES[dtype])
    text = argmax(shape, dim, dtype, better)
    (made,), (wanted,) = opentrn.compile(text, strict=True)(x), graph.parse(text).evaluate(x)
    np.testing.assert_array_equal(made, wanted)


def top_k(shape, k: int, dtype: str = "f32") -> str:
    x, y, places = kind(shape, dtype), kind((*shape[:-1], k), dtype), kind((*shape[:-1], k), "i32")
    return f"""
func.func @main(%x: {x}) -> ({y}, {places}) {{
  %v, %i = chlo.top_k(%x, k = {k}) : {x} -> ({y}, {places})
  return %v, %i : {y}, {places}
}}
"""


@pytest.mark.parametrize(
    "shape, k",
    [((3, 40), 1), ((3, 40), 8), ((130, 17), 5), ((2, 3, 100), 64), ((9,), 9), ((2, 6), 3), ((2, 5000), 7),
     ((1, 9001), 50), ((3, 700), 100)],
)  # fmt: skip
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_largest_elements_have_the_evaluators_bits(shape, k: int, share: float, dtype: str) -> None:
    random = np.random.default_rng(7)
    x = random.integers(-5, 6, shape).astype(np.float32)
    x = np.where(random.random(shape) < share, SPECIAL[random.integers(0, len(SPECIAL), shape)], x)
    x = x.astype(DTYPES[dtype])
    text = top_k(shape, k, dtype)
    made, wanted = opentrn.compile(text, strict=True)(x), graph.parse(text).evaluate(x)
    whole = np.int32 if dtype == "f32" else np.int16
    np.testing.assert_array_equal(made[1], wanted[1])
    np.testing.assert_array_equal(made[0].view(whole), wanted[0].view(whole))


def test_largest_elements_take_the_time_of_a_few_passes() -> None:
    """A merging network of 1,000 columns would take some 50 of them."""
    copy = f"""
func.func @main(%x: {kind((8, 1000))}) -> {kind((8, 1000))} {{
  %y = stablehlo.exponential %x : {kind((8, 1000))}
  return %y : {kind((8, 1000))}
}}
"""
    assert time_of(top_k((8, 1000), 8)) < 15 * time_of(copy)


def interleaved(shape, dtype: str) -> str:
    x, one, y = kind(shape, dtype), kind((*shape, 1), dtype), kind((*shape, 3), dtype)
    return f"""
func.func @main(%x: {x}) -> {y} {{
  %n = stablehlo.negate %x : {x}
  %a = stablehlo.reshape %x : ({x}) -> {one}
  %b = stablehlo.reshape %n : ({x}) -> {one}
  %y = stablehlo.concatenate %a, %b, %a, dim = {len(shape)} : ({one}, {one}, {one}) -> {y}
  return %y : {y}
}}
"""


def repeated(shape, dtype: str) -> str:
    x, y = kind(shape, dtype), kind((*shape, 2), dtype)
    flat = kind((*shape[:-1], 2 * shape[-1]), dtype)
    return f"""
func.func @main(%x: {x}) -> {flat} {{
  %r = stablehlo.broadcast_in_dim %x, dims = {list(range(len(shape)))} : ({x}) -> {y}
  %y = stablehlo.reshape %r : ({y}) -> {flat}
  return %y : {flat}
}}
"""


@pytest.mark.parametrize("program", [interleaved, repeated])
@pytest.mark.parametrize("shape", [(64, 64), (130, 257), (3, 50, 70), (5, 7), (20000,)])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32"])
def test_short_runs_side_by_side(program, shape, dtype: str) -> None:
    text = program(shape, dtype)
    x = drawn(shape, dtype)
    (made,), (wanted,) = opentrn.compile(text, strict=True)(x), graph.parse(text).evaluate(x)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("program", [interleaved, repeated])
def test_short_runs_take_the_time_of_their_bytes(program) -> None:
    add = f"""
func.func @main(%x: {kind((1024, 512))}) -> {kind((1024, 512))} {{
  %y = stablehlo.add %x, %x : {kind((1024, 512))}
  return %y : {kind((1024, 512))}
}}
"""
    assert time_of(program((512, 512), "f32")) < 4 * time_of(add)


def weight_gradient(batch, size, channels, features, taps, pad, spread, dilation):
    """The program, and the shapes of the images and of the gradient of the result."""
    outer = (size - 1) * spread + 1 + 2 * pad - (taps - 1)
    positions = (outer - 1) // dilation + 1
    left = outer - ((positions - 1) * dilation + 1)
    shapes = (batch, size, size, channels), (batch, positions, positions, features)
    image, grad = (kind(shape) for shape in shapes)
    result = kind((taps, taps, channels, features))
    text = f"""
func.func @main(%x: {image}, %g: {grad}) -> {result} {{
  %w = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f],
    window = {{stride = [1, 1], pad = [[{pad}, {pad - left}], [{pad}, {pad - left}]],
      lhs_dilate = [{spread}, {spread}], rhs_dilate = [{dilation}, {dilation}], reverse = [false, false]}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({image}, {grad}) -> {result}
  return %w : {result}
}}
"""
    return text, shapes


@pytest.mark.parametrize(
    "batch, size, channels, features, taps, pad, spread, dilation",
    [
        (1, 14, 32, 32, 3, 1, 1, 1),
        (2, 9, 17, 20, 3, 1, 1, 1),
        (2, 12, 8, 24, 3, 1, 1, 2),
        (1, 8, 16, 16, 4, 3, 4, 1),
        (2, 7, 5, 6, 2, 1, 2, 1),
        (1, 10, 16, 16, 3, 0, 1, 1),
    ],
)
def test_gradients_of_weights(batch, size, channels, features, taps, pad, spread, dilation) -> None:
    text, shapes = weight_gradient(batch, size, channels, features, taps, pad, spread, dilation)
    x, g = (drawn(shape, "f32", seed) for seed, shape in enumerate(shapes))
    (made,), (wanted,) = opentrn.compile(text, strict=True)(x, g), graph.parse(text).evaluate(x, g)
    np.testing.assert_allclose(made, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def test_gradients_of_weights_cost_a_few_forward_passes() -> None:
    forward = """
func.func @main(%x: tensor<2x28x28x64xf32>, %w: tensor<3x3x64x64xf32>) -> tensor<2x28x28x64xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1], pad = [[1, 1], [1, 1]], reverse = [false, false]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x28x28x64xf32>, tensor<3x3x64x64xf32>) -> tensor<2x28x28x64xf32>
  return %y : tensor<2x28x28x64xf32>
}
"""
    assert time_of(weight_gradient(2, 28, 64, 64, 3, 1, 1, 1)[0]) < 5 * time_of(forward)


def pooled(shape, size: int, step: int, low: int, high: int) -> str:
    out = [(n + low + high - size) // step + 1 for n in shape[1:3]]
    x, y = kind(shape), kind((shape[0], *out, shape[3]))
    return f"""
func.func @main(%x: {x}) -> {y} {{
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %y = "stablehlo.reduce_window"(%x, %least) <{{window_dimensions = array<i64: 1, {size}, {size}, 1>,
      window_strides = array<i64: 1, {step}, {step}, 1>,
      padding = dense<[[0, 0], [{low}, {high}], [{low}, {high}], [0, 0]]> : tensor<4x2xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
  }}) : ({x}, tensor<f32>) -> {y}
  return %y : {y}
}}
"""


@pytest.mark.parametrize(
    "shape, size, step, low, high",
    [
        ((2, 56, 56, 64), 3, 2, 0, 1),
        ((1, 14, 14, 32), 2, 2, 0, 0),
        ((3, 150, 9, 40), 3, 1, 1, 1),
        ((2, 20, 140, 16), 2, 2, 0, 0),
    ],
)
def test_windows_of_images_with_channels_last(shape, size: int, step: int, low: int, high: int) -> None:
    text = pooled(shape, size, step, low, high)
    x = drawn(shape, "f32")
    (made,), (wanted,) = opentrn.compile(text, strict=True)(x), graph.parse(text).evaluate(x)
    np.testing.assert_array_equal(made, wanted)


def test_windows_of_images_are_not_loaded_by_element() -> None:
    """Elements of a channel lie apart in memory: a descriptor for each would take 175 us for these."""
    assert time_of(pooled((2, 56, 56, 64), 3, 2, 0, 1)) < 100


LOOP = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64x64xf32>
  cond {
    %n = stablehlo.constant dense<TRIPS> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %h = stablehlo.constant dense<5.000000e-01> : tensor<64x64xf32>
    %m = stablehlo.multiply %v, %h : tensor<64x64xf32>
    %t = stablehlo.exponential %m : tensor<64x64xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %t : tensor<i32>, tensor<64x64xf32>
  }
  return %r#1 : tensor<64x64xf32>
}
"""


def test_what_a_loop_carries_to_the_end_stays_in_sbuf() -> None:
    """Nobody but the loop reads it: a trip through memory would take 4 us an iteration."""
    times = [time_of(LOOP.replace("TRIPS", str(trips))) for trips in (8, 40)]
    assert all((b - a) / 32 < 2.0 for a, b in pairwise(times))


def columns_taken(shape, dim: int, places) -> str:
    """x[..., i, ...] with indices of shape `places` in place of dimension `dim`."""
    result = [*shape[:dim], *places, *shape[dim + 1 :]]
    offsets = [d for d in range(len(result)) if not dim <= d < dim + len(places)]
    sizes = [1 if d == dim else size for d, size in enumerate(shape)]
    return f"""
func.func @main(%x: {kind(shape)}, %i: {kind((*places, 1), "i32")}) -> {kind(result)} {{
  %y = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = {offsets},
      collapsed_slice_dims = [{dim}], start_index_map = [{dim}], index_vector_dim = {len(places)}>,
      indices_are_sorted = false, slice_sizes = array<i64: {", ".join(map(str, sizes))}>}}>
    : ({kind(shape)}, {kind((*places, 1), "i32")}) -> {kind(result)}
  return %y : {kind(result)}
}}
"""


@pytest.mark.parametrize(
    "shape, dim, places", [((64, 70), 1, (40,)), ((5, 30, 20), 1, (11,)), ((9, 8, 33), 2, (4, 6)), ((64, 64), 1, (1,))]
)
def test_columns_are_gathered_as_rows(shape, dim: int, places) -> None:
    text = columns_taken(shape, dim, places)
    x = drawn(shape, "f32")
    i = np.random.default_rng(3).integers(-2, shape[dim] + 2, (*places, 1)).astype(np.int32)
    (made,), (wanted,) = opentrn.compile(text, strict=True)(x, i), graph.parse(text).evaluate(x, i)
    np.testing.assert_array_equal(made, wanted)


def test_gathered_columns_take_the_time_of_a_few_copies() -> None:
    """A descriptor for each of 131,072 elements would take 2 ms."""
    assert time_of(columns_taken((512, 1024), 1, (256,))) < 200


def image_gradient(batch: int, size: int, channels: int, features: int) -> str:
    """The kernel as JAX gives it: its spatial dimensions reversed, its features and channels exchanged."""
    grad, kernel, image = (
        kind(shape)
        for shape in ((batch, size, size, features), (3, 3, channels, features), (batch, size, size, channels))
    )
    return f"""
func.func @main(%g: {grad}, %w: {kernel}) -> {image} {{
  %r = stablehlo.reverse %w, dims = [0, 1] : {kernel}
  %y = stablehlo.convolution(%g, %r) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f],
    window = {{stride = [1, 1], pad = [[1, 1], [1, 1]], reverse = [false, false]}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({grad}, {kernel}) -> {image}
  return %y : {image}
}}
"""


@pytest.mark.parametrize("batch, size, channels, features", [(1, 9, 32, 48), (2, 6, 130, 64), (1, 5, 3, 16)])
def test_gradients_of_images(batch: int, size: int, channels: int, features: int) -> None:
    text = image_gradient(batch, size, channels, features)
    g, w = drawn((batch, size, size, features), "f32"), drawn((3, 3, channels, features), "f32", 1)
    (made,), (wanted,) = opentrn.compile(text, strict=True)(g, w), graph.parse(text).evaluate(g, w)
    np.testing.assert_allclose(made, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def test_kernels_of_gradients_are_not_loaded_by_element() -> None:
    """36,864 elements that are neighbours along channels only would take 200 us."""
    assert time_of(image_gradient(2, 28, 64, 64)) < 120


def padded(shape, low, high, dtype: str, number: str, doubled: bool) -> str:
    result = kind([size + a + b for size, a, b in zip(shape, low, high, strict=True)], dtype)
    source = "stablehlo.add %x, %x" if doubled else "stablehlo.optimization_barrier %x"
    zeros = [0] * len(shape)
    return f"""
func.func @main(%x: {kind(shape, dtype)}) -> {result} {{
  %number = stablehlo.constant dense<{number}> : tensor<{dtype}>
  %y = {source} : {kind(shape, dtype)}
  %r = stablehlo.pad %y, %number, low = {list(low)}, high = {list(high)}, interior = {zeros}
    : ({kind(shape, dtype)}, tensor<{dtype}>) -> {result}
  return %r : {result}
}}
"""


@pytest.mark.parametrize("doubled", [False, True])
@pytest.mark.parametrize(
    ("dtype", "number"), [("f32", "0.0"), ("f32", "0xFF800000"), ("bf16", "1.5"), ("i32", "-7")]
)
@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        ((63, 64), (0, 0), (1, 0)),
        ((63, 64), (1, 0), (0, 0)),
        ((60, 30), (2, 3), (5, 1)),
        ((2, 31, 64), (0, 1, 0), (0, 0, 2)),
        ((2, 2, 7, 5), (0, 1, 2, 0), (1, 0, 0, 3)),
        ((3, 5, 7), (1, 0, 0), (1, 0, 0)),
        ((50,), (3,), (11,)),
        ((127, 9), (1, 0), (1, 0)),  # one row more than there are partitions
    ],
)
def test_small_pads_keep_every_bit(shape, low, high, dtype: str, number: str, doubled: bool):
    text = padded(shape, low, high, dtype, number, doubled)
    x = drawn(shape, dtype)
    (got,) = opentrn.compile(text, strict=True)(x)
    (want,) = graph.parse(text).evaluate(x)
    assert np.asarray(got).tobytes() == np.asarray(want).astype(DTYPES[dtype]).tobytes()


def test_a_small_pad_is_a_load_and_a_store():
    """A fill of the result in memory, for which the copy waited, took 5.4 us."""
    assert time_of(padded((63, 64), (1, 0), (0, 0), "f32", "0.0", False)) < 4.5
