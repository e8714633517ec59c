"""Rows `autocomp.*`: the optimisation traces of ucb-bar/autocomp, whose candidates hold code and score.

A row is matched to the candidates with its score; the trace's last kernel also stands alone beside the trace
(`3_mamba_opt.py` for `3_mamba_trace.py`) and is tried for rows named `best`. Traces are edited text: some
candidates have lost characters and do not run. Such a candidate is skipped for another one of the same score, and
if none runs, its undefined names are completed (`_completed`).
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

from adapters._common import (
    NotReproducible,
    Predicted,
    activate,
    checkout,
    module_from_text,
    shape,
    timed,
)

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
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
SCORE_TOLERANCE_MS = 1e-6


def _candidates(path: Path) -> list[tuple[float, str]]:
    """(score in ms, code) of every candidate in a trace, read from its syntax tree without running it; the
    deepest ancestor last."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "CodeCandidate":
            values = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
            if isinstance(values.get("code"), str) and isinstance(values.get("score"), float):
                found.append((values["score"], values["code"]))
    return found


def _codes(row: dict[str, str], trace: Path) -> Iterator[str]:
    """Source texts that may be the row's kernel, the likeliest first."""
    wanted = float(row["value"]) / 1e3
    found = [code for score, code in _candidates(trace) if abs(score - wanted) < SCORE_TOLERANCE_MS]
    named = row["id"].rpartition(".")[2]
    if named.startswith("reference"):
        found.reverse()  # the first ancestor is what the search began with
    final = trace.with_name(trace.name.replace("_trace", "_opt"))
    if named == "best" and final != trace and final.is_file():
        found.append(final.read_text(encoding="utf-8"))
    yield from found
    yield from (fixed for code in found if (fixed := _completed(code)) != code)


def _completed(code: str) -> str:
    """`code` with names that nothing defines replaced by the one defined name that they are left of.

    Traces have lost characters: `nchunks` of `n_full_chunks`. A name is completed where exactly one name bound
    in the code holds its letters in order and ends alike.
    """
    nodes = list(ast.walk(ast.parse(HEADER + code)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    known = bound | set(dir(builtins))
    for node in nodes:
        if isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            known.add(node.name)
        elif isinstance(node, ast.alias):
            known.add(node.asname or node.name.split(".")[0])
    for missing in {n.id for n in names} - known:
        letters = ".*".join(map(re.escape, missing))
        whole = [name for name in bound if re.fullmatch(letters, name) and name[-4:] == missing[-4:]]
        if len(whole) == 1:
            code = re.sub(rf"\b{missing}\b", whole[0], code)
    return code


def _path_of(source: str) -> str:
    """The file of a row's source: https://github.com/owner/name/blob/commit/path, or owner/name@commit:path."""
    found = re.fullmatch(r"(?:https://github\.com/[^/]+/[^/]+/blob/[^/]+/|[^:]+:)(\S+)", source)
    if not found:
        raise NotReproducible(f"the source names no file: {source}")
    return found[1]


def _arguments(row: dict[str, str]) -> tuple[list, dict]:
    """Arguments and keywords of the row's kernel, from its id and workload."""
    name, workload = row["id"], row["workload"]
    named = re.search(r"\.(bf16|fp16|fp32)\b", name) or re.search(r"\b(bf16|fp16|fp32)\b", workload.lower())
    dtype = DTYPES[named.group(1)] if named else "float32"
    if match := re.search(r"gemm-(\d+)x(\d+)x(\d+)", name):
        m, k, n = map(int, match.groups())
        return [shape((k, m), dtype), shape((k, n), dtype)], {}
    if match := re.search(r"mamba-c(\d+)-s(\d+)-n(\d+)", name):
        channels, length, state = map(int, match.groups())
        rows, states = shape((1, channels, length), dtype), shape((1, state, length), dtype)
        return [rows, rows, shape((channels, state), dtype), states, states], {}
    if match := re.search(r"sd-attention-s(\d+)-d(\d+)", name):
        length, d = map(int, match.groups())
        return [shape((length, d), dtype)] * 3, {}
    if match := re.search(r"attention-d(\d+)-s(\d+)", name):
        d, length = map(int, match.groups())
        return [shape((d, length), dtype)] * 3, {}
    if match := re.search(r"conv1d-dw-n(\d+)-c(\d+)-w(\d+)-f(\d+)", name):
        n, c, w, f = map(int, match.groups())
        stated = re.search(r"pad=(\d+)", workload)
        pad = int(stated.group(1)) if stated else 0
        sides = {"padding": ((0, 0), (pad, pad))}  # of height and width
        return [shape((n, c, 1, w), dtype), shape((c, 1, 1, f), dtype)], sides
    raise NotReproducible("no adapter for this autocomp workload")


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    trace = checkout(checkouts, "ucb-bar+autocomp") / _path_of(row["source"])
    if not trace.is_file():
        raise NotReproducible(f"autocomp has no {trace.name}")
    arguments, options = _arguments(row)
    activate()
    from opentrn.errors import NkiValidationError

    failure = "no candidate of the trace has this score"
    for number, code in enumerate(_codes(row, trace)):
        module = module_from_text(HEADER + code, f"autocomp_candidate{number}")
        kernel = next((module.__dict__[n] for n in ("test", "solution") if n in module.__dict__), None)
        if kernel is None:
            failure = "the candidate defines no function `test`"
            continue
        try:
            return timed(kernel, *arguments, target="trn1", **options)
        except (NameError, NkiValidationError) as error:  # damaged text, or what the kernel or we do wrong
            failure = error if isinstance(failure, str) else failure
    if isinstance(failure, Exception):
        raise failure
    raise NotReproducible(failure)
