"""The time of a training step of a decoder of Llama-70B's size on 64 Trainium2 chips, predicted without running it.

    python examples/llama_70b_step.py [--sequence 2048] [--layers 80] [--tensor-parallel 32]

The program is JAX as one would run it: weights cut over 32 cores (tensor parallel), the batch over 8 groups of these
(data parallel), a scan over layers, recomputation, SGD. It is lowered for 256 logical cores from shapes alone,
compiled for one of them, and timed with its collectives on the links of a Trn2 UltraServer.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("JAX_PLATFORMS", "neuron,cpu")
os.environ.setdefault("NEURON_PLATFORM_TARGET_OVERRIDE", "Trn2 UltraServer")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

HIDDEN, FFN, HEADS, KEY_HEADS, HEAD, VOCABULARY = 8192, 28672, 64, 8, 128, 128256
BF16 = jnp.bfloat16


class Step:
    """A training step over a mesh of data by tensor parallelism."""

    def __init__(self, mesh: Mesh, layers: int, sequence: int) -> None:
        self.mesh, self.layers, self.sequence = mesh, layers, sequence

    def cut(self, *axes: str | None) -> NamedSharding:
        return NamedSharding(self.mesh, P(*axes))

    def shapes(self):
        """Weights and tokens: shapes and how they are cut, no values."""
        make = lambda shape, *axes, dtype=BF16: jax.ShapeDtypeStruct(shape, dtype, sharding=self.cut(*axes))  # noqa: E731
        n = self.layers
        layers = {
            "q": make((n, HIDDEN, HEADS * HEAD), None, None, "tp"),
            "k": make((n, HIDDEN, KEY_HEADS * HEAD), None, None, None),
            "v": make((n, HIDDEN, KEY_HEADS * HEAD), None, None, None),
            "o": make((n, HEADS * HEAD, HIDDEN), None, "tp", None),
            "gate": make((n, HIDDEN, FFN), None, None, "tp"),
            "up": make((n, HIDDEN, FFN), None, None, "tp"),
            "down": make((n, FFN, HIDDEN), None, "tp", None),
            "norm1": make((n, HIDDEN), None, None),
            "norm2": make((n, HIDDEN), None, None),
        }
        ends = {
            "embedding": make((VOCABULARY, HIDDEN), None, "tp"),
            "output": make((HIDDEN, VOCABULARY), None, "tp"),
        }
        batch = self.mesh.shape["dp"]
        return layers, ends, make((batch, self.sequence), "dp", None, dtype=jnp.int32)

    def constrain(self, x, *axes: str | None):
        return jax.lax.with_sharding_constraint(x, self.cut(*axes))

    def layer(self, x, w):
        batch, sequence = x.shape[:2]
        split = lambda y, heads: y.reshape(batch, sequence, heads, HEAD)  # noqa: E731
        h = norm(x, w["norm1"])
        q, k, v = split(h @ w["q"], HEADS), split(h @ w["k"], KEY_HEADS), split(h @ w["v"], KEY_HEADS)
        k, v = (jnp.repeat(y, HEADS // KEY_HEADS, 2) for y in (k, v))
        q, k, v = (self.constrain(y, "dp", None, "tp", None) for y in (q, k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / np.sqrt(HEAD)
        seen = jnp.tril(jnp.ones((sequence, sequence), bool))
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), -1).astype(BF16)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, sequence, HEADS * HEAD)
        x = x + self.constrain(mixed @ w["o"], "dp", None, None)
        h = norm(x, w["norm2"])
        return x + self.constrain((jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"], "dp", None, None)

    def loss(self, layers, ends, tokens):
        x = self.constrain(ends["embedding"][tokens], "dp", None, None)
        x, _ = jax.lax.scan(lambda x, w: (jax.checkpoint(self.layer)(x, w), None), x, layers)
        logits = (x @ ends["output"]).astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1))

    def __call__(self, layers, ends, tokens):
        gradients = jax.grad(self.loss, argnums=(0, 1))(layers, ends, tokens)
        update = lambda w, g: w - (1e-4 * g.astype(jnp.float32)).astype(BF16)  # noqa: E731
        return jax.tree.map(update, (layers, ends), gradients)


def norm(x, scale):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(BF16) * scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=80)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--tensor-parallel", type=int, default=32)
    options = parser.parse_args()
    devices = np.array(jax.devices())
    if len(devices) % options.tensor_parallel:
        parser.error(f"{len(devices)} cores are not a multiple of --tensor-parallel {options.tensor_parallel}")
    mesh = Mesh(devices.reshape(-1, options.tensor_parallel), ("dp", "tp"))
    step = Step(mesh, options.layers, options.sequence)
    started = time.perf_counter()
    cost = jax.jit(step).lower(*step.shapes()).compile().cost_analysis()
    seconds = time.perf_counter() - started
    groups, each = mesh.shape["dp"], cost["optimal_seconds"]
    tokens = groups * options.sequence
    print(f"{len(devices)} cores, {groups} x {options.tensor_parallel}, {options.layers} layers, {tokens} tokens")
    print(f"step: {each:.2f} s of device time, {tokens / each:,.0f} tokens a second")
    print(
        f"collectives: {cost['estimated seconds of collectives']:.2f} s under way, of which"
        f" {cost['exposed seconds of collectives']:.2f} s have no compute beside them"
    )
    print(f"arithmetic of a core: {cost['flops'] / 1e12:.1f} TFLOP; HBM: {cost['bytes accessed'] / 1e9:.0f} GB")
    print(f"compiled and timed in {seconds:.1f} s on this host")


if __name__ == "__main__":
    main()
