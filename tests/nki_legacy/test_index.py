"""Index expressions: values, shapes and what they refuse."""

import numpy as np
import pytest

from opentrn.errors import NkiValidationError
from opentrn.nki_legacy.index import arange, mgrid


def test_affine_expression_has_numpys_values():
    i, j = arange(4)[:, None], arange(3, 9, 2)[None, :]
    p, f = np.arange(4)[:, None], np.arange(3, 9, 2)[None, :]
    np.testing.assert_array_equal((5 + i * 8 - 2 * j).values(), 5 + p * 8 - 2 * f)


def test_axis_of_size_one_keeps_its_value_when_broadcast():
    i, j = arange(7, 8)[:, None], arange(3)[None, :]
    np.testing.assert_array_equal((i + j).values(), [[7, 8, 9]])


def test_mgrid_is_dense_and_has_named_axes():
    grid = mgrid[0:2, 1:4]
    assert grid.p.shape == grid.x.shape == (2, 3)
    np.testing.assert_array_equal(np.stack([e.values() for e in grid]), np.mgrid[0:2, 1:4])


@pytest.mark.parametrize("function", [lambda i: i // 3, lambda i: i % 3, lambda i: (i + 1) * i])
def test_operations_along_one_axis_stay_exact_vectors(function):
    expr = function(arange(8)[:, None])
    np.testing.assert_array_equal(expr.values(), function(np.arange(8)[:, None]))
    assert expr.dense is None


def test_product_of_two_axes_is_dense():
    i, j = arange(3)[:, None], arange(4)[None, :]
    np.testing.assert_array_equal((i * j).values(), np.arange(3)[:, None] * np.arange(4))


def test_predicates_combine():
    i, j = arange(4)[:, None], arange(4)[None, :]
    p, f = np.arange(4)[:, None], np.arange(4)[None, :]
    np.testing.assert_array_equal(((i >= j) & (j < 3)).values(), (p >= f) & (f < 3))
    np.testing.assert_array_equal(((i > j) | (j == 3)).values(), (p > f) | (f == 3))
    np.testing.assert_array_equal((~(i > j)).values(), ~(p > f))


def test_truth_value_of_a_predicate_is_refused():
    with pytest.raises(NkiValidationError, match="err_ambiguous_tensor_truth_value"):
        bool(arange(4)[:, None] < 2)


def test_control_flow_on_an_index_is_refused():
    with pytest.raises(NkiValidationError, match="err_control_flow_condition_depending_on_arange"):
        bool(arange(4)[:, None])


def test_assignment_to_an_index_is_refused():
    with pytest.raises(NkiValidationError, match="err_cannot_assign_to_index"):
        arange(4)[:, None][0, 0] = 1
