"""The error bands of predicted times, from the runs that nothing was calibrated on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from votes import Run

SHARE = 0.8
RUNS_MIN = 5
TABLE = Path(__file__).resolve().parents[1] / "src/arch/tables/evidence.toml"
_HEAD = """\
# How wrong predicted times were, by kind (src/arch/evidence.h): measured over predicted time, launch constant left out,
# of the runs that no value was calibrated on. Written by `./dev fidelity --write-bands`; fidelity/README.md says how.
# `coverage`: the share of runs inside the band that the other runs give.
prefix = "evidence"
confidence = "measured"
source = "fidelity"
information = true
"""


@dataclass(frozen=True)
class Band:
    """Measured over predicted time lies in [low, high] in `share` of all cases."""

    kind: str
    share: float
    low: float
    high: float
    coverage: float
    rows: tuple[str, ...]

    @property
    def runs(self) -> int:
        return len(self.rows)


def quantile(values: Sequence[float], fraction: float) -> float:
    """Between the ranks of the (n + 1)-th parts, so that a further value is below it in `fraction` of all cases."""
    ordered = sorted(values)
    place = fraction * (len(ordered) + 1) - 1
    low = min(max(math.floor(place), 0), len(ordered) - 1)
    high = min(low + 1, len(ordered) - 1)
    part = min(max(place - low, 0.0), 1.0)
    return ordered[low] + part * (ordered[high] - ordered[low])


def share_of(count: int) -> float:
    """SHARE where so many runs can show it: a further one lies between the extremes of n in (n - 1) of n + 1 cases."""
    return min(SHARE, (count - 1) / (count + 1))


def ends(errors: Sequence[float], share: float) -> tuple[float, float]:
    """Measured over predicted time at both ends of the band, from logs of predicted over measured time."""
    ratios = [-error for error in errors]
    return math.exp(quantile(ratios, (1 - share) / 2)), math.exp(quantile(ratios, (1 + share) / 2))


def coverage(errors: Sequence[float], share: float) -> float:
    """The share of runs inside the band of the others."""
    inside = 0
    for left_out, error in enumerate(errors):
        low, high = ends([e for i, e in enumerate(errors) if i != left_out], share)
        inside += low <= math.exp(-error) <= high
    return inside / len(errors)


def bands_of(runs: Sequence[Run]) -> list[Band]:
    """One per kind with RUNS_MIN evidence runs."""
    by_kind = defaultdict(list)
    for run in runs:
        error = run.body_error()
        if run.is_evidence and error is not None:
            by_kind[run.kind].append((error, min(p.row["id"] for p in run.predictions)))
    found = []
    for kind, members in sorted(by_kind.items()):
        if len(members) < RUNS_MIN:
            continue
        errors = [error for error, _ in members]
        share = share_of(len(errors))
        low, high = ends(errors, share)
        found.append(
            Band(kind, share, low, high, coverage(errors, share), tuple(sorted(id for _, id in members)))
        )
    return found


def written(bands: Sequence[Band], commit: str) -> str:
    """The text of TABLE."""
    parts = [_HEAD]
    for band in bands:
        rows = "".join(f'\n  "{row}",' for row in band.rows)
        parts.append(
            f"\n[{band.kind}]\nruns = {band.runs}\nshare = {band.share:.3g}\n"
            f"measured_to_predicted_low = {band.low:.4g}\nmeasured_to_predicted_high = {band.high:.4g}\n"
            f'coverage = {band.coverage:.3g}\ncommit = "{commit}"\nrows = [{rows}\n]\n'
        )
    return "".join(parts)
