"""Masks become boxes that cover exactly what the mask leaves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentrn.errors import NkiValidationError
from opentrn.nki_legacy.box import Range
from opentrn.nki_legacy.index import Predicate, arange, regions


def covered(boxes, shape):
    """How often each element is in a box."""
    count = np.zeros(shape, int)
    for box in boxes:
        count[tuple(slice(r.start, r.start + r.step * r.count, r.step) for r in box)] += 1
    return count


def test_rectangle_is_one_box():
    i, j = arange(128)[:, None], arange(512)[None, :]
    boxes = regions((i < 64) & (j < 256), (128, 512), "test")
    assert boxes == [(Range(0, 1, 64), Range(0, 1, 256))]


def test_strided_condition_is_one_box():
    j = arange(16)[None, :]
    assert regions(j % 4 == 1, (8, 16), "test") == [(Range(0, 1, 8), Range(1, 4, 4))]


def test_triangle_is_one_box_per_row():
    i, j = arange(8)[:, None], arange(8)[None, :]
    boxes = regions(i >= j, (8, 8), "test")
    assert len(boxes) == 8
    np.testing.assert_array_equal(covered(boxes, (8, 8)), np.tri(8, dtype=int))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**24 - 1))
def test_boxes_cover_any_mask_exactly_once(bits):
    truth = np.array([(bits >> k) & 1 for k in range(24)], bool).reshape(2, 3, 4)
    boxes = regions(Predicate.of_values(truth), (2, 3, 4), "test")
    np.testing.assert_array_equal(covered(boxes, truth.shape), truth.astype(int))


def test_bool_masks():
    assert regions(False, (4, 4), "test") == []
    assert len(regions(True, (4, 4), "test")) == 1


def test_mask_of_another_shape_is_refused():
    with pytest.raises(NkiValidationError, match="does not fit a tile of shape"):
        regions(arange(8)[:, None] < 4, (4, 4), "test")


def test_mask_that_is_data_is_refused():
    with pytest.raises(NkiValidationError, match="nl.where"):
        regions(np.ones((4, 4), bool), (4, 4), "test")
