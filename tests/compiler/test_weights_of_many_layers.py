"""Weights that many products read are loaded once and kept in SBUF; two readers load them each."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

import opentrn

ROWS, SIZE = 128, 1024  # 16 KiB of a partition: small ones are loaded once in any case


def layers(count: int, size: int = SIZE) -> str:
    """x = tanh(x w), `count` times with one weight."""
    rows, weight = f"tensor<{ROWS}x{size}xbf16>", f"tensor<{size}x{size}xbf16>"
    lines, value = [], "%x"
    for layer in range(count):
        lines += [
            f"  %p{layer} = stablehlo.dot_general {value}, %w, contracting_dims = [1] x [0] : "
            f"({rows}, {weight}) -> {rows}",
            f"  %y{layer} = stablehlo.tanh %p{layer} : {rows}",
        ]
        value = f"%y{layer}"
    body = "\n".join(lines)
    return f"func.func @main(%x: {rows}, %w: {weight}) -> {rows} {{\n{body}\n  return {value} : {rows}\n}}"


def bytes_moved(model) -> int:
    return model.time().profile()["dma"]["bytes"]


@pytest.mark.parametrize("target", ["inf1", "trn1", "trn2"])
def test_a_weight_of_many_products_is_loaded_once(target):
    weight, rows = 2 * SIZE * SIZE, 2 * ROWS * SIZE
    for count in (3, 6):
        assert bytes_moved(opentrn.compile(layers(count), target=target)) == weight + 2 * rows
    # Forward and backward: between both lies everything else.
    assert bytes_moved(opentrn.compile(layers(2), target=target)) == 2 * weight + 2 * rows


def test_values_are_those_of_weights_loaded_anew():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((ROWS, SIZE)), rng.standard_normal((SIZE, SIZE)) / SIZE**0.5
    x, w = x.astype(bfloat16), w.astype(bfloat16)
    (found,) = opentrn.compile(layers(4))(x, w)
    once = opentrn.compile(layers(1))
    for _ in range(4):
        (x,) = once(x, w)
    np.testing.assert_array_equal(found, x)


def test_what_finds_no_room_is_loaded_anew():
    size = 8192  # 128 MiB, five times what SBUF holds
    moved = bytes_moved(opentrn.compile(layers(3, size)))
    assert moved >= 3 * 2 * size * size
