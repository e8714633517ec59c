"""The state of torch's random generator, which activation checkpointing saves to draw the same numbers once more.

What draws is written by C++ (src/import/aten/random.cc).
"""

from __future__ import annotations

from typing import Any

import torch
from torch._prims import rng_prims

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES
from opentrn.torch.text import Value


def run_and_save_rng_state(body: Emitter, out: Any, op: Any, *arguments: Any, **keywords: Any) -> Any:
    """(the generator's state, the op's result)"""
    made_out = out[1] if out is not None and len(out) > 1 else None
    saved = body.saved_state(torch.get_rng_state().numel())
    return saved, RULES[op](body, made_out, *arguments, **keywords)


def run_with_rng_state(
    body: Emitter, out: Any, state: Value, op: Any, *arguments: Any, **keywords: Any
) -> Any:
    """What the op drew when the state was saved."""
    body.draw_from(state)
    try:
        return RULES[op](body, out, *arguments, **keywords)
    finally:
        body.resume_draws()


RULES[rng_prims.run_and_save_rng_state] = run_and_save_rng_state
RULES[rng_prims.run_with_rng_state] = run_with_rng_state
