"""Reports of neuron-monitor on standard input, as its companions read them: one JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

_LINE_BYTES_MAX = 16 << 20
# What a companion raises for a line that is no report.
NO_REPORT = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


def each(program: str, take: Callable[[dict[str, Any]], None]) -> int:
    """Hands every report to `take`, until standard input ends. A line that is no report is passed over, and told of."""
    while line := sys.stdin.readline(_LINE_BYTES_MAX):
        try:
            report = json.loads(line)
            is_report = isinstance(report, dict)
            if is_report:
                take(report)
        except NO_REPORT:
            is_report = False
        if not is_report:
            print(f"{program}: a line that is not a report is passed over", file=sys.stderr)
    return 0
