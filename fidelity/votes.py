"""What a run says about the model: one vote for its time and one for its counters, as calibration or as evidence.

Rows of one run repeat each other (a latency and the utilisation that follows from it), and several publications may
show one program: each program has one vote. A run is calibration when any value of the tables, or a rule of the
compiler model, was read off one of its rows or chosen by it (`calibrated_on`, src/arch/tables); else it is evidence.
"""

from __future__ import annotations

import fnmatch
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from adapters import is_time, is_utilisation

# A launch of more than this share of the published time makes its relative error small whatever the kernel does.
LAUNCH_SHARE_MAX = 0.25
STATUSES = ("predicted", "not shown by a run", "no public kernel", "failed", "timed out")


@dataclass
class Run:
    """One program that was timed, and the rows that publish something of it."""

    family: str
    kind: str
    calibration: list[str]  # keys of the values that were read off it
    predictions: list[Any] = field(default_factory=list)

    @property
    def is_evidence(self) -> bool:
        return not self.calibration

    def times(self) -> list[Any]:
        """Its rows that publish a time; of rows in other words (a utilisation, a rate) only where there is none."""
        times = [p for p in self.predictions if is_time(p.row)]
        return times or [p for p in self.predictions if is_utilisation(p.row)]

    def counters(self) -> list[Any]:
        return [p for p in self.predictions if not is_time(p.row) and not is_utilisation(p.row)]

    def time_error(self) -> float | None:
        """Log of predicted over measured time, the median of the rows; None without a row of a time."""
        errors = [log_error(p.row, p.predicted, p.published) for p in self.times()]
        return statistics.median(errors) if errors else None

    def body_error(self) -> float | None:
        """time_error() of the time less the launch; None where the launch is more than LAUNCH_SHARE_MAX of it."""
        if self.launch_share() >= LAUNCH_SHARE_MAX:
            return None
        errors = [
            log_error(p.row, p.predicted - p.launch, p.published - p.launch)
            for p in self.times()
            if p.published > p.launch
        ]
        return statistics.median(errors) if errors else None

    def launch_share(self) -> float:
        return max((p.launch / p.published for p in self.times() if p.published), default=0.0)

    def baseline_error(self, name: str) -> float | None:
        """time_error() of a baseline: "roofline" or "constant"."""
        values = [(p, p.baselines.get(name)) for p in self.times()]
        errors = [log_error(p.row, value, p.published) for p, value in values if value]
        return statistics.median(errors) if errors else None

    def counter_error(self) -> float | None:
        errors = [abs(p.error) for p in self.counters()]
        return statistics.median(errors) if errors else None


def log_error(row: dict[str, str], predicted: float, published: float) -> float:
    """Log of predicted over measured time; of a rate or a utilisation, which grow as time falls, the other way."""
    ratio = math.log(predicted / published)
    return -ratio if is_utilisation(row) else ratio


def calibrations() -> list[tuple[str, list[str]]]:
    """Keys of the tables' values, with the rows that each was read off."""
    from opentrn import _core

    return _core.calibrations()


def runs_of(predictions: Iterable[Any], read_off: Sequence[tuple[str, list[str]]]) -> list[Run]:
    """The programs of what was predicted."""
    groups = defaultdict(list)
    for p in predictions:
        if p.predicted is not None:
            groups[p.family, p.program].append(p)
    runs = []
    for (family, _), members in groups.items():
        ids = [p.row["id"] for p in members]
        named = [key for key, rows in read_off if any(fnmatch.filter(ids, pattern) for pattern in rows)]
        runs.append(Run(family, members[0].kind, named, members))
    _add_constants(runs)
    return runs


def _add_constants(runs: list[Run]) -> None:
    """The baseline that always says the median of the family's published values."""
    published = defaultdict(list)
    for run in runs:
        for p in run.times():
            published[run.family, p.row["metric"].split()[0], p.row["unit"]].append(p.published)
    for run in runs:
        for p in run.times():
            of_family = published[run.family, p.row["metric"].split()[0], p.row["unit"]]
            p.baselines["constant"] = statistics.median(of_family)
