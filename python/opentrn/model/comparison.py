"""A model on every chip: compiled for each NeuronCore, with time, memory, utilisation and price of an inference.

    result = opentrn.compare("model.onnx")      # or `opentrn compare model.onnx`
    print(result.text())
    result.instances[0].usd_per_million         # the cheapest instance whose price is known

One copy of the model per NeuronCore, all cores busy, those of an HBM stack sharing its bandwidth (the latency is
that of one alone), launches not overlapped, host and network not counted: the assumptions of the profile's
Serving table (docs/models_reference.md), which has the same figures for one NeuronCore.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentrn import _core
from opentrn.errors import InputError, NotModelled, UndefinedBehavior

if TYPE_CHECKING:
    from opentrn.model.stages import StagedModel

# One target of every NeuronCore, by name; the chips that share a core share its program and its time.
TARGETS = {target.name: target for target in _core.compared_targets()}

__all__ = ["TARGETS", "ChipRow", "Comparison", "InstanceRow", "compare"]


@dataclass(frozen=True)
class ChipRow:
    """One NeuronCore, and the chips that have it. With `why`, what keeps its time unknown, the rest is None.

    latency_us counts the launch; band (Timing.band) and trust, its text, do not. Bytes are of HBM and of SBUF per
    partition; percent of the core's own peaks.
    """

    neuron_core: str
    chips: tuple[str, ...]
    why: str = ""
    compile_s: float | None = None
    latency_us: float | None = None
    launch_us: float | None = None
    band: Mapping[str, Any] = field(default_factory=dict)
    trust: str = ""
    bound_by: str | None = None
    mfu_percent: float | None = None
    mbu_percent: float | None = None
    hbm_bytes: int | None = None
    sbuf_bytes: int | None = None
    host_ops: int | None = None


@dataclass(frozen=True)
class InstanceRow:
    """One instance size with all its cores at work; prices in USD per million inferences, None where unknown."""

    instance: str
    chip: str
    chips: int
    cores: int | None = None
    latency_us: float | None = None
    inferences_per_s: float | None = None
    fits: bool | None = None
    prices: Mapping[str, float | None] = field(default_factory=dict)
    # The cheapest of the known prices; None when the model does not fit or no price is known.
    usd_per_million: float | None = None


class Comparison:
    """What compare() found: a row per NeuronCore, and one per instance size, the cheapest first.

    sizes: of the inference, where a model's shapes depend on data.
    """

    def __init__(self, rows: _core.ModelComparison) -> None:
        facts = json.loads(rows.json())
        self.source: str = facts["model"]
        self.sizes: Mapping[str, int] = facts["sizes"]
        self.chips = tuple(ChipRow(**row | {"chips": tuple(row["chips"])}) for row in facts["chips"])
        self.instances = tuple(InstanceRow(**row) for row in facts["instances"])
        self._rows = rows

    def json(self) -> dict[str, Any]:
        """Plain data, with each instance's cheapest price."""
        return json.loads(self._rows.json())

    def text(self, width: int = 100) -> str:
        """Two tables for a terminal, in lines of so many characters."""
        return self._rows.text(width)


def compare(
    source: str | Path,
    *,
    targets: Iterable[str] = TARGETS,
    overrides: Iterable[str] = (),
    loop_iterations: int | None = None,
    inputs: Sequence[Any] | Callable[[Any], Sequence[Any]] = (),
    on_progress: Callable[[str], None] = lambda phase: None,
    **how: Any,
) -> Comparison:
    """Compile a model for every target and set its times and prices side by side.

    targets: of TARGETS. overrides: table values to change ("key=value"), as for opentrn.run. loop_iterations: of
    loops whose bounds depend on values. inputs: of a model in stages (opentrn.model.stages), which runs once to know
    the sizes that are compared: its arrays, or a function of the model that gives them.
    on_progress: told which NeuronCore is compiled for. how: arguments of opentrn.compile(), for every target alike;
    dimensions with one size each. Raises ValueError for an unknown target and what compile() raises for the model; a
    NeuronCore that cannot run the model has a row that says why.
    """
    from opentrn.model import compiled as model

    for name in targets:
        if name not in TARGETS:
            raise InputError(f"unknown target {name!r}", label="arch.target", hint=f"one of {', '.join(TARGETS)}")
    ran: StagedModel | None = None
    rows = _core.ModelComparison(str(source) if "\n" not in str(source) else "<text>")
    for name in targets:
        target = TARGETS[name]
        begin = time.perf_counter()
        on_progress(f"compiling for {target.core}")
        try:
            compiled = model.compile(source, target=name, **how)
            if compiled.is_staged:
                ran = _with_sizes(compiled, ran, inputs)
            seconds = time.perf_counter() - begin
            timing = compiled.time(overrides, loop_iterations=loop_iterations)
        except (NotModelled, UndefinedBehavior) as error:
            if name != "inf1":  # which has no GpSimd; of the others it is the model's fault, not the chip's
                raise
            rows.add_unknown(target, str(error).partition("\n")[0])
            continue
        rows.add(
            target, json.dumps(timing.profile()), seconds, timing.mfu_percent, timing.mbu_percent, timing.bound_by,
            timing.trust_text(), json.dumps(timing.band), len(compiled.host_ops.calls),
        )  # fmt: skip
    if ran is not None:
        rows.set_sizes(list(ran.path[-1].sizes.items()))
    return Comparison(rows)


def _with_sizes(
    model: StagedModel, ran: StagedModel | None, inputs: Sequence[Any] | Callable[[Any], Sequence[Any]]
) -> StagedModel:
    """The model that was called: the first target's; the others are compiled for what it ran."""
    if ran is not None:
        model.take_sizes_of(ran)
        return ran
    given = inputs(model) if callable(inputs) else inputs
    if not given and model.inputs:
        raise InputError(
            "how long the model takes depends on data",
            label="compare.data_shape",
            hint="inputs=[...], the arrays of an inference whose sizes are to be compared",
        )
    model(*given)
    return model
