"""Branches and loops of torch's higher-order ops: cond, while_loop, scan, map. Their graphs become regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES, require
from opentrn.torch.text import Body, Spec, Value, numbers

HIGHER = torch.ops.higher_order


def cond(
    body: Emitter,
    out: Any,
    predicate: Any,
    on_true: fx.GraphModule,
    on_false: fx.GraphModule,
    operands: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """torch.cond. Only the chosen branch runs."""
    if not isinstance(predicate, Value):
        return tuple(body.run_graph(on_true if predicate else on_false, operands))
    index = body.convert(body.reshape(predicate, ()), torch.int32)
    kept = [place for place, spec in enumerate(out) if isinstance(spec, Spec)]

    def branch(graph: fx.GraphModule) -> str:
        def build() -> list[Value]:
            made = body.run_graph(graph, operands)
            return [body.tensor(made[place], out[place].dtype, out[place].shape) for place in kept]

        return body.graph_block([], build)

    regions = f" ({branch(on_false)}, {branch(on_true)})"
    made = body.ops("case", [index], [(out[place].shape, out[place].dtype) for place in kept], "", regions)
    results = dict(zip(kept, made))
    return tuple(results.get(place) for place in range(len(out)))


def _as_values(body: Emitter, given: Sequence[Any], out: Sequence[Any]) -> list[Value]:
    """What a loop carries, in the types and shapes of its results."""
    for each in out:
        require(isinstance(each, Spec), "carries what is not a tensor")
    return [body.tensor(each, spec.dtype, spec.shape) for each, spec in zip(given, out)]


def while_loop(
    body: Emitter,
    out: Any,
    goes_on: fx.GraphModule,
    step: fx.GraphModule,
    carried: Sequence[Any],
    others: Sequence[Any] = (),
    **options: Any,
) -> tuple[Value, ...]:
    """torch.while_loop. Its trip count is the predicate's, which the predicted time knows only where it counts."""
    require(not options.get("mutated_arg_indices"), "changes its arguments in place")
    start = _as_values(body, carried, out)
    kinds = [(each.shape, each.dtype) for each in start]

    def predicate(*given: Value) -> list[Value]:
        return [body.reshape(body.run_graph(goes_on, [*given, *others])[0], ())]

    def next_(*given: Value) -> list[Value]:
        made = body.run_graph(step, [*given, *others])
        return [body.tensor(each, spec.dtype, spec.shape) for each, spec in zip(made, out)]

    regions = f" ({body.graph_block(kinds, predicate, True)}, {body.graph_block(kinds, next_, True)})"
    return tuple(body.ops("while", start, kinds, "", regions))


def counted(
    body: Emitter, count: int, carried: Sequence[Value], step: Any, rows: Sequence[Spec]
) -> tuple[list[Value], list[Value]]:
    """(what is carried after `count` steps, the rows of each step one after the other).

    step(i, carried) gives (carried, rows), written with `body`; rows: Specs of all of them, whose first size is count.
    """
    first = body.splat(0, torch.int32)
    stacked = [body.splat(0, spec.dtype, spec.shape) for spec in rows]
    start = [first, *carried, *stacked]
    kinds = [(each.shape, each.dtype) for each in start]

    def goes_on(inner: Body, i: Value, *_: Value) -> list[Value]:
        return [inner.compare("LT", i, inner.splat(count, torch.int32))]

    def next_(i: Value, *given: Value) -> list[Value]:
        made, new = step(i, given[: len(carried)])
        filled = []
        for buffer, row in zip(given[len(carried) :], new):
            at = [i, *(body.splat(0, torch.int32) for _ in range(row.rank))]
            one = body.reshape(row, (1, *row.shape))
            filled.append(body.op("dynamic_update_slice", [buffer, one, *at], buffer.shape, buffer.dtype))
        return [body.add(i, body.splat(1, torch.int32)), *made, *filled]

    regions = f" ({body.block(kinds, goes_on)}, {body.graph_block(kinds, next_, True)})"
    made = body.ops("while", start, kinds, "", regions)[1:]
    return made[: len(carried)], made[len(carried) :]


def row_of(body: Body, value: Value, i: Value) -> Value:
    """value[i]"""
    sizes = (1, *value.shape[1:])
    at = [i, *(body.splat(0, torch.int32) for _ in sizes[1:])]
    one = body.op("dynamic_slice", [value, *at], sizes, value.dtype, f"slice_sizes = {numbers(sizes)}")
    return body.reshape(one, value.shape[1:])


def scan(
    body: Emitter,
    out: Any,
    combine: fx.GraphModule,
    first: Sequence[Any],
    elements: Sequence[Value],
    others: Sequence[Any] = (),
) -> tuple[Value, ...]:
    """torch's scan along the first dimension: (what is carried at the end..., rows of every step...)."""
    specs, rows = out[: len(first)], out[len(first) :]
    carried = _as_values(body, first, specs)
    count = elements[0].shape[0] if elements else 0
    require(count > 0, "goes over no elements")

    def step(i: Value, given: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        made = body.run_graph(combine, [*given, *(row_of(body, each, i) for each in elements), *others])
        new = [body.tensor(each, spec.dtype, spec.shape) for each, spec in zip(made, specs)]
        wanted = zip(made[len(first) :], rows)
        return new, [body.tensor(each, spec.dtype, spec.shape[1:]) for each, spec in wanted]

    made, stacked = counted(body, count, carried, step, rows)
    return (*made, *stacked)


def map_impl(
    body: Emitter, out: Any, function: fx.GraphModule, elements: Sequence[Value], others: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """torch's map along the first dimension, one element after the other."""
    count = elements[0].shape[0]
    require(count > 0, "goes over no elements")
    kept = [place for place, spec in enumerate(out) if isinstance(spec, Spec)]
    rows = [out[place] for place in kept]

    def step(i: Value, _: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        made = body.run_graph(function, [*(row_of(body, each, i) for each in elements), *others])
        wanted = zip((made[place] for place in kept), rows)
        return [], [body.tensor(each, spec.dtype, spec.shape[1:]) for each, spec in wanted]

    results = dict(zip(kept, counted(body, count, [], step, rows)[1]))
    return tuple(results.get(place) for place in range(len(out)))


RULES[HIGHER.cond] = cond
RULES[HIGHER.while_loop] = while_loop
RULES[HIGHER.scan] = scan
RULES[HIGHER.map_impl] = map_impl
