"""Quality of compiled programs on the timing model: predicted time and share of the Tensor engine's peak.

    python -m benchmarks.generated_code [--target trn2] [--checkouts DIR] [MODEL ...]

Without models: a product of 4096^3 and prefill attention, both bf16; with `--checkouts` (DIR holds
aws-neuron+nki-library) the attention kernel of nki-library beside it, on the same timing model, shapes and types.
MODEL: StableHLO or ONNX files, such as those that `benchmarks/blocks.py` writes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from pathlib import Path

import opentrn
from opentrn.model import compiled as models

ATTENTION_SHAPES = [(4, 2048, 128, False), (4, 2048, 128, True), (12, 512, 64, False), (8, 4096, 128, True)]


def matmul_text(side: int = 4096) -> str:
    """A square product of bf16, fp32 sums, bf16 result."""
    kind = f"tensor<{side}x{side}xbf16>"
    return (
        f"func.func @main(%a: {kind}, %b: {kind}) -> {kind} {{\n"
        f"  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}\n"
        f"  return %r : {kind}\n}}\n"
    )


def attention_text(heads: int, tokens: int, features: int, causal: bool) -> str:
    """softmax(Q K^T / sqrt(features)) V with inputs and result [tokens, heads, features], as a model has them."""
    h, s, d = heads, tokens, features
    inputs, scores, rows = f"tensor<{s}x{h}x{d}xbf16>", f"tensor<{h}x{s}x{s}xf32>", f"tensor<{h}x{s}xf32>"
    mask = f"tensor<{s}x{s}xi32>"
    spread = f"tensor<{h}x{s}x{s}xi1>"
    causal_lines = f"""
  %i = stablehlo.iota dim = 0 : {mask}
  %j = stablehlo.iota dim = 1 : {mask}
  %keep = stablehlo.compare GE, %i, %j : ({mask}, {mask}) -> tensor<{s}x{s}xi1>
  %kb = stablehlo.broadcast_in_dim %keep, dims = [1, 2] : (tensor<{s}x{s}xi1>) -> {spread}
  %fill = stablehlo.constant dense<0xFF800000> : {scores}
  %x = stablehlo.select %kb, %y, %fill : {spread}, {scores}"""
    return f"""
func.func @main(%q: {inputs}, %k: {inputs}, %v: {inputs}) -> {inputs} {{
  %s = stablehlo.dot_general %q, %k, batching_dims = [1] x [1], contracting_dims = [2] x [2]
    : ({inputs}, {inputs}) -> {scores}
  %scale = stablehlo.constant dense<{d**-0.5:.9e}> : {scores}
  {"%y" if causal else "%x"} = stablehlo.multiply %s, %scale : {scores}{causal_lines if causal else ""}
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2]
    : ({scores}, tensor<f32>) -> {rows}
  %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : ({rows}) -> {scores}
  %c = stablehlo.subtract %x, %mb : {scores}
  %e = stablehlo.exponential %c : {scores}
  %l = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2]
    : ({scores}, tensor<f32>) -> {rows}
  %lb = stablehlo.broadcast_in_dim %l, dims = [0, 1] : ({rows}) -> {scores}
  %p = stablehlo.divide %e, %lb : {scores}
  %pn = stablehlo.convert %p : ({scores}) -> tensor<{h}x{s}x{s}xbf16>
  %o = stablehlo.dot_general %pn, %v, batching_dims = [0] x [1], contracting_dims = [2] x [0]
    : (tensor<{h}x{s}x{s}xbf16>, {inputs}) -> tensor<{h}x{s}x{d}xbf16>
  %r = stablehlo.transpose %o, dims = [1, 0, 2] : (tensor<{h}x{s}x{d}xbf16>) -> {inputs}
  return %r : {inputs}
}}
"""


def library_attention_us(
    checkouts: Path, heads: int, tokens: int, features: int, causal: bool, target: str
) -> float:
    """Predicted time of nki-library's prefill attention; inputs lie as its own tests have them."""
    root = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root / "fidelity"), str(checkouts / "aws-neuron+nki-library/src/nkilib_src")]
    from adapters._common import activate, shape, timed

    activate()
    from nkilib.core.attention.attention_cte import attention_cte

    turned, rows = (heads, features, tokens), (heads, tokens, features)
    with contextlib.redirect_stdout(io.StringIO()):
        predicted = timed(
            attention_cte, shape(turned, "bfloat16"), shape(turned, "bfloat16"), shape(rows, "bfloat16"),
            scale=features**-0.5, causal_mask=causal, tp_q=False, tp_k=False, tp_out=False, target=target,
        )  # fmt: skip
    return predicted.microseconds


def _report(name: str, compiled: models.CompiledModel, beside: str = "") -> None:
    timing = compiled.time()
    print(f"{name:<34} {timing.time_us:>9.1f} us  MFU {timing.mfu_percent:>5.1f} %  MBU {timing.mbu_percent:>5.1f} %"
          f"  {compiled.instruction_count:>7,} instructions  {beside}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generated_code", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--target", default="trn2")
    parser.add_argument("--optlevel", type=int, default=2, choices=[1, 2])
    parser.add_argument("--checkouts", type=Path, help="folder of repositories as owner+name")
    options = parser.parse_args()
    how = {"target": options.target, "optlevel": options.optlevel}
    for name in options.models:
        _report(Path(name).stem, opentrn.compile(name, **how))
    if options.models:
        return 0
    _report("matmul 4096^3", opentrn.compile(matmul_text(), **how))
    for shape in ATTENTION_SHAPES:
        compiled = opentrn.compile(attention_text(*shape), **how)
        beside = ""
        if options.checkouts:
            library = library_attention_us(options.checkouts, *shape, options.target)
            beside = f"nki-library {library:.1f} us, ours / theirs {compiled.time().time_us / library:.2f}"
        heads, tokens, features, causal = shape
        _report(f"attention {heads} x {tokens} x {features}{' causal' if causal else ''}", compiled, beside)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
