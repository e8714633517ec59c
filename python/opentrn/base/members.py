"""Members of classes, most of them of the C++ extension, that Python adds."""

from __future__ import annotations

from collections.abc import Callable


def add(cls: type, members: dict[str, Callable | property]) -> None:
    """Gives a class these members; `./dev stubs` writes those of the C++ extension into its stub."""
    for name, member in members.items():
        setattr(cls, name, member)


def declare(cls: type, attributes: dict[str, str]) -> None:
    """Says of which types are the attributes that Python sets on objects of such a class; the stub has them too."""
    cls.__annotations__ = attributes
