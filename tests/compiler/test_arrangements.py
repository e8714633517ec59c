"""Values kept as products read them: few transposes, the same numbers; -O3 is no slower than -O2."""

import re

import ml_dtypes
import numpy as np

import opentrn

RNG = np.random.default_rng(0)


def chain(batch: int, tokens: int, width: int, inner: int) -> str:
    """A scaled input that three products share, of which two feed a third one each through an activation."""
    rows, wide = f"{batch}x{tokens}x{width}", f"{batch}x{tokens}x{inner}"

    def product(to: str, of: str, by: str, k: str, n: str) -> str:
        return (
            f"  %{to} = stablehlo.dot_general %{of}, %{by}, contracting_dims = [2] x [0] :"
            f" (tensor<{batch}x{tokens}x{k}xbf16>, tensor<{k}x{n}xbf16>) -> tensor<{batch}x{tokens}x{n}xf32>\n"
        )

    return (
        f"func.func @main(%x: tensor<{rows}xf32>, %a: tensor<{width}x{inner}xbf16>, %b: tensor<{width}x{inner}xbf16>,"
        f" %c: tensor<{inner}x{width}xbf16>, %bias: tensor<{inner}xf32>) -> tensor<{rows}xf32> {{\n"
        f"  %e = stablehlo.tanh %x : tensor<{rows}xf32>\n"
        f"  %n = stablehlo.convert %e : (tensor<{rows}xf32>) -> tensor<{rows}xbf16>\n"
        + product("p", "n", "a", str(width), str(inner))
        + f"  %s = stablehlo.broadcast_in_dim %bias, dims = [2] : (tensor<{inner}xf32>) -> tensor<{wide}xf32>\n"
        f"  %q = stablehlo.add %p, %s : tensor<{wide}xf32>\n"
        f"  %t = stablehlo.tanh %q : tensor<{wide}xf32>\n"
        f"  %h = stablehlo.convert %t : (tensor<{wide}xf32>) -> tensor<{wide}xbf16>\n"
        + product("y", "h", "c", str(inner), str(width))
        + product("u", "n", "b", str(width), str(inner))
        + f"  %v = stablehlo.convert %u : (tensor<{wide}xf32>) -> tensor<{wide}xbf16>\n"
        + product("z", "v", "c", str(inner), str(width))
        + f"  %r = stablehlo.add %y, %z : tensor<{rows}xf32>\n  return %r : tensor<{rows}xf32>\n}}\n"
    )


def bf16(array: np.ndarray) -> np.ndarray:
    return array.astype(ml_dtypes.bfloat16)


def check(batch: int, tokens: int, width: int, inner: int, level: int = 2) -> opentrn.CompiledModel:
    model = opentrn.compile(chain(batch, tokens, width, inner), optlevel=level)
    x = RNG.standard_normal((batch, tokens, width)).astype(np.float32)
    a, b = (bf16(RNG.standard_normal((width, inner)) * width**-0.5) for _ in range(2))
    c = bf16(RNG.standard_normal((inner, width)) * inner**-0.5)
    bias = RNG.standard_normal(inner).astype(np.float32)
    (got,) = model(x, a, b, c, bias)
    exact = [array.astype(np.float64) for array in (a, b, c)]
    seen = bf16(np.tanh(x)).astype(np.float64)
    left = bf16(np.tanh(seen @ exact[0] + bias).astype(np.float32)).astype(np.float64)
    right = bf16((seen @ exact[1]).astype(np.float32)).astype(np.float64)
    want = left @ exact[2] + right @ exact[2]
    # A value between two numbers of bf16 may round to either: 2**-8 of a term, of `inner` terms of both signs.
    terms = np.sqrt((left**2) @ (exact[2] ** 2) + (right**2) @ (exact[2] ** 2)).max()
    assert np.abs(got - want).max() <= 2.0**-8 * 4 * terms
    return model


def transposes(model: opentrn.CompiledModel) -> int:
    return len(re.findall(r"\bnc_transpose\b", model.program_text()))


def test_a_shared_operand_is_turned_once_and_results_are_made_turned():
    model = check(2, 128, 256, 384)
    # Two blocks of rows by two of columns; one for the bias. By rows it would be 4 for each of two products
    # and 6 for each of two others.
    assert transposes(model) <= 4 + 1


def test_rows_and_columns_that_fill_no_tile():
    for batch, tokens, width, inner in [
        (3, 50, 96, 200),
        (1, 1, 128, 130),
        (2, 197, 160, 128),
        (5, 7, 33, 65),
    ]:
        check(batch, tokens, width, inner)


def test_the_highest_level_gives_the_same_and_is_no_slower():
    fast, usual = check(2, 128, 256, 384, level=3), check(2, 128, 256, 384)
    assert fast.time().time_us <= 1.05 * usual.time().time_us
