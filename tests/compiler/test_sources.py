"""Products and convolutions with what follows them in one group, against the reference evaluator."""

import numpy as np
import pytest

import opentrn
from opentrn import graph
from opentrn.model import CompiledModel

RNG = np.random.default_rng(5)


def check(text: str, tolerance: float = 2e-6, size: float = 1.0) -> CompiledModel:
    """The compiled model's values are the evaluator's, up to the order of sums. size: of the inputs."""
    module = graph.parse(text)
    model = opentrn.compile(text, target="trn1")
    inputs = [(size * RNG.standard_normal(port.shape)).astype(port.dtype) for port in model.inputs]
    expected = module.evaluate(*inputs)
    for got, wanted in zip(model(*inputs), expected, strict=True):
        scale = np.abs(wanted.astype(np.float64)).max()
        np.testing.assert_allclose(
            got.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=tolerance * scale
        )
    return model


def convolution(
    layout: str, images: int, channels: int, side: int, features: int, taps: int, stride: int
) -> str:
    """Bias, residual and maximum after a convolution whose operands and result have the dimensions `layout`."""
    sizes = {"b": images, "f": channels, "0": side, "1": side}
    pad = taps // 2
    out = (side + 2 * pad - taps) // stride + 1
    outs = {"b": images, "f": features, "0": out, "1": out}
    x = "x".join(str(sizes[c]) for c in layout)
    y = "x".join(str(outs[c]) for c in layout)
    dims = ", ".join(layout)
    return f"""
func.func @main(%x: tensor<{x}xf32>, %k: tensor<{channels}x{taps}x{taps}x{features}xf32>,
                %bias: tensor<{features}xf32>, %other: tensor<{y}xf32>) -> (tensor<{y}xf32>, tensor<{y}xf32>) {{
  %zero = stablehlo.constant dense<0.0> : tensor<{y}xf32>
  %c = stablehlo.convolution(%x, %k) dim_numbers = [{dims}]x[i, 0, 1, o]->[{dims}],
    window = {{stride = [{stride}, {stride}], pad = [[{pad}, {pad}], [{pad}, {pad}]]}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<{x}xf32>, tensor<{channels}x{taps}x{taps}x{features}xf32>) -> tensor<{y}xf32>
  %b = stablehlo.broadcast_in_dim %bias, dims = [{layout.index("f")}] : (tensor<{features}xf32>) -> tensor<{y}xf32>
  %d = stablehlo.add %c, %b : tensor<{y}xf32>
  %e = stablehlo.add %d, %other : tensor<{y}xf32>
  %r = stablehlo.maximum %e, %zero : tensor<{y}xf32>
  return %r, %d : tensor<{y}xf32>, tensor<{y}xf32>
}}
"""


@pytest.mark.parametrize("layout", ["fb01", "bf01", "b01f", "f0b1", "0bf1"])
@pytest.mark.parametrize(
    ("images", "channels", "side", "features", "taps", "stride"),
    [
        (3, 130, 7, 140, 3, 1),  # several images in one tile, two blocks of channels and features
        (2, 3, 20, 16, 7, 2),  # few channels: rows of the window over partitions
        (2, 20, 9, 8, 1, 2),  # one tap that skips
        (5, 12, 6, 24, 1, 1),  # one tap: the image itself
        (1, 4, 40, 6, 5, 1),  # few channels, bands
    ],
)
def test_convolutions_in_every_order(layout, images, channels, side, features, taps, stride):
    check(convolution(layout, images, channels, side, features, taps, stride))


def test_what_follows_a_convolution_needs_no_memory_between():
    model = check(convolution("fb01", 4, 64, 14, 128, 3, 1))
    assert "tensor_copy" not in model.program_text().partition("nc_matmul")[2]


def product(rows: int, contracted: int, columns: int, kind: str = "f32") -> str:
    """Bias, then softmax along the rows."""
    full, row = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    return f"""
func.func @main(%x: tensor<{rows}x{contracted}x{kind}>, %w: tensor<{contracted}x{columns}x{kind}>,
                %b: tensor<{columns}xf32>) -> ({full}, {row}) {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<{rows}x{contracted}x{kind}>, tensor<{contracted}x{columns}x{kind}>) -> {full}
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<{columns}xf32>) -> {full}
  %e = stablehlo.add %d, %bb : {full}
  %m = stablehlo.reduce(%e init: %low) applies stablehlo.maximum across dimensions = [1]
    : ({full}, tensor<f32>) -> {row}
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : ({row}) -> {full}
  %s = stablehlo.subtract %e, %mb : {full}
  %p = stablehlo.exponential %s : {full}
  %t = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [1]
    : ({full}, tensor<f32>) -> {row}
  return %p, %t : {full}, {row}
}}
"""


@pytest.mark.parametrize(
    ("rows", "contracted", "columns", "kind"),
    [
        (128, 64, 96, "bf16"),
        (197, 200, 640, "f32"),  # blocks of rows of two sizes, sums in two banks
        (40, 16, 2500, "f32"),  # more columns than sums are held of
        (130, 4096, 1200, "bf16"),  # reductions over columns that come in several panels
        (3, 0, 5, "f32"),  # a contraction over nothing
    ],
)
def test_reductions_follow_a_product(rows, contracted, columns, kind):
    # Sums of size 1: their error is the relative error of the exponential.
    check(product(rows, contracted, columns, kind), 1e-5, max(1, contracted) ** -0.25)


@pytest.mark.parametrize(("batch", "rows"), [(3, 40), (2, 64), (2, 128)])
def test_products_of_a_batch_and_what_follows(batch, rows):
    full = f"tensor<{batch}x{rows}x24xf32>"
    check(f"""
func.func @main(%x: tensor<{batch}x{rows}x16xf32>, %y: tensor<{batch}x24x16xf32>, %z: {full}) -> {full} {{
  %d = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [2]
    : (tensor<{batch}x{rows}x16xf32>, tensor<{batch}x24x16xf32>) -> {full}
  %a = stablehlo.multiply %d, %z : {full}
  %r = stablehlo.floor %a : {full}
  %q = stablehlo.multiply %d, %d : {full}
  %s = stablehlo.add %r, %q : {full}
  return %s : {full}
}}
""")
