"""`opentrn step-times`: what each program of a language model takes, as the table that `opentrn replay` reads."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentrn.cli.generate import add_model, add_ranks, count
from opentrn.cli.progress import Progress
from opentrn.errors import InputError

if TYPE_CHECKING:
    from opentrn.generate.language_model import Bucket


def step_times_command(options: argparse.Namespace) -> int:
    """opentrn step-times MODEL: a CSV of programs, and the command that replays a trace with it."""
    rows: list[dict[str, Any]] = []
    bands: dict[str, str] = {}  # by kind: a program for which it is said
    with Progress(options) as progress:
        progress.begin("reading the model")
        model = _model(options)
        for name, bucket in _programs(model):
            progress.begin(f"timing {name}")
            program = model.program(bucket, choice=options.choice)
            rows.append({"program": name, "us": program.predicted_us, "bound_by": program.bound_by,
                         "band": program.band})  # fmt: skip
            bands.setdefault(program.band.get("kind", program.trust), f"{name}: {program.trust}")
    text = "program,us\n" + "".join(f"{row['program']},{row['us']:.3f}\n" for row in rows)
    if options.output:
        try:
            Path(options.output).write_text(text)
        except OSError as error:
            raise InputError(f"{options.output}: {error.strerror}", label="generate.step_times") from error
    if options.json:
        print(json.dumps({"model": str(model.path), "target": model.target, "dtype": model.dtype, "programs": rows}))
    else:
        print(text, end="")
        print("\n".join([*bands.values(), _replay(model, options)]), file=sys.stderr)
    return 0


def _model(options: argparse.Namespace) -> Any:
    """With its weights, or by its config.json alone."""
    from opentrn.generate import LanguageModel
    from opentrn.generate.sizes_only import SizesOnly

    sizes = {"target": options.target, "dtype": options.dtype, "context": options.max_model_len,
             "sequences": options.max_num_seqs}  # fmt: skip
    sizes |= {"ranks": options.ranks, "instance": options.instance, "lnc": options.lnc}
    sizes |= {"quantization": options.quantization, "kv_cache_dtype": options.kv_cache_dtype}
    if options.model.endswith(".json"):
        return SizesOnly(Path(options.model), **sizes)
    return LanguageModel(options.model, **sizes)


def _programs(model: Any) -> Iterator[tuple[str, Bucket]]:
    """Names as AWS's scheduler asks for them, and sizes: sequences, new tokens, positions, logits of the last alone."""
    sequences, tokens, contexts = model.buckets
    for size in tokens:
        yield f"prefill_s{size}", (1, size, next(c for c in contexts if c >= size), False)
    for rows in sequences:
        for context in contexts:
            yield f"decode_b{rows}_c{context}", (rows, 1, context, False)
    # Where a replay has no buckets of contexts, each step reaches over all positions.
    for rows in sequences:
        yield f"decode_b{rows}", (rows, 1, contexts[-1], False)


def _replay(model: Any, options: argparse.Namespace) -> str:
    sequences, tokens, contexts = (",".join(map(str, sizes)) for sizes in model.buckets)
    return (
        f"a prompt is read {model.buckets[1][-1]} tokens at a time; replay it with\n"
        f"  opentrn replay --step-times {options.output or 'FILE'} --max-model-len {model.context} "
        f"--max-num-seqs {options.max_num_seqs} --max-num-batched-tokens {model.buckets[1][-1]} "
        f"--num-batched-tokens-buckets {tokens} --num-seqs-buckets {sequences} "
        f"--decode-context-length-buckets {contexts}"
    )


def add_command(commands: Any) -> None:
    """`step-times` on the parser of the program."""
    parser = commands.add_parser(
        "step-times",
        description="Compile every program that a server of this model runs, and predict its time on one NeuronCore, "
        "or on --ranks of an --instance that share it: CSV on stdout, the command that replays a trace with it on "
        "stderr. A config.json in place of a model is timed without weights.",
    )  # fmt: skip
    parser.examples = (
        "opentrn step-times smollm2 --max-num-seqs 8 --max-model-len 2048 -o smollm2.csv",
        "opentrn step-times llama-70b/config.json --target trn1 --ranks 32 --instance trn1.32xlarge -o llama.csv",
        "opentrn step-times llama-405b/config.json --ranks 64 --lnc 2 --instance trn2.48xlarge",
    )
    add_model(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="also write the CSV to a file")
    parser.add_argument("--max-model-len", type=count, default=2048, metavar="N", help="positions of a request (2048)")
    parser.add_argument("--max-num-seqs", type=count, default=8, metavar="N", help="requests at once (8)")
    add_ranks(parser)
    parser.add_argument("--lnc", type=int, default=1, choices=(1, 2),
                        help="physical cores of a rank: 2 for logical cores, Trainium2's default (1)")  # fmt: skip
    parser.add_argument("--on-device-sampling", dest="choice", nargs="?", default="host", const="likeliest",
                        choices=("likeliest", "drawn", "drawn-truncated"), metavar="HOW",
                        help="programs give tokens, and no logits go to the host: the likeliest ones (default), drawn "
                             "ones, or drawn-truncated ones, by top-k and top-p")  # fmt: skip
    parser.set_defaults(command=step_times_command)
