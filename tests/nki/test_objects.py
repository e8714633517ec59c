"""NKIObject: generated constructors, dataclasses, structural equality."""

from dataclasses import FrozenInstanceError, dataclass, field
from typing import ClassVar

import pytest

from opentrn.nki.language import NKIObject


class Plain(NKIObject):
    x: int
    y: bool = False

    def toggle(self):
        self.y = not self.y


class Derived(Plain):
    z: list = field(default_factory=list)

    def __post_init__(self):
        self.total = self.x + len(self.z)


@dataclass
class Data(NKIObject):
    a: int
    b: list = field(default_factory=list)


@dataclass
class Bare(NKIObject):
    index = None
    offset = 3

    LIMIT: ClassVar[int] = 4

    def method(self):
        return self.offset


@dataclass(frozen=True)
class Frozen(NKIObject):
    a: int = 1
    derived: int = field(init=False, default=9)


class Explicit(NKIObject):
    x: int = 1

    def __init__(self, x):
        self.x = x


def test_generated_constructor():
    p = Plain(1)
    p.toggle()
    assert (p.x, p.y) == (1, True)
    assert Plain().x is None  # documented: without a default a field starts as None
    assert Plain(y=True, x=3) == Plain(3, True)


def test_inheritance_post_init_and_factories():
    d = Derived(2, z=[1, 2])
    assert (d.x, d.y, d.z, d.total) == (2, False, [1, 2], 4)
    assert Derived(1).z is not Derived(1).z


def test_dataclass_and_explicit_constructors():
    assert Data(1).b == []
    assert Data().a is None  # documented: @dataclass changes nothing
    assert Explicit(5).x == 5


def test_equality_is_structural():
    assert Plain(1) == Plain(1) and Plain(1) != Plain(2)
    assert Plain(1) != Explicit(1)
    assert len({Plain(1), Plain(1)}) == 1


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="nothere"):
        Plain(1, nothere=2)
    with pytest.raises(TypeError, match="takes 2"):
        Plain(1, 2, 3)
    with pytest.raises(TypeError, match="two values"):
        Plain(1, x=2)


def test_attributes_without_annotation_are_fields():
    assert Bare(index=2).index == 2 and Bare().method() == 3
    with pytest.raises(TypeError, match="LIMIT"):
        Bare(LIMIT=1)


def test_frozen_dataclass():
    frozen = Frozen(5)
    assert (frozen.a, frozen.derived) == (5, 9)
    with pytest.raises(FrozenInstanceError):
        frozen.a = 2
    with pytest.raises(TypeError, match="derived"):
        Frozen(derived=1)
