"""Copies and DMA against numpy indexing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opentrn.errors import NkiValidationError, OutOfBounds
from opentrn.oracle import isa as nisa
from opentrn.types.isa_enums import oob_mode

BF16 = ml_dtypes.bfloat16


def test_dma_copy_casts_through_float32(machine, tiles, rng):
    source = rng.standard_normal((4, 6)).astype(np.float32)
    dst = tiles.empty((4, 6), "bfloat16")
    nisa.dma_copy(dst=dst, src=machine.from_array(source))
    np.testing.assert_array_equal(dst.numpy(), source.astype(BF16))
    integers = tiles.of([[2**24 + 1, -7]], "int32")
    wide = tiles.empty((1, 2), "uint32")
    nisa.dma_copy(dst=wide, src=integers)
    np.testing.assert_array_equal(wide.numpy(), [[2**24, 0]])


def test_dma_copy_keeps_bits_of_one_dtype(tiles):
    source = tiles.of(np.array([[0x7FC01234, 0xFFFFFFFF]], np.uint32)).view("float32")
    dst = tiles.empty((1, 2), "float32")
    nisa.dma_copy(dst=dst, src=source)
    np.testing.assert_array_equal(dst.numpy().view(np.uint32), [[0x7FC01234, 0xFFFFFFFF]])


def test_dma_copy_reshapes_between_memories_but_not_psum(machine, tiles):
    dst = machine.from_array(np.zeros(12, np.float32))
    nisa.dma_copy(dst=dst, src=tiles.of(np.arange(12, dtype=np.float32).reshape(3, 4)))
    np.testing.assert_array_equal(dst.numpy(), np.arange(12))
    with pytest.raises(NkiValidationError, match="PSUM"):
        nisa.dma_copy(dst=dst, src=tiles.empty((3, 4), buffer="psum"))
    with pytest.raises(NkiValidationError, match="number of elements"):
        nisa.dma_copy(dst=dst, src=tiles.empty((3, 5)))


def test_gather_reads_rows_by_index(machine, tiles, rng):
    base = rng.standard_normal((10, 5)).astype(np.float32)
    rows = np.array([9, 0, 3, 3], np.uint32)
    source = machine.from_array(base).ap(
        [[5, 4], [1, 5]], vector_offset=tiles.of(rows[:, None]), indirect_dim=0
    )
    dst = tiles.empty((4, 5))
    nisa.dma_copy(dst=dst, src=source)
    np.testing.assert_array_equal(dst.numpy(), base[rows])


def test_gather_out_of_bounds_raises_or_skips_the_row(machine, tiles, rng):
    base = rng.standard_normal((10, 5)).astype(np.float32)
    rows = np.array([1, -1, 10, 2], np.int32)
    source = machine.from_array(base).ap([[5, 4], [1, 5]], vector_offset=tiles.of(rows[:, None]))
    dst = tiles.of(np.full((4, 5), 7, np.float32))
    with pytest.raises(OutOfBounds, match="row 1"):
        nisa.dma_copy(dst=dst, src=source)
    nisa.dma_copy(dst=dst, src=source, oob_mode=oob_mode.skip)
    np.testing.assert_array_equal(dst.numpy(), np.stack([base[1], np.full(5, 7), np.full(5, 7), base[2]]))


def test_scatter_writes_rows_by_index(machine, tiles, rng):
    base = np.zeros((6, 3), np.float32)
    values = rng.standard_normal((3, 3)).astype(np.float32)
    rows = np.array([4, 99, 0], np.int32)
    dst = machine.from_array(base).ap([[3, 3], [1, 3]], vector_offset=tiles.of(rows[:, None]))
    nisa.dma_copy(dst=dst, src=tiles.of(values), oob_mode=oob_mode.skip)
    expected = np.zeros((6, 3))
    expected[4], expected[0] = values[0], values[2]
    np.testing.assert_array_equal(base, expected)


@pytest.mark.parametrize(
    ("shape", "axes"), [((5, 7), (1, 0)), ((3, 4, 5), (2, 1, 0)), ((2, 3, 4, 5), (3, 1, 2, 0))]
)
def test_dma_transpose_axes(machine, tiles, shape, axes):
    source = np.arange(np.prod(shape), dtype=np.float16).reshape(shape)
    dst = tiles.empty([shape[a] for a in axes], "float16")
    nisa.dma_transpose(dst=dst, src=machine.from_array(source), axes=axes)
    np.testing.assert_array_equal(dst.numpy(), source.transpose(axes))


def test_indirect_dma_transpose_reads_the_index_tile_by_columns(machine, tiles, rng):
    base = rng.standard_normal((64, 8)).astype(np.float16)
    index = rng.integers(0, 64, (16, 2)).astype(np.uint32)
    source = machine.from_array(base).ap([[8, 32], [1, 8]], vector_offset=tiles.of(index), indirect_dim=0)
    dst = tiles.empty((8, 32), "float16")
    nisa.dma_transpose(dst=dst, src=source, axes=(1, 0))
    np.testing.assert_array_equal(dst.numpy(), base[index.T.reshape(-1)].T)


def test_dma_compute_sums_in_float32(machine, tiles, rng):
    parts = [rng.standard_normal((2, 9)).astype(BF16) for _ in range(5)]
    dst = tiles.empty((2, 9), "bfloat16")
    nisa.dma_compute(dst, [tiles.of(p) for p in parts], "add", scales=[1.0] * 5)
    total = parts[0].astype(np.float32)
    for part in parts[1:]:
        total = total + part.astype(np.float32)
    np.testing.assert_array_equal(dst.numpy(), total.astype(BF16))
    with pytest.raises(NkiValidationError):
        nisa.dma_compute(dst, [tiles.of(parts[0])] * 2, "multiply")
    with pytest.raises(NkiValidationError):
        nisa.dma_compute(dst, [tiles.of(parts[0])] * 17, "add")


def test_dma_compute_scatter_accumulates(machine, tiles):
    table = np.zeros((5, 2), np.float32)
    rows = tiles.of(np.array([[3], [1]], np.int32))
    view = machine.from_array(table).ap([[2, 2], [1, 2]], vector_offset=rows)
    for _ in range(2):
        nisa.dma_compute(view, [view, tiles.of(np.array([[1, 2], [3, 4]], np.float32))], np.add)
    np.testing.assert_array_equal(table, [[0, 0], [6, 8], [0, 0], [2, 4], [0, 0]])


def test_tensor_copy_is_bit_exact_for_one_dtype_and_rounds_otherwise(tiles):
    nan = tiles.of(np.array([[0x7F800001, 0x3F800001]], np.uint32)).view("float32")
    same, half = tiles.empty((1, 2)), tiles.empty((1, 2), "float16")
    nisa.tensor_copy(same, nan)
    nisa.tensor_copy(half, nan)
    np.testing.assert_array_equal(same.numpy().view(np.uint32), [[0x7F800001, 0x3F800001]])
    assert np.isnan(half.numpy()[0, 0])
    assert half.numpy()[0, 1] == 1


def test_tensor_copy_of_int32_between_equal_types_is_exact(tiles):
    dst = tiles.empty((1, 1), "int32")
    nisa.tensor_copy(dst, tiles.of([[2**31 - 1]], "int32"))
    assert dst.numpy()[0, 0] == 2**31 - 1


@pytest.mark.parametrize(
    ("dtype", "value"), [("int32", 2**31 - 1), ("uint8", 255), ("bfloat16", -1.5), ("float32", float("-inf"))]
)
def test_memset_fills(tiles, dtype, value):
    dst = tiles.empty((3, 2, 2), dtype)
    nisa.memset(dst, value)
    assert (dst.numpy().astype(np.float64) == value).all()


def test_memset_refuses_what_does_not_fit(tiles):
    with pytest.raises(NkiValidationError, match="does not fit"):
        nisa.memset(tiles.empty((1, 1), "uint8"), 256)
    packed = tiles.empty((1, 1), "float8_e4m3fn_x4")
    with pytest.raises(NkiValidationError, match="packed"):
        nisa.memset(packed, 1)
    nisa.memset(packed, 0)
    assert packed.numpy()[0, 0] == 0


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("scalar", [False, True])
def test_tensor_copy_predicated(tiles, rng, reverse, scalar):
    old, new = rng.standard_normal((2, 4, 5)).astype(np.float32)
    predicate = rng.integers(0, 3, (4, 5)).astype(np.uint8)
    dst = tiles.of(old)
    nisa.tensor_copy_predicated(
        dst, 2.5 if scalar else tiles.of(new), tiles.of(predicate), reverse_pred=reverse
    )
    chosen = (predicate == 0) if reverse else (predicate != 0)
    np.testing.assert_array_equal(dst.numpy(), np.where(chosen, 2.5 if scalar else new, old))


def test_stream_shuffle_works_per_quadrant_and_in_place(tiles):
    data = np.arange(64 * 3, dtype=np.float32).reshape(64, 3)
    mask = [(i + 1) % 32 for i in range(32)]
    mask[5] = 255
    tile = tiles.of(data)
    nisa.nc_stream_shuffle(tile, tile, mask)
    expected = data.copy()
    for p in range(64):
        if p % 32 != 5:
            expected[p] = data[p // 32 * 32 + (p + 1) % 32]
    np.testing.assert_array_equal(tile.numpy(), expected)
    with pytest.raises(NkiValidationError):
        nisa.nc_stream_shuffle(tile, tile, [0] * 31)
    with pytest.raises(NkiValidationError):
        nisa.nc_stream_shuffle(tile, tile, [32] * 32)
