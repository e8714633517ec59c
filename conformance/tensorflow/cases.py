"""TensorFlow functions by family: what each computes, and how close the device must come to TensorFlow's CPU.

A case gives (function, arguments, tolerance): the tolerance is a fraction of the largest magnitude of each result,
0 for equality. Layers are Keras's, with seeded weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorflow as tf

RNG = np.random.default_rng(29)
Case = tuple[Callable[..., Any], tuple[Any, ...], float]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(low: int, high: int, *shape: int) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(np.int32)


def _dense() -> Case:
    w, b = tf.Variable(normal(40, 24)), tf.Variable(normal(24))
    return lambda x: tf.nn.gelu(x @ w + b), (normal(9, 40),), 2e-6


def _bfloat16() -> Case:
    w = tf.Variable(normal(64, 32))
    return (
        lambda x: tf.cast(tf.cast(x, tf.bfloat16) @ tf.cast(w, tf.bfloat16), tf.float32),
        (normal(8, 64),),
        2e-2,
    )


def _elementwise() -> Case:
    def every(x: Any) -> list[Any]:
        y = tf.abs(x) + 0.5
        unary = (
            tf.exp,
            tf.tanh,
            tf.sigmoid,
            tf.math.erf,
            tf.sin,
            tf.cos,
            tf.nn.softplus,
            tf.nn.elu,
            tf.nn.selu,
        )
        positive = (tf.sqrt, tf.math.rsqrt, tf.math.log, tf.math.log1p, tf.math.lgamma, tf.math.digamma)
        return (
            [op(x) for op in unary] + [op(y) for op in positive] + [x**2, y**x, tf.atan2(x, y), x % y, x // y]
        )

    return every, (normal(17, 9),), 4e-6


def _integer_ops() -> Case:
    def every(a: Any, b: Any) -> list[Any]:
        bits = tf.bitwise
        return [
            a + b, a * b, a // b, a % b, tf.maximum(a, b), bits.bitwise_and(a, b), bits.bitwise_xor(a, b),
            bits.left_shift(a, tf.constant(3)), tf.cast(a, tf.float32) / tf.cast(b, tf.float32), a > b,
        ]  # fmt: skip

    return every, (integers(-999, 999, 5, 7), integers(1, 50, 5, 7)), 0


def _reductions() -> Case:
    def every(x: Any) -> list[Any]:
        return [
            tf.reduce_sum(x, 1), tf.reduce_mean(x), tf.reduce_max(x, 0), tf.reduce_prod(x[:, :4], 1),
            tf.math.reduce_std(x, 1), tf.argmax(x, 1), tf.argmin(x, 0, output_type=tf.int32),
            tf.math.reduce_logsumexp(x, 1), tf.cumsum(x, 1), tf.reduce_any(x > 2, 0), tf.norm(x, axis=1),
        ]  # fmt: skip

    return every, (normal(12, 33),), 4e-6


def _shapes() -> Case:
    def every(x: Any) -> list[Any]:
        return [
            tf.transpose(x, [2, 0, 1]), tf.reshape(x, [6, -1]), tf.concat([x, x * 2], 1), tf.stack([x, -x], 0),
            tf.tile(x, [1, 2, 1]), tf.pad(x, [[0, 0], [1, 2], [3, 0]]), x[:, ::-1, 1:4], tf.reverse(x, [0]),
            tf.roll(x, 2, 1), tf.expand_dims(x, 1), *tf.split(x, 2, 1), tf.linalg.band_part(x, 1, 0),
            tf.nn.space_to_depth(x[..., tf.newaxis], 2), tf.broadcast_to(x[:, :1], [3, 6, 8]), tf.repeat(x, 2, 0),
        ]  # fmt: skip

    return every, (normal(3, 6, 8),), 0


def _gather_scatter() -> Case:
    def every(x: Any, i: Any) -> list[Any]:
        return [
            tf.gather(x, i), tf.gather(x, i, axis=1), tf.gather_nd(x, i[:, tf.newaxis]), tf.one_hot(i, 9),
            tf.tensor_scatter_nd_update(x, i[:3, tf.newaxis], x[5:]), tf.where(x > 0, x, 0.0),
            tf.math.unsorted_segment_max(x, i, 9), tf.nn.embedding_lookup(x, i),
        ]  # fmt: skip

    return every, (normal(8, 8), RNG.permutation(8).astype(np.int32)), 0


def _sorting() -> Case:
    def every(x: Any) -> list[Any]:
        top = tf.math.top_k(x, 5)
        return [tf.sort(x, 1), tf.argsort(x, 1, stable=True), top.values, top.indices]

    return every, (normal(6, 50),), 0


def _linear_algebra() -> Case:
    def every(a: Any, b: Any) -> list[Any]:
        spd = a @ tf.transpose(a) + 8.0 * tf.eye(8)
        root = tf.linalg.cholesky(spd)
        return [root, tf.linalg.triangular_solve(root, b), tf.einsum("ij,kj->ik", a, a), tf.linalg.trace(spd)]

    return every, (normal(8, 8), normal(8, 3)), 2e-5


def _signal() -> Case:
    def every(x: Any) -> list[Any]:
        spectrum = tf.signal.rfft(x)
        return [tf.math.real(spectrum), tf.math.imag(spectrum), tf.signal.irfft(spectrum)]

    return every, (normal(4, 64),), 4e-6


def _control_flow() -> Case:
    def every(x: Any, n: Any) -> list[Any]:
        _, total = tf.while_loop(lambda i, _: i < n, lambda i, t: (i + 1, tf.tanh(t) + 0.5 * t), [0, x])
        chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x - 1)
        return [total, chosen, tf.scan(lambda a, b: 0.5 * a + b, x)]

    return every, (normal(6, 5), np.int32(7)), 4e-6


def _random() -> Case:
    def every(seed: Any) -> list[Any]:
        return [
            tf.random.stateless_uniform([33], seed), tf.random.stateless_uniform([9], seed, 0, 99, tf.int32),
            tf.random.stateless_normal([64], seed),
        ]  # fmt: skip

    return every, (np.array([3, 4], np.int32),), 4e-6


def _images() -> Case:
    def every(x: Any) -> list[Any]:
        return [
            tf.image.resize(x, [13, 20]), tf.nn.max_pool2d(x, 2, 2, "SAME"), tf.nn.avg_pool2d(x, 3, 1, "VALID"),
            tf.image.flip_left_right(x), tf.nn.depthwise_conv2d(x, np.ones((3, 3, 4, 2), np.float32), [1] * 4, "SAME"),
        ]  # fmt: skip

    return every, (normal(2, 9, 11, 4),), 4e-6


def _layer(layer: Any, *arguments: np.ndarray, tolerance: float = 4e-6, **keywords: Any) -> Case:
    layer(*arguments)  # makes the variables
    for variable in layer.weights:
        if variable.dtype == "float32" and "seed" not in variable.path:
            moving = "moving" in variable.path
            variable.assign(
                np.abs(normal(*variable.shape)) + 0.5 if moving else 0.2 * normal(*variable.shape)
            )
    return lambda *x: layer(*x, **keywords), arguments, tolerance


def _convolutional() -> Case:
    layers = tf.keras.layers
    return _layer(
        tf.keras.Sequential([
            layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"), layers.BatchNormalization(),
            layers.SeparableConv2D(24, 3), layers.MaxPooling2D(), layers.Conv2DTranspose(8, 3), layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]),
        normal(2, 20, 20, 3), tolerance=1e-5, training=False,
    )  # fmt: skip


def _recurrent() -> Case:
    layers = tf.keras.layers
    both = tf.keras.Sequential([layers.LSTM(12, return_sequences=True), layers.GRU(8)])
    return _layer(both, normal(3, 10, 6), tolerance=1e-5)


def _attention() -> Case:
    layers = tf.keras.layers
    inside = tf.keras.Input((12, 32))
    mixed = layers.LayerNormalization()(inside + layers.MultiHeadAttention(4, 8)(inside, inside))
    outside = layers.LayerNormalization()(
        mixed + layers.Dense(32)(layers.Dense(64, activation="gelu")(mixed))
    )
    return _layer(tf.keras.Model(inside, outside), normal(2, 12, 32), tolerance=1e-5)


def _embedding() -> Case:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Embedding(50, 16), layers.GlobalAveragePooling1D(), layers.Dense(4)])
    return _layer(model, integers(0, 50, 3, 7))


def _mobilenet() -> Case:
    model = tf.keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3), classes=10)
    return lambda x: model(x, training=False), (normal(1, 64, 64, 3),), 1e-5


CASES: dict[str, Callable[[], Case]] = {
    "dense": _dense,
    "bfloat16": _bfloat16,
    "elementwise": _elementwise,
    "integers": _integer_ops,
    "reductions": _reductions,
    "shapes": _shapes,
    "gather and scatter": _gather_scatter,
    "sorting": _sorting,
    "linear algebra": _linear_algebra,
    "signal": _signal,
    "control flow": _control_flow,
    "random": _random,
    "images": _images,
    "keras convolutional": _convolutional,
    "keras recurrent": _recurrent,
    "keras attention": _attention,
    "keras embedding": _embedding,
    "keras MobileNetV2": _mobilenet,
}
