"""Models whose keys a GGUF file can state, and llama.cpp's own converter (conversion/ of its checkout) that writes one.

Vocabularies are left out: the models have random weights and a hundred tokens without text.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Names as in reference.MODELS where its settings are taken; others beside them.
LISTED = (
    "llama", "llama-lora", "llama3", "llama-yarn", "llama-biases", "mixtral", "qwen2", "qwen3", "qwen2-moe",
    "qwen3-moe", "glm4-lora", "olmo2", "olmo3", "granite", "gpt-oss", "phi3", "phi3-lora", "stablelm",
    "stablelm-lora", "pythia", "seed-oss", "ernie4.5", "olmoe", "exaone4", "arcee-lora",
    "nemotron", "nemotron-biases", "images-llava", "images-qwen2.5", "images-qwen3",
)  # fmt: skip
TIED = {"tie_word_embeddings": True}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
        "short_factor": [1.0, 1.1, 1.2, 1.5, 1.9, 2.5], "long_factor": [1.0, 1.6, 2.4, 3.9, 6.5, 9.0]}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "glm-gguf": ("Glm", {"rms_norm_eps": 1e-5}),  # what the converter states
    "gemma-gguf": ("Gemma", TIED),
    "gemma2-gguf": ("Gemma2", TIED | {"sliding_window": 12, "query_pre_attn_scalar": 16, "num_hidden_layers": 3}),
    "gemma3-gguf": ("Gemma3", TIED | {"sliding_window": 12, "query_pre_attn_scalar": 16, "num_hidden_layers": 7}),
    "smollm3-gguf": ("SmolLM3", TIED | {"num_hidden_layers": 5}),
    "phi3-short-gguf": ("Phi3", {"rope_parameters": LONG | {"original_max_position_embeddings": 128},
                                 "original_max_position_embeddings": 128}),
    "phi3-long-gguf": ("Phi3", {"rope_parameters": LONG | {"original_max_position_embeddings": 32},
                                "original_max_position_embeddings": 32}),
    "gpt2-gguf": ("GPT2", {"n_inner": 256}),
    "pythia-in-turn-gguf": ("GPTNeoX", {"rotary_pct": 0.5, "use_parallel_residual": False}),
    "starcoder2-gguf": ("Starcoder2", TIED | {"sliding_window": None}),
    "phi-gguf": ("Phi", {"partial_rotary_factor": 0.5, "num_key_value_heads": 4, "intermediate_size": 256}),
    "command-r-gguf": ("Cohere", TIED | {"logit_scale": 0.3}),
    "command-r7b-gguf": ("Cohere2", TIED | {"num_hidden_layers": 5, "sliding_window": 12, "logit_scale": 0.3}),
}  # fmt: skip
# Keys that the converter reads and transformers does not write any more.
KEYS: dict[str, dict[str, Any]] = {
    "GPT2LMHeadModel": {"n_ctx": 128},
    "GPTNeoXForCausalLM": {"rotary_pct": 0.25},
    "Cohere2ForCausalLM": {"rotary_pct": 1.0},
}


def _vocabulary(model: Any) -> None:
    writer, count = model.gguf_writer, model.hparams["vocab_size"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"t{number}" for number in range(count)])
    writer.add_token_types([1] * count)
    writer.add_token_merges([])


def convert(folder: Path, checkout: Path) -> None:
    """Writes folder/model.gguf of the model that transformers saved there, in fp32."""
    for part in (checkout, checkout / "gguf-py"):
        if str(part) not in sys.path:
            sys.path.insert(0, str(part))
    import conversion
    import gguf
    from conversion.base import ModelBase, ModelType, get_model_architecture

    config = ModelBase.load_hparams(folder, False)
    config = KEYS.get(config["architectures"][0], {}) | config
    turned = (config.get("rope_parameters") or {}).get("partial_rotary_factor")
    if "rotary_pct" in config and turned is not None:
        config["rotary_pct"] = turned
    # The vocabulary's size is read off a file of a tokenizer.
    (folder / "tokenizer.json").write_text(
        json.dumps({"model": {"vocab": {f"t{n}": n for n in range(config.get("vocab_size", 0))}}, "added_tokens": []})
    )
    architecture = get_model_architecture(config, ModelType.TEXT)
    found = conversion.get_model_class(architecture)
    without_text = type(found.__name__, (found,), {"set_vocab": _vocabulary, "model_arch": found.model_arch})
    without_text(folder, gguf.LlamaFileType.ALL_F32, folder / "model.gguf", eager=True, hparams=config).write()
