"""Collectives: nccom-test's times, and the bus bandwidths that follow from them, of machines that the row names.

The size of a row is nccom-test's: of the input of all-reduce and reduce-scatter, of the output of all-gather.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from adapters._common import NotReproducible
from opentrn import _core

CATEGORY = "collective"
TIMES = ("latency avg",)
RATES = ("bus bandwidth",)
UNITS = {**dict.fromkeys(TIMES, "us"), **dict.fromkeys(RATES, "GB/s")}
OPERATIONS = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "alltoall": "alltoall",
    "all-to-all": "alltoall",
}  # fmt: skip
MIB = 1 << 20


@dataclass
class Predicted:
    """What adapters/_common.Predicted says of a kernel, of a collective."""

    microseconds: float
    bus_gb_s: float
    kind: str
    bound_by: str
    name: str

    def value_of(self, row: dict[str, str]) -> float:
        return self.microseconds if row["metric"] in TIMES else self.bus_gb_s

    def roofline_of(self, row: dict[str, str]) -> float | None:
        return None

    def program(self) -> str:
        return f"{self.name} {self.microseconds!r}"

    def launch_of(self, row: dict[str, str]) -> float:
        return 0.0


def family_of(row: dict[str, str]) -> str:
    return CATEGORY


def is_known(row: dict[str, str]) -> bool:
    return UNITS.get(row["metric"]) == row["unit"]


def is_time(row: dict[str, str]) -> bool:
    return row["metric"] in TIMES


def workload_of(row: dict[str, str]) -> dict[str, str]:
    """The key=value pairs of the row, names of machines without their remarks."""
    pairs = (part.split("=", 1) for part in row["workload"].split(";") if "=" in part)
    return {key.strip(): value.strip() for key, value in pairs}


def size_of(text: str, ranks: int) -> int:
    """ "1024 bytes", "67 MB", "8 MB/rank": the last is of each rank's part, in MiB. Raises NotReproducible."""
    match = re.match(r"(\d+)\s*(bytes|MB/rank|MB)$", text)
    if not match:
        raise NotReproducible(f"a size of '{text}'")
    number = int(match[1])
    if match[2] == "MB/rank":
        return number * MIB * ranks
    return number if match[2] == "bytes" else number * 1_000_000


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    """The time and bus bandwidth of the row's collective. Raises NotReproducible where it says too little."""
    work = workload_of(row)
    machine = re.match(r"(?:ml\.)?((?:trn|inf)\w+\.\w+)(?: x(\d+))?", work.get("instance", ""))
    if not machine or "inferred" in work.get("instance", ""):
        raise NotReproducible("no machine is stated")
    if work.get("op") not in OPERATIONS:
        raise NotReproducible(f"'{work.get('op')}' is not predicted from a row")
    nodes = int(machine[2] or work.get("nodes", "1"))
    ranks = re.match(r"\d+", work.get("ranks", work.get("workers", "")))
    if not ranks or "size" not in work:
        raise NotReproducible("no number of ranks or no size is stated")
    count, size = int(ranks[0]), size_of(work["size"], int(ranks[0]))
    answer = json.loads(
        _core.predict_collective(
            OPERATIONS[work["op"]], machine[1], nodes, count, int(work.get("groups", "1")), size
        )
    )
    return Predicted(
        answer["us"], answer["bus_gb_s"], f"collective.{answer['generation']}", answer["busiest"],
        f"{work['op']} of {size} bytes over {count} ranks on {nodes} x {machine[1]}",
    )  # fmt: skip
