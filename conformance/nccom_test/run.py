#!/usr/bin/env python3
"""AWS's guide to nccom-test: its tables, printed again by OpenTrn's printer from the times in them.

    ./dev conformance nccom-test CHECKOUT [--json]

CHECKOUT is one of aws-neuron/aws-neuron-sdk. Each sample is taken apart into its rows; times stand rounded in it, so
the average bandwidth under it narrows them down further, and where no times within the rounding give the printed
characters the sample fails. Samples of the older format, which had no `time:avg`, are counted as such.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

from opentrn import _core  # noqa: E402

GUIDE = "tools/neuron-sys-tools/nccom-test.rst"
OPERATIONS = {
    "allr": "all_reduce", "allg": "all_gather", "allgv": "all_gatherv", "redsct": "reduce_scatter",
    "permute": "permute", "alltoall": "alltoall", "alltoallv": "alltoallv", "sendrecv": "sendrecv",
}  # fmt: skip
HALF_UNIT_US = 0.005  # of an average
GRID = 200  # times tried within the rounding of a row
ROUNDS = 60  # of halving the interval
# The guide's sample of --streams-json: what its files say of each stream, in the order of the blocks.
STREAMS = [("all_reduce", 16), ("all_gather", 64)]


@dataclass(frozen=True)
class Sample:
    """A table of the guide. `lines`: header, rows and the average, as printed."""

    line: int
    operation: str
    ranks: int
    lines: list[str]

    @property
    def header(self) -> list[str]:
        return self.lines[0].split()

    def rows(self) -> list[dict[str, str]]:
        return [dict(zip(self.header, text.split(), strict=True)) for text in self.lines[1:-1]]


def samples_of(text: str) -> list[Sample]:
    """Every table that ends with an average, with the command before it."""
    found: list[Sample] = []
    lines = text.splitlines()
    words: list[str] = []
    streams = list(STREAMS)
    for number, line in enumerate(lines):
        if "nccom-test" in line and set(OPERATIONS) | set(OPERATIONS.values()) & set(line.split()):
            words = line.split()
        if not line.strip().startswith("size(B)"):
            continue
        end = next((i for i in range(number, min(number + 40, len(lines))) if "Avg bus" in lines[i]), None)
        if end is None:
            continue
        indent = min(len(x) - len(x.lstrip()) for x in lines[number : end + 1])
        operation = next(
            (
                OPERATIONS.get(word, word)
                for word in words
                if word in OPERATIONS or word in OPERATIONS.values()
            ),
            "",
        )
        ranks = int(words[words.index("-r") + 1]) if "-r" in words else 0
        if "--streams-json" in words:
            operation, ranks = streams.pop(0)
        found.append(Sample(number + 1, operation, ranks, [x[indent:] for x in lines[number : end + 1]]))
    return found


def printed(sample: Sample, shifts: list[float]) -> list[str]:
    """What the printer makes of the sample's rows, each average moved by its shift, in halves of its last digit."""
    stats = [name[len("time:") : -len("(us)")] for name in sample.header if name.startswith("time:")]
    rows = []
    for row, shift in zip(sample.rows(), shifts, strict=True):
        average = float(row["time:avg(us)"]) + shift * HALF_UNIT_US
        times = [average if stat == "avg" else float(row[f"time:{stat}(us)"]) for stat in stats]
        rows.append((
            int(row["size(B)"]), int(row["count(elems)"]), row["type"], times, average, row.get("algorithm", ""),
            int(row.get("total_input_size(B)", 0)), int(row.get("total_output_size(B)", 0)),
        ))  # fmt: skip
    sizes = "total_input_size(B)" in sample.header
    text = _core.nccom_table(sample.operation, sample.ranks, stats, "algorithm" in sample.header, sizes, rows)
    return text.splitlines()


def average_of(line: str) -> float:
    return float(line.split(":")[1].strip().removesuffix("GB/s"))


def with_tab(lines: list[str]) -> list[str]:
    """Some samples stand in the guide with the tab before the average written as blanks."""
    head, _, figure = lines[-1].partition(":")
    return [*lines[:-1], f"{head}:\t{figure.strip()}"]


def check(sample: Sample) -> str:
    """ "" when the printer gives the sample's characters for times that round to the printed ones."""
    wanted = with_tab(sample.lines)
    count = len(wanted) - 2
    # The times of each row that give its characters: the longest and the shortest.
    tried = [(step / GRID * 2 - 1) * 0.999 for step in range(GRID + 1)]
    fitting: list[list[float]] = [[] for _ in range(count)]
    for shift in tried:
        lines = printed(sample, [shift] * count)
        for i in range(count):
            if lines[i + 1] == wanted[i + 1]:
                fitting[i].append(shift)
    for i, shifts in enumerate(fitting):
        if not shifts:
            return f"    {wanted[i + 1]!r}\n    {printed(sample, [0.0] * count)[i + 1]!r}"
    low, high = 0.0, 1.0
    for _ in range(ROUNDS):
        part = (low + high) / 2
        lines = printed(sample, [min(s) + part * (max(s) - min(s)) for s in fitting])
        if lines == wanted:
            return ""
        if average_of(lines[-1]) > average_of(wanted[-1]):  # too much bandwidth: the times are longer
            low = part
        else:
            high = part
    differing = [f"    {a!r}\n    {b!r}" for a, b in zip(wanted, lines, strict=False) if a != b]
    return "\n".join(differing[:3])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts = {"printed as documented": 0, "otherwise": 0, "older format": 0}
    for sample in samples_of((options.checkout / GUIDE).read_text()):
        if "time:avg(us)" not in sample.header:
            counts["older format"] += 1
            continue
        difference = check(sample)
        counts["otherwise" if difference else "printed as documented"] += 1
        if difference:
            print(f"{GUIDE}:{sample.line}: {sample.operation} of {sample.ranks} ranks\n{difference}")
    print(json.dumps(counts) if options.json else "\n".join(f"{n:4} {what}" for what, n in counts.items()))
    return 1 if counts["otherwise"] else 0


if __name__ == "__main__":
    sys.exit(main())
