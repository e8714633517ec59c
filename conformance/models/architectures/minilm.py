"""MiniLM-L6 (a BERT encoder of 6 layers, 384 wide), seeded weights; ./dev demo runs the real ones."""

from __future__ import annotations

from conformance.models.architectures.bert_large import SMALL, build

__all__ = ["FULL", "SMALL", "build"]

FULL = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "length": 128,
}
