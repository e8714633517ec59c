"""What strict mode looks at of the language that it judges, handed in by the packages that hold it.

Strict mode lies below `opentrn.nki` and `opentrn.nki_legacy`, which ask it at every launch; both register here when
they are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Machine:
    """The machine of the front end: of the backend that is chosen when somebody asks."""

    is_tensor: Callable[[Any], bool]
    backend: Callable[[], Any]
    object_class: type  # nki.language.NKIObject, whose subclasses kernels may take as arguments


_machine: list[Machine] = []
# By whether it is of neuronxcc.nki: name of a module as the rules have it -> the module
_modules: dict[bool, dict[str, Any]] = {}


def register_machine(machine: Machine) -> None:
    _machine[:] = [machine]


def register_modules(legacy: bool, modules: dict[str, Any]) -> None:
    _modules[legacy] = modules


def machine() -> Machine:
    return _machine[0]


def modules(legacy: bool) -> dict[str, Any]:
    """The modules of nki, or of neuronxcc.nki, by the names that the rules have."""
    return _modules[legacy]
