"""LoRA adapters: the model with one is the model whose matrices were changed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny import Tiny
from tiny_folders import FOLDERS, Folder

from opentrn import _core, cli
from opentrn.errors import InputError, NotModelled

PROMPT = [int(t) for t in np.random.default_rng(7).integers(0, 100, 20)]
RANK = 3


def logits_of(file: Any, lora: Path | None = None) -> np.ndarray:
    engine = _core.decoder_engine(file, "trn2", "f32", 16, 5, [1], [48], [64], lora=lora)
    return engine.step([(PROMPT, 0, [1, 2])], every_token=True)[0][: len(PROMPT)]


def write_adapter(folder: Path, matrices: dict[str, np.ndarray], **changes: Any) -> dict[str, np.ndarray]:
    """A random adapter of these matrices [out, in], by name without ".weight"; gives what it adds to each."""
    random = np.random.default_rng(5)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 6, "use_rslora": False, "bias": "none"} | changes
    scale = config["lora_alpha"] / (np.sqrt(RANK) if config["use_rslora"] else RANK)
    tensors, added = {}, {}
    for name, matrix in matrices.items():
        a = random.standard_normal((RANK, matrix.shape[1]), np.float32) * np.float32(0.2)
        b = random.standard_normal((matrix.shape[0], RANK), np.float32) * np.float32(0.2)
        tensors |= {f"base_model.model.{name}.lora_A.weight": a, f"base_model.model.{name}.lora_B.weight": b}
        added[name] = (scale * b.astype(np.float64) @ a).astype(np.float32)
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "adapter_model.safetensors")
    return added


@pytest.mark.parametrize("name", ["mixtral", "qwen2 moe", "gemma2"])
def test_an_adapter_changes_the_matrices_that_it_names(name: str, tmp_path: Path) -> None:
    architecture, config = FOLDERS[name]
    model = Folder(architecture, **config)
    file = _core.read_checkpoint(model.write(tmp_path / "model"))
    before = logits_of(file)
    wanted = ("self_attn.", "experts.1.", "mlp.gate_proj", "mlp.down_proj", "lm_head")
    names = [n for n in model.weights if n.endswith(".weight") and any(w in n for w in wanted) and "norm" not in n]
    matrices = {n.removesuffix(".weight"): model.weights[n] for n in names}
    added = write_adapter(tmp_path / "adapter", matrices, use_rslora=name == "mixtral")
    for matrix, change in added.items():
        model.weights[f"{matrix}.weight"] = model.weights[f"{matrix}.weight"] + change
    expected = model.logits(PROMPT)
    found = logits_of(file, tmp_path / "adapter")
    assert np.abs(found - expected).max() < 3e-4 * np.abs(expected).max()
    assert np.abs(before - expected).max() > 3e-2 * np.abs(expected).max()


def test_the_copy_of_a_head_that_peft_saves_beside_its_change(tmp_path: Path) -> None:
    """PEFT 0.21 writes lm_head.base_layer.weight for a changed head; it was refused as a tensor of no matrix."""
    architecture, config = FOLDERS["mixtral"]
    model = Folder(architecture, **config)
    file = _core.read_checkpoint(model.write(tmp_path / "model"))
    write_adapter(tmp_path / "adapter", {"lm_head": model.weights["lm_head.weight"]})
    path = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors, copy = load_file(path), "base_model.model.lm_head.base_layer.weight"
    without = logits_of(file, tmp_path / "adapter")
    save_file(tensors | {copy: model.weights["lm_head.weight"]}, path)
    assert np.array_equal(logits_of(file, tmp_path / "adapter"), without)
    save_file(tensors | {copy: model.weights["lm_head.weight"] + 1}, path)
    with pytest.raises(InputError, match="lm_head.base_layer.weight differs from the model's"):
        logits_of(file, tmp_path / "adapter")


def test_a_gguf_file_and_a_folder_take_the_same_adapter(tmp_path: Path) -> None:
    model = Tiny("llama")
    folder = model.write_folder(tmp_path)
    names = ["self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj"]
    shapes = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "mlp.up_proj": "ffn_up"}
    matrices = {f"model.layers.1.{n}": model.weights[f"blk.1.{shapes[n]}.weight"] for n in names}
    write_adapter(tmp_path / "adapter", matrices)
    files = _core.read_gguf(model.write(tmp_path)), _core.read_checkpoint(folder)
    rows = [logits_of(file, tmp_path / "adapter").tobytes() for file in files]
    assert rows[0] == rows[1] != logits_of(files[0]).tobytes()


@pytest.mark.parametrize(
    ("changes", "names", "error", "message"),
    [
        ({"peft_type": "IA3"}, (), InputError, "of type"),
        ({"r": 0}, (), InputError, "r and lora_alpha"),
        ({"use_dora": True}, (), NotModelled, "use_dora"),
        ({"bias": "all"}, (), NotModelled, "bias"),
        ({"rank_pattern": {"q_proj": 4}}, (), NotModelled, "rank_pattern"),
        ({}, ("model.layers.9.self_attn.q_proj",), InputError, "belongs to no matrix"),
        ({}, ("model.embed_tokens",), InputError, "belongs to no matrix"),
        ({}, ("model.layers.0.mlp.down_proj",), InputError, "adapter of this model"),
    ],
)
def test_adapters_that_are_refused(
    changes: dict[str, Any], names: tuple[str, ...], error: type[Exception], message: str, tmp_path: Path
) -> None:
    file = _core.read_checkpoint(Tiny().write_folder(tmp_path))
    write_adapter(tmp_path / "adapter", {name: np.zeros((64, 64), np.float32) for name in names}, **changes)
    with pytest.raises(error, match=message) as caught:
        logits_of(file, tmp_path / "adapter")
    assert caught.value.label == "decoder.adapter"  # type: ignore[attr-defined]


def test_the_command_takes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(Tiny().write(tmp_path))
    assert cli.main(["generate", path, "--context", "64", "--lora", str(tmp_path / "none")]) == 2
    assert "adapter_config.json" in capsys.readouterr().err
    assert cli.main(["serve", path, "--no-values", "--linear", "step=1", "--lora", str(tmp_path)]) == 2
    assert "serve.settings" in capsys.readouterr().err
