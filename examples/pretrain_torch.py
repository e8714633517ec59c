"""Pre-training of a small language model: a GPT from nothing, and how many bits a letter it needs for unseen text.

    python examples/pretrain_torch.py                # on the simulated core, then on this CPU: the same losses
    python examples/pretrain_torch.py --steps 20     # a shorter look
    python examples/pretrain_torch.py --picture pretrain.png

The text is the language reference that comes with Python (pydoc_data), 0.4 MB; every eighth topic is kept for the test.
The model reads letters, 32 at a time. Each comes in with the three before it, through a causal convolution as those of
"Primer" (So and others, 2021), by which a model this small learns much faster.

Prints bits per letter of the test beside those of letter counts, which know one, two or three letters together; what
the model writes; device time of a step with its launches, tokens per second, and price. The CPU runs the same program:
what torch.compile makes of it, with the backend aot_eager. Ends with an error where losses, or what device and CPU
compute with the same weights, differ by more than rounding, or where the model is no better than counts of pairs
(100 steps or more).
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, defaultdict
from pathlib import Path

import torch
from torch import nn

import opentrn
import opentrn.torch  # noqa: F401  (the backend)

LETTERS, NEAR, HEADS = 128, 4, 4
FIRST, LIMIT = 50, 1e-3  # steps whose losses are compared: sums in another order, which training makes grow
LOGITS_LIMIT = 1e-3  # of the same weights
ENOUGH = 100  # steps, after which a model that learns is better than counts of pairs


def topics() -> tuple[torch.Tensor, torch.Tensor]:
    """Letters (n,) to learn from, and of the test; white space is one blank, what is not ASCII a question mark."""
    from pydoc_data.topics import topics

    chosen: tuple[list[str], list[str]] = [], []
    for number, name in enumerate(sorted(topics)):
        chosen[number % 8 == 7].extend(topics[name].split())
    train, test = (" ".join(words).encode("ascii", "replace") for words in chosen)
    return torch.tensor(list(train)), torch.tensor(list(test))


def counted(train: list[int], test: list[int], size: int) -> float:
    """Bits per letter of the test by how often `size` of them come together, mixed with fewer (Witten and Bell)."""
    seen: list[dict[tuple[int, ...], Counter[int]]] = [defaultdict(Counter) for _ in range(size)]
    for before, table in enumerate(seen):
        for at in range(before, len(train)):
            table[tuple(train[at - before : at])][train[at]] += 1
    bits = 0.0
    for at in range(size - 1, len(test)):
        share = 1 / LETTERS
        for before, table in enumerate(seen):
            found = table.get(tuple(test[at - before : at]), Counter())
            if found:
                share = (found[test[at]] + len(found) * share) / (found.total() + len(found))
        bits -= math.log2(share)
    return bits / (len(test) - size + 1)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        split = (batch, tokens, HEADS, width // HEADS)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, width), nn.Embedding(length, width)
        self.near = nn.Linear(NEAR * width, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, LETTERS)
        nn.init.normal_(self.places.weight, std=0.1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, length) to logits (batch, length, 128)."""
        x, length = self.letters(tokens), tokens.shape[1]
        before = nn.functional.pad(x, (0, 0, NEAR - 1, 0))
        x = x + self.near(torch.cat([before[:, at : at + length] for at in range(NEAR)], -1))
        return self.head(self.norm(self.blocks(x + self.places.weight[:length])))


def loss_of(model: Gpt, tokens: torch.Tensor) -> torch.Tensor:
    """Of windows (batch, length + 1): the mean over all letters but the first."""
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def learn(backend: str, train: torch.Tensor, o: argparse.Namespace) -> tuple[Gpt, list[float]]:
    """The model and the loss of every step; weights and batches are the same for every backend."""
    torch.manual_seed(o.seed)
    model = Gpt(o.width, o.layers, o.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.rate, weight_decay=0.1)
    loss = torch.compile(lambda tokens: loss_of(model, tokens), backend=backend)
    step = torch.compile(optimizer.step, backend=backend)
    losses, began = [], time.process_time()
    for _ in range(o.steps):
        starts = torch.randint(len(train) - o.length, (o.batch, 1))
        value = loss(train[starts + torch.arange(o.length + 1)])
        optimizer.zero_grad()
        value.backward()
        step()
        losses.append(value.item())
    print(f"  {o.steps} steps, {(time.process_time() - began) / o.steps:.3f} s of processor time each", flush=True)
    return model.eval(), losses


def tested(backend: str, model: Gpt, test: torch.Tensor, o: argparse.Namespace) -> float:
    """Bits per letter over the whole windows of the test (what does not fill a batch is left out)."""
    windows = test[: len(test) // (o.length + 1) * (o.length + 1)].view(-1, o.length + 1)
    parts = windows[: len(windows) // o.batch * o.batch].split(o.batch)
    loss = torch.compile(lambda tokens: loss_of(model, tokens), backend=backend)
    with torch.no_grad():
        return sum(loss(part).item() for part in parts) / len(parts) / math.log(2)


def write(backend: str, model: Gpt, begin: str, o: argparse.Namespace) -> tuple[str, torch.Tensor]:
    """What follows, drawn with random numbers that are the same every time, and the logits of each letter."""
    logits = torch.compile(model, backend=backend)
    generator = torch.Generator().manual_seed(1)
    tokens, found = list(begin.encode()), []
    with torch.no_grad():
        for _ in range(o.letters):
            window = tokens[-o.length :]
            filled = torch.tensor([window + [0] * (o.length - len(window))])
            found.append(logits(filled)[0, len(window) - 1])
            race = torch.empty(LETTERS).exponential_(generator=generator)  # its first letter is a draw
            tokens.append(int((found[-1] / 0.7 - race.log()).argmax()))
    return bytes(tokens).decode(), torch.stack(found)


def draw(file: Path, losses: dict[str, list[float]], counts: dict[str, float]) -> None:
    """Losses of each step in bits, and the counts' bits as lines across."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.4, 2.8), layout="constrained")
    for (name, values), style in zip(losses.items(), ("-", "--")):
        axes.plot(range(1, len(values) + 1), [value / math.log(2) for value in values], style, label=name)
    for name, bits in counts.items():
        axes.axhline(bits, color="gray", linewidth=0.8)
        axes.text(len(values), bits, f"counts of {name} (test)", ha="right", va="bottom", fontsize=8, color="dimgray")
    axes.set_xlabel("step")
    axes.set_ylabel("bits per letter")
    axes.legend(loc="upper center")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=32, help="letters that the model sees (default %(default)s)")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--letters", type=int, default=60, help="to write (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw the losses (needs matplotlib)")
    o = parser.parse_args()
    train, test = topics()
    counts = {
        name: counted(train.tolist(), test.tolist(), size)
        for size, name in enumerate(("single letters", "pairs", "triples"), 1)
    }
    print("on the device", flush=True)
    with opentrn.profile_program() as profile:
        model, device_losses = learn("neuron", train, o)
    bits = {"device": tested("neuron", model, test, o)}
    print("on this CPU", flush=True)
    cpu_model, cpu_losses = learn("aot_eager", train, o)
    bits["CPU"] = tested("aot_eager", cpu_model, test, o)
    begin = "The with statement "
    (written, logits), (same, others) = (write(each, model, begin, o) for each in ("neuron", "aot_eager"))
    print(profile)
    step_us = profile.device_us / o.steps
    weights = sum(each.numel() for each in model.parameters())
    print(f"{weights:,} weights; {step_us:.0f} us a step of {o.batch} x {o.length} letters:"
          f" {o.batch * o.length / step_us * 1e6:,.0f} letters per second")  # fmt: skip
    for name, each in bits.items():
        print(f"{name:>6}: {each:.4f} bits per letter of the test, perplexity {2**each:.3f}")
    print("counts: " + ", ".join(f"{each:.4f} of {name}" for name, each in counts.items()))
    print(f"it writes: {written!r}")
    early = max(abs(a - b) / b for a, b in zip(device_losses[:FIRST], cpu_losses[:FIRST], strict=True))
    apart = (logits - others).abs().max().item()
    print(f"losses of the first {min(FIRST, o.steps)} steps {early:.1e} apart; logits of the same weights {apart:.1e};"
          f" the same text: {'yes' if written == same else 'no'}")  # fmt: skip
    if o.picture:
        draw(o.picture, {"device": device_losses, "CPU": cpu_losses}, counts)
    if early > LIMIT or apart > LOGITS_LIMIT or written != same:
        raise SystemExit(
            f"further from the CPU than rounding explains: losses {early:.1e}, limit {LIMIT:.0e}; logits {apart:.1e},"
            f" limit {LOGITS_LIMIT:.0e}"
        )
    if o.steps >= ENOUGH and max(bits.values()) >= counts["pairs"]:
        raise SystemExit(f"no better than counts of pairs, {counts['pairs']:.4f} bits per letter: {bits}")


if __name__ == "__main__":
    main()
