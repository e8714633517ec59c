"""Statistics, search and gather."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opentrn.errors import NkiValidationError, OutOfBounds
from opentrn.oracle import isa as nisa

F32, BF16 = np.float32, ml_dtypes.bfloat16


def test_bn_stats_and_bn_aggr_give_mean_and_variance(tiles, rng):
    data = rng.standard_normal((4, 700)).astype(F32) + 3
    stats = tiles.empty((4, 18))
    for i, (a, b) in enumerate([(0, 512), (512, 699), (699, 700)]):
        nisa.bn_stats(stats[:, 6 * i : 6 * i + 6], tiles.of(data[:, a:b]))
    first = stats.numpy()[:, :6]
    np.testing.assert_array_equal(first[:, [0, 3]], 256)
    np.testing.assert_allclose(first[:, 1], data[:, 0:512:2].mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(first[:, 5], data[:, 1:512:2].var(axis=1) * 256, rtol=1e-4)
    result = tiles.empty((4, 2))
    nisa.bn_aggr(result, stats)
    np.testing.assert_allclose(result.numpy()[:, 0], data.astype(np.float64).mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(result.numpy()[:, 1], data.astype(np.float64).var(axis=1), rtol=1e-5)
    with pytest.raises(NkiValidationError, match="512"):
        nisa.bn_stats(stats[:, :6], tiles.of(data[:, :513]))


def test_max8_sorts_descending(tiles, rng):
    data = rng.standard_normal((3, 4, 5)).astype(BF16)
    dst = tiles.empty((3, 8))
    nisa.max8(dst, tiles.of(data))
    expected = np.sort(data.reshape(3, 20).astype(F32), axis=1)[:, ::-1][:, :8]
    np.testing.assert_array_equal(dst.numpy(), expected)
    with pytest.raises(NkiValidationError, match="8 to 16384"):
        nisa.max8(dst, tiles.empty((3, 7)))


@pytest.mark.parametrize(("dtype", "absent"), [("uint32", 2**32 - 1), ("uint16", 2**16 - 1)])
def test_find_index8_pairs_duplicates_in_ascending_order(tiles, dtype, absent):
    data = np.array([[5, 1, 5, 2, 9, 5, 7, 8, 0]], F32)
    vals = np.array([[5, 9, 5, 5, 5, 4, 0, 2]], F32)
    dst = tiles.empty((1, 8), dtype)
    nisa.nc_find_index8(dst, tiles.of(data), tiles.of(vals))
    np.testing.assert_array_equal(dst.numpy(), [[0, 4, 2, 5, absent, absent, 8, 3]])


def test_match_replace8_as_in_the_documentation(tiles):
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], F32)
    dst, index = tiles.empty((1, 11)), tiles.empty((1, 8), "uint32")
    nisa.nc_match_replace8(
        dst, tiles.of(data), tiles.of(np.array([[3, 8, 8, 8, 8, 8, 8, 8]], F32)), float("-inf"), index
    )
    np.testing.assert_array_equal(index.numpy(), [[2, 10, 9, 8, 7, 6, 5, 4]])
    np.testing.assert_array_equal(dst.numpy(), [[1, 2, -np.inf, 4] + [-np.inf] * 7])


def test_match_replace8_in_place_and_with_a_value_that_is_absent(tiles):
    tile = tiles.of(np.arange(8, dtype=F32)[None, :])
    index = tiles.empty((1, 8), "uint32")
    vals = tiles.of(np.array([[7, 6, 5, 4, 3, 2, 1, 99]], F32))
    nisa.nc_match_replace8(tile, tile, vals, 7.0, index)
    np.testing.assert_array_equal(tile.numpy(), [[0] + [7] * 7])
    assert index.numpy()[0, 7] == 2**32 - 1


def test_n_gather_works_within_partitions(tiles, rng):
    data = rng.standard_normal((4, 3, 5)).astype(BF16)
    index = rng.integers(0, 15, (4, 7)).astype(np.uint32)
    dst = tiles.empty((4, 7), "bfloat16")
    nisa.nc_n_gather(dst, tiles.of(data), tiles.of(index))
    np.testing.assert_array_equal(
        dst.numpy(), np.take_along_axis(data.reshape(4, 15), index.astype(int), axis=1)
    )
    index[2, 3] = 15
    with pytest.raises(OutOfBounds, match="15"):
        nisa.nc_n_gather(dst, tiles.of(data), tiles.of(index))


@pytest.mark.parametrize(("width", "valid"), [(1, None), (4, None), (4, 50)])
def test_local_gather_shares_indices_among_sixteen_partitions(tiles, rng, width, valid):
    data = rng.standard_normal((32, 40 * width)).astype(F32)
    index = rng.integers(0, 40, (32, 4)).astype(np.uint16)
    count = 64 if valid is None else valid
    dst = tiles.empty((32, count * width))
    nisa.local_gather(dst, tiles.of(data), tiles.of(index * np.uint16(width)), width, valid)
    for p in range(32):
        group = index[p // 16 * 16 : p // 16 * 16 + 16]
        for i in range(count):
            start = int(group[i % 16, i // 16]) * width
            np.testing.assert_array_equal(
                dst.numpy()[p, i * width : (i + 1) * width], data[p, start : start + width]
            )


def test_nonzero_with_count_as_in_the_documentation(tiles):
    source = np.ones((32, 8), F32)
    source[16] = [0, 1, 1, 0, 0, 1, 0, 0]
    dst = tiles.of(np.full((32, 9), 77), "int32")
    nisa.nonzero_with_count(dst, tiles.of(source), index_offset=16, padding_val=-1)
    np.testing.assert_array_equal(dst.numpy()[16], [17, 18, 21, -1, -1, -1, -1, -1, 3])
    np.testing.assert_array_equal(dst.numpy()[0], [*range(16, 24), 8])
    untouched = np.delete(dst.numpy(), [0, 16], axis=0)
    assert (untouched == 77).all()


def test_topk_reads_a_snake_of_sixteen_partitions(tiles, rng):
    n, k = 42, 8
    values = rng.permutation(48).astype(BF16)
    source = np.zeros((32, 3), BF16)
    source[:16] = values.reshape(3, 16).T
    source[16:] = -values.reshape(3, 16).T
    val, idx = tiles.empty((32, k), "bfloat16"), tiles.empty((32, k), "uint32")
    nisa.topk(val, idx, tiles.of(source), n)
    order = np.argsort(values[:n].astype(F32))
    for p in (0, 15):
        np.testing.assert_array_equal(idx.numpy()[p], order[-k:])
        np.testing.assert_array_equal(val.numpy()[p], values[order[-k:]])
    np.testing.assert_array_equal(idx.numpy()[31], order[:k][::-1])


def test_sequence_bounds_as_in_the_documentation(tiles):
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], np.int32)
    dst = tiles.empty((1, 2, 9), "int32")
    nisa.sequence_bounds(dst, tiles.of(ids))
    np.testing.assert_array_equal(
        dst.numpy()[0], [[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]
    )
