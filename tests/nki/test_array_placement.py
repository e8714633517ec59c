"""Operands of matrix products lie on the partitions whose rows and columns of the systolic array they use."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

RNG = np.random.default_rng(3)
X = RNG.standard_normal((128, 128), np.float32)


def product(stationary, moving, dst, **tile):
    """A kernel of one product of parts of x; each part is (first row, rows)."""

    @nki.jit
    def kernel(x):
        data = nl.load(x)
        acc = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(
            dst=acc[dst[0] : dst[0] + dst[1]],
            stationary=data[stationary[0] : stationary[0] + stationary[1], 0 : dst[1]],
            moving=data[moving[0] : moving[0] + moving[1]],
            **tile,
        )
        copy = nl.ndarray((dst[1], 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=acc[dst[0] : dst[0] + dst[1]])
        out = nl.ndarray((dst[1], 128), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=copy)
        return out

    return kernel


REFUSED = {
    "nc_matmul.C21": [
        product((0, 128), (0, 128), (0, 32), tile_position=(0, 64), tile_size=(128, 32)),
        product((0, 128), (0, 128), (64, 32), tile_position=(0, 32), tile_size=(128, 32)),
    ],
    "nc_matmul.C20": [
        product((0, 32), (0, 32), (0, 128), tile_position=(64, 0), tile_size=(32, 128)),
        product((64, 64), (64, 64), (0, 128), tile_position=(0, 0), tile_size=(64, 128)),
    ],
    "nc_matmul.C22": [product((0, 64), (64, 64), (0, 128)), product((96, 32), (32, 32), (0, 64))],
}
ALLOWED = [
    ((0, 128), (0, 128), (64, 32), {"tile_position": (0, 64), "tile_size": (128, 32)}),
    ((64, 32), (64, 32), (0, 128), {"tile_position": (64, 0), "tile_size": (32, 128)}),
    ((96, 32), (96, 32), (32, 32), {"tile_position": (96, 32), "tile_size": (32, 32)}),
    ((64, 64), (64, 64), (0, 128), {}),
    # Partition vectorization: the performance guide's products of 64 columns, without a tile.
    ((0, 128), (0, 128), (64, 64), {}),
    ((0, 128), (0, 128), (32, 32), {}),
]


@pytest.mark.parametrize("label", REFUSED)
def test_a_placement_that_the_array_does_not_have_is_refused(label):
    for kernel in REFUSED[label]:
        with pytest.raises(NkiValidationError, match=re.escape(f"[{label}]")) as caught:
            opentrn.run(kernel, X, target="trn2")
        assert f"at {__file__}:" in str(caught.value) and "try: " in str(caught.value)


@pytest.mark.parametrize(("stationary", "moving", "dst", "tile"), ALLOWED)
def test_a_placement_that_it_has_gives_the_product(stationary, moving, dst, tile):
    run = opentrn.run(product(stationary, moving, dst, **tile), X, target="trn2")
    rows = slice(stationary[0], sum(stationary))
    want = X[rows, 0 : dst[1]].astype(np.float64).T @ X[rows].astype(np.float64)
    np.testing.assert_allclose(run.outputs, want, rtol=1e-5, atol=1e-5)


@nki.jit
def two_places(x):
    data = nl.load(x)
    few = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=few, src=data[0:32])
    out = nl.ndarray((2, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(2):
        acc = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        part = data[64 * i : 64 * i + 32]
        nisa.nc_matmul(dst=acc, stationary=few, moving=part)
        copy = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=acc)
        nisa.dma_copy(dst=out[i], src=copy)
    return out


@pytest.mark.parametrize("time", [True, False])
def test_a_tensor_that_two_products_want_in_two_places_is_named(time):
    with pytest.raises(NkiValidationError) as caught:
        opentrn.run(two_places, X, target="trn2", time=time)
    text = str(caught.value)
    assert "[nc_matmul.C22]" in text and "in two_places" in text
    assert "try: give this product a tensor of its own" in text


@nki.jit
def narrow_operands(x):
    """Operands of 32 rows, which the compiler places, some of them in tiles of the array."""
    out = nl.ndarray((4, 32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(4):
        left = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
        right = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
        acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.dma_copy(dst=left, src=x[32 * i : 32 * i + 32, 0:32])
        nisa.dma_copy(dst=right, src=x[32 * i : 32 * i + 32])
        tile = {"tile_position": (32 * i, 32 * (3 - i)), "tile_size": (32, 32)} if i % 2 else {}
        nisa.nc_matmul(dst=acc, stationary=left, moving=right, **tile)
        copy = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=acc)
        nisa.dma_copy(dst=out[i], src=copy)
    return out


def test_the_compiler_places_operands_where_products_take_them():
    run = opentrn.run(narrow_operands, X, target="trn2")
    listing = run.program_text(scheduled=True)
    places = dict(re.findall(r"place (%\d+) at (\d+):", listing))
    products = re.findall(r"nc_matmul .*?dst=(%\d+) stationary=(%\d+) moving=(%\d+).*", listing)
    assert len(products) == 8  # the program, then the schedule
    for i, (dst, left, right) in enumerate(products[:4]):
        assert places[left] == places[right]
        if i % 2:
            assert (places[left], places[dst]) == (str(32 * i), str(32 * (3 - i)))
