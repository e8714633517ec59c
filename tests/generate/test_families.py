"""Llama 4, GLM, OLMo 2 and 3, Command R, and language models inside models that read images, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from test_layer_norms import engine_of, expect_logits
from tiny_families import FAMILIES, Family, write_inside
from tiny_folders import FOLDERS, Folder

from opentrn import _core
from opentrn.errors import InputError, NotModelled
from opentrn.generate.sizes_only import SizesOnly

PROMPT = [int(t) for t in np.random.default_rng(3).integers(0, 90, 28)]
SEPARATE, INSIDE = ("language_model.model.", "language_model."), ("model.language_model.", "")


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_the_architecture(name: str, tmp_path: Path) -> None:
    model = Family(name)
    expect_logits(model.write(tmp_path / "model"), model.logits(PROMPT))


@pytest.mark.parametrize("name", ["llama4", "glm4", "command-r7b"])
def test_two_ranks_share_it(name: str, tmp_path: Path) -> None:
    model = Family(name)
    expect_logits(model.write(tmp_path / "model"), model.logits(PROMPT), ranks=2)


def test_ranks_do_not_share_norms_over_all_heads(tmp_path: Path) -> None:
    with pytest.raises(NotModelled, match="normed over all heads") as raised:
        engine_of(Family("olmo2").write(tmp_path / "model"), ranks=2)
    assert raised.value.label == "decoder.ranks"


@pytest.mark.parametrize("change", [{"mlp_only_layers": [1]}, {"decoder_sparse_step": 2}])
def test_some_layers_have_experts_and_some_do_not(change: dict[str, Any], tmp_path: Path) -> None:
    class Mixed(Folder):
        def _feed_forward(self, f: int, h: int) -> list[tuple[str, int, int]]:
            layer = sum(name.endswith("o_proj.weight") for name in self.weights) - 1
            dense = layer == 1 if "mlp_only_layers" in change else layer % 2 == 0
            if not dense:
                return super()._feed_forward(f, h)
            return [("mlp.gate_proj", f, h), ("mlp.up_proj", f, h), ("mlp.down_proj", h, f)]

    architecture, config = FOLDERS["qwen3 moe"]
    model = Mixed(architecture, **config, **change)
    assert "model.layers.1.mlp.gate.weight" in model.weights or "mlp_only_layers" in change
    expect_logits(model.write(tmp_path / "model"), model.logits(PROMPT))


@pytest.mark.parametrize(("wrapper", "kind", "names"), [
    ("Gemma3ForConditionalGeneration", "gemma3_text", SEPARATE),
    ("Llama4ForConditionalGeneration", "llama4_text", SEPARATE),
    ("LlavaForConditionalGeneration", "llama", INSIDE),
    ("Mistral3ForConditionalGeneration", "mistral", SEPARATE),
    ("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", ("model.", "")),
    ("Qwen3VLForConditionalGeneration", "qwen3_vl_text", INSIDE),
])  # fmt: skip
def test_the_language_model_inside_is_read(wrapper: str, kind: str, names: tuple[str, str], tmp_path: Path) -> None:
    mrope = {"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}
    model: Folder = {
        "gemma3_text": lambda: Folder(*FOLDERS["gemma3"][:1], **FOLDERS["gemma3"][1]),
        "llama4_text": lambda: Family("llama4"),
        "llama": lambda: Folder("LlamaForCausalLM"),
        "mistral": lambda: Folder("MistralForCausalLM", sliding_window=None),
        "qwen2_5_vl_text": lambda: Folder("Qwen2ForCausalLM", **mrope),
        "qwen3_vl_text": lambda: Folder("LlamaForCausalLM", **mrope),
    }[kind]()
    if kind == "qwen3_vl_text":
        for i in range(3):
            for norm in "qk":
                model._vector(f"model.layers.{i}.self_attn.{norm}_norm.weight", 16, 1.0)
    expect_logits(write_inside(model, tmp_path / "model", wrapper, kind, names), model.logits(PROMPT))


def test_keys_that_a_wrapped_file_leaves_out_are_those_of_its_class(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"model_type": "gemma3_text", '
        '"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}}'
    )
    save_file({"none": np.zeros(1, np.float32)}, folder / "model.safetensors")
    assert _core.decoder_context(_core.read_checkpoint(folder)) == 131072


@pytest.mark.parametrize(("name", "change", "reason"), [
    ("llama4", {"moe_layers": [9]}, "moe_layers names 9; there are 4 layers"),
    ("llama4", {"interleave_moe_layer_step": 0}, "interleave_moe_layer_step is 0"),
    ("llama4", {"floor_scale": 0}, "floor_scale is 0"),
    ("llama4", {"no_rope_layers": [1]}, "names 1 layers of 4"),
    ("llama4", {"attention_chunk_size": -4}, "window of attention is -4"),
    ("glm4", {"partial_rotary_factor": 2}, "partial_rotary_factor is 2"),
    ("command-r", {"logit_scale": 0}, "logit_scale is 0"),
    ("command-r", {"use_qk_norm": True}, "layer norms of queries"),
    ("olmo3", {"sliding_window": "x"}, "sliding_window of config.json is not an integer"),
])  # fmt: skip
def test_what_is_refused(name: str, change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, NotModelled), match=reason):
        _core.decoder_context(_core.read_checkpoint(Family(name, **change).write(tmp_path / "model")))


def test_a_wrapped_language_model_without_a_builder(tmp_path: Path) -> None:
    wrapper = "LlavaForConditionalGeneration"
    folder = write_inside(Folder("LlamaForCausalLM"), tmp_path / "model", wrapper, "mamba", INSIDE)
    with pytest.raises(NotModelled, match="language model of the type 'mamba'") as raised:
        _core.decoder_context(_core.read_checkpoint(folder))
    assert raised.value.label == "decoder.architecture"


def test_step_times_of_a_model_inside_another_with_experts_in_some_layers(tmp_path: Path) -> None:
    model = Family("llama4", num_hidden_layers=7, no_rope_layers=[1, 1, 1, 0] * 2)
    model.config["no_rope_layers"].pop()
    inside = write_inside(model, tmp_path / "m", "Llama4ForConditionalGeneration", "llama4_text", SEPARATE)
    config = inside / "config.json"
    bucket = (1, 1, 64, False)
    whole = _core.time_of_config(config.read_text(), "trn2", "f32", bucket).time_us
    sizes = SizesOnly(config, target="trn2", dtype="f32", context=64)
    results = _core.results_us_of_config(config.read_text(), bucket, "host")
    assert sizes.program(bucket).predicted_us - results == pytest.approx(whole, rel=0.05)
