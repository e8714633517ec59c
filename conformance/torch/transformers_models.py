"""Hugging Face transformers models, small configurations with random weights, trained a few steps on the device.

    python -m conformance.torch.transformers_models [NAME ...]

Needs the package transformers; nothing is downloaded. Each model runs `--steps` AdamW steps, forward, backward and
optimizer compiled with nothing left to the host, and the same in eager torch: losses and the first step's gradients are
compared. The last line counts models: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_TOKENS = {"vocab_size": 120, "max_position_embeddings": 64}


def _text(name: str, model: str, **settings: Any) -> Callable[[], tuple[Any, dict[str, torch.Tensor]]]:
    def make() -> tuple[Any, dict[str, torch.Tensor]]:
        import transformers

        config = getattr(transformers, f"{name}Config")(**settings)
        for rate in ("hidden_dropout_prob", "attention_probs_dropout_prob", "attn_pdrop", "embd_pdrop", "resid_pdrop",
                     "dropout", "dropout_rate", "attention_dropout", "classifier_dropout"):  # fmt: skip
            if isinstance(getattr(config, rate, None), float):
                setattr(config, rate, 0.0)  # values are compared, and the device's random numbers are its own
        for rate in ("bos_token_id", "eos_token_id", "pad_token_id"):
            if isinstance(getattr(config, rate, None), int):
                setattr(config, rate, 0)
        tokens = torch.randint(1, 120, (2, 24), generator=torch.Generator().manual_seed(1))
        inputs = {"input_ids": tokens, "labels": tokens}
        if model.endswith("SequenceClassification"):
            inputs["labels"] = torch.tensor([0, 1])
            mask = torch.ones(2, 24, dtype=torch.int64)
            mask[1, 17:] = 0
            inputs["attention_mask"] = mask
        return getattr(transformers, model)(config), inputs

    return make


def _vision(name: str, model: str, **settings: Any) -> Callable[[], tuple[Any, dict[str, torch.Tensor]]]:
    def make() -> tuple[Any, dict[str, torch.Tensor]]:
        import transformers

        config = getattr(transformers, f"{name}Config")(num_labels=3, **settings)
        pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
        return getattr(transformers, model)(config), {"pixel_values": pixels, "labels": torch.tensor([0, 2])}

    return make


MODELS: dict[str, Callable[[], tuple[Any, dict[str, torch.Tensor]]]] = {
    "bert": _text("Bert", "BertForMaskedLM", **_SMALL, **_TOKENS),
    "bert-classifier": _text("Bert", "BertForSequenceClassification", **_SMALL, **_TOKENS),
    "distilbert": _text("DistilBert", "DistilBertForMaskedLM", dim=64, n_layers=2, n_heads=4, hidden_dim=128,
                        **_TOKENS),
    "roberta": _text("Roberta", "RobertaForMaskedLM", **_SMALL, **_TOKENS),
    "electra": _text("Electra", "ElectraForMaskedLM", embedding_size=32, **_SMALL, **_TOKENS),
    "albert": _text("Albert", "AlbertForMaskedLM", embedding_size=32, **_SMALL, **_TOKENS),
    "gpt2": _text("GPT2", "GPT2LMHeadModel", n_embd=64, n_layer=2, n_head=4, n_positions=64, vocab_size=120),
    "gpt-neox": _text("GPTNeoX", "GPTNeoXForCausalLM", **_SMALL, **_TOKENS),
    "opt": _text("OPT", "OPTForCausalLM", ffn_dim=128, word_embed_proj_dim=64, **_SMALL, **_TOKENS),
    "bloom": _text("Bloom", "BloomForCausalLM", hidden_size=64, n_layer=2, n_head=4, vocab_size=120),
    "llama": _text("Llama", "LlamaForCausalLM", num_key_value_heads=2, **_SMALL, **_TOKENS),
    "mistral": _text("Mistral", "MistralForCausalLM", num_key_value_heads=2, sliding_window=8, **_SMALL, **_TOKENS),
    "qwen2": _text("Qwen2", "Qwen2ForCausalLM", num_key_value_heads=2, **_SMALL, **_TOKENS),
    "qwen3": _text("Qwen3", "Qwen3ForCausalLM", num_key_value_heads=2, head_dim=16, **_SMALL, **_TOKENS),
    "gemma": _text("Gemma", "GemmaForCausalLM", num_key_value_heads=2, head_dim=16, **_SMALL, **_TOKENS),
    "phi": _text("Phi", "PhiForCausalLM", **_SMALL, **_TOKENS),
    "t5": _text("T5", "T5ForConditionalGeneration", d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                vocab_size=120, decoder_start_token_id=0),
    "vit": _vision("ViT", "ViTForImageClassification", image_size=32, patch_size=8, hidden_dropout_prob=0.0, **_SMALL),
    "resnet": _vision("ResNet", "ResNetForImageClassification", embedding_size=16, hidden_sizes=[16, 32],
                      depths=[1, 1], layer_type="basic"),
    "convnext": _vision("ConvNext", "ConvNextForImageClassification", hidden_sizes=[16, 32, 32, 32],
                        depths=[1, 1, 1, 1], image_size=32),
}  # fmt: skip


Gradients = Mapping[str, torch.Tensor | None]

# A loss is a mean over all tokens, which rounds to 1e-6; AdamW divides by the size of a gradient, so after a step even
# what is only rounding moves its weight by up to the learning rate, 1e-3: the later losses differ by more.
LOSS = 1e-4
# A gradient is a sum over tokens and layers of terms of either sign. What it is off is of its own size where they do
# not cancel, and of the terms' size where they do: a hundred roundings of the largest gradient.
GRADIENT, ROUNDING = 1e-3, 1e-5


def train(
    model: Any, inputs: dict[str, torch.Tensor], steps: int, device: bool
) -> tuple[list[float], list[Any]]:
    """(losses, gradients of the first step); the model is trained in place."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    forward, step = model, optimizer.step
    if device:
        forward = torch.compile(lambda **given: model(**given).loss, backend="neuron")
        step = torch.compile(optimizer.step, backend="neuron")
    losses, gradients = [], []
    for number in range(steps):
        loss = forward(**inputs) if device else forward(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        if number == 0:
            gradients = [p.grad.clone() if p.grad is not None else None for p in model.parameters()]
        step()
        losses.append(float(loss))
    return losses, gradients


def differences(name: str, steps: int) -> list[str]:
    """What is not equal within rounding."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.train()
    other = copy.deepcopy(model)
    torch._dynamo.reset()
    wanted, eager = train(model, inputs, steps, device=False)
    given, device = train(other, inputs, steps, device=True)
    found = []
    if not torch.allclose(torch.tensor(given), torch.tensor(wanted), rtol=LOSS):
        found.append(f"losses {wanted} became {given}")
    named = {key: a for (key, _), a in zip(model.named_parameters(), eager, strict=True)}
    others = {key: b for (key, _), b in zip(other.named_parameters(), device, strict=True)}
    return found + gradient_differences(named, others)


def gradient_differences(eager: Gradients, device: Gradients) -> list[str]:
    """By parameter: gradients of the device that are not eager's within rounding, or that only one side has."""
    found = []
    largest = max((float(g.abs().max()) for g in eager.values() if g is not None and g.numel()), default=0.0)
    for name in {**eager, **device}:
        a, b = eager.get(name), device.get(name)
        if (a is None) != (b is None):
            found.append(f"gradient of {name}: only {'the device' if a is None else 'eager torch'} has one")
        elif (
            a is not None
            and b is not None
            and not torch.allclose(b, a, rtol=GRADIENT, atol=ROUNDING * largest)
        ):
            found.append(
                f"gradient of {name}: off {float((a - b).abs().max()):.3g} of {float(a.abs().max()):.3g}"
            )
    return found


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args(words)
    warnings.simplefilter("ignore")
    os.environ.setdefault("OPENTRN_STRICT", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import opentrn.torch  # noqa: F401

    passed = failed = 0
    for name in options.names or MODELS:
        began = time.perf_counter()
        try:
            found = differences(name, options.steps)
        except Exception as error:  # noqa: BLE001  (a model that raises has failed, whatever it raised)
            found = [f"{type(error).__name__}: {str(error).strip()[:400]}"]
        failed, passed = failed + bool(found), passed + (not found)
        seconds = time.perf_counter() - began
        print(f"{name}: {'; '.join(found[:3]) if found else 'passed'} ({seconds:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
