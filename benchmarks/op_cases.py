"""The ops of `./dev bench --ops`: by family, each with up to three sets of arguments.

An argument is written f[rows,columns] (float32, normal), bf[...] (bfloat16), u[...] (float32 in [0, 1)), i[...]<n
(int32 below n), o[...]<n (the same, sorted), b[...] (booleans), k (a random key's two words), p[...] (positive definite
matrices).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclass(frozen=True)
class Case:
    family: str
    name: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]  # of one set: separated by blanks
    is_product: bool = False  # the Tensor engine's work: its flops are held against that engine's peak


CASES: list[Case] = []
_SPEC = re.compile(r"(bf|f|u|i|o|b|p|k)(?:\[([\d,]*)\])?(?:<(\d+))?")


def made(text: str) -> list[np.ndarray]:
    """Values of a set of arguments; the same for the same text."""
    random = np.random.default_rng(0)
    values: list[np.ndarray] = []
    for word in text.split():
        match = _SPEC.fullmatch(word)
        if match is None:
            raise ValueError(f"{word} is not an argument of a case")
        kind, dims, bound = match.groups()
        shape = tuple(int(size) for size in dims.split(",")) if dims else ()
        if kind in ("i", "o"):
            value = random.integers(0, int(bound), shape, dtype=np.int32)
            values.append(np.sort(value, axis=-1) if kind == "o" else value)
        elif kind == "b":
            values.append(random.random(shape) < 0.5)
        elif kind == "k":
            values.append(random.integers(0, 2**31, 2).astype(np.uint32))
        elif kind == "p":
            matrix = random.standard_normal(shape).astype(np.float32)
            values.append(
                matrix @ np.swapaxes(matrix, -1, -2) + shape[-1] * np.eye(shape[-1], dtype=np.float32)
            )
        else:
            value = random.random(shape) if kind == "u" else random.standard_normal(shape)
            values.append(value.astype(jnp.bfloat16 if kind == "bf" else np.float32))
    return values


def _add(
    family: str, name: str, function: Callable[..., Any], *arguments: str, product: bool = False
) -> None:
    CASES.append(Case(family, name, function, arguments, product))


def _grad(function: Callable[..., Any], *numbers: int) -> Callable[..., Any]:
    """Of the sum of squares of what it gives."""
    return jax.grad(lambda *given: jnp.sum(jnp.square(function(*given))), argnums=numbers or 0)


_SMALL, _MIDDLE, _LARGE = "f[64,64]", "f[512,512]", "f[2048,1024]"
_ALL = (_SMALL, _MIDDLE, _LARGE)


def _movement() -> None:
    add = lambda name, function, *arguments: _add("movement", name, function, *(arguments or _ALL))  # noqa: E731
    add("pad_rows", lambda x: jnp.pad(x, ((0, 1), (0, 0))))
    add("pad_columns", lambda x: jnp.pad(x, ((0, 0), (1, 2))))
    add(
        "pad_middle",
        lambda x: jnp.pad(x, ((0, 0), (0, 1), (0, 0))),
        "f[2,31,64]",
        "f[2,127,1024]",
        "f[2,511,4096]",
    )
    add(
        "pad_interior",
        lambda x: lax.pad(x, 0.0, ((0, 0, 1), (0, 0, 1))),
        "f[32,32]",
        "f[256,256]",
        "f[1024,512]",
    )
    add("pad_bf16", lambda x: jnp.pad(x, ((0, 1), (0, 0))), "bf[64,64]", "bf[512,512]", "bf[2048,1024]")
    add("pad_reflect", lambda x: jnp.pad(x, ((1, 1), (1, 1)), mode="reflect"))
    add(
        "pad_stacked",
        lambda x: lax.pad(x, 0.0, ((1, 2, 0), (0, 0, 0), (0, 0, 0))),
        "f[1,64,64]",
        "f[1,768,768]",
    )
    add("concatenate_rows", lambda x: jnp.concatenate([x, x], 0))
    add("concatenate_columns", lambda x: jnp.concatenate([x, -x], 1))
    add("stack_last", lambda x: jnp.stack([x, -x], -1))
    add("transpose", lambda x: x.T)
    add("transpose_bf16", lambda x: x.T, "bf[64,64]", "bf[512,512]", "bf[2048,1024]")
    add(
        "transpose_heads", lambda x: x.transpose(0, 2, 1, 3), "f[1,64,4,16]", "f[2,128,8,64]", "f[4,512,8,64]"
    )
    add("nchw_to_nhwc", lambda x: x.transpose(0, 2, 3, 1), "f[1,16,14,14]", "f[4,64,28,28]", "f[8,64,56,56]")
    add("reverse_rows", lambda x: x[::-1])
    add("reverse_columns", lambda x: x[:, ::-1])
    add("slice", lambda x: x[1:-1, 3:-5])
    add("slice_strided_rows", lambda x: x[::2])
    add("slice_strided_columns", lambda x: x[:, ::2])
    add("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, i), (32, 32)), *(f"{s} i[]<32" for s in _ALL))
    add("dynamic_update_slice", lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 0)),
        *(f"{s} f[16,64] i[]<32" for s in _ALL))  # fmt: skip
    add("broadcast_rows", lambda x: jnp.broadcast_to(x, (256, *x.shape)), "f[64]", "f[1024]", "f[8192]")
    add(
        "broadcast_columns",
        lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], 256)),
        "f[64]",
        "f[1024]",
        "f[8192]",
    )
    add("tile", lambda x: jnp.tile(x, (2, 2)))
    add("repeat", lambda x: jnp.repeat(x, 2, axis=1))
    add("roll", lambda x: jnp.roll(x, (3, 5), (0, 1)))
    add("fill", lambda x: jnp.zeros_like(x) + 1.5)
    add("iota", lambda x: x + lax.broadcasted_iota(jnp.float32, x.shape, 1))
    add("space_to_depth", lambda x: x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).transpose(
        0, 1, 3, 2, 4, 5), "f[1,16,16,8]", "f[2,56,56,32]", "f[4,112,112,32]")  # fmt: skip
    add("tril", jnp.tril)
    add("diagonal", jnp.diagonal)
    add("convert_bf16", lambda x: x.astype(jnp.bfloat16))
    add("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.int32))


def _elementwise() -> None:
    add = lambda name, function, *arguments: _add("elementwise", name, function, *(arguments or _ALL))  # noqa: E731
    pairs = tuple(f"{s} {s}" for s in _ALL)
    add("add", lambda x, y: x + y, *pairs)
    add("multiply_bf16", lambda x, y: x * y, "bf[64,64] bf[64,64]", "bf[512,512] bf[512,512]",
        "bf[2048,1024] bf[2048,1024]")  # fmt: skip
    add("divide", lambda x, y: x / y, *pairs)
    add("add_row", lambda x, y: x + y, "f[64,64] f[64]", "f[512,512] f[512]", "f[2048,1024] f[1024]")
    add("exp", jnp.exp)
    add("tanh", jnp.tanh)
    add("gelu", jax.nn.gelu)
    add("silu", jax.nn.silu)
    add("erf", jax.scipy.special.erf)
    add("log1p", lambda x: jnp.log1p(jnp.abs(x)))
    add("rsqrt", lambda x: lax.rsqrt(jnp.abs(x) + 1))
    add("sin", jnp.sin)
    add("power", lambda x: jnp.abs(x) ** 2.5)
    add("round", jnp.round)
    add("where", lambda c, x, y: jnp.where(c, x, y), "b[64,64] f[64,64] f[64,64]", "b[512,512] f[512,512] f[512,512]",
        "b[2048,1024] f[2048,1024] f[2048,1024]")  # fmt: skip
    add("compare", lambda x, y: x > y, *pairs)
    add("clip", lambda x: jnp.clip(x, -1, 1))
    add("integer_multiply", lambda x: x * 12345 + 7, "i[64,64]<9", "i[512,512]<9", "i[2048,1024]<9")
    add("integer_divide", lambda x: x // 7 + x % 5, "i[64,64]<9999", "i[512,512]<9999")
    add("bits", lambda x: (x << 3) ^ (x >> 5), "i[64,64]<9999", "i[512,512]<9999", "i[2048,1024]<9999")
    add("is_finite", jnp.isfinite)
    add("complex_multiply", lambda x, y: jnp.abs(lax.complex(x, y) * lax.complex(y, x)), *pairs)


def _group_norm(x: Any, over: Any) -> Any:
    """Of 32 groups of channels, which come first, or last where positions are reduced beside them."""
    size = x.shape[-1]
    groups = x.reshape(1, 32, -1) if over == -1 else x.reshape(*x.shape[:-1], 32, size // 32)
    mean, variance = groups.mean(over, keepdims=True), groups.var(over, keepdims=True)
    return ((groups - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)


def _reductions() -> None:
    add = lambda name, function, *arguments: _add("reduction", name, function, *(arguments or _ALL))  # noqa: E731
    add("sum_all", jnp.sum)
    add("sum_rows", lambda x: x.sum(0))
    add("sum_columns", lambda x: x.sum(1))
    add("sum_batch", lambda x: x.sum(0), "f[12,32,384]", "f[64,128,256]")
    add("mean_tokens", lambda x: x.mean(1), "f[8,128,384]", "bf[8,512,768]")
    add("any_tokens", lambda x: jnp.any(x > 3, 1), "f[12,64,512]")
    add("max_middle", lambda x: x.max(1), "f[8,64,384]", "f[8,512,1024]")
    add("argmax_batch", lambda x: x.argmax(0), "f[12,12288]", "f[64,128,256]")
    add("argmax_middle", lambda x: x.argmax(1), "f[8,64,128]", "f[8,512,768]")
    add("softmax_middle", lambda x: jax.nn.softmax(x, 1), "f[8,64,384]", "f[8,512,768]")
    add("logsumexp_rows", lambda x: jax.nn.logsumexp(x, 0), "f[64,1024]", "f[512,4096]")
    add("variance_batch", lambda x: x.var(0), "f[16,64,64]", "f[64,128,256]")
    add("integers_rows", lambda x: x.sum(0), "i[12,4096]<9999", "i[512,4096]<9999")
    add("max_columns", lambda x: x.max(1))
    add("argmax_columns", lambda x: x.argmax(1))
    add("argmax_rows", lambda x: x.argmax(0))
    add("mean_variance", lambda x: (x.mean(1), x.var(1)))
    add("norm", lambda x: jnp.linalg.norm(x, axis=1))
    add("logsumexp", lambda x: jax.nn.logsumexp(x, 1))
    add("prod", lambda x: jnp.prod(1 + x / 1000, 1))
    add("any", lambda x: jnp.any(x > 3, 1))
    add("sum_images", lambda x: x.sum((0, 2, 3)), "f[1,16,14,14]", "f[4,64,28,28]", "f[8,64,56,56]")
    add("count", lambda x: jnp.count_nonzero(x > 0))
    add("softmax", lambda x: jax.nn.softmax(x, -1))
    add("softmax_rows", lambda x: jax.nn.softmax(x, 0))
    add("layer_norm", lambda x: (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5))
    add("rms_norm", lambda x: x * lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-5))
    add("sum_few_columns", lambda x: x.sum(0), "f[1024,8]", "f[65536,8]")
    add("group_norm", lambda x: _group_norm(x, -1), "f[1,64,16,16]", "f[1,320,64,64]", "f[1,128,256,256]")
    add("group_norm_last", lambda x: _group_norm(x, (1, 2, 4)), "f[1,16,16,64]", "f[1,64,64,320]", "f[1,256,256,128]")
    add("batch_norm", lambda x: (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5), "f[2,14,14,32]",
        "f[4,28,28,64]", "f[8,56,56,64]")  # fmt: skip


def _scans() -> None:
    add = lambda name, function, *arguments: _add("scan", name, function, *(arguments or _ALL))  # noqa: E731
    add("cumsum_columns", lambda x: jnp.cumsum(x, 1))
    add("cumsum_rows", lambda x: jnp.cumsum(x, 0))
    add("cumsum_flat", jnp.cumsum, "f[1000]", "f[65536]", "f[1000000]")
    add("cumsum_bf16", lambda x: jnp.cumsum(x, 1), "bf[64,64]", "bf[512,512]")
    add("cumprod", lambda x: jnp.cumprod(1 + x / 1000, 1))
    add("cummax", lambda x: lax.cummax(x, 1))
    add("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), "f[64,64]", "f[512,512]")
    add("associative_scan", lambda a, b: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b),
        axis=1)[1], "u[8,64,32] f[8,64,32]", "u[8,256,64] f[8,256,64]")  # fmt: skip

    def rnn(w: Any, x: Any) -> Any:
        return lax.scan(lambda h, y: (jnp.tanh(h @ w / 16 + y),) * 2, x[0], x)[1]

    steps = ("f[64,64] f[16,8,64]", "f[128,128] f[64,16,128]")
    add("scan_rnn", rnn, *steps)
    add("scan_rnn_grad", _grad(rnn), *steps)


def _sorting() -> None:
    add = lambda name, function, *arguments: _add("sort", name, function, *arguments)  # noqa: E731
    add("sort_rows_of", lambda x: jnp.sort(x, 1), "f[64,64]", "f[64,1024]", "f[256,4096]")
    add("sort_flat", jnp.sort, "f[1000]", "f[16384]", "f[262144]")
    add("sort_columns", lambda x: jnp.sort(x, 0), "f[64,64]", "f[1024,64]")
    add("sort_integers", jnp.sort, "i[1000]<9999", "i[65536]<999999")
    add("argsort", lambda x: jnp.argsort(x, 1), "f[64,64]", "f[64,1024]")
    add("argsort_flat", jnp.argsort, "f[1000]", "f[65536]")
    add("top_k", lambda x: lax.top_k(x, 8), "f[8,1000]", "f[8,32000]", "f[64,4096]")
    add("top_k_50", lambda x: lax.top_k(x, 50), "f[1,1000]", "f[1,32000]", "f[8,128000]")
    add("top_1", lambda x: lax.top_k(x, 1), "f[8,1000]", "f[8,32000]")
    add("approx_max_k", lambda x: lax.approx_max_k(x, 8), "f[8,4096]")
    add("median", jnp.median, "f[1000]", "f[16384]")
    add("searchsorted", lambda a, x: jnp.searchsorted(a, x), "f[1000] f[256]", "f[4096] f[4096]")
    add("unique_counts", lambda x: jnp.unique(x, size=64, fill_value=-1), "i[1000]<64", "i[16384]<64")


def _gathering() -> None:
    add = lambda name, function, *arguments: _add("gather", name, function, *arguments)  # noqa: E731
    tables = ("f[64,64] i[32]<64", "f[4096,256] i[1024]<4096", "f[32000,768] i[4096]<32000")
    add("take_rows", lambda x, i: x[i], *tables)
    add("take_rows_bf16", lambda x, i: x[i], *("b" + each for each in tables))
    add("take_columns", lambda x, i: x[:, i], "f[64,64] i[32]<64", "f[512,1024] i[256]<1024")
    add("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), "f[64,64] i[64,1]<64",
        "f[512,1024] i[512,8]<1024", "f[1024,8192] i[1024,1]<8192")  # fmt: skip
    add("gather_elements", lambda x, i, j: x[i, j], "f[64,64] i[256]<64 i[256]<64",
        "f[512,512] i[8192]<512 i[8192]<512")  # fmt: skip
    add("embedding_grad", lambda e, i: jax.grad(lambda e: (e[i] ** 2).sum())(e), "f[1000,64] i[128]<1000",
        "f[8192,256] i[1024]<8192", "f[32000,768] i[2048]<32000")  # fmt: skip
    add("scatter_add_rows", lambda y, i: jnp.zeros((8192, y.shape[1])).at[i].add(y), "f[1,768] i[1]<8192",
        "f[128,768] i[128]<8192", "f[1024,768] i[1024]<8192")  # fmt: skip
    add("scatter_set_rows", lambda x, y, i: x.at[i].set(y), "f[64,64] f[16,64] i[16]<64",
        "f[4096,256] f[512,256] i[512]<4096")  # fmt: skip
    add("scatter_unique_rows", lambda x, y, i: x.at[i].set(y, unique_indices=True), "f[64,64] f[1,64] i[1]<64",
        "f[4096,256] f[1,256] i[1]<4096")  # fmt: skip
    add("scatter_max_rows", lambda x, y, i: x.at[i].max(y), "f[64,64] f[16,64] i[16]<64",
        "f[512,64] f[1024,64] i[1024]<512")  # fmt: skip
    add("scatter_elements", lambda x, i, y: x.at[i].add(y), "f[1000] i[100]<1000 f[100]",
        "f[1000] i[10000]<1000 f[10000]")  # fmt: skip
    add(
        "segment_sum",
        lambda x, i: jax.ops.segment_sum(x, i, 500),
        "f[100,64] i[100]<500",
        "f[4000,64] i[4000]<500",
    )
    add("segment_sum_scalars", lambda x, i: jax.ops.segment_sum(x, i, 1000), "f[1000] i[1000]<1000",
        "f[100000] i[100000]<1000")  # fmt: skip
    add("segment_sum_sorted", lambda x, i: jax.ops.segment_sum(x, i, 500, indices_are_sorted=True),
        "f[100,64] o[100]<500", "f[4000,64] o[4000]<500")  # fmt: skip
    add(
        "segment_max",
        lambda x, i: jax.ops.segment_max(x, i, 500),
        "f[100,64] i[100]<500",
        "f[4000,64] i[4000]<500",
    )
    add("bincount", lambda i: jnp.bincount(i, length=256), "i[1000]<256", "i[100000]<256")
    add("histogram", lambda x: jnp.histogram(x, 64, (-3.0, 3.0))[0], "f[1000]", "f[16384]")
    add("one_hot", lambda i: jax.nn.one_hot(i, 1000), "i[32]<1000", "i[1024]<1000")
    add("mask_to_places", lambda x: jnp.nonzero(x > 0, size=64)[0], "f[1000]", "f[16384]")


def _random() -> None:
    wrapped = jax.random.wrap_key_data

    def drawn(draw: Callable[..., Any]) -> Callable[..., Any]:
        return lambda key, x: draw(wrapped(key), x.shape)

    def dropout(key: Any, x: Any) -> Any:
        return jnp.where(jax.random.bernoulli(wrapped(key), 0.9, x.shape), x / 0.9, 0)

    add = lambda name, draw: _add("random", name, drawn(draw), "k f[1000]", "k f[65536]", "k f[1000000]")  # noqa: E731
    add("bits", lambda key, shape: jax.random.bits(key, shape))
    add("uniform", lambda key, shape: jax.random.uniform(key, shape))
    add("normal", lambda key, shape: jax.random.normal(key, shape))
    add("bernoulli", lambda key, shape: jax.random.bernoulli(key, 0.1, shape))
    add("randint", lambda key, shape: jax.random.randint(key, shape, 0, 1000))
    _add(
        "random",
        "categorical",
        lambda key, x: jax.random.categorical(wrapped(key), x),
        "k f[8,1000]",
        "k f[8,32000]",
    )
    _add("random", "permutation", lambda key, x: jax.random.permutation(wrapped(key), x.shape[0]), "k f[1000]",
         "k f[16384]")  # fmt: skip
    _add("random", "dropout", dropout, "k f[64,64]", "k f[512,512]", "k f[2048,1024]")
    _add("random", "dropout_grad", lambda key, x: jax.grad(lambda x: (dropout(key, x) ** 2).sum())(x), "k f[64,64]",
         "k f[512,512]")  # fmt: skip
    _add("random", "split", lambda key: jax.random.key_data(jax.random.split(wrapped(key), 64)), "k")


def _windows() -> None:
    add = lambda name, function, *arguments: _add("window", name, function, *arguments)  # noqa: E731
    images = ("f[1,14,14,32]", "f[2,56,56,64]", "f[4,112,112,64]")

    def pool(initial: float, combine: Callable[..., Any], size: int, step: int) -> Callable[[Any], Any]:
        return lambda x: lax.reduce_window(
            x, initial, combine, (1, size, size, 1), (1, step, step, 1), "SAME"
        )

    add("max_pool", pool(-jnp.inf, lax.max, 3, 2), *images)
    add("avg_pool", pool(0.0, lax.add, 2, 2), *images)
    add("max_pool_grad", _grad(pool(-jnp.inf, lax.max, 2, 2)), "f[1,14,14,32]", "f[2,56,56,64]")
    add("global_pool", lambda x: x.mean((1, 2)), *images)
    add("resize_bilinear", lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3]),
        "bilinear"), "f[1,14,14,32]", "f[1,56,56,64]")  # fmt: skip
    add("resize_nearest", lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3]),
        "nearest"), "f[1,14,14,32]", "f[1,56,56,64]")  # fmt: skip
    add("resize_grad", _grad(lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3]),
        "bilinear")), "f[1,14,14,32]", "f[1,56,56,64]")  # fmt: skip
    add("patches", lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC")), "f[1,14,14,8]", "f[2,28,28,32]")  # fmt: skip
    add("unfold", lambda x: jnp.stack([x[i : i + 512] for i in range(9)], 1), "f[520]")
    add("cumulative_pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 8), (1, 1), "VALID"), "f[64,64]",
        "f[512,512]")  # fmt: skip
    add("map_coordinates", lambda x, u: jax.scipy.ndimage.map_coordinates(x, [u[0] * 60, u[1] * 60], 1),
        "f[64,64] u[2,32,32]", "f[64,64] u[2,128,128]")  # fmt: skip


def _products() -> None:
    add = lambda name, function, *arguments: _add("product", name, function, *arguments, product=True)  # noqa: E731
    add(
        "matmul",
        lambda a, b: a @ b,
        "f[64,64] f[64,64]",
        "f[512,512] f[512,512]",
        "f[2048,1024] f[1024,2048]",
    )
    add("matmul_bf16", lambda a, b: a @ b, "bf[64,64] bf[64,64]", "bf[512,512] bf[512,512]",
        "bf[2048,1024] bf[1024,2048]")  # fmt: skip
    add("matvec", lambda a, b: a @ b, "f[64,64] f[64]", "f[512,512] f[512]", "f[2048,1024] f[1024]")
    add("batched", lambda a, b: a @ b, "f[4,32,32] f[4,32,32]", "f[16,128,64] f[16,64,128]",
        "f[144,32,32] f[144,32,32]")  # fmt: skip
    add("matmul_grad", _grad(lambda a, b: a @ b, 0, 1), "f[64,64] f[64,64]", "f[512,512] f[512,512]")
    add("outer", lambda a, b: a[:, None] * b, "f[64] f[64]", "f[1024] f[1024]")
    add("int8", lambda a, b: lax.dot_general(a.astype(jnp.int8), b.astype(jnp.int8), (((1,), (0,)), ((), ())),
        preferred_element_type=jnp.int32), "i[64,64]<99 i[64,64]<99", "i[512,512]<99 i[512,512]<99")  # fmt: skip
    layout = ("NHWC", "HWIO", "NHWC")

    def conv(step: int, groups: int = 1, **more: Any) -> Callable[..., Any]:
        return lambda x, w: lax.conv_general_dilated(x, w, (step, step), "SAME", dimension_numbers=layout,
                                                     feature_group_count=groups, **more)  # fmt: skip

    add(
        "conv3x3",
        conv(1),
        "f[1,14,14,32] f[3,3,32,32]",
        "f[2,28,28,64] f[3,3,64,64]",
        "f[4,56,56,64] f[3,3,64,64]",
    )
    add("conv1x1", conv(1), "f[1,14,14,32] f[1,1,32,32]", "f[2,28,28,64] f[1,1,64,128]")
    add("conv7x7_s2", conv(2), "f[1,64,64,3] f[7,7,3,64]", "f[1,224,224,3] f[7,7,3,64]")
    add("conv_depthwise", conv(1, 32), "f[1,14,14,32] f[3,3,1,32]", "f[2,56,56,32] f[3,3,1,32]",
        "f[1,112,112,32] f[3,3,1,32]")  # fmt: skip
    add("conv_grad", _grad(conv(1), 0, 1), "f[1,14,14,32] f[3,3,32,32]", "f[2,28,28,64] f[3,3,64,64]")
    add("conv_transpose", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=layout),
        "f[1,14,14,32] f[2,2,32,32]", "f[1,28,28,64] f[2,2,64,64]")  # fmt: skip
    add("conv_transpose_grad", _grad(lambda x, w: lax.conv_transpose(x, w, (4, 4), "VALID", dimension_numbers=layout),
        1), "f[1,8,8,16] f[4,4,16,16]", "f[1,16,16,64] f[4,4,64,16]")  # fmt: skip
    add("conv1d", lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        "f[1,128,32] f[3,32,32]", "f[2,1024,64] f[5,64,64]")  # fmt: skip

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jax.nn.softmax(jnp.where(mask, scores, -1e30)) @ v

    heads = ("f[1,4,64,32] " * 3, "f[1,8,256,64] " * 3, "f[1,8,1024,64] " * 3)
    add("attention", attention, *heads)
    add("attention_grad", _grad(attention, 0, 1, 2), *heads[:2])


def _algebra() -> None:
    add = lambda name, function, *arguments: _add("algebra", name, function, *arguments)  # noqa: E731
    add("cholesky", jnp.linalg.cholesky, "p[16,16]", "p[128,128]")
    add("solve", jnp.linalg.solve, "p[16,16] f[16,4]", "p[128,128] f[128,16]")
    add("triangular_solve", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        "p[16,16] f[16,4]", "p[256,256] f[256,64]")  # fmt: skip
    add("inverse", jnp.linalg.inv, "p[16,16]", "p[128,128]")
    add("determinant", jnp.linalg.det, "p[16,16]", "p[8,32,32]")
    add("qr", jnp.linalg.qr, "f[16,16]", "f[128,64]")
    add("svd", lambda a: jnp.linalg.svd(a, full_matrices=False), "f[16,16]", "f[100,50]")
    add("svd_values", lambda a: jnp.linalg.svd(a, compute_uv=False), "f[16,16]", "f[100,100]")
    add("eigh", jnp.linalg.eigh, "p[16,16]", "p[64,64]")
    add("matrix_power", lambda a: jnp.linalg.matrix_power(a / 100, 5), "f[16,16]", "f[128,128]")
    add("fft", lambda x: jnp.abs(jnp.fft.fft(x)), "f[8,64]", "f[64,1024]")
    add("rfft", lambda x: jnp.abs(jnp.fft.rfft(x)), "f[8,64]", "f[64,1024]")
    add("irfft", lambda x: jnp.fft.irfft(lax.complex(x, x)), "f[8,33]", "f[64,513]")


def _losses() -> None:
    add = lambda name, function, *arguments: _add("loss", name, function, *arguments)  # noqa: E731
    logits = ("f[64,100] i[64]<100", "f[512,1000] i[512]<1000", "f[1024,8192] i[1024]<8192")

    def cross_entropy(x: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()

    add("cross_entropy", cross_entropy, *logits)
    add("cross_entropy_grad", jax.grad(cross_entropy), *logits)
    add("cross_entropy_shifted_grad", jax.grad(lambda x, i: cross_entropy(x[:-1], i[1:])), *logits)
    add("softmax_grad", _grad(lambda x: jax.nn.softmax(x)), *_ALL)
    add("layer_norm_grad", _grad(lambda x: (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5)),
        *_ALL)  # fmt: skip
    add("gelu_grad", _grad(jax.nn.gelu), *_ALL)
    add("slice_grad", _grad(lambda x: x[:-1]), *_ALL)
    add("stacked_weight_grad", _grad(lambda x: x[1]), "f[2,64,64]", "f[4,512,512]")
    add("adam", lambda w, g, m, v: (w - 1e-3 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.999 * v + 0.001 * g * g) + 1e-8),
        0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g), *(f"{s} {s} {s} u{s[1:]}" for s in _ALL))  # fmt: skip
    add("rope", lambda x: jnp.concatenate([x[..., :32] * jnp.cos(1.0) - x[..., 32:] * jnp.sin(1.0), x[..., 32:] *
        jnp.cos(1.0) + x[..., :32] * jnp.sin(1.0)], -1), "f[1,4,64,64]", "f[1,8,512,64]")  # fmt: skip
    add("swiglu", lambda x, y: jax.nn.silu(x) * y, *(f"{s} {s}" for s in _ALL))


def _control() -> None:
    add = lambda name, function, *arguments: _add("control", name, function, *arguments)  # noqa: E731
    add("cond", lambda x: lax.cond(x[0, 0] > 0, jnp.sin, lambda x: x * 2, x), *_ALL)
    add("fori", lambda x: lax.fori_loop(0, 16, lambda i, x: x * 0.5 + 1, x), *_ALL)
    add("map", lambda x: lax.map(lambda row: row / (1 + jnp.sum(row * row)), x), "f[64,64]", "f[128,512]")
    add("vmap_matvec", jax.vmap(lambda a, b: a @ b), "f[8,32,32] f[8,32]", "f[64,64,64] f[64,64]")


for _family in (_movement, _elementwise, _reductions, _scans, _sorting, _gathering, _random, _windows, _products,
                _algebra, _losses, _control):  # fmt: skip
    _family()
