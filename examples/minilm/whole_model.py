"""The whole sentence encoder as one StableHLO program: token ids in, sentence embeddings out.

The text is written here op by op from the checkpoint's configuration, the weights are arguments in the
checkpoint's own layouts, and `opentrn.compile` makes one NeuronCore program of it. With "bf16" the matrix
products take bfloat16 operands and everything else is fp32, which is AWS's autocast of matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from examples.minilm.reference import EPSILON, HEADS
from examples.minilm.weights import MASKED


class Writer:
    """Appends ops of one function; a value is its name, its shape and its element type."""

    def __init__(self, product_type: str) -> None:
        self.product_type = product_type
        self.arguments: list[str] = []
        self.types: dict[str, tuple[tuple[int, ...], str]] = {}
        self.lines: list[str] = []

    def argument(self, shape: Sequence[int], element: str = "f32") -> str:
        name = f"%a{len(self.arguments)}"
        self.types[name] = (tuple(shape), element)
        self.arguments.append(f"{name}: {self.type_of(name)}")
        return name

    def type_of(self, name: str) -> str:
        shape, element = self.types[name]
        return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"

    def emit(self, text: str, shape: Sequence[int], operands: Sequence[str], element: str = "f32") -> str:
        """`text` is the op without its types, which follow from the operands and the result."""
        name = f"%v{len(self.lines)}"
        self.types[name] = (tuple(shape), element)
        types = ", ".join(self.type_of(operand) for operand in operands)
        self.lines.append(f"    {name} = {text} : ({types}) -> {self.type_of(name)}")
        return name

    def constant(self, value: float) -> str:
        bits = np.array(value, np.float32).view(np.uint32)
        name = f"%v{len(self.lines)}"
        self.types[name] = ((), "f32")
        self.lines.append(f"    {name} = stablehlo.constant dense<0x{bits:08X}> : tensor<f32>")
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return self.types[name][0]

    def spread(self, name: str, shape: Sequence[int], places: Sequence[int]) -> str:
        return self.emit(f"stablehlo.broadcast_in_dim {name}, dims = {list(places)}", shape, [name])

    def unary(self, op: str, x: str) -> str:
        return self.emit(f"{op} {x}", self.shape(x), [x])

    def erf(self, x: str) -> str:
        name = f"%v{len(self.lines)}"
        self.types[name] = self.types[x]
        self.lines.append(f"    {name} = chlo.erf {x} : {self.type_of(x)} -> {self.type_of(x)}")
        return name

    def binary(self, op: str, a: str, b: str | float) -> str:
        """b: of a's shape, a number, or a vector along a's last dimension."""
        if not isinstance(b, str):
            b = self.spread(self.constant(b), self.shape(a), [])
        elif self.shape(b) != self.shape(a):
            b = self.spread(b, self.shape(a), [len(self.shape(a)) - 1])
        return self.emit(f"stablehlo.{op} {a}, {b}", self.shape(a), [a, b])

    def reduce(self, op: str, x: str, axis: int) -> str:
        start = self.constant(0.0 if op == "add" else -np.inf)
        shape = [size for place, size in enumerate(self.shape(x)) if place != axis]
        text = f"stablehlo.reduce({x} init: {start}) applies stablehlo.{op} across dimensions = [{axis}]"
        return self.emit(text, shape, [x, start])

    def dot(self, a: str, b: str, batch: int, contract: tuple[int, int], shape: Sequence[int]) -> str:
        batches = list(range(batch))
        a, b = self._product_operand(a), self._product_operand(b)
        text = f"stablehlo.dot_general {a}, {b}, batching_dims = {batches} x {batches}, "
        return self.emit(text + f"contracting_dims = [{contract[0]}] x [{contract[1]}]", shape, [a, b])

    def _product_operand(self, x: str) -> str:
        if self.types[x][1] == self.product_type:
            return x
        return self.emit(f"stablehlo.convert {x}", self.shape(x), [x], self.product_type)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.emit(f"stablehlo.reshape {x}", shape, [x])

    def transpose(self, x: str, order: Sequence[int]) -> str:
        shape = [self.shape(x)[place] for place in order]
        return self.emit(f"stablehlo.transpose {x}, dims = {list(order)}", shape, [x])

    def function(self, result: str) -> str:
        """The module's text."""
        head = f"  func.func public @main({', '.join(self.arguments)}) -> {self.type_of(result)} {{"
        tail = f"    return {result} : {self.type_of(result)}\n  }}\n}}\n"
        return "\n".join(["module @minilm {", head, *self.lines, tail])


class Encoder:
    """Writes the encoder; `weights` are read in the order in which the program takes them."""

    def __init__(self, weights: dict[str, np.ndarray], ids: np.ndarray, layers: int, bf16: bool) -> None:
        self.weights = weights
        self.operands: list[np.ndarray] = []
        self.writer = Writer("bf16" if bf16 else "f32")
        self.text = self._write(ids.shape, layers, bf16)

    def _weight(self, name: str, bf16: bool = False) -> str:
        import ml_dtypes

        value = self.weights[name]
        self.operands.append(value.astype(ml_dtypes.bfloat16) if bf16 else value)
        return self.writer.argument(value.shape, "bf16" if bf16 else "f32")

    def _linear(self, x: str, name: str) -> str:
        w = self.writer
        weight = self._weight(f"{name}.weight", bf16=w.product_type == "bf16")
        shape = (*w.shape(x)[:-1], w.shape(weight)[0])
        return w.binary("add", w.dot(x, weight, 0, (len(shape) - 1, 1), shape), self._weight(f"{name}.bias"))

    def _norm(self, x: str, name: str) -> str:
        w = self.writer
        shape, rows = w.shape(x), list(range(len(w.shape(x)) - 1))

        def mean(value: str) -> str:
            return w.spread(w.binary("divide", w.reduce("add", value, len(rows)), shape[-1]), shape, rows)

        centred = w.binary("subtract", x, mean(x))
        variance = mean(w.binary("multiply", centred, centred))
        scale = w.unary("stablehlo.rsqrt", w.binary("add", variance, EPSILON))
        scaled = w.binary("multiply", w.binary("multiply", centred, scale), self._weight(f"{name}.weight"))
        return w.binary("add", scaled, self._weight(f"{name}.bias"))

    def _softmax(self, x: str) -> str:
        w = self.writer
        shape, rows = w.shape(x), list(range(len(w.shape(x)) - 1))
        top = w.spread(w.reduce("maximum", x, len(rows)), shape, rows)
        powers = w.unary("stablehlo.exponential", w.binary("subtract", x, top))
        return w.binary("divide", powers, w.spread(w.reduce("add", powers, len(rows)), shape, rows))

    def _attention(self, x: str, mask: str, prefix: str) -> str:
        w = self.writer
        sentences, tokens, features = w.shape(x)
        width = features // HEADS

        def heads(name: str) -> str:
            split = w.reshape(self._linear(x, f"{prefix}self.{name}"), (sentences, tokens, HEADS, width))
            return w.transpose(split, (0, 2, 1, 3))

        query, key, value = heads("query"), heads("key"), heads("value")
        square = (sentences, HEADS, tokens, tokens)
        scores = w.binary("multiply", w.dot(query, key, 2, (3, 3), square), width**-0.5)
        weights = self._softmax(w.binary("add", scores, w.spread(mask, square, [0, 3])))
        mixed = w.dot(weights, value, 2, (3, 2), (sentences, HEADS, tokens, width))
        joined = w.reshape(w.transpose(mixed, (0, 2, 1, 3)), (sentences, tokens, features))
        return self._norm(
            w.binary("add", x, self._linear(joined, f"{prefix}output.dense")), f"{prefix}output.LayerNorm"
        )

    def _gelu(self, x: str) -> str:
        w = self.writer
        erf = w.erf(w.binary("multiply", x, 2**-0.5))
        return w.binary("multiply", w.binary("multiply", x, 0.5), w.binary("add", erf, 1.0))

    def _layer(self, x: str, mask: str, prefix: str) -> str:
        w = self.writer
        x = self._attention(x, mask, f"{prefix}attention.")
        inner = self._gelu(self._linear(x, f"{prefix}intermediate.dense"))
        return self._norm(
            w.binary("add", x, self._linear(inner, f"{prefix}output.dense")), f"{prefix}output.LayerNorm"
        )

    def _embed(self, ids: str) -> str:
        w = self.writer
        words = self._weight("embeddings.word_embeddings.weight")
        features = w.shape(words)[1]
        shape = (*w.shape(ids), features)
        gather = (
            f'"stablehlo.gather"({words}, {ids}) <{{dimension_numbers = #stablehlo.gather<offset_dims = [2], '
            "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, "
            f"slice_sizes = array<i64: 1, {features}>}}>"
        )
        x = w.emit(gather, shape, [words, ids])
        positions = self._weight("embeddings.position_embeddings.weight")
        first = w.emit(f"stablehlo.slice {positions} [0:{shape[1]}, 0:{features}]", shape[1:], [positions])
        x = w.binary("add", x, w.spread(first, shape, [1, 2]))
        types = self._weight("embeddings.token_type_embeddings.weight")
        row = w.emit(f"stablehlo.slice {types} [0:1, 0:{features}]", (1, features), [types])
        x = w.binary("add", x, w.reshape(row, (features,)))
        return self._norm(x, "embeddings.LayerNorm")

    def _pooled(self, x: str, keep: str) -> str:
        """Mean over the tokens that are not padding, scaled to length 1."""
        w = self.writer
        shape = w.shape(x)
        total = w.reduce("add", w.binary("multiply", x, w.spread(keep, shape, [0, 1])), 1)
        count = w.spread(w.reduce("add", keep, 1), w.shape(total), [0])
        mean = w.binary("divide", total, count)
        squares = w.reduce("add", w.binary("multiply", mean, mean), 1)
        return w.binary("multiply", mean, w.spread(w.unary("stablehlo.rsqrt", squares), w.shape(mean), [0]))

    def _write(self, shape: tuple[int, ...], layers: int, bf16: bool) -> str:
        w = self.writer
        ids, keep = w.argument(shape, "i64"), w.argument(shape)
        x = self._embed(ids)
        mask = w.binary("multiply", w.binary("subtract", keep, 1.0), -MASKED)
        for layer in range(layers):
            x = self._layer(x, mask, f"encoder.layer.{layer}.")
        return w.function(self._pooled(x, keep))
