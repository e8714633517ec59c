"""Hands the language to what lies below it: strict mode, which judges its calls, and help() on instructions."""

from __future__ import annotations

from types import ModuleType

from opentrn.kernel import instruction_help
from opentrn.nki import _machine, collectives, isa, language
from opentrn.nki._objects import NKIObject
from opentrn.strict import surface
from opentrn.strict.rules import COLLECTIVES, ISA, LANGUAGE, NKI


def register(package: ModuleType) -> None:
    """`package`: opentrn.nki itself."""
    surface.register_machine(surface.Machine(_machine.is_tensor, _machine.backend, NKIObject))
    surface.register_modules(False, {ISA: isa, LANGUAGE: language, COLLECTIVES: collectives, NKI: package})
    instruction_help.register_operators(vars(language))
