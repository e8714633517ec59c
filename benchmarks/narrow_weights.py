"""What narrow and sparse weights save and cost: the feed-forward layer of BERT-large, 1024 -> 4096 (GELU) -> 1024.

    python -m benchmarks.narrow_weights [--rows 8 384] [--target trn2 trn3]

Bytes of constants, bytes read from HBM and predicted time of one layer, and the error of its result: root mean
square against float64, relative, with normally distributed weights and inputs.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import opentrn

WIDTH, HIDDEN = 1024, 4096
CAST = {"auto_cast": "matmult"}
# Sparse weights are pruned: their error says what pruning costs, not what the chip does.
WAYS = {
    "fp32": {},
    "bf16": CAST,
    "int8": {**CAST, "weight_dtype": "int8"},
    "fp8_e4m3": {**CAST, "weight_dtype": "fp8_e4m3"},
    "mxfp8": {**CAST, "weight_dtype": "mxfp8"},
    "mxfp4": {**CAST, "weight_dtype": "mxfp4"},
    "sparse 2:4": {**CAST, "weight_sparsity": "2:4", "prune_weights": True},
    "sparse 4:16": {**CAST, "weight_sparsity": "4:16", "prune_weights": True},
}


def layer(rows: int, first: np.ndarray, second: np.ndarray) -> str:
    """StableHLO text of the layer with these weights."""
    x, h = f"tensor<{rows}x{WIDTH}xf32>", f"tensor<{rows}x{HIDDEN}xf32>"
    kinds = [f"tensor<{w.shape[0]}x{w.shape[1]}xf32>" for w in (first, second)]
    return f"""func.func @main(%x: {x}) -> {x} {{
  %w1 = stablehlo.constant dense<"0x{first.tobytes().hex()}"> : {kinds[0]}
  %w2 = stablehlo.constant dense<"0x{second.tobytes().hex()}"> : {kinds[1]}
  %half = stablehlo.constant dense<0.5> : {h}
  %one = stablehlo.constant dense<1.0> : {h}
  %root = stablehlo.constant dense<{1 / math.sqrt(2):.9e}> : {h}
  %a = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : ({x}, {kinds[0]}) -> {h}
  %s = stablehlo.multiply %a, %root : {h}
  %e = chlo.erf %s : {h} -> {h}
  %g = stablehlo.add %e, %one : {h}
  %b = stablehlo.multiply %a, %half : {h}
  %c = stablehlo.multiply %b, %g : {h}
  %y = stablehlo.dot_general %c, %w2, contracting_dims = [1] x [0] : ({h}, {kinds[1]}) -> {x}
  return %y : {x}
}}
"""


def main() -> None:
    """One line for each way, rows and target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 384])
    parser.add_argument("--target", nargs="+", default=["trn2", "trn3"])
    options = parser.parse_args()
    random = np.random.default_rng(0)
    first = (random.standard_normal((WIDTH, HIDDEN)) / math.sqrt(WIDTH)).astype(np.float32)
    second = (random.standard_normal((HIDDEN, WIDTH)) / math.sqrt(HIDDEN)).astype(np.float32)
    for rows in options.rows:
        x = random.standard_normal((rows, WIDTH)).astype(np.float32)
        hidden = x.astype(np.float64) @ first
        exact = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) @ second
        text = layer(rows, first, second)
        for target in options.target:
            print(
                f"{rows} rows on {target}\n  {'weights':<12} {'constants':>11} {'HBM read':>11} {'us':>8} {'error':>9}"
            )
            for name, given in WAYS.items():
                if name.startswith("mx") and target != "trn3":
                    continue
                model = opentrn.compile(text, target=target, **given)
                timing = model.time()
                read = timing.profile()["summary"]["hbm_read_bytes"]
                error = np.linalg.norm(model(x)[0] - exact) / np.linalg.norm(exact)
                print(
                    f"  {name:<12} {model.constant_bytes:>11,} {read:>11,} {timing.time_us:>8.1f} {error:>9.1e}"
                )


if __name__ == "__main__":
    main()
