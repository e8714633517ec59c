"""torch.compile(model, backend="neuron")."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import exceptions_allowed_to_be_fallback
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.nn.attention import SDPBackend, sdpa_kernel

from opentrn.torch import attention, decompositions, kernels, skipped
from opentrn.torch import settings as settings_module
from opentrn.torch.emitter import source_of
from opentrn.torch.program import callable_graph
from opentrn.torch.registry import NoDeviceForm

_number = itertools.count()


def compilers(settings: settings_module.Settings, name: str) -> dict[str, Callable[..., Any]]:
    """What AOTAutograd calls with the graphs of a model: forward, backward, inference."""

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda module, _inputs: callable_graph(module, settings, f"{name}_{kind}")

    def forward(module: fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        return callable_graph(module, settings, f"{name}_forward", _seen_by_the_caller())

    return {
        "fw_compiler": forward,
        "bw_compiler": compiler("backward"),
        "inference_compiler": compiler("inference"),
    }


def _seen_by_the_caller() -> int | None:
    """Of the forward graph's results; the backward graph alone takes the others. None where torch does not say."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return metadata.num_forward if metadata is not None else None


_DECORATORS = {"wrapper", "wrapped", "inner", "decorated", "_call_impl", "_wrapped_call_impl"}


def _function(module: fx.GraphModule) -> str:
    """The user's function that a graph begins in; not what decorates it."""
    for node in module.graph.nodes:
        frames = re.findall(r'File "[^"]+", line \d+, in <?(\w+)>?', node.meta.get("stack_trace") or "")
        if frames:
            return next((name for name in frames if name not in _DECORATORS), frames[0])
    return "torch"


_REMEDY = "a form of fixed size, such as torch.where; or leave it to the host: without OPENTRN_STRICT=1"


def _last_line(module: fx.GraphModule) -> str:
    """Of the user's function, where tracing stopped is not known: where the graph ends."""
    places = [place for node in module.graph.nodes if (place := source_of(node))]
    return (
        f"\n    in the graph that ends at {places[-1][0]}:{places[-1][1]}: {places[-1][2]}" if places else ""
    )


@contextmanager
def _without_mkldnn() -> Iterator[None]:
    """Torch takes an LSTM apart into products and gates instead of calling oneDNN's layer."""
    before = torch.backends.mkldnn.set_flags(_enabled=False, _fp32_precision=None)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before[0], _fp32_precision=None)


def neuron(
    module: fx.GraphModule,
    inputs: list[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """The dynamo backend: graphs of ATen ops compiled for a simulated NeuronCore.

    mode, options: opentrn.torch.settings. Raises NoDeviceForm for an op without a device form under OPENTRN_STRICT=1.
    """
    settings = settings_module.read(options, mode)
    attention.choose(module)
    name = f"{_function(module)}_{next(_number)}"
    # What the backward pass can compute again for less than it takes to keep in HBM is not kept, as in Inductor.
    backend = aot_autograd(
        **compilers(settings, name),
        decompositions=decompositions.table(),
        partition_fn=min_cut_rematerialization_partition,
    )
    skipped.THREAD.touched += 1
    skipped.tell_break(module, inputs)
    # torch's fused attention on a CPU has a backward pass that is no formula; that of MATH is.
    with (
        sdpa_kernel(SDPBackend.MATH),
        _without_mkldnn(),
        decompositions.not_torchs_own(),
        kernels.tracing_for(settings.target),
    ):
        try:
            return backend(module, inputs)
        except exceptions_allowed_to_be_fallback as fault:  # dynamo leaves the graph to eager torch
            why = f"{fault} cannot be traced: the size or the value of a result depends on values"
            where = _last_line(module)
            if settings.strict:
                raise NoDeviceForm(why, label="torch.traced", notes=where, hint=_REMEDY) from fault
            print(f"opentrn: {name} runs on the host: {why}{where}", file=sys.stderr)
            raise


def register() -> None:
    """Makes the name known, unless an installed OpenTrn's entry point does: torch refuses a name given twice."""
    if not entry_points(group="torch_dynamo_backends", name="neuron"):
        torch._dynamo.register_backend(compiler_fn=neuron, name="neuron")
    skipped.watch(neuron)
