"""`opentrn coverage`: which ops of a model have a device kernel, and which operators are not imported at all."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np


def coverage_command(options: argparse.Namespace) -> int:
    """opentrn coverage: exit status 4 when an op has no device kernel, so that scripts can tell."""
    from opentrn.cli.commands import NOT_MODELLED
    from opentrn.cli.models import one_size_of
    from opentrn.model import compiled as model

    operators = model.operators(options.model)
    if unknown := [row for row in operators if row.refusal]:
        return _tell_unknown_operators(operators, unknown, options)
    rows, notes = model.coverage_and_notes(
        options.model, dimensions=one_size_of(options), inputs=_named_inputs(options.input)
    )
    rows.sort(key=lambda row: (-row.unsupported, -row.emulated, -row.flops, -row.count, row.op))
    unsupported, total = sum(row.unsupported for row in rows), sum(row.count for row in rows)
    flops = sum(row.flops for row in rows)
    if options.json:
        ops = [
            vars(row)
            | {"supported": row.supported, "flops_percent": 100 * row.flops / flops if flops else 0.0}
            for row in rows
        ]
        print(json.dumps({"ops": ops, "unsupported": unsupported, "count": total, "flops": flops, "notes": notes},
                         indent=1))  # fmt: skip
        return NOT_MODELLED if unsupported else 0
    print(f"{'op':<34} {'count':>6} {'flop':>7} {'supported':>9} {'emulated':>8} {'refused':>7}")
    for row in rows:
        share = f"{100 * row.flops / flops:.1f} %" if row.flops else ""
        print(f"{row.op:<34} {row.count:>6} {share:>7} {row.supported or '-':>9} {row.emulated or '-':>8} "
              f"{row.unsupported or '-':>7}")  # fmt: skip
        if row.unsupported or row.emulated:
            text = f"    {row.place}: {row.example}" if row.place else f"    {row.example}"
            print(text if len(text) <= 79 else text[:76] + "...")
    refused_flops = sum(row.flops * row.unsupported / row.count for row in rows)
    without = (
        f"; those without: {100 * refused_flops / flops:.1f} % of the flops" if unsupported and flops else ""
    )
    seen = "ops that were looked at" if any("not looked at" in note for note in notes) else "ops"
    print(f"{total - unsupported} of {total} {seen} have a device kernel{without}")
    if any(row.emulated for row in rows):
        print("emulated: done as other ops, or 64-bit types in 32 bits")
    for note in notes:
        print(note)
    return NOT_MODELLED if unsupported else 0


def _tell_unknown_operators(rows: list[Any], unknown: list[Any], options: argparse.Namespace) -> int:
    """All operators that the importer does not know: without them there is no graph whose ops could be looked at."""
    from opentrn.cli.commands import NOT_MODELLED

    nodes = sum(row.count for row in rows)
    missing = sum(row.count for row in unknown)
    unknown = sorted(unknown, key=lambda row: (-row.count, row.op))
    if options.json:
        listed = [vars(row) | {"nodes_percent": 100 * row.count / nodes} for row in unknown]
        print(json.dumps({"ops": [], "not_imported": listed, "nodes": nodes, "nodes_not_imported": missing},
                         indent=1))  # fmt: skip
        return NOT_MODELLED
    print(f"{'operator that is not imported':<44} {'nodes':>6} {'share':>7}")
    for row in unknown:
        print(f"{row.op:<44} {row.count:>6} {100 * row.count / nodes:>5.1f} %")
        print(f"    {row.refusal}; first at {row.place or 'a node without a name'}")
    print(
        f"{missing} of {nodes} nodes have such an operator; which of the others have a device kernel is unknown"
    )
    return NOT_MODELLED


def _named_inputs(given: list[str]) -> dict[str, np.ndarray]:
    """-i NAME=VALUE for a command that has no compiled model to look names up in."""
    from opentrn.cli.kernel_file import UsageError, given_inputs, read_value

    values = {}
    for name, value in given_inputs(given, lambda key: True, "NAME=FILE.npy or NAME=VALUE"):
        if name in values:
            raise UsageError(f"--input {name}={value}: input {name} is given twice", label="cli.input")
        values[name] = np.asarray(read_value(value, f"input {name}"))
    return values
