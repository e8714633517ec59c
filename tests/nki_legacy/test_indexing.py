"""The quick ways of resolving indices and masks agree with the slow ones, which build every index."""

import random

import numpy as np
import pytest

from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki_legacy import base
from opentrn.nki_legacy.box import Range
from opentrn.nki_legacy.index import arange, ds, mgrid
from opentrn.nki_legacy.psum_state import MATMUL, OTHER, UNWRITTEN, ZERO_PENDING, elements_of
from opentrn.nki_legacy.regions import _any_regions, regions
from opentrn.nki_legacy.tile import ParDim, Place, Tensor
from opentrn.types.isa_enums import MemoryRegion

CASES = 400


def _bases(rng):
    """Views of tensors that exist in shape only: nothing here touches memory."""
    sbuf, hbm = Place(MemoryRegion.sbuf), Place(MemoryRegion.private_hbm)
    return [
        Tensor((128, 512), "float32", sbuf).tile(),
        Tensor((4, 3, ParDim(64), 8, 16), "bfloat16", sbuf).tile(),
        Tensor((2, ParDim(32), 40), "float32", sbuf).tile()._index_any((rng.randrange(2),)),
        Tensor((6, 48, 5, 7), "float32", hbm).tile(),
        Tensor((256,), "float32", hbm).tile(),
    ]


def _affine_index(rng, base):
    """One expression or int per dimension of `base`, in and around its bounds."""
    shape = base.shape
    rank = rng.choice([2, 3])
    inner = len(base._open)
    keys, axis = [], 0
    for position, size in enumerate(shape):
        if position < inner or rng.random() < 0.25 or axis >= rank:
            keys.append(rng.randrange(-1 if position < inner else 0, size + rng.choice([0, 0, 0, 2])))
            continue
        count = rng.randint(1, max(1, size // 2))
        index = arange(count)[tuple(slice(None) if a == axis else None for a in range(rank))]
        index = index * rng.choice([1, 1, 1, 2, 3, -1]) + rng.randrange(0, size)
        if rng.random() < 0.2:
            index = rng.randrange(3) - index + size
        if rng.random() < 0.1:
            index = index // 2
        keys.append(index)
        axis += rng.choice([0, 1, 1, 1])
    return tuple(keys)


def _basic_index(rng, base):
    keys = []
    for size in base.shape[: rng.randint(1, base.ndim)]:
        a, b = sorted(rng.sample(range(-2, size + 3), 2))
        keys.append(
            rng.choice([a, slice(a, b), slice(None), slice(None, b), slice(a, b, 2), ds(a, b - a), None, ...])
        )
    return tuple(keys)


def _outcome(view):
    try:
        tile = view()
    except (NkiValidationError, NotModelled) as error:
        return type(error)
    if tile is None:
        return None
    return tile._tensor, tile._blocks, tile._offset, tuple(tile._dims), tile._dtype, tile._limits, tile.shape


@pytest.mark.parametrize("make", [_affine_index, _basic_index])
def test_quick_views_are_the_views_of_the_slow_path(make):
    rng = random.Random(make.__name__)
    quick_ones = 0
    for _ in range(CASES):
        for whole in _bases(rng):
            keys = make(rng, whole)
            quick = _outcome(lambda: whole.quick_view(keys))  # noqa: B023
            slow = _outcome(lambda: whole._index_any(keys))  # noqa: B023
            if quick is not None:
                quick_ones += 1
                assert quick == slow, (whole, keys)
    assert base.IS_PLAIN or quick_ones > CASES  # the quick path takes what it is for


def _mask(rng, shape):
    terms = []
    for _ in range(rng.randint(1, 3)):
        grid = mgrid[tuple(slice(0, n) for n in shape)]
        one = rng.choice(grid) * rng.choice([-3, -2, -1, 1, 2, 5]) + rng.randint(-9, 9)
        other = rng.choice([0, 0, 0, rng.randint(-5, 20), rng.choice(grid)])
        compare = rng.choice(["__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"])
        terms.append(getattr(one, compare)(other))
    mask = terms[0]
    for term in terms[1:]:
        mask = mask & term
    return mask


def _covered(boxes, shape):
    seen = np.zeros(shape, int)
    for box in boxes:
        seen[tuple(slice(r.start, r.start + r.step * r.count, r.step) for r in box)] += 1
    return seen


def test_mask_intervals_cover_what_the_truth_values_say():
    rng = random.Random(5)
    for _ in range(CASES):
        shape = (rng.randint(1, 9), rng.randint(1, 9))
        mask = _mask(rng, shape)
        truth = np.broadcast_to(mask.values(), shape)
        np.testing.assert_array_equal(_covered(regions(mask, shape, "test"), shape), truth)
        np.testing.assert_array_equal(_covered(_any_regions(mask, shape, "test"), shape), truth)


def test_psum_states_per_view_are_the_states_per_element():
    rng = random.Random(7)
    told = 0
    for number in range(120):
        block = Tensor((16, 32), "float32", Place(MemoryRegion.psum))
        block.zero_filled = rng.random() < 0.5
        states = np.full(16 * 32, ZERO_PENDING if block.zero_filled else UNWRITTEN, np.uint8)
        whole = block.tile()
        for _ in range(30):
            row, column = rng.randrange(16), 8 * rng.randrange(4)
            rows, columns = rng.randint(1, 16 - row), rng.choice([8, 8, 8, rng.randint(1, 32 - column)])
            if number % 2:  # rectangles that are equal, apart or inside one another
                row, rows = rng.choice([(0, 16), (0, 8), (8, 8)])
                column, columns = rng.choice([(0, 32), (column, 8)])
            step = rng.choice([1, 1, 1, 2]) if columns > 1 else 1
            box = (Range(row, 1, rows), Range(column, step, (columns - 1) // step + 1))
            tile = whole.sub(box)
            if rng.random() < 0.1:
                tile = tile.view(np.int32)
            if rng.random() < 0.5:
                state = rng.choice([MATMUL, OTHER, ZERO_PENDING])
                base.psum_fill(tile, state)
                elements_of(tile, states)[...] = state
            found = set(elements_of(tile, states).ravel().tolist())
            assert base.psum_uniform(tile) == (found.pop() if len(found) == 1 else None)
            told += base.psum_uniform(whole) is not None
    assert told > 50  # not everything is mixed
