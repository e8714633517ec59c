"""What help() and inspect say of an instruction: its signature and a summary, made when somebody looks.

All of it comes from the instruction table of the C++ core (src/isa/instructions).
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from opentrn.types import isa_enums

_WIDTH = 96
# What operators are called by: the functions of nki.language, which lies above; before it is imported, their names.
_operators: dict[str, Any] = {}


def register_operators(namespace: dict[str, Any]) -> None:
    """Names the functions that stand for operators in signatures: what nki.language holds."""
    _operators.update(namespace)


def signature(function: Any) -> inspect.Signature:
    """Of a call of nki.isa, in the core's order of parameters."""
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=_default(default))
            for name, default in zip(function.parameters, function.defaults)
        ]
    )


def doc(function: Any) -> str:
    """What the instruction computes, where it runs, and its own rules by their labels."""
    parts = [_summary(function.summary), _where(function)]
    if function.rules:
        rules = (f"{label}: {rule}" for label, rule in function.rules)
        parts.append(
            "Rules of its own, beside isa.C1 and on of all instructions:\n" + "\n".join(map(_item, rules))
        )
    return "\n\n".join(parts)


def _default(default: Any) -> Any:
    if default is ...:
        return inspect.Parameter.empty
    if not isinstance(default, tuple) or not default:
        return default
    enumeration, member = default
    if enumeration == "op":
        return _operators.get(member, member)
    return isa_enums.__dict__[enumeration][member]


def _summary(text: str) -> str:
    return "\n\n".join(textwrap.fill(part, _WIDTH) for part in text.split("\n\n"))


def _where(function: Any) -> str:
    spelt = {"dma": "DMA", "gpsimd": "GpSimd"}
    engines = [spelt.get(name, name.capitalize()) for name in function.engines]
    kind = "Engine" if len(engines) == 1 else "Engines"
    since = function.first_generation
    return f"{kind}: {', '.join(engines)}. NeuronCore-v{since} and later."


def _item(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")
