"""Which op of torch is written by which function of ops/."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from opentrn import _core
from opentrn.errors import NotModelled

aten = _core.aten  # said by _core, where a build has none

# rule(body, out, *arguments, **keywords): tensors are Values, `out` is the Spec of the result, or a tuple of them.
Rule = Callable[..., Any]

RULES: dict[Any, Rule] = {}
# Of other packages' ops, which exist once those are imported: by "namespace::name".
FOREIGN: dict[str, Rule] = {}


def rule_of(op: Any) -> Rule | None:
    """What writes an op of a graph; None where nothing does."""
    found = RULES.get(op)
    if found is None and isinstance(op, torch._ops.OpOverload) and op._overloadname == "default":
        return FOREIGN.get(op._schema.name)
    return found


class NoDeviceForm(NotModelled):
    """An op, or a use of one, that this package does not write as StableHLO."""


def overloads(name: str) -> Iterator[Any]:
    """`add.Tensor` is that overload of aten's, `add` all of its functional ones, `prims.where` one of prims'."""
    namespace = torch.ops.aten
    if name.startswith("prims."):
        namespace, name = torch.ops.prims, name.removeprefix("prims.")
    packet, _, overload = name.partition(".")
    found = getattr(namespace, packet)
    if overload:
        yield getattr(found, overload)
        return
    for each in found.overloads():
        op = getattr(found, each)
        if not op._schema.is_mutable and not each.endswith("out"):
            yield op


def emits(*names: str) -> Callable[[Rule], Rule]:
    """Marks the function that writes these ops."""

    def mark(rule: Rule) -> Rule:
        for name in names:
            for op in overloads(name):
                emits_op(op, rule)
        return rule

    return mark


def register_written() -> None:
    """The rules of C++, for the ops that their names stand for."""
    for name in aten.rules():
        for op in overloads(name):
            declared = op._schema.arguments
            names, defaults = [each.name for each in declared], [each.default_value for each in declared]
            emits_op(op, aten.Rule(name, names, defaults))


def emits_op(op: Any, rule: Rule) -> None:
    if op in RULES:
        raise AssertionError(f"{op} has two rules")
    RULES[op] = rule


def require(condition: bool, message: str) -> None:
    """Raises NoDeviceForm unless the condition holds. message: what follows the name of the op."""
    if not condition:
        raise NoDeviceForm(message, label="torch.no_emitter")
