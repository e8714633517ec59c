"""ONNX models whose shapes depend on data: a chain of programs, each compiled for the sizes that came up.

    model = opentrn.compile("detector.onnx")
    boxes, scores = model(image)        # as many as there are
    print(model.time().text())          # of the sizes of that call

Where a shape depends on data (NonZero, Compress, Unique, NonMaxSuppression, a Reshape by a computed shape), the model
is cut (src/import/onnx/stages.h). The program before the cut gives what the next one's shapes depend on, the host
reads it, and the rest is imported and compiled for it, once for each such answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opentrn import _core
from opentrn.base import members
from opentrn.base.files import shown
from opentrn.errors import InputError
from opentrn.graph import Module, array_of, raw_of
from opentrn.model.model import Model
from opentrn.model.random_key import RandomKeys
from opentrn.settings.compiler_options import option_texts

# A program's worth of a model, and what the shapes behind it depend on (src/model/stage.h).
Stage = _core.ModelStage
Ask = _core.Ask
# Predicted times of the programs of one inference, for the sizes it had (src/python/staged_timing.cc). `total_ns` adds
# them up, without the overhead of their launches, which is `launch_ns`. How long the host takes to read what shapes
# depend on, and to compile what it has not yet, is not modelled.
StagedTiming = _core.StagedTiming

if TYPE_CHECKING:
    from opentrn.model.compiled import CompiledModel, Coverage, HostOps, Port

__all__ = ["Ask", "Stage", "StagedModel", "StagedTiming"]


def run(
    first: Stage,
    inputs: Sequence[np.ndarray],
    execute: Callable[[Stage, list[np.ndarray]], Sequence[np.ndarray]],
) -> tuple[list[np.ndarray], list[Stage]]:
    """The model's results, and the stages that made them, for an array of each input's shape and dtype.

    execute: a stage's results from its arguments.
    """
    results, path, _ = _run(first, inputs, execute)
    return results, path


def _run(
    first: Stage,
    inputs: Sequence[np.ndarray],
    execute: Callable[[Stage, list[np.ndarray]], Sequence[np.ndarray]],
    *rooms: Any,
) -> tuple[list[np.ndarray], list[Stage], dict[str, Stage]]:
    """run(), with which larger stage ran in the place of one."""

    def with_arrays(stage: Stage, raw: list[Any]) -> list[Any]:
        return [raw_of(value) for value in execute(stage, [array_of(value) for value in raw])]

    results, path, larger = _core.run_stages(first, [raw_of(value) for value in inputs], with_arrays, *rooms)
    return [array_of(value) for value in results], path, larger


def ports_of(first: Stage) -> list[Port]:
    """The model's inputs; the key of its random numbers last, where it draws any."""
    from opentrn.model.compiled import Port

    module = Module(first.raw.module)
    names, _ = _core.graph.onnx_names(first.raw.module)
    arguments = module.functions[module.entry].arguments
    return [Port(name, row.element, row.shape) for name, row in zip(names, arguments, strict=True)]


def arguments_of(first: Stage, arrays: Sequence[Any], keys: RandomKeys | None = None) -> list[np.ndarray]:
    """An array for each port, checked as CompiledModel's: its shape and dtype. Raises InputError for a wrong number."""
    from opentrn.model.compiled import checked, given_of

    ports = ports_of(first)
    inputs = given_of(ports)
    if len(arrays) != len(inputs):
        raise InputError(
            f"the model takes {len(inputs)} inputs, {len(arrays)} were given", label="model.inputs"
        )
    given = [checked(array, port) for array, port in zip(arrays, inputs)]
    return given if len(ports) == len(inputs) else [*given, (keys or RandomKeys()).next()]


def _time_us(self: StagedTiming) -> float:
    """total_ns in microseconds."""
    return self.total_ns / 1e3


def _bound_by(self: StagedTiming) -> str | None:
    """Of the program that takes longest."""
    return self.longest.bound_by


def _assumptions(self: StagedTiming) -> list[str]:
    """What the times rest on beside the tables' facts: of the target, so the same for every program."""
    return self.longest.assumptions


def _band(self: StagedTiming) -> dict[str, Any]:
    """Where the measured time is expected: the programs' bands added up, as Timing.band gives one."""
    return json.loads(self.band_json())


def _basis(self: StagedTiming) -> dict[str, Any]:
    """What the time of the longest program rests on, as Timing.basis gives it."""
    return self.longest.basis


def _profile(self: StagedTiming) -> dict[str, Any]:
    """The profile of each program, under `stages`."""
    return json.loads(self.json())


def _repr(self: StagedTiming) -> str:
    return f"<timing {self.time_us:.2f} us in {len(self.parts)} stages>"


members.add(StagedTiming, {
    "time_us": property(_time_us), "bound_by": property(_bound_by), "assumptions": property(_assumptions),
    "band": property(_band), "basis": property(_basis), "profile": _profile, "__repr__": _repr,
})  # fmt: skip


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
        from opentrn.model.compiled import Port, given_of

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
        self._rooms = _core.StageRooms(target, _stated_options(self.facts))
        ports = ports_of(first)
        self.inputs = given_of(ports)
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
        results, self.path, self.padded = _run(
            self.first, given, self._execute, self._rooms, lambda stage: stage.key in self._compiled
        )
        return results

    def _execute(self, stage: Stage, values: list[np.ndarray]) -> list[np.ndarray]:
        program = self.program_of(stage)
        self.on_progress(f"computing stage {stage.number}")
        return program.run(values)

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
        return [number for number in self.first.control_inputs if number < len(self.inputs)]

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

    def compile_for(self, sizes: Mapping[str, Sequence[int]]) -> None:
        """Compiles the stages for these numbers of rows, by name. ValueError for a number that cannot be.

        A run with fewer rows takes the next larger of these programs where its padding is proved to reach nothing else.
        """
        self.take_rows(sizes)
        named = {name for name, _, _ in _core.graph.onnx_open_dimensions(self._attachments[0].path)} if sizes else ()
        for stage in _core.stages_ahead(self.first, self.rows, list(named)):
            self.program_of(stage)

    def take_rows(self, sizes: Mapping[str, Sequence[int]]) -> None:
        """Notes which numbers of rows are compiled ahead, by name."""
        self.rows = {name: sorted(given) for name, given in sizes.items()}
        self._rooms.set_sizes(self.rows)

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
            stages["files"] = {"model": shown(attachments[0].path), "sha256": _core.digest_of_files(attachments)}
            attachments = []
        _core.save_models(
            [program._loaded for _, program in rows], [stage.sizes for stage, _ in rows],
            self.facts | {"stages": json.dumps(stages)}, str(path), references, attachments,
        )  # fmt: skip
        return Path(path)


def open_model(path: str | Path, dimensions: Mapping[str, int]) -> tuple[Stage, list[Any]]:
    """The first stage of an ONNX file, and the file with the parts of others that its weights are."""
    files = _core.files_of_onnx(path)
    return _first_of(files, dimensions), files


def _first_of(files: Sequence[Any], dimensions: Mapping[str, int]) -> Stage:
    return _core.first_stage(_core.onnx_stages_of(files, dict(dimensions)))


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
    if _core.digest_of_files(files) != kept["sha256"]:
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
    model.take_rows(stages["rows"])
    return model


def _stated_options(facts: Mapping[str, str]) -> dict[str, str]:
    """The compiler's options among the facts, as _core takes them."""
    kept = json.loads(facts["options"])
    return option_texts({name: value for name, value in kept.items() if name != "dimensions"})


def compiler_of(facts: Mapping[str, str], cache: str | None = None) -> Callable[[Stage], CompiledModel]:
    """Compiles a stage with the options in `facts`. cache: the model's path, to keep what it compiles."""
    from opentrn.model.compiled import CompiledModel, through_cache

    kept, options = json.loads(facts["options"]), _stated_options(facts)
    target = facts["target"]

    def compile_it(stage: Stage) -> CompiledModel:
        loaded = _core.compile_graph(stage.raw.module, target, options)
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
    from opentrn.model.compiled import Coverage, checked

    ports = ports_of(first)
    numbers = {port.name: number for number, port in enumerate(ports)}
    for name in inputs:
        if name not in numbers:
            raise InputError(
                f"the model has no input {name!r}; it has {', '.join(numbers)}", label="model.inputs"
            )
    known = {numbers[name]: raw_of(checked(array, ports[numbers[name]])) for name, array in inputs.items()}
    rows, notes = _core.coverage_of_stages(first, dict(dimensions), known)
    return [Coverage(*row) for row in rows], notes
