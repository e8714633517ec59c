"""Transposes that are written to memory, and ranges filled with one element: values, and time near that of a copy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(0)
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i32": np.int32}


def kind(shape, dtype: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


def transpose(shape, order, dtype: str) -> str:
    turned = kind([shape[d] for d in order], dtype)
    return (
        f"func.func @main(%x: {kind(shape, dtype)}) -> {turned} {{\n"
        f"  %y = stablehlo.transpose %x, dims = {list(order)} : ({kind(shape, dtype)}) -> {turned}\n"
        f"  return %y : {turned}\n}}\n"
    )


def numbers(shape, dtype: str) -> np.ndarray:
    values = RNG.standard_normal(shape) * 100
    values.ravel()[::7] = 0.0
    return values.astype(DTYPES[dtype])


@pytest.mark.parametrize(
    "shape, order",
    [
        ((16, 64), (1, 0)),
        ((130, 257), (1, 0)),
        ((513, 40), (1, 0)),
        ((600, 700), (1, 0)),
        ((3, 70, 90), (0, 2, 1)),
        ((3, 70, 90), (2, 0, 1)),
        ((3, 70, 90), (2, 1, 0)),
        ((4, 20, 3, 32), (3, 1, 0, 2)),
        ((2, 3, 48, 5, 36), (4, 0, 3, 2, 1)),
        ((2, 130, 16), (1, 0, 2)),  # neighbours stay neighbours
        ((5, 9), (1, 0)),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_transposes_are_exact(shape, order, dtype: str):
    x = numbers(shape, dtype)
    (y,) = opentrn.compile(transpose(shape, order, dtype))(x)
    np.testing.assert_array_equal(y.view(np.uint8), np.ascontiguousarray(x.transpose(order)).view(np.uint8))


def test_special_values_pass():
    x = numbers((64, 96), "f32")
    x[3, 5], x[60, 90], x[7, 7], x[0, 1] = np.nan, np.inf, -np.inf, np.float32(1e-42)
    (y,) = opentrn.compile(transpose((64, 96), (1, 0), "f32"))(x)
    np.testing.assert_array_equal(y.view(np.uint32), np.ascontiguousarray(x.T).view(np.uint32))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_transpose_takes_about_as_long_as_a_copy(target: str, dtype: str):
    shape = (1024, 1024)
    text = f"func.func @main(%x: {kind(shape, dtype)}) -> {kind(shape, dtype)} {{\n" + (
        f"  %y = stablehlo.add %x, %x : {kind(shape, dtype)}\n  return %y : {kind(shape, dtype)}\n}}\n"
    )
    copied = opentrn.compile(text, target=target).time().total_ns
    turned = opentrn.compile(transpose(shape, (1, 0), dtype), target=target).time().total_ns
    assert turned < 3 * copied


PRODUCT = """
func.func @main(%x: tensor<256x128xf32>, %w: tensor<128x192xf32>) -> tensor<192x256xf32> {
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
    (tensor<256x128xf32>, tensor<128x192xf32>) -> tensor<256x192xf32>
  %t = stablehlo.transpose %p, dims = [1, 0] : (tensor<256x192xf32>) -> tensor<192x256xf32>
  return %t : tensor<192x256xf32>
}
"""


def test_a_product_that_is_returned_transposed():
    x, w = numbers((256, 128), "f32") / 100, numbers((128, 192), "f32") / 100
    model = opentrn.compile(PRODUCT)
    (y,) = model(x, w)
    np.testing.assert_allclose(y, (x.astype(np.float64) @ w).T, rtol=0, atol=1e-4)
    assert model.time().total_ns < 40_000  # 60 us with a descriptor for each element


def padded(shape, low, high, interior, dtype: str) -> str:
    sizes = [
        a + max(size - 1, 0) * inner + size + b
        for size, a, b, inner in zip(shape, low, high, interior, strict=True)
    ]
    return (
        f"func.func @main(%x: {kind(shape, dtype)}, %v: tensor<{dtype}>) -> {kind(sizes, dtype)} {{\n"
        f"  %y = stablehlo.pad %x, %v, low = {list(low)}, high = {list(high)}, interior = {list(interior)}"
        f" : ({kind(shape, dtype)}, tensor<{dtype}>) -> {kind(sizes, dtype)}\n"
        f"  return %y : {kind(sizes, dtype)}\n}}\n"
    )


@pytest.mark.parametrize(
    "shape, low, high, interior",
    [
        ((30, 40), (1, 2), (3, 4), (0, 0)),
        ((300, 700), (0, 5), (5, 0), (0, 0)),
        ((3, 30, 40), (0, 1, 1), (0, 1, 1), (0, 0, 0)),
        ((7, 33), (2, 0), (0, 2), (1, 2)),
        ((5000,), (3,), (4,), (0,)),
        ((1, 1), (40, 60), (50, 70), (0, 0)),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_padding_is_exact(shape, low, high, interior, dtype: str):
    x, value = numbers(shape, dtype), numbers((1,), dtype).reshape(())
    (y,) = opentrn.compile(padded(shape, low, high, interior, dtype))(x, value)
    want = np.full(y.shape, value)
    places = tuple(
        slice(a, a + (size - 1) * (inner + 1) + 1, inner + 1)
        for size, a, inner in zip(shape, low, interior, strict=True)
    )
    want[places] = x
    np.testing.assert_array_equal(y, want)


def test_padding_takes_about_as_long_as_a_copy():
    model = opentrn.compile(padded((1000, 1000), (12, 12), (12, 12), (0, 0), "f32"))
    text = "func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {\n  %y = stablehlo.add %x, %x : "
    copied = opentrn.compile(text + "tensor<1024x1024xf32>\n  return %y : tensor<1024x1024xf32>\n}\n")
    assert model.time().total_ns < 3 * copied.time().total_ns


def reduced(shape, over, dtype: str) -> str:
    left = kind([size for d, size in enumerate(shape) if d not in over], dtype)
    return (
        f"func.func @main(%x: {kind(shape, dtype)}) -> {left} {{\n"
        f"  %z = stablehlo.constant dense<0.0> : tensor<{dtype}>\n"
        f"  %y = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = {list(over)} :"
        f" ({kind(shape, dtype)}, tensor<{dtype}>) -> {left}\n  return %y : {left}\n}}\n"
    )


@pytest.mark.parametrize("shape, over", [((300, 520), (0,)), ((3, 70, 260), (0, 1)), ((64, 64), (0,))])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_sums_over_leading_dimensions(shape, over, dtype: str):
    x = (numbers(shape, dtype).astype(np.float32) / 100).astype(DTYPES[dtype])
    (y,) = opentrn.compile(reduced(shape, over, dtype))(x)
    want = x.astype(np.float64).sum(over)
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=1e-5 if dtype == "f32" else 2e-2, atol=0.05)


def test_a_sum_over_rows_takes_a_few_times_as_long_as_one_over_columns():
    by_rows = opentrn.compile(reduced((1024, 2048), (0,), "f32")).time().total_ns
    by_columns = opentrn.compile(reduced((1024, 2048), (1,), "f32")).time().total_ns
    assert by_rows < 5 * by_columns  # 38 times with a descriptor for each element


def broadcast(rows: int, columns: int, dtype: str) -> str:
    whole = kind((rows, columns), dtype)
    return (
        f"func.func @main(%x: {kind((rows,), dtype)}) -> {whole} {{\n"
        f"  %y = stablehlo.broadcast_in_dim %x, dims = [0] : ({kind((rows,), dtype)}) -> {whole}\n"
        f"  return %y : {whole}\n}}\n"
    )


@pytest.mark.parametrize("rows, columns", [(5, 16), (200, 3000), (129, 513), (1, 4096)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_repeated_along_rows(rows: int, columns: int, dtype: str):
    x = numbers((rows,), dtype)
    (y,) = opentrn.compile(broadcast(rows, columns, dtype))(x)
    np.testing.assert_array_equal(y, np.broadcast_to(x[:, None], (rows, columns)))


def updated(rows: int, columns: int) -> str:
    stack, part, turned = kind((4, rows, columns), "f32"), kind((columns, rows), "f32"), kind((rows, columns), "f32")
    one = kind((1, rows, columns), "f32")
    return (
        f"func.func @main(%s: {stack}, %x: {part}, %i: tensor<i32>) -> {stack} {{\n"
        "  %z = stablehlo.constant dense<0> : tensor<i32>\n"
        f"  %t = stablehlo.transpose %x, dims = [1, 0] : ({part}) -> {turned}\n"
        f"  %o = stablehlo.reshape %t : ({turned}) -> {one}\n"
        f"  %y = stablehlo.dynamic_update_slice %s, %o, %i, %z, %z :"
        f" ({stack}, {one}, tensor<i32>, tensor<i32>, tensor<i32>) -> {stack}\n  return %y : {stack}\n}}\n"
    )


def test_a_transpose_that_updates_a_stack():
    stack, x = numbers((4, 40, 70), "f32"), numbers((70, 40), "f32")
    model = opentrn.compile(updated(40, 70))
    for i in (0, 2, 3):
        (y,) = model(stack, x, np.int32(i))
        want = stack.copy()
        want[i] = x.T
        np.testing.assert_array_equal(y, want)


SLICES = {
    "every second column": ("[0:130, 0:96:2]", lambda x: x[:, ::2]),
    "every third of a part": ("[2:128, 5:93:3]", lambda x: x[2:128, 5:93:3]),
    "far apart": ("[0:130, 0:96:20]", lambda x: x[:, ::20]),
}


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_with_a_step(name: str, dtype: str):
    places, slice_ = SLICES[name]
    x = numbers((130, 96), dtype)
    want = slice_(x)
    text = (
        f"func.func @main(%x: {kind(x.shape, dtype)}) -> {kind(want.shape, dtype)} {{\n"
        f"  %y = stablehlo.slice %x {places} : ({kind(x.shape, dtype)}) -> {kind(want.shape, dtype)}\n"
        f"  return %y : {kind(want.shape, dtype)}\n}}\n"
    )
    (y,) = opentrn.compile(text)(x)
    np.testing.assert_array_equal(y.view(np.uint8), np.ascontiguousarray(want).view(np.uint8))


@pytest.mark.parametrize("shape", [(5000,), (130, 96), (3, 40, 50)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reversed_and_apart(shape, dtype: str):
    """reverse along the last dimension, and elements with two others between them."""
    x = numbers(shape, dtype)
    last = len(shape) - 1
    wide = (*shape[:-1], 3 * shape[-1] + 2)
    gap = ", ".join([*["0"] * last, "2"])
    low = ", ".join([*["0"] * last, "1"])
    high = ", ".join([*["0"] * last, "3"])
    zero = "0.0" if dtype != "i32" else "0"
    text = f"""
func.func @main(%x: {kind(shape, dtype)}) -> ({kind(shape, dtype)}, {kind(wide, dtype)}) {{
  %zero = stablehlo.constant dense<{zero}> : {kind((), dtype)}
  %y = stablehlo.reverse %x, dims = [{last}] : {kind(shape, dtype)}
  %z = stablehlo.pad %x, %zero, low = [{low}], high = [{high}], interior = [{gap}]
    : ({kind(shape, dtype)}, {kind((), dtype)}) -> {kind(wide, dtype)}
  return %y, %z : {kind(shape, dtype)}, {kind(wide, dtype)}
}}
"""
    y, z = opentrn.compile(text)(x)
    np.testing.assert_array_equal(y.view(np.uint8), np.ascontiguousarray(x[..., ::-1]).view(np.uint8))
    want = np.zeros(wide, x.dtype)
    want[..., 1 : 3 * shape[-1] : 3] = x
    np.testing.assert_array_equal(z.view(np.uint8), want.view(np.uint8))
