"""Whole models on a simulated NeuronCore: compile, run, time.

    model = opentrn.compile("model.mlir", target="trn2")
    outputs = model(x)                 # values, in the device's number formats
    print(model.time().text())         # predicted time, and where it goes

A model is StableHLO text or bytecode, an HLO protocol buffer, ONNX, or a program of torch.export. It is compiled
ahead of time into the instruction programs that NKI kernels become.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opentrn import _core, graph
from opentrn._run import Timing, _settings, require_iterations
from opentrn.errors import NotModelled
from opentrn.graph import DTYPES
from opentrn.random_key import PORT, RandomKeys

if TYPE_CHECKING:
    from opentrn.buckets import BucketedModel
    from opentrn.stages import StagedModel

__all__ = ["CompiledModel", "Coverage", "Port", "compile", "coverage", "load", "prepare"]


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
        return self.name or (f"{Path(self.file).name}:{self.line}" if self.line else "")


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
        return self.name or (f"{Path(self.file).name}:{self.line}" if self.line else "")


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
        if not self.calls:
            return ""
        rows = [f"  {op.ops} {op.result}{f' at {op.place}' if op.place else ''}" for op in self.calls]
        return "\n".join(
            [
                f"{len(self.calls)} of the model's kernels are the host's: no device kernel takes",
                *rows,
                f"  {self.flops_share:.1%} of its flops, {self.bytes_share:.1%} of its bytes; "
                "predicted times leave them out, how long the host takes is unknown; --strict refuses them",
            ]
        )


def tell_host_ops(model: CompiledModel) -> None:
    """What the host does, on stderr: never a silent matter."""
    if text := model.host_ops.text():
        print(f"opentrn: {text}", file=sys.stderr)


class CompiledModel:
    """A model compiled for one NeuronCore; compile() makes it."""

    def __init__(self, loaded: Any, target: str, facts: Mapping[str, str] | None = None) -> None:
        self._loaded = loaded
        self.target = target
        self.facts = dict(facts or {})
        self.rounds_stochastically = False
        if json.loads(self.facts.get("options", "{}")).get("enable_stochastic_rounding"):
            self.round_stochastically()
        self.cached: str | None = None  # "hit", "miss", or "not kept" where the cache cannot be written
        self.ports = [Port(name, element, tuple(shape)) for name, element, shape in loaded.inputs]
        self.inputs = [port for port in self.ports if port.name != PORT]
        self.random_keys = RandomKeys()
        self.outputs = [Port(name, element, tuple(shape)) for name, element, shape in loaded.outputs]

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

    def seed(self, seed: int) -> None:
        """Of the random numbers drawn from now on; 0 before the first call of this.

        The same seed and number of the run since give the same numbers. ValueError beyond 32 bits.
        """
        self.random_keys = RandomKeys(seed)

    def with_random_key(self, arrays: Sequence[Any]) -> list[Any]:
        """One array per port: the inputs, and the next run's key of random numbers. ValueError for a wrong number."""
        if len(arrays) != len(self.inputs):
            raise ValueError(f"the model takes {len(self.inputs)} inputs, {len(arrays)} were given")
        given = iter(arrays)
        return [self.random_keys.next() if port.name == PORT else next(given) for port in self.ports]

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """As a call, with an array for each of `ports`, the key of random numbers too."""
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

    @property
    def constant_bytes(self) -> int:
        """Bytes of constants on the device."""
        return self._loaded.constant_bytes

    @property
    def passes(self) -> dict[str, int]:
        """How much the compiler's passes changed: casts added, ops simplified, folded and shared."""
        return json.loads(self.facts["passes"]) if "passes" in self.facts else dict(self._loaded.passes)

    @property
    def host_ops(self) -> HostOps:
        """What the host does, because no device kernel takes it; nothing with compile(..., strict=True)."""
        rows, flops, memory = self._loaded.host_ops
        calls = tuple(HostOp(*row) for row in rows)
        return HostOps(
            calls,
            sum(op.flops for op in calls) / flops if flops else 0.0,
            sum(op.bytes for op in calls) / memory if memory else 0.0,
        )

    def program_text(self) -> str:
        """The program, one instruction per line."""
        return self._loaded.listing()


def compile(
    source: str | Path | graph.Module | Any,
    *,
    target: str = "trn2",
    dimensions: Mapping[str, int | Sequence[int]] | None = None,
    optlevel: int = 2,
    auto_cast: str = "none",
    auto_cast_type: str = "bf16",
    weight_dtype: str = "none",
    weight_sparsity: str = "none",
    prune_weights: bool = False,
    enable_stochastic_rounding: bool = False,
    strict: bool = False,
    cache: bool = False,
) -> CompiledModel | BucketedModel | StagedModel:
    """Compile a model for one NeuronCore of `target`.

    source: a path to StableHLO text or bytecode, an HLO protocol buffer, an ONNX model or a program that torch.export
    saved (.pt2); or such a program, StableHLO text itself, or a module of opentrn.graph. dimensions: sizes of the
    symbolic dimensions of an ONNX model, {"batch": 1}, or of an exported program; several sizes of an ONNX model's,
    {"batch": [1, 8]}, give a BucketedModel (opentrn.buckets). An ONNX model whose shapes depend on data gives a
    StagedModel (opentrn.stages); `dimensions` may then name numbers of rows to compile for ahead of time.
    optlevel: 1 to 3 (what they mean: docs/models.md).
    auto_cast: which fp32 operations are computed in auto_cast_type: "none", "matmult" or "all"; auto_cast_type:
    "bf16", "fp16", "tf32" or "fp8_e4m3". weight_dtype: how constant operands of products are kept: "none" (as the
    model has them), "int8", "fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2", "mxfp8" or "mxfp4". weight_sparsity: "none" or a
    pattern, "2:4": products of 16 bits with weights that obey it are sparse ones; prune_weights: all weights are
    made to. `passes` of the result says which were. enable_stochastic_rounding: how the model's engines round when
    it is called (CompiledModel.round_stochastically), now and when its file is loaded. strict: refuse what no
    device kernel takes; else the host does it (CompiledModel.host_ops). cache: keep compiled models in a folder
    and take what is there (opentrn.cache); `cached` of the result says which. Raises ValueError for a malformed
    model, an unknown target or option, NotModelled for an op that neither a device kernel nor the host can do, or with
    strict for one without a device kernel, by name and with its place in the model.
    """
    given = {
        "optlevel": optlevel, "auto_cast": auto_cast, "auto_cast_type": auto_cast_type, "weight_dtype": weight_dtype,
        "weight_sparsity": weight_sparsity, "prune_weights": prune_weights,
        "enable_stochastic_rounding": enable_stochastic_rounding, "strict": strict,
    }  # fmt: skip
    options = compiler_options(**given)
    exported = _exported(source, dimensions)
    if exported is not None:
        name = str(source) if isinstance(source, (str, Path)) else "<exported program>"
        source, dimensions = exported, None
    if isinstance(source, graph.Module):
        facts = {"target": target, "options": json.dumps(given)}
        compiled = CompiledModel(_core.compile_graph(source._raw, target, options), target, facts)
        tell_host_ops(compiled)
        return compiled
    from opentrn import buckets

    lists, several = buckets.sizes_given(dimensions)

    def one(sizes: Mapping[str, int]) -> CompiledModel:
        kept = {"dimensions": dict(sizes), **given}
        facts = {
            "source": name if exported is not None else _read(source)[1],
            "target": target,
            "options": json.dumps(kept),
        }
        if cache:
            return through_cache(source, facts, lambda: _compile(source, target, sizes, options, facts))
        return _compile(source, target, sizes, options, facts)

    try:
        if not several:
            compiled = one({name: sizes[0] for name, sizes in lists.items()})
            tell_host_ops(compiled)
            return compiled
        model = buckets.compile_buckets(source, lists, one, target, options)
    except (NotModelled, ValueError) as error:
        staged = _in_stages(source, error, lists, {"target": target, "given": given, "cache": cache})
        tell_host_ops(staged)
        return staged
    tell_host_ops(model.buckets[0][1])
    if cache:
        found = {part.cached for _, part in model.buckets}
        model.cached = found.pop() if len(found) == 1 else "miss"
    return model


def _in_stages(
    source: str | Path, error: Exception, lists: Mapping[str, Sequence[int]], how: Mapping[str, Any]
) -> StagedModel:
    """The model as a chain of programs, if shapes that depend on data are why the importer refused it; else raises."""
    from opentrn import __version__, stages

    if "[onnx." not in str(error) and "is no dimension of the model's inputs" not in str(error):
        raise error
    if not isinstance(source, (str, Path)) or Path(source).suffix != ".onnx" or "\n" in str(source):
        raise error
    sizes = {name: given[0] for name, given in lists.items()}
    first, files = stages.open_model(source, sizes)
    if not first.asks:
        raise error
    facts = {
        "compiler": f"opentrn {__version__}", "source": str(source), "target": how["target"],
        "options": json.dumps({"dimensions": sizes, **how["given"]}),
    }  # fmt: skip
    compiler = stages.compiler_of(facts, str(source) if how["cache"] else None)
    model = stages.StagedModel(first, compiler, files, how["target"], facts)
    model.compile_for(lists)
    found = {program.cached for _, program in model.programs}
    model.cached = found.pop() if len(found) == 1 else "miss"
    return model


def _compile(
    source: str | Path,
    target: str,
    dimensions: Mapping[str, int] | None,
    options: dict[str, str],
    facts: dict[str, str],
) -> CompiledModel:
    from opentrn import __version__

    loaded = _core.compile_model(*_read(source), target, dict(dimensions or {}), options)
    noted = {"compiler": f"opentrn {__version__}", "passes": json.dumps(dict(loaded.passes))}
    return CompiledModel(loaded, target, facts | noted)


def through_cache(
    source: str | Path, facts: dict[str, str], compile_it: Callable[[], CompiledModel]
) -> CompiledModel:
    """The entry of the cache, or what `compile_it` gives, which becomes the entry."""
    from opentrn import cache

    text, path = _read(source)
    entry = cache.path_of(
        cache.key_of(text, path, {"target": facts["target"]} | json.loads(facts["options"]))
    )
    if entry.exists():
        try:
            model = load(entry)
        except ValueError as error:  # damaged, or the weights it refers to are gone: not the user's fault
            print(f"opentrn: compiled again: {error}".partition("\n")[0], file=sys.stderr)
        else:
            cache.touch(entry)
            model.cached = "hit"
            return model
    model = compile_it()
    model.cached = "miss"
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        _core.save_models([model._loaded], [{}], model.facts, str(entry), True)
    except (OSError, ValueError) as error:
        print(f"opentrn: the cache cannot be written: {error}".partition("\n")[0], file=sys.stderr)
        model.cached = "not kept"
    return model


def prepare(
    source: str | Path,
    *,
    target: str = "trn2",
    dimensions: Mapping[str, int] | None = None,
    optlevel: int = 2,
    auto_cast: str = "none",
    auto_cast_type: str = "bf16",
    weight_dtype: str = "none",
    weight_sparsity: str = "none",
    prune_weights: bool = False,
) -> graph.Module:
    """The graph that kernels are made from: after the passes of compile() with the same options.

    Evaluating it gives the values that a device with exact arithmetic would.
    """
    options = compiler_options(
        optlevel=optlevel, auto_cast=auto_cast, auto_cast_type=auto_cast_type, weight_dtype=weight_dtype,
        weight_sparsity=weight_sparsity, prune_weights=prune_weights,
    )  # fmt: skip
    return graph.parse(_core.prepared_text(*_read(source), target, dict(dimensions or {}), options))


def compiler_options(**given: str | float) -> dict[str, str]:
    """Options as the compiler takes them (src/compiler/options.h): its names, and values as text."""
    return {
        name.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }


def load(path: str | Path) -> CompiledModel | BucketedModel | StagedModel:
    """Read what CompiledModel.save() wrote. Raises ValueError when the file is none or is damaged."""
    facts, programs, attachments = _core.load_models(str(path))
    if "stages" in facts:
        from opentrn import stages

        return stages.from_file(facts, programs, attachments, str(path))
    if len(programs) > 1:
        from opentrn import buckets

        return buckets.from_file(facts, programs)
    _, loaded = programs[0]
    return CompiledModel(loaded, facts.get("target", f"NeuronCore-v{loaded.generation}"), facts)


def coverage(source: str | Path, *, dimensions: Mapping[str, int] | None = None) -> list[Coverage]:
    """Which ops a model has and which of them have a device kernel, without compiling it."""
    return coverage_and_notes(source, dimensions=dimensions)[0]


def coverage_and_notes(
    source: str | Path, *, dimensions: Mapping[str, int] | None = None
) -> tuple[list[Coverage], list[str]]:
    """coverage(), and what it assumes of a model whose shapes depend on data."""
    try:
        return [Coverage(*row) for row in _core.coverage(*_read(source), dict(dimensions or {}))], []
    except (NotModelled, ValueError) as error:
        if "[onnx." not in str(error) or Path(source).suffix != ".onnx":
            raise
        from opentrn import stages

        first, _ = stages.open_model(source, dict(dimensions or {}))
        if not first.asks:
            raise
        return stages.coverage(source, dict(dimensions or {}))


def _references(weights: str) -> bool:
    if weights not in ("copy", "reference"):
        raise ValueError(f"weights={weights!r}: copy or reference")
    return weights == "reference"


def _exported(source: Any, dimensions: Mapping[str, Any] | None) -> str | None:
    """The text of an exported PyTorch program or its file; None for any other source."""
    if isinstance(source, str) and "\n" in source:
        return None
    if isinstance(source, (str, Path)):
        if Path(source).suffix != ".pt2":
            return None
    elif not type(source).__module__.startswith("torch.export"):
        return None
    try:
        from opentrn.torch import export
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{source} is PyTorch's, and {error.name} is not installed; pip install torch"
        ) from error
    from opentrn import buckets

    lists, several = buckets.sizes_given(dimensions)
    if several:
        raise ValueError(
            "a PyTorch program is compiled for one size of each dimension; several are for ONNX models"
        )
    sizes = {name: given[0] for name, given in lists.items()}
    return export.to_text(source, sizes) if export.is_exported(source) else export.text_of(source, sizes)


def _read(source: str | Path) -> tuple[str | None, str]:
    """(text, "<text>") for a program handed over, (None, path) for a file."""
    if isinstance(source, str) and "\n" in source:
        return source, "<text>"
    text = _exported(source, None)
    return text, str(source) if isinstance(source, (str, Path)) else "<exported program>"


def checked(array: Any, port: Port) -> np.ndarray:
    """The array in the port's type. ValueError for another shape, TypeError for a type that does not convert."""
    given = np.asarray(array)
    if given.shape != port.shape:
        raise ValueError(f"{port.name} takes shape {port.shape}, got {given.shape}")
    if given.dtype != port.dtype:
        if not np.can_cast(given.dtype, port.dtype, casting="same_kind"):
            raise TypeError(f"{port.name} takes {port.element}, got {given.dtype}")
        given = given.astype(port.dtype)
    return given


def _bytes_of(array: Any, port: Port) -> np.ndarray:
    given = checked(array, port)
    if port.element in ("i2", "i4", "ui2", "ui4"):
        # A byte each, with the value extended; ml_dtypes leaves the upper bits of its own bytes zero.
        given = given.astype(np.uint8 if port.element.startswith("u") else np.int8)
    return np.ascontiguousarray(given).reshape(-1).view(np.uint8) if given.size else np.empty(0, np.uint8)
