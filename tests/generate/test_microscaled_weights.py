"""Matrices of layers in MXFP8 and MXFP4, which NeuronCore-v4 multiplies by activations in MXFP8."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_narrow_weights import MIXTURE, TOKENS, is_narrowed
from tiny import Tiny
from tiny_folders import Folder

from opentrn import _core
from opentrn.errors import InputError

BLOCK = 32
ELEMENTS = {"mxfp8": (8, 448.0, ml_dtypes.float8_e4m3fn), "mxfp4": (2, 6.0, ml_dtypes.float4_e2m1fn)}


def microscaled(matrix: np.ndarray, kind: str) -> np.ndarray:
    """[outputs, depth] as blocks along the depth stand for it: the better of two scales, the nearest numbers."""
    exponent, largest, element = ELEMENTS[kind]
    outputs, depth = matrix.shape
    blocks = np.zeros((outputs, -(-depth // BLOCK) * BLOCK))
    blocks[:, :depth] = matrix
    blocks = blocks.reshape(outputs, -1, BLOCK)
    amax = np.abs(blocks).max(-1, keepdims=True)
    least = np.exp2(np.floor(np.log2(np.where(amax > 0, amax, 1))) - exponent)
    found = [np.clip(blocks / s, -largest, largest).astype(element).astype(np.float64) * s for s in (least, 2 * least)]
    errors = [((f - blocks) ** 2).sum(-1, keepdims=True) for f in found]
    chosen = np.where(errors[1] < errors[0], found[1], found[0])
    return chosen.reshape(outputs, -1)[:, :depth].astype(np.float32)


def model_of(kind: str) -> Any:
    return {"tiny": lambda: Tiny(feed_forward=128), "odd": lambda: Tiny(feed_forward=90),
            "mixtral": lambda: Folder("MixtralForCausalLM", **MIXTURE, intermediate_size=128),
            "gpt2": lambda: Folder("GPT2LMHeadModel")}[kind]()  # fmt: skip


def written(model: Any, folder: Path) -> Any:
    if not isinstance(model, Tiny):
        return _core.read_checkpoint(model.write(folder))
    folder.mkdir()
    return _core.read_gguf(model.write(folder))


def logits(file: Any, quantization: str, ranks: int = 1, element: str = "bf16") -> np.ndarray:
    """Behind a prompt, and behind one more token."""
    instance = "trn3-gen1-server" if ranks > 1 else ""
    engine = _core.decoder_engine(file, "trn3", element, 16, 9, [1, 4], [32], [64], ranks=ranks, instance=instance,
                                  quantization=quantization)  # fmt: skip
    first = engine.step([(TOKENS[:20], 0, [3, 1, 2])], True)[0][:20]
    last = engine.step([(TOKENS[20:21], 20, [3, 1, 2])])[0][:1]
    return np.concatenate([first, last]).astype(np.float64)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(((a - b) ** 2).mean() / (b**2).mean()))


@pytest.mark.parametrize("kind", ["odd", "mixtral", "gpt2"])
def test_weights_are_rounded_to_mxfp4(kind: str, tmp_path: Path) -> None:
    model = model_of(kind)
    other = copy.deepcopy(model)
    for name, matrix in other.weights.items():
        if matrix.ndim == 2 and is_narrowed(name):
            turned = matrix.T if kind == "gpt2" else matrix
            rounded = microscaled(turned, "mxfp4")
            other.weights[name] = np.ascontiguousarray(rounded.T if kind == "gpt2" else rounded)
    file = written(model, tmp_path / "given")
    found, plain = logits(file, "mxfp4"), logits(file, "none")
    expected = logits(written(other, tmp_path / "rounded"), "none")
    # What is left is the rounding of activations, to numbers of three bits of fraction.
    assert distance(found, expected) < 0.4 * distance(plain, expected)


@pytest.mark.parametrize("kind", ["tiny", "mixtral"])
def test_ranks_share_whole_blocks(kind: str, tmp_path: Path) -> None:
    file = written(model_of(kind), tmp_path / "model")
    one, two = (logits(file, "mxfp8", ranks, "f32") for ranks in (1, 2))
    assert distance(two, one) < 0.01


@pytest.mark.parametrize(("kind", "kept"), [("mixtral", "self_attn"), ("tiny", "layers.0"), ("odd", "down_proj")])
def test_modules_that_stay(kind: str, kept: str, tmp_path: Path) -> None:
    """Of experts alone, as gpt-oss's checkpoints have MX types; ranks cut rows of what stays anywhere."""
    file = written(model_of(kind), tmp_path / "model")
    one, two = (logits(file, f"mxfp8,except={kept}", ranks, "f32") for ranks in (1, 2))
    assert distance(two, one) < 0.01
    plain, whole = logits(file, "none", 1, "f32"), logits(file, "mxfp8", 1, "f32")
    assert 0 < distance(one, plain) < distance(whole, plain)


def test_ranks_that_would_share_a_block_are_refused(tmp_path: Path) -> None:
    file = written(model_of("odd"), tmp_path / "model")
    with pytest.raises(InputError, match="45 features between two products") as raised:
        logits(file, "mxfp4", ranks=2)
    assert raised.value.label == "decoder.ranks"


def test_bytes_are_those_of_the_types(tmp_path: Path) -> None:
    file = written(Tiny(feed_forward=128), tmp_path / "model")
    sizes = {
        kind: _core.decoder_engine(file, "trn3", "bf16", 16, 9, [1], [32], [64], quantization=kind).weight_bytes
        for kind in ("none", "mxfp8", "mxfp4")
    }
    # 64 rows are held as 128, of one byte, or half a one, and a scale for each 32.
    matrices = 2 * (64 * 128 + 64 * 64 + 64 * 256 + 128 * 64)
    held = 2 * (128 * 128 + 128 * 64 + 128 * 256 + 128 * 64)
    assert sizes["none"] - sizes["mxfp8"] == 2 * matrices - held - held // 32
    assert sizes["none"] - sizes["mxfp4"] == 2 * matrices - held // 2 - held // 32
