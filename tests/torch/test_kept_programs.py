"""Tests that calls of the device behave alike whether their programs were compiled or read from the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")

# Memory that was never written holds any bits; those of `unwritten` are whole numbers beyond 32 bits.
_SCRIPT = """
import ctypes
import torch, opentrn.torch

def unwritten(shape):
    made = torch.empty(shape, dtype=torch.int64, device="neuron")
    bits = torch.full(shape, 2**62 + 12345, dtype=torch.int64)
    ctypes.memmove(made.data_ptr(), bits.data_ptr(), bits.nbytes)
    return made

shape, here = (2, 12), {"device": "neuron"}
whole = torch.ones(shape, dtype=torch.int64, **here)
for write in (
    lambda x: x.zero_(), lambda x: x.fill_(-1), lambda x: x.fill_(torch.tensor(3, **here)), lambda x: x[0].fill_(2),
    lambda x: torch.ones(shape, out=x), lambda x: torch.cumsum(whole, 0, out=x), lambda x: torch.add(whole, 1, out=x),
    lambda x: x.copy_(whole.to(torch.int32)),
):
    write(unwritten(shape))

x = torch.randn(2, 4, 5, 5)
for norm in (torch.nn.BatchNorm2d(4), torch.nn.BatchNorm2d(4, affine=False)):
    norm.eval()
    with torch.no_grad():
        expected = norm(x)
        assert torch.allclose(norm.to("neuron")(x.to("neuron")).cpu(), expected)

experts = torch.tensor([3, 0, 3, 7, 1, 12], dtype=torch.int32)
counts = torch.histc(experts.to("neuron"), bins=8, min=0, max=7)
assert counts.dtype == torch.int32 and counts.tolist() == [1, 1, 0, 2, 0, 0, 0, 1], counts

order = torch.tensor([3, 1, 2, 0], **here)
for _ in range(3):
    freed = torch.full((4,), 2**62, dtype=torch.int64).to("neuron")
    del freed
    back = torch.empty_like(order)  # in the memory of the freed one
    back[order] = torch.arange(4, **here)
    assert back.tolist() == [3, 1, 2, 0]

same = torch.empty(shape, dtype=torch.bool, **here)
torch.eq(whole, whole, out=same)
assert same.all()
"""


def test_programs_of_the_cache_take_what_compiled_ones_take(tmp_path: Path) -> None:
    """Nothing runs on the host, and nothing is compiled again: a program without elements is read back as well."""
    environment = {**os.environ, "OPENTRN_CACHE": str(tmp_path), "OPENTRN_STRICT": "1"}
    for _ in range(2):
        run = [sys.executable, "-c", _SCRIPT]
        told = subprocess.run(run, capture_output=True, text=True, env=environment)
        assert told.returncode == 0, told.stderr[-2000:]
        assert "compiled again" not in told.stderr and "runs on the host" not in told.stderr
