"""GGUF files of families as llama.cpp's converter writes them: their logits, and keys that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import gguf_bytes
from tiny_gguf import ROWS, keys, tensors, write

from opentrn import _core
from opentrn.errors import InputError, NotModelled

PROMPT = [int(t) for t in np.random.default_rng(3).integers(0, 90, 28)]


@pytest.mark.parametrize("name", ROWS)
def test_logits_are_those_of_the_architecture(name: str, tmp_path: Path) -> None:
    model = write(name, tmp_path / "m.gguf")
    engine = _core.decoder_engine(_core.read_gguf(tmp_path / "m.gguf"), "trn2", "f32", 16, 9, [1], [48], [64])
    expected = model.logits(PROMPT)
    found = engine.step([(PROMPT, 0, [3, 1, 2])], every_token=True)[0][: len(PROMPT)]
    assert np.abs(found - expected).max() < 3e-4 * np.abs(expected).max()


def test_a_window_of_no_positions_is_none(tmp_path: Path) -> None:
    model = write("phi3", tmp_path / "m.gguf", **{"attention.sliding_window": 0})
    model.config["sliding_window"] = None
    engine = _core.decoder_engine(_core.read_gguf(tmp_path / "m.gguf"), "trn2", "f32", 16, 9, [1], [48], [64])
    expected = model.logits(PROMPT)
    found = engine.step([(PROMPT, 0, [3, 1, 2])], every_token=True)[0][: len(PROMPT)]
    assert np.abs(found - expected).max() < 3e-4 * np.abs(expected).max()


@pytest.mark.parametrize(("name", "change", "reason"), [
    ("gemma", {"rope.dimension_count": 8}, "8 of a head's 16 features are turned"),
    ("phi3", {"rope.dimension_count": 40}, "40 of a head's 16 features are turned"),
    ("gemma", {"attention.head_count": 0}, "number of heads is 0"),
    ("gemma", {"attention.head_count": [4, 4, 4]}, "head_count is not an integer"),
    ("gemma3", {"rope.scaling.type": "odd"}, "positions are scaled by 'odd'"),
    ("gemma3", {"rope.scaling.type": "linear", "rope.scaling.factor": -1.0}, "positions' scaling is -1"),
    ("olmo3", {"attention.sliding_window_pattern": [True]}, "1 layers are told what they see"),
    ("olmo3", {"attention.sliding_window_pattern": "all"}, "neither a number nor a list"),
    ("gemma", {"expert_count": 4}, "'gemma' with a mixture of experts"),
    ("pythia", {"use_parallel_residual": 3}, "neither true nor false"),
    ("command-r", {"logit_scale": 0.0}, "logit_scale is 0"),
    ("starcoder2", {"attention.layer_norm_epsilon": -1.0}, "norm's epsilon is -1"),
])  # fmt: skip
def test_what_is_refused(name: str, change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    write(name, tmp_path / "m.gguf", **change)
    with pytest.raises((InputError, NotModelled), match=reason):
        _core.decoder_context(_core.read_gguf(tmp_path / "m.gguf"))


def split(path: Path, **change: Any) -> Path:
    """The file in three, as gguf-split writes them: only the first has the model's keys."""
    architecture, make, names, own = ROWS["gemma"]
    model = make()
    found = list(tensors(model, architecture, names).items())
    for number, part in enumerate((found[:3], found[3:10], found[10:])):
        places = {"split.no": number, "split.count": 3, "split.tensors.count": len(found)} | change
        stated = (keys(model, architecture, own) if number == 0 else {}) | places
        content = {name: (0, value.shape, value.tobytes()) for name, value in part}
        (path / f"m-{number + 1:05}-of-00003.gguf").write_bytes(gguf_bytes(stated, content))
    return path / "m-00001-of-00003.gguf"


def test_a_model_in_three_files(tmp_path: Path) -> None:
    whole = _core.read_gguf(split(tmp_path))
    write("gemma", tmp_path / "whole.gguf")
    alone = _core.read_gguf(tmp_path / "whole.gguf")
    assert sorted(whole.tensors) == sorted(alone.tensors)
    name = "blk.1.ffn_up.weight"
    assert np.array_equal(whole.decoded(name), alone.decoded(name))


def test_files_that_do_not_belong_to_each_other(tmp_path: Path) -> None:
    first = split(tmp_path)
    with pytest.raises(InputError, match="m-00002-of-00003.gguf is file 2 of 3") as raised:
        _core.read_gguf(tmp_path / "m-00002-of-00003.gguf")
    assert raised.value.label == "gguf.split"
    first.rename(tmp_path / "other.gguf")
    with pytest.raises(InputError, match="is not named ...-00001-of-00003.gguf"):
        _core.read_gguf(tmp_path / "other.gguf")
    with pytest.raises(InputError, match="tensors; the first one says 5"):
        _core.read_gguf(split(tmp_path, **{"split.tensors.count": 5}))
    with pytest.raises(InputError, match="file 2 says that it is number 1 of 3"):
        _core.read_gguf(split(tmp_path, **{"split.no": 0}))
    split(tmp_path)
    (tmp_path / "m-00003-of-00003.gguf").unlink()
    with pytest.raises(InputError, match="m-00003-of-00003.gguf"):
        _core.read_gguf(first)
    with pytest.raises(InputError, match="is one of 100000 files"):
        _core.read_gguf(split(tmp_path, **{"split.count": 100000}))
