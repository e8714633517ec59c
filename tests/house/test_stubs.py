"""The type stubs of the C++ extensions are those that ./dev stubs makes."""

import sys

import pytest

from devtool import stubs


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the generator spells some types otherwise on Python 3.10")
def test_stubs_are_those_of_the_extensions():
    made = stubs.made()
    assert len(made) >= 4
    for path, text in made.items():
        assert path.exists() and path.read_text() == text, f"{path.name}: run ./dev stubs"
