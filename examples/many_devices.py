"""The GPT of char_gpt.py trained on one device and on all of them, in three ways: the losses are the same.

    NEURON_RT_NUM_CORES=8 JAX_PLATFORMS=neuron python examples/many_devices.py

`data` spreads the batch, `tensor` the heads and the hidden layer, `sharded` the batch and every parameter and
momentum (ZeRO-3, as FSDP). Only the shardings of arguments differ; JAX's partitioner finds the collectives.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import numpy as np
from char_gpt import LICENCE, initial_parameters, step
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

MODES = ("single", "data", "tensor", "sharded")


def spec_of(mode: str, name: str, shape: tuple[int, ...], devices: int) -> P:
    """How a parameter is cut."""
    if mode == "tensor":
        return {"qkv": P(None, "d"), "up": P(None, "d"), "out": P("d", None), "down": P("d", None)}.get(
            name, P()
        )
    if mode == "sharded":
        cut = next((d for d, size in enumerate(shape) if size % devices == 0), None)
        return P(*("d" if d == cut else None for d in range(len(shape)))) if cut is not None else P()
    return P()


def losses(mode: str, text: str, o: argparse.Namespace) -> list[float]:
    devices = jax.devices()[: 1 if mode == "single" else o.devices]
    mesh = jax.make_mesh((len(devices),), ("d",), devices=devices, axis_types=(jax.sharding.AxisType.Auto,))
    letters = sorted(set(text))
    tokens = np.array([letters.index(letter) for letter in text], np.int32)

    def put(path, leaf: jax.Array) -> jax.Array:
        name = next((key.key for key in reversed(path) if hasattr(key, "key")), "")
        return jax.device_put(leaf, NamedSharding(mesh, spec_of(mode, name, leaf.shape, len(devices))))

    drawn = initial_parameters(jax.random.key(0), len(letters), o.width, o.layers, o.context)
    parameters = jax.tree_util.tree_map_with_path(put, jax.tree.map(np.asarray, drawn))
    momentum = jax.tree_util.tree_map_with_path(
        put, jax.tree.map(lambda p: np.zeros(p.shape, np.float32), drawn)
    )
    batch = NamedSharding(mesh, P("d") if mode in ("data", "sharded") else P())
    rng = np.random.default_rng(0)
    values = []
    for _ in range(o.steps):
        places = rng.integers(0, len(tokens) - o.context - 1, o.batch)
        x, y = (np.stack([tokens[p + i : p + i + o.context] for p in places]) for i in range(2))
        parameters, momentum, value = step(
            parameters, momentum, jax.device_put(x, batch), jax.device_put(y, batch), heads=o.heads
        )
        values.append(float(value))
    if mode == "sharded":
        part = parameters["blocks"][0]["up"].addressable_shards[0].data.shape
        assert np.prod(part) * len(devices) == parameters["blocks"][0]["up"].size
    return values


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--text", type=Path, default=LICENCE)
    o = parser.parse_args()
    text = o.text.read_text()
    for mode in o.modes.split(","):
        print(f"{mode:<8}" + " ".join(f"{value:.5f}" for value in losses(mode, text, o)), flush=True)


if __name__ == "__main__":
    main()
