"""Broadcasts between the columns of a row: what comes again is loaded once, against NumPy, in few descriptors."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("shape", [(16, 14, 14, 14), (3, 50, 60, 7), (130, 30, 5, 40), (2, 40, 70, 2)])
@pytest.mark.parametrize("element", ["f32", "i32"])
def test_tables_beside_rows_and_columns(shape: tuple[int, int, int, int], element: str) -> None:
    """x + a number for each row of an image + one for each of its columns, as decomposed relative positions are."""
    n, q, h, w = shape

    def named(*dims: int) -> str:
        return f"tensor<{'x'.join(map(str, dims))}x{element}>"

    whole, rows, columns = named(n, q, h, w), named(n, q, h), named(n, q, w)
    compiled = opentrn.compile(f"""func.func @main(%x: {whole}, %a: {rows}, %b: {columns}) -> {whole} {{
    %aa = stablehlo.broadcast_in_dim %a, dims = [0, 1, 2] : ({rows}) -> {whole}
    %bb = stablehlo.broadcast_in_dim %b, dims = [0, 1, 3] : ({columns}) -> {whole}
    %s = stablehlo.add %x, %aa : {whole}
    %r = stablehlo.add %s, %bb : {whole}
    return %r : {whole}
}}""")
    x, a, b = (
        (RNG.standard_normal(dims) * 8).astype(np.float32 if element == "f32" else np.int32)
        for dims in ((n, q, h, w), (n, q, h), (n, q, w))
    )
    (result,) = compiled.run([x, a, b])
    np.testing.assert_array_equal(result, (x + a[..., None]) + b[:, :, None, :])


def test_few_descriptors() -> None:
    """Corners of boxes by pairs: a table of two columns beside every other box."""
    boxes = 300
    pairs, corners = f"tensor<{boxes}x{boxes}x2xf32>", f"tensor<{boxes}x2xf32>"
    compiled = opentrn.compile(f"""func.func @main(%a: {corners}, %b: {corners}) -> {pairs} {{
    %aa = stablehlo.broadcast_in_dim %a, dims = [0, 2] : ({corners}) -> {pairs}
    %bb = stablehlo.broadcast_in_dim %b, dims = [1, 2] : ({corners}) -> {pairs}
    %r = stablehlo.maximum %aa, %bb : {pairs}
    return %r : {pairs}
}}""")
    a, b = (RNG.standard_normal((boxes, 2)).astype(np.float32) for _ in range(2))
    (result,) = compiled.run([a, b])
    np.testing.assert_array_equal(result, np.maximum(a[:, None], b[None]))
    # A descriptor of eight bytes for each pair takes 50 us.
    assert compiled.time().time_us < 15


def test_sums_of_what_comes_again() -> None:
    rows, times, few = 256, 40, 6
    whole = f"tensor<{rows}x{times}x{few}xf32>"
    compiled = opentrn.compile(f"""func.func @main(%x: {whole}, %a: tensor<{rows}x{few}xf32>)
        -> (tensor<{rows}xf32>, tensor<{rows}xf32>) {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %aa = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<{rows}x{few}xf32>) -> {whole}
    %p = stablehlo.multiply %x, %aa : {whole}
    %s = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [1, 2]
         : ({whole}, tensor<f32>) -> tensor<{rows}xf32>
    %t = stablehlo.reduce(%aa init: %zero) applies stablehlo.add across dimensions = [1, 2]
         : ({whole}, tensor<f32>) -> tensor<{rows}xf32>
    return %s, %t : tensor<{rows}xf32>, tensor<{rows}xf32>
}}""")
    x, a = (RNG.standard_normal(dims).astype(np.float32) for dims in ((rows, times, few), (rows, few)))
    products, sums = compiled.run([x, a])
    np.testing.assert_allclose(products, (x * a[:, None]).sum((1, 2)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sums, times * a.sum(1), rtol=1e-4, atol=1e-4)
