"""Coordinates of many points: elements of memory that lie a few places apart, against NumPy, and few descriptors."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(0)


def slices_text(points: int, features: int, first: int, second: int, start: int = 0) -> str:
    """The product of two coordinates of the points from `start` on."""
    whole, one = f"tensor<{points}x{features}xf32>", f"tensor<{points - start}x1xf32>"
    part = f"%x [{start}:{points}, {{0}}:{{1}}]"
    return f"""func.func @main(%x: {whole}) -> {one} {{
    %a = stablehlo.slice {part.format(first, first + 1)} : ({whole}) -> {one}
    %b = stablehlo.slice {part.format(second, second + 1)} : ({whole}) -> {one}
    %r = stablehlo.multiply %a, %b : {one}
    return %r : {one}
}}"""


@pytest.mark.parametrize(
    ("points", "features", "first", "second", "start"),
    [(4096, 4, 0, 3, 0), (65536, 4, 1, 2, 0), (4096, 16, 5, 15, 0), (4096, 3, 2, 0, 128), (4100, 5, 4, 4, 4)],
)
def test_coordinates_are_picked_on_chip(points: int, features: int, first: int, second: int, start: int) -> None:
    compiled = opentrn.compile(slices_text(points, features, first, second, start))
    x = RNG.standard_normal((points, features)).astype(np.float32)
    (product,) = compiled.run([x])
    np.testing.assert_array_equal(product[:, 0], (x[:, first] * x[:, second])[start:])
    # A descriptor for each element alone would take 8 ns of the sixteen queues.
    assert compiled.time().time_us < 8 + points * features / 10_000


def test_rows_apart_that_all_partitions_read_alike() -> None:
    points = 256
    wide, square = f"tensor<{points}x3xf32>", f"tensor<{points}x{points}xf32>"
    compiled = opentrn.compile(f"""func.func @main(%x: {wide}) -> {square} {{
    %a = stablehlo.slice %x [0:{points}, 1:2] : ({wide}) -> tensor<{points}x1xf32>
    %b = stablehlo.reshape %a : (tensor<{points}x1xf32>) -> tensor<{points}xf32>
    %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<{points}xf32>) -> {square}
    %d = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<{points}xf32>) -> {square}
    %r = stablehlo.subtract %c, %d : {square}
    return %r : {square}
}}""")
    x = RNG.standard_normal((points, 3)).astype(np.float32)
    (difference,) = compiled.run([x])
    np.testing.assert_array_equal(difference, x[None, :, 1] - x[:, None, 1])
    assert compiled.time().time_us < 15
