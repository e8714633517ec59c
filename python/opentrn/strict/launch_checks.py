"""Strict mode: what a launch passes in and gets back."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from opentrn.errors import SourceLocation
from opentrn.strict import StrictRefusal, rules_of, surface
from opentrn.types.isa_enums import MemoryRegion


def check(
    func: Callable[..., Any], arguments: dict[str, Any], options: dict[str, Any], legacy: bool, release: str
) -> None:
    """Refuse the launch itself: its dialect, its decorator's options, the kinds of its arguments."""
    name = getattr(func, "__name__", repr(func))
    place = _place(func)
    for rule in rules_of(release, "legacy_namespace" if legacy else "new_namespace"):
        raise StrictRefusal(rule, release, f"kernel {name}", place)
    if legacy:
        return
    for rule in rules_of(release, "jit_option"):
        if options.get(rule.name) is not None:
            raise StrictRefusal(rule, release, f"kernel {name}", place)
    for rule in rules_of(release, "keyword_only"):
        if any(p.kind is p.KEYWORD_ONLY for p in inspect.signature(func).parameters.values()):
            raise StrictRefusal(rule, release, f"kernel {name}", place)
    for rule in rules_of(release, "list_argument"):
        for argument, value in arguments.items():
            if isinstance(value, list):
                raise StrictRefusal(rule, release, f"argument {argument} of {name}", place)
    for rule in rules_of(release, "class_base"):
        for argument, value in arguments.items():
            if not _class_is_allowed(value):
                detail = f"argument {argument} of {name} is a {type(value).__name__}"
                raise StrictRefusal(rule, release, detail, place)


def _class_is_allowed(value: Any) -> bool:
    base_class = surface.machine().object_class
    if isinstance(value, base_class):
        return all(base in (object, base_class) or issubclass(base, base_class) for base in type(value).__mro__)
    return isinstance(value, type) or not dataclasses.is_dataclass(value)


def check_outputs(value: Any, inputs: list[Any], release: str) -> None:
    """Refuse a returned tensor outside of shared HBM. Inputs may be returned."""

    if isinstance(value, (tuple, list)):
        for item in value:
            check_outputs(item, inputs, release)
    elif surface.machine().is_tensor(value) and not any(value is tensor for tensor in inputs):
        region = MemoryRegion(value.buffer)
        for rule in rules_of(release, "output_buffer"):
            if region.is_hbm and region is not MemoryRegion.shared_hbm:
                raise StrictRefusal(rule, release, f"'{value.name}' is in {region.name}")


def _place(func: Callable[..., Any]) -> SourceLocation | None:
    code = getattr(func, "__code__", None)
    return SourceLocation(code.co_filename, code.co_firstlineno, code.co_name) if code else None
