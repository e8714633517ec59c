"""Convolutions that are rewritten for the kernel: reversed windows, groups of batches, three dimensions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import opentrn
from opentrn import graph


@st.composite
def convolutions(draw) -> tuple[str, list[tuple[int, ...]]]:
    """A program and the shapes of its image and kernel; every attribute may be other than its default."""
    rank = draw(st.integers(1, 3))
    sizes = [draw(st.integers(3, 7)) for _ in range(rank)]
    taps = [draw(st.integers(1, 3)) for _ in range(rank)]
    strides = [draw(st.integers(1, 2)) for _ in range(rank)]
    pads = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
    inner = [draw(st.integers(1, 2)) for _ in range(rank)]
    outer = [draw(st.integers(1, 2)) for _ in range(rank)]
    reverse = [draw(st.booleans()) for _ in range(rank)]
    batch_groups = draw(st.sampled_from([1, 1, 2]))
    groups = 1 if batch_groups > 1 else draw(st.sampled_from([1, 1, 3]))
    batch, channels, features = 2 * batch_groups, 2 * groups, 6
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
