"""Index patterns and random values."""

from __future__ import annotations

import numpy as np
import pytest

from opentrn.errors import NkiValidationError
from opentrn.oracle import isa as nisa
from opentrn.oracle.random_state import RandomState, _xorwow_step
from opentrn.types.isa_enums import engine


def affine(partitions, pattern, offset, channel_multiplier):
    """The loops of the documentation."""
    pattern = [[0, 1]] * (4 - len(pattern)) + list(pattern)
    (sw, nw), (sz, nz), (sy, ny), (sx, nx) = pattern
    return np.array(
        [
            [
                offset + p * channel_multiplier + w * sw + z * sz + y * sy + x * sx
                for w in range(nw)
                for z in range(nz)
                for y in range(ny)
                for x in range(nx)
            ]
            for p in range(partitions)
        ]
    )


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32", "bfloat16", "uint8"])
def test_iota(tiles, dtype):
    pattern = [[7, 2], [-1, 3], [20, 2]]
    dst = tiles.empty((4, 3, 4), dtype)
    nisa.iota(dst, pattern, offset=10, channel_multiplier=2)
    np.testing.assert_array_equal(
        dst.numpy().reshape(4, 12).astype(np.int64),
        affine(4, pattern, 10, 2).astype(dst.numpy().dtype).astype(int),
    )


def test_iota_checks_its_size_and_place(tiles):
    with pytest.raises(NkiValidationError, match="elements"):
        nisa.iota(tiles.empty((4, 5), "int32"), [[1, 4]])
    with pytest.raises(NkiValidationError, match="SBUF"):
        nisa.iota(tiles.empty((4, 4), "int32", "psum"), [[1, 4]])


@pytest.mark.parametrize("cmp_op", ["equal", "greater_equal", "less"])
def test_affine_select_builds_a_causal_mask(tiles, rng, cmp_op):
    data = rng.standard_normal((6, 8)).astype(np.float32)
    dst = tiles.empty((6, 8))
    nisa.affine_select(dst, [[-1, 8]], 1, tiles.of(data), -9984.0, cmp_op=cmp_op, offset=1)
    value = affine(6, [[-1, 8]], 1, 1)
    chosen = {"equal": value == 0, "greater_equal": value >= 0, "less": value < 0}[cmp_op]
    np.testing.assert_array_equal(dst.numpy(), np.where(chosen, data, -9984.0))


def test_xorwow_is_marsaglias():
    """The generator of "Xorshift RNGs" (2003), section 3.1, from the seeds in its text."""
    words = np.array([[123456789, 362436069, 521288629, 88675123, 5783321, 6615241]], np.uint32)
    x, y, z, w, v, d = (int(i) for i in words[0])
    for _ in range(20):
        t = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4) ^ (t ^ (t << 1))) & 0xFFFFFFFF
        d = (d + 362437) & 0xFFFFFFFF
        assert int(_xorwow_step(words)[0]) == (d + v) & 0xFFFFFFFF


def test_seeds_repeat_and_lanes_differ(tiles):
    draws = []
    for seed in (5, 5, 6):
        nisa.set_rng_seed(tiles.of([[seed]], "uint32"))
        dst = tiles.empty((128, 16), "uint32")
        nisa.rng(dst)
        draws.append(dst.numpy().copy())
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).mean() > 0.99
    assert np.unique(draws[0]).size == draws[0].size


def test_rng_truncates_to_the_low_bits(tiles):
    wide, narrow = tiles.empty((4, 8), "uint32"), tiles.empty((4, 8), "int8")
    for dst in (wide, narrow):
        nisa.set_rng_seed(tiles.of([[1]], "int32"))
        nisa.rng(dst)
    np.testing.assert_array_equal(narrow.numpy().view(np.uint8), wide.numpy() & 0xFF)
    with pytest.raises(NkiValidationError):
        nisa.rng(tiles.empty((4, 8), "float32"))


@pytest.mark.parametrize(("where", "words"), [(engine.gpsimd, 6), (engine.vector, 24)])
def test_random_state_can_be_saved_and_restored(tiles_v4, where, words):
    state = tiles_v4.empty((16, words), "uint32")
    nisa.rand_get_state(state, engine=where)
    first, second = tiles_v4.empty((16, 9), "uint32"), tiles_v4.empty((16, 9), "uint32")
    nisa.rng(first, engine=where)
    nisa.rand_set_state(state, engine=where)
    nisa.rng(second, engine=where)
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    with pytest.raises(NkiValidationError, match="words"):
        nisa.rand_get_state(tiles_v4.empty((16, 5), "uint32"), engine=where)


def test_uniform_values_fill_their_range(tiles_v4):
    dst = tiles_v4.empty((128, 64))
    nisa.rand2(dst, -2.0, tiles_v4.of(np.full((128, 1), 6.0, np.float32)))
    values = dst.numpy()
    assert values.min() >= -2 and values.max() < 6
    # 8192 draws: the mean of U(-2, 6) has a standard error of 8 / sqrt(12 * 8192) = 0.026.
    assert abs(values.mean() - 2) < 0.13
    with pytest.raises(NkiValidationError):
        nisa.rand2(dst, 1.0, 1.0)


@pytest.mark.parametrize("probability", [0.0, 0.25, 1.0])
def test_dropout(tiles, probability):
    dst = tiles.empty((128, 64), "bfloat16")
    nisa.dropout(dst, tiles.of(np.ones((128, 64)), "bfloat16"), probability)
    kept = dst.numpy().astype(np.float32)
    assert set(np.unique(kept)) <= {0.0, 1.0}
    assert abs((1 - kept.mean()) - probability) < 5 * 0.5 / np.sqrt(kept.size)


def test_no_generator_starts_at_zero():
    state = RandomState()
    for words in state.words.values():
        assert (words[..., :5] != 0).any(axis=-1).all()
