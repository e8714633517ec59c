"""neuron-explorer recommend: what would make a program faster, read off its predicted timeline.

AWS's command asks a language model on Amazon Bedrock. This one asks nobody: each section is a fact of the timing model,
what is known to help against it, and a bound: the run cannot become faster than if the time in question were gone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentrn.errors import InputError

_SECTIONS = 3
_SHARE_MIN = 0.05  # of the run, below which nothing is said
_LINES = 3
_LINE_MAX = 120
_SOURCE_BYTES_MAX = 16 << 20

# What bounds a run -> what helps.
_HELP = {
    "descriptors": "Move data in fewer and longer pieces: whole rows instead of elements, transposes on the Tensor "
    "engine instead of in a DMA.",
    "DMA engines": "Move less: keep what is used again in SBUF, fuse kernels, use narrower types.",
    "HBM bandwidth": "Move less: keep what is used again in SBUF, fuse kernels, use narrower types.",
    "Tensor engine": "Use BF16 or FP8 operands, fill 128 x 512 tiles, keep the operand that stays (moving the other).",
    "Vector engine": "Give element-wise work to the Scalar and GpSimd engines too, fuse it (tensor_scalar, "
    "activation with scale and bias), and compute in BF16 where it is faster.",
    "Scalar engine": "Fold scale, bias and reduction into the activation; give copies and additions to the Vector "
    "engine.",
    "DMA latency": "Start loads earlier (two buffers), and join small ones: each waits for its own latency.",
    "semaphores": "Let fewer instructions wait for each other: longer tiles, fewer steps between engines.",
    "GpSimd engine": "Give work that other engines can do to them: GpSimd is the slowest for element-wise work.",
}


@dataclass
class Section:
    title: str
    symptom: str
    help: str
    tradeoff: str
    ns: float  # that would be gone at best


def _bound_sections(profile: dict[str, Any]) -> list[Section]:
    found = []
    for row in profile["bound_by"]["shares"]:
        resource = str(row["resource"])
        if resource in _HELP:
            symptom = f"{row['percent']:.0f} % of the critical path ({row['ns'] / 1e3:.2f} us)"
            tradeoff = "Other resources bound the run then: predict it again."
            found.append(Section(f"Bound by {resource}", symptom, _HELP[resource], tradeoff, row["ns"]))
    return found


def _wait_sections(profile: dict[str, Any]) -> list[Section]:
    stalls = [row for row in profile["stalls"] if row["engine"] in ("tensor", "vector", "scalar")]
    if not stalls:
        return []
    worst = max(stalls, key=lambda row: row["ns"])
    engine, cause = worst["engine"].capitalize(), worst["cause"]
    return [
        Section(
            f"The {engine} engine waits", f"{worst['ns'] / 1e3:.2f} us {cause}, {worst['count']} times",
            "Start the next tile's loads before the computation of this one (two buffers), and order independent work "
            "so that no engine waits for the slowest.",
            "Two buffers take twice the SBUF.", worst["ns"],
        )
    ]  # fmt: skip


def _memory_sections(profile: dict[str, Any]) -> list[Section]:
    spilled = profile["memory"]["spill_save_bytes"] + profile["memory"]["spill_reload_bytes"]
    if not spilled:
        return []
    ns = spilled / max(profile["dma"]["achieved_gb_s"], 1e-9)
    return [
        Section("Values are spilled to HBM", f"{spilled} bytes are saved and loaded again",
                "Use smaller tiles, or recompute cheap values instead of keeping them.",
                "Smaller tiles use the Tensor engine less well.", ns)
    ]  # fmt: skip


def _flops_sections(profile: dict[str, Any]) -> list[Section]:
    flops = profile["flops"]
    total = sum(flops.values())
    wide = flops.get("fp32", 0.0)
    busy = next((row["busy_ns"] for row in profile["engines"] if row["engine"] == "tensor"), 0.0)
    if not total or wide / total < 0.1:
        return []
    # FP32 products take four passes of the Tensor engine where BF16 takes one.
    return [
        Section("Products in FP32", f"{100 * wide / total:.0f} % of the arithmetic is FP32",
                "Cast operands to BF16 (auto_cast=\"matmult\", or in the program): the Tensor engine then takes a "
                "quarter of the passes.", "Products round to 8 bits of mantissa: check the results (opentrn diff).",
                0.75 * busy)
    ]  # fmt: skip


def _source(file: str, line: int, root: Path | None) -> str:
    """The text of a source line below `root`; "" where it is not there."""
    if root is None or line < 1:
        return ""
    path = root / file  # an absolute one stays itself
    if not path.exists():
        path = root / Path(file).name
    try:
        if not path.resolve().is_relative_to(root.resolve()) or path.stat().st_size > _SOURCE_BYTES_MAX:
            return ""
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[line - 1].strip()[:_LINE_MAX] if line <= len(lines) else ""


def report(profile: dict[str, Any], root: Path | None) -> str:
    """Markdown. `profile`: Timing.json() of a program."""
    total = profile["total_ns"]
    sections = [
        *_bound_sections(profile), *_wait_sections(profile), *_memory_sections(profile), *_flops_sections(profile)
    ]  # fmt: skip
    sections = [each for each in sections if each.ns >= _SHARE_MIN * total]
    sections.sort(key=lambda each: -each.ns)
    lines = [
        f"# {profile['program']} on {profile['neuron_core']}: {total / 1e3:.2f} us predicted", "",
        "Read off OpenTrn's timing model, not measured. A bound says what is left if the time in question were gone; "
        "what is won in fact is less.", "",
    ]  # fmt: skip
    for number, each in enumerate(sections[:_SECTIONS], 1):
        left = max(total - each.ns, 0.0)
        bound = f"at most {total / left:.2f} times as fast" if left > 0.1 * total else "more than a bound can say"
        lines += [
            f"## {number}. {each.title}", "", f"- **Symptom:** {each.symptom}", f"- **Try:** {each.help}",
            f"- **Bound:** {bound}", f"- **Price:** {each.tradeoff}", "",
        ]  # fmt: skip
    if not sections:
        lines += ["Nothing stands out: no resource, wait or memory traffic takes 5 % of the run.", ""]
    lines += ["## Where", ""]
    for row in profile["lines"][:_LINES]:
        text = _source(row["file"], row["line"], root)
        lines.append(
            f"- `{row['file']}:{row['line']}`: {row['critical_percent']:.0f} % of the critical path"
            + (f": `{text}`" if text else "")
        )
    return "\n".join(lines) + "\n"


def recommend(model: Path, root: Path | None, loop_iterations: int | None) -> str:
    """The report of a compiled model. Raises as loading and timing it do, and InputError "tools.explorer"."""
    from opentrn.model import compiled

    if root is not None and not root.is_dir():
        raise InputError(f"{root} is not a folder", label="tools.explorer", hint="--nki-source-root names one")
    loaded = compiled.load(model)
    if not isinstance(loaded, compiled.CompiledModel):
        raise InputError(
            f"{model} has several programs", label="tools.explorer", hint="compile it for one size of its dimensions"
        )
    return report(json.loads(loaded.time(loop_iterations=loop_iterations).json()), root)
