"""Models with open dimensions: one program per size, and the one that fits an inference is picked.

    model = opentrn.compile("model.onnx", dimensions={"batch": [1, 8, 32]})
    model(x)                    # x.shape[0] == 5: the program for 8, three rows of padding, results cut off

An inference of a size that no program has runs in the next larger one: inputs are padded with zeros at their
end, results are cut to the size. That is right only when the padding reaches nothing else, which is proved on
the graph (src/compiler/analysis/padding.h) when the model is compiled. Where it cannot be (attention over a padded
sequence), padding is refused unless `allow_padding` names the dimension: the model then masks it itself.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.errors import InputError
from opentrn.kernel.run import Timing
from opentrn.model.compiled import CompiledModel, Port, _read, _references
from opentrn.model.random_key import RandomKeys

__all__ = ["BucketedModel", "Dimension"]


@dataclass(frozen=True)
class Dimension:
    """An open dimension: the axes of inputs and results that have its size, as (port, axis).

    `mixing`: why padding it may change results, empty when it cannot.
    """

    name: str
    inputs: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, int], ...]
    mixing: str

    def size_of(self, ports: Sequence[Port]) -> int:
        """Its size in the program with these inputs."""
        port, axis = self.inputs[0]
        return ports[port].shape[axis]


class BucketedModel:
    """A model compiled for several sizes; compile() makes it when a dimension is given several."""

    def __init__(
        self,
        models: Sequence[tuple[dict[str, int], CompiledModel]],
        dimensions: Sequence[Dimension],
        facts: Mapping[str, str],
    ) -> None:
        self.buckets = sorted(models, key=lambda row: [row[0][name] for name in sorted(row[0])])
        self.dimensions = list(dimensions)
        self.facts = dict(facts)
        self.target = models[0][1].target
        self.cached: str | None = None
        self.seed(0)

    def seed(self, seed: int) -> None:
        """As CompiledModel.seed(), of all programs: runs are counted over all of them."""
        keys = RandomKeys(seed)
        for _, model in self.buckets:
            model.random_keys = keys

    def pick(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], CompiledModel]:
        """The smallest program that holds these sizes (by elements of the padded inputs). ValueError for none."""
        fitting = [
            (bucket, model)
            for bucket, model in self.buckets
            if all(bucket[name] >= size for name, size in sizes.items())
        ]
        if not fitting:
            held = "; ".join(
                ", ".join(f"{name}={size}" for name, size in bucket.items()) for bucket, _ in self.buckets
            )
            wanted = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise InputError(
                f"no program for {wanted}; compiled for {held}",
                label="model.size", hint="compile for these sizes too",
            )
        return min(fitting, key=lambda row: sum(int(np.prod(port.shape)) for port in row[1].inputs))

    def sizes_of(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The sizes of the open dimensions of these inputs. ValueError where two inputs disagree."""
        first = self.buckets[0][1]
        if len(arrays) != len(first.inputs):
            raise InputError(
                f"the model takes {len(first.inputs)} inputs, {len(arrays)} were given", label="model.inputs"
            )
        sizes: dict[str, int] = {}
        for dimension in self.dimensions:
            for port, axis in dimension.inputs:
                shape = np.shape(arrays[port])
                if len(shape) != len(first.inputs[port].shape):
                    raise InputError(
                        f"{first.inputs[port].name} has {len(first.inputs[port].shape)} dimensions, got "
                        f"{len(shape)}",
                        label="model.shape",
                    )
                if sizes.setdefault(dimension.name, shape[axis]) != shape[axis]:
                    raise InputError(
                        f"{dimension.name} is {sizes[dimension.name]} and, in {first.inputs[port].name}, "
                        f"{shape[axis]}",
                        label="model.size",
                    )
        return sizes

    def __call__(self, *arrays: Any, allow_padding: Iterable[str] = ()) -> list[np.ndarray]:
        """The values of one inference of any size up to the largest program's.

        allow_padding: dimensions that the model masks itself. Raises ValueError as CompiledModel does, for sizes
        that no program holds, and for padding that may change results.
        """
        sizes = self.sizes_of(arrays)
        bucket, model = self.pick(sizes)
        allowed = set(allow_padding)
        padded = [row for row in self.dimensions if bucket[row.name] != sizes[row.name]]
        for row in padded:
            if row.mixing and row.name not in allowed:
                raise InputError(
                    f"{row.name}={sizes[row.name]} would be padded to {bucket[row.name]}, and the padding may "
                    f"change results: {row.mixing}",
                    label="model.padding",
                    hint=f"compile for {row.name}={sizes[row.name]} too; or, if the model masks what is "
                    f"padded, --pad {row.name} (allow_padding=[{row.name!r}] in Python)",
                )
        given = [np.asarray(array) for array in arrays]
        for row in padded:
            for port, axis in row.inputs:
                width = [(0, 0)] * given[port].ndim
                width[axis] = (0, bucket[row.name] - sizes[row.name])
                given[port] = np.pad(given[port], width)
        results = model(*given)
        for row in padded:
            for port, axis in row.results:
                cut = [slice(None)] * results[port].ndim
                cut[axis] = slice(0, sizes[row.name])
                results[port] = results[port][tuple(cut)]
        return results

    def time(self, overrides: Any = (), *, sizes: Mapping[str, int] | None = None, **options: Any) -> Timing:
        """The predicted time of the program for `sizes`; of the largest without."""
        model = self.pick(sizes)[1] if sizes else self.buckets[-1][1]
        return model.time(overrides, **options)

    def save(self, path: str | Path, *, weights: str = "copy") -> Path:
        """Write all programs as one .neuron file; constants that are equal are in it once."""
        rows = [
            {"name": row.name, "inputs": row.inputs, "results": row.results, "mixing": row.mixing}
            for row in self.dimensions
        ]
        _core.save_models(
            [model._loaded for _, model in self.buckets], [bucket for bucket, _ in self.buckets],
            self.facts | {"open_dimensions": json.dumps(rows)}, str(path), _references(weights),
        )  # fmt: skip
        return Path(path)


def from_file(facts: dict[str, str], buckets: Sequence[tuple[dict[str, int], Any]]) -> BucketedModel:
    """What save() wrote. Raises ValueError when the facts do not fit the programs."""
    target = facts.get("target", f"NeuronCore-v{buckets[0][1].generation}")
    models = [(dict(sizes), CompiledModel(loaded, target, facts)) for sizes, loaded in buckets]
    try:
        rows = [
            Dimension(
                row["name"], tuple((p, a) for p, a in row["inputs"]), tuple((p, a) for p, a in row["results"]),
                row["mixing"],
            )
            for row in json.loads(facts["open_dimensions"])
        ]  # fmt: skip
        for (sizes, model), row in itertools.product(models, rows):
            if row.size_of(model.inputs) != sizes[row.name]:
                raise KeyError(row.name)
            for port, axis in row.results:
                model.outputs[port].shape[axis]
    except (KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
        raise InputError(
            f"the programs do not fit their table of open dimensions: {error!r}", label="model_file",
            hint="write the file again with `opentrn compile`",
        ) from error
    return BucketedModel(models, rows, facts)


def sizes_given(dimensions: Mapping[str, Any] | None) -> tuple[dict[str, list[int]], bool]:
    """({"batch": [1, 8]}, whether a dimension has several sizes). ValueError for a size that is none."""
    lists = {}
    for name, given in (dimensions or {}).items():
        sizes = [given] if isinstance(given, int | np.integer) else list(given)
        if not sizes or any(not isinstance(size, int | np.integer) or size < 1 for size in sizes):
            raise InputError(f"{name}: {given!r} is no list of sizes", label="model.size")
        lists[name] = sorted({int(size) for size in sizes})
    return lists, any(len(sizes) > 1 for sizes in lists.values())


def compile_buckets(
    source: str | Path,
    lists: Mapping[str, Sequence[int]],
    compile_one: Any,
    target: str,
    options: dict[str, str],
) -> BucketedModel:
    """One program per combination of sizes. `compile_one(sizes)` gives a CompiledModel."""
    names = list(lists)
    models = [
        (sizes := dict(zip(names, combination)), compile_one(sizes))
        for combination in itertools.product(*lists.values())
    ]
    largest = {name: lists[name][-1] for name in names}
    by_sizes = {tuple(sizes.items()): model for sizes, model in models}
    rows = []
    for name in (name for name in names if len(lists[name]) > 1):
        big = by_sizes[tuple(largest.items())]
        small = by_sizes[tuple((largest | {name: lists[name][0]}).items())]
        axes = _changed(big.inputs, small.inputs)
        if not axes:
            raise InputError(f"{name} is no dimension of the model's inputs", label="onnx.dimension")
        if any(big.inputs[port].shape[axis] != largest[name] for port, axis in axes):
            raise InputError(f"{name} is only part of the size of an input's dimension", label="onnx.dimension")
        mixing = ""
        for size in lists[name]:
            if size > 1 and not mixing:  # a program for 1 has no room for padding
                mixing = _mixing(source, largest | {name: size}, name, axes, target, options)
        results = [
            at
            for at in _changed(big.outputs, small.outputs)
            if big.outputs[at[0]].shape[at[1]] == largest[name]
        ]
        rows.append(Dimension(name, tuple(axes), tuple(results), mixing))
    facts = dict(models[0][1].facts)
    facts["options"] = json.dumps(json.loads(facts["options"]) | {"dimensions": dict(lists)})
    return BucketedModel(models, rows, facts)


def _changed(ports: Sequence[Port], others: Sequence[Port]) -> list[tuple[int, int]]:
    """The (port, axis) whose sizes are not those of `others`."""
    return [
        (port, axis)
        for port, (have, other) in enumerate(zip(ports, others))
        for axis, (size, less) in enumerate(zip(have.shape, other.shape))
        if size != less
    ]


def _mixing(
    source: str | Path,
    sizes: dict[str, int],
    name: str,
    axes: list[tuple[int, int]],
    target: str,
    options: dict[str, str],
) -> str:
    """Why a smaller `name` may not run in the program of `sizes`; "" when it may.

    That the graph of a smaller size is the leading part of this one's is seen on the next larger size: 1 has
    simplifications of its own.
    """
    graph = _core.prepare(*_read(source), target, sizes, options)
    _, mixing = _core.prove_padding(graph, axes)
    if mixing:
        return mixing
    larger = _core.prepare(*_read(source), target, sizes | {name: sizes[name] + 1}, options)
    return _core.difference_but_for_size(graph, larger)
