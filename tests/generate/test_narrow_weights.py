"""Matrices of layers in int8 and fp8: logits are those of the weights that these numbers stand for."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tiny import Tiny
from tiny_folders import VOCABULARY, Folder

from opentrn import _core
from opentrn.errors import InputError
from opentrn.generate import LanguageModel

TOKENS = [int(t) for t in np.random.default_rng(5).integers(0, 90, 24)]
LARGEST = {"int8": 127.0, "fp8_e4m3": 240.0, "fp8_e5m2": 57344.0}
FLOATS = {"fp8_e4m3": ml_dtypes.float8_e4m3, "fp8_e5m2": ml_dtypes.float8_e5m2}
# Of experts: eight tokens of one sequence read all, one token its own.
MIXTURE: dict[str, Any] = {"num_local_experts": 8, "num_experts_per_tok": 2}


def rounded(matrix: np.ndarray, kind: str, outputs: int | None) -> np.ndarray:
    """To numbers of the type times a scale for each output, which are along this axis; None: one scale."""
    axis, matrix = None if outputs is None else 1 - outputs, matrix.astype(np.float32)
    scale = np.abs(matrix).max(axis=axis, keepdims=True) / np.float32(LARGEST[kind])
    scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
    ratio = (matrix / scale).astype(np.float32)
    return (np.rint(ratio) if kind == "int8" else ratio.astype(FLOATS[kind]).astype(np.float32)) * scale


def is_narrowed(name: str) -> bool:
    """Matrices of layers, but for what scores experts."""
    inside = "blk." in name or "layers." in name or name.startswith("h.")
    return inside and not name.endswith(("moe.gate.weight", "mlp.gate.weight", "shared_expert_gate.weight"))


def models(kind: str) -> tuple[Any, Any]:
    """The model, and one whose weights are the rounded ones."""
    model = {"tiny": lambda: Tiny(feed_forward=90), "mixtral": lambda: Folder("MixtralForCausalLM", **MIXTURE),
             "gpt2": lambda: Folder("GPT2LMHeadModel")}[kind]()  # fmt: skip
    return model, copy.deepcopy(model)


def logits(file: Any, count: int, quantization: str = "none", ranks: int = 1, element: str = "f32") -> np.ndarray:
    """Behind a prompt, and behind one more token."""
    instance = "trn2.48xlarge" if ranks > 1 else ""
    engine = _core.decoder_engine(file, "trn2", element, 16, 9, [1, 4], [32], [64], ranks=ranks, instance=instance,
                                  quantization=quantization)  # fmt: skip
    first = engine.step([(TOKENS[:count], 0, [3, 1, 2])], True)[0][:count]
    last = engine.step([(TOKENS[count : count + 1], count, [3, 1, 2])])[0][:1]
    return np.concatenate([first, last])


@pytest.mark.parametrize("quantization", LARGEST)
@pytest.mark.parametrize(("kind", "ranks"), [("tiny", 1), ("tiny", 4), ("mixtral", 1), ("mixtral", 2), ("gpt2", 1)])
def test_logits_are_those_of_the_rounded_weights(kind: str, ranks: int, quantization: str, tmp_path: Path) -> None:
    model, other = models(kind)
    outputs = 1 if kind == "gpt2" else 0
    for name, matrix in other.weights.items():
        if matrix.ndim == 2 and is_narrowed(name):
            other.weights[name] = rounded(matrix, quantization, outputs)
    files = opened(model, other, tmp_path)
    count = 20
    found, expected = logits(files[0], count, quantization, ranks), logits(files[1], count)
    assert np.abs(found - expected).max() < 2e-4 * np.abs(expected).max()
    plain = logits(files[0], count)
    assert np.abs(found - plain).max() > 1e-3 * np.abs(plain).max()  # the weights are others
    assert expected.shape[1] in (VOCABULARY, len(getattr(model, "tokens", [])))


# What a model's names have in those that stay, and the modules that say so.
KEPT = {
    "tensor": ("int8,per_tensor_symmetric", ()),
    "attention": ("int8,except=self_attn", ("attn", "c_attn")),
    "a layer": ("fp8_e4m3,per_channel_symmetric,except=model.layers.1", ("blk.1.", "layers.1.")),
    "a matrix": ("int8,per_tensor_symmetric,except=down_proj,except=w2", ("ffn_down", ".w2.")),
}


@pytest.mark.parametrize("which", KEPT)
@pytest.mark.parametrize(("kind", "ranks"), [("tiny", 1), ("tiny", 2), ("mixtral", 1), ("mixtral", 2)])
def test_a_scale_for_a_tensor_and_modules_that_stay(kind: str, ranks: int, which: str, tmp_path: Path) -> None:
    quantization, kept = KEPT[which]
    if kind == "tiny":
        quantization = quantization.replace(",except=w2", "")
    elif which == "a matrix":
        quantization = quantization.replace(",except=down_proj", "")
    model, other = models(kind)
    for name, matrix in other.weights.items():
        if matrix.ndim == 2 and is_narrowed(name) and not any(word in name for word in kept):
            outputs = None if "per_tensor" in quantization else 0
            other.weights[name] = rounded(matrix, quantization.split(",")[0], outputs)
    files = opened(model, other, tmp_path)
    found, expected = logits(files[0], 20, quantization, ranks), logits(files[1], 20)
    assert np.abs(found - expected).max() < 2e-4 * np.abs(expected).max()
    assert np.abs(found - logits(files[0], 20, quantization.split(",")[0], ranks)).max() > 0


def opened(model: Any, other: Any, tmp_path: Path) -> list[Any]:
    files = []
    for number, each in enumerate((model, other)):
        folder = tmp_path / str(number)
        if isinstance(each, Tiny):
            folder.mkdir()
            files.append(_core.read_gguf(each.write(folder)))
        else:
            files.append(_core.read_checkpoint(each.write(folder)))
    return files


@pytest.mark.parametrize("quantization", LARGEST)
def test_16_bits_read_them_as_they_are_kept(quantization: str, tmp_path: Path) -> None:
    model, other = models("tiny")
    for name, matrix in other.weights.items():
        if matrix.ndim == 2 and is_narrowed(name):
            other.weights[name] = rounded(matrix, quantization, 0)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    file = _core.read_gguf(model.write(tmp_path / "a"))
    expected = logits(_core.read_gguf(other.write(tmp_path / "b")), 20)
    found = logits(file, 20, quantization, element="bf16")
    assert np.abs(found - expected).max() < 0.06 * np.abs(expected).max()
    narrow, wide = (
        _core.decoder_engine(file, "trn2", "bf16", 16, 9, [1], [32], [64], quantization=kind).weight_bytes
        for kind in (quantization, "none")
    )
    assert narrow < wide


def test_what_is_no_type(tmp_path: Path) -> None:
    path = Tiny().write(tmp_path)
    for kind, target in (("int4", "trn2"), ("fp8_e4m3fn", "trn2"), ("mxfp8", "trn2")):
        with pytest.raises(InputError, match=kind) as raised:
            LanguageModel(path, target=target, quantization=kind)
        assert raised.value.label == "decoder.element" and "int8" in raised.value.hint
    for kind, said in (("int8,except=attn", "names no module"), ("int8,except=q_proj", "read as one matrix"),
                       ("int8,per_row", "'per_row'")):  # fmt: skip
        with pytest.raises(InputError, match=said) as raised:
            LanguageModel(path, target="trn2", quantization=kind)
        assert raised.value.label == "decoder.element"
    LanguageModel(path, target="trn3", quantization="fp8_e4m3fn")
