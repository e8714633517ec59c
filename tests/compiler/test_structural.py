"""sort, top_k, gather, windows and map with any region: the device against the graph's evaluator, random shapes."""

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph

ELEMENTS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "ui8": np.uint8, "i1": np.bool_}


def values(random: np.random.Generator, shape: tuple, element: str) -> np.ndarray:
    """Few different numbers, so that many are equal; signed zeros, infinities and NaNs among floats."""
    if element in ("f32", "bf16"):
        numbers = random.integers(-4, 5, shape).astype(np.float32)
        special = random.random(shape)
        numbers[special < 0.1] = np.nan
        numbers[special < 0.05] = -np.nan
        numbers[special > 0.9] = -0.0
        numbers[(special > 0.5) & (special < 0.55)] = np.inf
        return numbers.astype(ELEMENTS[element])
    low, high = {"i32": (-5, 6), "ui8": (0, 256), "i1": (0, 2)}[element]
    return random.integers(low, high, shape).astype(ELEMENTS[element])


def agrees(text: str, *arrays: np.ndarray, bound: float = 0.0) -> list[np.ndarray]:
    """The device's values are the evaluator's, up to `bound` times the largest."""
    wanted = graph.parse(text).evaluate(*arrays)
    outputs = opentrn.compile(text)(*arrays)
    for got, want in zip(outputs, wanted, strict=True):
        assert got.shape == want.shape
        if bound:
            finite = np.abs(want[np.isfinite(want)]).max(initial=1e-30)
            np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=bound * finite)
        else:
            if want.dtype == ml_dtypes.bfloat16:  # whose NaNs NumPy does not know
                got, want = got.astype(np.float32), want.astype(np.float32)
            np.testing.assert_array_equal(got, want)
            if want.dtype.kind not in "biu":
                np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    return outputs


def tensor(shape: tuple, element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def sort_text(shape: tuple, element: str, dimension: int, order: str, others: tuple = ()) -> str:
    """A stable sort by the first operand; the others follow it."""
    kinds = [element, *others]
    arguments = ", ".join(f"%x{i}: {tensor(shape, kind)}" for i, kind in enumerate(kinds))
    types = ", ".join(tensor(shape, kind) for kind in kinds)
    pairs = ", ".join(f"%a{i}: tensor<{kind}>, %b{i}: tensor<{kind}>" for i, kind in enumerate(kinds))
    names = ", ".join(f"%x{i}" for i in range(len(kinds)))
    results = ", ".join(f"%r#{i}" for i in range(len(kinds))) if others else "%r"
    result = f"%r:{len(kinds)}" if others else "%r"
    return f"""
func.func @main({arguments}) -> ({types}) {{
  {result} = "stablehlo.sort"({names}) <{{dimension = {dimension} : i64, is_stable = true}}> ({{
    ^bb0({pairs}):
      %c = stablehlo.compare {order} : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }}) : ({types}) -> ({types})
  return {results} : {types}
}}
"""


@pytest.mark.parametrize("seed", range(12))
def test_sort(seed):
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 4))
    shape = tuple(int(n) for n in random.integers(1, 20, rank))
    dimension = int(random.integers(0, rank))
    element = str(random.choice(list(ELEMENTS)))
    direction = str(random.choice(["LT", "GT"]))
    kind = "TOTALORDER" if element in ("f32", "bf16") else "SIGNED" if element == "i32" else "UNSIGNED"
    others = tuple(str(k) for k in random.choice(list(ELEMENTS), int(random.integers(0, 3))))
    text = sort_text(shape, element, dimension, f"{direction}, %a0, %b0, {kind}", others)
    agrees(text, *(values(random, shape, k) for k in (element, *others)))


@pytest.mark.parametrize("length", [1, 2, 3, 31, 64, 65, 1000])
def test_sort_of_any_length(length):
    random = np.random.default_rng(length)
    x = random.standard_normal((130, length)).astype(np.float32)
    (got,) = agrees(sort_text((130, length), "f32", 1, "LT, %a0, %b0, FLOAT"), x)
    np.testing.assert_array_equal(got, np.sort(x, axis=1))


@pytest.mark.parametrize("seed", range(8))
def test_top_k(seed):
    random = np.random.default_rng(seed)
    shape = (int(random.integers(1, 140)), int(random.integers(1, 40)))
    if seed % 4 == 3:  # a row that is cut
        shape = (int(random.integers(1, 5)), int(random.integers(1000, 5000)))
    k = int(random.integers(0, min(shape[1], 60) + 1))
    element = str(random.choice(list(ELEMENTS)))
    x, results = tensor(shape, element), f"{tensor((shape[0], k), element)}, {tensor((shape[0], k), 'i32')}"
    text = f"""
func.func @main(%x: {x}) -> ({results}) {{
  %v, %i = chlo.top_k(%x, k = {k}) : {x} -> ({results})
  return %v, %i : {results}
}}
"""
    agrees(text, values(random, shape, element))


@pytest.mark.parametrize("index", ["i32", "ui32", "ui8"])
@pytest.mark.parametrize("seed", range(10))
def test_gather_with_any_attributes(seed, index):
    """Random collapsed, batching and offset dimensions; start indices inside and outside."""
    random = np.random.default_rng(100 + seed)
    rank = int(random.integers(1, 5))
    operand = [int(n) for n in random.integers(1, 9, rank)]
    sizes = [int(random.integers(1, n + 1)) for n in operand]
    roles = [str(random.choice(["offset", "collapsed", "batching"])) for _ in range(rank)]
    for d, role in enumerate(roles):
        if role != "offset":
            sizes[d] = 1
    batching = [d for d in range(rank) if roles[d] == "batching"]
    free = [int(n) for n in random.integers(1, 6, int(random.integers(0, 3)))]
    batch = [(operand[d], d) for d in batching] + [(n, None) for n in free]
    order = random.permutation(len(batch))
    batch = [batch[i] for i in order]
    mapped = [int(d) for d in random.permutation([d for d in range(rank) if roles[d] != "batching"])]
    mapped = mapped[: int(random.integers(0, len(mapped) + 1))]
    vector = int(random.integers(0, len(batch) + 1))
    indices = [n for n, _ in batch]
    indices.insert(vector, len(mapped))
    index_batching = [next(i for i, (_, d) in enumerate(batch) if d == b) for b in batching]
    index_batching = [i if i < vector else i + 1 for i in index_batching]
    kept = [sizes[d] for d in range(rank) if roles[d] == "offset"]
    total = len(batch) + len(kept)
    offset_dims = sorted(int(d) for d in random.choice(total, len(kept), replace=False))
    left, windows = [n for n, _ in batch], list(kept)
    result = tuple(windows.pop(0) if d in offset_dims else left.pop(0) for d in range(total))
    collapsed = [d for d in range(rank) if roles[d] == "collapsed"]
    text = f"""
func.func @main(%x: {tensor(tuple(operand), "f32")}, %i: {tensor(tuple(indices), index)}) -> {tensor(result, "f32")} {{
  %r = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = {offset_dims},
      collapsed_slice_dims = {collapsed}, operand_batching_dims = {batching},
      start_indices_batching_dims = {index_batching}, start_index_map = {mapped}, index_vector_dim = {vector}>,
      slice_sizes = array<i64: {", ".join(map(str, sizes))}>}}>
    : ({tensor(tuple(operand), "f32")}, {tensor(tuple(indices), index)}) -> {tensor(result, "f32")}
  return %r : {tensor(result, "f32")}
}}
"""
    kind = {"i32": np.int32, "ui32": np.uint32, "ui8": np.uint8}[index]
    places = random.integers(-3, 12, indices)
    if index == "ui32":
        places = np.where(places < 0, 2**32 + places, places)
    agrees(text, random.standard_normal(operand).astype(np.float32), places.astype(kind))


WINDOWS = """
func.func @main(%x: {x}, %s: {s}, %start: tensor<{element}>) -> {x} {{
  %r = "stablehlo.select_and_scatter"(%x, %s, %start) <{{window_dimensions = array<i64: {size}>,
      window_strides = array<i64: {stride}>, padding = dense<{padding}> : tensor<{rank}x2xi64>}}> ({{
    ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
      %c = stablehlo.compare GE, %a, %b : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }}, {{
    ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
      %c = stablehlo.add %a, %b : tensor<{element}>
      stablehlo.return %c : tensor<{element}>
  }}) : ({x}, {s}, tensor<{element}>) -> {x}
  return %r : {x}
}}
"""


def window(random: np.random.Generator, rank: int) -> tuple[list, list, list, list, list]:
    """Sizes, strides, padding, input and output shape, which has an element at least."""
    size = [int(n) for n in random.integers(1, 4, rank)]
    stride = [int(n) for n in random.integers(1, 4, rank)]
    padding = [[int(n) for n in random.integers(0, s, 2)] for s in size]
    shape = [int(random.integers(s, s + 8)) for s in size]
    out = [
        (n + low + high - s) // step + 1
        for n, (low, high), s, step in zip(shape, padding, size, stride, strict=True)
    ]
    return size, stride, padding, shape, out


@pytest.mark.parametrize("element", ["i32", "f32"])
@pytest.mark.parametrize("seed", range(6))
def test_select_and_scatter(seed, element):
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 4))
    size, stride, padding, shape, out = window(random, rank)
    text = WINDOWS.format(
        x=tensor(tuple(shape), element), s=tensor(tuple(out), element), element=element, rank=rank,
        size=", ".join(map(str, size)), stride=", ".join(map(str, stride)), padding=padding,
    )  # fmt: skip
    x, s = (random.integers(-5, 6, n).astype(ELEMENTS[element]) for n in (shape, out))
    agrees(text, x, s, np.array(3, ELEMENTS[element]))


@pytest.mark.parametrize("seed", range(8))
def test_reduce_window_with_any_region_and_several_operands(seed):
    """The place of the smallest number of each window, the first among equals; dilations too."""
    random = np.random.default_rng(50 + seed)
    rank = int(random.integers(1, 4))
    size, stride, padding, shape, _ = window(random, rank)
    base, dilation = ([int(n) for n in random.integers(1, 3, rank)] for _ in range(2))
    out = []
    for d in range(rank):
        padded = (shape[d] - 1) * base[d] + 1 + sum(padding[d])
        extent = (size[d] - 1) * dilation[d] + 1
        if extent > padded:
            dilation[d], extent = 1, size[d]
        out.append((padded - extent) // stride[d] + 1)
    x, p = tensor(tuple(shape), "f32"), tensor(tuple(shape), "i32")
    results = f"({tensor(tuple(out), 'f32')}, {tensor(tuple(out), 'i32')})"
    numbers = {
        "window_dimensions": size, "window_strides": stride, "base_dilations": base, "window_dilations": dilation,
    }  # fmt: skip
    attributes = ", ".join(f"{k} = array<i64: {', '.join(map(str, v))}>" for k, v in numbers.items())
    text = f"""
func.func @main(%x: {x}, %p: {p}) -> {results} {{
  %most = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %none = stablehlo.constant dense<-1> : tensor<i32>
  %r:2 = "stablehlo.reduce_window"(%x, %p, %most, %none) <{{{attributes},
      padding = dense<{padding}> : tensor<{rank}x2xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
      %c = stablehlo.compare LE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %v = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
      %k = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %v, %k : tensor<f32>, tensor<i32>
  }}) : ({x}, {p}, tensor<f32>, tensor<i32>) -> {results}
  return %r#0, %r#1 : {results[1:-1]}
}}
"""
    places = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    agrees(text, random.integers(-4, 5, shape).astype(np.float32), places)


SLABS = [
    ((2, 5, 7, 6, 9), (1, 1, 3, 3, 3), (1, 1, 2, 2, 2), [[0, 0], [0, 0], [1, 1], [1, 1], [1, 1]], None, None),
    ((1, 4, 9, 6, 8), (1, 1, 3, 1, 1), (1, 1, 1, 1, 1), [[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]], None, None),
    ((2, 30, 5, 7), (1, 5, 1, 1), (1, 2, 1, 1), [[0, 0], [2, 2], [0, 0], [0, 0]], None, (1, 3, 1, 1)),
    ((3, 40, 20), (1, 13, 1), (1, 3, 1), [[0, 0], [4, 2], [0, 0]], (1, 2, 1), None),  # by doubling
    ((6, 5, 7, 4), (2, 1, 3, 2), (2, 1, 1, 1), [[1, 0], [0, 0], [1, 1], [0, 1]], None, None),
]


@pytest.mark.parametrize("combiner", ["add", "maximum"])
@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize(("shape", "size", "stride", "padding", "base", "dilation"), SLABS)
def test_windows_over_outer_dimensions_are_slabs(shape, size, stride, padding, base, dilation, element, combiner):
    """Depth, channels and leading dimensions; with an initial value that changes something."""
    rank = len(shape)
    base, dilation = base or (1,) * rank, dilation or (1,) * rank
    out = tuple(
        ((n - 1) * b + 1 + sum(p) - (w - 1) * d - 1) // s + 1
        for n, w, s, p, b, d in zip(shape, size, stride, padding, base, dilation, strict=True)
    )
    numbers = {"window_dimensions": size, "window_strides": stride, "base_dilations": base,
               "window_dilations": dilation}  # fmt: skip
    attributes = ", ".join(f"{k} = array<i64: {', '.join(map(str, v))}>" for k, v in numbers.items())
    x, y, one = tensor(shape, element), tensor(out, element), f"tensor<{element}>"
    start = 2 if element == "i32" else 2.0
    text = f"""
func.func @main(%x: {x}) -> {y} {{
  %start = stablehlo.constant dense<{start}> : {one}
  %r = "stablehlo.reduce_window"(%x, %start) <{{{attributes},
      padding = dense<{padding}> : tensor<{rank}x2xi64>}}> ({{
    ^bb0(%a: {one}, %b: {one}):
      %m = stablehlo.{combiner} %a, %b : {one}
      stablehlo.return %m : {one}
  }}) : ({x}, {one}) -> {y}
  return %r : {y}
}}
"""
    values = np.random.default_rng(5).integers(-9, 10, shape)
    if combiner == "add":  # An initial value may be met as often as wanted: of sums nothing but zero says nothing.
        text = text.replace(f"dense<{start}>", f"dense<{0 if element == 'i32' else 0.0}>")
    agrees(text, values.astype(ELEMENTS[element]))


def test_a_window_over_the_depth_of_videos_is_no_single_elements():
    """Element by element 16,995 us."""
    x = tensor((1, 192, 8, 28, 28), "f32")
    text = f"""
func.func @main(%x: {x}) -> {x} {{
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = "stablehlo.reduce_window"(%x, %low) <{{window_dimensions = array<i64: 1, 1, 3, 1, 1>,
      padding = dense<[[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]]> : tensor<5x2xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
  }}) : ({x}, tensor<f32>) -> {x}
  return %r : {x}
}}
"""
    assert opentrn.compile(text, strict=True).time().time_us < 150


def test_map_and_a_running_logsumexp():
    text = """
func.func @main(%x: tensor<37x5xf32>) -> (tensor<37x5xf32>, tensor<37x5xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 37, 1>,
      padding = dense<[[36, 0], [0, 0]]> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      %d = stablehlo.subtract %a, %b : tensor<f32>
      %same = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %safe = stablehlo.select %same, %zero, %d : tensor<i1>, tensor<f32>
      %abs = stablehlo.abs %safe : tensor<f32>
      %neg = stablehlo.negate %abs : tensor<f32>
      %e = stablehlo.exponential %neg : tensor<f32>
      %l = stablehlo.log_plus_one %e : tensor<f32>
      %s = stablehlo.add %m, %l : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) : (tensor<37x5xf32>, tensor<f32>) -> tensor<37x5xf32>
  %q = "stablehlo.map"(%x) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<f32>):
      %two = stablehlo.constant dense<2.0> : tensor<f32>
      %b = stablehlo.multiply %a, %two : tensor<f32>
      stablehlo.return %b : tensor<f32>
  }) : (tensor<37x5xf32>) -> tensor<37x5xf32>
  return %r, %q : tensor<37x5xf32>, tensor<37x5xf32>
}
"""
    x = np.random.default_rng(3).standard_normal((37, 5)).astype(np.float32)
    sums, doubled = opentrn.compile(text)(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(sums, np.logaddexp.accumulate(wide, axis=0), atol=2e-5)
    np.testing.assert_array_equal(doubled, 2 * x)


def test_clamp_and_comparison_of_constants():
    """Folded, they are what they were: 15 between 0 and 30, and less than it."""
    text = """
func.func @main() -> (tensor<f32>, tensor<i1>) {
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %x = stablehlo.constant dense<15.0> : tensor<f32>
  %high = stablehlo.constant dense<30.0> : tensor<f32>
  %a = stablehlo.clamp %low, %x, %high : tensor<f32>
  %b = stablehlo.compare LT, %x, %high, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %a, %b : tensor<f32>, tensor<i1>
}
"""
    got = agrees(text)
    assert got[0] == 15 and got[1]
