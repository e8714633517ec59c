"""Convolutions of images with channels last: small networks, as JAX writes them, against the evaluator."""

import numpy as np
import pytest

import opentrn
from opentrn import graph

RNG = np.random.default_rng(0)
ORDER = "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"


class Network:
    """Random convolutions, biases, residuals, activations, pooling, padding and concatenation, all NHWC."""

    def __init__(self, seed: int, element: str = "f32"):
        self.rng = np.random.default_rng(seed)
        self.element = element
        self.lines: list[str] = []
        self.arguments: list[str] = []
        self.shapes: list[tuple[int, ...]] = []
        self.count = 0

    def type(self, shape: tuple[int, ...]) -> str:
        return "tensor<" + "".join(f"{d}x" for d in shape) + self.element + ">"

    def argument(self, *shape: int) -> str:
        self.shapes.append(shape)
        name = f"%a{len(self.shapes)}"
        self.arguments.append(f"{name}: {self.type(shape)}")
        return name

    def op(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def scalar(self, value: str) -> str:
        return self.op(f"stablehlo.constant dense<{value}> : {self.type(())}")

    def convolution(self, x: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        n, h, w, c = shape
        grouped = c % 2 == 0 and self.rng.random() < 0.25
        groups = (c if self.rng.random() < 0.5 else 2) if grouped else 1
        size, stride = int(self.rng.choice([1, 3])), int(self.rng.choice([1, 2]))
        features = groups * int(self.rng.integers(1, 8 if groups == 1 else 3))
        low = size // 2
        high = (h + 2 * low - size) // stride + 1, (w + 2 * low - size) // stride + 1
        kernel = (size, size, c // groups, features)
        out = (n, *high, features)
        made = self.op(
            f"stablehlo.convolution({x}, {self.argument(*kernel)}) {ORDER},"
            f" window = {{stride = [{stride}, {stride}], pad = [[{low}, {low}], [{low}, {low}]]}}"
            f" {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}"
            f" : ({self.type(shape)}, {self.type(kernel)}) -> {self.type(out)}"
        )
        return made, out

    def bias(self, x: str, shape: tuple[int, ...]) -> str:
        """By way of [1, 1, 1, C], as Flax does it, or of [C]."""
        c, kind = shape[-1], self.type(shape)
        value, dims, small = self.argument(c), "3", (c,)
        if self.rng.random() < 0.5:
            small, dims = (1, 1, 1, c), "0, 1, 2, 3"
            value = self.op(f"stablehlo.reshape {value} : ({self.type((c,))}) -> {self.type(small)}")
        wide = self.op(
            f"stablehlo.broadcast_in_dim {value}, dims = [{dims}] : ({self.type(small)}) -> {kind}"
        )
        return self.op(f"stablehlo.add {x}, {wide} : {kind}")

    def pool(self, x: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        n, h, w, c = shape
        out = (n, (h - 1) // 2 + 1, (w - 1) // 2 + 1, c)
        made = self.op(
            f'"stablehlo.reduce_window"({x}, {self.scalar("0xFF800000" if self.element == "f32" else "0xFF80")})'
            " <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>,"
            " padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>}> ({\n"
            f"  ^bb0(%p: {self.type(())}, %q: {self.type(())}):\n"
            f"    %m = stablehlo.maximum %p, %q : {self.type(())}\n    stablehlo.return %m : {self.type(())}\n"
            f"  }}) : ({self.type(shape)}, {self.type(())}) -> {self.type(out)}"
        )
        return made, out

    def pad(self, x: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        n, h, w, c = shape
        out = (n, h + 3, w, c + 1)
        return self.op(
            f"stablehlo.pad {x}, {self.scalar('0.5')}, low = [0, 1, 0, 0], high = [0, 2, 0, 1],"
            f" interior = [0, 0, 0, 0] : ({self.type(shape)}, {self.type(())}) -> {self.type(out)}"
        ), out

    def join(self, x: str, y: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        out = (*shape[:3], 2 * shape[3])
        return self.op(
            f"stablehlo.concatenate {x}, {y}, dim = 3 : ({self.type(shape)}, {self.type(shape)}) -> {self.type(out)}"
        ), out

    def text(self) -> str:
        shape = (
            int(self.rng.integers(1, 3)),
            int(self.rng.integers(10, 26)),
            int(self.rng.integers(10, 26)),
            3,
        )
        x = self.argument(*shape)
        for _ in range(4):
            x, shape = self.convolution(x, shape)
            y = self.bias(x, shape)
            kind, choice = self.type(shape), int(self.rng.integers(0, 6))
            if choice == 0:
                x = self.op(f"stablehlo.add {self.op(f'stablehlo.tanh {y} : {kind}')}, {x} : {kind}")
            elif choice == 1:
                x, shape = self.pool(y, shape)
            elif choice == 2:
                x, shape = self.pad(y, shape)
            elif choice == 3:
                x, shape = self.join(x, y, shape)
            else:
                zero = self.op(
                    f"stablehlo.broadcast_in_dim {self.scalar('0.0')}, dims = [] : ({self.type(())}) -> {kind}"
                )
                x = self.op(f"stablehlo.maximum {y}, {zero} : {kind}")
        rows = (shape[0], shape[3])
        mean = self.op(
            f"stablehlo.reduce({x} init: {self.scalar('0.0')}) applies stablehlo.add across dimensions = [1, 2]"
            f" : ({self.type(shape)}, {self.type(())}) -> {self.type(rows)}"
        )
        return (
            f"func.func @main({', '.join(self.arguments)}) -> ({self.type(shape)}, {self.type(rows)}) {{\n"
            + "\n".join(self.lines)
            + f"\n  return {x}, {mean} : {self.type(shape)}, {self.type(rows)}\n}}\n"
        )


@pytest.mark.parametrize("seed", range(24))
def test_networks_with_channels_last(seed: int):
    network = Network(seed)
    text = network.text()
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in network.shapes]
    exact = graph.parse(text).evaluate(*arrays, float64=True)
    for got, want in zip(opentrn.compile(text)(*arrays), exact, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * max(1, np.abs(want).max()), err_msg=text)


def block(channels: int, pixels: int) -> str:
    image, kernel = f"tensor<1x{pixels}x{pixels}x{channels}xf32>", f"tensor<3x3x{channels}x{channels}xf32>"
    lines = [f"func.func @main(%x: {image}, %w: {kernel}, %s: tensor<{channels}xf32>) -> {image} {{"]
    lines.append(f"  %b = stablehlo.broadcast_in_dim %s, dims = [3] : (tensor<{channels}xf32>) -> {image}")
    value = "%x"
    for i in range(3):
        lines.append(
            f"  %c{i} = stablehlo.convolution({value}, %w) {ORDER},"
            " window = {stride = [1, 1], pad = [[1, 1], [1, 1]]}"
            " {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :"
            f" ({image}, {kernel}) -> {image}\n  %t{i} = stablehlo.add %c{i}, %b : {image}"
        )
        value = f"%t{i}"
    return "\n".join(lines) + f"\n  return {value} : {image}\n}}\n"


def test_channels_go_first_where_that_is_faster():
    model, as_given = opentrn.compile(block(16, 56)), opentrn.compile(block(16, 56), optlevel=1)
    assert model.passes["channels_first"] == 3
    assert model.time().time_us < min(95, 0.75 * as_given.time().time_us)
    # Of so small an image turning costs as much as three convolutions of it save.
    assert opentrn.compile(block(16, 8)).passes["channels_first"] == 0


def test_a_value_that_is_image_and_kernel():
    """Only the image is turned."""
    given, kind = block(16, 56), "tensor<5x5x16x16xf32>"
    head, _, rest = given.partition(") -> ")
    result, _, body = rest.partition(" {\n")
    lines, _, value = body.rpartition("  return ")
    value = value.split(" ")[0]
    text = (
        f"{head}, %v: {kind}) -> ({result}, {kind}) {{\n{lines}"
        f"  %self = stablehlo.convolution(%v, %v) {ORDER}, window = {{stride = [1, 1], pad = [[2, 2], [7, 8]]}}"
        " {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        f" : ({kind}, {kind}) -> tensor<5x5x27x16xf32>\n"
        f"  %part = stablehlo.slice %self [0:5, 0:5, 0:16, 0:16] : (tensor<5x5x27x16xf32>) -> {kind}\n"
        f"  return {value}, %part : {result}, {kind}\n}}\n"
    )
    model = opentrn.compile(text)
    assert model.passes["channels_first"] == 4
    arrays = [RNG.standard_normal(port.shape).astype(np.float32) for port in model.inputs]
    exact = graph.parse(text).evaluate(*arrays, float64=True)
    for got, want in zip(model(*arrays), exact, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())
