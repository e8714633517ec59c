"""An FSDP-like step: weights in parts, gathered where they are read. Prints its predicted times and collectives.

    python tests/jax/sharded_step.py LAYERS HIDDEN ROWS [--whole] [--forward]

ROWS are those of a device. --whole: every device keeps all weights, and sums whole gradients. --forward: the loss only,
after which no layer's weights are read again.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, HIDDEN, ROWS = (int(word) for word in sys.argv[1:4])
MESH = Mesh(np.array(jax.devices()), ("dp",))
OVER_ALL, WHOLE = NamedSharding(MESH, P("dp")), NamedSharding(MESH, P())
KEPT = WHOLE if "--whole" in sys.argv else OVER_ALL


def gathered(weight):
    return jax.lax.with_sharding_constraint(weight, WHOLE)


def loss(weights, x):
    for up, down in weights:
        x = x + jax.nn.gelu(x @ gathered(up)) @ gathered(down)
    return jnp.mean((x * x).astype(jnp.float32))


def step(weights, x):
    value, gradients = jax.value_and_grad(loss)(weights, x)
    return jax.tree.map(lambda w, g: (w - 1e-3 * g).astype(w.dtype), weights, gradients), value


def main() -> None:
    def of(shape, sharding):
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)

    weights = [(of((HIDDEN, 4 * HIDDEN), KEPT), of((4 * HIDDEN, HIDDEN), KEPT))] * LAYERS
    shardings = [(KEPT, KEPT)] * LAYERS
    if "--forward" in sys.argv:
        jitted = jax.jit(loss, in_shardings=(shardings, OVER_ALL), out_shardings=WHOLE)
    else:
        jitted = jax.jit(
            step, in_shardings=(shardings, OVER_ALL), out_shardings=(shardings, WHOLE), donate_argnums=0
        )
    compiled = jitted.lower(weights, of((ROWS * len(jax.devices()), HIDDEN), OVER_ALL)).compile()
    cost = compiled.cost_analysis()
    text = compiled.as_text()
    print(
        json.dumps(
            {
                "step_s": cost["optimal_seconds"],
                "collectives_s": cost["estimated seconds of collectives"],
                "exposed_s": cost["exposed seconds of collectives"],
                "gathered_bytes": cost.get("bytes of gathered weights", 0),
                "ops": {word: text.count(f" {word}(") for word in ("all-gather", "reduce-scatter", "all-reduce")},
            }
        )
    )


if __name__ == "__main__":
    main()
