"""A function of tensors as a graph: what make_fx gives, without what an op on its own does not need.

make_fx traces any program: it replaces __call__ and __getattr__ of every module while it runs, notes at each call which
function of torch's made it, and writes the graph as Python. Ops call no modules, and no one runs the graph: of a small
op's processor time that was half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx import _lazy_graph_module
from torch.fx.experimental import proxy_tensor


def graph_of(function: Callable[..., Any], inputs: Sequence[Tensor], table: Mapping[Any, Any]) -> fx.GraphModule:
    """The graph of `function` for tensors of those shapes and types. inputs: of a FakeTensorMode, which is entered."""
    # Ops that hold graphs of their own (cond, while_loop) ask the one who traces for another tracer.
    maker = proxy_tensor._MakefxTracer(
        table, "real", _allow_non_fake_inputs=False, pre_dispatch=False, record_module_stack=False,
        _allow_fake_constant=False, _error_on_data_dependent_ops=True, _disable_torch_fn_metadata_mode=True,
    )  # fmt: skip
    with maker._init_modes_from_inputs(function, tuple(inputs)), ExitStack() as stack:
        for each in (
            maker.torch_fn_metadata_mode, maker.proxy_mode, proxy_tensor.disable_autocast_cache(),
            proxy_tensor._set_make_fx_tracer(maker), _lazy_graph_module._use_lazy_graph_module(True),
        ):  # fmt: skip
            stack.enter_context(each)
        tracer = maker.fx_tracer
        tracer.root, tracer.graph, tracer.tensor_attrs = torch.nn.Module(), fx.Graph(tracer_cls=type(tracer)), {}
        proxies = [tracer.create_proxy("placeholder", f"arg{i}", (), {}) for i in range(len(inputs))]
        results = proxy_tensor.wrap_key(function, tuple(inputs), tracer, False)(*proxies)
        tracer.create_node("output", "output", (tracer.create_arg(results),), {})
        return _lazy_graph_module._make_graph_module(tracer.root, tracer.graph, "op")
