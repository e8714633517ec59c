"""StableHLO text, op by op: values, and the ops that everything in ops/ is made of.

Text is what carries a graph to the compiler: reading it costs it a fraction of what making it costs here, and
it is the file that `opentrn compile` takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from opentrn.torch.registry import NoDeviceForm
from opentrn.torch.types import ELEMENTS, integer_range, is_float, is_integer, is_signed

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A tensor of the program."""

    name: str
    shape: Shape
    dtype: torch.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def type(self) -> str:
        return type_text(self.shape, self.dtype)


@dataclass(frozen=True)
class Spec:
    """Shape, type and strides (in elements) of a tensor."""

    shape: Shape
    dtype: torch.dtype
    stride: Shape = ()


def type_text(shape: Sequence[int], dtype: torch.dtype) -> str:
    """tensor<2x3xf32>. KeyError for a type that the device has no form of is the caller's to avoid."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{ELEMENTS[dtype]}>"


def numbers(values: Iterable[int]) -> str:
    """array<i64: 1, 2>"""
    text = ", ".join(map(str, values))
    return f"array<i64: {text}>" if text else "array<i64>"


def pairs(values: Sequence[tuple[int, int]]) -> str:
    """Padding: dense<[[1, 2], [0, 0]]> : tensor<2x2xi64>"""
    if not values:
        return "dense<> : tensor<0x2xi64>"
    return f"dense<[{', '.join(f'[{low}, {high}]' for low, high in values)}]> : tensor<{len(values)}x2xi64>"


def block_text(given: Sequence[Value], body: Body, results: Sequence[Value]) -> str:
    """A region's one block: what it is given, the lines of `body`, what it returns."""
    head = ", ".join(f"{value.name}: {value.type}" for value in given)
    names, types = ", ".join(r.name for r in results), ", ".join(r.type for r in results)
    lines = [f"^bb0({head}):", *body.lines, f'"stablehlo.return"({names}) : ({types}) -> ()']
    return "{\n" + "\n".join(lines) + "\n}"


# Before 2.13 torch converted what is out of float8_e4m3fn's range to NaN.
_E4M3_SATURATES = not torch.tensor(1e4).to(torch.float8_e4m3fn).isnan()


def _bits(value: torch.Tensor) -> str:
    size = value.element_size()
    return "0x" + bytes(value.reshape(1).view(torch.uint8).tolist())[::-1].hex().upper().zfill(2 * size)


@functools.lru_cache(maxsize=4096, typed=True)
def literal(value: Any, dtype: torch.dtype) -> str:
    """A number as MLIR spells it in a constant of `dtype`. NoDeviceForm for a whole number without a form."""
    if dtype == torch.bool:
        return "true" if value else "false"
    if dtype.is_complex:
        part = torch.float32 if dtype == torch.complex64 else torch.float64
        number = complex(value)
        return f"({literal(number.real, part)}, {literal(number.imag, part)})"
    if isinstance(value, complex):
        raise NoDeviceForm(f"{value} is complex, and {dtype} has no such numbers", label="torch.type")
    if is_float(dtype):
        return _bits(
            torch.tensor(float(value)).to(dtype) if dtype.itemsize == 1 else torch.tensor(value, dtype=dtype)
        )
    low, high = integer_range(dtype)
    whole = int(value)
    if not low <= whole <= high:
        if dtype in (torch.int64, torch.uint64):
            raise NoDeviceForm(
                f"{whole} does not fit the 32 bits that the device has for {dtype}",
                label="torch.range", hint="keep whole numbers below 2^31 on the device",
            )
        whole = (whole - low) % (high - low + 1) + low
    return str(whole)


class Body:
    """A function or region being written. Names are unique over all regions of a program."""

    def __init__(self, counter: list[int] | None = None, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth  # of regions in regions
        self.location = ""
        self._counter = [0] if counter is None else counter
        self._splats: dict[tuple[str, str], Value] = {}

    def fresh(self) -> str:
        self._counter[0] += 1
        return f"%v{self._counter[0]}"

    # ---- ops -------------------------------------------------------------------------------------------------

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Sequence[int],
        dtype: torch.dtype,
        attributes: str = "",
        regions: str = "",
    ) -> Value:
        """One op with one result. `name` without a dialect is StableHLO's."""
        return self.ops(name, operands, [(tuple(shape), dtype)], attributes, regions)[0]

    def ops(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Shape, torch.dtype]],
        attributes: str = "",
        regions: str = "",
    ) -> list[Value]:
        """One op with any number of results."""
        values = [Value(self.fresh(), shape, dtype) for shape, dtype in results]
        full = name if "." in name else f"stablehlo.{name}"
        self.lines.append(
            f'{", ".join(value.name for value in values)} = "{full}"('
            f"{', '.join(value.name for value in operands)})"
            f"{' <{' + attributes + '}>' if attributes else ''}{regions} : "
            f"({', '.join(value.type for value in operands)}) -> ("
            f"{', '.join(value.type for value in values)}){self.location}"
        )
        return values

    def region(self, arguments: Sequence[torch.dtype], build: Callable[..., Sequence[Value]]) -> str:
        """A region over numbers, as reductions and sorts take it; build(body, *arguments) gives its results."""
        return f"({self.block([((), dtype) for dtype in arguments], build)})"

    def block(
        self, arguments: Sequence[tuple[Shape, torch.dtype]], build: Callable[..., Sequence[Value]]
    ) -> str:
        """A region over tensors; it may read values of this body too."""
        body = Body(self._counter, self.depth + 1)
        body.location = self.location
        given = [Value(body.fresh(), shape, dtype) for shape, dtype in arguments]
        return block_text(given, body, build(body, *given))

    # ---- constants -------------------------------------------------------------------------------------------

    def splat(self, value: complex, dtype: torch.dtype, shape: Sequence[int] = ()) -> Value:
        """A constant of one value; the same one for the same value and type."""
        kind, text = type_text(shape, dtype), literal(value, dtype)
        if (kind, text) not in self._splats:
            held = "dense<>" if 0 in shape else f"dense<{text}>"
            self._splats[kind, text] = self.op("constant", [], shape, dtype, f"value = {held} : {kind}")
        return self._splats[kind, text]

    def constant(self, tensor: torch.Tensor) -> Value:
        """A tensor's values in the program."""
        kind = type_text(tensor.shape, tensor.dtype)
        if tensor.numel() == 0:
            held = "dense<>"
        elif tensor.dtype == torch.bool:
            flags = ["true" if flag else "false" for flag in tensor.reshape(-1).tolist()]
            flat = Value("", (len(flags),), torch.bool)
            text = f"value = dense<[{', '.join(flags)}]> : {flat.type}"
            return self.reshape(self.op("constant", [], flat.shape, torch.bool, text), tuple(tensor.shape))
        else:
            # A copy: torch takes a single element for contiguous, whatever its stride.
            elements = tensor.detach().cpu().reshape(-1).clone(memory_format=torch.contiguous_format)
            raw = elements.view(torch.uint8).numpy().tobytes()
            held = f'dense<"0x{raw.hex().upper()}">'
        return self.op("constant", [], tuple(tensor.shape), tensor.dtype, f"value = {held} : {kind}")

    def iota(self, shape: Sequence[int], dimension: int, dtype: torch.dtype) -> Value:
        if 0 in shape:
            return self.splat(0, dtype, shape)
        return self.op("iota", [], shape, dtype, f"iota_dimension = {dimension} : i64")

    # ---- shapes ----------------------------------------------------------------------------------------------

    def convert(self, value: Value, dtype: torch.dtype) -> Value:
        """As torch converts: numbers become True unless they are zero, complex numbers lose their imaginary part."""
        if value.dtype == dtype:
            return value
        if dtype == torch.bool:
            return self.compare("NE", value, self.splat(0, value.dtype, value.shape))
        if value.dtype.is_complex and not dtype.is_complex:
            part = torch.float32 if value.dtype == torch.complex64 else torch.float64
            return self.convert(self.op("real", [value], value.shape, part), dtype)
        if dtype.is_complex and not value.dtype.is_complex:
            part = torch.float32 if dtype == torch.complex64 else torch.float64
            real = self.convert(value, part)
            return self.op("complex", [real, self.splat(0, part, value.shape)], value.shape, dtype)
        if dtype == torch.float8_e4m3fn and _E4M3_SATURATES:
            value = self._within_e4m3(value)
        return self.op("convert", [value], value.shape, dtype)

    def _within_e4m3(self, value: Value) -> Value:
        """Numbers and infinities beyond the largest float8_e4m3fn become it, as in torch; NaN stays NaN.

        StableHLO's convert gives NaN for them, which is what JAX expects.
        """
        if value.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            value = self.op("convert", [value], value.shape, torch.float32)
        highest = self.like(torch.finfo(torch.float8_e4m3fn).max, value)
        lowest = self.like(torch.finfo(torch.float8_e4m3fn).min, value)
        return self.binary("maximum", self.binary("minimum", value, highest), lowest)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        return value if shape == value.shape else self.op("reshape", [value], shape, value.dtype)

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        if list(permutation) == list(range(value.rank)):
            return value
        shape = tuple(value.shape[axis] for axis in permutation)
        return self.op("transpose", [value], shape, value.dtype, f"permutation = {numbers(permutation)}")

    def broadcast_in_dim(self, value: Value, shape: Sequence[int], dimensions: Sequence[int]) -> Value:
        shape = tuple(shape)
        if shape == value.shape and list(dimensions) == list(range(value.rank)):
            return value
        text = f"broadcast_dimensions = {numbers(dimensions)}"
        return self.op("broadcast_in_dim", [value], shape, value.dtype, text)

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """To `shape`, of the same dtype, by torch's rule: dimensions count from the last."""
        shape = tuple(shape)
        return self.broadcast_in_dim(value, shape, range(len(shape) - value.rank, len(shape)))

    def slice(
        self, value: Value, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None = None
    ) -> Value:
        strides = [1] * value.rank if strides is None else list(strides)
        shape = tuple(max(0, -(-(hi - lo) // step)) for lo, hi, step in zip(start, limit, strides))
        if shape == value.shape:
            return value
        if 0 in shape:
            return self.splat(0, value.dtype, shape)
        text = f"start_indices = {numbers(start)}, limit_indices = {numbers(limit)}, strides = {numbers(strides)}"
        return self.op("slice", [value], shape, value.dtype, text)

    def slice_axis(self, value: Value, axis: int, start: int, limit: int, step: int = 1) -> Value:
        starts, limits, steps = [0] * value.rank, list(value.shape), [1] * value.rank
        starts[axis], limits[axis], steps[axis] = start, limit, step
        return self.slice(value, starts, limits, steps)

    def pad(
        self,
        value: Value,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] | None = None,
        fill: complex = 0,
    ) -> Value:
        """With `fill`; negative amounts cut."""
        interior = [0] * value.rank if interior is None else list(interior)
        if not any(low) and not any(high) and not any(interior):
            return value
        shape = tuple(
            lo + hi + size + max(size - 1, 0) * gap
            for lo, hi, gap, size in zip(low, high, interior, value.shape)
        )
        if 0 in value.shape or 0 in shape:
            return self.splat(fill, value.dtype, shape)
        text = (
            f"edge_padding_low = {numbers(low)}, edge_padding_high = {numbers(high)}, "
            f"interior_padding = {numbers(interior)}"
        )
        return self.op("pad", [value, self.splat(fill, value.dtype)], shape, value.dtype, text)

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        kept = [value for value in values if value.shape[axis]]
        if not kept:
            return values[0]
        if len(kept) == 1:
            return kept[0]
        shape = list(kept[0].shape)
        shape[axis] = sum(value.shape[axis] for value in kept)
        return self.op("concatenate", kept, shape, kept[0].dtype, f"dimension = {axis} : i64")

    def reverse(self, value: Value, axes: Sequence[int]) -> Value:
        if not axes or 0 in value.shape:
            return value
        return self.op("reverse", [value], value.shape, value.dtype, f"dimensions = {numbers(axes)}")

    # ---- elements --------------------------------------------------------------------------------------------

    def unary(self, name: str, value: Value) -> Value:
        return self.op(name, [value], value.shape, value.dtype)

    def binary(self, name: str, left: Value, right: Value) -> Value:
        return self.op(name, [left, right], left.shape, left.dtype)

    def add(self, left: Value, right: Value) -> Value:
        return self.binary("add" if left.dtype != torch.bool else "or", left, right)

    def subtract(self, left: Value, right: Value) -> Value:
        return self.binary("subtract", left, right)

    def multiply(self, left: Value, right: Value) -> Value:
        return self.binary("multiply" if left.dtype != torch.bool else "and", left, right)

    def divide(self, left: Value, right: Value) -> Value:
        return self.binary("divide", left, right)

    def compare(self, direction: str, left: Value, right: Value) -> Value:
        """direction: EQ, NE, LT, LE, GT, GE."""
        if is_float(left.dtype) or left.dtype.is_complex:
            kind = "FLOAT"
        else:
            kind = "SIGNED" if is_integer(left.dtype) and is_signed(left.dtype) else "UNSIGNED"
        text = (
            f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
            f"compare_type = #stablehlo<comparison_type {kind}>"
        )
        return self.op("compare", [left, right], left.shape, torch.bool, text)

    def select(self, condition: Value, left: Value, right: Value) -> Value:
        return self.op("select", [condition, left, right], left.shape, left.dtype)

    def is_nan(self, value: Value) -> Value:
        return self.compare("NE", value, value)

    def like(self, number: complex, value: Value) -> Value:
        """A constant of a value's shape and type."""
        return self.splat(number, value.dtype, value.shape)

    def lowest(self, dtype: torch.dtype) -> complex:
        """What no value is below."""
        return float("-inf") if is_float(dtype) else integer_range(dtype)[0]

    def highest(self, dtype: torch.dtype) -> complex:
        return float("inf") if is_float(dtype) else integer_range(dtype)[1]

    # ---- over dimensions -------------------------------------------------------------------------------------

    def reduce(self, combiner: str, value: Value, axes: Sequence[int], initial: complex) -> Value:
        """Without the axes, of the same dtype. combiner: the StableHLO op of two numbers."""
        shape = tuple(size for axis, size in enumerate(value.shape) if axis not in axes)
        if not axes:
            return value
        if 0 in value.shape:
            return self.splat(initial, value.dtype, shape)
        region = self.region([value.dtype] * 2, lambda body, a, b: [body.binary(combiner, a, b)])
        start = self.splat(initial, value.dtype)
        return self.op(
            "reduce", [value, start], shape, value.dtype, f"dimensions = {numbers(sorted(axes))}", region
        )

    def reduce_window(
        self,
        combiner: str,
        value: Value,
        initial: complex,
        window: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        dilation: Sequence[int] | None = None,
    ) -> Value:
        dilation = [1] * value.rank if dilation is None else list(dilation)
        shape = tuple(
            (size + low + high - (gap * (width - 1) + 1)) // step + 1
            for size, (low, high), width, step, gap in zip(value.shape, padding, window, strides, dilation)
        )
        region = self.region([value.dtype] * 2, lambda body, a, b: [body.binary(combiner, a, b)])
        text = (
            f"window_dimensions = {numbers(window)}, window_strides = {numbers(strides)}, "
            f"window_dilations = {numbers(dilation)}, padding = {pairs(list(padding))}"
        )
        start = self.splat(initial, value.dtype)
        return self.op("reduce_window", [value, start], shape, value.dtype, text, region)

    def dot(
        self,
        left: Value,
        right: Value,
        contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
        dtype: torch.dtype | None = None,
    ) -> Value:
        """dot_general: dimensions of the batch, then free ones of the left, then of the right."""
        shape = [left.shape[axis] for axis in batch[0]]
        shape += [size for axis, size in enumerate(left.shape) if axis not in (*batch[0], *contract[0])]
        shape += [size for axis, size in enumerate(right.shape) if axis not in (*batch[1], *contract[1])]
        dtype = dtype or left.dtype
        if 0 in shape or any(left.shape[axis] == 0 for axis in contract[0]):
            return self.splat(0, dtype, shape)
        text = (
            "dot_dimension_numbers = #stablehlo.dot<"
            f"lhs_batching_dimensions = {list(batch[0])}, rhs_batching_dimensions = {list(batch[1])}, "
            f"lhs_contracting_dimensions = {list(contract[0])}, rhs_contracting_dimensions = {list(contract[1])}>"
        )
        return self.op("dot_general", [left, right], shape, dtype, text)


def size_of(shape: Sequence[int]) -> int:
    """Elements."""
    return prod(shape)
