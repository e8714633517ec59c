"""torch.compile(model, backend="neuron")."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch.nn.attention import SDPBackend, sdpa_kernel

from opentrn.torch import decompositions, kernels
from opentrn.torch import settings as settings_module
from opentrn.torch.program import callable_graph

_number = itertools.count()


def compilers(settings: settings_module.Settings, name: str) -> dict[str, Callable[..., Any]]:
    """What AOTAutograd calls with the graphs of a model: forward, backward, inference."""

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda module, _inputs: callable_graph(module, settings, f"{name}_{kind}")

    return {
        "fw_compiler": compiler("forward"),
        "bw_compiler": compiler("backward"),
        "inference_compiler": compiler("inference"),
    }


def _function(module: fx.GraphModule) -> str:
    """The user's function that a graph begins in."""
    for node in module.graph.nodes:
        frames = re.findall(r'File "[^"]+", line \d+, in <?(\w+)>?', node.meta.get("stack_trace") or "")
        if frames:
            return frames[0]
    return "torch"


def neuron(module: fx.GraphModule, inputs: list[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """The dynamo backend: graphs of ATen ops compiled for a simulated NeuronCore.

    options: opentrn.torch.settings. Raises NoDeviceForm for an op without a device form under OPENTRN_STRICT=1.
    """
    settings = settings_module.read(options)
    name = f"{_function(module)}{next(_number)}"
    backend = aot_autograd(**compilers(settings, name), decompositions=decompositions.table())
    # torch's fused attention on a CPU has a backward pass that is no formula; that of MATH is.
    with sdpa_kernel(SDPBackend.MATH), kernels.tracing_for(settings.target):
        return backend(module, inputs)


def register() -> None:
    """Makes the name known, unless an installed OpenTrn's entry point does: torch refuses a name given twice."""
    if not entry_points(group="torch_dynamo_backends", name="neuron"):
        torch._dynamo.register_backend(compiler_fn=neuron, name="neuron")
