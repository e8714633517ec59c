"""Rows `autocomp.*`: the optimisation traces of ucb-bar/autocomp, whose candidates hold code and score."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from adapters._common import NotReproducible, Predicted, activate, checkout, module_from_text, shape, timed

CONV1D_PADDING = ((0, 0), (1, 1))  # of height and width; "pad=1" in the row
HEADER = """\
import numpy as np
import math
from typing import Optional, Tuple
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.typing as nt
from neuronxcc.nki.language import par_dim
"""


def _candidates(path: Path) -> list[tuple[float, str]]:
    """(score in ms, code) of every candidate in a trace, read from its syntax tree without running it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "CodeCandidate":
            values = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
            if isinstance(values.get("code"), str) and isinstance(values.get("score"), float):
                found.append((values["score"], values["code"]))
    return found


def _arguments(name: str) -> list:
    if match := re.search(r"gemm-(\d+)x(\d+)x(\d+)\.bf16", name):
        m, k, n = map(int, match.groups())
        return [shape((k, m), "bfloat16"), shape((k, n), "bfloat16")]
    if match := re.search(r"mamba-c(\d+)-s(\d+)-n(\d+)", name):
        channels, length, state = map(int, match.groups())
        rows, states = shape((1, channels, length), "float32"), shape((1, state, length), "float32")
        return [rows, rows, shape((channels, state), "float32"), states, states]
    if match := re.search(r"\.attention-d(\d+)-s(\d+)", name):
        d, length = map(int, match.groups())
        return [shape((d, length), "bfloat16")] * 3
    if match := re.search(r"sd-attention-s(\d+)-d(\d+)", name):
        length, d = map(int, match.groups())
        return [shape((length, d), "float32")] * 3
    if match := re.search(r"conv1d-dw-n(\d+)-c(\d+)-w(\d+)-f(\d+)", name):
        n, c, w, f = map(int, match.groups())
        return [shape((n, c, 1, w), "float32"), shape((c, 1, 1, f), "float32")]
    raise NotReproducible("no adapter for this autocomp workload")


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    path = row["source"].rpartition(":")[2]
    file = checkout(checkouts, "ucb-bar+autocomp") / path
    wanted = float(row["value"]) / 1e3
    codes = [code for score, code in _candidates(file) if abs(score - wanted) < 1e-6]
    if not codes:
        raise NotReproducible("no candidate of the trace has this score")
    arguments = _arguments(row["id"])
    activate()
    module = module_from_text(HEADER + codes[0], "autocomp_candidate")
    kernel = next((module.__dict__[n] for n in ("test", "solution") if n in module.__dict__), None)
    if kernel is None:
        raise NotReproducible("the candidate defines no function `test`")
    options = {"padding": CONV1D_PADDING} if "conv1d" in row["id"] else {}
    return timed(kernel, *arguments, target="trn1", **options)
