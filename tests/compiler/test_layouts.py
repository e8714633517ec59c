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


def test_kernels_are_turned_to_long_runs():
    """Constant ones by the compiler, arguments on the chip: the same product, bit for bit."""
    torch = pytest.importorskip("torch")
    kernel = RNG.standard_normal((40, 48, 3, 3)).astype(np.float32)
    x = RNG.standard_normal((1, 48, 9, 9)).astype(np.float32)
    constant, argument = (opentrn.compile(convolution(kernel, fixed)) for fixed in (True, False))
    got = constant(x)[0]
    np.testing.assert_array_equal(got, argument(x, kernel)[0])
    wide = torch.nn.functional.conv2d(*(torch.from_numpy(a).double() for a in (x, kernel)), padding=1).numpy()
    np.testing.assert_allclose(got, wide, rtol=0, atol=2e-6 * np.abs(wide).max())
    # Element by element the argument takes twice as long.
    assert constant.time().total_ns <= argument.time().total_ns < 1.5 * constant.time().total_ns


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


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i32"])
@pytest.mark.parametrize(
    "shape, order",
    [
        ((2, 2, 40, 12, 20), (2, 3, 0, 4, 1)),  # pixels shuffled: what a transposed convolution ends with
        ((2, 2, 150, 9, 33), (2, 3, 0, 4, 1)),  # more rows than partitions, nothing divides
        ((3, 40, 7, 64), (1, 2, 3, 0)),
        ((3, 51, 1500), (1, 2, 0)),  # rows that are longer than a partition's share
        ((2, 5, 40, 200), (1, 2, 3, 0)),
        ((64, 300), (1, 0)),
        ((5, 4, 3, 2, 96), (3, 1, 4, 2, 0)),
    ],
)
def test_elements_are_put_in_another_order(shape, order, dtype):
    """Copies that DMA alone would do by single elements; NumPy is the reference, bit for bit."""
    moved = [shape[d] for d in order]
    flat = int(np.prod(shape))
    text = (
        f"func.func @main(%x: tensor<{'x'.join(map(str, shape))}x{dtype}>) -> tensor<{flat}x{dtype}> {{\n"
        f"  %t = stablehlo.transpose %x, dims = [{', '.join(map(str, order))}] : "
        f"(tensor<{'x'.join(map(str, shape))}x{dtype}>) -> tensor<{'x'.join(map(str, moved))}x{dtype}>\n"
        f"  %r = stablehlo.reshape %t : (tensor<{'x'.join(map(str, moved))}x{dtype}>) -> tensor<{flat}x{dtype}>\n"
        f"  return %r : tensor<{flat}x{dtype}>\n}}"
    )
    model = opentrn.compile(text, strict=True)
    x = RNG.integers(-100, 100, shape).astype(model.inputs[0].dtype)
    assert model(x)[0].tobytes() == np.ascontiguousarray(x.transpose(order)).tobytes()


@pytest.mark.parametrize("shape", [(5, 51, 1500), (3, 224, 224), (2, 64, 80, 80)])
def test_long_rows_do_not_move_one_by_one(shape):
    """Rows of which a few are put in turns: channels first to channels last."""
    given, moved = ("x".join(map(str, dims)) + "xf32" for dims in (shape, (*shape[1:], shape[0])))
    order = [*range(1, len(shape)), 0]
    text = f"""func.func @main(%x: tensor<{given}>) -> tensor<{moved}> {{
      %t = stablehlo.transpose %x, dims = {order} : (tensor<{given}>) -> tensor<{moved}>
      return %t : tensor<{moved}>
    }}"""
    assert opentrn.compile(text).time().profile()["dma"]["bytes_per_descriptor"] >= 256


@pytest.mark.parametrize(("stride", "taps", "features"), [(2, 3, 8), (2, 2, 300), (3, 3, 40), (2, 2, 1)])
@pytest.mark.parametrize("rows", [6, 1])
def test_spread_images_are_loaded_as_they_lie(stride, taps, features, rows):
    """A transposed convolution of wide images; PyTorch in float64 is the reference."""
    torch = pytest.importorskip("torch")
    x = RNG.standard_normal((2, 20, rows, 160)).astype(np.float32)
    w = RNG.standard_normal((20, features, taps, taps)).astype(np.float32)
    height, width = ((size - 1) * stride + taps for size in x.shape[2:])
    kinds = ["x".join(map(str, a.shape)) + "xf32" for a in (x, w)]
    result = f"2x{features}x{height}x{width}xf32"
    text = f"""func.func @main(%x: tensor<{kinds[0]}>, %w: tensor<{kinds[1]}>) -> tensor<{result}> {{
      %r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1],
        window = {{pad = [[{taps - 1}, {taps - 1}], [{taps - 1}, {taps - 1}]], lhs_dilate = [{stride}, {stride}],
                   reverse = [true, true]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<{kinds[0]}>, tensor<{kinds[1]}>) -> tensor<{result}>
      return %r : tensor<{result}>
    }}"""
    model = opentrn.compile(text, strict=True)
    wide = torch.nn.functional.conv_transpose2d(*(torch.from_numpy(a).double() for a in (x, w)), stride=stride).numpy()
    np.testing.assert_allclose(model(x, w)[0], wide, rtol=0, atol=3e-6 * np.abs(wide).max())
    assert model.time().profile()["dma"]["bytes_per_descriptor"] >= 16  # one element at a time: 4 to 7


def test_shuffled_pixels_do_not_move_one_by_one():
    text = """func.func @main(%x: tensor<2x2x64x112x112xf32>) -> tensor<64x224x224xf32> {
      %t = stablehlo.transpose %x, dims = [2, 3, 0, 4, 1] : (tensor<2x2x64x112x112xf32>) -> tensor<64x112x2x112x2xf32>
      %r = stablehlo.reshape %t : (tensor<64x112x2x112x2xf32>) -> tensor<64x224x224xf32>
      return %r : tensor<64x224x224xf32>
    }"""
    profile = opentrn.compile(text).time().profile()
    assert profile["dma"]["bytes_per_descriptor"] >= 256


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("side, features", [(14, 40), (30, 130), (57, 24)])
def test_convolutions_one_after_the_other(images, side, features):
    """Bands read from SBUF or loaded in long runs and spread; columns of several tiles stored together. PyTorch in
    float64 is the reference."""
    torch = pytest.importorskip("torch")
    c = f"{features}x{images}x{side}x{side}"
    text = f"""func.func @main(%x: tensor<{c}xf32>, %k: tensor<{features}x3x3x{features}xf32>,
        %b: tensor<{features}xf32>) -> (tensor<{c}xf32>, tensor<{c}xbf16>) {{
      %y = stablehlo.convolution(%x, %k) dim_numbers = [f, b, 0, 1]x[i, 0, 1, o]->[f, b, 0, 1],
          window = {{stride = [1, 1], pad = [[1, 1], [1, 1]]}}
          {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
          : (tensor<{c}xf32>, tensor<{features}x3x3x{features}xf32>) -> tensor<{c}xf32>
      %bb = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<{features}xf32>) -> tensor<{c}xf32>
      %z = stablehlo.add %y, %bb : tensor<{c}xf32>
      %r = stablehlo.tanh %z : tensor<{c}xf32>
      %w = stablehlo.convolution(%r, %k) dim_numbers = [f, b, 0, 1]x[i, 0, 1, o]->[f, b, 0, 1],
          window = {{stride = [1, 1], pad = [[1, 1], [1, 1]]}}
          {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
          : (tensor<{c}xf32>, tensor<{features}x3x3x{features}xf32>) -> tensor<{c}xf32>
      %s = stablehlo.add %w, %r : tensor<{c}xf32>
      %h = stablehlo.convert %s : (tensor<{c}xf32>) -> tensor<{c}xbf16>
      return %s, %h : tensor<{c}xf32>, tensor<{c}xbf16>
    }}"""
    model = opentrn.compile(text, strict=True)
    random = [RNG.standard_normal(port.shape).astype(np.float32) for port in model.inputs]
    random[1] /= 3 * features**0.5
    made, rounded = model(*random)
    x, k, b = (torch.from_numpy(array).double() for array in random)

    def convolved(value):
        return torch.nn.functional.conv2d(value.transpose(0, 1), k.permute(3, 0, 1, 2), padding=1).transpose(
            0, 1
        )

    first = torch.tanh(convolved(x) + b[:, None, None, None])
    expected = (convolved(first) + first).numpy()
    assert np.abs(made - expected).max() <= 2e-5
    assert rounded.tobytes() == made.astype(rounded.dtype).tobytes()
