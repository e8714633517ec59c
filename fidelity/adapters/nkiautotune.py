"""Rows `nkiautotune.*`: kernels of awslabs/nki-autotune, 2048^3 bf16 on one core of Trn2.

The publisher's MFU is the operation's FLOPs over time and the bf16 peak of one core (78.6 TFLOP/s).
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

from adapters._common import NotReproducible, Predicted, activate, checkout, module_from_text, shape, timed

SIDE = 2048
MATMUL_FLOPS = 2.0 * SIDE**3


# File and function of a row's kernel. The library states that its kernels need two passes of the compiler turned off
# (linear-scan allocation and instruction scheduling); their order is predicted as any other's.
LHST = ("kernel_library/matmul/lhsT_rhs/kernel_hand_90.92mfu.py", "matmul_lhsT_rhs_nkigym")
LHS = ("kernel_library/matmul/lhs_rhs/kernel_handtuned_89.26mfu.py", "matmul_lhs_rhs_nkigym")
LADDER = "kernel_transforms.py"  # .claude/rules/learnings.md says what the rungs of the ladder are
KERNELS = {
    "lhst-rhs.hand": LHST,
    "lhs-rhs.hand": LHS,
    "lhs-rhs.best": LHS,
    "matmul-2048.best": LHS,
    "ladder1": (LADDER, "kernel_14"),  # loads sunk into the inner K loop, single buffer
    "ladder3": (LADDER, "kernel_15"),  # accumulator double-buffered
    "ladder5": LHST,  # examples/profile_hand_90mfu.py
}


def _attention(name: str, checkouts: Path) -> Predicted:
    """One head of nki-library's prefill attention, every query against every key."""
    length = SIDE * int(re.search(r"attn-nkilib-(\d+)k", name)[1]) // 2
    sys.path.insert(0, str(checkout(checkouts, "aws-neuron+nki-library") / "src/nkilib_src"))
    activate()
    from nkilib.core.attention.attention_cte import attention_cte

    d = 128
    head = shape((1, d, length), "bfloat16")
    return timed(
        attention_cte, head, head, shape((1, length, d), "bfloat16"), causal_mask=False, tp_q=False, target="trn2",
        model_flops=4.0 * length**2 * d,
    )  # fmt: skip


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    name = row["id"].removeprefix("nkiautotune.trn2.")
    if name.startswith("attn-nkilib"):
        return _attention(name, checkouts)
    kernel = KERNELS.get(name.rpartition(".")[0])
    if kernel is None:
        # learnings.md gives rmsnorm+matmul and causal attention among the figures of compiler-made kernels.
        raise NotReproducible("no public kernel for this row")
    file = checkout(checkouts, "awslabs+nki-autotune") / kernel[0]
    activate()
    # What the kernel files import for their own checks, which are not run.
    sys.modules.setdefault("nkigym", types.ModuleType("nkigym"))
    synthesis = sys.modules.setdefault("nkigym.synthesis", types.ModuleType("nkigym.synthesis"))
    synthesis.simulate_fp32 = None
    module = module_from_text(file.read_text(encoding="utf-8"), "nkiautotune_kernel")
    square = shape((SIDE, SIDE), "bfloat16")
    return timed(
        getattr(module, kernel[1]), square, square, target="trn2", model_flops=MATMUL_FLOPS,
    )  # fmt: skip
