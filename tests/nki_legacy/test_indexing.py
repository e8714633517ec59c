"""Views have the addresses that NumPy finds for every index, masks the elements; PSUM states those of each element."""

import random

import numpy as np
import pytest

from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki_legacy import base
from opentrn.nki_legacy.box import Range
from opentrn.nki_legacy.index import arange, ds, mgrid, regions
from opentrn.nki_legacy.psum_state import MATMUL, OTHER, UNWRITTEN, ZERO_PENDING, elements_of
from opentrn.nki_legacy.tile import ParDim, Place, Tensor
from opentrn.types.isa_enums import MemoryRegion

CASES = 400


def _bases(rng):
    """Views of tensors that exist in shape only: nothing here touches memory."""
    sbuf, hbm = Place(MemoryRegion.sbuf), Place(MemoryRegion.private_hbm)
    return [
        Tensor((128, 512), "float32", sbuf).tile(),
        Tensor((4, 3, ParDim(64), 8, 16), "bfloat16", sbuf).tile(),
        Tensor((2, ParDim(32), 40), "float32", sbuf).tile()[rng.randrange(2)],
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


def _indices(keys, shape):
    """An array of indices for each dimension, broadcast as NumPy does; None where an index says nothing."""
    spot = keys.index(...) if ... in keys else len(keys)
    missing = len(shape) - sum(key is not None and key is not ... for key in keys)
    keys = [*keys[:spot], *[slice(None)] * missing, *keys[spot + 1 :]]
    axes = [key for key in keys if key is None or isinstance(key, slice) or type(key).__name__ == "DynamicSlice"]
    sizes, found, axis = iter(shape), [], 0
    for key in keys:
        if key is None:
            axis += 1
            continue
        size = next(sizes)
        if isinstance(key, int):
            found.append(np.array(key + size if key < 0 else key))
        elif hasattr(key, "values"):
            found.append(key.values())
        else:
            values = range(*key.indices(size)) if isinstance(key, slice) else range(key.start, key.start + key.size)
            if isinstance(key, slice) and None not in (key.start, key.stop):  # ends beyond the dimension count
                start, stop = (v + size if v < 0 else v for v in (key.start, key.stop))
                values = range(start, stop, key.step or 1)
            elif isinstance(key, slice) and key.stop is not None:
                values = range(key.stop + size if key.stop < 0 else key.stop)
            if not values:
                return None
            found.append(np.array(values).reshape([-1 if a == axis else 1 for a in range(len(axes))]))
            axis += 1
    return found


def _addresses(tile):
    """(block, address) of each element of a tile."""
    blocks = [np.array(b) if isinstance(b, int) else b.start + b.step * np.arange(b.count) for b in tile._blocks]
    lines = [*blocks, *(step * np.arange(count) for step, count in tile._dims)]
    kept = [line for line in lines if line.ndim]
    grid = iter(np.meshgrid(*kept, indexing="ij") if kept else [])
    full = [next(grid) if line.ndim else line for line in lines]
    return [*full[: len(blocks)], tile._offset + sum(full[len(blocks) :])]


@pytest.mark.parametrize("make", [_affine_index, _basic_index])
def test_views_have_the_addresses_of_every_index(make):
    rng = random.Random(make.__name__)
    viewed = 0
    for _ in range(CASES):
        for whole in _bases(rng):
            keys = make(rng, whole)
            try:
                view = whole[keys]
            except (NkiValidationError, NotModelled):
                continue
            viewed += 1
            found = _indices(keys, whole.shape)
            assert found is not None, (whole, keys)
            inner = len(whole._open)
            remaining = iter(found[:inner])
            blocks = [next(remaining) if isinstance(b, Range) else np.array(b) for b in whole._blocks]
            address = whole._offset + sum(index * step for index, (step, _) in zip(found[inner:], whole._dims))
            shape = np.broadcast_shapes(*(i.shape for i in found))
            wanted = [np.broadcast_to(part, shape) for part in (*blocks, address)]
            for part, line in zip(_addresses(view), wanted):
                made = np.broadcast_to(part, view.shape).ravel()
                np.testing.assert_array_equal(made, line.ravel(), f"{whole} {keys}")
            leaves = any((i < 0).any() or (i >= n).any() for i, n in zip(found, whole.shape))
            assert bool(view._limits) == leaves, (whole, keys)
    assert viewed > CASES


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
