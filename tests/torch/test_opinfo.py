"""A few samples of PyTorch's OpInfo database in every run; `./dev conformance torch` runs all of them."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the database is torch's")

from conformance.torch import run as conformance  # noqa: E402

# One or two of each family of rules (python/opentrn/torch/ops): name, type, samples.
CASES = [
    ("addmm", "float32", 2),
    ("atan2", "float32", 1),
    ("cumsum", "int64", 2),
    ("div.floor_rounding", "int32", 2),
    ("fft.rfft", "float32", 1),
    ("gather", "float32", 2),
    ("grid_sampler_2d", "float32", 3),
    ("grid_sampler_3d", "float32", 2),
    ("index_put", "int64", 2),
    ("linalg.lu_solve", "complex64", 2),
    ("linalg.pinv", "float32", 2),
    ("nn.functional.conv_transpose2d", "float32", 2),
    ("nn.functional.adaptive_max_pool2d", "float32", 2),
    ("nn.functional.embedding_bag", "float32", 3),
    ("nn.functional.max_pool2d", "float32", 1),
    ("ormqr", "complex64", 2),
    ("pow", "bfloat16", 2),
    ("scatter_reduce.mean", "float32", 1),
    ("searchsorted", "float32", 2),
    ("var", "float16", 2),
]


@functools.cache
def database() -> dict[str, Any]:
    return {conformance.full_name(op): op for op in conformance.ops([], everything=True)}


@pytest.mark.parametrize(("name", "dtype", "samples"), CASES)
def test_samples_are_those_of_eager_torch(name: str, dtype: str, samples: int) -> None:
    op = database().get(name) or database()[f"nn.functional.{name}"]
    outcome = conformance.run_op(op, getattr(torch, dtype), samples)
    assert outcome.failed == 0, outcome.reasons
    assert outcome.passed > 0


def test_a_wrong_rule_fails_the_conformance_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentrn.torch.registry import RULES

    add, subtract = torch.ops.aten.add.Tensor, torch.ops.aten.sub.Tensor
    monkeypatch.setitem(RULES, add, RULES[subtract])
    outcome = conformance.run_op(database()["add"], torch.float32, 2)
    assert outcome.failed and "numbers differ" in outcome.reasons[0]
