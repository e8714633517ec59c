"""Floors of the generated code's predicted speed: fast kernels must not become slow ones unnoticed."""

import numpy as np

import opentrn
from benchmarks.generated_code import attention_text, matmul_text


def test_a_large_product_keeps_the_tensor_engine_busy():
    timing = opentrn.compile(matmul_text(), target="trn2").time()
    assert timing.mfu_percent >= 90


def test_attention_is_as_fast_as_the_best_public_kernel():
    """nki-library's prefill attention takes 281, 250 and 79 us for these shapes on the same timing model, the best of
    nki-samples (one head) 106 (python -m benchmarks.attention_kernels --checkouts DIR); within 10 % is the goal."""
    plain = opentrn.compile(attention_text(4, 2048, 128, causal=False), target="trn2").time()
    causal = opentrn.compile(attention_text(4, 2048, 128, causal=True), target="trn2").time()
    assert plain.time_us <= 1.1 * 280.7
    assert causal.time_us <= 1.1 * 249.6
    one_head = opentrn.compile(attention_text(1, 2048, 128, causal=False), target="trn2").time()
    assert one_head.time_us <= 1.1 * 78.7


def test_what_fusion_is_worth():
    text = attention_text(2, 512, 64, causal=True)
    fused, plain = opentrn.compile(text), opentrn.compile(text, optlevel=1)
    assert fused.time().time_us < 0.6 * plain.time().time_us


def test_streamed_weights_arrive_at_the_rate_of_memory():
    """Three layers that read 50 MB of weights for 128 rows: the DMA engines bring the next product's weights while the
    one before computes, in transfers long enough that their fixed time (600 ns) does not count."""
    lines, value = [], "%x"
    for i, (k, n) in enumerate([(1280, 5120), (5120, 1280), (1280, 5120), (5120, 1280)]):
        lines += [
            f"%y{i} = stablehlo.dot_general {value}, %w{i}, contracting_dims = [1] x [0] : "
            f"(tensor<128x{k}xbf16>, tensor<{k}x{n}xbf16>) -> tensor<128x{n}xbf16>",
            f"%t{i} = stablehlo.tanh %y{i} : tensor<128x{n}xbf16>",
        ]
        value = f"%t{i}"
    weights = ", ".join(
        f"%w{i}: tensor<{k}xbf16>" for i, k in enumerate(["1280x5120", "5120x1280", "1280x5120", "5120x1280"])
    )
    text = (
        f"func.func @main(%x: tensor<128x1280xbf16>, {weights}) -> tensor<128x1280xbf16> {{\n"
        + "\n".join(lines)
        + f"\nreturn {value} : tensor<128x1280xbf16>\n}}"
    )
    profile = opentrn.compile(text, target="trn1").time().profile()
    assert profile["summary"]["dma_transfer_average_bytes"] >= 400_000
    assert profile["dma"]["efficiency_percent"] >= 90
    assert profile["summary"]["dma_active_time_percent"] >= 85
    # A product is at work from its first weights on: while the one before computes.
    layers = profile["model"]["layers"]
    active_ns = sum(row["active_ns"] for row in layers["children"] if row["tensor_flops"] > 0)
    assert active_ns > 1.4 * layers["critical_ns"]


def squares_text(function: str) -> str:
    """Sums of the squares of 2,048 rows of 1,024, each square behind three of these functions."""
    lines = [f"  %{i + 1} = stablehlo.{function} %{i} : tensor<2048x1024xf32>" for i in range(3)] if function else []
    last = len(lines)
    body = "\n".join(lines)
    return f"""func.func @main(%0: tensor<2048x1024xf32>) -> tensor<2048xf32> {{
{body}
  %square = stablehlo.multiply %{last}, %{last} : tensor<2048x1024xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<2048x1024xf32>, tensor<f32>) -> tensor<2048xf32>
  return %sum : tensor<2048xf32>
}}
"""


def test_scalar_squares_where_vector_has_more_to_do():
    """Vector alone needs 58 us for the squares and their sums. Behind functions of Scalar's, which take it 40 us, the
    squares are Vector's."""
    alone, behind = (opentrn.compile(squares_text(name), target="trn2") for name in ("", "tanh"))
    assert alone.time().time_us < 35
    assert behind.time().time_us < 80
    x = np.random.default_rng(3).standard_normal((2048, 1024)).astype(np.float32)
    (sums,) = alone(x)
    assert np.abs(np.asarray(sums) / np.square(x.astype(np.float64)).sum(1) - 1).max() < 1e-6
