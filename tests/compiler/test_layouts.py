"""Orders in memory: what constants are turned to, and how element-wise work is cut."""

import re

import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(11)


def convolution(kernel: np.ndarray, is_constant: bool) -> str:
    out, channels = kernel.shape[:2]
    kind = "x".join(map(str, kernel.shape)) + "xf32"
    image, result = f"tensor<1x{channels}x9x9xf32>", f"tensor<1x{out}x9x9xf32>"
    argument = "" if is_constant else f", %w: tensor<{kind}>"
    constant = f"%w = stablehlo.constant dense<{kernel.tolist()}> : tensor<{kind}>" if is_constant else ""
    return f"""
func.func @main(%x: {image}{argument}) -> {result} {{
  {constant}
  %r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : ({image}, tensor<{kind}>) -> {result}
  return %r : {result}
}}
"""


def test_constant_kernels_are_turned_to_long_runs():
    """The same product as with the kernel as an argument, bit for bit, with a fraction of the descriptors."""
    torch = pytest.importorskip("torch")
    kernel = RNG.standard_normal((40, 48, 3, 3)).astype(np.float32)
    x = RNG.standard_normal((1, 48, 9, 9)).astype(np.float32)
    constant, argument = (opentrn.compile(convolution(kernel, fixed)) for fixed in (True, False))
    got = constant(x)[0]
    np.testing.assert_array_equal(got, argument(x, kernel)[0])
    wide = torch.nn.functional.conv2d(*(torch.from_numpy(a).double() for a in (x, kernel)), padding=1).numpy()
    np.testing.assert_allclose(got, wide, rtol=0, atol=2e-6 * np.abs(wide).max())
    assert constant.time().total_ns < argument.time().total_ns / 2


def test_small_images_are_cut_by_channels():
    """[1, 512, 7, 7] plus a number per channel: four tiles of 128 channels, not 28 of 128 image rows."""
    text = """
func.func @main(%x: tensor<1x512x7x7xf32>, %b: tensor<512xf32>) -> tensor<1x512x7x7xf32> {
  %w = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<512xf32>) -> tensor<1x512x7x7xf32>
  %r = stablehlo.add %x, %w : tensor<1x512x7x7xf32>
  return %r : tensor<1x512x7x7xf32>
}
"""
    x, b = RNG.standard_normal((1, 512, 7, 7)).astype(np.float32), RNG.standard_normal(512).astype(np.float32)
    model = opentrn.compile(text)
    np.testing.assert_array_equal(model(x, b)[0], x + b[:, None, None])
    assert len(re.findall(r"tensor_(?:scalar|tensor)", model.program_text())) == 4


@pytest.mark.parametrize("stride,length", [(1, 3000), (2, 6000), (1, 2049)])
def test_long_rows_of_a_fused_convolution(stride: int, length: int):
    """Whisper's first layers: one row of more positions than a block of columns, with what follows in the kernel."""
    torch = pytest.importorskip("torch")
    out = (length - 1) // stride + 1
    image, result = f"tensor<1x20x{length}xf32>", f"tensor<1x24x{out}xf32>"
    text = f"""
func.func @main(%x: {image}, %w: tensor<24x20x3xf32>, %b: tensor<24xf32>) -> {result} {{
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {{stride = [{stride}], pad = [[1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : ({image}, tensor<24x20x3xf32>) -> {result}
  %wide = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<24xf32>) -> {result}
  %s = stablehlo.add %c, %wide : {result}
  %r = stablehlo.tanh %s : {result}
  return %r : {result}
}}
"""
    arrays = [
        RNG.standard_normal(shape).astype(np.float32) for shape in ((1, 20, length), (24, 20, 3), (24,))
    ]
    x, w, b = (torch.from_numpy(array).double() for array in arrays)
    expected = torch.tanh(torch.nn.functional.conv1d(x, w, b, stride=stride, padding=1)).numpy()
    np.testing.assert_allclose(opentrn.compile(text)(*arrays)[0], expected, rtol=0, atol=1e-5)
