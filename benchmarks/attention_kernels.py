"""Attention of the compiler beside the public NKI kernels, on the same timing model, shapes and types.

    python -m benchmarks.attention_kernels --checkouts DIR [--target trn2]

DIR holds aws-neuron+nki-samples and aws-neuron+nki-library, as owner+name. From nki-samples: `attn_fwd_v3` to `v11` of
its tutorial (one head of 128 features, no mask) and the reference kernel `flash_fwd` as of the last commit that had it
(without and with a causal mask; its heads are one after another). From nki-library: `attention_cte`. A kernel that
cannot be timed is named with its reason. Ends with the largest ratio of our time to that of the best kernel; the exit
status is 1 when it is above 1.1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opentrn
from benchmarks.generated_code import attention_text, library_attention_us

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 1.1
SAMPLES = "aws-neuron+nki-samples"
TUTORIAL = "src/nki_samples/tutorials/attention_fwd_performance/attention_kernels.py"
REFERENCE = "src/nki_samples/reference/attention.py"
REFERENCE_COMMIT = "c4b806e~1"  # "Remove reference kernels from NKI Samples" came next


@dataclass(frozen=True)
class Shape:
    """Queries and keys of one length; bf16 in and out."""

    heads: int
    tokens: int
    features: int
    causal: bool

    def __str__(self) -> str:
        return f"{self.heads} x {self.tokens} x {self.features}{' causal' if self.causal else ''}"


SHAPES = (
    Shape(1, 2048, 128, False),
    Shape(1, 4096, 128, False),
    Shape(4, 2048, 128, False),
    Shape(4, 2048, 128, True),
    Shape(12, 512, 64, False),
    Shape(8, 4096, 128, True),
)
Rows = Iterator[tuple[str, Callable[[], float]]]


def _tutorial(module: Any, shape: Shape, target: str) -> Rows:
    """Kernels of one head of 128 features, [features, tokens] in, [tokens, features] out, no scale."""
    from adapters._common import shape as shape_of
    from adapters._common import timed

    if shape.heads != 1 or shape.features != 128 or shape.causal:
        return
    arrays = [shape_of((128, shape.tokens), "bfloat16") for _ in range(3)]
    for version in range(3, 12):
        kernel = getattr(module, f"attn_fwd_v{version}")
        yield f"samples v{version}", lambda kernel=kernel: timed(kernel, *arrays, target=target).microseconds


def _flash(module: Any, shape: Shape, target: str) -> Rows:
    """flash_fwd: [batch, heads, features, tokens] queries and keys, [batch, heads, tokens, features] values."""
    from adapters._common import shape as shape_of
    from adapters._common import timed

    turned = (1, shape.heads, shape.features, shape.tokens)
    rows = (1, shape.heads, shape.tokens, shape.features)

    def run(tile: int) -> float:
        config = module.FlashConfig(seq_tile_size=tile, training=False)
        kernel = module.flash_fwd[1, shape.heads]
        return timed(
            kernel, shape_of(turned, "bfloat16"), shape_of(turned, "bfloat16"), shape_of(rows, "bfloat16"), None,
            use_causal_mask=shape.causal, mixed_precision=True, config=config, target=target,
        ).microseconds  # fmt: skip

    for tile in (512, 1024, 2048):
        if shape.tokens % tile == 0:
            yield f"samples flash_fwd, tiles of {tile}", lambda tile=tile: run(tile)


def kernels(checkouts: Path, shape: Shape, target: str) -> Rows:
    """Name and predicted microseconds of every public kernel that takes the shape."""
    from adapters._common import activate, file_at, module_from_text

    activate()
    repository = checkouts / SAMPLES
    yield from _tutorial(
        module_from_text((repository / TUTORIAL).read_text(), "attention_kernels"), shape, target
    )
    yield from _flash(
        module_from_text(file_at(repository, REFERENCE_COMMIT, REFERENCE), "reference_attention"),
        shape,
        target,
    )
    how = (shape.heads, shape.tokens, shape.features, shape.causal)
    yield "nki-library attention_cte", lambda: library_attention_us(checkouts, *how, target)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention_kernels", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--checkouts", type=Path, required=True, help="folder of repositories as owner+name")
    parser.add_argument("--target", default="trn2")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "fidelity"))
    worst = 0.0
    for shape in SHAPES:
        text = attention_text(shape.heads, shape.tokens, shape.features, shape.causal)
        ours = opentrn.compile(text, target=options.target).time().time_us
        print(f"attention {shape}: {ours:.1f} us")
        best = float("inf")
        for name, measure in kernels(options.checkouts, shape, options.target):
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    theirs = measure()
            except Exception as error:  # whatever a foreign kernel does: it is named, and is no result
                print(f"  {name:<34} not timed: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
                continue
            best = min(best, theirs)
            print(f"  {name:<34} {theirs:>9.1f} us   ours / theirs {ours / theirs:.2f}")
        worst = max(worst, ours / best)
    print(f"largest ratio to the best public kernel: {worst:.2f} (limit {LIMIT})")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
