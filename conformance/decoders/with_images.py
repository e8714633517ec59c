"""Small random models that read images, too, of which OpenTrn reads the language model."""

from __future__ import annotations

from typing import Any

import transformers

TOWER: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
    "patch_size": 14,
}  # fmt: skip
QWEN_TOWER: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "depth": 1, "num_heads": 2, "patch_size": 14, "out_hidden_size": 64,
}  # fmt: skip
# The class, the type of its language model, settings of that, the tower of images, and settings of the whole.
MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "images-gemma3": ("Gemma3", "gemma3_text", {"sliding_window": 12, "num_hidden_layers": 7, "head_dim": 16}, TOWER,
                      {"mm_tokens_per_image": 4}),
    "images-llama4": ("Llama4", "llama4_text",
                      {"num_local_experts": 4, "intermediate_size_mlp": 112, "interleave_moe_layer_step": 2},
                      TOWER | {"pixel_shuffle_ratio": 1.0, "projector_input_dim": 32, "projector_output_dim": 32,
                               "vision_output_dim": 32}, {}),
    "images-llava": ("Llava", "llama", {}, TOWER | {"model_type": "clip_vision_model", "projection_dim": 32}, {}),
    "images-mistral3": ("Mistral3", "mistral", {"sliding_window": None},
                        TOWER | {"model_type": "pixtral", "head_dim": 16}, {}),
    "images-qwen2.5": ("Qwen2_5_VL", "qwen2_5_vl_text",
                       {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                            "mrope_section": [2, 3, 3]}}, QWEN_TOWER, {}),
    "images-qwen3": ("Qwen3VL", "qwen3_vl_text",
                     {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}},
                     QWEN_TOWER | {"deepstack_visual_indexes": [0]}, {}),
}  # fmt: skip


def model_with_images(name: str, sizes: dict[str, Any]) -> Any:
    """The model of that name; `sizes`: of its language model."""
    family, kind, settings, tower, whole = MODELS[name]
    config = getattr(transformers, f"{family}Config")(
        text_config={"model_type": kind} | sizes | settings, vision_config=tower, **whole
    )
    config._attn_implementation = config._experts_implementation = "eager"
    config.text_config._attn_implementation = config.text_config._experts_implementation = "eager"
    return getattr(transformers, f"{family}ForConditionalGeneration")(config)


def language_model(name: str, model: Any) -> Any:
    """What gives logits of text: transformers 5.24's Llama 4 does not without an image."""
    return model.language_model if name == "images-llama4" else model
