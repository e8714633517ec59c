"""OPENTRN_CHECK=1: a compiled program against the reference evaluator in float64 when it first runs.

What JAX's plugin and PyTorch's backend call with a program and the arguments of its first run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["check"]


def check(program: bytes, arguments: Sequence[Any], target: str, **options: Any) -> None:
    """Compare every op of a program with float64, as `opentrn diff` does.

    program: StableHLO, as `opentrn compile` reads it. arguments: arrays. options: diff()'s. ValueError names the first
    op that differs by more than rounding explains, with the line of the user's program. A program with an op that the
    evaluator does not know is not checked, and stderr says so.
    """
    from opentrn import errors
    from opentrn.model.diff import diff

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "program.mlir")
        source.write_bytes(program)
        try:
            report = diff(source, *arguments, target=target, **options)
        except errors.NotModelled as fault:
            print(f"opentrn: a program is not checked: {fault}", file=sys.stderr)
            return
    if not report.is_clean:
        raise errors.InputError(
            "the device's values differ from float64's by more than rounding", label="model.differs",
            notes=f"\n{report.text()}",
        )
