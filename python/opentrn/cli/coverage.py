"""`opentrn coverage`: which ops of a model have a device kernel, and which operators are not imported at all."""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np

from opentrn import _core


def coverage_command(options: argparse.Namespace) -> int:
    """opentrn coverage: exit status 4 when an op has no device kernel, so that scripts can tell."""
    from opentrn.cli.commands import NOT_MODELLED
    from opentrn.cli.models import one_size_of
    from opentrn.model import compiled as model

    report = model.unknown_operators(options.model)
    if report is None:
        rows, notes = model.coverage_and_notes(
            options.model, dimensions=one_size_of(options), inputs=_named_inputs(options.input)
        )
        report = _core.coverage_report(list(map(dataclasses.astuple, rows)), notes)
    print(report.json if options.json else report.text.rstrip("\n"))
    return 0 if report.complete else NOT_MODELLED


def _named_inputs(given: list[str]) -> dict[str, np.ndarray]:
    """-i NAME=VALUE for a command that has no compiled model to look names up in."""
    from opentrn.cli.kernel_file import UsageError, given_inputs, read_value

    values = {}
    for name, value in given_inputs(given, lambda key: True, "NAME=FILE.npy or NAME=VALUE"):
        if name in values:
            raise UsageError(f"--input {name}={value}: input {name} is given twice", label="cli.input")
        values[name] = np.asarray(read_value(value, f"input {name}"))
    return values
