"""Stand-in for `torch_neuronx`: the names that programs for PyTorch 2.10 and later take from it.

The device itself is torch's: `torch.neuron`. Where OpenTrn was built without it there is no such stand-in.
"""

from __future__ import annotations

from typing import Any

import torch

import opentrn.torch  # noqa: F401  (the device)
from opentrn.torch import neuron_module as _neuron
from opentrn.torch.neuronx import (
    DataParallel,
    async_load,
    dynamic_batch,
    lazy_load,
    load,
    nki_op,
    save,
    trace,
    wrap_nki,
)

Stream, stream, synchronize = _neuron.Stream, _neuron.stream, _neuron.synchronize
Event, current_stream, device_count = _neuron.Event, _neuron.current_stream, _neuron.device_count
is_available, set_device, current_device = _neuron.is_available, _neuron.set_device, _neuron.current_device
__version__ = torch.__version__

__all__ = [
    "DataParallel", "Event", "Stream", "async_load", "current_device", "current_stream", "device_count",
    "dynamic_batch", "is_available", "lazy_load", "load", "nki_op", "save", "set_device", "stream", "synchronize",
    "trace", "wrap_nki",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'torch_neuronx' has no attribute {name!r}: OpenTrn's stand-in has {', '.join(__all__)}"
    )
