"""What native work tells of itself, for progress displays."""

from __future__ import annotations

import argparse
import threading
import time

import pytest

import opentrn
from opentrn import _core
from opentrn.cli import progress as cli_progress


def chain(ops: int) -> str:
    """A model of products, one after the other."""
    lines = ["func.func @main(%v0: tensor<256x256xf32>) -> tensor<256x256xf32> {"]
    for i in range(ops):
        lines.append(f"  %v{i + 1} = stablehlo.dot_general %v{i}, %v{i}, contracting_dims = [1] x [0]")
        lines.append("    : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>")
    return "\n".join([*lines, f"  return %v{ops} : tensor<256x256xf32>", "}", ""])


def seen_during(work) -> list[tuple[str, int, int]]:
    """What is told while `work` runs in a thread of its own."""
    found = []
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        found.append(_core.activity())
        time.sleep(0.0005)
    thread.join()
    return found


def test_passes_and_kernels_of_a_compilation_are_told():
    assert _core.activity()[0] == ""
    found = seen_during(lambda: opentrn.compile(chain(200), optlevel=3))  # lowers and times several times
    assert len({what for what, _, _ in found} - {""}) >= 2
    kernels = [(done, total) for what, done, total in found if what == "making kernels"]
    assert kernels and all(0 <= done <= total for done, total in kernels)
    assert _core.activity() == ("", 0, 0)


def test_how_far_a_computation_is_grows():
    import numpy as np

    model = opentrn.compile(chain(200))
    x = np.zeros(model.inputs[0].shape, np.float32)
    found = [row for row in seen_during(lambda: model(x)) if row[0] == "executing instructions"]
    done = [row[1] for row in found]
    assert done == sorted(done) and done[-1] > 0
    assert {row[2] for row in found} == {model.instruction_count}


@pytest.mark.parametrize(
    ("told", "text"),
    [(("", 0, 0), ""), (("folding constants", 0, 0), "folding constants"),
     (("making kernels", 3, 1200), "making kernels, 3 of 1,200")],
)  # fmt: skip
def test_an_activity_as_text(monkeypatch, told, text):
    monkeypatch.setattr(_core, "activity", lambda: told)
    assert cli_progress.activity_text() == text


def test_a_long_phase_tells_its_activities(monkeypatch, capsys):
    """One that has begun, and lasts until a second has passed since the last line."""
    begun = time.monotonic()
    monkeypatch.setattr(
        _core, "activity", lambda: ("brief" if time.monotonic() - begun < 0.7 else "folding constants", 0, 0)
    )
    with cli_progress.Progress(argparse.Namespace(progress=True)) as progress:
        progress.begin("compiling the model")
        time.sleep(1.6)
    lines = [line.split(" s: ")[1] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["compiling the model", "compiling the model: folding constants"]
