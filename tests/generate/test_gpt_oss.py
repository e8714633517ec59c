"""gpt-oss with experts in MXFP4, from folders as OpenAI publishes them and from GGUF files as llama.cpp writes them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import gguf_bytes
from tiny_folders import FOLDERS, Folder

from opentrn import _core
from opentrn.errors import InputError

PROMPT = [int(t) for t in np.random.default_rng(7).integers(0, 100, 37)]
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
EXPERTS = ("gate_up_proj", "down_proj")


def mxfp4(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the last dimension: codes, exponents with a bias of 127 for each 32, and the numbers that they stand for."""
    blocks = values.reshape(*values.shape[:-1], -1, 32)
    exponents = np.floor(np.log2(np.abs(blocks).max(-1))).astype(int) - 2
    scaled = blocks / np.exp2(exponents)[..., None]
    codes = np.abs(scaled[..., None] - FP4).argmin(-1).astype(np.uint8)
    numbers = (FP4[codes] * np.exp2(exponents)[..., None]).reshape(values.shape).astype(np.float32)
    return codes, (exponents + 127).astype(np.uint8), numbers


def drawn() -> tuple[Folder, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """The model, whose experts' weights are what MXFP4 says; and (codes, exponents) of them, features first."""
    model, packed = Folder("GptOssForCausalLM", **FOLDERS["gpt-oss"][1]), {}
    for name, values in list(model.weights.items()):
        if name.rsplit(".", 1)[1] in EXPERTS:
            codes, exponents, numbers = mxfp4(values.swapaxes(1, 2))  # along what a product sums over
            packed[name] = codes, exponents
            model.weights[name] = np.ascontiguousarray(numbers.swapaxes(1, 2))
    return model, packed


def published(folder: Path) -> tuple[Path, Folder, dict[str, np.ndarray]]:
    """A folder with blocks and scales; the model; the tensors."""
    from safetensors.numpy import save_file

    model, packed = drawn()
    tensors = dict(model.weights)
    for name, (codes, exponents) in packed.items():
        del tensors[name]
        tensors[f"{name}_blocks"] = np.ascontiguousarray(codes[..., ::2] | codes[..., 1::2] << 4)
        tensors[f"{name}_scales"] = np.ascontiguousarray(exponents)
    model.write(folder)
    save_file(tensors, folder / "model.safetensors")
    return folder, model, tensors


_PARTS = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
    "self_attn.sinks": "attn_sinks.weight", "mlp.router.weight": "ffn_gate_inp.weight",
    "mlp.router.bias": "ffn_gate_inp.bias", "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
    **{f"self_attn.{p}_proj.{kind}": f"attn_{'output' if p == 'o' else p}.{kind}" for p in "qkvo"
       for kind in ("weight", "bias")},
}  # fmt: skip
_OTHERS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}  # fmt: skip


def gguf(path: Path) -> Folder:
    model, packed = drawn()
    c, a = model.config, "gpt-oss"
    tensors: dict[str, tuple[int, tuple[int, ...], bytes]] = {}

    def plain(name: str, values: np.ndarray) -> None:
        tensors[name] = (0, values.shape, np.ascontiguousarray(values, np.float32).tobytes())

    def blocks(name: str, codes: np.ndarray, exponents: np.ndarray) -> None:
        data = np.concatenate([exponents[..., None], codes[..., :16] | codes[..., 16:] << 4], -1)
        tensors[name] = (39, (*codes.shape[:2], codes.shape[2] * 32), np.ascontiguousarray(data).tobytes())

    for name, values in model.weights.items():
        if name in _OTHERS:
            plain(_OTHERS[name], values)
            continue
        _, _, layer, part = name.split(".", 3)
        at = f"blk.{layer}."
        if name in packed and part.endswith("gate_up_proj"):
            codes, exponents = packed[name]
            blocks(f"{at}ffn_gate_exps.weight", codes[:, ::2], exponents[:, ::2])
            blocks(f"{at}ffn_up_exps.weight", codes[:, 1::2], exponents[:, 1::2])
        elif name in packed:
            blocks(f"{at}ffn_down_exps.weight", *packed[name])
        elif part.endswith("gate_up_proj_bias"):
            plain(f"{at}ffn_gate_exps.bias", values[:, ::2])
            plain(f"{at}ffn_up_exps.bias", values[:, 1::2])
        else:
            plain(at + _PARTS[part], values)
    rope = c["rope_scaling"]
    keys: dict[str, Any] = {
        "general.architecture": a, f"{a}.block_count": c["num_hidden_layers"], f"{a}.context_length": 128,
        f"{a}.embedding_length": c["hidden_size"], f"{a}.feed_forward_length": c["intermediate_size"],
        f"{a}.attention.head_count": c["num_attention_heads"], f"{a}.rope.freq_base": 1000.0,
        f"{a}.attention.head_count_kv": c["num_key_value_heads"], f"{a}.attention.key_length": c["head_dim"],
        f"{a}.attention.layer_norm_rms_epsilon": 1e-5, f"{a}.attention.sliding_window": c["sliding_window"],
        f"{a}.expert_count": c["num_local_experts"], f"{a}.expert_used_count": c["num_experts_per_tok"],
        f"{a}.expert_feed_forward_length": c["intermediate_size"], f"{a}.rope.scaling.type": "yarn",
        f"{a}.rope.scaling.factor": rope["factor"], f"{a}.rope.scaling.yarn_beta_fast": rope["beta_fast"],
        f"{a}.rope.scaling.yarn_beta_slow": rope["beta_slow"],
        f"{a}.rope.scaling.original_context_length": rope["original_max_position_embeddings"],
    }  # fmt: skip
    path.write_bytes(gguf_bytes(keys, tensors))
    return model


def expect_logits(file: Any, model: Folder) -> None:
    engine = _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [48], [64])
    expected = model.logits(PROMPT)
    every = engine.step([(PROMPT, 0, [3, 1, 2])], True)[0][: len(PROMPT)]
    assert np.abs(every - expected).max() < 3e-4 * np.abs(expected).max()


def test_a_published_folder_gives_the_logits_of_the_architecture(tmp_path: Path) -> None:
    folder, model, _ = published(tmp_path / "model")
    expect_logits(_core.read_checkpoint(folder), model)


def test_a_gguf_file_gives_the_logits_of_the_architecture(tmp_path: Path) -> None:
    model = gguf(tmp_path / "m.gguf")
    expect_logits(_core.read_gguf(tmp_path / "m.gguf"), model)


def test_a_limit_that_no_feature_passes_gives_other_logits(tmp_path: Path) -> None:
    """Else the tests above would not see the limit."""
    model = drawn()[0]
    within = model.logits(PROMPT)
    model.config["swiglu_limit"] = 1e9
    assert np.abs(model.logits(PROMPT) - within).max() > 1e-2 * np.abs(within).max()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.update({"model.layers.0.self_attn.q_proj.weight": np.ones((64, 64), np.uint8)}), "q_proj.* is U8"),
        (lambda t: t.pop("model.layers.1.mlp.experts.down_proj_scales"), "no tensor .*layers.1.*down_proj_scales"),
        (lambda t: t.update({"model.layers.0.mlp.experts.down_proj_scales": np.ones((8, 64, 4), np.uint8)}),
         r"is \[8, 64, 4\]; the model's sizes ask for \[8, 64, 3\]"),
        (lambda t: t.update({"model.layers.0.mlp.experts.down_proj_scales": np.ones((8, 64, 3), np.float32)}),
         "down_proj_scales is F32"),
    ],
)  # fmt: skip
def test_tensors_that_are_none(change: Any, reason: str, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    folder, _, tensors = published(tmp_path / "model")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InputError, match=reason) as caught:
        _core.decoder_engine(_core.read_checkpoint(folder), "trn2", "f32", 16, 9, [1], [48], [64])
    assert caught.value.label == "decoder.weights"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"swiglu_limit": 0.0}, "swiglu_limit is 0"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 0.0}}, "beta_fast 0"),
    ],
)
def test_configurations_that_are_none(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    folder, model, _ = published(tmp_path / "model")
    model.config.update(change)
    (folder / "config.json").write_text(json.dumps(model.config))
    with pytest.raises(InputError, match=reason):
        _core.decoder_engine(_core.read_checkpoint(folder), "trn2", "f32", 16, 9, [1], [48], [64])


def test_experts_that_are_no_whole_blocks(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    folder, model, tensors = published(tmp_path / "model")
    model.config["intermediate_size"] = 80
    for name in list(tensors):
        if "gate_up_proj" in name:
            tensors[name] = np.ascontiguousarray(tensors[name][:, :160])
    (folder / "config.json").write_text(json.dumps(model.config))
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InputError, match="down_proj of 80 features are no blocks of 32"):
        _core.decoder_engine(_core.read_checkpoint(folder), "trn2", "f32", 16, 9, [1], [48], [64])


def test_a_decode_step_with_sinks_over_many_positions_is_one_kernel_a_layer(tmp_path: Path) -> None:
    """Against the step of a prompt's tokens, whose positions are as many; heads that share keys read runs of them."""
    from safetensors.numpy import save_file

    folder, model, tensors = published(tmp_path / "model")
    model.config["max_position_embeddings"] = 512
    model.write(folder)
    save_file(tensors, folder / "model.safetensors")
    engine = _core.decoder_engine(_core.read_checkpoint(folder), "trn2", "f32", 32, 17, [1], [16, 512], [512])
    tokens = [int(t) for t in np.random.default_rng(3).integers(0, 100, 400)]
    blocks = list(range(1, 17))
    expected = engine.step([(tokens, 0, blocks)], True)[0][399]
    engine.step([(tokens[:399], 0, blocks)])
    found, bucket, _ = engine.step([([tokens[399]], 399, blocks)])
    assert bucket == (1, 1, 512, False)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=2e-4 * np.abs(expected).max())
    text = engine.time(bucket).executable_text(0)
    gathers = [line for line in text.splitlines() if re.match(r"dma_copy dst=\S+ src=\S+ \S+\{vector", line)]
    # Keys and values of a layer: 512 positions in runs of four.
    assert sum("/attention" in line for line in gathers) == 2 * model.config["num_hidden_layers"]
