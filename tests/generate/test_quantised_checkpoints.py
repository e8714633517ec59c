"""Checkpoints that were quantised: their logits are those of the numbers that they stand for."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantised_folders import METHODS, Tensors, save
from tiny_folders import EXPERTS, Folder

from opentrn import _core
from opentrn.errors import InputError, NotModelled

TOKENS = [int(t) for t in np.random.default_rng(5).integers(0, 90, 24)]
MODELS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {}, "Qwen3MoeForCausalLM": EXPERTS | {"moe_intermediate_size": 64, "num_hidden_layers": 2},
}  # fmt: skip


def written(model: Folder, method: str, folder: Path) -> tuple[Path, Path]:
    """Two folders: quantised, and with the numbers that these stand for."""
    quantization, pack = METHODS[method]
    plain, tensors, random = copy.deepcopy(model), {}, np.random.default_rng(8)
    for name, value in model.weights.items():
        stem = name.removesuffix(".weight")
        if value.ndim != 2 or "layers." not in name or name.endswith("mlp.gate.weight"):
            tensors[name] = value
            continue
        parts, plain.weights[name] = pack(value, random)
        tensors |= {f"{stem}.{end}": part for end, part in parts.items()}
    tensors["model.layers.0.self_attn.k_proj.k_scale"] = np.float32([0.3])
    one = folder / "quantised"
    one.mkdir()
    (one / "config.json").write_text(json.dumps(model.config | {"quantization_config": quantization}))
    save(tensors, one / "model.safetensors")
    return one, plain.write(folder / "plain")


def logits(folder: Path, quantization: str = "none") -> np.ndarray:
    engine = _core.decoder_engine(_core.read_checkpoint(folder), "trn2", "f32", 16, 9, [1], [32], [64],
                                  quantization=quantization)  # fmt: skip
    return engine.step([(TOKENS[:20], 0, [3, 1, 2])], True)[0][:20]


@pytest.mark.parametrize("architecture", MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_logits_are_those_of_the_numbers_they_stand_for(method: str, architecture: str, tmp_path: Path) -> None:
    model = Folder(architecture, **{"intermediate_size": 96} | MODELS[architecture])
    one, plain = written(model, method, tmp_path)
    found, expected = logits(one), logits(plain)
    assert np.array_equal(found, expected)
    wide = logits(model.write(tmp_path / "wide"))
    assert np.abs(found - wide).max() > 1e-3 * np.abs(wide).max()  # the weights are others


def test_they_can_be_kept_narrow_again(tmp_path: Path) -> None:
    one, plain = written(Folder("LlamaForCausalLM"), "gptq", tmp_path)
    assert np.array_equal(logits(one, "int8"), logits(plain, "int8"))


def broken(folder: Path, change: Any, quantization: dict[str, Any] | None = None) -> Path:
    """The folder with some tensors changed, and with another configuration."""
    header_bytes = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(header_bytes[:8], "little")
    header, data = json.loads(header_bytes[8 : 8 + length]), header_bytes[8 + length :]
    kinds = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "I64": np.int64, "U8": np.uint8}
    tensors: Tensors = {
        name: np.frombuffer(data[slice(*row["data_offsets"])], kinds[row["dtype"]]).reshape(row["shape"])
        for name, row in header.items()
    }
    change(tensors)
    save(tensors, folder / "model.safetensors")
    if quantization is not None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"quantization_config": quantization}))
    return folder


Q = "model.layers.1.self_attn.q_proj."
BROKEN: dict[str, tuple[str, Any, str]] = {
    "no scales": ("gptq", lambda t: t.pop(f"{Q}scales"), "no .*scales"),
    "no zeros": ("awq", lambda t: t.pop(f"{Q}qzeros"), "no .*qzeros"),
    "scales of another matrix": ("awq", lambda t: t.update({f"{Q}scales": t[f"{Q}scales"][:, :8]}), "scales no"),
    "a group that is none": ("gptq", lambda t: t.update({f"{Q}g_idx": t[f"{Q}g_idx"] + 1}), "names group 2 of 2"),
    "a table too short": ("gptq", lambda t: t.update({f"{Q}g_idx": t[f"{Q}g_idx"][:5]}), "names no groups"),
    "no words": ("gptq", lambda t: t.update({f"{Q}qweight": t[f"{Q}qweight"].view(np.float32)}), "is not I32"),
    "no matrix": ("gptq", lambda t: t.update({f"{Q}qweight": t[f"{Q}qweight"].reshape(-1)}), "no matrix"),
    "no shape": ("w4a16", lambda t: t.pop(f"{Q}weight_shape"), "no .*weight_shape"),
    "another shape": ("w4a16", lambda t: t.update({f"{Q}weight_shape": np.array([3, -1], np.int64)}), "matrix"),
    "three bits": ("w4a16", lambda t: t.update({f"{Q}weight_packed": t[f"{Q}weight_packed"][:, :6]}), "2, 4 or 8"),
    "zeros too few": ("w4a16 with zeros", lambda t: t.update({f"{Q}weight_zero_point":
                      t[f"{Q}weight_zero_point"][:3]}), "is not I32"),
    "scales of nothing": ("w4a16", lambda t: t.update({f"{Q}weight_scale": t[f"{Q}weight_scale"][:3]}), "covers no"),
    "twice": ("w4a16", lambda t: t.update({f"{Q}weight": np.zeros((64, 64), np.float32)}), "twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_parts_that_do_not_belong_to_each_other(case: str, tmp_path: Path) -> None:
    method, change, said = BROKEN[case]
    one, _ = written(Folder("LlamaForCausalLM"), method, tmp_path)
    with pytest.raises((InputError, NotModelled)) as raised:
        _core.read_checkpoint(broken(one, change))
    assert raised.value.label == "checkpoint.quantization"
    assert re.search(said, f"{raised.value} {raised.value.hint}")


@pytest.mark.parametrize(("quantization", "said"), [
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "quantised by 'bitsandbytes'"), ({}, "quantised by ''"),
    ({"quant_method": "gptq", "bits": 3}, "gptq of 3 bits"), ({"quant_method": 7}, "quantised by ''"),
    ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version gemv"),
])  # fmt: skip
def test_other_methods_are_named(quantization: dict[str, Any], said: str, tmp_path: Path) -> None:
    one, _ = written(Folder("LlamaForCausalLM"), "gptq", tmp_path)
    with pytest.raises(NotModelled, match=said) as raised:
        _core.read_checkpoint(broken(one, lambda t: None, quantization))
    assert raised.value.label == "checkpoint.quantization" and "gptq" in raised.value.hint


def test_a_configuration_that_is_none(tmp_path: Path) -> None:
    one, _ = written(Folder("LlamaForCausalLM"), "gptq", tmp_path)
    config = json.loads((one / "config.json").read_text())
    (one / "config.json").write_text(json.dumps(config | {"quantization_config": ["gptq"]}))
    with pytest.raises(InputError, match="is not an object"):
        _core.read_checkpoint(one)


def test_biases_that_add_something_are_read_or_named(tmp_path: Path) -> None:
    one, _ = written(Folder("LlamaForCausalLM"), "gptq", tmp_path)
    broken(one, lambda t: t.update({f"{Q}bias": np.ones(64, np.float16)}))
    with pytest.raises(NotModelled, match="q_proj.bias"):
        logits(one)


