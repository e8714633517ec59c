"""Which architectures there are, by name, in the order of their cost, and how each is made."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """module: of architectures/; build: its function that makes the case; form: torch or jax."""

    name: str
    module: str
    build: str = "build"
    form: str = "torch"

    def make(self, size: str) -> Any:
        """The TorchCase or JaxCase at size "small" or "full"."""
        module = importlib.import_module(f"conformance.models.architectures.{self.module}")
        return getattr(module, self.build)(getattr(module, size.upper()))


ENTRIES = (
    Entry("fraud", "fraud"),
    Entry("dlrm", "dlrm"),
    Entry("moe", "moe"),
    Entry("unet", "unet"),
    Entry("gpt2-decode", "gpt2", "build_decode"),
    Entry("gpt2-prefill", "gpt2", "build_prefill"),
    Entry("vit-b", "vit_b"),
    Entry("minilm", "minilm"),
    Entry("resnet50", "resnet50"),
    Entry("llama", "llama"),
    Entry("whisper", "whisper"),
    Entry("bert-large", "bert_large"),
    Entry("jax-moe", "jax_moe", form="jax"),
    Entry("jax-decode", "jax_decode", form="jax"),
    Entry("jax-resnet50", "jax_resnet50", form="jax"),
    Entry("jax-llama", "jax_llama", form="jax"),
    Entry("jax-bert-large", "jax_bert", form="jax"),
)
