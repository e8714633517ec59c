"""Whole models on a simulated NeuronCore: compile, run, time.

    model = opentrn.compile("model.mlir", target="trn2")
    outputs = model(x)                 # values, in the device's number formats
    print(model.time().text())         # predicted time, and where it goes

A model is StableHLO text or bytecode, an HLO protocol buffer, ONNX, or a program of torch.export. It is compiled
ahead of time into the instruction programs that NKI kernels become.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast, overload

import numpy as np

from opentrn import _core, graph
from opentrn.base import hooks, notices
from opentrn.base.files import shown
from opentrn.errors import InputError, InputTypeError, MissingModule
from opentrn.graph import DTYPES
from opentrn.kernel.run import Timing, _settings, require_iterations
from opentrn.model import pt2
from opentrn.model.model import Model
from opentrn.model.random_key import PORT, RandomKeys
from opentrn.settings import environment
from opentrn.settings.compiler_options import PROGRAM_OPTIONS, CompilerOptions, option_texts, takes_options

if TYPE_CHECKING:
    from opentrn.model.buckets import BucketedModel
    from opentrn.model.sharded import Mesh, ShardedModel, Shardings
    from opentrn.model.stages import Stage, StagedModel

__all__ = ["CompiledModel", "Coverage", "Port", "compile", "coverage", "load", "prepare"]


# A model with less than this of one value has a reason for it: masks, zeros to add to.
_SPLAT_BYTES_TOLD = 8 << 20


@dataclass(frozen=True)
class Port:
    """An input or a result of a model: its name in the program, its type and shape."""

    name: str
    element: str
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type; KeyError for an element type that NumPy and ml_dtypes do not have."""
        return DTYPES[self.element]


def ports_of(rows: Iterable[Sequence[Any]]) -> list[Port]:
    """Of rows of name, element and shape; what is behind them is something else's."""
    return [Port(name, element, tuple(shape)) for name, element, shape, *_ in rows]


def given_of(ports: Iterable[Port]) -> list[Port]:
    """Those that a caller gives: all but the key of random numbers."""
    return [port for port in ports if port.name != PORT]


@dataclass(frozen=True)
class Coverage:
    """How often a model has an op, and how many of them no device kernel takes.

    `emulated`: done as other ops, or in the 32 bits that stand for the model's 64. `flops`: of the model's
    arithmetic. `example`, `file`, `line`, `name`: types and place of the first unsupported one, else of the first
    emulated one, else of the first.
    """

    op: str
    count: int
    unsupported: int
    example: str
    emulated: int = 0
    flops: float = 0.0
    file: str = ""
    line: int = 0
    name: str = ""

    @property
    def supported(self) -> int:
        """As the model states them, by a device kernel."""
        return self.count - self.unsupported - self.emulated

    @property
    def place(self) -> str:
        """The framework's name of the example, else its line."""
        return _core.place_text(self.file, self.line, self.name)


@dataclass(frozen=True)
class HostOp:
    """Ops of a model that no device kernel takes: the host's evaluator does them between the device's kernels.

    `flops` is of the model's arithmetic; `bytes` go to the host and back in an inference (in a loop: in an iteration).
    """

    ops: str
    result: str
    file: str
    line: int
    name: str
    flops: float
    bytes: int

    @property
    def place(self) -> str:
        """The framework's name of the first one, else its line."""
        return _core.place_text(self.file, self.line, self.name)


@dataclass(frozen=True)
class HostOps:
    """What of a model the host does, and its shares: of the model's flops, and of the bytes that move to and from HBM.

    The predicted time of a model leaves the host's out: how long it takes is not modelled.
    """

    calls: tuple[HostOp, ...]
    flops_share: float
    bytes_share: float

    def text(self) -> str:
        """A line for each, and the shares; empty without any."""
        return _core.host_text(list(map(astuple, self.calls)), self.flops_share, self.bytes_share)


def tell_host_ops(model: CompiledModel | StagedModel) -> None:
    """What the host does, and what is computed in fewer bits than stated, on stderr: never a silent matter.

    Constants of one value too.
    """
    if text := model.host_ops.text():
        print(f"opentrn: {text}", file=sys.stderr)
    notices.tell_narrowing("the model", model.narrowing)
    splat = getattr(model, "splat_bytes", 0)
    if splat > max(_SPLAT_BYTES_TOLD, model.constant_bytes):
        print(
            f"opentrn: constants of {_core.size_text(splat)} are one value each (they are filled arrays of the model, "
            "or its weights are missing): every run makes them on the device, and predicted times include that",
            file=sys.stderr,
        )


class CompiledModel(Model):
    """A model compiled for one NeuronCore; compile() makes it."""

    def __init__(self, loaded: Any, target: str, facts: Mapping[str, str] | None = None) -> None:
        self._loaded = loaded
        self.target = target
        self.facts = dict(facts or {})
        if loaded.narrowing:  # a file has it among its facts
            self.facts["narrowing"] = loaded.narrowing
        self.rounds_stochastically = False
        if json.loads(self.facts.get("options", "{}")).get("enable_stochastic_rounding"):
            self.round_stochastically()
        self.cached: str | None = None  # "hit", "miss", or "not kept" where the cache cannot be written
        self.ports = ports_of(loaded.inputs)
        self.inputs = given_of(self.ports)
        self.random_keys = RandomKeys()
        self.outputs = ports_of(loaded.outputs)

    @property
    def programs(self) -> list[tuple[dict[str, int], CompiledModel]]:
        """Itself: it has one program."""
        return [({}, self)]

    @property
    def control_inputs(self) -> list[int]:
        """Numbers of the inputs that decide what is computed: which branch is taken, how often a loop runs.

        Unknown, and none, of a file that an earlier version wrote.
        """
        kept = self.facts.get("control_inputs")
        numbers = json.loads(kept) if kept else self._loaded.control_inputs
        return [number for number in numbers if number < len(self.inputs)]

    @property
    def splat_bytes(self) -> int:
        """Bytes that large constants of one value would take: no memory holds them, every run makes them."""
        return int(self.facts.get("splat_bytes", self._loaded.splat_bytes))

    @property
    def instruction_count(self) -> int:
        """Instructions of the program, as recorded."""
        return self._loaded.instruction_count

    def __call__(self, *arrays: Any) -> list[np.ndarray]:
        """The values of one inference.

        arrays: one per input, of its shape; converted to its type where NumPy converts safely.
        Raises ValueError for a wrong number or shape, TypeError for a type that does not convert.
        """
        return self.run(self.with_random_key(arrays))

    @property
    def draws_random_numbers(self) -> bool:
        """Whether runs differ because operators of an ONNX model draw numbers without a seed of their own."""
        return len(self.ports) > len(self.inputs)

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """As a call, with an array for each of `ports` in its shape and dtype, the key of random numbers too.

        Results have the shapes and dtypes of `outputs`.
        """
        raw = [_bytes_of(array, port) for array, port in zip(arrays, self.ports, strict=True)]
        return [
            np.frombuffer(data, dtype=port.dtype).reshape(port.shape)
            for data, port in zip(self._loaded.run(raw), self.outputs)
        ]

    def round_stochastically(self, seed: int | None = 0) -> None:
        """Engines round fp32 to narrower floats stochastically from now on, as with NEURON_RT_STOCHASTIC_ROUNDING_EN=1.

        The same seed and number of the call since give the same bits. None: to nearest even again.
        """
        self.rounds_stochastically = seed is not None
        self._loaded.set_stochastic_rounding(seed)

    def time(
        self, overrides: Mapping[str, Any] | Iterable[str] = (), *, loop_iterations: int | None = None
    ) -> Timing:
        """The predicted time of one inference. overrides: table values to change, as for opentrn.run.

        Loops whose bounds depend on values run as often as in the last call of the model; before the first one
        loop_iterations says how often (a branch at most once), and ValueError is raised without it.
        """
        require_iterations(loop_iterations)
        return self._loaded.time(_settings(overrides), loop_iterations)

    def save(self, path: str | Path, *, weights: str = "copy") -> Path:
        """Write the model as one .neuron file: program, constants, inputs and outputs, table of ops.

        weights: "copy" them into the file, or "reference" those that lie in an ONNX model or beside it: the file is
        then small, and loading it raises ValueError once that model is gone or changed.
        """
        _core.save_models([self._loaded], [{}], self.facts, str(path), _references(weights))
        return Path(path)

    def keep(self, entry: Path, facts: Mapping[str, str]) -> None:
        """Write the cache's entry, which refers to weights that lie in files. OSError or ValueError where it cannot."""
        _core.save_models([self._loaded], [{}], facts, str(entry), True, permissions=_core.CACHE_PERMISSIONS)

    @property
    def constant_bytes(self) -> int:
        """Bytes of constants on the device."""
        return self._loaded.constant_bytes

    @property
    def passes(self) -> dict[str, int]:
        """How much the compiler's passes changed: casts added, ops simplified, folded and shared."""
        return json.loads(self.facts["passes"]) if "passes" in self.facts else dict(self._loaded.passes)

    @property
    def narrowing(self) -> str:
        """What of the model is stated in 64 bits and computed in 32, in words; empty where that cannot matter."""
        return self.facts.get("narrowing", "")

    @property
    def host_ops(self) -> HostOps:
        """What the host does, because no device kernel takes it; nothing with compile(..., strict=True)."""
        rows, flops_share, bytes_share = self._loaded.host_ops
        return HostOps(tuple(HostOp(*row) for row in rows), flops_share, bytes_share)

    def program_text(self) -> str:
        """The program, one instruction per line."""
        return self._loaded.listing()


@overload
def compile(
    source: str | Path | graph.Module | Any,
    *,
    target: str | None = None,
    dimensions: Mapping[str, int | Sequence[int]] | None = None,
    strict: bool = False,
    cache: bool = False,
    mesh: None = None,
    shardings: None = None,
    **options: Any,
) -> CompiledModel | BucketedModel | StagedModel: ...


@overload
def compile(
    source: str | Path | graph.Module | Any,
    *,
    target: str | None = None,
    dimensions: Mapping[str, int | Sequence[int]] | None = None,
    strict: bool = False,
    cache: bool = False,
    mesh: Mesh,
    shardings: Shardings | None = None,
    **options: Any,
) -> ShardedModel: ...


@takes_options((*PROGRAM_OPTIONS, "enable_stochastic_rounding"))
def compile(
    source: str | Path | graph.Module | Any,
    *,
    target: str | None = None,
    dimensions: Mapping[str, int | Sequence[int]] | None = None,
    strict: bool = False,
    cache: bool = False,
    mesh: Mesh | None = None,
    shardings: Shardings | None = None,
    **options: Any,
) -> CompiledModel | BucketedModel | StagedModel | ShardedModel:
    """Compile a model for one NeuronCore of `target`; None: of NEURON_PLATFORM_TARGET_OVERRIDE, else of trn2.

    source: a path to StableHLO text or bytecode, an HLO protocol buffer, an ONNX model or a program that torch.export
    saved (.pt2); or such a program, StableHLO text itself, or a module of opentrn.graph. dimensions: sizes of the
    symbolic dimensions of an ONNX model, {"batch": 1}, or of an exported program; several sizes of an ONNX model's,
    {"batch": [1, 8]}, give a BucketedModel (opentrn.model.buckets). An ONNX model whose shapes depend on data gives a
    StagedModel (opentrn.model.stages); `dimensions` may then name numbers of rows to compile for ahead of time.
    optlevel: 1 to 3 (what they mean: docs/models_reference.md).
    auto_cast: which fp32 operations are computed in auto_cast_type: "none", "matmult" or "all"; auto_cast_type:
    "bf16", "fp16", "tf32" or "fp8_e4m3". weight_dtype: how constant operands of products are kept: "none" (as the
    model has them), "int8", "fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2", "mxfp8" or "mxfp4". weight_sparsity: "none" or a
    pattern, "2:4": products of 16 bits with weights that obey it are sparse ones; prune_weights: all weights are
    made to. `passes` of the result says which were. enable_stochastic_rounding: how the model's engines round when
    it is called (CompiledModel.round_stochastically), now and when its file is loaded. strict: refuse what no
    device kernel takes; else the host does it (CompiledModel.host_ops). cache: keep compiled models in a folder
    and take what is there (opentrn.model.cache); `cached` of the result says which. mesh: axes of several NeuronCores,
    "dp=2,tp=4" or {"dp": 2, "tp": 4}; shardings: how tensors lie over them, {"layers.*.wq": "-,tp"}: both give a
    ShardedModel (opentrn.model.sharded). Raises ValueError for a malformed
    model, an unknown target or option, NotModelled for an op that neither a device kernel nor the host can do, or with
    strict for one without a device kernel, by name and with its place in the model.
    """
    given = asdict(CompilerOptions(**options)) | {"strict": strict}
    options = option_texts(given)
    target = environment.target(target)
    if mesh is not None or shardings is not None:
        return _sharded(source, target, dimensions, given, cache, mesh, shardings)
    exported = _exported(source, dimensions)
    if exported is not None:
        name = shown(source) if isinstance(source, (str, Path)) else "<exported program>"
        source, dimensions = exported, None
    if isinstance(source, graph.Module):
        facts = {"target": target, "options": json.dumps(given)}
        compiled = CompiledModel(_core.compile_graph(source._raw, target, options), target, facts)
        tell_host_ops(compiled)
        return compiled
    from opentrn.model import buckets

    lists, several = buckets.sizes_given(dimensions)

    def one(sizes: Mapping[str, int]) -> CompiledModel:
        kept = {"dimensions": dict(sizes), **given}
        facts = {
            "source": name if exported is not None else shown(_read(source)[1]),
            "target": target,
            "options": json.dumps(kept),
        }
        if cache:
            return through_cache(source, facts, lambda: _compile(source, target, sizes, options, facts))
        return _compile(source, target, sizes, options, facts)

    try:
        if not several:
            compiled = one(buckets.first_of(lists))
            tell_host_ops(compiled)
            return compiled
        model = buckets.compile_buckets(source, lists, one, target, options)
    except _NeedsStages as needed:
        staged = _in_stages(source, needed, lists, {"target": target, "given": given, "cache": cache})
        tell_host_ops(staged)
        return staged
    tell_host_ops(model.buckets[0][1])
    if cache:
        found = {part.cached for _, part in model.buckets}
        model.cached = found.pop() if len(found) == 1 else "miss"
    return model


def _sharded(
    source: Any,
    target: str,
    dimensions: Mapping[str, int | Sequence[int]] | None,
    given: Mapping[str, Any],
    cache: bool,
    mesh: Mesh | None,
    shardings: Shardings | None,
) -> ShardedModel:
    """compile() for several NeuronCores."""
    from opentrn import __version__
    from opentrn.model import buckets, sharded

    if mesh is None:
        raise InputError("shardings without a mesh", label="spmd.mesh", hint='mesh="tp=4"')
    words, annotations = sharded.mesh_text(mesh), sharded.annotations_of(shardings)
    options = option_texts(given)
    exported = _exported(source, dimensions, names=True, mesh=words)
    noted = {"mesh": words, "shardings": annotations, **given}
    facts = {"compiler": f"opentrn {__version__}", "target": target, "options": json.dumps(noted)}
    if isinstance(source, graph.Module):
        loaded = _core.shard_graph(source._raw, target, options, words, annotations)
        return sharded.ShardedModel(loaded, target, words, facts)
    lists, several = buckets.sizes_given(dimensions if exported is None else None)
    if several:
        raise InputError("a model on a mesh has one size of each dimension", label="import.dimension")
    text, path = (exported, "<exported program>") if exported is not None else _read(source)
    if text is None and _core.is_model_file(path):
        raise InputError(
            f"{path} is compiled for one NeuronCore", label="spmd.source", hint="give the model it was made of"
        )
    sizes = buckets.first_of(lists)
    facts |= {"source": shown(path), "options": json.dumps({"dimensions": sizes, **noted})}

    def compile_it() -> ShardedModel:
        loaded = _core.shard_model(text, path, target, sizes, options, words, annotations)
        return sharded.ShardedModel(loaded, target, words, facts)

    if not cache:
        return compile_it()
    return _through_cache(text, path, _logical_cores(), facts, compile_it)


def _logical_cores() -> dict[str, Any]:
    """How many physical cores the machine's logical ones have, where that is said: what they compute, and their HBM."""
    cores = os.environ.get("NEURON_LOGICAL_NC_CONFIG")
    return {} if cores is None else {"logical_cores": cores}


class _NeedsStages(Exception):
    """Shapes of an ONNX model depend on data: what its first stage is, which asks for them, and the files it is in."""

    def __init__(self, first: Stage, files: Sequence[Any], sizes: Mapping[str, int]) -> None:
        super().__init__("compile() takes the model in stages")
        self.first, self.files, self.sizes = first, files, sizes


def _in_stages(
    source: str | Path, found: _NeedsStages, lists: Mapping[str, Sequence[int]], how: Mapping[str, Any]
) -> StagedModel:
    """The model as a chain of programs."""
    from opentrn import __version__
    from opentrn.model import stages

    facts = {
        "compiler": f"opentrn {__version__}", "source": shown(source), "target": how["target"],
        "options": json.dumps({"dimensions": dict(found.sizes), **how["given"]}),
    }  # fmt: skip
    compiler = stages.compiler_of(facts, str(source) if how["cache"] else None)
    model = stages.StagedModel(found.first, compiler, found.files, how["target"], facts)
    model.compile_for(lists)
    kept = {program.cached for _, program in model.programs}
    model.cached = kept.pop() if len(kept) == 1 else "miss"
    return model


def _compile(
    source: str | Path,
    target: str,
    dimensions: Mapping[str, int] | None,
    options: dict[str, str],
    facts: dict[str, str],
) -> CompiledModel:
    from opentrn import __version__
    from opentrn.model import stages

    text, path = _read(source)
    if text is None and Path(path).suffix == ".onnx":  # imported once, whether or not it is compiled in stages
        first, files = stages.open_model(path, dimensions or {})
        if first.asks:
            raise _NeedsStages(first, files, dimensions or {})
        loaded = _core.compile_graph(first.raw.module, target, options)
    else:
        loaded = _core.compile_model(text, path, target, dict(dimensions or {}), options)
    noted = {"compiler": f"opentrn {__version__}", "passes": json.dumps(dict(loaded.passes))}
    noted |= {"control_inputs": json.dumps(loaded.control_inputs), "splat_bytes": str(loaded.splat_bytes)}
    return CompiledModel(loaded, target, facts | noted)


def text_through_cache(text: str, name: str, target: str, options: dict[str, str]) -> CompiledModel | ShardedModel:
    """The entry of the cache for a graph's text, or what compiling it for a logical core gives, its entry then.

    `options`: as _core.compile_for_logical_core takes them, whose faults these are. A model on a mesh where both
    physical cores compute; else its fact "one_core_because" says why one does.
    """
    facts = {"source": name, "target": target, "options": json.dumps(options, sort_keys=True)}
    stated = environment.read()
    cores = stated.physical_cores_per_core if stated.uses_both_cores else 1

    def compile_it() -> CompiledModel | ShardedModel:
        loaded, why = _core.compile_for_logical_core(text, name, target, options)
        noted = facts | ({"one_core_because": why} if why else {})
        if isinstance(loaded, _core.LoadedModel):
            return CompiledModel(loaded, target, noted)
        from opentrn.model import sharded

        return sharded.ShardedModel(loaded, target, "device=1,core=2", noted | {"narrowing": loaded.narrowing})

    return _through_cache(*_read(text), {} if cores == 1 else {"logical_cores": cores}, facts, compile_it)


def through_cache(
    source: str | Path, facts: dict[str, str], compile_it: Callable[[], CompiledModel]
) -> CompiledModel:
    """The entry of the cache, or what `compile_it` gives, which becomes the entry."""
    return _through_cache(*_read(source), _logical_cores(), facts, compile_it)


_M = TypeVar("_M", bound="CompiledModel | ShardedModel")


def _through_cache(
    text: str | None, path: str, machine: dict[str, Any], facts: dict[str, str], compile_it: Callable[[], _M]
) -> _M:
    """As through_cache(), of what _read() gives. machine: what else compiling depends on."""
    from opentrn.model import cache

    key = cache.key_of(text, path, {"target": facts["target"]} | json.loads(facts["options"]) | machine)
    kept = cache.kept()
    found, may_be_written, notice = _core.look_up_in_cache(kept, key)
    if notice:
        (_tell_of_cache if may_be_written else _tell_cache_is_not_used)(notice)
    if found is not None:
        noted, programs, attachments = found
        model = cast("_M", _made_of(noted, programs, attachments, str(path)))  # entries have one program
        model.cached = "hit"
        return model
    model = compile_it()
    model.cached = "miss" if may_be_written and _is_written(model, kept, key) else "not kept"
    return model


def _is_written(model: CompiledModel | ShardedModel, kept: _core.Cache, key: str) -> bool:
    entry = kept.path_of(key)
    try:
        kept.make_folder_of(entry)
        model.keep(entry, model.facts | {_core.CACHE_KEY_FACT: key})
    except (OSError, ValueError) as error:
        _tell_of_cache(f"the cache cannot be written: {error}".partition("\n")[0])
        return False
    return True


def _tell_of_cache(notice: str) -> None:
    print(f"opentrn: {notice}", file=sys.stderr)


_tell_cache_is_not_used = functools.cache(_tell_of_cache)


@takes_options(PROGRAM_OPTIONS)
def prepare(
    source: str | Path,
    *,
    target: str | None = None,
    dimensions: Mapping[str, int] | None = None,
    **options: Any,
) -> graph.Module:
    """The graph that kernels are made from: after the passes of compile() with the same options.

    Evaluating it gives the values that a device with exact arithmetic would.
    """
    texts = option_texts(CompilerOptions(**options).of_program())
    target = environment.target(target)
    return graph.parse(_core.prepared_text(*_read(source), target, dict(dimensions or {}), texts))


def load(path: str | Path) -> CompiledModel | BucketedModel | StagedModel | ShardedModel:
    """Read what the save() of a model wrote. Raises ValueError when the file is none or is damaged."""
    facts, programs, attachments = _core.load_models(str(path))
    return _made_of(facts, programs, attachments, str(path))


def _made_of(
    facts: dict[str, str], programs: Sequence[tuple[dict[str, int], Any]], attachments: Sequence[Any], path: str
) -> CompiledModel | BucketedModel | StagedModel | ShardedModel:
    """The model of a file's parts."""
    if "mesh" in facts:
        from opentrn.model import sharded

        return sharded.ShardedModel(programs[0][1], facts.get("target", "unknown"), facts["mesh"], facts)
    if "stages" in facts:
        from opentrn.model import stages

        return stages.from_file(facts, programs, attachments, path)
    if len(programs) > 1:
        from opentrn.model import buckets

        return buckets.from_file(facts, programs)
    _, loaded = programs[0]
    return CompiledModel(loaded, facts.get("target", f"NeuronCore-v{loaded.generation}"), facts)


def unknown_operators(source: str | Path) -> Any | None:
    """The report of an ONNX file with operators that are not imported; None of any other model."""
    if not _is_onnx_file(source):
        return None
    report = _core.unknown_operators_report(str(source))
    return None if report.complete else report


def _is_onnx_file(source: str | Path) -> bool:
    return "\n" not in str(source) and Path(source).suffix == ".onnx"


def coverage(
    source: str | Path,
    *,
    dimensions: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> list[Coverage]:
    """Which ops a model has and which of them have a device kernel, without compiling it.

    inputs: by name, of an ONNX model whose shapes or branches depend on them: it is looked at for these values.
    """
    return coverage_and_notes(source, dimensions=dimensions, inputs=inputs)[0]


def coverage_and_notes(
    source: str | Path,
    *,
    dimensions: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> tuple[list[Coverage], list[str]]:
    """coverage(), and what it assumes of a model whose shapes depend on data."""
    exported = _exported(source, dimensions)
    text, path = (exported, str(source)) if exported is not None else _read(source)
    sizes = {} if exported is not None else dict(dimensions or {})
    if text is None and Path(path).suffix == ".onnx":  # imported once, whether or not it has stages
        from opentrn.model import stages

        first, _ = stages.open_model(path, sizes)
        if first.asks:
            return stages.coverage(first, sizes, inputs or {})
        found = _core.coverage_of(first.raw.module)
    else:
        found = _core.coverage(text, path, sizes)
    rows = [Coverage(*row) for row in found]
    if inputs:
        return rows, ["the inputs change nothing: all of the model is looked at whatever they are"]
    return rows, []


def _references(weights: str) -> bool:
    if weights not in ("copy", "reference"):
        raise InputError(f"weights={weights!r} is unknown", label="compiler.option", hint="copy or reference")
    return weights == "reference"


def _exported(
    source: Any, dimensions: Mapping[str, Any] | None, names: bool = False, mesh: str | None = None
) -> str | None:
    """The text of an exported PyTorch program or its file; None for any other source.

    names: of tensors too. mesh: of the ranks that its collectives are between, in words.
    """
    if _is_text(source):
        return None
    if isinstance(source, (str, Path)):
        if Path(source).suffix != ".pt2":
            return None
        pt2.check(source)
    elif not type(source).__module__.startswith("torch.export"):
        return None
    try:
        export = hooks.ask("torch.export")
    except ModuleNotFoundError as error:
        raise MissingModule(
            f"{source} is PyTorch's, and {error.name} is not installed",
            name=error.name, label="package.absent", hint="pip install torch",
        ) from error
    from opentrn.model import buckets

    lists, several = buckets.sizes_given(dimensions)
    if several:
        raise InputError(
            "a PyTorch program is compiled for one size of each dimension; several are for ONNX models",
            label="import.dimension", hint="one size for each dimension",
        )
    sizes = buckets.first_of(lists)
    program = source if export.is_exported(source) else export.load(source)
    return export.to_text(program, sizes, names=names, mesh=mesh)


def _is_text(source: Any) -> TypeGuard[str]:
    """Whether a program was handed over, and no path of one."""
    return isinstance(source, str) and "\n" in source


def _read(source: str | Path) -> tuple[str | None, str]:
    """(text, "<text>") for a program handed over, (None, path) for a file."""
    if isinstance(source, str) and _is_text(source):
        return source, "<text>"
    text = _exported(source, None)
    return text, str(source) if isinstance(source, (str, Path)) else "<exported program>"


def checked(array: Any, port: Port) -> np.ndarray:
    """The array in the port's type. ValueError for another shape, TypeError for a type that does not convert."""
    given = np.asarray(array)
    if given.shape != port.shape:
        raise InputError(f"{port.name} takes shape {port.shape}, got {given.shape}", label="model.shape")
    if given.dtype != port.dtype:
        if not np.can_cast(given.dtype, port.dtype, casting="same_kind"):
            raise InputTypeError(
                f"{port.name} takes {port.element}, got {given.dtype}",
                label="model.type", hint="convert the array to the model's type",
            )
        given = given.astype(port.dtype)
    return given


def _bytes_of(array: Any, port: Port) -> np.ndarray:
    given = checked(array, port)
    if port.element in ("i2", "i4", "ui2", "ui4"):
        # A byte each, with the value extended; ml_dtypes leaves the upper bits of its own bytes zero.
        given = given.astype(np.uint8 if port.element.startswith("u") else np.int8)
    return np.ascontiguousarray(given).reshape(-1).view(np.uint8) if given.size else np.empty(0, np.uint8)
