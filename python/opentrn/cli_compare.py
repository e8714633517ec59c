"""`opentrn compare`: a model on every chip and instance size."""

from __future__ import annotations

import argparse
import json
from typing import Any


def compare_command(options: argparse.Namespace) -> int:
    """opentrn compare MODEL: two tables, or JSON."""
    from opentrn import cli_model
    from opentrn.comparison import compare

    found = compare(
        options.model,
        targets=options.targets.split(","),
        overrides=options.settings,
        loop_iterations=options.loop_iterations,
        inputs=lambda model: cli_model.inputs_of(model, options.input),
        dimensions=cli_model.one_size_of(options),
        cache=not options.no_cache,
        **cli_model.compilation_of(options),
    )
    print(
        json.dumps(found.json(), indent=1) if options.json else found.text(), end="\n" if options.json else ""
    )
    return 0


def add_command(commands: Any) -> None:
    """`compare` on the parser of the program."""
    from opentrn import cli_model
    from opentrn.comparison import TARGETS

    parser = commands.add_parser(
        "compare", help="time and price of a model on every chip",
        description="Compile a model for every NeuronCore and print its time, memory, utilisation and bound on each, "
        "and latency, throughput and price per million inferences on every instance size.",
    )  # fmt: skip
    parser.add_argument(
        "model", help="StableHLO (.mlir, .mlirbc), HLO (.pb), ONNX (.onnx) or torch.export (.pt2)"
    )
    parser.add_argument("--targets", default=",".join(TARGETS), metavar="TARGET,...",
                        help=f"which NeuronCores (default {','.join(TARGETS)})")  # fmt: skip
    cli_model.add_compilation(parser)
    cli_model.add_no_cache(parser)
    cli_model.add_overrides(parser, "change a table value for the predicted times")
    parser.add_argument("--loop-iterations", type=cli_model.loop_iterations, metavar="N",
                        help="of loops whose bounds depend on values")  # fmt: skip
    parser.add_argument("--input", "-i", action="append", default=[], metavar="NAME=VALUE",
                        help="of a model whose shapes depend on data: file.npy; others are seeded random "
                        "numbers")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(command=compare_command)
