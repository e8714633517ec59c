"""Convolutions that are rewritten for the kernel: reversed windows, groups of batches, three dimensions, many taps."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opentrn
from opentrn import graph


@st.composite
def convolutions(draw) -> tuple[str, list[tuple[int, ...]]]:
    """A program and the shapes of its image and kernel; every attribute may be other than its default."""
    rank = draw(st.integers(1, 3))
    sizes = [draw(st.integers(3, 7)) for _ in range(rank)]
    taps = [draw(st.integers(1, 3 if rank == 3 else 6)) for _ in range(rank)]
    strides = [draw(st.integers(1, 2)) for _ in range(rank)]
    pads = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
    inner = [draw(st.integers(1, 2)) for _ in range(rank)]
    outer = [draw(st.integers(1, 2)) for _ in range(rank)]
    reverse = [draw(st.booleans()) for _ in range(rank)]
    batch_groups = draw(st.sampled_from([1, 1, 2]))
    groups = 1 if batch_groups > 1 else draw(st.sampled_from([1, 1, 3]))
    batch, channels, features = 2 * batch_groups, 2 * groups, 6
    if groups > 1 and draw(st.booleans()):
        channels, features = groups, groups  # depthwise
    if batch_groups > 1 and draw(st.booleans()):
        batch, features = batch_groups, batch_groups  # the gradient of depthwise weights
    out = []
    for size, tap, stride, (low, high), dilation, window in zip(sizes, taps, strides, pads, inner, outer):
        room = (size - 1) * dilation + 1 + low + high - ((tap - 1) * window + 1)
        out.append(max(0, room // stride + 1))
    spatial = ", ".join(str(i) for i in range(rank))
    image, kernel = (batch, channels, *sizes), (*taps, channels // groups, features)
    result = (batch // batch_groups, *out, features)
    kinds = [f"tensor<{'x'.join(map(str, dims))}xf32>" for dims in (image, kernel, result)]
    listed = ", ".join("true" if r else "false" for r in reverse)
    text = f"""
func.func @main(%x: {kinds[0]}, %w: {kinds[1]}) -> {kinds[2]} {{
  %r = "stablehlo.convolution"(%x, %w) <{{
    dimension_numbers = #stablehlo.conv<[b, f, {spatial}]x[{spatial}, i, o]->[b, {spatial}, f]>,
    window_strides = array<i64: {", ".join(map(str, strides))}>,
    padding = dense<{[list(p) for p in pads]}> : tensor<{rank}x2xi64>,
    lhs_dilation = array<i64: {", ".join(map(str, inner))}>, rhs_dilation = array<i64: {", ".join(map(str, outer))}>,
    window_reversal = array<i1: {listed}>,
    feature_group_count = {groups} : i64, batch_group_count = {batch_groups} : i64}}>
    : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}
  return %r : {kinds[2]}
}}
"""
    return text, [image, kernel]


@settings(max_examples=60, deadline=None)
@given(convolutions(), st.integers(0, 99))
def test_every_form_against_the_evaluator(case, seed):
    text, shapes = case
    random = np.random.default_rng(seed)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    (want,) = graph.parse(text).evaluate(*arrays)
    (got,) = opentrn.compile(text)(*arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * max(1e-30, np.abs(want).max(initial=0)))


def program(image, kernel, result, numbers, element="f32", **attributes) -> str:
    """One convolution. attributes: as StableHLO spells them."""
    kinds = [f"tensor<{'x'.join(map(str, dims))}x{element}>" for dims in (image, kernel, result)]
    given = {"feature_group_count": "1 : i64", "batch_group_count": "1 : i64"} | attributes
    listed = ", ".join(f"{key} = {value}" for key, value in given.items())
    return f"""
func.func @main(%x: {kinds[0]}, %w: {kinds[1]}) -> {kinds[2]} {{
  %r = "stablehlo.convolution"(%x, %w) <{{dimension_numbers = #stablehlo.conv<{numbers}>, {listed}}}>
    : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}
  return %r : {kinds[2]}
}}
"""


def pads(*rows: tuple[int, int]) -> str:
    return f"dense<{[list(row) for row in rows]}> : tensor<{len(rows)}x2xi64>"


GRADIENT = (
    "[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]"  # of weights: batches are contracted, places are the window's
)
MANY_TAPS = {
    "gradient of ResNet's first weights": program(
        (8, 3, 64, 64), (8, 64, 32, 32), (64, 3, 7, 7), GRADIENT,
        padding=pads((3, 2), (3, 2)), rhs_dilation="array<i64: 2, 2>",
    ),
    "gradient of weights, bf16": program(
        (4, 40, 9, 14), (4, 150, 9, 14), (150, 40, 3, 3), GRADIENT, "bf16", padding=pads((1, 1), (1, 1))
    ),
    "gradient of depthwise weights": program(
        (2, 130, 10, 10), (2, 130, 10, 10), (130, 1, 3, 3), GRADIENT,
        padding=pads((1, 1), (1, 1)), batch_group_count="130 : i64",
    ),
    "gradient of grouped weights, by batches": program(
        (3, 12, 8, 8), (3, 20, 8, 8), (20, 3, 3, 3), GRADIENT,
        padding=pads((1, 1), (1, 1)), batch_group_count="4 : i64",
    ),
    "gradient with groups of features": program(
        (6, 5, 8, 8), (2, 9, 8, 8), (5, 9, 3, 3), "[f, b, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
        padding=pads((1, 1), (1, 1)), feature_group_count="3 : i64",
    ),
    "gradient over three dimensions": program(
        (2, 3, 5, 6, 7), (2, 4, 5, 6, 7), (4, 3, 3, 3, 3), "[f, b, 0, 1, 2]x[i, o, 0, 1, 2]->[f, b, 0, 1, 2]",
        padding=pads((1, 1), (1, 1), (1, 1)),
    ),
    "a long kernel of one dimension": program(
        (2, 20, 900), (130, 20, 300), (2, 130, 601), "[b, f, 0]x[o, i, 0]->[b, f, 0]"
    ),
    "a large kernel of many channels": program(
        (1, 300, 20, 20), (140, 300, 9, 9), (1, 140, 20, 20), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
        padding=pads((4, 4), (4, 4)),
    ),
    "a large kernel, dilated both ways": program(
        (1, 130, 12, 12), (129, 130, 13, 10), (1, 129, 13, 22), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
        padding=pads((7, 7), (4, 4)), lhs_dilation="array<i64: 2, 2>", rhs_dilation="array<i64: 1, 1>",
        window_strides="array<i64: 2, 1>",
    ),
}  # fmt: skip

DEPTHWISE = {
    "channels first": program(
        (2, 130, 11, 9), (130, 1, 3, 3), (2, 130, 6, 5), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
        padding=pads((1, 1), (1, 1)), window_strides="array<i64: 2, 2>", feature_group_count="130 : i64",
    ),
    "channels last, bf16": program(
        (3, 12, 12, 40), (5, 5, 1, 40), (3, 12, 12, 40), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "bf16",
        padding=pads((2, 2), (2, 2)), feature_group_count="40 : i64",
    ),
    "images together, features before batches": program(
        (32, 6, 20, 18), (32, 1, 3, 3), (18, 32, 10, 6), "[f, b, 0, 1]x[o, i, 0, 1]->[1, f, 0, b]",
        padding=pads((1, 1), (1, 1)), window_strides="array<i64: 2, 1>", feature_group_count="32 : i64",
    ),
    "one dimension, many rows": program(
        (1, 300, 2000), (300, 1, 4), (1, 300, 1994), "[b, f, 0]x[o, i, 0]->[b, f, 0]",
        rhs_dilation="array<i64: 2>", feature_group_count="300 : i64",
    ),
    "images over columns": program(
        (7, 7, 5, 20), (3, 3, 1, 20), (20, 5, 7, 7), "[0, 1, b, f]x[0, 1, i, o]->[f, b, 0, 1]",
        padding=pads((1, 1), (1, 1)), feature_group_count="20 : i64",
    ),
    "the gradient of images, stride 2": program(
        (2, 24, 6, 6), (24, 1, 3, 3), (2, 24, 12, 12), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
        padding=pads((1, 2), (1, 2)), lhs_dilation="array<i64: 2, 2>", feature_group_count="24 : i64",
    ),
}  # fmt: skip


PATCHES = {
    "channels first": program(
        (2, 3, 32, 48), (40, 3, 16, 16), (2, 40, 2, 3), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
        window_strides="array<i64: 16, 16>",
    ),
    "channels last, bf16": program(
        (2, 32, 32, 3), (8, 16, 3, 24), (2, 4, 2, 24), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "bf16",
        window_strides="array<i64: 8, 16>",
    ),
    "one dimension, turned": program(
        (5, 640, 2), (64, 2, 30), (30, 10, 5), "[b, 0, f]x[0, i, o]->[f, 0, b]", window_strides="array<i64: 64>"
    ),
}  # fmt: skip


def test_a_depthwise_convolution_and_what_follows_are_one_kernel():
    """Few instructions: a pass over the channels for each tap, bias and clipping on the way out."""
    kind, kernel = "tensor<1x64x20x20xf32>", "tensor<64x1x3x3xf32>"
    text = f"""
func.func @main(%x: {kind}, %w: {kernel}, %b: tensor<64xf32>) -> {kind} {{
  %r = "stablehlo.convolution"(%x, %w) <{{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>,
    padding = dense<1> : tensor<2x2xi64>, feature_group_count = 64 : i64, batch_group_count = 1 : i64}}>
    : ({kind}, {kernel}) -> {kind}
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<64xf32>) -> {kind}
  %s = stablehlo.add %r, %c : {kind}
  %six = stablehlo.constant dense<6.0> : {kind}
  %zero = stablehlo.constant dense<0.0> : {kind}
  %o = stablehlo.clamp %zero, %s, %six : {kind}
  return %o : {kind}
}}
"""
    model = opentrn.compile(text)
    arrays = [
        np.random.default_rng(7).standard_normal(port.shape).astype(np.float32) for port in model.inputs
    ]
    (want,) = graph.parse(text).evaluate(*arrays)
    np.testing.assert_allclose(model(*arrays)[0], want, rtol=0, atol=1e-5)
    assert model.time().profile()["model"]["kernels"] == 1 and model.instruction_count < 30


def test_images_of_few_channels_lie_beside_one_another():
    """Four images of 32 channels fill the partitions, as the bands of one do; eight take as long as two fours."""
    times = {}
    for images in (1, 4, 8):
        shape = (images, 32, 56, 56)
        text = program(shape, (32, 1, 3, 3), shape, "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
                       padding=pads((1, 1), (1, 1)), feature_group_count="32 : i64")  # fmt: skip
        times[images] = opentrn.compile(text, target="trn2").time().time_us
    assert times[4] < 2 * times[1] and times[8] < 4 * times[1]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("rows", "stride", "before", "behind", "dilation"),
                         [(112, 1, 1, 1, 1), (96, 2, 0, 1, 1), (90, 1, 2, 0, 2)])  # fmt: skip
def test_bands_of_an_image_of_few_channels(
    last: bool, rows: int, stride: int, before: int, behind: int, dilation: int
) -> None:
    """The rows that two bands read come to both, and zeros only at the ends of the image."""
    out = (rows + before + behind - 2 * dilation - 1) // stride + 1
    shape, kernel, result = (1, 16, rows, 96), (16, 1, 3, 3), (1, 16, out, 96)
    names = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"
    if last:
        shape, kernel, result = (1, rows, 96, 16), (3, 3, 1, 16), (1, out, 96, 16)
        names = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
    text = program(shape, kernel, result, names, padding=pads((before, behind), (1, 1)), feature_group_count="16 : i64",
                   window_strides=f"array<i64: {stride}, 1>", rhs_dilation=f"array<i64: {dilation}, 1>")  # fmt: skip
    random = np.random.default_rng(rows)
    arrays = [random.standard_normal(each).astype(np.float32) for each in (shape, kernel)]
    model = opentrn.compile(text, target="trn2")
    (want,) = graph.parse(text).evaluate(*arrays)
    np.testing.assert_allclose(model(*arrays)[0], want, rtol=0, atol=2e-5)
    if stride == 1 and not last:  # nine taps of 16 of 128 partitions would take the Vector engine longer
        assert model.time().time_us < 9 * out * 96 / 0.96e3


def test_weights_of_a_depthwise_convolution_are_loaded_in_runs():
    """Each channel's taps, or each tap's channels: they were loaded one by one, 49 us where Vector takes 16."""
    weights = np.random.default_rng(0).standard_normal((672, 1, 3, 3)).astype(np.float32)
    given = program((1, 672, 14, 14), (672, 1, 3, 3), (1, 672, 14, 14), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
                    padding=pads((1, 1), (1, 1)), feature_group_count="672 : i64")  # fmt: skip
    listed = str(weights.tolist())
    constant = given.replace(", %w: tensor<672x1x3x3xf32>", "").replace(
        "{\n", f"{{\n  %w = stablehlo.constant dense<{listed}> : tensor<672x1x3x3xf32>\n", 1
    )
    behind = given.replace("[o, i, 0, 1]", "[0, 1, i, o]").replace("672x1x3x3", "3x3x1x672")
    x = np.random.default_rng(1).standard_normal((1, 672, 14, 14)).astype(np.float32)
    constant, behind, given = (opentrn.compile(text, target="trn2") for text in (constant, behind, given))
    expected = given(x, weights)[0]
    np.testing.assert_array_equal(constant(x)[0], expected)
    np.testing.assert_array_equal(behind(x, weights.transpose(2, 3, 1, 0))[0], expected)
    assert max(constant.time().time_us, behind.time().time_us) <= 1.1 * given.time().time_us


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, cases in (("many taps", MANY_TAPS), ("depthwise", DEPTHWISE), ("patches", PATCHES))
     for name in cases],
)  # fmt: skip
def test_special_forms(kind, name):
    """Kernels that SBUF cannot hold are summed in parts; gradients of weights have a tap for every place."""
    text = {"many taps": MANY_TAPS, "depthwise": DEPTHWISE, "patches": PATCHES}[kind][name]
    random = np.random.default_rng(4)
    parsed = graph.parse(text)
    model = opentrn.compile(text, strict=True)
    arrays = [random.standard_normal(port.shape).astype(port.dtype) for port in model.inputs]
    (want,) = parsed.evaluate(*arrays)
    (got,) = model(*arrays)
    largest = np.abs(want.astype(np.float64)).max()
    tolerance = 2e-2 if got.dtype == ml_dtypes.bfloat16 else 1e-5
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=0, atol=tolerance * largest
    )


def test_patches_of_few_channels_are_one_product():
    """ViT's: 16 x 16 taps are more than a partition holds, but rows of a window go over partitions there."""
    text = (
        "func.func @main(%x: tensor<1x3x64x64xf32>, %w: tensor<192x3x16x16xf32>) -> tensor<1x192x4x4xf32> {\n"
        "  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],"
        " window = {stride = [16, 16]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :"
        " (tensor<1x3x64x64xf32>, tensor<192x3x16x16xf32>) -> tensor<1x192x4x4xf32>\n"
        "  return %y : tensor<1x192x4x4xf32>\n}\n"
    )
    model = opentrn.compile(text)
    random = np.random.default_rng(4)
    x, w = (random.standard_normal(s).astype(np.float32) for s in [(1, 3, 64, 64), (192, 3, 16, 16)])
    (want,) = graph.parse(text).evaluate(x, w, float64=True)
    # 768 terms of unit variance.
    np.testing.assert_allclose(model(x, w)[0], want, rtol=0, atol=1e-4)
    assert model.time().profile()["model"]["kernels"] == 1


@pytest.mark.parametrize(("side", "channels"), [(56, 64), (57, 32), (40, 64)])
def test_an_image_with_channels_last_is_added_to_what_is_made_of_it(side: int, channels: int) -> None:
    """The image is turned in banks of PSUM in which the sums may still lie."""
    last, first = f"1x{side}x{side}x{channels}xf32", f"1x{channels}x{side}x{side}xf32"
    kernel = f"{channels}x{channels}x1x1xf32"
    text = f"""
func.func @main(%x: tensor<{last}>, %k: tensor<{kernel}>) -> tensor<{first}> {{
  %t = stablehlo.transpose %x, dims = [0, 3, 1, 2] : (tensor<{last}>) -> tensor<{first}>
  %c = "stablehlo.convolution"(%t, %k) <{{batch_group_count = 1 : i64,
       dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64}}>
       : (tensor<{first}>, tensor<{kernel}>) -> tensor<{first}>
  %y = stablehlo.add %t, %c : tensor<{first}>
  return %y : tensor<{first}>
}}"""
    random = np.random.default_rng(0)
    x = random.standard_normal((1, side, side, channels)).astype(np.float32)
    k = random.standard_normal((channels, channels, 1, 1)).astype(np.float32)
    (got,) = opentrn.compile(text, target="trn2")(x, k)
    images = x.transpose(0, 3, 1, 2)
    want = images + np.einsum("oi,bihw->bohw", k[:, :, 0, 0], images)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


# PyTorch's order of weights, as arguments: taps of one row, several blocks of channels and features, stacked rows of
# few channels, parts of many features, groups, three dimensions.
TURNED = [
    ((2, 130, 9, 9), (140, 130, 3, 3), (2, 140, 7, 7), 1),
    ((1, 20, 9, 12), (40, 20, 3, 5), (1, 40, 7, 8), 1),
    ((1, 256, 5, 5), (700, 256, 3, 3), (1, 700, 3, 3), 1),
    ((1, 64, 6, 6), (96, 32, 3, 3), (1, 96, 4, 4), 2),
    ((2, 40, 200), (72, 40, 5), (2, 72, 196), 1),
    ((1, 64, 3, 7, 7), (48, 64, 3, 3, 3), (1, 48, 1, 5, 5), 1),
]


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize(("image", "kernel", "result", "groups"), TURNED)
def test_weights_with_features_outermost_are_turned_on_the_chip(image, kernel, result, groups, element):
    space = ", ".join(str(i) for i in range(len(image) - 2))
    numbers = f"[b, f, {space}]x[o, i, {space}]->[b, f, {space}]"
    text = program(image, kernel, result, numbers, element, feature_group_count=f"{groups} : i64")
    random = np.random.default_rng(3)
    dtype = np.float32 if element == "f32" else ml_dtypes.bfloat16
    arrays = [random.standard_normal(shape).astype(dtype) for shape in (image, kernel)]
    (want,) = graph.parse(text).evaluate(*arrays)
    (got,) = opentrn.compile(text, strict=True)(*arrays)
    error = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    assert error <= (1e-5 if element == "f32" else 8e-3) * np.abs(want.astype(np.float64)).max()


# Gradients in PyTorch's order: of images, by weights whose channels are outermost and whose taps lie backwards; of
# weights, by images and gradients of which every place is a tap, and of those of one tap.
GRADIENTS = [
    ((2, 130, 7, 7), (130, 70, 3, 3), (2, 70, 7, 7), "[b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
     {"padding": pads((1, 1), (1, 1)), "window_reversal": "array<i1: true, true>"}),
    ((1, 30, 6, 9), (30, 40, 3, 5), (1, 40, 6, 9), "[b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
     {"padding": pads((1, 1), (2, 2)), "window_reversal": "array<i1: true, true>"}),
    ((1, 24, 50), (24, 40, 5), (1, 40, 50), "[b, f, 0]x[i, o, 0]->[b, f, 0]",
     {"padding": pads((2, 2)), "window_reversal": "array<i1: true>"}),
    ((3, 40, 14, 14), (3, 150, 14, 14), (150, 40, 3, 3), "[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]",
     {"padding": pads((1, 1), (1, 1))}),
    ((2, 140, 9, 9), (2, 72, 9, 9), (72, 140, 1, 1), "[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]", {}),
    ((2, 140, 9, 9), (2, 72, 5, 5), (140, 72, 1, 1), "[f, b, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
     {"rhs_dilation": "array<i64: 2, 2>"}),
]  # fmt: skip


@pytest.mark.parametrize(("image", "kernel", "result", "numbers", "attributes"), GRADIENTS)
def test_gradients_in_the_order_of_pytorch(image, kernel, result, numbers, attributes):
    text = program(image, kernel, result, numbers, **attributes)
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in (image, kernel)]
    (want,) = graph.parse(text).evaluate(*arrays)
    (got,) = opentrn.compile(text, strict=True)(*arrays)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("taps", [(3, 3), (3, 3, 3)])
def test_weights_that_are_arguments_are_no_single_elements(taps):
    """Element by element 512 x 512 x 3 x 3 took 1,053 us, and with three taps more in depth 3,120."""
    space = ", ".join(str(i) for i in range(len(taps)))
    side = (1, 7, 7)[-len(taps) :]
    image, kernel = (1, 512, *side), (512, 512, *taps)
    numbers = f"[b, f, {space}]x[o, i, {space}]->[b, f, {space}]"
    text = program(image, kernel, image, numbers, padding=pads(*[(1, 1)] * len(taps)))
    assert opentrn.compile(text, strict=True).time().time_us < (60 if len(taps) == 2 else 200)


def test_an_image_without_columns_gives_zeros():
    text = """
func.func @main(%x: tensor<2x9x0x4xf32>, %w: tensor<4x5x4x3xf32>) -> tensor<2x6x8x3xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1], pad = [[0, 0], [5, 7]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x9x0x4xf32>, tensor<4x5x4x3xf32>) -> tensor<2x6x8x3xf32>
  return %y : tensor<2x6x8x3xf32>
}"""
    model = opentrn.compile(text)
    found = model(np.ones((2, 9, 0, 4), np.float32), np.ones((4, 5, 4, 3), np.float32))[0]
    assert found.shape == (2, 6, 8, 3) and not found.any() and model.time().total_ns > 0
