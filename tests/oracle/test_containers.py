"""The core's walk through containers, and shapes that meet, against the Python of them."""

from __future__ import annotations

from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentrn import _core
from opentrn.errors import NkiValidationError
from opentrn.oracle import containers

Pair = namedtuple("Pair", "left right")


class Own(list):
    pass


_leaves = st.one_of(st.integers(), st.text(max_size=3), st.none(), st.booleans())
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(Own),
        st.tuples(inner, inner).map(lambda both: Pair(*both)),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(_values, st.booleans())
def test_leaves_are_replaced_as_the_reference_does(value, exact):
    found, wanted = (each.map_leaves(value, repr, exact) for each in (_core, containers))
    assert repr(found) == repr(wanted) and type(found) is type(wanted)


@given(st.lists(st.integers(1, 3), max_size=4), st.lists(st.integers(1, 3), max_size=4))
def test_shapes_meet_as_in_the_reference(x, y):
    try:
        wanted = containers.common_shape(x, y)
    except NkiValidationError as refused:
        with pytest.raises(NkiValidationError) as found:
            _core.common_shape(x, y)
        assert (found.value.label, found.value.message) == (refused.label, refused.message)
        return
    assert _core.common_shape(x, y) == wanted
