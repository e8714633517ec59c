"""Models with open dimensions: one program per size, and the one that fits an inference is picked.

    model = opentrn.compile("model.onnx", dimensions={"batch": [1, 8, 32]})
    model(x)                    # x.shape[0] == 5: the program for 8, three rows of padding, results cut off

An inference of a size that no program has runs in the next larger one: inputs are padded with zeros at their
end, results are cut to the size. That is right only when the padding reaches nothing else, which is proved on
the graph (src/compiler/analysis/padding.h) when the model is compiled. Where it cannot be (attention over a padded
sequence), padding is refused unless `allow_padding` names the dimension: the model then masks it itself. Which program
is taken, and what is padded and cut, is decided in src/model/buckets.h.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.errors import InputError
from opentrn.kernel.run import Timing
from opentrn.model.compiled import CompiledModel, Port, _read, _references
from opentrn.model.model import Model
from opentrn.model.random_key import RandomKeys

__all__ = ["BucketedModel"]

_Programs = Sequence[tuple[dict[str, int], CompiledModel]]


class BucketedModel(Model):
    """A model compiled for several sizes; compile() makes it when a dimension is given several."""

    def __init__(
        self, models: _Programs, dimensions: Sequence[_core.OpenDimension], facts: Mapping[str, str]
    ) -> None:
        self.buckets = sorted(models, key=lambda row: [row[0][name] for name in sorted(row[0])])
        self._table = _core.Buckets(
            _shapes(self.buckets), dimensions, [port.name for port in self.buckets[0][1].inputs]
        )
        self.facts = dict(facts)
        self.target = models[0][1].target
        self.cached: str | None = None
        self.seed(0)

    @property
    def dimensions(self) -> list[_core.OpenDimension]:
        """The open dimensions: the axes of inputs and results that have their size, and what padding would mix."""
        return self._table.dimensions

    @property
    def programs(self) -> list[tuple[dict[str, int], CompiledModel]]:
        """One for each combination of sizes."""
        return self.buckets

    def program_for(self, sizes: Mapping[str, int]) -> CompiledModel:
        """As pick(); without sizes the largest."""
        return self.pick(sizes)[1] if sizes else self.buckets[-1][1]

    @property
    def inputs(self) -> list[Port]:  # type: ignore[override]  # not settable here
        """Of the largest program."""
        return self.buckets[-1][1].inputs

    def inputs_for(self, sizes: Mapping[str, int]) -> list[Port]:
        """The largest program's, with these sizes in place of its own."""
        ports = list(self.inputs)
        for row in self.dimensions:
            for number, axis in row.inputs:
                shape = list(ports[number].shape)
                shape[axis] = sizes.get(row.name, shape[axis])
                ports[number] = replace(ports[number], shape=tuple(shape))
        return ports

    @property
    def control_inputs(self) -> list[int]:
        """Those of the largest program."""
        return self.buckets[-1][1].control_inputs

    def seed(self, seed: int) -> None:
        """As CompiledModel.seed(), of all programs: runs are counted over all of them."""
        keys = RandomKeys(seed)
        for _, model in self.buckets:
            model.random_keys = keys

    def pick(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], CompiledModel]:
        """The smallest program that holds these sizes (by elements of the padded inputs). ValueError for none."""
        return self.buckets[self._table.pick(dict(sizes))]

    def sizes_of(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The sizes of the open dimensions of these inputs. ValueError where two inputs disagree."""
        return self._table.sizes_of([np.shape(array) for array in arrays])

    def __call__(self, *arrays: Any, allow_padding: Iterable[str] = ()) -> list[np.ndarray]:
        """The values of one inference of any size up to the largest program's.

        allow_padding: dimensions that the model masks itself. Raises ValueError as CompiledModel does, for sizes
        that no program holds, and for padding that may change results.
        """
        given = [np.asarray(array) for array in arrays]
        program, padded, cut = self._table.fit([array.shape for array in given], set(allow_padding))
        for port, axis, size in padded:
            width = [(0, 0)] * given[port].ndim
            width[axis] = (0, size - given[port].shape[axis])
            given[port] = np.pad(given[port], width)
        results = self.buckets[program][1](*given)
        for port, axis, size in cut:
            results[port] = results[port][(slice(None),) * axis + (slice(0, size),)]
        return results

    def time(self, overrides: Any = (), *, sizes: Mapping[str, int] | None = None, **options: Any) -> Timing:
        """The predicted time of the program for `sizes`; of the largest without."""
        return self.program_for(sizes or {}).time(overrides, **options)

    def save(self, path: str | Path, *, weights: str = "copy") -> Path:
        """Write all programs as one .neuron file; constants that are equal are in it once."""
        _core.save_models(
            [model._loaded for _, model in self.buckets], [bucket for bucket, _ in self.buckets],
            self.facts | {"open_dimensions": _core.open_dimensions_text(self.dimensions)}, str(path),
            _references(weights),
        )  # fmt: skip
        return Path(path)


def _shapes(models: _Programs) -> list[tuple[dict[str, int], list[tuple[int, ...]], list[tuple[int, ...]]]]:
    """As _core.Buckets takes programs."""
    return [
        (sizes, [port.shape for port in model.inputs], [port.shape for port in model.outputs])
        for sizes, model in models
    ]


def from_file(facts: dict[str, str], buckets: Sequence[tuple[dict[str, int], Any]]) -> BucketedModel:
    """What save() wrote. Raises ValueError when the facts do not fit the programs."""
    target = facts.get("target", f"NeuronCore-v{buckets[0][1].generation}")
    models = [(dict(sizes), CompiledModel(loaded, target, facts)) for sizes, loaded in buckets]
    rows = _core.open_dimensions_from_text(facts.get("open_dimensions", ""))
    return BucketedModel(models, rows, facts)


def sizes_given(dimensions: Mapping[str, Any] | None) -> tuple[dict[str, list[int]], bool]:
    """({"batch": [1, 8]}, whether a dimension has several sizes). ValueError for a size that is none."""
    lists = {}
    for name, given in (dimensions or {}).items():
        sizes = [given] if isinstance(given, int | np.integer) else list(given)
        least = 0 if len(sizes) == 1 else 1  # several programs pad what they are given, and nothing is never padded
        if not sizes or any(not isinstance(size, int | np.integer) or size < least for size in sizes):
            raise InputError(f"{name}: {given!r} is not a list of sizes", label="model.size")
        lists[name] = sorted({int(size) for size in sizes})
    return lists, any(len(sizes) > 1 for sizes in lists.values())


def first_of(lists: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The size of each dimension, where each has one."""
    return {name: sizes[0] for name, sizes in lists.items()}


def compile_buckets(
    source: str | Path,
    lists: Mapping[str, Sequence[int]],
    compile_one: Any,
    target: str,
    options: dict[str, str],
) -> BucketedModel:
    """One program per combination of sizes. `compile_one(sizes)` gives a CompiledModel."""
    models = [(sizes, compile_one(sizes)) for sizes in _core.size_combinations(dict(lists))]
    rows = _core.open_dimensions(dict(lists), _shapes(models), *_read(source), target, options)
    facts = dict(models[0][1].facts)
    facts["options"] = json.dumps(json.loads(facts["options"]) | {"dimensions": dict(lists)})
    return BucketedModel(models, rows, facts)
