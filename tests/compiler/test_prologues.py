"""Operands of products that are computed as they are loaded: the same bits as with a kernel of their own.

A value that is also a result of the model has a second reader, so that the program which gives it computes it in a
kernel of its own: that program is the comparison.
"""

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph

RNG = np.random.default_rng(7)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def function(arguments: str, body: str, operand: str, kind: str, out: str) -> tuple[str, str]:
    """The model with and without the operand of its product as a result."""
    fused = f"func.func @main({arguments}) -> {out} {{\n{body}\n  return %p : {out}\n}}\n"
    both = f"func.func @main({arguments}) -> ({out}, {kind}) {{\n{body}\n  return %p, {operand} : {out}, {kind}\n}}\n"
    return fused, both


def check(texts: tuple[str, str], arrays: list[np.ndarray], tolerance: float, prologues: int = 1) -> float:
    """Same bits as apart, and the evaluator's value; predicted time over that of the program apart."""
    fused, apart = (opentrn.compile(text) for text in texts)
    (got,) = fused(*arrays)
    np.testing.assert_array_equal(got.view(np.uint8), apart(*arrays)[0].view(np.uint8))
    (want,) = graph.parse(texts[0]).evaluate(*arrays, float64=True)
    scale = np.abs(np.asarray(want, np.float64)).max()
    assert np.abs(got.astype(np.float64) - np.asarray(want, np.float64)).max() <= tolerance * scale
    assert (fused.passes["prologues"], apart.passes["prologues"]) == (prologues, 0)
    return fused.time().time_us / apart.time().time_us


def gated(m: int, k: int, n: int, *, turned: bool = False) -> tuple[str, str]:
    """silu((x + y) g) w: two residuals, one number per column, an activation; x and y as they lie or turned."""
    kind, out = f"tensor<{m}x{k}xf32>", f"tensor<{m}x{n}xf32>"
    given = f"tensor<{k}x{m}xf32>" if turned else kind
    operand, operand_kind = "%v", kind
    dims, turn = "[1] x [0]", ""
    if turned:
        # Computed as k x m, read as m x k.
        kind = operand_kind = given
        turn = f"  %t = stablehlo.transpose %v, dims = [1, 0] : ({given}) -> tensor<{m}x{k}xf32>\n"
    left = f"tensor<{m}x{k}xf32>"
    places = 0 if turned else 1
    body = (
        f"  %s = stablehlo.add %x, %y : {kind}\n"
        f"  %G = stablehlo.broadcast_in_dim %g, dims = [{places}] : (tensor<{k}xf32>) -> {kind}\n"
        f"  %m = stablehlo.multiply %s, %G : {kind}\n"
        f"  %l = stablehlo.logistic %m : {kind}\n"
        f"  %v = stablehlo.multiply %l, %m : {kind}\n{turn}"
        f"  %p = stablehlo.dot_general {'%t' if turned else '%v'}, %w, contracting_dims = {dims} :"
        f" ({left}, tensor<{k}x{n}xf32>) -> {out}"
    )
    return function(
        f"%x: {kind}, %y: {kind}, %g: tensor<{k}xf32>, %w: tensor<{k}x{n}xf32>",
        body,
        operand,
        operand_kind,
        out,
    )


def arrays_of_gated(m: int, k: int, n: int, *, turned: bool = False) -> list[np.ndarray]:
    shape = (k, m) if turned else (m, k)
    arrays = [RNG.standard_normal(shape) for _ in range(2)] + [RNG.standard_normal(k)]
    return [a.astype(np.float32) for a in [*arrays, RNG.standard_normal((k, n)) * k**-0.5]]


@pytest.mark.parametrize(
    ("m", "k", "n", "turned"),
    [
        (1024, 2048, 256, False),
        (700, 1100, 900, False),
        (2000, 1000, 33, False),
        (768, 1024, 768, True),
        (600, 1300, 700, True),
    ],
)
def test_an_activation_in_front_of_a_product(m: int, k: int, n: int, turned: bool):
    share = check(gated(m, k, n, turned=turned), arrays_of_gated(m, k, n, turned=turned), 2e-6)
    assert share < 1  # the operand is not stored


def dequantised(m: int, k: int, n: int) -> tuple[str, str]:
    """x bf16((q - z) s): integer weights that are arguments."""
    wide, out = f"tensor<{k}x{n}xf32>", f"tensor<{m}x{n}xf32>"
    body = (
        f"  %i = stablehlo.convert %q : (tensor<{k}x{n}xi8>) -> {wide}\n"
        f"  %Z = stablehlo.broadcast_in_dim %z, dims = [1] : (tensor<{n}xf32>) -> {wide}\n"
        f"  %S = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<{n}xf32>) -> {wide}\n"
        f"  %c = stablehlo.subtract %i, %Z : {wide}\n  %f = stablehlo.multiply %c, %S : {wide}\n"
        f"  %v = stablehlo.convert %f : ({wide}) -> tensor<{k}x{n}xbf16>\n"
        f"  %p = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] :"
        f" (tensor<{m}x{k}xbf16>, tensor<{k}x{n}xbf16>) -> {out}"
    )
    arguments = f"%x: tensor<{m}x{k}xbf16>, %q: tensor<{k}x{n}xi8>, %z: tensor<{n}xf32>, %s: tensor<{n}xf32>"
    return function(arguments, body, "%v", f"tensor<{k}x{n}xbf16>", out)


@pytest.mark.parametrize(("m", "k", "n"), [(8, 2048, 2048), (300, 1280, 1500), (1, 1000, 4000)])
def test_integer_weights_that_are_arguments(m: int, k: int, n: int):
    arrays = [
        RNG.standard_normal((m, k)).astype(BFLOAT16),
        RNG.integers(-127, 128, (k, n)).astype(np.int8),
        RNG.integers(-4, 4, n).astype(np.float32),
        (RNG.random(n) * k**-0.5 / 64).astype(np.float32),
    ]
    # The reference rounds nothing; weights are rounded to bf16 here. No share: the other program stores them.
    assert check(dequantised(m, k, n), arrays, 2.0**-8) < 1


def batched(b: int, m: int, k: int, n: int) -> tuple[str, str]:
    """(x + u) per batch, against exp of the other operand, which is read turned."""
    left, right, out = f"tensor<{b}x{m}x{k}xf32>", f"tensor<{b}x{n}x{k}xf32>", f"tensor<{b}x{m}x{n}xf32>"
    body = (
        f"  %U = stablehlo.broadcast_in_dim %u, dims = [0, 2] : (tensor<{b}x{k}xf32>) -> {left}\n"
        f"  %a = stablehlo.add %x, %U : {left}\n  %e = stablehlo.exponential %w : {right}\n"
        f"  %p = stablehlo.dot_general %a, %e, batching_dims = [0] x [0], contracting_dims = [2] x [2] :"
        f" ({left}, {right}) -> {out}"
    )
    arguments = f"%x: {left}, %u: tensor<{b}x{k}xf32>, %w: {right}"
    return (
        f"func.func @main({arguments}) -> {out} {{\n{body}\n  return %p : {out}\n}}\n",
        f"func.func @main({arguments}) -> ({out}, {left}, {right}) {{\n{body}\n"
        f"  return %p, %a, %e : {out}, {left}, {right}\n}}\n",
    )


def test_both_operands_of_every_batch():
    b, m, k, n = 3, 520, 700, 640
    arrays = [RNG.standard_normal(s).astype(np.float32) for s in [(b, m, k), (b, k), (b, n, k)]]
    check(batched(b, m, k, n), arrays, 2e-6, prologues=2)


def test_small_operands_have_their_kernel_where_that_is_faster():
    texts = gated(128, 256, 512)
    model, arrays = opentrn.compile(texts[0]), arrays_of_gated(128, 256, 512)
    np.testing.assert_array_equal(model(*arrays)[0], opentrn.compile(texts[1])(*arrays)[0])
    assert model.passes["prologues"] == 0


def test_the_report_shows_one_kernel_and_nothing_between_kernels():
    for text, kernels, between in zip(gated(1024, 2048, 256), (1, 2), (False, True), strict=True):
        facts = opentrn.compile(text).time().profile()["model"]
        assert facts["kernels"] == kernels
        assert (facts["layers"]["hbm_bytes_written"] > 1024 * 256 * 4) == between
        # The ops of the prologue are layers with a time of their own.
        assert any("logistic" in row["name"] and row["active_ns"] > 0 for row in facts["layers"]["children"])
