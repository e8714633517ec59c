"""Reductions over a batch or over tokens, whose kept elements lie side by side: runs are loaded, not single elements.

Against NumPy in float64; how many descriptors there are, by the profile of the predicted run.
"""

import ml_dtypes
import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(11)
NUMPY = {"add": np.sum, "maximum": np.max, "minimum": np.min}


def reduced(
    shape: tuple[int, ...], dims: list[int], kind: str = "f32", op: str = "add", initial: str = "0.0",
    before: str = "%a",
) -> opentrn.CompiledModel:  # fmt: skip
    given = f"tensor<{'x'.join(map(str, shape))}x{kind}>"
    out = f"tensor<{''.join(f'{n}x' for i, n in enumerate(shape) if i not in dims)}{kind}>"
    return opentrn.compile(
        f"func.func @main(%a: {given}) -> {out} {{\n"
        f"  %z = stablehlo.constant dense<{initial}> : tensor<{kind}>\n"
        f"  %r = stablehlo.reduce({before} init: %z) applies stablehlo.{op} across dimensions = {dims} :"
        f" ({given}, tensor<{kind}>) -> {out}\n"
        f"  return %r : {out}\n}}\n",
        target="trn2",
    )


def descriptors(model: opentrn.CompiledModel) -> int:
    return model.time().profile()["dma"]["descriptors"]


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((12, 32, 384), [0]),
        ((2, 4096), [0]),
        ((8, 12, 1024), [1]),
        ((4, 16, 32, 64), [1]),
        ((3, 5, 7, 200), [0, 2]),
        ((127, 1009), [0]),  # kept elements without a divisor: one partition
        ((100, 512, 96), [0]),  # more kept elements than one block of partitions, more slabs than one load
        ((300, 4, 1024), [0]),  # more slabs than partitions
        ((9, 8191), [0]),  # a prime number of them, more than one load takes: as before
    ],
)
def test_kept_elements_are_loaded_as_runs(shape: tuple[int, ...], dims: list[int]) -> None:
    model = reduced(shape, dims)
    a = RNG.standard_normal(shape).astype(np.float32)
    (got,) = model(a)
    want = a.astype(np.float64).sum(tuple(dims))
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 2e-6 * np.abs(want).max()
    if shape[-1] != 8191:
        assert descriptors(model) <= a.size / 8 + want.size / 8


@pytest.mark.parametrize("op", sorted(NUMPY))
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_other_ops_types_and_an_initial_value(op: str, kind: str) -> None:
    """The initial value meets every result; narrow floats are rounded once, at the end."""
    model = reduced((24, 16, 64), [0], kind, op, "1.5")
    dtype = np.float32 if kind == "f32" else np.dtype(ml_dtypes.bfloat16)
    a = RNG.standard_normal((24, 16, 64)).astype(dtype)
    (got,) = model(a)
    wide = np.concatenate([a.astype(np.float64), np.full((1, 16, 64), 1.5)])
    want = NUMPY[op](wide, axis=0)
    limit = (2**-23 if kind == "f32" else 2**-8) * (8 if op == "add" and kind == "f32" else 1)
    assert np.abs(got.astype(np.float64) - want).max() <= limit * np.abs(want).max()
    assert descriptors(model) <= a.size / 8 + want.size


@pytest.mark.parametrize(
    ("kind", "op", "initial"),
    [
        ("i32", "add", "0"), ("i32", "add", "7"), ("i32", "maximum", "-2147483648"), ("i32", "minimum", "5"),
        ("i16", "add", "0"), ("ui8", "maximum", "0"), ("i1", "or", "false"), ("i1", "and", "true"),
        ("i1", "and", "false"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("slabs", [2, 12, 13])
def test_whole_numbers_are_reduced_exactly(kind: str, op: str, initial: str, slabs: int) -> None:
    """Sums beyond what fp32 holds, and an odd number of slabs."""
    model = reduced((slabs, 8, 512), [0], kind, op, initial)
    dtype = {"i32": np.int32, "i16": np.int16, "ui8": np.uint8, "i1": np.bool_}[kind]
    bound = 2 if kind == "i1" else min(np.iinfo(dtype).max, 2**31 // slabs)
    a = RNG.integers(0 if kind in ("i1", "ui8") else -bound // 16, bound, (slabs, 8, 512)).astype(dtype)
    (got,) = model(a)
    start = initial == "true" if kind == "i1" else int(initial)
    reduce = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, "or": np.logical_or, "and": np.logical_and}
    want = reduce[op].reduce(a, axis=0, dtype=dtype, initial=dtype(start))
    np.testing.assert_array_equal(got, want)
    assert descriptors(model) <= a.size / 8 + want.size


def test_nan_and_infinity_stay_where_they_are() -> None:
    a = RNG.standard_normal((6, 256)).astype(np.float32)
    a[2, 7], a[3, 100] = np.nan, np.inf
    (got,) = reduced((6, 256), [0])(a)
    assert np.isnan(got[7]) and np.isposinf(got[100]) and np.isfinite(np.delete(got, [7, 100])).all()


def test_what_follows_a_mean_is_a_kernel_of_its_own() -> None:
    """Mean over tokens, then the norm of each sentence's vector: as sentence encoders end."""
    text = """func.func @main(%x: tensor<8x64x384xf32>) -> tensor<8x384xf32> {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
         : (tensor<8x64x384xf32>, tensor<f32>) -> tensor<8x384xf32>
      %n = stablehlo.constant dense<0.015625> : tensor<8x384xf32>
      %m = stablehlo.multiply %s, %n : tensor<8x384xf32>
      %q = stablehlo.multiply %m, %m : tensor<8x384xf32>
      %t = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1]
         : (tensor<8x384xf32>, tensor<f32>) -> tensor<8xf32>
      %i = stablehlo.rsqrt %t : tensor<8xf32>
      %b = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<8xf32>) -> tensor<8x384xf32>
      %r = stablehlo.multiply %m, %b : tensor<8x384xf32>
      return %r : tensor<8x384xf32>
    }"""
    model = opentrn.compile(text, target="trn2")
    x = RNG.standard_normal((8, 64, 384)).astype(np.float32)
    (got,) = model(x)
    mean = x.astype(np.float64).mean(1)
    want = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
    assert descriptors(model) <= x.size / 8 + 4 * want.size


@pytest.mark.parametrize("how", ["transposed", "sliced"])
def test_operands_that_lie_otherwise(how: str) -> None:
    """A view whose kept elements are apart in memory is reduced as before; one with gaps between its runs by runs."""
    given, wanted = "tensor<16x40x256xf32>", "tensor<16x40x256xf32>"
    step = "stablehlo.slice %a [0:16, 0:40, 64:192] : (tensor<16x40x256xf32>) -> tensor<16x40x128xf32>"
    kept = "tensor<16x40x128xf32>"
    if how == "transposed":
        step = f"stablehlo.transpose %a, dims = [2, 1, 0] : ({wanted}) -> tensor<256x40x16xf32>"
        kept = "tensor<256x40x16xf32>"
    dims = kept[7:-5].split("x")
    out = f"tensor<{dims[0]}x{dims[2]}xf32>"
    model = opentrn.compile(
        f"func.func @main(%a: {given}) -> {out} {{\n  %v = {step}\n"
        f"  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"  %r = stablehlo.reduce(%v init: %z) applies stablehlo.add across dimensions = [1] :"
        f" ({kept}, tensor<f32>) -> {out}\n  return %r : {out}\n}}\n",
        target="trn2",
    )
    a = RNG.standard_normal((16, 40, 256)).astype(np.float32)
    view = a.transpose(2, 1, 0) if how == "transposed" else a[:, :, 64:192]
    (got,) = model(a)
    want = view.astype(np.float64).sum(1)
    assert np.abs(got - want).max() <= 2e-6 * np.abs(want).max()


@pytest.mark.parametrize("op", sorted(NUMPY))
@pytest.mark.parametrize(
    ("shape", "dims", "kind"),
    [
        ((8192, 8), [0], "f32"),
        ((65536, 2), [0], "bf16"),
        ((3, 3584, 5), [1], "f32"),
        ((2, 40, 64, 6, 4), [1, 2, 4], "f32"),  # groups of four channels, channels last
        ((1, 64, 64, 8, 3), [1, 2, 4], "bf16"),
    ],
)
def test_many_rows_of_few_columns(shape: tuple[int, ...], dims: list[int], kind: str, op: str) -> None:
    """Each partition has a run of rows: as many descriptors as runs, not as rows or elements."""
    dtype = np.float32 if kind == "f32" else np.dtype(ml_dtypes.bfloat16)
    initial = {"add": "0.0", "maximum": "0xFF80", "minimum": "0x7F80"}[op]
    model = reduced(shape, dims, kind, op, initial + ("0000" if kind == "f32" and op != "add" else ""))
    a = RNG.standard_normal(shape).astype(dtype)
    (got,) = model(a)
    want = NUMPY[op](a.astype(np.float64), axis=tuple(dims))
    size = np.abs(a.astype(np.float64)).sum(tuple(dims)).max() if op == "add" else 1
    assert np.abs(got.astype(np.float64) - want).max() <= (2**-21 if kind == "f32" else 2**-8) * size
    assert descriptors(model) <= a.size / 16


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_norm_of_groups_reads_images_three_times(channels_last: bool) -> None:
    """Of rows that no kernel holds: once for the mean, once for the variance, once for the result."""
    shape = (1, 128, 128, 16) if channels_last else (1, 16, 128, 128)
    wide = (1, 128, 128, 4, 4) if channels_last else (1, 4, 65536)
    kept, dims = ([0, 3], [1, 2, 4]) if channels_last else ([0, 1], [2])
    image, rows = (f"tensor<{'x'.join(map(str, each))}xf32>" for each in (shape, wide))
    text = f"""func.func @main(%x: {image}, %w: tensor<16xf32>) -> {image} {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %n = stablehlo.constant dense<1.52587890625e-05> : tensor<1x4xf32>
      %r = stablehlo.reshape %x : ({image}) -> {rows}
      %s = stablehlo.reduce(%r init: %z) applies stablehlo.add across dimensions = {dims}
         : ({rows}, tensor<f32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %n : tensor<1x4xf32>
      %mb = stablehlo.broadcast_in_dim %m, dims = {kept} : (tensor<1x4xf32>) -> {rows}
      %d = stablehlo.subtract %r, %mb : {rows}
      %q = stablehlo.multiply %d, %d : {rows}
      %t = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = {dims}
         : ({rows}, tensor<f32>) -> tensor<1x4xf32>
      %v = stablehlo.multiply %t, %n : tensor<1x4xf32>
      %i = stablehlo.rsqrt %v : tensor<1x4xf32>
      %ib = stablehlo.broadcast_in_dim %i, dims = {kept} : (tensor<1x4xf32>) -> {rows}
      %y = stablehlo.multiply %d, %ib : {rows}
      %o = stablehlo.reshape %y : ({rows}) -> {image}
      %wb = stablehlo.broadcast_in_dim %w, dims = [{3 if channels_last else 1}] : (tensor<16xf32>) -> {image}
      %a = stablehlo.multiply %o, %wb : {image}
      return %a : {image}
    }}"""
    model = opentrn.compile(text, target="trn2")
    x, w = RNG.standard_normal(shape).astype(np.float32) + 3, RNG.standard_normal(16).astype(np.float32)
    (got,) = model(x, w)
    axes, spread = tuple(dims), x.astype(np.float64).reshape(wide)
    normed = (spread - spread.mean(axes, keepdims=True)) / spread.std(axes, keepdims=True)
    want = normed.reshape(shape) * (w if channels_last else w[:, None, None])
    assert np.abs(got - want).max() <= 2e-6 * np.abs(want).max()
    if not channels_last:
        assert model.time().profile()["dma"]["bytes"] <= 4.1 * x.nbytes
