"""Element-wise kernels that an op joins are one: what one gives the other is in no memory (plan.h)."""

from __future__ import annotations

import numpy as np

import opentrn
from opentrn import graph

RNG = np.random.default_rng(5)


def adam(rows: int, columns: int) -> str:
    kind = f"tensor<{rows}x{columns}xf32>"
    number = lambda name, value: f"  %{name} = stablehlo.constant dense<{value}> : {kind}\n"  # noqa: E731
    op = lambda name, of, *on: f"  %{name} = stablehlo.{of} {', '.join('%' + each for each in on)} : {kind}\n"  # noqa: E731
    body = (
        "".join(number(*each) for each in zip("abcdef", [0.9, 0.1, 0.99, 0.01, 0.001, "0.000001"], strict=True))
        + op("m1", "multiply", "m", "a") + op("g1", "multiply", "g", "b") + op("mn", "add", "m1", "g1")
        + op("v1", "multiply", "v", "c") + op("gg", "multiply", "g", "g") + op("g2", "multiply", "gg", "d")
        + op("vn", "add", "v1", "g2") + op("vf", "add", "vn", "f") + op("r", "rsqrt", "vf")
        + op("s", "multiply", "mn", "r") + op("t", "multiply", "s", "e") + op("wn", "subtract", "w", "t")
    )  # fmt: skip
    arguments = ", ".join(f"%{name}: {kind}" for name in "wmvg")
    kinds = f"{kind}, {kind}, {kind}"
    return f"func.func @main({arguments}) -> ({kinds}) {{\n{body}  return %wn, %mn, %vn : {kinds}\n}}\n"


def test_an_update_reads_and_writes_every_tensor_once():
    rows, columns = 4096, 1024  # 16 MiB each: no tensor stays in SBUF
    summary = opentrn.compile(adam(rows, columns), target="trn2").time().profile()["summary"]
    assert summary["hbm_read_bytes"] == 4 * 4 * rows * columns
    assert summary["hbm_write_bytes"] == 3 * 4 * rows * columns


def test_an_update_has_the_values_of_the_evaluator():
    text = adam(256, 96)
    w, m, g = (RNG.standard_normal((256, 96), np.float32) for _ in range(3))
    arrays = [w, m, np.square(m) + 1, g]
    for got, want in zip(opentrn.compile(text)(*arrays), graph.parse(text).evaluate(*arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_what_one_reads_rearranged_of_the_other_is_made_before():
    """%c reads %a as it is and %b turned; %e reads %a and, by way of a product, what %d makes of it."""
    kind = "tensor<192x192xf32>"
    text = f"""func.func @main(%x: {kind}, %y: {kind}) -> ({kind}, {kind}) {{
  %a = stablehlo.tanh %x : {kind}
  %b = stablehlo.logistic %y : {kind}
  %u = stablehlo.add %a, %b : {kind}
  %t = stablehlo.transpose %b, dims = [1, 0] : ({kind}) -> {kind}
  %c = stablehlo.multiply %u, %t : {kind}
  %s = stablehlo.abs %y : {kind}
  %d = stablehlo.dot_general %a, %s, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}
  %e = stablehlo.maximum %s, %d : {kind}
  %f = stablehlo.add %e, %a : {kind}
  return %c, %f : {kind}, {kind}
}}
"""
    x, y = (RNG.standard_normal((192, 192), np.float32) for _ in range(2))
    want = graph.parse(text).evaluate(x, y)
    for got, each in zip(opentrn.compile(text)(x, y), want, strict=True):
        np.testing.assert_allclose(got, each, rtol=2e-3, atol=2e-3)
