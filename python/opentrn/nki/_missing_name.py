"""What a module of NKI says of a name that it does not have: what replaced it, or which name is near."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_NEAR_COUNT = 3


def refuses(module: str, namespace: dict[str, Any]) -> Callable[[str], Any]:
    """A module's `__getattr__`. module: as kernels import it, "nki.isa"; namespace: the module's globals."""

    def __getattr__(name: str) -> Any:
        text = f"module {module!r} has no attribute {name!r}"
        if not name.startswith("_"):
            text += _advice(module, name, namespace)
        raise AttributeError(text, name=name)

    return __getattr__


def _advice(module: str, name: str, namespace: dict[str, Any]) -> str:
    from opentrn.strict.rules import rules_of

    for rule in rules_of("0.6", "name"):
        if (rule.where, rule.name) == (module, name):
            return f": {rule.what} in NKI {rule.first or '0.3'} ({rule.source})\n    try: {rule.instead}"
    import difflib

    known = [other for other in namespace if not other.startswith("_")]
    near = difflib.get_close_matches(name, known, _NEAR_COUNT)
    return f"\n    try: {' or '.join(near)}" if near else ""
