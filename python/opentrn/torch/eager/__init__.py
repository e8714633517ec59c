"""The device `neuron` of PyTorch: `model.to("neuron")`.

src/torch is the device; here is what it asks Python for. Nothing of this exists where the extension was not built
(no torch 2.13), nor where another package has the name already.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import importlib.util
import os
import sys
from typing import Any

import torch

from opentrn import _core
from opentrn.settings import environment

_started = False


def _is_taken() -> bool:
    """Whether an installed torch_neuronx of AWS's, or another device, has PyTorch's free place."""
    try:
        importlib.metadata.distribution("torch-neuronx")
        return True
    except importlib.metadata.PackageNotFoundError:
        return torch._C._get_privateuse1_backend_name() not in ("privateuseone", "neuron")


def start() -> bool:
    """Makes the device, once; False where it cannot be, and a line on stderr says why where that is no one's wish."""
    global _started
    if _started:
        return True
    if _is_taken() or importlib.util.find_spec("opentrn._torch") is None:
        return False
    try:
        from opentrn import _torch
    except ImportError as fault:  # built for another release of torch
        print(f"opentrn: PyTorch has no device neuron: {fault}", file=sys.stderr)
        return False
    from opentrn.torch import deepspeed, dtensor, lightning, neuron_module, process_group, usage
    from opentrn.torch.eager import compiler, flex, fused, lifted, printing

    stated = environment.read()
    cores = process_group.cores(stated)
    memory = _core.memory_of_core(stated.chip, stated.physical_cores_per_core)
    torch.utils.rename_privateuse1_backend("neuron")
    _torch.start(
        cores, memory, _core.memory_function(process_group.held(cores)), compiler.copies_ns,
        compiler.compile, compiler.time_of, compiler.Ref, list(compiler.ONE_PROGRAM), {*lifted.FORMS, *fused.FORMS},
    )  # fmt: skip
    _torch.bound_programs(0 if os.environ.get("OPENTRN_USAGE") else environment.eager_programs())
    torch._register_device_module("neuron", neuron_module)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    sys.modules["torch.neuron"] = neuron_module
    process_group.register(cores)
    lightning.watch()
    deepspeed.watch()
    dtensor.watch()
    flex.watch()
    printing.watch()
    atexit.register(_torch.settle_autograd_threads)
    if os.environ.get("OPENTRN_USAGE"):
        _torch.count_host_time(True)
    usage.start()
    _started = True
    return True


def keep_all(block: bool) -> None:
    """Whether the table keeps all programs, so that those of a profiled block are there when it ends."""
    if _started and not os.environ.get("OPENTRN_USAGE"):
        from opentrn import _torch

        _torch.bound_programs(0 if block else environment.eager_programs())


def rows() -> list[tuple[Any, int, float]]:
    """(program, runs, host seconds) of what ran op by op, for opentrn.torch.usage."""
    if not _started:
        return []
    from opentrn import _torch
    from opentrn.torch.eager import compiler

    found = []
    for number, _name, _on_host, runs, seconds in _torch.programs():
        plan = compiler.PLANS.get(number)
        if plan is not None and plan.program is not None and plan.program.device_model is not None:
            found.append((plan.program, runs, seconds))
    return found
