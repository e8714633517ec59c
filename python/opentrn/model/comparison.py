"""A model on every chip: compiled for each NeuronCore, with time, memory, utilisation and price of an inference.

    result = opentrn.compare("model.onnx")      # or `opentrn compare model.onnx`
    print(result.text())
    result.instances[0].usd_per_million         # the cheapest instance whose price is known

One copy of the model per NeuronCore, all cores busy, those of an HBM stack sharing its bandwidth (the latency is
that of one alone), launches not overlapped, host and network not counted: the assumptions of the profile's
Serving table (docs/models_reference.md), which has the same figures for one NeuronCore.
"""

from __future__ import annotations

import dataclasses
import json
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentrn import _core
from opentrn.base.units import size_text, time_text
from opentrn.errors import InputError, NotModelled, UndefinedBehavior

if TYPE_CHECKING:
    from opentrn.model.stages import StagedModel

# One target of every NeuronCore; the chips that share a core share its program and its time.
TARGETS = {"inf1": "NeuronCore-v1", "trn1": "NeuronCore-v2", "trn2": "NeuronCore-v3", "trn3": "NeuronCore-v4"}
RATES = {"on_demand": "on demand", "reserved_3_years": "3 years", "capacity_block": "block"}

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
    band: Mapping[str, Any] = dataclasses.field(default_factory=dict)
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
    prices: Mapping[str, float | None] = dataclasses.field(default_factory=dict)

    @property
    def usd_per_million(self) -> float | None:
        """The cheapest of the known prices; None when the model does not fit or no price is known."""
        known = [price for price in self.prices.values() if price is not None]
        return min(known) if known and self.fits else None


@dataclass(frozen=True)
class Comparison:
    """What compare() found: a row per NeuronCore, and one per instance size, the cheapest first.

    sizes: of the inference, where a model's shapes depend on data.
    """

    source: str
    chips: tuple[ChipRow, ...]
    instances: tuple[InstanceRow, ...]
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """Plain data, with each instance's cheapest price."""
        rows = [dataclasses.asdict(row) | {"usd_per_million": row.usd_per_million} for row in self.instances]
        return {
            "model": self.source,
            "sizes": dict(self.sizes),
            "chips": [dataclasses.asdict(row) for row in self.chips],
            "instances": rows,
        }

    def text(self) -> str:
        """Two tables for a terminal."""
        cores = [["NeuronCore", "chips", "latency", "MFU", "MBU", "SBUF", "HBM", "bound by"]]
        for row in self.chips:
            if row.why or row.latency_us is None or row.sbuf_bytes is None or row.hbm_bytes is None:
                continue  # _unknown_text() has it
            cores.append([
                row.neuron_core.removeprefix("NeuronCore-"), ", ".join(row.chips), time_text(row.latency_us),
                f"{row.mfu_percent:.1f} %", f"{row.mbu_percent:.1f} %", size_text(row.sbuf_bytes),
                size_text(row.hbm_bytes), row.bound_by or "nothing",
            ])  # fmt: skip
        sizes = [["instance", "chips", "cores", "latency", "per second", *RATES.values()]]
        for size in self.instances:
            if size.latency_us is None:
                continue
            prices = [_money(size.prices.get(rate)) for rate in RATES]
            rate = f"{size.inferences_per_s:,.0f}" if size.fits else "does not fit"
            sizes.append([
                size.instance, str(size.chips), str(size.cores), time_text(size.latency_us), rate, *prices
            ])  # fmt: skip
        return (
            f"{self.source} on every NeuronCore; SBUF is per partition\n"
            + self._sizes_text()
            + _table(cores, left={0, 1, 7})
            + "".join(self._unknown_text(row) for row in self.chips if row.why)
            + "".join(_trust_text(row) for row in self.chips if row.trust)
            + "\nInstances, cheapest first, and USD per million inferences: on demand, reserved for 3 years,\n"
            "capacity block\n"
            + _table(sizes, left={0})
            + "One copy of the model per NeuronCore, all cores busy (those of an HBM stack share it; latency\n"
            "is that of one alone), launches not overlapped, host and network not counted;\n"
            "`opentrn describe INSTANCE` has the prices' sources\n" + self._host_text()
        )

    def _unknown_text(self, row: ChipRow) -> str:
        """One paragraph for a NeuronCore without a time: which instances have it, and why it is not known."""
        sizes = [each.instance for each in self.instances if each.chip in row.chips]
        text = f"{', '.join(row.chips)} ({', '.join(sizes)}): time unknown, {row.why}"
        return textwrap.fill(text, 98, initial_indent="  ", subsequent_indent="    ") + "\n"

    def _sizes_text(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"Of an inference with {sizes}, which data decide\n" if sizes else ""

    def _host_text(self) -> str:
        if not any(row.host_ops for row in self.chips):
            return ""
        return "Ops without a device kernel run on the host and are not in the times (`opentrn coverage`)\n"


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
    on_progress: told which NeuronCore
    is compiled for. how: arguments of
    opentrn.compile(), for every target alike; dimensions with one size each. Raises ValueError for an unknown target
    and what compile() raises for the model; a NeuronCore whose time no public source lets us tell has a row that says
    why.
    """
    from opentrn.model import compiled as model

    unknown = [target for target in targets if target not in TARGETS]
    if unknown:
        raise InputError(f"unknown target {unknown[0]!r}", label="arch.target", hint=f"one of {', '.join(TARGETS)}")
    machines = json.loads(_core.machines())
    ran: StagedModel | None = None
    chips, instances = [], []
    for target in targets:
        core = TARGETS[target]
        names = tuple(
            chip["name"] for chip in machines["chips"] if f"NeuronCore-{chip['neuron_core']}" == core
        )
        begin = time.perf_counter()
        on_progress(f"compiling for {core}")
        try:
            compiled = model.compile(source, target=target, **how)
            if compiled.is_staged:
                ran = _with_sizes(compiled, ran, inputs)
            seconds = time.perf_counter() - begin
            timing = compiled.time(overrides, loop_iterations=loop_iterations)
        except (NotModelled, UndefinedBehavior) as error:
            if target != "inf1":  # of the others it is the model's fault, not the chip's
                raise
            chips.append(ChipRow(core, names, why=str(error).partition("\n")[0]))
            instances += [
                InstanceRow(row["name"], row["chip"], row["chips"])
                for row in machines["instances"]
                if row["chip"] in names
            ]
            continue
        profile = _whole(timing.profile(), {chip["name"]: _share(chip) for chip in machines["chips"]})
        chips.append(_chip_row(core, names, seconds, timing, profile, len(compiled.host_ops.calls)))
        instances += [_instance_row(row) for row in profile["model"]["serving"]]
    name = str(source) if "\n" not in str(source) else "<text>"
    return Comparison(name, tuple(chips), _ordered(instances), ran.path[-1].sizes if ran else {})


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


def _share(chip: Mapping[str, Any]) -> float | None:
    """Bytes of memory for each of a chip's cores; None where unknown."""
    if not chip.get("memory_gib") or not chip.get("cores"):
        return None
    return chip["memory_gib"] * 2**30 / chip["cores"]


def _whole(profile: dict[str, Any], shares: Mapping[str, float | None]) -> dict[str, Any]:
    """The profile; of stages, which run one after the other, what compare() shows of all of them.

    shares: memory for each core, by chip; all programs stay in it.
    """
    if "stages" not in profile:
        return profile
    parts = [part["profile"] for part in profile["stages"]]
    models, memories = [part["model"] for part in parts], [part["memory"] for part in parts]
    held = sum(row["hbm_bytes_used"] for row in memories)
    serving = [_served(rows, held, shares) for rows in zip(*(row["serving"] for row in models), strict=True)]
    return {
        "model": {
            "latency_us": sum(row["latency_us"] for row in models),
            "launch_us": sum(row["launch_us"] for row in models),
            "serving": serving,
        },
        "memory": {
            "hbm_bytes_used": held,
            "sbuf_bytes_per_partition_used": max(row["sbuf_bytes_per_partition_used"] for row in memories),
        },
    }


def _served(
    rows: Sequence[Mapping[str, Any]], held: int, shares: Mapping[str, float | None]
) -> dict[str, Any]:
    """An instance's row of all stages: times and prices add up."""
    whole = dict(rows[0])
    for latency in ("latency_us", "busy_latency_us"):
        whole[latency] = sum(row[latency] for row in rows)
    whole["inferences_per_s"] = 1 / sum(1 / row["inferences_per_s"] for row in rows)
    share = shares[whole["chip"]]
    whole["fits"] = share is None or held <= share
    for rate in RATES:
        known = all(row[rate] for row in rows)
        whole[rate] = (
            {"usd_per_million": sum(row[rate]["usd_per_million"] for row in rows)} if known else None
        )
    return whole


def _trust_text(row: ChipRow) -> str:
    text = f"{row.chips[0]}: " + "; ".join(row.trust.splitlines())
    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="    ") + "\n"


def _chip_row(
    core: str, names: tuple[str, ...], seconds: float, timing: Any, profile: dict[str, Any], host_ops: int
) -> ChipRow:
    model, memory = profile["model"], profile["memory"]
    return ChipRow(
        core, names, compile_s=seconds, latency_us=model["latency_us"], launch_us=model["launch_us"],
        band=timing.band, trust=timing.trust_text(), bound_by=timing.bound_by,
        mfu_percent=timing.mfu_percent, mbu_percent=timing.mbu_percent,
        hbm_bytes=memory["hbm_bytes_used"], sbuf_bytes=memory["sbuf_bytes_per_partition_used"], host_ops=host_ops,
    )  # fmt: skip


def _instance_row(row: dict[str, Any]) -> InstanceRow:
    prices = {rate: row[rate]["usd_per_million"] if row[rate] else None for rate in RATES}
    names = ("instance", "chip", "chips", "cores", "latency_us", "inferences_per_s", "fits")
    return InstanceRow(**{name: row[name] for name in names}, prices=prices)


def _ordered(rows: list[InstanceRow]) -> tuple[InstanceRow, ...]:
    """By the known price, then the fastest."""

    def key(row: InstanceRow) -> tuple[Any, ...]:
        price = row.usd_per_million
        return (
            price is None,
            price or 0.0,
            not row.fits,
            row.latency_us is None,
            -(row.inferences_per_s or 0.0),
        )

    return tuple(sorted(rows, key=key))


def _money(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:.3g}"


def _table(rows: list[list[str]], left: set[int]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    last = len(widths) - 1
    lines = []
    for row in rows:
        cells = [
            text if i == last and i in left else text.ljust(widths[i]) if i in left else text.rjust(widths[i])
            for i, text in enumerate(row)
        ]
        lines.append("  " + "  ".join(cells).rstrip() + "\n")
    return "".join(lines)
