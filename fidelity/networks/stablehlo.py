"""Writes one StableHLO function op by op."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from ml_dtypes import bfloat16

ELEMENT_BYTES = {"f32": 4, "i32": 4, "bf16": 2, "f16": 2}


@dataclass(frozen=True)
class Network:
    """A module as StableHLO text; `moved_bytes` of inputs and results pass between host and device per inference."""

    text: str
    moved_bytes: int


@dataclass(frozen=True)
class Value:
    """A value of the function: its name, shape and element type."""

    name: str
    shape: tuple[int, ...]
    element: str

    def __str__(self) -> str:
        return self.name

    @property
    def type(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element}>"

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * ELEMENT_BYTES[self.element]


class Graph:
    """A function being written.

    product_type: element type of the operands of products and convolutions, "bf16" under autocast of matrix products.
    element: of everything else, "bf16" for a model that its user loads in that type.
    """

    def __init__(self, name: str, product_type: str = "bf16", element: str = "f32") -> None:
        self.name = name
        self.product_type = product_type
        self.element = element
        self._arguments: list[Value] = []
        self._shared: Iterator[Value] | None = None
        self._lines: list[str] = []
        self._names = 0
        self._input_bytes = 0

    def _new(self, shape: Sequence[int], element: str) -> Value:
        self._names += 1
        return Value(f"%{self._names}", tuple(shape), element)

    def argument(self, *shape: int, element: str = "") -> Value:
        if self._shared is not None:
            value = next(self._shared)
            assert value.shape == shape, "layers that share arguments ask for the same ones"
            return value
        value = self._new(shape, element or self.element)
        self._arguments.append(value)
        return value

    @property
    def argument_count(self) -> int:
        return len(self._arguments)

    @contextmanager
    def sharing(self, first: int) -> Iterator[None]:
        """Within it, the arguments from number `first` on are given out again, in their order: layers share them."""
        self._shared = iter(self._arguments[first:])
        try:
            yield
        finally:
            self._shared = None

    def input(self, *shape: int, element: str = "") -> Value:
        """An argument that every inference brings anew."""
        value = self.argument(*shape, element=element)
        self._input_bytes += value.bytes
        return value

    def parameter(self, *shape: int) -> Value:
        """An operand of products."""
        return self.argument(*shape, element=self.product_type)

    def op(self, text: str, operands: Sequence[Value], shape: Sequence[int], element: str = "") -> Value:
        """text: the op with its operands and attributes, without types. element: of the result, else the graph's."""
        result = self._new(shape, element or self.element)
        types = ", ".join(operand.type for operand in operands)
        self._lines.append(f"    {result} = {text} : ({types}) -> {result.type}")
        return result

    def number(self, value: float, element: str = "f32") -> Value:
        result = self._new((), element)
        bits = np.array(value, np.float32).view(np.uint32)
        digits = f"{bits:08X}" if element == "f32" else f"{np.array(value, bfloat16).view(np.uint16):04X}"
        self._lines.append(f"    {result} = stablehlo.constant dense<0x{digits}> : {result.type}")
        return result

    # -- element-wise
    def spread(self, x: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        """Dimension i of x is dimension dims[i] of the result."""
        return self.op(f"stablehlo.broadcast_in_dim {x}, dims = {list(dims)}", [x], shape, x.element)

    def unary(self, op: str, x: Value) -> Value:
        dialect = "chlo" if op == "erf" else "stablehlo"
        result = self._new(x.shape, x.element)
        self._lines.append(f"    {result} = {dialect}.{op} {x} : {x.type}")
        if dialect == "chlo":
            self._lines[-1] += f" -> {result.type}"
        return result

    def binary(self, op: str, x: Value, y: Value | float, dims: Sequence[int] | None = None) -> Value:
        """y: of x's shape, a number, or broadcast: its dimension i is x's dimension dims[i] (the last by default)."""
        if not isinstance(y, Value):
            y = self.spread(self.number(y, x.element), x.shape, [])
        elif y.shape != x.shape:
            y = self.spread(y, x.shape, [len(x.shape) - 1] if dims is None else dims)
        result = self._new(x.shape, x.element)
        self._lines.append(f"    {result} = stablehlo.{op} {x}, {y} : {x.type}")
        return result

    def converted(self, x: Value, element: str) -> Value:
        if x.element == element:
            return x
        return self.op(f"stablehlo.convert {x}", [x], x.shape, element)

    def reduce(self, op: str, x: Value, dims: Sequence[int]) -> Value:
        start = self.number(0.0 if op == "add" else -np.inf, x.element)
        shape = [size for place, size in enumerate(x.shape) if place not in dims]
        text = f"stablehlo.reduce({x} init: {start}) applies stablehlo.{op} across dimensions = {list(dims)}"
        return self.op(text, [x, start], shape, x.element)

    # -- arrangement
    def reshape(self, x: Value, *shape: int) -> Value:
        return self.op(f"stablehlo.reshape {x}", [x], shape, x.element)

    def transpose(self, x: Value, *order: int) -> Value:
        shape = [x.shape[place] for place in order]
        return self.op(f"stablehlo.transpose {x}, dims = {list(order)}", [x], shape, x.element)

    def slice(self, x: Value, *bounds: tuple[int, int]) -> Value:
        text = ", ".join(f"{begin}:{end}" for begin, end in bounds)
        shape = [end - begin for begin, end in bounds]
        return self.op(f"stablehlo.slice {x} [{text}]", [x], shape, x.element)

    def concatenate(self, parts: Sequence[Value], dim: int) -> Value:
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        names = ", ".join(part.name for part in parts)
        return self.op(f"stablehlo.concatenate {names}, dim = {dim}", parts, shape, parts[0].element)

    def rows_of(self, table: Value, indices: Value) -> Value:
        """Rows of a [rows, columns] table."""
        rank, columns = len(indices.shape), table.shape[1]
        text = (
            f'"stablehlo.gather"({table}, {indices}) <{{dimension_numbers = #stablehlo.gather<'
            f"offset_dims = [{rank}], collapsed_slice_dims = [0], start_index_map = [0], "
            f"index_vector_dim = {rank}>, slice_sizes = array<i64: 1, {columns}>}}>"
        )
        return self.op(text, [table, indices], (*indices.shape, columns), table.element)

    # -- products
    def product(self, x: Value, y: Value, contract: tuple[int, int], batch: int = 0) -> Value:
        """The leading `batch` dimensions are shared."""
        x, y = self.converted(x, self.product_type), self.converted(y, self.product_type)
        shared = list(range(batch))
        shape = [size for place, size in enumerate(x.shape) if place != contract[0]]
        shape += [size for place, size in enumerate(y.shape) if place >= batch and place != contract[1]]
        text = (
            f"stablehlo.dot_general {x}, {y}, batching_dims = {shared} x {shared}, "
            f"contracting_dims = [{contract[0]}] x [{contract[1]}]"
        )
        return self.op(text, [x, y], shape)

    def convolution(
        self, x: Value, features: int, size: int, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> Value:
        """x: [channels, images, height, width], the order in which a channel's positions are one run of memory."""
        x = self.converted(x, self.product_type)
        channels, images, *sides = x.shape
        kernel = self.parameter(channels // groups, size, size, features)
        heights = [(side + 2 * padding - size) // stride + 1 for side in sides]
        text = (
            f"stablehlo.convolution({x}, {kernel}) dim_numbers = [f, b, 0, 1]x[i, 0, 1, o]->[f, b, 0, 1], "
            f"window = {{stride = [{stride}, {stride}], pad = [[{padding}, {padding}], [{padding}, {padding}]]}} "
            f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}"
        )
        return self.op(text, [x, kernel], (features, images, *heights))

    def doubled_convolution(self, x: Value, features: int) -> Value:
        """A transposed 2x2 convolution with stride 2, as exporters write it: over zeros between the positions of x,
        [channels, images, height, width].
        """
        x = self.converted(x, self.product_type)
        channels, images, height, width = x.shape
        kernel = self.parameter(channels, 2, 2, features)
        text = (
            f"stablehlo.convolution({x}, {kernel}) dim_numbers = [f, b, 0, 1]x[i, 0, 1, o]->[f, b, 0, 1], "
            "window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]} "
            "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        )
        return self.op(text, [x, kernel], (features, images, 2 * height, 2 * width))

    def max_pool(self, x: Value, size: int, stride: int, padding: int = 0) -> Value:
        """x: [channels, images, height, width]."""
        start = self.number(-np.inf, x.element)
        sides = [(side + 2 * padding - size) // stride + 1 for side in x.shape[2:]]
        result = self._new((*x.shape[:2], *sides), x.element)
        pads = f"[[0, 0], [0, 0], [{padding}, {padding}], [{padding}, {padding}]]"
        self._lines += [
            f'    {result} = "stablehlo.reduce_window"({x}, {start}) <{{padding = dense<{pads}> : tensor<4x2xi64>, '
            f"window_dimensions = array<i64: 1, 1, {size}, {size}>, "
            f"window_strides = array<i64: 1, 1, {stride}, {stride}>}}> ({{",
            f"    ^bb0(%a{result.name[1:]}: {start.type}, %b{result.name[1:]}: {start.type}):",
            f"      %m{result.name[1:]} = stablehlo.maximum %a{result.name[1:]}, %b{result.name[1:]} : {start.type}",
            f"      stablehlo.return %m{result.name[1:]} : {start.type}",
            f"    }}) : ({x.type}, {start.type}) -> {result.type}",
        ]
        return result

    def network(self, *results: Value) -> Network:
        """The module that returns `results`."""
        arguments = ", ".join(f"{value}: {value.type}" for value in self._arguments)
        types = ", ".join(result.type for result in results)
        lines = [
            f"module @{self.name} {{",
            f"  func.func public @main({arguments}) -> ({types}) {{",
            *self._lines,
            f"    return {', '.join(result.name for result in results)} : {types}",
            "  }",
            "}",
            "",
        ]
        return Network("\n".join(lines), self._input_bytes + sum(result.bytes for result in results))
