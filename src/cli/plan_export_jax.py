"""A training step in the layout of a plan, for JAX: written by `opentrn plan --export jax`.

    python train.py --steps 2            # on as many devices as the plan has ranks
    python train.py --steps 2 --whole    # the same step on one device: its losses are the same
    python train.py --time               # the predicted time of a step, compiled and not run

Products read weights in the plan's precision; the optimizer keeps them in float32. The mesh has the plan's axes.
"""

from __future__ import annotations

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

PLAN = json.loads(r"""{{plan}}""")
MODEL, LAYOUT = PLAN["model"], PLAN["layout"]
DTYPE = {"bf16": jnp.bfloat16, "fp32": jnp.float32}[PLAN["precision"]]
DP, TP, ZERO, SP = LAYOUT["dp"], LAYOUT["tp"], LAYOUT["zero"], LAYOUT["sp"]
HIDDEN, HEADS, KEY_HEADS, HEAD = MODEL["hidden"], MODEL["heads"], MODEL["kv_heads"], MODEL["head_dim"]
FFN, VOCABULARY = MODEL["ffn"], MODEL["vocabulary"]


def shapes() -> dict:
    """Name -> (shape, axis of the mesh by dimension): how tensor parallelism cuts each weight."""
    key_values = "tp" if KEY_HEADS % TP == 0 else None
    layer = {
        "norm1": ((HIDDEN,), (None,)),
        "norm2": ((HIDDEN,), (None,)),
        "q": ((HIDDEN, HEADS * HEAD), (None, "tp")),
        "k": ((HIDDEN, KEY_HEADS * HEAD), (None, key_values)),
        "v": ((HIDDEN, KEY_HEADS * HEAD), (None, key_values)),
        "o": ((HEADS * HEAD, HIDDEN), ("tp", None)),
        "up": ((HIDDEN, FFN), (None, "tp")),
        "down": ((FFN, HIDDEN), ("tp", None)),
    }
    if MODEL["gated"]:
        layer["gate"] = ((HIDDEN, FFN), (None, "tp"))
    ends = {"norm": ((HIDDEN,), (None,)), "embedding": ((VOCABULARY, HIDDEN), (None, "tp"))}
    if not MODEL["tied"]:
        ends["output"] = ((HIDDEN, VOCABULARY), (None, "tp"))
    if MODEL["positions"]:
        ends["positions"] = ((MODEL["positions"], HIDDEN), (None, "tp"))
    return {"layers": [layer] * MODEL["layers"], "ends": ends}


def is_leaf(x: object) -> bool:
    return isinstance(x, tuple)


class Step:
    """The step on a mesh of data by tensor parallelism."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    def spec(self, shape: tuple[int, ...], axes: tuple, over_data: bool) -> P:
        """Of a weight or its optimizer state: ZeRO cuts the first dimension that tensor parallelism leaves whole."""
        cut = list(axes)
        if over_data:
            for i, size in enumerate(shape):
                if cut[i] is None and size % DP == 0:
                    cut[i] = "dp"
                    break
        return P(*cut)

    def shardings(self, over_data: bool):
        return jax.tree.map(
            lambda s: NamedSharding(self.mesh, self.spec(*s, over_data)), shapes(), is_leaf=is_leaf
        )

    def constrain(self, x, *axes):
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, P(*axes)))

    def norm(self, x, scale):
        wide = x.astype(jnp.float32)
        if not MODEL["root_mean_square"]:
            wide = wide - jnp.mean(wide, -1, keepdims=True)
        return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(DTYPE) * scale

    def rotated(self, x):
        length, half = x.shape[1], HEAD // 2
        angles = np.outer(np.arange(length), 1e4 ** (-np.arange(half) / half))
        both = lambda first, second: np.stack((first, second), 1)[None, :, None].astype(np.float32)  # noqa: E731
        cosine, sine = np.cos(angles), np.sin(angles)
        pairs = x.astype(jnp.float32).reshape(*x.shape[:3], 2, half)
        turned = pairs * both(cosine, cosine) + jax.lax.rev(pairs, (3,)) * both(-sine, sine)
        return turned.reshape(x.shape).astype(DTYPE)

    def attention(self, h, w):
        batch, length = h.shape[:2]
        split = lambda y, heads: y.reshape(batch, length, heads, HEAD)  # noqa: E731
        q, k, v = split(h @ w["q"], HEADS), split(h @ w["k"], KEY_HEADS), split(h @ w["v"], KEY_HEADS)
        if not MODEL["positions"]:
            q, k = self.rotated(q), self.rotated(k)
        # Queries in groups that share a key: what a group adds to its key's gradient, the product itself sums up.
        groups = KEY_HEADS if KEY_HEADS % TP == 0 else HEADS
        if groups != KEY_HEADS:
            k, v = (jnp.repeat(y, HEADS // KEY_HEADS, 2) for y in (k, v))
        k, v = (self.constrain(y, "dp", None, "tp", None) for y in (k, v))
        if groups == HEADS:
            q, of_q, of_scores = self.constrain(q, "dp", None, "tp", None), "bqhd", "bhqk"
        else:
            q = self.constrain(q.reshape(batch, length, groups, HEADS // groups, HEAD), "dp", None, "tp", None, None)
            of_q, of_scores = "bqhgd", "bhgqk"
        scores = jnp.einsum(f"{of_q},bkhd->{of_scores}", q, k, preferred_element_type=jnp.float32) / np.sqrt(HEAD)
        seen = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), -1).astype(DTYPE)
        made = jnp.einsum(f"{of_scores},bkhd->{of_q}", weights, v)
        return made.reshape(batch, length, HEADS * HEAD) @ w["o"]

    def layer(self, x, w):
        tokens = "tp" if SP else None
        x = x + self.constrain(self.attention(self.norm(x, w["norm1"]), w), "dp", tokens, None)
        h = self.norm(x, w["norm2"])
        inner = jax.nn.silu(h @ w["gate"]) * (h @ w["up"]) if MODEL["gated"] else jax.nn.gelu(h @ w["up"])
        return x + self.constrain(inner @ w["down"], "dp", tokens, None)

    def loss(self, w, tokens):
        tokens = self.constrain(tokens, "dp", None)  # a micro-batch of them does not say how it is cut
        x = w["ends"]["embedding"][tokens[:, :-1]]
        if MODEL["positions"]:
            x = x + w["ends"]["positions"][: x.shape[1]]
        x = self.constrain(x, "dp", "tp" if SP else None, None)
        layer = jax.checkpoint(self.layer) if LAYOUT["recompute"] != "none" else self.layer
        for each in w["layers"]:
            x = layer(x, each)
        x = self.norm(x, w["ends"]["norm"])
        table = w["ends"]["embedding"].T if MODEL["tied"] else w["ends"]["output"]
        logits = (x @ table).astype(jnp.float32)
        logits = self.constrain(logits, "dp", None, "tp")
        largest = jax.lax.stop_gradient(jnp.max(logits, -1, keepdims=True))
        total = jnp.log(jnp.sum(jnp.exp(logits - largest), -1)) + largest[..., 0]
        is_label = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 2) == tokens[:, 1:, None]
        return jnp.mean(total - jnp.sum(jnp.where(is_label, logits, 0), -1))

    def __call__(self, state, tokens):
        """One step of Adam over the micro-batches of `tokens` [micro-batches, sequences, length + 1]."""
        weights = state["weights"]
        loss, gradients = jax.value_and_grad(self.loss)(weights, tokens[0])
        for each in tokens[1:]:
            more, added = jax.value_and_grad(self.loss)(weights, each)
            loss, gradients = loss + more, jax.tree.map(jnp.add, gradients, added)
        count = len(tokens)
        # Copies of the table add up what their own tokens gave, before ZeRO cuts it: cut first, every copy would add
        # all tokens to its part.
        gradients["ends"]["embedding"] = self.constrain(gradients["ends"]["embedding"], None, "tp")
        wide = jax.tree.map(lambda g: g.astype(jnp.float32), gradients)
        moment = jax.tree.map(lambda m, g: 0.9 * m + (0.1 / count) * g, state["moment"], wide)
        square = jax.tree.map(lambda v, g: 0.99 * v + (0.01 / count**2) * g * g, state["square"], wide)
        update = lambda w, m, v: w - 1e-3 * m * jax.lax.rsqrt(v + 1e-12)  # noqa: E731
        master = jax.tree.map(update, state["master"], moment, square)
        weights = jax.tree.map(lambda w: w.astype(DTYPE), master)
        return {"weights": weights, "master": master, "moment": moment, "square": square}, loss / count

    def jitted(self):
        """With how state and tokens are cut; ZeRO 1 and 2 cut what the optimizer keeps, 3 the weights too."""
        states = {"weights": self.shardings(ZERO >= 3)}
        states["master"] = states["moment"] = states["square"] = self.shardings(ZERO >= 1)
        data = NamedSharding(self.mesh, P(None, "dp", None))
        scalar = NamedSharding(self.mesh, P())
        return (
            jax.jit(self, in_shardings=(states, data), out_shardings=(states, scalar), donate_argnums=0),
            states,
            data,
        )


def types() -> dict:
    """What the products read, and what the optimizer keeps in float32."""
    return {"weights": DTYPE, "master": jnp.float32, "moment": jnp.float32, "square": jnp.float32}


def initial(states) -> dict:
    """Drawn on the host, the same for every mesh."""
    random = np.random.default_rng(0)

    def draw(s: tuple) -> np.ndarray:
        shape = s[0]
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        return random.standard_normal(shape, np.float32) * (
            0.02 if shape[0] == VOCABULARY else shape[0] ** -0.5
        )

    master = jax.tree.map(draw, shapes(), is_leaf=is_leaf)
    weights = jax.tree.map(lambda w: w.astype(DTYPE), master)
    zeros = jax.tree.map(np.zeros_like, master)
    return jax.device_put({"weights": weights, "master": master, "moment": zeros, "square": zeros}, states)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="on one device, not cut")
    parser.add_argument("--time", action="store_true", help="compile the step and print its predicted time")
    options = parser.parse_args()
    ranks = 1 if options.whole else DP * TP
    devices = np.array(jax.devices()[:ranks])
    if len(devices) < ranks:
        parser.error(f"the plan has {ranks} ranks, and there are {len(devices)} devices")
    mesh = Mesh(devices.reshape(1, 1) if options.whole else devices.reshape(DP, TP), ("dp", "tp"))
    step, states, data = Step(mesh).jitted()
    sequences = LAYOUT["micro_batch"] * DP
    shape = (PLAN["global_batch"] // sequences, sequences, PLAN["seq"] + 1)
    if options.time:
        of = lambda kept, dtype: jax.tree.map(  # noqa: E731
            lambda s, cut: jax.ShapeDtypeStruct(s[0], dtype, sharding=cut),
            shapes(),
            kept,
            is_leaf=is_leaf,
        )
        state = {name: of(kept, types()[name]) for name, kept in states.items()}
        cost = (
            step.lower(state, jax.ShapeDtypeStruct(shape, jnp.int32, sharding=data)).compile().cost_analysis()
        )
        print(
            json.dumps(
                {"step_s": cost["optimal_seconds"], "cost": {k: v for k, v in cost.items() if "seconds" in k}}
            )
        )
        return
    random = np.random.default_rng(1)
    state = initial(states)
    for i in range(options.steps):
        tokens = random.integers(0, VOCABULARY, shape, np.int32)
        state, loss = step(state, jax.device_put(tokens, data))
        print(f"step {i}: loss {float(loss):.6f}", flush=True)


if __name__ == "__main__":
    main()
