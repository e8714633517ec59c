"""`opentrn compare`: a model on every chip and instance size."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from opentrn.cli import style as cli_style
from opentrn.cli.progress import Progress


def compare_command(options: argparse.Namespace) -> int:
    """opentrn compare MODEL: two tables, or JSON."""
    from opentrn.cli import inputs as cli_inputs
    from opentrn.cli import models as cli_model

    drawn: list[cli_inputs.Inputs] = []  # of a model in stages, which runs once

    def inputs_of(model: Any) -> list[Any]:
        drawn.append(cli_inputs.inputs_of(model, options.input))
        return drawn[-1].arrays

    try:
        found = _compare(options, inputs_of)
    except Exception:
        if not drawn:
            raise
        with drawn[-1].explain_failures():
            raise
    if not drawn:
        cli_model.refuse_given(options, {"input": []}, "only for models whose shapes depend on data, and this is none")
    if options.json:
        print(json.dumps(found.json() | (drawn[-1].facts() if drawn else {}), indent=1))
        return 0
    for inputs in drawn:
        inputs.tell()
    print(cli_style.headed(found.text(cli_style.width(sys.stdout)), sys.stdout), end="")
    return 0


def _compare(options: argparse.Namespace, inputs_of: Callable[[Any], list[Any]]) -> Any:
    from opentrn.cli import models as cli_model
    from opentrn.model.comparison import compare

    with Progress(options) as progress:
        return compare(
            options.model,
            targets=options.targets.split(","),
            overrides=options.settings,
            loop_iterations=options.loop_iterations,
            inputs=inputs_of,
            on_progress=progress.begin,
            dimensions=cli_model.one_size_of(options),
            cache=not options.no_cache,
            **cli_model.compilation_of(options),
        )


def add_command(commands: Any) -> None:
    """`compare` on the parser of the program."""
    from opentrn.cli import models as cli_model
    from opentrn.model.comparison import TARGETS

    parser = commands.add_parser(
        "compare",
        description="Compile a model for every NeuronCore and print its time, memory, utilisation and bound on each, "
        "and latency, throughput and price per million inferences on every instance size.",
    )  # fmt: skip
    parser.examples = (
        "opentrn compare model.onnx --dim batch=1",
        "opentrn compare model.onnx --dim batch=8 --targets trn2,trn3 --auto-cast matmult",
    )
    cli_model.add_model(parser)
    parser.add_argument("--targets", default=",".join(TARGETS), metavar="TARGET,...",
                        help=f"which NeuronCores (default {','.join(TARGETS)})")  # fmt: skip
    cli_model.add_compilation(parser)
    cli_model.add_no_cache(parser)
    cli_model.add_overrides(parser, "change a table value for the predicted times")
    parser.add_argument("--loop-iterations", type=cli_model.loop_iterations, metavar="N",
                        help="trip count of loops whose bounds depend on values")  # fmt: skip
    cli_model.add_input(
        parser, "an input of a model whose shapes depend on data: file.npy; other inputs are seeded random numbers"
    )
    cli_model.add_json(parser)
    cli_model.add_progress(parser)
    parser.set_defaults(command=compare_command)
