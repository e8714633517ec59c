"""A compiled model against the float64 reference, op by op: what is rounding, and what is a bug.

    from opentrn.model.diff import diff
    report = diff("model.onnx", x)
    print(report.text())
    report.first_bug          # None, or the first op whose error rounding does not explain

The model is compiled with every op's value as a result (src/compiler/taps.h). Two errors are told apart. The
accumulated error is against the model evaluated in float64 from the inputs. An op's own error is against
that op alone, evaluated in float64 from the operands that the device had; its limit follows from what the op
does: nothing for what moves or compares, half a unit in the last place for one rounding, FUNCTION_ULP for
approximated functions (and what one unit in an operand makes), and for sums one rounding per term of partial
sums as large as the sum of the terms' magnitudes. An own error beyond the limit is a bug.

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from opentrn import _core
from opentrn.errors import InputError, NotModelled
from opentrn.graph import DTYPES, Module
from opentrn.model.compiled import CompiledModel, _read, refused_by_importer
from opentrn.settings import environment
from opentrn.settings.compiler_options import PROGRAM_OPTIONS, CompilerOptions, option_texts, takes_options

__all__ = ["Diff", "OpDiff", "StagedDiff", "diff"]

# Of approximated functions: the activation tables promise fewer, compositions of several (tan, log1p) add up.
FUNCTION_ULP = 8.0
# One rounding to nearest, and a second one where the device computes in fp32 and rounds to a narrower type.
ROUNDING_ULP = 0.51
# Of fp32, in which engines add.
UNIT_ROUNDOFF = 2.0**-24
# What the device holds in place of a type that it has not.
NARROWED = {"f64": "f32", "i64": "i32", "ui64": "ui32", "index": "i32"}


@dataclass(frozen=True)
class OpDiff:
    """One op's value on the device.

    `max_abs`, `max_rel` (of the largest element): the accumulated error. `own_ulp`: the op's own error in units
    in the last place of its type (for integers: elements that differ). `of_limit`: the largest own error over what
    rounding explains at that element; None when no limit is known. `verdict`: "exact", "rounding", "bug" or
    "not judged".
    """

    number: int
    op: str
    name: str
    file: str
    line: int
    type: str
    judgement: str
    max_abs: float
    max_rel: float
    own_ulp: float
    of_limit: float | None
    verdict: str

    @property
    def place(self) -> str:
        """The framework's name of the op, else its line."""
        return self.name or (f"{Path(self.file).name}:{self.line}" if self.line else "")


@dataclass(frozen=True)
class Diff:
    """What diff() found; `ops` in program order, `results` of the model as it is compiled without taps."""

    target: str
    ops: list[OpDiff]
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def first_bug(self) -> OpDiff | None:
        """The first op whose own error rounding does not explain."""
        return next((row for row in self.ops if row.verdict == "bug"), None)

    @property
    def is_clean(self) -> bool:
        """No bug, neither in an op nor in the fused program."""
        return self.first_bug is None and all(row["verdict"] != "bug" for row in self.results)

    def json(self) -> dict[str, Any]:
        """Plain data."""
        first = self.first_bug
        return {
            "target": self.target,
            "first_bug": asdict(first) if first else None,
            "is_clean": self.is_clean,
            "results": self.results,
            "ops": [asdict(row) for row in self.ops],
        }

    def text(self, *, rows_max: int = 12) -> str:
        """For a terminal, at most 79 columns: the ops of the largest own error first, those in doubt above all."""
        rank = {"bug": 0, "not judged": 1, "rounding": 2, "exact": 3}
        shown = sorted(self.ops, key=lambda row: (rank[row.verdict], -(row.of_limit or 0), row.number))
        del shown[rows_max:]
        lines = [
            f"{len(self.ops)} ops on {self.target} against float64",
            f"  {'op':<16} {'at':<20} {'max abs':>7} {'rel':>7}  {'own limit':>9}  verdict",
        ]
        lines += [
            f"  {_tail(row.op.rpartition('.')[2], 16):<16} {_tail(row.place, 20):<20} {row.max_abs:>7.0e}"
            f" {row.max_rel:>7.0e}  {_share(row.of_limit):>9}  {row.verdict}"
            for row in shown
        ]
        if len(self.ops) > len(shown):
            lines.append(f"  ... and {len(self.ops) - len(shown)} more")
        lines.append("  abs, rel: accumulated; own limit: own error over what rounding explains")
        for number, row in enumerate(self.results):
            lines.append(
                f"result {number}: max abs {row['max_abs']:.1e}, rel {row['max_rel']:.1e};"
                f" fused: {'same bits' if row['same_bits'] else 'other bits'}, {row['verdict']}"
            )
            if "from_model" in row:
                lines.append(
                    f"  from the model without these options: relative RMS {row['from_model']['relative_rms']:.1e},"
                    f" cosine {row['from_model']['cosine']:.6f}"
                )
        first = self.first_bug
        if first is None:
            lines.append("every judged op's error is what rounding explains")
        else:
            lines.append(f"first bug: op {first.number}, {first.op} -> {first.type}")
            lines.append(
                f"  at {first.name or first.place}" + (f" ({first.file}:{first.line})" if first.line else "")
            )
            unit = "elements differ" if first.judgement == "exact" else "units in the last place"
            lines.append(
                f"  own error: {first.own_ulp:.3g} {unit}, {_share(first.of_limit)} of what rounding explains"
            )
            if _element(first.type) in NARROWED:
                lines.append("  the device keeps 64-bit numbers in 32 bits: values beyond them are lost")
        return "\n".join(lines) + "\n"


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


def _tail(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[3 - width :]


def _element(type_text: str) -> str:
    """Of "tensor<4x8xi64>": "i64"."""
    return type_text.rpartition("<")[2].rstrip(">").rpartition("x")[2]


def _share(of_limit: float | None) -> str:
    if of_limit is None:
        return "?"
    return f"{of_limit:.2f}" if of_limit < 100 else f"{of_limit:.0e}"


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
    stated = _of_file(source, dict(dimensions or {}), target)
    try:
        if device_source is not None:
            return _diff_program(
                stated, _of_file(device_source, dict(dimensions or {}), target), inputs, how
            )[0]
        return _diff_program(stated, stated, inputs, how)[0]
    except (NotModelled, ValueError) as error:
        if device_source is not None or not refused_by_importer(error) or Path(source).suffix != ".onnx":
            raise
        return _diff_stages(source, error, dict(dimensions or {}), inputs, how)


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
    taps = _core.tap(stated.prepare(how.options))
    device_taps = taps
    if run is not stated:
        device_taps = _core.tap(run.prepare(how.options))
        if [row[4] for row in device_taps["taps"]] != [row[4] for row in taps["taps"]]:
            raise InputError("device_source has other values than source", label="diff.source")
    kept = CompiledModel(
        _core.compile_graph(device_taps["whole"], how.target, how.plain, recognise=False), how.target
    )
    fused = run.compile(how.options)
    results = taps["result_count"]
    given = list(inputs) if keyed else kept.with_random_key(inputs)
    values = kept.run(given)
    device = values[results:]
    arguments = [np.asarray(value).astype(port.dtype) for value, port in zip(given, kept.ports, strict=True)]
    whole = Module(taps["whole"]).evaluate(*arguments, float64=True)
    judge = _Judge(taps, arguments, device)
    made = fused.run(given)
    rows = [
        _compare_result(result, with_taps, exact, port.element)
        for result, with_taps, exact, port in zip(made, values, whole, fused.outputs)
    ]
    if how.changed:
        exact_results = Module(stated.prepare(how.plain)).evaluate(*given, float64=True)
        for row, result, exact in zip(rows, made, exact_results):
            row["from_model"] = _distance(result, exact)
    return Diff(how.target, judge.rows(whole[results:]), rows), made


def _diff_stages(
    source: str | Path, error: Exception, dimensions: dict[str, int], inputs: Sequence[Any], how: _How
) -> StagedDiff:
    """Each stage from what the device gave before; raises `error` where stages are not the way out."""
    from opentrn.model import stages

    first, _ = stages.open_model(source, dimensions)
    if not first.asks:
        raise error
    given = stages.arguments_of(first, inputs)
    parts = []

    def execute(stage: stages.Stage, values: list[np.ndarray]) -> list[np.ndarray]:
        program = _of_graph(stage.raw.module, how.target)
        part, made = _diff_program(program, program, values, how, keyed=True)
        parts.append((stage.sizes_text(), part))
        return made

    stages.run(first, given, execute)
    return StagedDiff(parts)


def _distance(have: np.ndarray, want: np.ndarray) -> dict[str, float]:
    """How far a result is from that of the model as it is stated, in float64: what casts and weights cost.

    `relative_rms`: root mean square of the error over that of the result; `cosine`: of the angle between both.
    """
    a, b = have.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    size, length = float(np.linalg.norm(b)), float(np.linalg.norm(a))
    error = float(np.linalg.norm(a - b))
    return {
        "relative_rms": error / size if size else (0.0 if error == 0 else np.inf),
        "cosine": float(a @ b) / (size * length) if size and length else float(error == 0),
    }


def _compare_result(fused: np.ndarray, kept: np.ndarray, exact: np.ndarray, element: str) -> dict[str, Any]:
    """A result of the model as compiled, against float64 and against the run that kept every value."""
    error, kept_error = _accumulated(fused, exact), _accumulated(kept, exact)
    same = fused.tobytes() == kept.tobytes()
    # Fusing skips roundings or orders sums otherwise: errors of the size that the kept run has.
    largest = float(np.max(np.abs(exact), initial=0.0)) if exact.dtype.kind == "f" else 0.0
    slack = 8 * float(_ulp(np.float64(largest), element)) if exact.dtype.kind == "f" else 0.0
    fine = same or error[0] <= 8 * kept_error[0] + slack
    return {
        "max_abs": error[0],
        "max_rel": error[1],
        "max_abs_kept": kept_error[0],
        "same_bits": same,
        "verdict": "rounding" if fine else "bug",
    }


def _accumulated(device: np.ndarray, exact: np.ndarray) -> tuple[float, float]:
    """(largest error, the same over the largest element); infinite where only one side is a number."""
    if device.dtype.kind in "biu":
        wrong = np.abs(device.astype(np.float64) - exact.astype(np.float64))
        largest = float(np.max(np.abs(exact.astype(np.float64)), initial=0.0))
    else:
        have, want = device.astype(np.float64), exact.astype(np.float64)
        with np.errstate(invalid="ignore"):
            wrong = np.where((have == want) | (np.isnan(have) & np.isnan(want)), 0.0, np.abs(have - want))
        wrong = np.where(np.isnan(wrong), np.inf, wrong)
        largest = float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0))
    error = float(np.max(wrong, initial=0.0))
    return error, error / largest if largest > 0 else error


def _ulp(value: np.ndarray | np.float64, element: str) -> np.ndarray:
    """The unit in the last place of `element` at `value`; of the smallest normal number below it."""
    info = ml_dtypes.finfo(DTYPES[NARROWED.get(element, element)])
    bits = 10 if element == "tf32" else info.nmant
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(np.abs(value)))
    exponent = np.where(np.isfinite(exponent), exponent, np.float64(info.minexp))
    return np.exp2(np.maximum(exponent, info.minexp) - bits)


class _Judge:
    """Own errors and their limits, tap by tap."""

    def __init__(
        self, taps: dict[str, Any], arguments: Sequence[np.ndarray], device: list[np.ndarray]
    ) -> None:
        self._taps = taps
        self._device = device
        operands = [*arguments, *device]
        self._alone = Module(taps["alone"]).evaluate(*operands, float64=True)
        self._magnitudes = iter(self._evaluate("magnitudes", operands))
        # What one unit in the last place of the operands makes.
        self._above = iter(self._evaluate("functions", [_moved(value, np.inf) for value in operands]))
        self._below = iter(self._evaluate("functions", [_moved(value, -np.inf) for value in operands]))

    def _evaluate(self, which: str, operands: list[np.ndarray]) -> list[np.ndarray]:
        return Module(self._taps[which]).evaluate(*operands, float64=True)

    def rows(self, whole: list[np.ndarray]) -> list[OpDiff]:
        return [
            self._row(number, tap, self._device[number], self._alone[number], whole[number])
            for number, tap in enumerate(self._taps["taps"])
        ]

    def _row(
        self, number: int, tap: tuple[Any, ...], have: np.ndarray, alone: np.ndarray, whole: np.ndarray
    ) -> OpDiff:
        kind, file, line, name, type_text, element, judgement, terms = tap
        max_abs, max_rel = _accumulated(have, whole)
        if have.dtype.kind in "biu":
            wrong = int(np.count_nonzero(have != alone))
            own, of_limit = float(wrong), np.inf if wrong else 0.0
            verdict = "bug" if wrong else "exact"
        else:
            own, of_limit, fine = self._float_error(have.astype(np.float64), alone, element, judgement, terms)
            verdict = "exact" if own == 0 else "rounding" if fine else "bug"
        if judgement == "unknown" and own != 0:
            of_limit, verdict = None, "not judged"
        return OpDiff(
            number, kind, name, file, line, type_text, judgement, max_abs, max_rel, own, of_limit, verdict
        )

    def _float_error(
        self, have: np.ndarray, want: np.ndarray, element: str, judgement: str, terms: float
    ) -> tuple[float, float, bool]:
        """(own error in ulp, the largest error over its limit, whether every element is within its limit)."""
        info = ml_dtypes.finfo(DTYPES[NARROWED.get(element, element)])
        ulp = _ulp(want, element)
        limit = self._limit(want, ulp, judgement, terms)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(have - want)
        # Equal, both no number, or out of the type's range on the same side (not where the model states a type
        # with more range than the device's); below the smallest normal number a device may have zero.
        beyond = (np.abs(want) >= float(info.max)) & ((have == np.copysign(np.inf, want)) | np.isnan(have))
        beyond &= element not in NARROWED
        same = (have == want) | (np.isnan(have) & np.isnan(want)) | beyond
        if element == "f64":  # the lowest double stands for minus infinity in masks
            same |= (np.abs(want) == np.finfo(np.float64).max) & (have == np.copysign(np.inf, want))
        flushed = (have == 0) & (np.abs(want) < float(info.smallest_normal))
        error = np.where(same | flushed, 0.0, np.where(np.isnan(error), np.inf, error))
        if not error.size:
            return 0.0, 0.0, True
        with np.errstate(divide="ignore", invalid="ignore"):
            of_limit = np.where(error == 0, 0.0, error / limit)
        return float(np.max(error / ulp)), float(np.max(of_limit)), bool(np.all(error <= limit))

    def _limit(self, want: np.ndarray, ulp: np.ndarray, judgement: str, terms: float) -> np.ndarray:
        if judgement == "rounded":
            return ROUNDING_ULP * ulp
        if judgement == "sum":
            # One rounding per term in the worst order; a random walk of them is as far as it gets in practice.
            roundings = min(terms + 2, 8 * np.sqrt(terms) + 2)
            return roundings * UNIT_ROUNDOFF * np.abs(next(self._magnitudes)) + ROUNDING_ULP * ulp
        if judgement == "function":
            with np.errstate(invalid="ignore"):
                reach = np.abs(next(self._above) - want) + np.abs(next(self._below) - want)
            return FUNCTION_ULP * ulp + np.where(np.isfinite(reach), reach, 0.0)
        return np.zeros_like(ulp)


def _moved(value: np.ndarray, towards: float) -> np.ndarray:
    """Floats one unit in the last place up or down; others as they are."""
    if value.dtype.kind in "biu" or value.dtype.kind == "c":
        return value
    with np.errstate(
        over="ignore"
    ):  # beyond the largest number is infinity, which is no neighbour to judge by
        return np.nextafter(value, np.asarray(towards, value.dtype))
