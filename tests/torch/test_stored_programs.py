"""Programs of eager ops on disk (opentrn.torch.eager.stored)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is PyTorch's")

from opentrn.torch.eager import compiler, stored  # noqa: E402

SCRIPT = """
import torch
import opentrn.torch
from opentrn.torch.eager import compiler
traced = []
plan = compiler._plan
compiler._plan = lambda name, *rest: (traced.append(name), plan(name, *rest))[1]
torch.manual_seed(3)
torch.neuron.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.25), torch.nn.ReLU(), torch.nn.Linear(8, 3))
model = model.to("neuron")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
x, y = torch.randn(5, 12).to("neuron")[:, ::2], torch.tensor([0, 1, 2, 1, 0]).to("neuron")
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
values, places = model(x).T.sort(dim=1)
print(len(traced), loss.item(), values.cpu().tolist(), places.cpu().tolist(), f"{torch.neuron.simulated_time_us():.3f}")
"""


def run(folder: Path) -> tuple[int, str]:
    """(ops traced, what the script printed beside)."""
    environment = {**os.environ, "OPENTRN_CACHE": str(folder)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], text=True, capture_output=True, check=True, env=environment)
    count, _, rest = done.stdout.partition(" ")
    return int(count), rest


def test_a_second_process_traces_nothing_and_computes_the_same(tmp_path: Path) -> None:
    first, wanted = run(tmp_path)
    second, found = run(tmp_path)
    assert first > 20 and second == 0
    assert found == wanted


def test_an_entry_that_is_not_this_calls_is_traced_again(tmp_path: Path) -> None:
    run(tmp_path)
    entries = sorted(tmp_path.glob("**/*.neuron"))
    for path in entries:  # damaged: every one is compiled again
        path.write_bytes(path.read_bytes()[:-7])
    again, _ = run(tmp_path)
    assert again > 20


def given(*shape: int, **fields: Any) -> compiler.Given:
    stride = tuple(compiler.dense_strides(shape, range(len(shape))))
    return replace(compiler.Given(0, shape, torch.float32, None, (), False, None, False, stride), **fields)


def entry(inputs: list[Any], output: dict[str, Any], returned: list[Any]) -> dict[str, str]:
    plain = {
        "target": -1, "copied_from": -1, "sizes": [2, 3], "strides": [3, 1], "dtype": "float32", "is_in_order": True,
        "order": [0, 1], "repeats": -1,
    }  # fmt: skip
    facts = {"draws": False, "inputs": inputs, "outputs": [plain | output], "returned": returned}
    return {"eager_call": json.dumps(facts)}


PROGRAM = SimpleNamespace(inputs=[("a", "f32", (2, 3))], outputs=[("b", "f32", (2, 3))])
GOOD: tuple[Any, Any, Any] = ([["tensor", 0]], {}, [["output", 0]])


def restored(facts: dict[str, str], *tensors: compiler.Given) -> bool:
    return stored.restore(compiler.Plan("aten::neg", 0), facts, PROGRAM, tensors, 0)


def test_facts_of_the_call_are_taken() -> None:
    assert restored(entry(*GOOD), given(2, 3))


@pytest.mark.parametrize(
    ("inputs", "output", "returned"),
    [
        ([["tensor", 1]], {}, [["output", 0]]),  # no such tensor
        ([["tensor", -1]], {}, [["output", 0]]),
        ([["number", 0, "float32"]], {}, [["output", 0]]),  # the call has none
        ([], {}, [["output", 0]]),  # the program has an input
        ([["tensor", 0]], {"sizes": [2, 2]}, [["output", 0]]),  # less memory than the program writes
        ([["tensor", 0]], {"strides": [0, 1]}, [["output", 0]]),
        ([["tensor", 0]], {"sizes": [-2, -3]}, [["output", 0]]),
        ([["tensor", 0]], {"dtype": "float16"}, [["output", 0]]),
        ([["tensor", 0]], {"dtype": "__builtins__"}, [["output", 0]]),
        ([["tensor", 0]], {"target": 5}, [["output", 0]]),
        ([["tensor", 0]], {"order": [0, 0]}, [["output", 0]]),
        ([["tensor", 0]], {"repeats": 0}, [["output", 0]]),
        ([["tensor", 0]], {"more": 1}, [["output", 0]]),
        ([["tensor", 0]], {}, [["output", 1]]),
        ([["tensor", 0]], {}, [["list", [0, 7]]]),
        ([["tensor", 0]], {}, [["call", "os.system"]]),
        ([["tensor", 0]], {}, 5),
    ],
)
def test_facts_that_do_not_fit_the_call_are_refused(inputs: Any, output: Any, returned: Any) -> None:
    assert not restored(entry(inputs, output, returned), given(2, 3))


def test_memory_of_another_size_or_with_gaps_is_refused() -> None:
    assert not restored(entry(*GOOD), given(2, 4))
    assert not restored(entry(*GOOD), given(2, 3, dtype=torch.bfloat16))
    written = ([["tensor", 0]], {"target": 0}, [["argument", 0]])
    assert restored(entry(*written), given(2, 3))
    assert not restored(entry(*written), given(2, 3, is_scattered=True, stride=(6, 2)))
    assert not restored(entry(*written), given(2, 3, expanded=(0,), order=[0, 1], stride=(0, 1)))


def test_what_is_no_text_of_json_is_refused() -> None:
    assert not restored({"eager_call": "[" * 100000}, given(2, 3))
    assert not restored({}, given(2, 3))


def test_ops_of_the_users_own_and_checked_runs_are_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = compiler.settings_module.read(None)
    monkeypatch.delenv("OPENTRN_CACHE", raising=False)
    assert stored.key_of("aten::neg", [], [], settings) == ""
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path))
    assert stored.key_of("mine::neg", [], [], settings) == ""
    assert stored.key_of("aten::neg", [], [], replace(settings, check=True)) == ""
    assert stored.key_of("aten::neg", [object()], [], settings) == ""
    keys = {stored.key_of("aten::neg", [number], [], settings) for number in (1, 1.0, True, -0.0, 0.0, "1")}
    assert len(keys) == 6 and "" not in keys
