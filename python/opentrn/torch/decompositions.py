"""Ops that are taken apart before they are written: torch's own decompositions, but for ops with a rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions, decomposition_table

# Ops whose decompositions have loops that end on values, which torch traces where sizes could be symbols.
WITH_LOOPS = ("aten::linalg_matrix_exp",)


def table() -> dict[Any, Callable[..., Any]]:
    """By op. Core ATen's table, of the rest of torch's what no rule writes, and what torch has none for."""
    from opentrn.torch import regions

    return _of_torch() | regions.decompositions()  # torchvision may be imported at any time


def eager_table() -> dict[Any, Callable[..., Any]]:
    """The table for programs of one op, whose arguments' values src/torch looks at where torch asks of them."""
    from opentrn.torch.multinomial import EAGER

    return table() | EAGER


@functools.cache
def _of_torch() -> dict[Any, Callable[..., Any]]:
    from opentrn.torch import ops  # noqa: F401  (fills RULES)
    from opentrn.torch.ctc import DECOMPOSITIONS as CTC
    from opentrn.torch.embedding_bag import DECOMPOSITIONS as BAGS
    from opentrn.torch.fake_quantize import DECOMPOSITIONS as QUANTIZED
    from opentrn.torch.fast_paths import DECOMPOSITIONS as FUSED
    from opentrn.torch.foreach import decompositions as over_lists
    from opentrn.torch.fractional_pool import DECOMPOSITIONS as POOLS
    from opentrn.torch.gelu import DECOMPOSITIONS as GELU
    from opentrn.torch.linear_algebra import DECOMPOSITIONS as ALGEBRA
    from opentrn.torch.losses import DECOMPOSITIONS as LOSSES
    from opentrn.torch.matrix_exp import DECOMPOSITIONS as EXPONENTIALS
    from opentrn.torch.median import DECOMPOSITIONS as MEDIANS
    from opentrn.torch.multinomial import DECOMPOSITIONS as DRAWN
    from opentrn.torch.nearest import DECOMPOSITIONS as NEAREST
    from opentrn.torch.random_integers import DECOMPOSITIONS as INTEGERS
    from opentrn.torch.registry import RULES
    from opentrn.torch.rrelu import DECOMPOSITIONS as SLOPES
    from opentrn.torch.windows import DECOMPOSITIONS as WINDOWS

    chosen = dict(decomposition_table) | dict(core_aten_decompositions())
    chosen |= BAGS | FUSED | ALGEBRA | MEDIANS | LOSSES | DRAWN | INTEGERS | GELU | WINDOWS | NEAREST | over_lists()
    chosen |= CTC | QUANTIZED | POOLS | EXPONENTIALS | SLOPES
    for op in RULES:
        chosen.pop(op, None)
    return chosen


def table_for(graph: torch.fx.Graph) -> dict[Any, Callable[..., Any]]:
    """The table for an exported graph. Recurrent layers have rules, but none for elements that are dropped between
    them: where a graph does that, torch takes its layers apart.
    """
    layers = [getattr(torch.ops.aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")]
    if any(node.target in layers and _drops_out(node) for node in graph.nodes):
        return table() | {op: decomposition_table[op] for op in layers}
    return table()


def _drops_out(node: torch.fx.Node) -> bool:
    given = dict(zip((each.name for each in node.target._schema.arguments), node.args)) | dict(node.kwargs)
    return bool(given["train"] and given["dropout"])


@contextmanager
def not_torchs_own() -> Iterator[None]:
    """While a graph is traced: forms in Python that torch registers for ops, which go before any table of
    decompositions, are not used for interpolation, which has rules, nor for a loss that they get wrong. Interpolation
    has others, because what torch has in C++ takes no size that is open.
    """
    from opentrn.torch.ops import interpolation

    without = [*interpolation.ops(), torch.ops.aten.multilabel_margin_loss_forward.default]
    keys = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
    instead = {(op, key): None for op in without for key in keys} | interpolation.of_open_sizes()
    before = {each: each[0].py_kernels.pop(each[1], None) for each in instead}
    _set_python_kernels(instead)
    try:
        yield
    finally:
        _set_python_kernels(before)


def _set_python_kernels(kernels: Mapping[tuple[Any, DispatchKey], Callable[..., Any] | None]) -> None:
    """Of each op and key; None: it has none."""
    for (op, key), kernel in kernels.items():
        op.py_kernels.pop(key, None)
        if kernel is not None:
            op.py_kernels[key] = kernel
        op._dispatch_cache.clear()
