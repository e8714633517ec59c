"""`NKIObject`: the dataclass-like base of classes used inside kernels.

Source: nki/get-started/nki-language-guide.rst, "Class Support": `@dataclass` is optional and changes nothing;
a class without its own `__init__` gets one with a parameter per field (defaulting to the class attribute,
else None) that ends in `__post_init__()`; equality is structural. Fields are annotated names, then un-
annotated class attributes that hold plain values (nki-library relies on both).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from opentrn.errors import ArgumentError

_MISSING = object()


def _own_fields(cls: type) -> dict[str, Any]:
    """Fields that `cls` itself declares, with their default (None where there is none)."""
    annotations = cls.__dict__.get("__annotations__", {})
    fields = {
        name: cls.__dict__.get(name)
        for name, annotation in annotations.items()
        if "ClassVar" not in str(annotation)
    }
    for name, value in cls.__dict__.items():
        if name.startswith("__") or name in annotations or callable(value) or hasattr(value, "__get__"):
            continue
        fields[name] = value
    return fields


def _default(value: Any) -> Any:
    if isinstance(value, dataclasses.Field):
        if value.default_factory is not dataclasses.MISSING:
            return value.default_factory()
        return None if value.default is dataclasses.MISSING else value.default
    return value


def _is_parameter(value: Any) -> bool:
    return not (isinstance(value, dataclasses.Field) and not value.init)


def _generated_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """Positional and keyword values for the fields of the class, then `__post_init__()`."""
    cls = type(self)
    fields = cls.__nki_fields__
    parameters = [name for name, default in fields.items() if _is_parameter(default)]
    if len(args) > len(parameters):
        raise ArgumentError(
            f"{cls.__name__}() takes {len(parameters)} arguments, {len(args)} given", label="nki.arguments"
        )
    for name, value in zip(parameters, args):
        if name in kwargs:
            raise ArgumentError(f"{cls.__name__}() got two values for {name!r}", label="nki.arguments")
        kwargs[name] = value
    if unknown := set(kwargs) - set(parameters):
        raise ArgumentError(
            f"{cls.__name__}() got unknown arguments {sorted(unknown)}",
            label="nki.arguments", hint=f"one of {sorted(parameters)}",
        )
    for name, default in fields.items():
        value = kwargs.get(name, _MISSING)
        # object.__setattr__: a frozen dataclass refuses assignment
        object.__setattr__(self, name, _default(default) if value is _MISSING else value)
    self.__post_init__()


class NKIObject:
    """Base class for configuration and state objects of a kernel.

    Subclasses may be `@dataclass`es, define their own `__init__`, or rely on the generated one.
    """

    __nki_fields__: dict[str, Any] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Collected now, because `@dataclass` removes default factories from the class afterwards.
        cls.__nki_fields__ = {**cls.__nki_fields__, **_own_fields(cls)}
        if cls.__init__ in (object.__init__, _generated_init) and "__init__" not in cls.__dict__:
            setattr(cls, "__init__", _generated_init)  # noqa: B010  in the class's own namespace, where `@dataclass` leaves it alone

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
