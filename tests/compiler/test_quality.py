"""Floors of the generated code's predicted speed: fast kernels must not become slow ones unnoticed."""

import opentrn
from benchmarks.generated_code import attention_text, matmul_text


def test_a_large_product_keeps_the_tensor_engine_busy():
    timing = opentrn.compile(matmul_text(), target="trn2").time()
    assert timing.mfu_percent >= 90


def test_attention_is_as_fast_as_the_best_public_kernel():
    """nki-library's prefill attention takes 277 and 249 us for these shapes on the same timing model
    (python -m benchmarks.generated_code --checkouts DIR); within 10 % is the goal."""
    plain = opentrn.compile(attention_text(4, 2048, 128, causal=False), target="trn2").time()
    causal = opentrn.compile(attention_text(4, 2048, 128, causal=True), target="trn2").time()
    assert plain.time_us <= 1.1 * 277
    assert causal.time_us <= 1.1 * 249


def test_what_fusion_is_worth():
    text = attention_text(2, 512, 64, causal=True)
    fused, plain = opentrn.compile(text), opentrn.compile(text, optlevel=1)
    assert fused.time().time_us < 0.6 * plain.time().time_us
