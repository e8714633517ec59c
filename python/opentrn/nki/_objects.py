"""`NKIObject`: the dataclass-like base of classes used inside kernels.

Source: nki/get-started/nki-language-guide.rst, "Class Support": without `@dataclass` a class gets an
`__init__` with one parameter per annotation (defaulting to the class attribute, else None) that ends in
`__post_init__()`; equality is structural.
"""

from __future__ import annotations

import dataclasses
from typing import Any

_MISSING = object()


def _fields(cls: type) -> dict[str, Any]:
    """Annotated names of `cls` and its bases, base first, with their default (None where there is none)."""
    cached = cls.__dict__.get("__nki_fields__")
    if cached is not None:
        return cached
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is object or base is NKIObject:
            continue
        for name, annotation in base.__dict__.get("__annotations__", {}).items():
            if "ClassVar" in str(annotation):
                continue
            fields[name] = base.__dict__.get(name)
        for name in fields:
            if name in base.__dict__:
                fields[name] = base.__dict__[name]
    cls.__nki_fields__ = fields
    return fields


def _default(value: Any) -> Any:
    if isinstance(value, dataclasses.Field):
        if value.default_factory is not dataclasses.MISSING:
            return value.default_factory()
        return None if value.default is dataclasses.MISSING else value.default
    return value


class NKIObject:
    """Base class for configuration and state objects of a kernel.

    Subclasses may be `@dataclass`es, define their own `__init__`, or rely on the generated one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = _fields(type(self))
        if len(args) > len(fields):
            raise TypeError(f"{type(self).__name__}() takes {len(fields)} arguments, {len(args)} given")
        for name, value in zip(fields, args):
            if name in kwargs:
                raise TypeError(f"{type(self).__name__}() got two values for {name!r}")
            kwargs[name] = value
        for name, default in fields.items():
            value = kwargs.pop(name, _MISSING)
            setattr(self, name, _default(default) if value is _MISSING else value)
        if kwargs:
            raise TypeError(
                f"{type(self).__name__}() got unknown arguments {sorted(kwargs)}; it has {sorted(fields)}"
            )
        self.__post_init__()

    def __post_init__(self) -> None:
        """Runs after the generated `__init__`; subclasses override it."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        # Equality is structural and objects are mutable, so the type is all that is stable.
        return hash(type(self))

    def __repr__(self) -> str:
        body = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({body})"
