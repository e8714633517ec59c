"""ViT-B/16 (transformers.ViTForImageClassification)."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from conformance.models.case import Tolerance, TorchCase, normal, seeded

FULL = {"num_labels": 1000}
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 10,
}


class Classifier(nn.Module):
    """Pixels in, logits out."""

    def __init__(self, model: ViTForImageClassification) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Any) -> Any:
        return self.model(pixel_values=pixel_values, return_dict=True).logits


def build(sizes: dict[str, int]) -> TorchCase:
    config = ViTConfig(**sizes, attn_implementation="eager")
    return TorchCase(
        module=seeded(lambda: Classifier(ViTForImageClassification(config))),
        inputs={"pixel_values": normal((1, 3, config.image_size, config.image_size))},
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
