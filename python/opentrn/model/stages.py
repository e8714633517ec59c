"""ONNX models whose shapes depend on data: a chain of programs, each compiled for the sizes that came up.

    model = opentrn.compile("detector.onnx")
    boxes, scores = model(image)        # as many as there are
    print(model.time().text())          # of the sizes of that call

Where a shape depends on data (NonZero, Compress, Unique, NonMaxSuppression, a Reshape by a computed shape), the model
is cut (src/import/onnx/stages.h). The program before the cut gives what the next one's shapes depend on, the host
reads it, and the rest is imported and compiled for it, once for each such answer.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opentrn import _core
from opentrn.base.files import shown
from opentrn.errors import InputError
from opentrn.graph import DTYPES
from opentrn.model.model import Model
from opentrn.model.random_key import PORT, RandomKeys
from opentrn.settings.compiler_options import option_texts

if TYPE_CHECKING:
    from opentrn.model.compiled import CompiledModel, Coverage, HostOps, Port

__all__ = ["Ask", "Stage", "StagedModel", "StagedTiming"]


@dataclass(frozen=True)
class Ask:
    """What the shapes behind a stage depend on: a value that the stage makes and the host reads.

    `counts`: it is a number of rows, at most `bound`; `name` is that dimension's, else the value's. `node`: who asks.
    `behind`: the slots of the stage's arguments on which the value depends.
    """

    name: str
    counts: bool
    bound: int
    slot: int
    node: str
    element: str
    behind: Sequence[int] = ()

    def text(self) -> str:
        """`boxes (up to 100), by NonMaxSuppression node 'nms'`."""
        what = f"{self.name} (up to {self.bound:,})" if self.counts else f"the value of {self.name}"
        return f"{what}, for {self.node}"


@dataclass
class Stage:
    """One program's worth of a model. Values between stages are numbered, the model's inputs first (slots).

    `sizes`: answers so far that are one number, by name. `key`: "" of the first stage, else what tells it from the
    stages of other answers.
    """

    raw: Any
    sizes: dict[str, int] = field(default_factory=dict)
    key: str = ""
    number: int = 1
    before: Stage | None = None
    counted: dict[int, int] = field(default_factory=dict)  # slots of the stage before whose rows were counted
    _next: dict[str, Stage] = field(default_factory=dict)

    @property
    def inputs(self) -> list[int]:
        """The slots that hold its arguments."""
        return self.raw.inputs

    @property
    def asks(self) -> list[Ask]:
        """None in the last stage."""
        return [Ask(*row) for row in self.raw.asks]

    def store(self, results: Sequence[np.ndarray], slots: dict[int, np.ndarray]) -> None:
        """Puts the stage's results into their slots; of rows that are counted as many as there are.

        An array for each of the stage's outputs, in its shape and dtype.
        """
        rows = self.raw.outputs
        for (slot, ask), value in zip(rows, results, strict=True):
            if ask is None:
                slots[slot] = value
        asks = self.asks
        for (slot, ask), value in zip(rows, results, strict=True):
            if ask is not None:
                slots[slot] = value[: int(slots[asks[ask].slot])]

    def answers(self, slots: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """The values that it asks for, in their shapes, each in the dtype that the stage names."""
        return [np.asarray(slots[ask.slot], DTYPES[ask.element]) for ask in self.asks]

    def next(self, answers: Sequence[np.ndarray]) -> Stage:
        """The stage behind it for these answers (shapes and dtypes as answers()); the same object for the same ones."""
        asks = self.asks
        rows = [
            (ask.element, list(value.shape), np.ascontiguousarray(value).tobytes())
            for ask, value in zip(asks, answers, strict=True)
        ]
        digest = hashlib.sha256(self.key.encode())
        for element, shape, data in rows:
            digest.update(f"{element} {shape} ".encode() + data)
        key = digest.hexdigest()
        if key not in self._next:
            sizes = dict(self.sizes)
            for ask, value in zip(asks, answers, strict=True):
                if value.size == 1 and value.dtype.kind in "iub":
                    sizes[ask.name] = int(value.reshape(()))
            counted = {
                slot: int(answers[ask].reshape(())) for slot, ask in self.raw.outputs if ask is not None
            }
            self._next[key] = Stage(self.raw.next(rows), sizes, key, self.number + 1, self, counted)
        return self._next[key]

    def sizes_text(self) -> str:
        """`boxes=5, keep=3`."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


def run(
    first: Stage,
    inputs: Sequence[np.ndarray],
    execute: Callable[[Stage, list[np.ndarray]], Sequence[np.ndarray]],
) -> tuple[list[np.ndarray], list[Stage]]:
    """The model's results, and the stages that made them, for an array of each input's shape and dtype.

    execute: a stage's results from its arguments.
    """
    slots = dict(enumerate(inputs))
    stage, path = first, [first]
    while True:
        if stage.raw.outputs:
            stage.store(execute(stage, [slots[slot] for slot in stage.inputs]), slots)
        if not stage.asks:
            return [slots[slot] for slot in stage.raw.results], path
        stage = stage.next(stage.answers(slots))
        path.append(stage)


def ports_of(first: Stage) -> list[Port]:
    """The model's inputs; the key of its random numbers last, where it draws any."""
    from opentrn.model.compiled import Port

    return [Port(row.text_name, row.element, row.shape) for row in _arguments(first)]


def arguments_of(first: Stage, arrays: Sequence[Any], keys: RandomKeys | None = None) -> list[np.ndarray]:
    """An array for each port, checked as CompiledModel's: its shape and dtype. Raises InputError for a wrong number."""
    from opentrn.model.compiled import checked

    ports = ports_of(first)
    inputs = [port for port in ports if port.name != PORT]
    if len(arrays) != len(inputs):
        raise InputError(
            f"the model takes {len(inputs)} inputs, {len(arrays)} were given", label="model.inputs"
        )
    given = [checked(array, port) for array, port in zip(arrays, inputs)]
    return given if len(ports) == len(inputs) else [*given, (keys or RandomKeys()).next()]


class StagedTiming:
    """Predicted times of the programs of one inference, for the sizes it had.

    `total_ns` adds them up, without the overhead of their launches, which is `launch_ns`. How long the host takes to
    read what shapes depend on, and to compile what it has not yet, is not modelled.
    """

    def __init__(self, parts: Sequence[tuple[Stage, Any]]) -> None:
        self.parts = list(parts)

    @property
    def total_ns(self) -> float:
        """Of all programs, one after the other."""
        return sum(timing.total_ns for _, timing in self.parts)

    @property
    def launch_ns(self) -> float:
        """Overhead of launching all programs."""
        return sum(timing.launch_ns for _, timing in self.parts)

    @property
    def time_us(self) -> float:
        """total_ns in microseconds."""
        return self.total_ns / 1e3

    @property
    def bound_by(self) -> str | None:
        """Of the program that takes longest."""
        return self._longest().bound_by

    @property
    def assumptions(self) -> list[str]:
        """What the times rest on beside the tables' facts: of the target, so the same for every program."""
        return self.parts[0][1].assumptions

    @property
    def band(self) -> dict[str, Any]:
        """Where the measured time is expected: the programs' bands added up, as Timing.band gives one."""
        bands = [timing.band for _, timing in self.parts]
        if "unknown" in bands[0]:
            return bands[0]
        ends = {name: sum(band[name] for band in bands) for name in ("low_ns", "high_ns")}
        return {**bands[0], **ends}

    @property
    def basis(self) -> dict[str, Any]:
        """What the time of the longest program rests on, as Timing.basis gives it."""
        return self._longest().basis

    def trust_text(self) -> str:
        """What Timing.trust_text() says of each program."""
        return self._texts(lambda timing: timing.trust_text())

    def _longest(self) -> Any:
        return max((timing for _, timing in self.parts), key=lambda timing: timing.total_ns)

    def _mean(self, name: str) -> float:
        return sum(getattr(timing, name) * timing.total_ns for _, timing in self.parts) / self.total_ns

    @property
    def mfu_percent(self) -> float:
        """Mean over time."""
        return self._mean("mfu_percent")

    @property
    def mbu_percent(self) -> float:
        """Mean over time."""
        return self._mean("mbu_percent")

    def profile(self) -> dict[str, Any]:
        """The profile of each program, under `stages`."""
        return {
            "time_us": self.time_us,
            "launch_us": self.launch_ns / 1e3,
            "stages": [
                {"stage": stage.number, "sizes": stage.sizes, "profile": timing.profile()}
                for stage, timing in self.parts
            ],
        }

    def _texts(self, text_of: Callable[[Any], str]) -> str:
        parts = []
        for stage, timing in self.parts:
            sizes = f", for {stage.sizes_text()}" if stage.sizes else ""
            parts.append(f"== stage {stage.number} of {len(self.parts)}{sizes}: {timing.time_us:.2f} us ==\n")
            parts.append(text_of(timing))
        return "".join(parts)

    def text(self, *arguments: Any, **options: Any) -> str:
        """What Timing.text() says of each program."""
        return self._texts(lambda timing: timing.text(*arguments, **options))

    def model_text(self, *arguments: Any) -> str:
        """What Timing.model_text() says of each program."""
        return self._texts(lambda timing: timing.model_text(*arguments))

    def __repr__(self) -> str:
        return f"<timing {self.time_us:.2f} us in {len(self.parts)} stages>"


class StagedModel(Model):
    """A model of several programs, of which those behind the first are compiled for what the data say.

    `programs`: what is compiled, with its stage. `path`: the stages of the last call.
    """

    def __init__(
        self,
        first: Stage,
        compile_stage: Callable[[Stage], CompiledModel],
        attachments: Sequence[Any],
        target: str,
        facts: Mapping[str, str],
        programs: Mapping[str, Any] | None = None,
    ) -> None:
        from opentrn.model.compiled import Port

        self.first = first
        self.target = target
        self.facts = dict(facts)
        self.cached: str | None = None
        self.rounds_stochastically = bool(
            json.loads(self.facts.get("options", "{}")).get("enable_stochastic_rounding")
        )
        self._seed: int | None = 0 if self.rounds_stochastically else None
        self._compile = compile_stage
        self._attachments = list(attachments)
        self._compiled: dict[str, CompiledModel] = dict(programs or {})
        self._stages: dict[str, Stage] = {}
        self.path: list[Stage] = []
        self.rows: dict[str, list[int]] = {}  # sizes that were compiled ahead, by the count's name
        self.padded: dict[str, Stage] = {}  # of the last call: which larger stage ran in the place of one
        self._proofs: dict[str, list[tuple[int, int, int]] | None] = {}
        ports = ports_of(first)
        self.inputs = [port for port in ports if port.name != PORT]
        self.draws_random_numbers = len(ports) > len(self.inputs)
        self.random_keys = RandomKeys()
        self.on_progress: Callable[[str], None] = lambda phase: None  # told what a call does, stage by stage
        self.outputs = [
            Port(name, element, tuple(-1 if size is None else size for size in shape))
            for name, element, shape in first.raw.result_infos
        ]
        self.program_of(first)

    def program_of(self, stage: Stage) -> CompiledModel:
        """The stage's program; compiled when it is asked for the first time."""
        self._stages[stage.key] = stage
        if stage.key not in self._compiled:
            self.on_progress(f"compiling stage {stage.number}")
            self._compiled[stage.key] = self._compile(stage)
            if self._seed is not None:
                self._compiled[stage.key].round_stochastically(self._seed)
        return self._compiled[stage.key]

    is_staged = True

    @property
    def programs(self) -> list[tuple[dict[str, int], CompiledModel]]:
        """What is compiled so far, the first stage first, with the sizes that each is for."""
        return [(stage.sizes, program) for stage, program in self.compiled_stages]

    @property
    def compiled_stages(self) -> list[tuple[Stage, CompiledModel]]:
        """What is compiled so far, the first stage first."""
        rows = [(stage, self._compiled[key]) for key, stage in self._stages.items()]
        return sorted(rows, key=lambda row: (row[0].number, list(row[0].sizes.items())))

    def __call__(self, *arrays: Any) -> list[np.ndarray]:
        """The values of one inference; as CompiledModel's."""
        given = arguments_of(self.first, arrays, self.random_keys)
        self.path, self.padded = [], {}
        results, path = run(self.first, given, self._execute)
        self.path = path
        return results

    def _execute(self, stage: Stage, values: list[np.ndarray]) -> list[np.ndarray]:
        """A stage's results: by its own program, or by one for more rows where padding is proved to reach nothing."""
        room = None if stage.key in self._compiled else self._room_for(stage)
        if room is None:
            program = self.program_of(stage)
            self.on_progress(f"computing stage {stage.number}")
            return program.run(values)
        larger, results = room
        self.padded[stage.key] = larger
        rows = stage.counted
        given = []
        for slot, value in zip(larger.inputs, values, strict=True):
            if slot in rows:
                missing = larger.counted[slot] - rows[slot]
                value = np.pad(value, [(0, missing), *[(0, 0)] * (value.ndim - 1)])
            given.append(value)
        made = self.program_of(larger).run(given)
        for port, axis, slot in results:
            cut = [slice(None)] * made[port].ndim
            cut[axis] = slice(0, rows[slot])
            made[port] = made[port][tuple(cut)]
        return made

    def _room_for(self, stage: Stage) -> tuple[Stage, list[tuple[int, int, int]]] | None:
        """The smallest stage that was compiled ahead for more rows and may take this one's padded.

        With it (result, axis, slot whose rows its size is). Only last stages: what a padded one asks for would count
        the padding.
        """
        before = stage.before
        if before is None or stage.asks or not all(ask.counts for ask in before.asks):
            return None
        larger_sizes = []
        for ask in before.asks:
            fitting = [size for size in self.rows.get(ask.name, []) if size >= stage.sizes[ask.name]]
            if not fitting:
                return None
            larger_sizes.append(min(fitting))
        larger = before.next(
            [np.asarray(size, DTYPES[ask.element]) for ask, size in zip(before.asks, larger_sizes)]
        )
        if larger.inputs != stage.inputs:
            return None
        if larger.key not in self._proofs:
            self._proofs[larger.key] = self._prove(before, larger, larger_sizes)
        results = self._proofs[larger.key]
        return None if results is None else (larger, results)

    def _prove(self, before: Stage, larger: Stage, sizes: Sequence[int]) -> list[tuple[int, int, int]] | None:
        """The axes of results that each count's rows reach; None where padding may reach more (compiler/padding.h)."""
        kept = json.loads(self.facts["options"])
        options = option_texts({name: value for name, value in kept.items() if name != "dimensions"})

        def prepared(stage: Stage) -> Any:
            return _core.prepare_graph(stage.raw.module, self.target, options)

        whole, found = prepared(larger), []
        for number, ask in enumerate(before.asks):
            # A graph for one row, or for all there can be, has simplifications of its own.
            if sizes[number] < 2 or sizes[number] + 1 > ask.bound:
                return None
            slots = {slot for slot, asked in before.raw.outputs if asked == number}
            axes = [(port, 0) for port, slot in enumerate(larger.inputs) if slot in slots]
            reached, mixing = _core.prove_padding(whole, axes)
            more = [size + (i == number) for i, size in enumerate(sizes)]
            next_size = before.next([np.asarray(s, DTYPES[a.element]) for a, s in zip(before.asks, more)])
            if mixing or not axes or _core.difference_but_for_size(whole, prepared(next_size)):
                return None
            found += [(port, axis, min(slots)) for port, axis in reached]
        return found

    def round_stochastically(self, seed: int | None = 0) -> None:
        """As CompiledModel.round_stochastically(), of all its programs."""
        self.rounds_stochastically = seed is not None
        self._seed = seed
        for _, program in self.programs:
            program.round_stochastically(seed)

    def time(
        self, overrides: Mapping[str, Any] | Iterable[str] = (), *, loop_iterations: int | None = None
    ) -> StagedTiming:
        """The predicted time of the last call, for the sizes it had. ValueError before the first."""
        if not self.path:
            asks = "; ".join(ask.text() for ask in self.first.asks)
            raise InputError(
                f"how long the model takes depends on data ({asks})",
                label="timing.data_shape",
                hint="call the model first; its time is then that of the sizes it had",
            )
        return StagedTiming([
            (ran, self.program_of(ran).time(overrides, loop_iterations=loop_iterations))
            for stage in self.path if stage.raw.outputs
            for ran in [self.padded.get(stage.key, stage)]
        ])  # fmt: skip

    def take_sizes_of(self, other: StagedModel) -> None:
        """Compiles what the other's last call ran, the same model's for another target; time() is then of its sizes."""
        self.path, self.padded = list(other.path), {}
        for stage in self.path:
            if stage.raw.outputs:
                self.program_of(stage)

    @property
    def control_inputs(self) -> list[int]:
        """As CompiledModel's; also those on which a value depends that the host reads behind the first program."""
        found = {self.first.inputs[number] for number in _core.graph.control_arguments(self.first.raw.module)}
        for ask in self.first.asks:
            if not ask.counts:
                found.update(ask.behind)
        return sorted(number for number in found if number < len(self.inputs))

    @property
    def instruction_count(self) -> int:
        """Of all programs that are compiled."""
        return sum(program.instruction_count for _, program in self.programs)

    @property
    def constant_bytes(self) -> int:
        """Of all programs that are compiled."""
        return sum(program.constant_bytes for _, program in self.programs)

    @property
    def passes(self) -> dict[str, int]:
        """Of all programs that are compiled."""
        total: dict[str, int] = {}
        for _, program in self.programs:
            for name, count in program.passes.items():
                total[name] = total.get(name, 0) + count
        return total

    @property
    def narrowing(self) -> str:
        """Of the first program that computes 64-bit numbers in 32 bits."""
        return next((program.narrowing for _, program in self.programs if program.narrowing), "")

    @property
    def host_ops(self) -> HostOps:
        """What the host does in the programs that are compiled; the shares are those of the largest."""
        from opentrn.model.compiled import HostOps

        parts = [program.host_ops for _, program in self.programs]
        return HostOps(
            tuple(call for part in parts for call in part.calls),
            max(part.flops_share for part in parts),
            max(part.bytes_share for part in parts),
        )

    def program_text(self) -> str:
        """The programs that are compiled, one after the other."""
        return "".join(f"; stage {stage.number} {stage.sizes_text()}\n{program.program_text()}"
                       for stage, program in self.compiled_stages)  # fmt: skip

    def text(self) -> str:
        """A line for each program, and what is compiled later."""
        lines = []
        for stage, program in self.compiled_stages:
            sizes = f" for {stage.sizes_text()}" if stage.sizes else ""
            lines.append(f"stage {stage.number}{sizes}: {program.instruction_count:,} instructions")
            lines += [f"  then the host reads {ask.text()}" for ask in stage.asks]
            if stage.asks:
                lines.append(
                    f"  {stage.raw.nodes_left} nodes of the model are compiled for what it reads, in a run"
                )
        return "\n".join(lines)

    def _names(self) -> set[str]:
        """Of open dimensions of inputs, and of numbers of rows; behind a value that a run reads any name may be one."""
        names = {name for name, _, _ in _core.graph.onnx_open_dimensions(self._attachments[0].path)}
        stage = self.first
        while stage.asks:
            names.update(ask.name for ask in stage.asks if ask.counts)
            if not all(ask.counts for ask in stage.asks):
                return names | set(self.rows)
            stage = stage.next([np.asarray(ask.bound, DTYPES[ask.element]) for ask in stage.asks])
        return names

    def compile_for(self, sizes: Mapping[str, Sequence[int]]) -> None:
        """Compiles the stages for these numbers of rows, by name. ValueError for a number that cannot be.

        A run with fewer rows takes the next larger of these programs where its padding is proved to reach nothing else.
        """
        self.rows = {name: sorted(given) for name, given in sizes.items()}

        def follow(stage: Stage) -> None:
            self.program_of(stage)
            asks = stage.asks
            if asks and all(ask.counts and ask.name in sizes for ask in asks):
                for counts in itertools.product(*(sizes[ask.name] for ask in asks)):
                    follow(stage.next([np.asarray(c, DTYPES[a.element]) for a, c in zip(asks, counts)]))

        follow(self.first)
        names = self._names() if sizes else set()
        if unknown := sorted(set(sizes) - names):
            raise InputError(
                f"'{unknown[0]}' is neither a dimension of the model's inputs nor a number of rows in it; there are "
                f"{', '.join(map(repr, sorted(names))) or 'none'}",
                label="onnx.dimension", hint="leave it out, or write one of these names",
            )  # fmt: skip

    def save(self, path: str | Path, *, weights: str = "copy") -> Path:
        """Write what is compiled, and the model itself, from which the rest is compiled in a run.

        weights: "reference" leaves the model's files where they are, as CompiledModel.save() does.
        """
        from opentrn.model.compiled import _references

        references = _references(weights)
        rows = self.compiled_stages
        stages: dict[str, Any] = {"keys": [stage.key for stage, _ in rows], "rows": self.rows}
        attachments = self._attachments
        if references and attachments[0].path:  # one that came in a container is in no file of the user's
            stages["files"] = {"model": shown(attachments[0].path), "sha256": _digest(attachments)}
            attachments = []
        _core.save_models(
            [program._loaded for _, program in rows], [stage.sizes for stage, _ in rows],
            self.facts | {"stages": json.dumps(stages)}, str(path), references, attachments,
        )  # fmt: skip
        return Path(path)


@dataclass(frozen=True)
class _Argument:
    text_name: str
    element: str
    shape: tuple[int, ...]


def _arguments(stage: Stage) -> Iterator[_Argument]:
    from opentrn.graph import Module

    module = Module(stage.raw.module)
    names, _ = _core.graph.onnx_names(module._raw)
    for name, row in zip(names, module.functions[module.entry].arguments, strict=True):
        yield _Argument(name, row.element, row.shape)


def open_model(path: str | Path, dimensions: Mapping[str, int]) -> tuple[Stage, list[Any]]:
    """The first stage of an ONNX file, and the file with the parts of others that its weights are."""
    files = _core.files_of_onnx(path)
    return _first_of(files, dimensions), files


def _first_of(files: Sequence[Any], dimensions: Mapping[str, int]) -> Stage:
    return Stage(_core.onnx_stages_of(files, dict(dimensions)))


def _digest(files: Sequence[Any]) -> str:
    """SHA-256 of a model with the parts of files that its weights are."""
    digest = hashlib.sha256()
    for part in files:
        digest.update(f"{part.name} {part.begin} {part.bytes}\n".encode())
        digest.update(part.view)
    return digest.hexdigest()


def _files_of_another(kept: Mapping[str, str], path: str) -> list[Any]:
    """The files of the model that a file refers to; which they are, the model itself says. ValueError when changed."""
    place = kept["model"]
    if not os.path.exists(place):
        raise InputError(
            f"{path}: its model {place} is gone", label="model_file.origin", hint="compile it again"
        )
    changed = InputError(
        f"{path}: its model {place} has changed since", label="model_file.origin", hint="compile it again"
    )
    try:
        files = _core.files_of_onnx(place)
    except InputError as error:  # it was read before: what is there now is another file
        raise changed from error
    if _digest(files) != kept["sha256"]:
        raise changed
    return files


def from_file(facts: dict[str, str], programs: Sequence[tuple[dict[str, int], Any]], attachments: Sequence[Any],
              path: str) -> StagedModel:  # fmt: skip
    """What StagedModel.save() wrote. ValueError when the model it was made of has changed since."""
    from opentrn.model.compiled import CompiledModel

    try:
        stages = json.loads(facts["stages"])
        keys, options = stages["keys"], json.loads(facts["options"])
        if "files" in stages:
            files = _files_of_another(stages["files"], path)
        else:
            files = list(attachments)
        first = _first_of(files, options.get("dimensions", {}))
        if len(keys) != len(programs) or keys[0] != first.key:
            raise KeyError("keys")
    except (KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
        raise InputError(
            f"{path}: the programs do not fit their table of stages: {error!r}", label="model_file",
            hint="write the file again with `opentrn compile`",
        ) from error
    compiled = {
        key: CompiledModel(loaded, facts.get("target", ""), facts)
        for key, (_, loaded) in zip(keys, programs, strict=True)
    }
    model = StagedModel(first, compiler_of(facts), files, facts.get("target", ""), facts, compiled)
    model.rows = stages["rows"]
    return model


def compiler_of(facts: Mapping[str, str], cache: str | None = None) -> Callable[[Stage], CompiledModel]:
    """Compiles a stage with the options in `facts`. cache: the model's path, to keep what it compiles."""
    from opentrn.model.compiled import CompiledModel, through_cache

    kept = json.loads(facts["options"])
    given = {name: value for name, value in kept.items() if name != "dimensions"}
    target = facts["target"]

    def compile_it(stage: Stage) -> CompiledModel:
        loaded = _core.compile_graph(stage.raw.module, target, option_texts(given))
        return CompiledModel(loaded, target, dict(facts) | {"passes": json.dumps(dict(loaded.passes))})

    def compile_stage(stage: Stage) -> CompiledModel:
        if cache is None:
            return compile_it(stage)
        noted = dict(facts) | {"options": json.dumps(kept | {"stage": stage.key or "first"})}
        return through_cache(cache, noted, lambda: compile_it(stage))

    return compile_stage


def coverage(
    first: Stage, dimensions: Mapping[str, int], inputs: Mapping[str, Any]
) -> tuple[list[Coverage], list[str]]:
    """coverage() of all stages, and what it assumes: of a count its bound, unless `dimensions` says otherwise.

    Behind a value that is no count the model is looked at for what `inputs` make of it, if no other input has a part in
    it; else not at all, and the notes say so.
    """
    from opentrn.model.compiled import Coverage

    stage = first
    values = _Values(stage, inputs)
    rows: dict[str, Coverage] = {}
    notes: list[str] = []
    while True:
        for row in (Coverage(*row) for row in _core.coverage_of(stage.raw.module)):
            rows[row.op] = row if row.op not in rows else _added(rows[row.op], row)
        asks = stage.asks
        if not asks:
            return list(rows.values()), notes
        known = values.answers(stage)
        unknown = [ask for ask, answer in zip(asks, known) if answer is None and not ask.counts]
        if unknown:
            notes.append(
                f"{stage.raw.nodes_left} nodes are not looked at: their shapes or branches depend on "
                + "; ".join(ask.text() for ask in unknown)
            )
            names = sorted({name for ask in unknown for name in values.missing(ask)})
            if names:
                notes.append(
                    f"    try: {' '.join(f'-i {name}=VALUE' for name in names)}, to look at them for it"
                )
            return list(rows.values()), notes
        answers = []
        for ask, answer in zip(asks, known):
            if answer is None:
                count = dimensions.get(ask.name, ask.bound)
                answer = np.asarray(count, DTYPES[ask.element])
                notes.append(
                    f"stage {stage.number + 1} is looked at for {ask.name}={count}, which data decide ({ask.node})"
                )
            answers.append(answer)
        stage = stage.next(answers)


class _Values:
    """What is known of values between stages when some of the inputs are: slots in which no other input has a part."""

    def __init__(self, first: Stage, inputs: Mapping[str, Any]) -> None:
        from opentrn.model.compiled import checked

        ports = ports_of(first)
        self.names = [port.name for port in ports]
        for name in inputs:
            if name not in self.names:
                raise InputError(
                    f"the model has no input {name!r}; it has {', '.join(self.names)}", label="model.inputs"
                )
        self.slots = {
            number: checked(inputs[port.name], port)
            for number, port in enumerate(ports)
            if port.name in inputs
        }

    def missing(self, ask: Ask) -> list[str]:
        """Inputs on which the value depends and that are not given."""
        return [self.names[slot] for slot in ask.behind if slot < len(self.names) and slot not in self.slots]

    def answers(self, stage: Stage) -> list[np.ndarray | None]:
        """To each of the stage's questions, None where it is not known."""
        asks = stage.asks
        known = [all(slot in self.slots for slot in ask.behind) for ask in asks]
        if not any(known):
            return [None] * len(asks)
        from opentrn.graph import Module

        module = Module(stage.raw.module)
        arguments = [
            self.slots[slot] if slot in self.slots else np.zeros(argument.shape, DTYPES[argument.element])
            for slot, argument in zip(stage.inputs, _arguments(stage), strict=True)
        ]
        results: dict[int, np.ndarray] = {}
        stage.store(module.evaluate(*arguments), results)
        if all(slot in self.slots for slot in stage.inputs):
            self.slots.update(results)
        return [results[ask.slot] if found else None for ask, found in zip(asks, known, strict=True)]


def _added(a: Coverage, b: Coverage) -> Coverage:
    from dataclasses import replace

    worse = b if (b.unsupported, b.emulated) > (0, 0) and not (a.unsupported or a.emulated) else a
    return replace(
        worse, count=a.count + b.count, unsupported=a.unsupported + b.unsupported,
        emulated=a.emulated + b.emulated, flops=a.flops + b.flops,
    )  # fmt: skip
