"""Ops that are there for what they do, not for a result. Torch hands a token from one to the next, which keeps them."""

from __future__ import annotations

from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES, emits, require
from opentrn.torch.text import Value

CHECK = torch.ops.aten._linalg_check_errors.default


def with_effects(
    body: Emitter, out: Any, token: None, op: Any, *arguments: Any, **keywords: Any
) -> tuple[None, None]:
    """(the token, what the op gives). Of linear algebra's checks: the run raises what torch raises."""
    require(op is CHECK, f"of {op} has no form on the device")
    info, name = arguments
    body.check_info(info, name, keywords["is_matrix"])
    return token, None


RULES[torch.ops.higher_order.with_effects] = with_effects


@emits("_assert_async.msg")
def assert_async(body: Emitter, out: None, condition: Value, message: str) -> None:
    """What torch's ops ask of values where a device computes, such as F.one_hot of its numbers of classes.

    condition: a bool without dimensions; where it is false at a run, RuntimeError with the message.
    """
    body.check_that(condition, message)


@emits("_assert_tensor_metadata.default")
def assert_tensor_metadata(
    body: Emitter,
    out: None,
    value: Value,
    size: Any = None,
    stride: Any = None,
    dtype: torch.dtype | None = None,
    *,
    device: torch.device | None = None,
    layout: torch.layout | None = None,
) -> None:
    """torch.export's note of what a tensor was when `.to()` was traced. Sizes and type are known here, and held to it.

    Strides mean nothing to values. A program was exported for the CPU or for a GPU: either way it runs here.
    """
    require(dtype in (None, value.dtype), f"wants a tensor of {dtype}; it is {value.dtype}")
    sizes = None if size is None else tuple(map(body.concrete, size))
    require(sizes in (None, value.shape), f"wants a tensor of {sizes}; it is {value.shape}")
    require(layout in (None, torch.strided), f"wants a tensor of {layout}; it is dense")
