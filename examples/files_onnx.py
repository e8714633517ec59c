"""Dynamic shapes: what kind of file is each of a folder's, with as many files at a time as there are.

    python examples/files_onnx.py                    # this repository's files; beside ONNX Runtime
    python examples/files_onnx.py FOLDER --target trn1
    python examples/files_onnx.py --picture files.png

The model, which Google trained for magika (Apache licence), lies in the package magika, of which nothing else is used:
pip install --no-deps magika==1.0.3. The package onnxruntime gives the values to compare with.

The ONNX file leaves the number of files open. It is compiled for 1, 4 and 16: files come folder by folder, each folder
in batches of at most 16, and the smallest program that takes a batch runs. That what fills it up changes no other
result is proved on the graph (opentrn.model.buckets). Prints how often each program ran, how much of the rows was
filling, and what a program for 16 alone would have taken. Ends with an error where a probability of the device is
further from ONNX Runtime's than rounding, or a kind differs.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from application import of_package, onnx_session, price, priced

import opentrn

ROOT = Path(__file__).resolve().parents[1]
BUCKETS = (1, 4, 16)
ENDS, BLOCK, PAD = 1024, 4096, 256  # bytes of either end that the model sees, of those that are read; what is no byte
LIMIT = 5e-3  # of a probability: where ONNX Runtime is 1.3e-3 away, the device is 8e-5 from float64 (opentrn diff)
# Kinds by suffix, as far as they are beyond doubt: for the figure of how many are right.
BY_SUFFIX = {".py": "python", ".cc": "cpp", ".md": "markdown", ".toml": "toml", ".png": "png", ".json": "json",
             ".yml": "yaml", ".yaml": "yaml", ".jpg": "jpeg", ".sh": "shell", ".svg": "svg"}  # fmt: skip


def packaged(name: str) -> Path:
    """A file of the model's folder in the package."""
    return of_package("magika", "models", "standard_v3_3", name, pip="magika==1.0.3")


def features(path: Path) -> np.ndarray:
    """(2048,): the first and the last bytes without white space at their outer ends, filled up."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        begin = file.read(BLOCK).lstrip()[:ENDS]
        file.seek(max(0, size - BLOCK))
        end = file.read(BLOCK).rstrip()[-ENDS:]
    filled = [*begin, *[PAD] * (ENDS - len(begin)), *[PAD] * (ENDS - len(end)), *end]
    return np.array(filled, np.int32)


def batches(folder: Path, most: int) -> list[list[Path]]:
    """Files of at least 8 bytes, folder by folder; hidden ones and what is built or installed are left out."""
    found = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if n[0] not in "._" and n not in ("build", "node_modules"))
        paths = [Path(here, name) for name in sorted(names) if not name.startswith(".")]
        chosen = [path for path in paths if path.is_file() and path.stat().st_size >= 8]
        found += [chosen[first : first + BUCKETS[-1]] for first in range(0, len(chosen), BUCKETS[-1])]
    return found[:: max(1, -(-len(found) // most))]


def reference(path: Path) -> Any:
    """The model in ONNX Runtime."""
    session = onnx_session(path)
    return lambda given: session.run(None, {"bytes": given})[0]



def draw(file: Path, runs: dict[int, int], times_us: dict[int, float], kinds: collections.Counter[str]) -> None:
    """Time of each program and how often it ran, and the kinds that were found."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3), layout="constrained")
    bars = left.bar([str(size) for size in BUCKETS], [times_us[size] for size in BUCKETS])
    left.bar_label(bars, [f"{runs[size]} runs" for size in BUCKETS])
    left.set_xlabel("files that the program takes")
    left.set_ylabel("predicted time, us")
    left.margins(y=0.15)
    right.barh([name for name, _ in kinds.most_common(10)][::-1], [n for _, n in kinds.most_common(10)][::-1])
    right.set_xlabel("files")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT, help="default: this repository")
    parser.add_argument("--batches", type=int, default=60, help="at most, evenly chosen (default %(default)s)")
    parser.add_argument("--target", help="default: of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")
    parser.add_argument("--picture", type=Path, help="draw times and kinds (needs matplotlib)")
    o = parser.parse_args()
    labels = json.loads(packaged("config.min.json").read_text())["target_labels_space"]
    chosen = batches(o.folder, o.batches)
    if not chosen:
        raise SystemExit(f"{o.folder} has no files of at least 8 bytes")
    path = packaged("model.onnx")
    model = opentrn.compile(path, target=o.target, dimensions={"unk__214": BUCKETS})
    cpu = reference(path)
    runs, kinds = collections.Counter[int](), collections.Counter[str]()
    worst, different, judged, right = 0.0, 0, 0, 0
    for paths in chosen:
        given = np.stack([features(each) for each in paths])
        runs[model.pick({"unk__214": len(paths)})[0]["unk__214"]] += 1
        found, wanted = model(given)[0], cpu(given)
        worst = max(worst, float(np.abs(found - wanted).max()))
        different += int((found.argmax(1) != wanted.argmax(1)).sum())
        for each, number in zip(paths, found.argmax(1)):
            kinds[labels[number]] += 1
            if each.suffix in BY_SUFFIX:
                judged += 1
                right += labels[number] == BY_SUFFIX[each.suffix]
    count = kinds.total()
    times_us, usd = {}, 0.0
    for size in BUCKETS:
        timing = model.time(sizes={"unk__214": size})
        times_us[size] = timing.time_us + timing.launch_ns / 1e3
        cost, rented = price(timing, o.target)
        usd += cost * runs[size]
    took = sum(times_us[size] * runs[size] for size in BUCKETS)
    rows = sum(size * runs[size] for size in BUCKETS)
    print(f"{count} files: {', '.join(f'{name} {number}' for name, number in kinds.most_common(8))}")
    print(f"{right} of {judged} as their suffix says; {different} of another kind by ONNX Runtime; probabilities"
          f" at most {worst:.1e} apart")  # fmt: skip
    programs = ", ".join(f"{size}: {runs[size]} runs of {times_us[size]:.0f} us" for size in BUCKETS)
    print(f"programs for {programs}; {1 - count / rows:.0%} of the rows were filling")
    alone_us = times_us[BUCKETS[-1]] * runs.total()
    print(f"{took / count:.0f} us a file, predicted, launches included; {alone_us / count:.0f} by the program for"
          f" {BUCKETS[-1]} alone")  # fmt: skip
    print(priced(usd / count * 1e6, "a million files", rented))
    if o.picture:
        draw(o.picture, runs, times_us, kinds)
    if worst > LIMIT or different:
        raise SystemExit(f"further from ONNX Runtime than rounding explains: {worst:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
