"""What `./dev fidelity` prints: rows, reasons, and errors of calibration and evidence apart."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import bands
from votes import LAUNCH_SHARE_MAX, STATUSES, Run

WORST_SHOWN = 10


def percentile(values: Sequence[float], fraction: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(fraction * 1000) * len(ordered) // 1000) - 1))]


def _relative(errors: Sequence[float | None]) -> list[float]:
    """Logs as absolute relative errors."""
    return [abs(math.expm1(error)) for error in errors if error is not None]


def _figures(errors: Sequence[float]) -> dict[str, Any] | None:
    if not errors:
        return None
    return {
        "runs": len(errors),
        "median_error": round(statistics.median(errors), 4),
        "p90_error": round(percentile(errors, 0.9), 4),
    }


def errors_of(runs: Sequence[Run]) -> dict[str, Any]:
    """Errors of these runs: a vote each. `undiluted`: those whose published time is launch by less than 25 %."""
    return {
        "rows": sum(len(run.predictions) for run in runs),
        "runs": len(runs),
        "time": _figures(_relative([run.time_error() for run in runs])),
        "undiluted": _figures(
            _relative([run.time_error() for run in runs if run.launch_share() < LAUNCH_SHARE_MAX])
        ),
        "counters": _figures([e for e in (run.counter_error() for run in runs) if e is not None]),
        "roofline": _figures(_relative([run.baseline_error("roofline") for run in runs])),
        "constant": _figures(_relative([run.baseline_error("constant") for run in runs])),
    }


def accounts(predictions: Sequence[Any]) -> dict[str, dict[str, int]]:
    """By family: how many rows there are, and how many of them ended in each of STATUSES; these add up."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for p in predictions:
        counts[p.family][p.status] += 1
    return {
        family: {"rows": sum(found.values()), **{status: found[status] for status in STATUSES}}
        for family, found in sorted(counts.items())
    }


def summarise(predictions: Sequence[Any], runs: Sequence[Run]) -> dict[str, Any]:
    """Everything that the tables show, as plain data."""
    groups = {
        "evidence": [r for r in runs if r.is_evidence],
        "calibration": [r for r in runs if not r.is_evidence],
    }
    families = sorted({run.family for run in runs})
    of_kind = {
        name: {run.family for run in runs if run.kind.startswith(kind)}
        for name, kind in (("kernels", "kernel."), ("models", "model."))
    }
    return {
        "rows": accounts(predictions),
        **{
            name: {
                "all": errors_of(members),
                **{
                    group: errors_of(of_group)
                    for group, its_families in (*of_kind.items(), *((family, {family}) for family in families))
                    if (of_group := [run for run in members if run.family in its_families])
                },
            }
            for name, members in groups.items()
            if members
        },
        "bands": [
            {
                "kind": b.kind,
                "runs": b.runs,
                "share": b.share,
                "low": b.low,
                "high": b.high,
                "coverage": b.coverage,
            }
            for b in bands.bands_of(runs)
        ],
    }


def print_report(predictions: Sequence[Any], runs: Sequence[Run], summary: dict[str, Any]) -> None:
    done = [p for p in predictions if p.predicted is not None]
    calibrated = {id(p) for run in runs if not run.is_evidence for p in run.predictions}
    print(f"{'row':<72} {'published':>12} {'predicted':>12} {'unit':<12} {'error':>8}  {'':<11} bound by")
    for p in done:
        role = "calibration" if id(p) in calibrated else "evidence"
        print(
            f"{p.row['id'][:72]:<72} {p.published:>12.6g} {p.predicted:>12.6g} {p.row['unit']:<12} "
            f"{p.error:>+8.1%}  {role:<11} {p.bound_by}"
        )
    _print_reasons(predictions)
    print(f"\nthe {WORST_SHOWN} worst")
    for p in sorted(done, key=lambda p: -abs(p.error))[:WORST_SHOWN]:
        print(f"  {p.error:>+8.1%}  {p.row['id']}")
    _print_accounts(summary["rows"])
    for role in ("evidence", "calibration"):
        if role in summary:
            _print_errors(role, summary[role])
    _print_bands(summary["bands"])


def _print_reasons(predictions: Sequence[Any]) -> None:
    reasons = defaultdict(list)
    for p in predictions:
        if p.predicted is None:
            reasons[p.status, p.reason].append(p.row["id"])
    if reasons:
        print("\nnot predicted")
    for (status, reason), ids in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"  {len(ids):>4}  {status}: {reason}   e.g. {ids[0]}")


def _print_accounts(rows: dict[str, dict[str, int]]) -> None:
    print(f"\n{'rows of':<14} {'all':>5} " + " ".join(f"{status:>18}" for status in STATUSES))
    for family, counts in rows.items():
        print(f"{family:<14} {counts['rows']:>5} " + " ".join(f"{counts[status]:>18}" for status in STATUSES))


def _cell(figures: dict[str, Any] | None, p90: bool = True) -> str:
    if figures is None:
        return f"{'-':>22}" if p90 else f"{'-':>9}"
    if not p90:
        return f"{figures['median_error']:>9.1%}"
    return f"{figures['runs']:>5} {figures['median_error']:>8.1%} {figures['p90_error']:>7.1%}"


def _print_errors(role: str, families: dict[str, dict[str, Any]]) -> None:
    what = {
        "evidence": "evidence: runs that no value was calibrated on",
        "calibration": "calibration: runs that values were read off or chosen by",
    }[role]
    print(f"\n{what}; a vote per run: number, median and 90th percentile of the absolute error")
    print(f"{'':<14} {'times':>22} {'launch < 25 %':>22} {'counters':>22} {'roofline':>9} {'constant':>9}")
    for family, found in families.items():
        cells = [_cell(found[name]) for name in ("time", "undiluted", "counters")]
        cells += [_cell(found[name], p90=False) for name in ("roofline", "constant")]
        print(f"{family:<14} " + " ".join(cells))


def _print_bands(found: list[dict[str, Any]]) -> None:
    if found:
        print(f"\nbands of measured over predicted time, from evidence\n{'kind':<22} {'runs':>5} {'share':>6} "
              f"{'low':>6} {'high':>6} {'inside the band of the others':>30}")  # fmt: skip
    for b in found:
        print(f"{b['kind']:<22} {b['runs']:>5} {b['share']:>6.0%} {b['low']:>6.2f} {b['high']:>6.2f} "
              f"{b['coverage']:>30.0%}")  # fmt: skip
