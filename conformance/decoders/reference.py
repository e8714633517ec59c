"""Small random models of every architecture that is built from a folder, and what transformers makes of them.

    python reference.py FOLDER [COUNT SEED | --llama-cpp CHECKOUT]

With a count, so many models of families and sizes that are drawn by the seed take the place of the listed ones. Runs
in an environment of its own, without OpenTrn. Writes FOLDER/NAME/ for each model as transformers publishes them
(save_pretrained), in fp32, with logits.npy beside: those of the tokens in FOLDER/tokens.json, computed in fp64, and
rounding.json: how far its own in fp32 are from those, as a part of the largest one. Models of ADAPTERS have
FOLDER/NAME/adapter/ too, a random adapter as PEFT saves it, and logits with it; those of quantised.FORMATS are written
quantised, and their logits are those of the numbers that these stand for. With a checkout of llama.cpp the models of
with_llama_cpp.py, each with model.gguf beside, which its converter wrote.
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
from quantised import FORMATS, quantise
from with_images import MODELS as WITH_IMAGES
from with_images import language_model, model_with_images
from with_llama_cpp import LISTED, convert
from with_llama_cpp import MODELS as OF_GGUF

SIZES: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 96, "vocab_size": 104, "max_position_embeddings": 128, "tie_word_embeddings": False,
    "initializer_range": 0.15, "pad_token_id": 0,
}  # fmt: skip
EXPERTS = {"num_experts": 9, "num_experts_per_tok": 3, "moe_intermediate_size": 48}
LLAMA4 = {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size_mlp": 112,
          "attention_chunk_size": 12, "no_rope_layer_interval": 2}  # fmt: skip
DEEPSEEK: dict[str, Any] = {
    "kv_lora_rank": 24, "q_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
    "num_key_value_heads": 4, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40,
    "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2, "num_hidden_layers": 3,
    "head_dim": 8, "routed_scaling_factor": 1.7,
}  # fmt: skip
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
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
        "short_factor": [1.0, 1.1, 1.2, 1.5, 1.9, 2.5], "long_factor": [1.0, 1.6, 2.4, 3.9, 6.5, 9.0]}  # fmt: skip
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
    "qwen2-moe-some": ("Qwen2Moe", EXPERTS | {"shared_expert_intermediate_size": 80, "num_hidden_layers": 4,
                                              "mlp_only_layers": [0], "decoder_sparse_step": 2}),
    "qwen3-moe-some": ("Qwen3Moe", EXPERTS | {"mlp_only_layers": [1]}),
    "llama4": ("Llama4", LLAMA4 | {"num_hidden_layers": 4, "interleave_moe_layer_step": 2, "floor_scale": 8,
                                   "attn_scale": 0.3, "rope_parameters": LLAMA3}),
    "llama4-plain": ("Llama4", LLAMA4 | {"num_experts_per_tok": 1, "use_qk_norm": False, "moe_layers": [0, 1],
                                         "attn_temperature_tuning": False, "no_rope_layers": [1, 1]}),
    "llama4-lora": ("Llama4", LLAMA4 | {"moe_layers": []}),
    "deepseek-v3": ("DeepseekV3", DEEPSEEK | {"rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 0.7}}),
    "deepseek-v3-plain": ("DeepseekV3", DEEPSEEK | {"q_lora_rank": None, "n_group": 1, "topk_group": 1,
                                                    "norm_topk_prob": False, "n_shared_experts": 1}),
    "deepseek-v2": ("DeepseekV2", DEEPSEEK | {"topk_method": "group_limited_greedy"}),
    "deepseek-v2-lite": ("DeepseekV2", DEEPSEEK | {"q_lora_rank": None, "topk_method": "greedy"}),
    "glm4-moe": ("Glm4Moe", {k: v for k, v in DEEPSEEK.items() if "rank" not in k} | {
        "head_dim": 16, "num_key_value_heads": 2, "use_qk_norm": True, "attention_bias": True}),
    "glm": ("Glm", {}),
    "glm4-lora": ("Glm4", {"attention_bias": True}),
    "olmo2": ("Olmo2", {}),
    "olmo3": ("Olmo3", {"num_hidden_layers": 5, "sliding_window": 12}),
    "command-r": ("Cohere", {"logit_scale": 0.3}),
    "command-r7b-lora": ("Cohere2", {"num_hidden_layers": 5, "sliding_window": 12, "attention_bias": True}),
    "qwen3-moe": ("Qwen3Moe", EXPERTS | {"norm_topk_prob": True}),
    "qwen3-moe-plain": ("Qwen3Moe", EXPERTS | {"norm_topk_prob": False}),
    "seed-oss": ("SeedOss", {}),
    "ernie4.5": ("Ernie4_5", {}),
    "ministral": ("Ministral", {"sliding_window": 12, "layer_types": ["full_attention", "sliding_attention"]}),
    "ministral3": ("Ministral3", {"rope_parameters": YARN | {"original_max_position_embeddings": 16, "mscale": 1.0,
                   "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}}),
    "olmoe": ("Olmoe", EXPERTS),
    "exaone4": ("Exaone4", {"num_hidden_layers": 5, "sliding_window": 12, "sliding_window_pattern": 3}),
    "exaone4-whole": ("Exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 2}),
    "arcee-lora": ("Arcee", {"mlp_bias": True, "attention_bias": True}),
    "nemotron": ("Nemotron", {"partial_rotary_factor": 0.5}),
    "nemotron-biases": ("Nemotron", {"attention_bias": True, "mlp_bias": True}),
    "dots1": ("Dots1", {k: v for k, v in DEEPSEEK.items() if "rank" not in k} | {
        "head_dim": 16, "num_key_value_heads": 2, "sliding_window": 12, "max_window_layers": 1}),
    "minimax-m2": ("MiniMaxM2", {"num_local_experts": 6, "num_experts_per_tok": 2, "rope_parameters": {
        "rope_type": "default", "partial_rotary_factor": 0.5}}),
    "glm4-moe-lite": ("Glm4MoeLite", DEEPSEEK | {"mlp_layer_types": ["dense", "sparse", "sparse"],
                                                 "num_hidden_layers": 3}),
    "granite": ("Granite", {"embedding_multiplier": 6.0, "residual_multiplier": 0.3, "logits_scaling": 4.0,
                            "attention_multiplier": 0.1}),
    "gemma": ("Gemma", {}),
    "gemma2": ("Gemma2", {"sliding_window": 12, "query_pre_attn_scalar": 24}),
    "gemma3": ("Gemma3", {"sliding_window": 12, "query_pre_attn_scalar": 20, "num_hidden_layers": 7}),
    "gpt-oss": ("GptOss", {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 12,
                           "rope_parameters": YARN | {"truncate": False}}),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 4, "no_rope_layer_interval": 3}),
    "smollm3-layers": ("SmolLM3", {"num_hidden_layers": 3, "no_rope_layers": [0, 1, 0], "attention_bias": True}),
    "phi3": ("Phi3", {"sliding_window": 12}),
    "phi3-lora": ("Phi3", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}),
    "phi3-short": ("Phi3", {"rope_parameters": LONG | {"original_max_position_embeddings": 64},
                            "original_max_position_embeddings": 64}),
    "phi3-long": ("Phi3", {"rope_parameters": LONG | {"original_max_position_embeddings": 32, "attention_factor": 1.3},
                           "original_max_position_embeddings": 32}),
    "pythia": ("GPTNeoX", {"rotary_pct": 0.25}),
    "pythia-in-turn": ("GPTNeoX", {"rotary_pct": 0.5, "use_parallel_residual": False, "attention_bias": False,
                                   "hidden_act": "gelu_new"}),
    "opt": ("OPT", {"ffn_dim": 96, "word_embed_proj_dim": 64}),
    "stablelm": ("StableLm", {"use_qkv_bias": True}),
    "stablelm-lora": ("StableLm", {"use_parallel_residual": True, "partial_rotary_factor": 0.5}),
    "starcoder2": ("Starcoder2", {"sliding_window": 12}),
    "phi": ("Phi", {"partial_rotary_factor": 0.5}),
    "gpt2": ("GPT2", {}),
    "gpt2-odd-heads": ("GPT2", {"n_head": 3, "n_embd": 33}),
    "qwen2-window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}),
    "gemma3-positions": ("Gemma3", {"sliding_window": 6, "rope_parameters": {
        "full_attention": YARN, "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}},
        "layer_types": ["full_attention", "sliding_attention"]}),
} | {f"llama-{name}": ("Llama", {"intermediate_size": 160}) for name in FORMATS}  # fmt: skip


# Settings of peft.LoraConfig.
ADAPTERS: dict[str, dict[str, Any]] = {
    "llama-lora": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]},
    "stablelm-lora": {"r": 3, "lora_alpha": 4, "target_modules": "all-linear"},
    "phi3-lora": {"r": 5, "lora_alpha": 7, "target_modules": ["qkv_proj", "gate_up_proj", "o_proj"]},
    "llama4-lora": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "k_proj", "o_proj"]},
    "arcee-lora": {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"},
    "glm4-lora": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "k_proj", "gate_up_proj"]},
    "command-r7b-lora": {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"},
    "qwen2-rslora": {"r": 3, "lora_alpha": 5, "use_rslora": True, "target_modules": "all-linear"},
}


def divisor(random: np.random.Generator, number: int) -> int:
    return int(random.choice([n for n in range(1, number + 1) if number % n == 0]))


def rope_parameters(random: np.random.Generator, head: int) -> dict[str, Any]:
    """Positions as they are, scaled linearly, as Llama 3's, or by YaRN."""
    base = {"rope_theta": float(10 ** random.uniform(2, 6))}
    factor = float(random.uniform(1.5, 8))
    kind = random.choice(["default", "linear", "llama3", "yarn"]) if head > 4 else "default"
    return base | {
        "default": {"rope_type": "default"},
        "linear": {"rope_type": "linear", "factor": factor},
        "llama3": LLAMA3 | {"factor": factor} | base,
        "yarn": YARN | {"factor": factor} | base,
    }[kind]


def deepseek_settings(random: np.random.Generator, heads: int, layers: int, latent: bool) -> dict[str, Any]:
    """Experts in groups, the first layers without them, and latent attention."""
    groups, in_group = int(random.integers(1, 5)), int(random.integers(2, 5))
    taken = int(random.integers(1, groups + 1))
    settings: dict[str, Any] = {
        "n_routed_experts": groups * in_group, "n_group": groups, "topk_group": taken,
        "num_experts_per_tok": int(random.integers(1, taken * in_group + 1)),
        "moe_intermediate_size": int(random.integers(5, 90)), "n_shared_experts": int(random.integers(1, 3)),
        "first_k_dense_replace": int(random.integers(0, layers + 1)), "norm_topk_prob": bool(random.integers(2)),
        "routed_scaling_factor": float(random.uniform(0.5, 3)),
        "topk_method": str(random.choice(["greedy", "group_limited_greedy"])),
    }  # fmt: skip
    if not latent:
        return settings
    turned = 2 * int(random.integers(1, 9))
    return settings | {
        "kv_lora_rank": 2 * int(random.integers(2, 30)), "q_lora_rank": int(random.choice([0, 7, 24])) or None,
        "qk_nope_head_dim": 2 * int(random.integers(1, 20)), "qk_rope_head_dim": turned, "head_dim": turned,
        "v_head_dim": int(random.integers(2, 40)), "num_key_value_heads": heads,
        "rope_parameters": rope_parameters(random, turned),
    }  # fmt: skip


PLAIN = ("GPTNeoX", "OPT", "StableLm", "Starcoder2", "Phi")


def drawn(random: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """A family, and sizes that its class takes."""
    family = str(random.choice(["Llama", "Mistral", "Mixtral", "Qwen2", "Qwen3", "Qwen2Moe", "Qwen3Moe", "Granite",
                                "Gemma", "Gemma2", "Gemma3", "GptOss", "GPT2", "SmolLM3", "Phi3", "GPTNeoX", "OPT",
                                "StableLm", "Starcoder2", "Phi", "Llama4", "Glm", "Glm4", "Olmo2", "Olmo3", "Cohere",
                                "Cohere2", "DeepseekV2", "DeepseekV3", "Glm4Moe"]))  # fmt: skip
    heads, head = int(random.integers(1, 9)), 2 * int(random.choice([2, 4, 5, 8, 12, 16, 32, 64]))
    layers, vocabulary = int(random.integers(1, 4)), int(random.integers(101, 400))
    if family == "GPT2":
        return family, {"n_layer": layers, "n_head": heads, "n_embd": heads * head // 2, "vocab_size": vocabulary}
    hidden = heads * int(random.integers(3, 40))
    own_head = family not in ("Qwen2", "Qwen2Moe", "Granite", "SmolLM3", "Phi3", "Olmo2", "Olmo3", "Cohere", "Cohere2",
                              *PLAIN)
    if not own_head:
        hidden = heads * head
    settings: dict[str, Any] = {
        "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "vocab_size": vocabulary,
        "num_key_value_heads": divisor(random, heads), "head_dim": head,
        "intermediate_size": int(random.integers(5, 200)), "tie_word_embeddings": bool(random.integers(2)),
        "rope_parameters": rope_parameters(random, head), "rms_norm_eps": float(10 ** random.uniform(-7, -3)),
        "initializer_range": 0.15 * (64 / hidden) ** 0.5,
    }  # fmt: skip
    if not own_head and family not in PLAIN:
        del settings["head_dim"]
    share = float(random.choice([1.0, 0.5])) if head % 4 == 0 else 1.0
    if family in ("GPTNeoX", "StableLm", "Phi", "Glm", "Glm4", "Glm4Moe"):  # with a part of each head turned
        settings["rope_parameters"] = {"rope_type": "default", "rope_theta": float(10 ** random.uniform(2, 6)),
                                       "partial_rotary_factor": share}  # fmt: skip
    experts = int(random.integers(2, 12))
    taken = int(random.integers(1, experts + 1))
    moe = {"num_experts": experts, "num_experts_per_tok": taken, "norm_topk_prob": bool(random.integers(2)),
           "moe_intermediate_size": int(random.integers(5, 90))}  # fmt: skip
    window = int(random.integers(2, 40))
    settings |= {
        "Llama": {"attention_bias": bool(random.integers(2))},
        "Mistral": {"sliding_window": window if random.integers(2) else None},
        "Mixtral": {"num_local_experts": experts, "num_experts_per_tok": taken},
        "Qwen2": {"use_sliding_window": True, "sliding_window": window,
                  "max_window_layers": int(random.integers(0, layers + 1))},
        "Qwen2Moe": moe | {"shared_expert_intermediate_size": int(random.integers(5, 90))},
        "Qwen3Moe": moe | {"mlp_only_layers": [int(random.integers(layers))] if layers > 1 else [],
                           "decoder_sparse_step": int(random.integers(1, 3))},
        "Llama4": {"num_local_experts": experts, "num_experts_per_tok": taken,
                   "intermediate_size_mlp": int(random.integers(5, 200)), "attention_chunk_size": window,
                   "no_rope_layer_interval": int(random.integers(1, 4)), "floor_scale": int(random.integers(2, 20)),
                   "moe_layers": [n for n in range(layers) if random.integers(2)],
                   "use_qk_norm": bool(random.integers(2)), "attention_bias": bool(random.integers(2)),
                   "attn_temperature_tuning": bool(random.integers(2)), "attn_scale": float(random.uniform(0.05, 1))},
        "DeepseekV2": deepseek_settings(random, heads, layers, True),
        "DeepseekV3": deepseek_settings(random, heads, layers, True),
        "Glm4Moe": deepseek_settings(random, heads, layers, False) | {
            "use_qk_norm": bool(random.integers(2)), "attention_bias": bool(random.integers(2))},
        "Glm": {"attention_bias": bool(random.integers(2))},
        "Glm4": {"attention_bias": bool(random.integers(2))},
        "Olmo3": {"sliding_window": window},
        "Cohere": {"logit_scale": float(random.uniform(0.05, 2)), "attention_bias": bool(random.integers(2))},
        "Cohere2": {"sliding_window": window, "tie_word_embeddings": True},
        "Granite": {"embedding_multiplier": float(random.uniform(0.5, 8)),
                    "logits_scaling": float(random.uniform(1, 8)),
                    "residual_multiplier": float(random.uniform(0.1, 1)),
                    "attention_multiplier": float(random.uniform(0.05, 0.5))},
        "Gemma2": {"sliding_window": window, "query_pre_attn_scalar": int(random.integers(4, 64))},
        "Gemma3": {"sliding_window": window, "query_pre_attn_scalar": int(random.integers(4, 64))},
        "GptOss": {"num_local_experts": experts, "num_experts_per_tok": taken, "sliding_window": window},
        "GPTNeoX": {"use_parallel_residual": bool(random.integers(2)), "attention_bias": bool(random.integers(2)),
                    "hidden_act": str(random.choice(["gelu", "gelu_new", "relu"]))},
        "OPT": {"ffn_dim": int(random.integers(5, 200)), "word_embed_proj_dim": hidden,
                "enable_bias": bool(random.integers(2))},
        "StableLm": {"use_parallel_residual": bool(random.integers(2)), "use_qkv_bias": bool(random.integers(2))},
        "Starcoder2": {"sliding_window": window if random.integers(2) else None, "use_bias": bool(random.integers(2))},
        "SmolLM3": {"no_rope_layers": [int(n) for n in random.integers(0, 2, layers)]},
        "Phi3": {"sliding_window": window if random.integers(2) else None,
                 "rope_parameters": {"rope_type": "default", "rope_theta": float(10 ** random.uniform(2, 6)),
                                     "partial_rotary_factor": share}},
    }.get(family, {})  # fmt: skip
    if family == "Gemma3":
        settings["rope_parameters"] = {
            kind: rope_parameters(random, head) for kind in ("full_attention", "sliding_attention")
        }
        settings["layer_types"] = [
            str(random.choice(["full_attention", "sliding_attention"])) for _ in range(layers)
        ]
    return family, settings


def models(arguments: list[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    if not arguments:
        return MODELS | {name: ("", {}) for name in WITH_IMAGES}
    if arguments[0] == "--llama-cpp":
        return {name: MODELS.get(name, ("", {})) for name in LISTED} | OF_GGUF
    count, seed = (int(a) for a in arguments)
    chosen = {}
    for number in range(count):
        family, settings = drawn(np.random.default_rng([seed, number]))
        chosen[f"{number:04d}-{family.lower()}"] = (family, settings)
    return chosen


def model_of(name: str, family: str, settings: dict[str, Any]) -> Any:
    """In fp32, with norms and biases that are not the ones and zeros that transformers begins with."""
    model = (model_with_images(name, SIZES) if name in WITH_IMAGES else text_model_of(family, settings)).eval().float()
    with torch.no_grad():
        for key, buffer in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                buffer.add_(torch.randn_like(buffer) * 0.2)
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def text_model_of(family: str, settings: dict[str, Any]) -> Any:
    sizes = GPT2 if family == "GPT2" else SIZES
    config_type = f"{family}Text" if family in ("Gemma3", "Llama4") else family
    config = getattr(transformers, f"{config_type}Config")(**(sizes | settings))
    head = "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    # As formulas: kernels of attention leave out what Gemma 2 caps, and those of experts ask for even sizes.
    config._attn_implementation = config._experts_implementation = "eager"
    return getattr(transformers, head)(config)


def main() -> None:
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    tokens = np.random.default_rng(7).integers(1, 100, 37).tolist()
    (folder / "tokens.json").write_text(json.dumps(tokens))
    for name, (family, settings) in models(sys.argv[2:]).items():
        model = model_of(name, family, settings)
        if (quantised := name.removeprefix("llama-")) in FORMATS:
            with torch.no_grad():
                quantise(model, quantised, folder / name)
        else:
            model.save_pretrained(folder / name)
        if sys.argv[2:3] == ["--llama-cpp"]:
            convert(folder / name, Path(sys.argv[3]))
        if name in ADAPTERS:
            model = peft.get_peft_model(model, peft.LoraConfig(init_lora_weights=False, **ADAPTERS[name])).eval()
            model.save_pretrained(folder / name / "adapter")
        model = language_model(name, model)
        with torch.no_grad():
            rounded = model(torch.tensor([tokens])).logits[0].numpy()
            logits = model.double()(torch.tensor([tokens])).logits[0].numpy()
        np.save(folder / name / "logits.npy", logits)
        error = float(np.abs(rounded - logits).max() / np.abs(logits).max())
        (folder / name / "rounding.json").write_text(json.dumps(error))


if __name__ == "__main__":
    main()
