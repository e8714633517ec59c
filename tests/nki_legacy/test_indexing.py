"""The quick ways of resolving indices and masks agree with the slow ones, which build every index."""

import random

import numpy as np
import pytest

from opentrn.errors import NkiValidationError, NotModelled
from opentrn.isa_enums import MemoryRegion
from opentrn.nki_legacy import indexing
from opentrn.nki_legacy.index import arange, ds, mgrid
from opentrn.nki_legacy.psum_state import MATMUL, OTHER, UNWRITTEN, ZERO_PENDING, PsumState
from opentrn.nki_legacy.regions import Range, _any_regions, regions
from opentrn.nki_legacy.tile import ParDim, Place, Tensor

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
        for base in _bases(rng):
            keys = make(rng, base)
            quick = _outcome(lambda: indexing.quick_view(base, keys))  # noqa: B023
            slow = _outcome(lambda: base._index_any(keys))  # noqa: B023
            if quick is not None:
                quick_ones += 1
                assert quick == slow, (base, keys)
    assert quick_ones > CASES  # the quick path takes what it is for


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
    for _ in range(60):
        base = Tensor((16, 32), "float32", Place(MemoryRegion.psum)).tile()
        initial = rng.choice([UNWRITTEN, ZERO_PENDING])
        quick, elements = PsumState(16 * 32, initial), np.full((16, 32), initial)
        for _ in range(30):
            row, column = rng.randrange(16), 8 * rng.randrange(4)
            rows, columns = rng.randint(1, 16 - row), rng.choice([8, 8, 8, rng.randint(1, 32 - column)])
            tile = base.sub((Range(row, 1, rows), Range(column, 1, columns)))
            part = elements[row : row + rows, column : column + columns]
            if rng.random() < 0.5:
                state = rng.choice([MATMUL, OTHER, ZERO_PENDING])
                quick.fill(tile, state)
                part[...] = state
            states = set(part.ravel().tolist())
            assert quick.uniform(tile) == (states.pop() if len(states) == 1 else None)
