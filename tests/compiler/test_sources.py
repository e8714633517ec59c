"""Products and convolutions with what follows them in one group, against the reference evaluator."""

import numpy as np
import pytest

import opentrn
from opentrn import graph
from opentrn.model.compiled import CompiledModel

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


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_steps_round_as_single_ops_do(target):
    """x * 3 + c, max 0, to bf16: c a number per row; bit for bit the evaluator's."""
    full, half, column = "tensor<130x70xf32>", "tensor<130x70xbf16>", "tensor<130xf32>"
    text = f"""
func.func @main(%x: {full}, %c: {column}) -> ({half}, {half}) {{
  %three = stablehlo.constant dense<3.0> : {full}
  %zero = stablehlo.constant dense<0.0> : {full}
  %m = stablehlo.multiply %x, %three : {full}
  %cc = stablehlo.broadcast_in_dim %c, dims = [0] : ({column}) -> {full}
  %a = stablehlo.add %m, %cc : {full}
  %r = stablehlo.maximum %a, %zero : {full}
  %h = stablehlo.convert %r : ({full}) -> {half}
  %b = stablehlo.add %x, %cc : {full}
  %s = stablehlo.maximum %b, %zero : {full}
  %g = stablehlo.convert %s : ({full}) -> {half}
  return %h, %g : {half}, {half}
}}
"""
    model = opentrn.compile(text, target=target)
    inputs = [RNG.standard_normal(port.shape).astype(np.float32) for port in model.inputs]
    for got, wanted in zip(model(*inputs), graph.parse(text).evaluate(*inputs), strict=True):
        np.testing.assert_array_equal(got.view(np.uint16), wanted.view(np.uint16))
    # 130 rows are two tiles: three steps are two instructions, two are one; each rounds on its way.
    assert len([line for line in model.program_text().splitlines() if "tensor_copy" in line]) == 0


def test_attention_compiles_for_every_generation():
    """The kernel copies on Scalar, which has no tensor_copy on NeuronCore-v2."""
    q, s, row = "tensor<2x128x64xbf16>", "tensor<2x128x128xf32>", "tensor<2x128xf32>"
    text = f"""
func.func @main(%q: {q}, %k: {q}, %v: {q}) -> tensor<2x128x64xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %x = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : ({q}, {q}) -> {s}
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2] : ({s}, tensor<f32>) -> {row}
  %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : ({row}) -> {s}
  %d = stablehlo.subtract %x, %mb : {s}
  %e = stablehlo.exponential %d : {s}
  %t = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] : ({s}, tensor<f32>) -> {row}
  %tb = stablehlo.broadcast_in_dim %t, dims = [0, 1] : ({row}) -> {s}
  %p = stablehlo.divide %e, %tb : {s}
  %h = stablehlo.convert %p : ({s}) -> tensor<2x128x128xbf16>
  %r = stablehlo.dot_general %h, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x128x128xbf16>, {q}) -> tensor<2x128x64xf32>
  return %r : tensor<2x128x64xf32>
}}
"""
    check(text, tolerance=1e-2, size=0.3)
