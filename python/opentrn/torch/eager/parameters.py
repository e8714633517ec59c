"""Modules keep their parameters when they move to the device or from it.

torch gives a module new parameters where it moves to a device that is not one of its own; an optimizer that was made
before would go on with the old ones. Its other way, to swap what is in them (torch.__future__), is taken for such
moves, as programs for other devices expect: model.to("neuron") after the optimizer was made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def _crosses(module: nn.Module, call: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if call == "to":
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
    elif call == "to_empty":
        device = torch.device(kwargs.get("device", args[0] if args else "cpu"))
    else:
        device = torch.device(call)
    if device is None:
        return False
    types = {each.device.type for each in module.parameters()}
    return bool(types - {device.type}) and "neuron" in types | {device.type} and "meta" not in types


def _keeping(call: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def moved(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        future = torch.__future__
        if future.get_swap_module_params_on_conversion() or not _crosses(self, call, args, kwargs):
            return plain(self, *args, **kwargs)
        future.set_swap_module_params_on_conversion(True)
        try:
            return plain(self, *args, **kwargs)
        except RuntimeError as fault:
            if "Couldn't swap" not in str(fault):  # a graph, or another tensor, holds a parameter
                raise
        finally:
            future.set_swap_module_params_on_conversion(False)
        return plain(self, *args, **kwargs)

    return moved


def keep() -> None:
    """For all modules of the process; once."""
    for call in ("to", "to_empty", "cpu", "neuron"):
        setattr(nn.Module, call, _keeping(call, getattr(nn.Module, call)))
