"""Small random models of every architecture that is built from a folder, and what transformers makes of them.

    python reference.py FOLDER

Runs in an environment of its own, without OpenTrn. Writes FOLDER/NAME/ for each model as transformers publishes them
(save_pretrained), with logits.npy beside: those of the tokens in FOLDER/tokens.json, in fp32. Models of ADAPTERS have
FOLDER/NAME/adapter/ too, a random adapter as PEFT saves it, and logits with it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import peft
import torch
import transformers

SIZES: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 96, "vocab_size": 104, "max_position_embeddings": 128, "tie_word_embeddings": False,
    "initializer_range": 0.15, "pad_token_id": 0,
}  # fmt: skip
EXPERTS = {"num_experts": 9, "num_experts_per_tok": 3, "moe_intermediate_size": 48}
GPT2 = {
    "n_layer": 2,
    "n_embd": 64,
    "n_head": 4,
    "n_positions": 128,
    "vocab_size": 104,
    "initializer_range": 0.15,
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 500000.0}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 0.5, "rope_theta": 10000.0,
        "original_max_position_embeddings": 32}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-lora": ("Llama", {}),
    "qwen2-rslora": ("Qwen2", {}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3}),
    "llama-yarn": ("Llama", {"rope_parameters": YARN}),
    "llama-biases": ("Llama", {"attention_bias": True}),
    "mistral": ("Mistral", {"sliding_window": 12}),
    "mixtral": ("Mixtral", {"num_local_experts": 6, "num_experts_per_tok": 2}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {}),
    "qwen2-moe": ("Qwen2Moe", EXPERTS | {"shared_expert_intermediate_size": 80}),
    "qwen2-moe-sum-to-1": ("Qwen2Moe", EXPERTS | {"shared_expert_intermediate_size": 80, "norm_topk_prob": True}),
    "qwen3-moe": ("Qwen3Moe", EXPERTS | {"norm_topk_prob": True}),
    "qwen3-moe-plain": ("Qwen3Moe", EXPERTS | {"norm_topk_prob": False}),
    "granite": ("Granite", {"embedding_multiplier": 6.0, "residual_multiplier": 0.3, "logits_scaling": 4.0,
                            "attention_multiplier": 0.1}),
    "gemma": ("Gemma", {}),
    "gemma2": ("Gemma2", {"sliding_window": 12, "query_pre_attn_scalar": 24}),
    "gemma3": ("Gemma3", {"sliding_window": 12, "query_pre_attn_scalar": 20, "num_hidden_layers": 7}),
    "gpt-oss": ("GptOss", {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 12,
                           "rope_parameters": YARN | {"truncate": False}}),
    "gpt2": ("GPT2", {}),
    "gpt2-odd-heads": ("GPT2", {"n_head": 3, "n_embd": 33}),
    "qwen2-window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}),
    "gemma3-positions": ("Gemma3", {"sliding_window": 6, "rope_parameters": {
        "full_attention": YARN, "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}},
        "layer_types": ["full_attention", "sliding_attention"]}),
}  # fmt: skip


# Settings of peft.LoraConfig.
ADAPTERS: dict[str, dict[str, Any]] = {
    "llama-lora": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]},
    "qwen2-rslora": {"r": 3, "lora_alpha": 5, "use_rslora": True, "target_modules": "all-linear"},
}


def model_of(family: str, settings: dict[str, Any]) -> Any:
    """In fp32, with norms and biases that are not the ones and zeros that transformers begins with."""
    sizes = GPT2 if family == "GPT2" else SIZES
    config_type = "Gemma3Text" if family == "Gemma3" else family
    config = getattr(transformers, f"{config_type}Config")(**(sizes | settings))
    head = "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    model = getattr(transformers, head)(config).eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def main() -> None:
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    tokens = np.random.default_rng(7).integers(1, 100, 37).tolist()
    (folder / "tokens.json").write_text(json.dumps(tokens))
    for name, (family, settings) in MODELS.items():
        model = model_of(family, settings)
        model.save_pretrained(folder / name)
        if name in ADAPTERS:
            model = peft.get_peft_model(model, peft.LoraConfig(init_lora_weights=False, **ADAPTERS[name])).eval()
            model.save_pretrained(folder / name / "adapter")
        with torch.no_grad():
            np.save(folder / name / "logits.npy", model(torch.tensor([tokens])).logits[0].numpy())


if __name__ == "__main__":
    main()
