"""Translation: a small encoder-decoder transformer learns German from the messages of GTK.

    python examples/translate_torch.py                    # on the simulated core, then on this CPU: the same text
    python examples/translate_torch.py --steps 20 --test 16    # a minute, and no useful model
    python examples/translate_torch.py --language fr
    python examples/translate_torch.py --picture translate.png

Real parallel text: the catalogues of messages (gettext's .mo files) of the Debian packages libgtk-3-common and
libgtk2.0-common, English beside the translators' German. Images of containers often leave them out of packages that are
installed; unpack these in a folder, and name it by --folder:
apt-get download libgtk-3-common libgtk2.0-common && for f in *.deb; do dpkg-deb -x $f messages; done
python examples/translate_torch.py --folder messages/usr/share/locale

Messages of one line that the vocabulary (byte pairs, learned from the training messages) cuts into at most 12 pieces
are used; one of ten, chosen by a hash of its letters, is kept for the test, so that no message is on both sides. Prints
the loss, the share of pieces that are foretold, and chrF (Popovic, 2015: shared runs of one to six letters, 0 to 100)
of greedy translations; device time of a step with its launches, and price. The CPU runs the same program: what
torch.compile makes of it, with the backend aot_eager. Ends with an error where the losses of the first steps, or what
device and CPU compute from the same trained weights, are further apart than rounding.
"""

from __future__ import annotations

import argparse
import gettext
import math
import re
import struct
import time
import zlib
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

import opentrn
import opentrn.torch  # noqa: F401  (the backend)

FOLDER = Path("/usr/share/locale")
CATALOGUES = {  # the file of messages, and the package that has it
    "gtk30": "libgtk-3-common", "gtk30-properties": "libgtk-3-common",
    "gtk20": "libgtk2.0-common", "gtk20-properties": "libgtk2.0-common",
}  # fmt: skip
PAD, BEGIN, END = 0, 1, 2
LENGTH = 12  # pieces of a message; a translation may have as many, and its end
STEPS, LIMIT = 20, 1e-4  # that are compared, and of their losses: training makes every difference grow
SAME_LIMIT = 1e-4  # of the test loss of the same weights: sums in another order
LOSS_LIMIT = 0.05  # of the test loss of what the CPU trained, and:
CHRF_LIMIT = 3.0  # what all the steps make of rounding


def catalogue(folder: Path, language: str, name: str) -> dict[str, str]:
    file = folder / language / "LC_MESSAGES" / f"{name}.mo"
    if not file.exists():
        packages = " ".join(dict.fromkeys(CATALOGUES.values()))
        raise SystemExit(
            f"{file} is not there. In an empty folder: apt-get download {packages} && for f in *.deb; do"
            " dpkg-deb -x $f messages; done, and then --folder messages/usr/share/locale"
        )
    try:
        with file.open("rb") as opened:
            found = gettext.GNUTranslations(opened)._catalog
    except (OSError, ValueError, struct.error) as error:
        raise SystemExit(f"{file} is not a catalogue of messages: {error}") from None
    return {key[0] if isinstance(key, tuple) else key: value for key, value in found.items()}


def message(text: str) -> str:
    """Without the context before it, the key that a menu underlines, and blanks around it."""
    text = re.sub(r"_(?=\w)", "", text.split("\x04")[-1], count=1) if " " in text or text[:1] == "_" else text
    return " ".join(text.split()) if "\n" not in text.strip() else ""


def pairs_of(folder: Path, language: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """English and its translation: to learn from, and for the test. Messages that differ in case alone count as one."""
    found: dict[str, tuple[str, str]] = {}
    for name in CATALOGUES:
        for english, other in catalogue(folder, language, name).items():
            pair = message(english), message(other)
            letters = "".join(re.findall(r"[a-z]+", pair[0].lower()))
            if len(letters) > 2 and all(pair) and pair[0] != pair[1]:
                found.setdefault(letters, pair)
    chosen: tuple[list, list] = [], []
    for letters in sorted(found):
        chosen[zlib.crc32(letters.encode()) % 10 == 0].append(found[letters])
    return chosen


def vocabulary(pairs: list[tuple[str, str]], size: int) -> Tokenizer:
    """Byte pairs of both languages together, of the training messages."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<pad>", "<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator((text for pair in pairs for text in pair), trainer)
    return tokenizer


def numbers(pairs: list[tuple[str, str]], tokenizer: Tokenizer) -> tuple[torch.Tensor, torch.Tensor, list]:
    """Pieces (n, 12) of the messages, (n, 14) of the translations with begin and end, and the pairs that fit."""
    kept, sources, targets = [], [], []
    for pair in pairs:
        source, target = (tokenizer.encode(text).ids for text in pair)
        if max(len(source), len(target)) <= LENGTH:
            kept.append(pair)
            sources.append(source + [PAD] * (LENGTH - len(source)))
            targets.append([BEGIN, *target, END] + [PAD] * (LENGTH - len(target)))
    return torch.tensor(sources), torch.tensor(targets), kept


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, seen: torch.Tensor, barred: torch.Tensor) -> torch.Tensor:
        """Of x (batch, n, width) to `seen` (batch, m, width), but where `barred`, which broadcasts to (batch, n, m)."""
        query, key, value = (
            each.view(len(x), -1, self.heads, x.shape[2] // self.heads).transpose(1, 2)
            for each in (self.query(x), self.key(seen), self.value(seen))
        )
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
        weights = scores.masked_fill(barred[:, None], -1e9).softmax(-1)
        return self.out((weights @ value).transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    """Attention to oneself, to the message where there is one, and two linear layers; each after a norm."""

    def __init__(self, width: int, heads: int, reads: bool) -> None:
        super().__init__()
        self.own = Attention(width, heads)
        self.other = Attention(width, heads) if reads else None
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if reads else 2))

    def forward(
        self, x: torch.Tensor, barred: torch.Tensor, read: torch.Tensor | None = None, empty: torch.Tensor | None = None
    ) -> torch.Tensor:
        normal = self.norms[0](x)
        x = x + self.own(normal, normal, barred)
        if self.other is not None:
            x = x + self.other(self.norms[1](x), read, empty)
        return x + self.inner(self.norms[-1](x))


class Translator(nn.Module):
    """The transformer of "Attention Is All You Need" (Vaswani and others, 2017), norms first, positions learned."""

    def __init__(self, pieces: int, width: int, layers: int, heads: int = 4) -> None:
        super().__init__()
        self.pieces = nn.Embedding(pieces, width)
        nn.init.normal_(self.pieces.weight, std=width**-0.5)
        self.places = nn.ParameterList(nn.Parameter(torch.randn(n, width) / width) for n in (LENGTH, LENGTH + 1))
        self.encoder = nn.ModuleList(Layer(width, heads, reads=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, heads, reads=True) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def at(self, tokens: torch.Tensor, side: int) -> torch.Tensor:
        return self.pieces(tokens) * math.sqrt(self.pieces.embedding_dim) + self.places[side]

    def encode(self, source: torch.Tensor) -> torch.Tensor:
        x, empty = self.at(source, 0), (source == PAD)[:, None]
        for layer in self.encoder:
            x = layer(x, empty)
        return self.norms[0](x)

    def decode(self, source: torch.Tensor, read: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Logits (batch, n, pieces) of the piece after each of `target` (batch, n)."""
        x, empty = self.at(target, 1), (source == PAD)[:, None]
        later = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()[None]
        for layer in self.decoder:
            x = layer(x, later, read, empty)
        return self.norms[1](x) @ self.pieces.weight.T

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of the losses of a batch's pieces, and how many are foretold."""
        logits = self.decode(source, self.encode(source), target[:, :-1])
        wanted = target[:, 1:]
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
        there = wanted != PAD
        right = (logits.argmax(-1) == wanted) & there
        return (losses * there.flatten()).sum(), right.sum()


def learn(backend: str, data: tuple, o: argparse.Namespace) -> tuple[Translator, list[float]]:
    """The trained model and the loss of every step; weights and batches are the same for every backend."""
    source, target = data
    torch.manual_seed(o.seed)
    model = Translator(o.pieces, o.width, o.layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=o.rate, betas=(0.9, 0.98))

    def loss_of(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return model(source, target)[0] / (target[:, 1:] != PAD).sum()

    loss, step = (torch.compile(each, backend=backend) for each in (loss_of, optimizer.step))
    losses, order, began = [], torch.empty(0, dtype=torch.long), time.process_time()
    for _ in range(o.steps):
        if len(order) < o.batch:
            order = torch.randperm(len(source))
        part, order = order[: o.batch], order[o.batch :]
        value = loss(source[part], target[part])
        optimizer.zero_grad()
        value.backward()
        step()
        losses.append(value.item())
        if len(losses) % 50 == 0 or len(losses) == o.steps:
            spent = time.process_time() - began
            print(f"  step {len(losses)}: loss {losses[-1]:.4f}, {spent:.0f} s of processor time", flush=True)
    return model, losses


def batches(source: torch.Tensor, target: torch.Tensor, batch: int) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """All of one size, the last filled up with empty messages; and how many are real."""
    missing = -len(source) % batch
    filled = (torch.cat([each, each[:1].expand(missing, -1) * 0]) for each in (source, target))
    real = [min(batch, len(source) - start) for start in range(0, len(source), batch)]
    return list(zip(*(each.split(batch) for each in filled), real, strict=True))


@torch.no_grad()
def examine(backend: str, model: Translator, data: tuple, o: argparse.Namespace) -> tuple[float, float]:
    """The mean loss of a piece of the test's translations, and the share of them that are foretold."""
    compiled = torch.compile(model, backend=backend)
    count = int((data[1][:, 1:] != PAD).sum())
    sums = [compiled(source, target) for source, target, _ in batches(*data, o.batch)]
    return sum(float(loss) for loss, _ in sums) / count, sum(int(right) for _, right in sums) / count


@torch.no_grad()
def translate(backend: str, model: Translator, source: torch.Tensor, tokenizer: Tokenizer, batch: int) -> list[str]:
    """The likeliest piece after the likeliest piece, until all messages of a batch have ended."""
    encode, decode = (torch.compile(each, backend=backend) for each in (model.encode, model.decode))
    texts = []
    for messages, _, real in batches(source, source, batch):
        read, target = encode(messages), torch.full((batch, LENGTH + 1), PAD)
        target[:, 0] = BEGIN
        ended = torch.arange(batch) >= real
        for place in range(LENGTH):
            found = decode(messages, read, target)[:, place].argmax(-1)
            ended |= found == END
            target[:, place + 1] = torch.where(ended, PAD, found)
            if ended.all():
                break
        texts += [tokenizer.decode([each for each in row if each > END]).strip() for row in target[:real].tolist()]
    return texts


def chrf(found: list[str], wanted: list[str]) -> float:
    """chrF2 of all texts: F (recall counts twice) of shared runs of letters, the mean over lengths 1 to 6, x 100."""
    shares = []
    for length in range(1, 7):
        shared = ours = theirs = 0
        for pair in zip(found, wanted, strict=True):
            runs = [
                Counter(text[i : i + length] for i in range(len(text) - length + 1))
                for text in ("".join(each.split()) for each in pair)
            ]
            shared += (runs[0] & runs[1]).total()
            ours, theirs = ours + runs[0].total(), theirs + runs[1].total()
        if ours and theirs:  # a length that one side has not is left out
            shares.append((shared / ours, shared / theirs))
    precision, recall = (sum(each) / len(shares) for each in zip(*shares, strict=True)) if shares else (0.0, 0.0)
    return 500 * precision * recall / (4 * precision + recall) if precision else 0.0


def draw(file: Path, losses: dict[str, list[float]], shown: list[tuple[str, str, str]]) -> None:
    """The losses of both, and messages with the device's translation and the translator's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(9.4, 3.2), layout="constrained", width_ratios=(1, 1.5)
    )
    for (name, values), style in zip(losses.items(), ("-", "--")):
        left.plot(range(1, len(values) + 1), values, style, label=name, linewidth=1)
    left.set_xlabel("step")
    left.set_ylabel("loss")
    left.legend()
    right.axis("off")
    for row, (english, found, wanted) in enumerate(shown):
        top = 1 - row / len(shown)
        for line, (text, color) in enumerate(
            ((english, "gray"), (found, "black" if found == wanted else "tab:red"), (wanted, "tab:green"))
        ):
            right.text(0, top - line / len(shown) / 3.4, text.replace("$", r"\$"), color=color, fontsize=8, va="top")
    right.set_title("message; the device's translation; the translator's", fontsize=8, loc="left")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of catalogues (default: %(default)s)")
    parser.add_argument("--language", default="de", help="as the folders are named (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32, help="messages of a step (default %(default)s)")
    parser.add_argument("--test", type=int, default=256, help="messages to test (default %(default)s)")
    parser.add_argument("--pieces", type=int, default=2000, help="of the vocabulary (default %(default)s)")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2, help="of encoder and decoder each")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw losses and translations (needs matplotlib)")
    o = parser.parse_args()
    train, test = pairs_of(o.folder, o.language)
    tokenizer = vocabulary(train, o.pieces)
    *data, _ = numbers(train, tokenizer)
    *kept, pairs = numbers(test, tokenizer)
    *kept, pairs = (each[:: max(1, len(pairs) // o.test)][: o.test] for each in (*kept, pairs))
    print(f"{len(data[0])} messages to learn from, {len(pairs)} to test; on the device", flush=True)
    with opentrn.profile_program() as profile:
        model, device_losses = learn("neuron", data, o)
    found = {}
    for name, backend in (("device", "neuron"), ("same weights, CPU", "aot_eager")):
        texts = translate(backend, model, kept[0], tokenizer, o.batch)
        found[name] = (*examine(backend, model, kept, o), texts)
    print("on this CPU", flush=True)
    other, cpu_losses = learn("aot_eager", data, o)
    texts = translate("aot_eager", other, kept[0], tokenizer, o.batch)
    found["CPU"] = (*examine("aot_eager", other, kept, o), texts)
    print(profile)
    wanted = [german for _, german in pairs]
    scores = {name: chrf(texts, wanted) for name, (_, _, texts) in found.items()}
    for name, (loss, share, texts) in found.items():
        right = sum(a == b for a, b in zip(texts, wanted, strict=True))
        print(f"{name:>17}: test loss {loss:.5f}, {share:.1%} of pieces, chrF {scores[name]:.1f}, {right} alike")
    print(f"   English itself: chrF {chrf([english for english, _ in pairs], wanted):.1f}")
    early = max(abs(a - b) / b for a, b in zip(device_losses[:STEPS], cpu_losses[:STEPS], strict=True))
    device, same, cpu = found.values()
    apart, trained = abs(device[0] - same[0]) / same[0], abs(device[0] - cpu[0])
    unequal = sum(a != b for a, b in zip(device[2], same[2], strict=True))
    print(
        f"losses of the first {STEPS} steps {early:.1e} apart; of the same weights: test loss {apart:.1e},"
        f" {unequal} of {len(pairs)} translations differ"
    )
    shown = list(zip((english for english, _ in pairs), device[2], wanted, strict=True))
    for english, german, translator in shown[: 8 * (len(shown) // 8) : max(1, len(shown) // 8)]:
        print(f"    {english}  ->  {german}  ({translator})")
    if o.picture:
        short = [each for each in shown if max(map(len, each)) < 60]
        draw(o.picture, {"device": device_losses, "CPU": cpu_losses}, short[:: max(1, len(short) // 7)][:7])
    if early > LIMIT or apart > SAME_LIMIT or trained > LOSS_LIMIT or unequal > len(pairs) // 50 or (
        abs(scores["device"] - scores["CPU"]) > CHRF_LIMIT
    ):
        raise SystemExit(
            f"further from the CPU than rounding explains: losses {early:.1e}, limit {LIMIT:.0e}; test loss of the same"
            f" weights {apart:.1e}, limit {SAME_LIMIT:.0e}; {unequal} translations; test loss of the two trainings"
            f" {trained:.3f}, limit {LOSS_LIMIT}; chrF {scores['device']:.1f} and {scores['CPU']:.1f}"
        )


if __name__ == "__main__":
    main()
