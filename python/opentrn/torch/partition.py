"""A graph with ops that no device runs: those are torch's own on the host, the rest stays on the device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import fx

from opentrn.errors import NotModelled
from opentrn.torch.settings import Settings


def with_host_parts(
    module: fx.GraphModule, settings: Settings, name: str, fault: NotModelled
) -> Callable[[list[Any]], list[Any]]:
    """Runs the whole graph by torch, op by op; stderr says why."""
    print(f"opentrn: {name} runs on the host: {fault}", file=sys.stderr)

    def run(arguments: list[Any]) -> list[Any]:
        taken = list(arguments)
        arguments.clear()
        return fx.Interpreter(module).run(*taken)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
