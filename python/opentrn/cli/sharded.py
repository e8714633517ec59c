"""`run`, `profile` and `compile` of a model on several NeuronCores: the commands with --mesh."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.base.files import new_file
from opentrn.cli.inputs import inputs_of
from opentrn.cli.progress import Progress
from opentrn.cli.streams import is_read_by_machines, prints_aside

_CUT_SHOWN = 24  # tensors


def add_options(parser: Any) -> None:
    """--mesh, --shard and --shardings, for every command that may compile a model for a mesh."""
    parser.add_argument("--mesh", metavar="AXIS=N[,AXIS=N]",
                        help="several NeuronCores instead of one, the last axis nearest: dp=2,tp=4")  # fmt: skip
    parser.add_argument("--shard", action="append", default=[], metavar="NAME=AXES[,AXES]",
                        help="how an input, result or weight is cut over the mesh, by dimension: 'layers.*.wq=-,tp'; "
                        "'-' is whole, dp+tp two axes; auto alone: the fastest of a few ways")  # fmt: skip
    parser.add_argument("--shardings", metavar="FILE", help="such annotations, one on a line, # for remarks")


def is_wanted(options: argparse.Namespace, name: str) -> bool:
    """Whether the command is about a mesh, by its options or by the file that it names.

    UsageError for annotations without one.
    """
    from opentrn.cli.kernel_file import UsageError

    if options.mesh is None and _core.is_model_file(name) and "mesh" in _core.facts_of_model_file(name):
        refuse: dict[str, Any] = {"shard": [], "shardings": None}
        _models().refuse_given(options, refuse, "only for compiling a model, and this one is compiled")
        return True
    if options.mesh is None and (options.shard or options.shardings):
        raise UsageError(
            "--shard and --shardings are of a mesh", label="cli.argument", hint="add --mesh tp=4"
        )
    return options.mesh is not None


def run_command(options: argparse.Namespace) -> int:
    """opentrn run MODEL --mesh: values of all devices together, and the time of one step."""
    from opentrn.cli.commands import _output_facts, _output_text
    from opentrn.cli.models import _save

    _refuse(options, {"pad": "a dimension that is padded"})
    with Progress(options) as progress:
        model = _load(options, options.kernel, progress)
        model.seed(options.seed or 0)
        progress.begin("computing")
        inputs = inputs_of(model, options.input)
        with prints_aside(is_read_by_machines(options)), inputs.explain_failures():
            outputs = [] if options.no_execute else model(*inputs.arrays)
        progress.begin("timing")
        timing = None if options.no_time else model.time()
    facts = [_output_facts(value) for value in outputs]
    saved = _save(outputs, options) if options.save_outputs else []
    if options.json:
        print(json.dumps({
            "model": options.kernel, "outputs": facts, "saved": saved, **_facts(model),
            "time_us": timing.time_us if timing else None, "profile": timing.profile() if timing else None,
            **({} if options.no_execute else inputs.facts()),
        }, indent=1))  # fmt: skip
        return 0
    if not options.no_execute:
        inputs.tell()
    for number, row in enumerate(facts):
        print(f"output {number}: {_output_text(row)}")
    for path in saved:
        print(f"saved {path}")
    if timing:
        print(timing.text(4), end="")
    return 0


def profile_command(options: argparse.Namespace) -> int:
    """opentrn profile MODEL --mesh: parts, collectives, links; a page of the fabric."""
    from opentrn.report import fabric

    _refuse(options, {"embed_source": "a page with sources", "depth": "a model's layers"})
    with Progress(options) as progress:
        model = _load(options, options.kernel, progress)
        if not options.no_execute:
            progress.begin("computing")  # loops then run as often as they did
            inputs = inputs_of(model, options.input)
            with prints_aside(is_read_by_machines(options)), inputs.explain_failures():
                model(*inputs.arrays)
        progress.begin("timing")
        timing = model.time()
    profile = {"model": options.kernel, **_facts(model), **timing.profile()}
    # Files come first: who reads the text may stop reading, which ends the command.
    if options.json and options.json != "-":
        with new_file(options.json) as part:
            part.write_text(json.dumps(profile, indent=1) + "\n", encoding="utf-8")
        print(f"JSON: {options.json}", file=sys.stderr)
    if (options.html or options.perfetto) and timing.traffic is None:
        print("no page and no trace: the program has no collectives", file=sys.stderr)
    else:
        _save_traffic(options, timing, profile, fabric)
    if options.json == "-":
        print(json.dumps(profile, indent=1))
    else:
        print(_plan_text(model) + timing.text(options.lines), end="")
    return 0


def _save_traffic(options: argparse.Namespace, timing: Any, profile: dict[str, Any], fabric: Any) -> None:
    """The page and the trace of the program's collectives, where they are asked for."""
    if options.html:
        title = Path(options.kernel).name
        print(f"page: {fabric.save(title, [profile['traffic']], options.html)}", file=sys.stderr)
    if options.perfetto:
        with new_file(options.perfetto) as part:
            timing.traffic.save_perfetto(part)
        print(f"Perfetto trace: {options.perfetto}", file=sys.stderr)


def compile_command(options: argparse.Namespace) -> int:
    """opentrn compile MODEL --mesh: what each device holds and runs, how long it takes, and the file."""
    from opentrn.cli.streams import require_writable

    _refuse(options, {
        "weights": "weights beside its file", "report": "a report (opentrn profile --mesh has it)",
        "loop_iterations": "trips of loops",
    })  # fmt: skip
    require_writable(options, "output")
    with Progress(options) as progress:
        begin = time.perf_counter()
        model = _load(options, options.model, progress)
        seconds = time.perf_counter() - begin
        output = Path(options.output or Path(options.model).with_suffix(".neuron").name)
        progress.begin(f"writing {output}")
        model.save(output)
        progress.begin("timing")
        timing = model.time()
    if options.json:
        facts = {"model": options.model, "compile_s": round(seconds, 3), "cache": model.cached, **_facts(model)}
        file = {"file": str(output), "file_bytes": output.stat().st_size}
        print(json.dumps({**facts, **timing.profile(), **file}, indent=1))
        return 0
    how = "taken from the cache" if model.cached == "hit" else "compiled"
    print(f"{how}: {options.model} for {model.devices} NeuronCores of {model.target} in {seconds:.2f} s")
    print(_plan_text(model) + timing.text(4), end="")
    print(f"wrote {output} ({_core.size_text(output.stat().st_size)})")
    return 0


def _models() -> Any:
    from opentrn.cli import models

    return models


def _load(options: argparse.Namespace, name: str, progress: Progress) -> Any:
    from opentrn.model import compiled, sharded
    from opentrn.settings import environment

    _refuse(options, {"settings": "a changed table", "loop_iterations": "trips of loops"})
    if options.mesh is None:
        progress.begin("loading the model")
        return _load_file(options, name)
    progress.begin("compiling the model")
    annotations = sharded.annotations_of(Path(options.shardings)) if options.shardings else []
    options.target = environment.target(options.target)
    model = compiled.compile(
        name,
        target=options.target,
        dimensions=_models().dimensions_of(options),
        mesh=options.mesh,
        cache=not options.no_cache,
        shardings=[*annotations, *options.shard],
        enable_stochastic_rounding=options.enable_stochastic_rounding,
        strict=options.strict not in (None, False),
        **_models().compilation_of(options),
    )
    return _told(model)


def _load_file(options: argparse.Namespace, name: str) -> Any:
    """A model on a mesh that `opentrn compile` wrote. UsageError for options that say how to compile it."""
    from opentrn.model import compiled

    _models().refuse_compilation(options)
    absent = options.strict if options.strict in (None, False) else None
    how: dict[str, Any] = {"dim": [], "enable_stochastic_rounding": False, "strict": absent}
    _models().refuse_given(options, how, "only for compiling a model, and this one is compiled")
    return _told(compiled.load(name))


def _told(model: Any) -> Any:
    """The model; on stderr what the host computes of it."""
    if model.host_reason:
        print(
            f"opentrn: the host computes a part of each device's program: {model.host_reason}",
            file=sys.stderr,
        )
    return model


def _refuse(options: argparse.Namespace, unsupported: dict[str, str]) -> None:
    """UsageError for options that a model on a mesh does not have."""
    from opentrn.cli.kernel_file import UsageError

    for name, what in unsupported.items():
        if (given := getattr(options, name, None)) and not (name == "weights" and given == "copy"):
            flag = {"settings": "set"}.get(name, name.replace("_", "-"))
            raise UsageError(
                f"--{flag}: a model on a mesh has not {what}",
                label="cli.argument",
                hint="leave it or --mesh out",
            )


def _facts(model: Any) -> dict[str, Any]:
    return {
        "target": model.target,
        "mesh": model.mesh,
        "devices": model.devices,
        "choice": model.choice or None,
        "shardings": model.shardings,
        "program_collectives": [
            {"name": name, "count": count, "bytes": size} for name, count, size in model.collectives
        ],
        "argument_bytes": model.argument_bytes,
        "inputs": [dataclasses.asdict(port) for port in model.inputs],
        "outputs": [dataclasses.asdict(port) for port in model.outputs],
    }


def _plan_text(model: Any) -> str:
    """Which tensors are cut how, and which collectives the program has."""
    cut = [(name, words) for name, words in model.shardings.items() if set(words) - set("-,")]
    rows = [
        f"mesh {model.mesh}: each device holds {_core.size_text(model.argument_bytes)} of inputs and cut weights"
    ]
    if model.choice:
        rows.append(f"  cut by OpenTrn: {model.choice}")
    rows += [f"  {name:<32} {words}" for name, words in cut[:_CUT_SHOWN]]
    if len(cut) > _CUT_SHOWN:
        rows.append(f"  and {len(cut) - _CUT_SHOWN} more that are cut")
    for name, count, size in model.collectives:
        rows.append(f"  {count} {name} of {_core.size_text(size)} of each device in all")
    return "\n".join(rows) + "\n"
