"""Of a program that `opentrn plan --export jax` writes: a transformer of images and text (Stable Diffusion 3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from plan_export_jax import (
    DTYPE,
    ENDS,
    FFN,
    HIDDEN,
    MODEL,
    PLAN,
    Step,
    attended,
    attention_layer,
    gelu,
    linear,
    product,
    shapes,
    unit,
    with_bias,
    with_biases,
    with_gradient,
)

# The program has what follows.


TEXT, FEATURES = MODEL["text_tokens"], MODEL["patch_features"]  # of a sequence, behind its patches; of each of those
STREAMS = ("", "text_")
FREQUENCIES = 256  # that say the time of a step


def of_streams(weights: dict) -> dict:
    return {stream + name: each for stream in STREAMS for name, each in weights.items()}


def streams_layer() -> dict:
    """Patches and text have weights of their own. Norms have none: scales and shifts are made of the time."""
    mlp = {"up": ((HIDDEN, FFN), (None, "tp")), "down": ((FFN, HIDDEN), ("tp", None))}
    return of_streams({**attention_layer(), **with_biases(mlp)})


def streams_ends() -> dict:
    """How patches, text, the time and what all of the text says come in; what they make of each block's, and the last
    norm's, scales, shifts and gates; and what finds the noise."""
    by_columns = lambda rows, columns: ((rows, columns), (None, "tp"))  # noqa: E731
    ends = {
        "patches": by_columns(FEATURES, HIDDEN),
        "text": by_columns(MODEL["text_features"], HIDDEN),
        "time": by_columns(FREQUENCIES, HIDDEN),
        "time_out": ((HIDDEN, HIDDEN), ("tp", None)),
        "pooled": by_columns(MODEL["pooled_features"], HIDDEN),
        "pooled_out": ((HIDDEN, HIDDEN), ("tp", None)),
        "modulation": by_columns(HIDDEN, 2 * HIDDEN),
        "output": by_columns(HIDDEN, FEATURES),
    }
    blocks = {f"modulation{i}": by_columns(HIDDEN, 12 * HIDDEN) for i in range(MODEL["layers"])}
    return with_biases({**ends, **blocks})


def streams_types(shape: tuple):
    """Noised patches, text, all of it in one, the time; and the velocity, which is looked for."""
    of = lambda *more: jax.ShapeDtypeStruct((*shape, *more), DTYPE)  # noqa: E731
    patches = of(PLAN["seq"] - TEXT, FEATURES)
    features = of(MODEL["pooled_features"]), of(FREQUENCIES)
    return patches, of(TEXT, MODEL["text_features"]), *features, patches


def placed(columns):
    """Of patches in rows of an image: a half of the numbers says the row, the other the column."""
    side = int((PLAN["seq"] - TEXT) ** 0.5)
    turns = 1e4 ** (-np.arange(-(-columns // 4)) * 4 / columns)
    both = [np.outer(np.repeat(np.arange(side), side), turns), np.outer(np.tile(np.arange(side), side), turns)]
    return np.concatenate([of(each) for each in both for of in (np.sin, np.cos)], 1)[:, :columns]


@jax.custom_vjp
def modulated(x, scale, shift):
    return unit(x)[0].astype(DTYPE) * (1 + scale) + shift


def modulated_backward(kept, gradient):
    (x, scale), gradient = with_gradient(kept, gradient)
    normal, root = unit(x)
    wide = gradient.astype(jnp.float32)
    of_shift = jnp.sum(wide, 1, keepdims=True).astype(DTYPE)
    of_scale = jnp.sum(wide * normal, 1, keepdims=True).astype(DTYPE)
    of_normal = wide * (1 + scale.astype(jnp.float32))
    inner = of_normal - normal * jnp.mean(of_normal * normal, -1, keepdims=True)
    inner = inner - jnp.mean(of_normal, -1, keepdims=True)
    return (inner * root).astype(x.dtype), of_scale, of_shift


modulated.defvjp(lambda x, scale, shift: (modulated(x, scale, shift), (x, scale)), modulated_backward)


@jax.custom_vjp
def weighed(y, gate):
    return y * gate


def weighed_backward(kept, gradient):
    y, gate = kept
    wide = gradient.astype(jnp.float32) * y.astype(jnp.float32)
    return gradient * gate, jnp.sum(wide, 1, keepdims=True).astype(DTYPE)


weighed.defvjp(lambda y, gate: (weighed(y, gate), (y, gate)), weighed_backward)


def silu(x):
    wide = x.astype(jnp.float32)
    return (wide * jax.nn.sigmoid(wide)).astype(DTYPE)


class StreamsStep(Step):
    def parts(self, x, axis=1):
        return jax.lax.split(x, (PLAN["seq"] - TEXT, TEXT), axis)

    def looked_up(self, ends, tokens):
        patches, text = (self.varying(each, ENDS) for each in tokens[:2])
        columns = HIDDEN // self.tp
        where = jnp.asarray(placed(HIDDEN).astype(DTYPE))
        where = jax.lax.dynamic_slice_in_dim(where, jax.lax.axis_index("tp") * columns, columns, 1)
        return jnp.concatenate((linear(patches, ends, "patches") + where, linear(text, ends, "text")), 1)

    def of_time(self, ends, tokens):
        """Of each sequence, what scales, shifts and gates are made of."""
        pooled, time = (self.varying(each, ENDS)[:, None] for each in tokens[2:4])
        both = (("time", time), ("pooled", pooled))
        terms = sum(product(silu(linear(x, ends, name)), ends[name + "_out"]) for name, x in both)
        made = self.varying(jax.lax.psum(terms, "tp"), "tp")
        return silu(with_bias(with_bias(made, ends, "time_out"), ends, "pooled_out"))

    def modulations(self, ends, time, names):
        """Of all ranks' columns: [sequences, names, columns]."""
        own = jnp.concatenate([linear(time, ends, name) for name in names], 1)
        return jax.lax.all_gather(own, "tp", axis=2, tiled=True)

    def stream_heads(self, x, w, stream):
        heads = lambda name: linear(x, w, stream + name).reshape(*x.shape[:2], -1, MODEL["head_dim"])  # noqa: E731
        return [heads(name) for name in "qkv"]

    def joint_attention(self, parts, w):
        both = zip(*(self.stream_heads(x, w, stream) for x, stream in zip(parts, STREAMS, strict=True)), strict=True)
        q, k, v = (jnp.swapaxes(jnp.concatenate(each, 1), 1, 2) for each in both)
        mixed = jnp.swapaxes(attended(q, k, v, None), 1, 2)
        mixed = self.parts(mixed.reshape(*mixed.shape[:2], -1))
        return [product(x, w[stream + "o"]) for x, stream in zip(mixed, STREAMS, strict=True)]

    def added(self, x, made, w, name, gates):
        """What a half of a block makes of both streams, which ranks add up together."""
        made = self.parts(self.varying(self.summed(jnp.concatenate(made, 1)), "tp"))
        terms = zip(made, STREAMS, gates, strict=True)
        return x + jnp.concatenate([weighed(with_bias(y, w, of + name), gate) for y, of, gate in terms], 1)

    def modulated_parts(self, x, scales, shifts):
        return [modulated(*each) for each in zip(self.parts(x), scales, shifts, strict=True)]

    def layer(self, x, w, place, is_dense=None):
        w = {**w}
        made = jax.lax.split(w.pop("made"), [HIDDEN] * 12, 2)
        of = [made[i::6] for i in range(6)]  # of both streams
        w = self.gathered(w, shapes()["layers"][0])
        x = self.added(x, self.joint_attention(self.modulated_parts(x, of[1], of[0]), w), w, "o", of[2])
        parts = zip(self.modulated_parts(x, of[4], of[3]), STREAMS, strict=True)
        made = [product(gelu(linear(y, w, stream + "up")), w[stream + "down"]) for y, stream in parts]
        return self.added(x, made, w, "down", of[5])

    def loss(self, w, tokens):
        ends = self.gathered(w["ends"], shapes()["ends"])
        time = self.of_time(ends, tokens)
        made = self.modulations(ends, time, [f"modulation{i}" for i in range(MODEL["layers"])])
        layers = [{**layer, "made": made[:, i : i + 1]} for i, layer in enumerate(w["layers"])]
        x = self.through(self.spread(self.looked_up(ends, tokens)), layers)
        shift, scale = jax.lax.split(self.modulations(ends, time, ["modulation"]), [HIDDEN] * 2, 2)
        found = linear(modulated(self.parts(x)[0], scale, shift), ends, "output").astype(jnp.float32)
        columns = found.shape[2]
        wanted = self.varying(tokens[4], ENDS).astype(jnp.float32)
        wanted = jax.lax.dynamic_slice_in_dim(wanted, jax.lax.axis_index("tp") * columns, columns, 2)
        missed = jax.lax.psum(jnp.sum(jnp.square(found - wanted)), "tp")
        return missed / (found.size * self.tp * self.ranks)
