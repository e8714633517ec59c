"""`pytest -p opentrn.pytest_plugin`: kernel tests import NKI from OpenTrn, unmodified.

The names are those of `opentrn.activate()`, before the first test file is imported. Where a distribution of AWS's
is installed, its names stay its own, and the head of pytest's report says so.
"""

from __future__ import annotations

import opentrn

_provided = opentrn.activate()


def pytest_report_header() -> list[str]:
    """Who provides each import name."""
    ours = [name for name, provider in _provided.items() if provider == "opentrn"]
    others = [f"{name}: {provider}" for name, provider in _provided.items() if provider != "opentrn"]
    return [f"opentrn: provides {', '.join(ours) or 'none of its names'}", *others]
