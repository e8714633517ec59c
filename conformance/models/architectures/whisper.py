"""A Whisper encoder (transformers' WhisperEncoder, the sizes of "base"): two convolutions over time, then blocks."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from conformance.models.case import Tolerance, TorchCase, normal, seeded

FULL = {
    "d_model": 512,
    "encoder_layers": 6,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
}
SMALL = {
    "d_model": 64,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "num_mel_bins": 20,
    "max_source_positions": 40,
}


class Encoder(nn.Module):
    """Log-mel spectrogram in, hidden states out."""

    def __init__(self, model: WhisperEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_features: Any) -> Any:
        return self.model(input_features, return_dict=True).last_hidden_state


def build(sizes: dict[str, int]) -> TorchCase:
    config = WhisperConfig(**sizes, attn_implementation="eager")
    return TorchCase(
        module=seeded(lambda: Encoder(WhisperEncoder(config))),
        inputs={"input_features": normal((1, config.num_mel_bins, 2 * config.max_source_positions))},
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
