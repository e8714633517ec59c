"""A model on several simulated NeuronCores, cut by a mesh and a few annotations.

    model = opentrn.compile("model.onnx", mesh="tp=4", shardings={"layers.*.wq": "-,tp"})
    outputs = model(x)             # whole arrays in and out
    print(model.time().text())     # parts, collectives, and what of these nothing hides

The C++ core (src/spmd) propagates, cuts and runs; nothing is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.base.files import shown
from opentrn.errors import InputError, InputTypeError
from opentrn.model.compiled import CompiledModel, _bytes_of, given_of, ports_of
from opentrn.model.model import Model
from opentrn.model.random_key import RandomKeys

__all__ = ["ShardedModel", "ShardedTiming", "annotations_of", "mesh_text"]

Mesh = str | Mapping[str, int]
Shardings = str | Path | Mapping[str, str | Sequence[str | Sequence[str] | None]] | Iterable[str]


def mesh_text(mesh: Mesh) -> str:
    """A mesh in words, "dp=2,tp=4": of text that says it, or of a mapping from axes to numbers of devices."""
    if isinstance(mesh, str):
        return mesh
    if not isinstance(mesh, Mapping):
        raise InputTypeError(
            f"mesh is {mesh!r}; it is text or a mapping", label="spmd.mesh",
            hint='mesh="dp=2,tp=4" or {"dp": 2, "tp": 4}',
        )  # fmt: skip
    return ",".join(f"{name}={size}" for name, size in mesh.items())


def annotations_of(shardings: Shardings | None) -> list[str]:
    """Annotations as "NAME=AXES,AXES", in their order.

    shardings: such a text, or several; a mapping from names to "AXES,AXES" or to a sequence with an axis, axes or None
    for each dimension; "auto" alone, for OpenTrn to choose by predicted time; or a pathlib.Path to a file with one
    annotation on a line, # before a remark.
    """
    if shardings is None:
        return []
    if isinstance(shardings, Path):
        return _annotations_in(shardings)
    if isinstance(shardings, str):
        return [shardings]
    try:
        if isinstance(shardings, Mapping):
            return [f"{name}={dims if isinstance(dims, str) else _words(dims)}" for name, dims in shardings.items()]
        texts = list(shardings)
        if all(isinstance(text, str) for text in texts):
            return texts
    except TypeError:  # of what has no axes in it
        pass
    raise InputTypeError(
        f"shardings is {shardings!r}", label="spmd.annotation", hint='{"layers.*.wq": "-,tp"}, or ["layers.*.wq=-,tp"]'
    )


def _words(dims: Sequence[str | Sequence[str] | None]) -> str:
    return ",".join(axes if isinstance(axes, str) else "+".join(axes) if axes else "-" for axes in dims)


def _annotations_in(path: Path) -> list[str]:
    try:
        lines = _core.read_text_file(path, "spmd.annotation", "a file of annotations").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{shown(path)} is not text: {error}", label="spmd.annotation") from error
    return [text for line in lines if (text := line.partition("#")[0].strip())]


@dataclass(frozen=True)
class ShardedTiming:
    """The predicted time of one inference on all devices, which do the same at the same time.

    time_us: from the start to the end; None, with `why`, where it is not known. compute_us: of the parts, had they
    waited for nothing. collectives_us: some collective is under way; None where one has no known time. exposed_us: and
    no part goes on meanwhile, or is slower for it. band: of the parts' times. traffic: what the collectives did to the
    fabric (text(), json(), save_perfetto()); None without any.
    """

    devices: int
    time_us: float | None
    compute_us: float | None
    collectives_us: float | None
    exposed_us: float
    bound_by: str
    why: str
    tensor_flops: float
    hbm_bytes: float
    instructions: int
    band: str
    traffic: Any | None

    def text(self, lines: int = 8) -> str:
        """The sums, then collectives and links; at most `lines` rows of each."""
        if self.time_us is None:
            return f"predicted time: unknown on {self.devices} devices: {self.why}\n"
        rows = [f"predicted time: {self.time_us:.2f} us on {self.devices} devices, bound by {self.bound_by}"]
        rows.append(f"  parts of one device {self.compute_us:.2f} us, {self.instructions:,} instructions, "
                    f"{_core.size_text(self.hbm_bytes)} of HBM read and written ({self.band})")  # fmt: skip
        if self.collectives_us is None:
            rows.append("  collectives: unknown, and left out: no time is known for one of them")
        elif self.collectives_us > 0:
            rows.append(f"  collectives {self.collectives_us:.2f} us, {self.exposed_us:.2f} us of it exposed")
        else:
            rows.append("  no collectives")
        text = "\n".join(rows) + "\n"
        return text + self.traffic.text(lines) if self.traffic else text

    def profile(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        numbers = {name: value for name, value in vars(self).items() if name != "traffic"}
        return numbers | {"traffic": json.loads(self.traffic.json()) if self.traffic else None}


class ShardedModel(Model):
    """A model compiled for the devices of a mesh; compile(..., mesh=...) makes it."""

    is_sharded = True

    def __init__(self, loaded: Any, target: str, mesh: str, facts: Mapping[str, str] | None = None) -> None:
        self._loaded = loaded
        self.target = target
        self.mesh = mesh
        self.facts = dict(facts or {})
        self.cached: str | None = None  # as CompiledModel's
        self.devices = loaded.devices
        self.ports = ports_of(loaded.inputs)
        self.inputs = given_of(self.ports)
        self.outputs = ports_of(loaded.outputs)
        self.random_keys = RandomKeys()

    @property
    def programs(self) -> list[tuple[dict[str, int], CompiledModel]]:
        """None: what a device runs between two collectives is no model of its own."""
        return []

    @property
    def choice(self) -> str:
        """Which of its ways to cut a model OpenTrn took, under shardings="auto": "products by columns"; else empty."""
        return self._loaded.choice

    @property
    def shardings(self) -> dict[str, str]:
        """How inputs, results and weights that are cut lie, by name: axes by dimension, in the words of annotations."""
        rows = [*self._loaded.inputs, *self._loaded.weights, *self._loaded.outputs]
        return {name: words for name, _, _, words in rows if name}

    @property
    def control_inputs(self) -> list[int]:
        """Numbers of the inputs that decide what is computed: which branch is taken, how often a loop runs."""
        return [number for number in self._loaded.control_inputs if number < len(self.inputs)]

    @property
    def collectives(self) -> list[tuple[str, int, int]]:
        """Collectives of the program: name, how many stand in it, bytes that each device brings to them in all."""
        return list(self._loaded.collectives)

    @property
    def argument_bytes(self) -> int:
        """Bytes of inputs and cut weights that each device holds."""
        return self._loaded.argument_bytes

    @property
    def host_reason(self) -> str:
        """Why the host computes parts of the program for want of a device kernel; empty when the devices do all."""
        return self._loaded.host_reason

    def __call__(self, *arrays: Any) -> list[np.ndarray]:
        """The values of one inference: whole arrays, which the devices hold parts of.

        arrays: one per input, of its shape; converted to its type where NumPy converts safely.
        Raises ValueError for a wrong number or shape, TypeError for a type that does not convert.
        """
        whole = self.with_random_key(arrays)
        raw = [_bytes_of(array, port) for array, port in zip(whole, self.ports, strict=True)]
        return [
            np.frombuffer(data, dtype=port.dtype).reshape(port.shape)
            for data, port in zip(self._loaded.run(raw), self.outputs, strict=True)
        ]

    def time(self) -> ShardedTiming:
        """The predicted time of one inference, collectives on the fabric included.

        Loops whose trips depend on values run as often as in the last call; before the first one the time is unknown.
        """
        cost = self._loaded.cost()
        return ShardedTiming(
            devices=self.devices,
            time_us=cost["device_us"],
            compute_us=cost["compute_us"],
            collectives_us=cost["collectives_us"],
            exposed_us=cost["exposed_us"],
            bound_by=cost["bound_by"],
            why=cost["why"],
            tensor_flops=cost["tensor_flops"],
            hbm_bytes=cost["hbm_bytes"],
            instructions=cost["instructions"],
            band=self._loaded.band,
            traffic=self._loaded.traffic() if cost["device_us"] is not None else None,
        )

    def save(self, path: str | Path) -> Path:
        """Write the model as one .neuron file: the program with its collectives, its compiled parts, weights.

        Weights that are cut lie in it whole, once. Raises InputError where the file cannot be written, and NotModelled
        for a model of which no device computes anything.
        """
        self._loaded.save(self.facts, str(path))
        return Path(path)

    def keep(self, entry: Path, facts: Mapping[str, str]) -> None:
        """Write the cache's entry, weights and all. OSError or ValueError where it cannot."""
        self._loaded.save(dict(facts), str(entry), permissions=_core.CACHE_PERMISSIONS)

    def program_text(self) -> str:
        """What each device runs, as StableHLO with collectives."""
        return self._loaded.local_text()
