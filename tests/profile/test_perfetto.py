"""The Perfetto export of a real kernel: every arrow leads from a slice to one that begins later."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import opentrn

EXAMPLE = Path(__file__).parents[2] / "examples" / "04_attention.py"


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> list[dict]:
    spec = importlib.util.spec_from_file_location("attention_lesson", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    texts = module.INPUTS["attention"]
    shapes = {name: opentrn.ShapeOf(tuple(map(int, text.split(":")[0].split("x")))) for name, text in texts.items()}
    result = opentrn.run(module.attention, execute=False, **shapes)
    path = result.save_perfetto(tmp_path_factory.mktemp("trace") / "trace.json")
    return json.loads(path.read_text())["traceEvents"]


def slice_at(events: list[dict], end: dict) -> dict:
    """The only slice of the arrow end's row that holds its time."""
    (found,) = [
        each
        for each in events
        if each["ph"] == "X"
        and (each["pid"], each["tid"]) == (end["pid"], end["tid"])
        and each["ts"] - 1e-4 <= end["ts"] <= each["ts"] + each["dur"] + 1e-4
    ]
    return found


def test_arrows_lead_from_what_was_waited_for(events):
    begins = {each["id"]: each for each in events if each["ph"] == "s"}
    ends = {each["id"]: each for each in events if each["ph"] == "f"}
    assert begins.keys() == ends.keys() and len(begins) > 20
    for number, begin in begins.items():
        producer, waiting = slice_at(events, begin), slice_at(events, ends[number])
        assert producer["ts"] + producer["dur"] <= waiting["ts"] + 1e-4
        assert "stall" in waiting["args"]


def test_most_waits_have_an_arrow(events):
    cause = "waiting for another engine"
    waits = [each for each in events if each["ph"] == "X" and each["args"].get("stall") == cause]
    arrows = [each for each in events if each["ph"] == "f"]
    assert waits and len(arrows) >= len(waits)
