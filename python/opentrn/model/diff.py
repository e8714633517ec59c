"""A compiled model against the float64 reference, op by op: what is rounding, and what is a bug.

    from opentrn.model.diff import diff
    report = diff("model.onnx", x)
    print(report.text())
    report.first_bug          # None, or the first op whose error rounding does not explain

The model is compiled with every op's value as a result (src/compiler/observed_values.h). Two errors are told
apart. The accumulated error is against the model evaluated in float64 from the inputs. An op's own error is against
that op alone, evaluated in float64 from the operands that the device had; src/model/diff.h says how large rounding
makes it. An own error beyond that is a bug.

Keeping every value takes fused kernels apart, and what is recognised as one function of the device (GELU,
attention) is computed op by op. So the model as `opentrn compile` makes it runs too, and its results are compared
with those of the run that kept everything.

Both references compute what the options ask for: casts and narrow weights are part of the graph that is compared.
What those cost is said beside it: each result against that of the model without them, in float64.

A model in stages (opentrn.model.stages) gives a StagedDiff: each program is compared from the values that the device
handed to it, so that all have the sizes of the device's run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opentrn import _core
from opentrn.errors import InputError
from opentrn.graph import Module, raw_of
from opentrn.model.compiled import CompiledModel, _read
from opentrn.settings import environment
from opentrn.settings.compiler_options import PROGRAM_OPTIONS, CompilerOptions, option_texts, takes_options

if TYPE_CHECKING:
    from opentrn.model.stages import Stage

__all__ = ["Diff", "OpDiff", "StagedDiff", "diff"]

# What diff() found, and one op's value on the device (src/model/diff_report.h).
Diff = _core.Diff
OpDiff = _core.OpDiff


@dataclass(frozen=True)
class StagedDiff:
    """What diff() found of a model in stages: each program's sizes ("boxes=5", "" of the first), and its Diff."""

    parts: list[tuple[str, Diff]]

    @property
    def first_bug(self) -> OpDiff | None:
        """That of the first stage with one."""
        return next((part.first_bug for _, part in self.parts if part.first_bug), None)

    @property
    def is_clean(self) -> bool:
        """Whether every stage is."""
        return all(part.is_clean for _, part in self.parts)

    def json(self) -> dict[str, Any]:
        """Plain data."""
        stages = [{"sizes": sizes, **part.json()} for sizes, part in self.parts]
        return {"is_clean": self.is_clean, "stages": stages}

    def text(self, *, rows_max: int = 12) -> str:
        """That of each stage under a heading."""
        lines = []
        for number, (sizes, part) in enumerate(self.parts, 1):
            what = f", for {sizes}" if sizes else ""
            lines.append(f"== stage {number} of {len(self.parts)}{what} ==\n{part.text(rows_max=rows_max)}")
        return "".join(lines)


@takes_options(PROGRAM_OPTIONS)
def diff(
    source: str | Path,
    *inputs: Any,
    target: str | None = None,
    dimensions: Mapping[str, int] | None = None,
    device_source: str | Path | None = None,
    **options: Any,
) -> Diff | StagedDiff:
    """Compare every op of a model on the device with float64.

    source, target, dimensions and the compiler's options: as compile() takes them. inputs: one array
    per input of the model; auto-cast inputs are the model's own. device_source: what the device runs in place of
    `source`, with the same ops in the same order: a model with a deliberate error, for tests of this function.
    Raises what compile() raises, and NotModelled for an op that the evaluator does not know.
    """
    chosen = CompilerOptions(**options)
    plain = {"optlevel": chosen.optlevel, "strict": False}
    changed = chosen.auto_cast != "none" or chosen.weight_dtype != "none" or chosen.prune_weights
    target = environment.target(target)
    how = _How(target, option_texts(plain | chosen.of_program()), option_texts(plain), changed)
    stated = _opened(source, dict(dimensions or {}), target)
    run = stated if device_source is None else _opened(device_source, dict(dimensions or {}), target)
    if isinstance(stated, _Program) and isinstance(run, _Program):
        return _diff_program(stated, run, inputs, how)[0]
    if device_source is not None or isinstance(stated, _Program):
        raise InputError(
            "a model whose shapes depend on data is compared with itself alone", label="diff.source",
            hint="leave device_source out",
        )  # fmt: skip
    return _diff_stages(stated, inputs, how)


@dataclass(frozen=True)
class _How:
    target: str
    options: dict[str, str]
    plain: dict[str, str]  # without what changes values
    changed: bool  # the options change values


@dataclass(frozen=True)
class _Program:
    """A model, or a stage of one: its graph after the passes, and compiled, for given options."""

    prepare: Callable[[dict[str, str]], Any]
    compile: Callable[[dict[str, str]], CompiledModel]


def _opened(source: str | Path, dimensions: dict[str, int], target: str) -> _Program | Stage:
    """The model of a file or text; of an ONNX model whose shapes depend on data its first stage."""
    if not ("\n" in str(source) or Path(source).suffix != ".onnx"):
        from opentrn.model import stages

        first, _ = stages.open_model(source, dimensions)
        return first if first.asks else _of_graph(first.raw.module, target)
    return _of_file(source, dimensions, target)


def _of_file(source: str | Path, dimensions: dict[str, int], target: str) -> _Program:
    return _Program(
        lambda options: _core.prepare(*_read(source), target, dimensions, options),
        lambda options: CompiledModel(
            _core.compile_model(*_read(source), target, dimensions, options), target
        ),
    )


def _of_graph(module: Any, target: str) -> _Program:
    return _Program(
        lambda options: _core.prepare_graph(module, target, options),
        lambda options: CompiledModel(_core.compile_graph(module, target, options), target),
    )


def _diff_program(
    stated: _Program, run: _Program, inputs: Sequence[Any], how: _How, keyed: bool = False
) -> tuple[Diff, list[np.ndarray]]:
    """The comparison, and the results of the program as it is compiled. keyed: `inputs` are those of all ports."""
    observed = _core.observe(stated.prepare(how.options))
    device_observed = observed
    if run is not stated:
        device_observed = _core.observe(run.prepare(how.options))
        if not device_observed.has_values_of(observed):
            raise InputError("device_source has other values than source", label="diff.source")
    kept = CompiledModel(
        _core.compile_graph(device_observed.whole, how.target, how.plain, recognise=False), how.target
    )
    fused = run.compile(how.options)
    results = observed.result_count
    given = list(inputs) if keyed else kept.with_random_key(inputs)
    values = kept.run(given)
    arguments = [np.asarray(value).astype(port.dtype) for value, port in zip(given, kept.ports, strict=True)]
    whole = Module(observed.whole).evaluate(*arguments, float64=True)
    report = observed.judge(
        how.target,
        [raw_of(value, port.element) for value, port in zip(arguments, kept.ports, strict=True)],
        [raw_of(value, port.element) for value, port in zip(values, kept.outputs, strict=True)][results:],
        [raw_of(value) for value in whole[results:]],
    )
    made = fused.run(given)
    plain = Module(stated.prepare(how.plain)).evaluate(*given, float64=True) if how.changed else [None] * len(made)
    for result, other, exact, of_model, port in zip(made, values, whole, plain, fused.outputs):
        wide = None if of_model is None else raw_of(of_model)
        report.add_result(
            raw_of(result, port.element), raw_of(other, port.element), raw_of(exact), port.element, wide
        )
    return report, made


def _diff_stages(first: Stage, inputs: Sequence[Any], how: _How) -> StagedDiff:
    """Each stage from what the device gave before."""
    from opentrn.model import stages

    given = stages.arguments_of(first, inputs)
    parts = []

    def execute(stage: stages.Stage, values: list[np.ndarray]) -> list[np.ndarray]:
        program = _of_graph(stage.raw.module, how.target)
        part, made = _diff_program(program, program, values, how, keyed=True)
        parts.append((stage.sizes_text(), part))
        return made

    stages.run(first, given, execute)
    return StagedDiff(parts)
