"""Ops that are there for what they do, not for a result. Torch hands a token from one to the next, which keeps them."""

from __future__ import annotations

from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES, require

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
