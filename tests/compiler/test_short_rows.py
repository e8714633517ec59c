"""Many rows of few elements, several of which go into each partition: against NumPy, and in few instructions."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(3)


def softmax_text(rows: int, columns: int, element: str = "f32") -> str:
    whole, one, number = f"tensor<{rows}x{columns}x{element}>", f"tensor<{rows}x{element}>", f"tensor<{element}>"
    return f"""func.func @main(%x: {whole}) -> ({whole}, {one}) {{
    %low = stablehlo.constant dense<-1.0e38> : {number}
    %zero = stablehlo.constant dense<0.0> : {number}
    %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
         : ({whole}, {number}) -> {one}
    %mm = stablehlo.broadcast_in_dim %m, dims = [0] : ({one}) -> {whole}
    %d = stablehlo.subtract %x, %mm : {whole}
    %e = stablehlo.exponential %d : {whole}
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
         : ({whole}, {number}) -> {one}
    %ss = stablehlo.broadcast_in_dim %s, dims = [0] : ({one}) -> {whole}
    %r = stablehlo.divide %e, %ss : {whole}
    return %r, %s : {whole}, {one}
}}"""


@pytest.mark.parametrize(
    ("rows", "columns"), [(65536, 8), (1024, 32), (1025, 3), (5000, 7), (1152, 2), (4099, 31), (1100, 10)]
)
def test_softmax(rows: int, columns: int) -> None:
    compiled = opentrn.compile(softmax_text(rows, columns))
    x = (3 * RNG.standard_normal((rows, columns))).astype(np.float32)
    result, total = compiled.run([x])
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(total, powers.sum(1), rtol=1e-5)
    np.testing.assert_allclose(result, powers / powers.sum(1, keepdims=True), rtol=2e-5, atol=1e-7)
    assert compiled.time().time_us < 15 + rows * columns / 10_000


def test_softmax_in_bf16() -> None:
    import ml_dtypes

    compiled = opentrn.compile(softmax_text(2048, 16, "bf16"))
    x = RNG.standard_normal((2048, 16)).astype(ml_dtypes.bfloat16)
    result, _ = compiled.run([x])
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    np.testing.assert_allclose(
        result.astype(np.float64), powers / powers.sum(1, keepdims=True), rtol=0.03, atol=1e-3
    )


def test_numbers_of_rows_of_columns_and_of_blocks_of_rows() -> None:
    """x * scale of each column + shift of each row - one of each row of a block; a whole number beside them."""
    rows, columns, block = 2560, 6, 640
    whole, few = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows // block}x{block}x{columns}xf32>"
    compiled = opentrn.compile(f"""func.func @main(%x: {whole}, %c: tensor<{columns}xf32>, %r: tensor<{rows}xf32>,
        %b: tensor<{block}xf32>, %n: tensor<{rows}xi32>) -> ({whole}, {whole}) {{
    %cc = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<{columns}xf32>) -> {whole}
    %rr = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<{rows}xf32>) -> {whole}
    %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<{block}xf32>) -> {few}
    %bw = stablehlo.reshape %bb : ({few}) -> {whole}
    %nn = stablehlo.broadcast_in_dim %n, dims = [0] : (tensor<{rows}xi32>) -> tensor<{rows}x{columns}xi32>
    %two = stablehlo.constant dense<2> : tensor<{rows}x{columns}xi32>
    %p = stablehlo.compare LT, %nn, %two : (tensor<{rows}x{columns}xi32>, tensor<{rows}x{columns}xi32>)
         -> tensor<{rows}x{columns}xi1>
    %1 = stablehlo.multiply %x, %cc : {whole}
    %2 = stablehlo.add %1, %rr : {whole}
    %3 = stablehlo.subtract %2, %bw : {whole}
    %4 = stablehlo.select %p, %3, %x : tensor<{rows}x{columns}xi1>, {whole}
    return %3, %4 : {whole}, {whole}
}}""")
    x = RNG.standard_normal((rows, columns)).astype(np.float32)
    c, r, b = (RNG.standard_normal(n).astype(np.float32) for n in (columns, rows, block))
    n = RNG.integers(0, 4, rows).astype(np.int32)
    exact = x * c + r[:, None] - np.tile(b, rows // block)[:, None]
    first, second = compiled.run([x, c, r, b, n])
    np.testing.assert_allclose(first, exact, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(second, np.where(n[:, None] < 2, exact, x), rtol=1e-6, atol=1e-6)


def test_matrices_times_vectors_and_parts_of_rows() -> None:
    """Each 3 x 3 matrix times its vector, which every row of the matrix reads; norms of the last three of five."""
    count = 3000
    matrices, points = f"tensor<{count}x3x3xf32>", f"tensor<{count}x5xf32>"
    compiled = opentrn.compile(f"""func.func @main(%m: {matrices}, %x: {points})
        -> (tensor<{count}x3xf32>, tensor<{count}xf32>) {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %v = stablehlo.slice %x [0:{count}, 2:5] : ({points}) -> tensor<{count}x3xf32>
    %w = stablehlo.broadcast_in_dim %v, dims = [0, 2] : (tensor<{count}x3xf32>) -> {matrices}
    %p = stablehlo.multiply %m, %w : {matrices}
    %s = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [2]
         : ({matrices}, tensor<f32>) -> tensor<{count}x3xf32>
    %q = stablehlo.multiply %v, %v : tensor<{count}x3xf32>
    %n = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [1]
         : (tensor<{count}x3xf32>, tensor<f32>) -> tensor<{count}xf32>
    return %s, %n : tensor<{count}x3xf32>, tensor<{count}xf32>
}}""")
    m, x = (RNG.standard_normal(s).astype(np.float32) for s in ((count, 3, 3), (count, 5)))
    products, squares = compiled.run([m, x])
    np.testing.assert_allclose(products, np.einsum("nab,nb->na", m, x[:, 2:]), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(squares, (x[:, 2:] ** 2).sum(1), rtol=1e-6)
    assert compiled.time().time_us < 30


def test_an_initial_value_and_a_product_of_rows() -> None:
    rows = 2000
    whole, one = f"tensor<{rows}x4xf32>", f"tensor<{rows}xf32>"
    compiled = opentrn.compile(f"""func.func @main(%x: {whole}) -> ({one}, {one}) {{
    %three = stablehlo.constant dense<3.0> : tensor<f32>
    %s = stablehlo.reduce(%x init: %three) applies stablehlo.add across dimensions = [1]
         : ({whole}, tensor<f32>) -> {one}
    %p = stablehlo.reduce(%x init: %three) applies stablehlo.multiply across dimensions = [1]
         : ({whole}, tensor<f32>) -> {one}
    return %s, %p : {one}, {one}
}}""")
    x = RNG.standard_normal((rows, 4)).astype(np.float32)
    total, product = compiled.run([x])
    np.testing.assert_allclose(total, 3 + x.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(product, 3 * x.prod(1), rtol=1e-5, atol=1e-6)
