"""The commands that take whole models: compile and coverage, and run, profile and disasm of a model."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from opentrn.base.files import new_file, shown
from opentrn.cli import interrupts as cli_interrupts
from opentrn.cli import sharded as cli_sharded
from opentrn.cli import style as cli_style
from opentrn.cli.coverage import coverage_command
from opentrn.cli.inputs import Inputs, inputs_of
from opentrn.cli.kept import cache_command, days
from opentrn.cli.progress import Progress
from opentrn.cli.streams import is_read_by_machines, prints_aside, require_writable
from opentrn.errors import InputError
from opentrn.settings.compiler_options import OPTIONS, PROGRAM_OPTIONS

TARGET_DEFAULT = "default: what NEURON_PLATFORM_TARGET_OVERRIDE states, else trn2"
SOURCES = "StableHLO (.mlir, .mlirbc), HLO (.pb), ONNX (.onnx) or torch.export (.pt2, whose code runs)"
SUFFIXES = (".mlir", ".mlirbc", ".stablehlo", ".onnx", ".pb", ".pt2", ".neuron")


def is_model(name: str) -> bool:
    """True for a model's source and for what `opentrn compile` writes."""
    from opentrn import _core

    return Path(name).suffix in SUFFIXES or _core.is_model_file(name)


def load(options: argparse.Namespace, name: str) -> Any:
    """The model that `name` means, compiled for the target unless it is already."""
    from opentrn import _core
    from opentrn.model import compiled as model
    from opentrn.model.compiled import tell_host_ops

    if Path(name).suffix == ".neuron" or _core.is_model_file(name):
        refuse_compilation(options)
        loaded = model.load(name)
        tell_host_ops(loaded.programs[0][1])
        return loaded
    return model.compile(
        name,
        target=options.target,
        dimensions=dimensions_of(options),
        cache=not options.no_cache,
        enable_stochastic_rounding=getattr(options, "enable_stochastic_rounding", False),
        strict=getattr(options, "strict", None) not in (None, False),
        **compilation_of(options),
    )


def refuse_compilation(options: argparse.Namespace) -> None:
    """UsageError for what decides how a model is compiled, as this one is; --dim chooses among its programs."""
    how = argparse.ArgumentParser(add_help=False)
    add_compilation(how)
    defaults = vars(how.parse_args([]))
    del defaults["dim"], defaults["custom_ops"]
    given = getattr(options, "stated_target", options.target)
    refuse_given(options, {**defaults, "no_cache": False}, "only for compiling a model, and this one is compiled")
    refuse_given(argparse.Namespace(target=given), {"target": None}, "this model is compiled for its target")


def begin_loading(progress: Progress, name: str) -> None:
    """Before load()."""
    progress.begin("loading the model" if Path(name).suffix == ".neuron" else "compiling the model")


def compilation_of(options: argparse.Namespace) -> dict[str, Any]:
    """What add_compilation() asks for, but for dimensions: arguments of model.compile()."""
    return {name: getattr(options, name) for name in PROGRAM_OPTIONS}


def load_one(options: argparse.Namespace, name: str) -> Any:
    """As load(), one program: of several that for the sizes of --dim, else the largest."""
    model = load(options, name)
    sizes = dimensions_of(options) if model.dimensions else {}
    return model.program_for({key: given[0] for key, given in sizes.items() if len(given) == 1})


def dimensions_of(options: argparse.Namespace) -> dict[str, list[int]]:
    """Sizes given as --dim NAME=SIZE[,SIZE]. Raises UsageError for what is none."""
    from opentrn.cli.kernel_file import UsageError

    sizes = {}
    for text in options.dim:
        name, _, given = text.partition("=")
        if not name or not given or not all(size.isdecimal() for size in given.split(",")):
            raise UsageError(
                f"--dim {text}: no name with a size",
                label="cli.argument",
                hint="write NAME=SIZE or NAME=SIZE,SIZE: batch=1,8",
            )
        sizes[name] = [int(size) for size in given.split(",")]
    return sizes


def one_size_of(options: argparse.Namespace) -> dict[str, int]:
    """As dimensions_of(), for commands that work on one program. Raises UsageError for several sizes."""
    from opentrn.cli.kernel_file import UsageError
    from opentrn.model import buckets

    sizes = dimensions_of(options)
    for name, given in sizes.items():
        if len(given) > 1:
            raise UsageError(
                f"--dim {name}: one size for this command", label="cli.argument", hint="--dim NAME=SIZE"
            )
    return buckets.first_of(sizes)


def compile_command(options: argparse.Namespace) -> int:
    """opentrn compile: what the program holds, how long it takes, and the file."""
    from opentrn import _core
    from opentrn.cli.commands import assumptions_text
    from opentrn.kernel.run import predicted_text
    from opentrn.settings import environment

    if cli_sharded.is_wanted(options, options.model):
        return cli_sharded.compile_command(options)
    options.stated_target = options.target
    options.target = environment.target(options.target)
    require_writable(options, "output", "report")
    with Progress(options) as progress:
        begin_loading(progress, options.model)
        begin = time.perf_counter()
        model = load(options, options.model)
        seconds = time.perf_counter() - begin
        output = Path(options.output or Path(options.model).with_suffix(".neuron").name)
        progress.begin(f"writing {output}")
        model.save(output, weights=options.weights)
        programs, cached = model.programs, model.cached
        staged = _staged(model)
        model = staged or programs[-1][1]
        progress.begin("timing")
        timing = _predicted(model, options.settings, options.loop_iterations)
    if timing is None and options.report:
        model.time(options.settings)  # raises: a report is what was asked for
    saved = _save_report(timing, options.report) if timing and options.report else []
    facts = {
        "model": shown(options.model),
        "target": options.target,
        "compile_s": round(seconds, 3),
        "instructions": model.instruction_count,
        "constant_bytes": model.constant_bytes,
        "cache": cached,
        "optlevel": options.optlevel,
        "auto_cast": options.auto_cast,
        "auto_cast_type": options.auto_cast_type,
        "weight_dtype": options.weight_dtype,
        "weight_sparsity": options.weight_sparsity,
        "passes": model.passes,
        "host_ops": dataclasses.asdict(model.host_ops),
        "inputs": list(map(dataclasses.astuple, model.inputs)),
        "outputs": list(map(dataclasses.astuple, model.outputs)),
        "time_us": timing.time_us if timing else None,
        "band": timing.band if timing else None,
        "basis": timing.basis if timing else None,
        "bound_by": timing.bound_by if timing else None,
        "file": shown(output),
        "file_bytes": output.stat().st_size,
        "report": saved,
    }
    if staged:
        facts["stages"] = list(starmap(_stage_facts, staged.compiled_stages))
    elif len(programs) > 1:
        facts["programs"] = []
        for sizes, part in programs:
            facts["programs"].append(_program_facts(sizes, part, options))
    if timing and options.report == "-":
        facts["profile"] = timing.profile()
    if timing:
        predicted = f"{predicted_text(timing)}\n{assumptions_text(timing)}"
    elif staged:
        predicted = "predicted: unknown, as it depends on the sizes of a run (opentrn run says it for them)\n"
    else:
        predicted = (
            "predicted: unknown, as loops run as often as values say (--loop-iterations N; a run counts them)\n"
        )
    report = _core.compile_report(json.dumps(facts), f"{staged.text()}\n" if staged else "", predicted)
    if options.json:
        print(report.json)
        return 0
    print(report.text, end="")
    if timing and options.report == "-":
        print(cli_style.headed(timing.model_text(), sys.stdout), end="")
        print(model.host_ops.text())
    return 0


def _stage_facts(stage: Any, program: Any) -> dict[str, Any]:
    from opentrn import _core

    return {
        "stage": stage.number, "sizes": stage.sizes, "instructions": program.instruction_count,
        "asks": list(map(_core.Ask.fields, stage.asks)), "nodes_left": stage.raw.nodes_left,
    }  # fmt: skip


def _program_facts(sizes: dict[str, int], program: Any, options: argparse.Namespace) -> dict[str, Any]:
    timing = _predicted(program, options.settings, options.loop_iterations)
    return {
        "dimensions": sizes, "instructions": program.instruction_count,
        "time_us": timing.time_us if timing else None,
    }  # fmt: skip


def _staged(model: Any) -> Any | None:
    """The model if it runs in stages."""
    return model if model.is_staged else None


def _predicted(model: Any, settings: Any = (), loop_iterations: int | None = None) -> Any | None:
    """The model's time; None where loops depend on values and nobody said how often they run."""
    try:
        return model.time(settings, loop_iterations=loop_iterations)
    except InputError as error:
        if error.label not in ("timing.trip_count", "timing.data_shape"):
            raise
        return None


def _save_report(timing: Any, target: str) -> list[str]:
    """The report as a page or as JSON, by the file's suffix; "-" is printed by the caller."""
    from opentrn.cli.kernel_file import UsageError
    from opentrn.report import html

    if target == "-":
        return []
    path = Path(target)
    if path.suffix == ".html":
        html.save(timing, path)
    elif path.suffix == ".json":
        with new_file(path) as part:
            part.write_text(json.dumps(timing.profile(), indent=1) + "\n", encoding="utf-8")
    else:
        raise UsageError(
            f"--report {target}: no kind of report",
            label="cli.output",
            hint="FILE.html, FILE.json or no file",
        )
    return [target]


def _execute(loaded: Any, options: argparse.Namespace) -> tuple[list[np.ndarray], Any, Inputs]:
    """The values, the program that made them, and of what."""
    from opentrn.cli.kernel_file import UsageError

    if not loaded.dimensions:
        if options.pad:
            raise UsageError(
                f"--pad {options.pad[0]}: this model has one program, for one size",
                label="cli.argument",
                hint="leave --pad out",
            )
        inputs = inputs_of(loaded, options.input)
        with inputs.explain_failures():
            return [] if options.no_execute else loaded(*inputs.arrays), loaded, inputs
    sizes = {name: given[0] for name, given in dimensions_of(options).items() if len(given) == 1}
    inputs = inputs_of(loaded, options.input, sizes)
    sizes = loaded.sizes_of(inputs.arrays)
    bucket, model = loaded.pick(sizes)
    if bucket != sizes:
        shown = [", ".join(f"{name}={size}" for name, size in row.items()) for row in (sizes, bucket)]
        print(f"{shown[0]} runs in the program for {shown[1]}, padded", file=sys.stderr)
    with inputs.explain_failures():
        outputs = [] if options.no_execute else loaded(*inputs.arrays, allow_padding=options.pad)
    return outputs, model, inputs


def run_command(options: argparse.Namespace) -> int:
    """opentrn run MODEL."""
    from opentrn.cli.commands import _output_facts, _output_text, print_assumptions
    from opentrn.kernel.run import predicted_text

    if cli_sharded.is_wanted(options, options.kernel):
        return cli_sharded.run_command(options)
    with Progress(options) as progress:
        begin_loading(progress, options.kernel)
        loaded = load(options, options.kernel)
        _set_rounding(loaded, options)
        _set_seed(loaded, options)
        progress.begin("computing")
        if staged := _staged(loaded):
            staged.on_progress = progress.begin
        with prints_aside(is_read_by_machines(options)):
            outputs, model, inputs = _execute(loaded, options)
        if staged := _staged(loaded):
            _tell_stages(staged)
        progress.begin("timing")
        timing = (
            None if options.no_time else model.time(options.settings, loop_iterations=options.loop_iterations)
        )
    facts = [_output_facts(value) for value in outputs]
    saved = _save(outputs, options) if options.save_outputs else []
    if options.json:
        print(json.dumps({
            "model": options.kernel, "target": model.target, "outputs": facts, "saved": saved,
            "instructions": model.instruction_count, "time_us": timing.time_us if timing else None,
            "profiles": [timing.profile()] if timing else [],
            "band": timing.band if timing else None,
            "sizes": model.path[-1].sizes if _staged(model) else {},
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
        print(predicted_text(timing, model.target))
        print_assumptions(timing)
    return 0


def profile_stages(model: Any, options: argparse.Namespace) -> int:
    """opentrn profile of a model in stages: of each program, for the sizes that seeded random inputs give."""
    from opentrn.report import html

    with Progress(options) as progress:
        progress.begin("computing")
        model.on_progress = progress.begin
        with prints_aside(is_read_by_machines(options)):
            inputs = inputs_of(model, options.input)
            with inputs.explain_failures():
                model(*inputs.arrays)
        progress.begin("timing")
        whole = model.time(options.settings, loop_iterations=options.loop_iterations)
    if not options.input:
        print("inputs: seeded random numbers, which decide the sizes", file=sys.stderr)
    inputs.tell()
    _tell_stages(model)
    for stage, timing in whole.parts:  # files first, as who reads the text may stop reading
        if options.html:
            page = Path(options.html)
            print(
                f"page: {html.save(timing, page.with_stem(f'{page.stem}.{stage.number}'), options.embed_source)}",
                file=sys.stderr,
            )
        if options.perfetto:
            trace = Path(options.perfetto)
            trace = trace.with_stem(f"{trace.stem}.{stage.number}")
            with new_file(trace) as part:
                timing.save_perfetto(part)
            print(f"Perfetto trace: {trace}", file=sys.stderr)
    if options.json and options.json != "-":
        with new_file(options.json) as part:
            part.write_text(json.dumps(whole.profile(), indent=1) + "\n", encoding="utf-8")
        print(f"JSON: {options.json}", file=sys.stderr)
    if options.json == "-":
        print(json.dumps(whole.profile(), indent=1))
    else:
        report = whole.text(options.lines) + whole.model_text(options.lines, options.depth)
        print(cli_style.headed(report, sys.stdout), end="")
    return 0


def _tell_stages(model: Any) -> None:
    """On stderr which programs ran, for which sizes."""
    for stage in model.path:
        sizes = f" for {stage.sizes_text()}" if stage.sizes else ""
        larger = model.padded.get(stage.key)
        room = f", in the program for {larger.sizes_text()}, padded" if larger else ""
        print(f"stage {stage.number} of {len(model.path)}{sizes}{room}", file=sys.stderr)


def _set_rounding(loaded: Any, options: argparse.Namespace) -> None:
    """Stochastic where the command or NEURON_RT_STOCHASTIC_ROUNDING_EN says so; else as the file says."""
    from opentrn.settings import environment

    stated = environment.read()
    refused = os.environ.get("NEURON_RT_STOCHASTIC_ROUNDING_EN") == "0"
    for model in [staged] if (staged := _staged(loaded)) else [part for _, part in loaded.programs]:
        if refused:
            model.round_stochastically(None)
        elif (
            stated.rounds_stochastically or options.enable_stochastic_rounding or model.rounds_stochastically
        ):
            model.round_stochastically(stated.rounding_seed)


def _set_seed(loaded: Any, options: argparse.Namespace) -> None:
    from opentrn.cli.kernel_file import UsageError

    try:
        loaded.seed(options.seed or 0)
    except InputError as error:
        raise UsageError(f"--seed: {error.message}", label="cli.argument", hint=error.hint) from None


def _save(outputs: list[np.ndarray], options: argparse.Namespace) -> list[str]:
    folder = Path(options.save_outputs)
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    for number, value in enumerate(outputs):
        path = folder / f"{Path(options.kernel).stem}.{number}.npy"
        with new_file(path) as part, open(part, "wb") as file:
            np.save(file, value)
        saved.append(str(path))
    return saved


def diff_command(options: argparse.Namespace) -> int:
    """opentrn diff MODEL: exit status 70 when an op's error is a bug of ours."""
    from opentrn.cli.commands import INTERNAL
    from opentrn.model import compiled as model
    from opentrn.model import diff
    from opentrn.settings import environment

    options.target = environment.target(options.target)
    how = {"target": options.target, "dimensions": one_size_of(options), **compilation_of(options)}
    with Progress(options) as progress:
        progress.begin("compiling the model")
        compiled = model.compile(options.model, **how)
        inputs = inputs_of(compiled, options.input)
        progress.begin("comparing every op with float64")
        with inputs.explain_failures():
            report = diff.diff(options.model, *inputs.arrays, **how)
    if options.json:
        print(json.dumps(report.json() | inputs.facts(), indent=1))
    else:
        inputs.tell()
        print(report.text(rows_max=options.lines), end="")
    return 0 if report.is_clean else INTERNAL


def add_dimensions(parser: argparse.ArgumentParser) -> None:
    """--dim, for every command that may compile a model."""
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE[,SIZE]",
                        help="size of a symbolic dimension of an ONNX model; several: one program each")  # fmt: skip
    parser.add_argument("--custom-ops", action="append", default=[], type=_operator_library, metavar="LIBRARY",
                        help="shared library with custom operators that the model calls")  # fmt: skip


def add_progress(parser: Any) -> None:
    """--progress, for every command that may take long."""
    parser.add_argument("--progress", action="store_true",
                        help="report each step, even if stderr is not a terminal")  # fmt: skip


def _operator_library(path: str) -> str:
    """Loads the library: what it exports is known from then on."""
    from opentrn import custom_op

    try:
        custom_op.load_library(path)
    except InputError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return path


def loop_iterations(text: str) -> int:
    """The number of --loop-iterations."""
    from opentrn.kernel.run import require_iterations

    try:
        count = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    try:
        require_iterations(count)
    except InputError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return count


def add_compilation(parser: argparse.ArgumentParser) -> None:
    """How a model is compiled, for every command that may do so: neuronx-cc's names."""
    add_dimensions(parser)
    for name in PROGRAM_OPTIONS:
        _add_option(parser, name)


def _add_option(parser: argparse.ArgumentParser, name: str) -> None:
    """An option of the compiler, as its table has it."""
    row = OPTIONS[name]
    flags = [row.letter] if row.letter else []
    flags.append("--" + row.name)
    if isinstance(row.default, bool):
        parser.add_argument(*flags, action="store_true", help=row.help)
        return
    parser.add_argument(
        *flags, type=type(row.default), default=row.default, choices=None if row.pattern else tuple(row.values),
        metavar=row.pattern or None, help=row.help,
    )  # fmt: skip


def add_running(parser: argparse.ArgumentParser) -> None:
    """What `opentrn run` takes for models alone."""
    parser.add_argument("--pad", action="append", default=[], metavar="NAME",
                        help="a dimension that may be padded because the model masks it")  # fmt: skip


def add_seed(parser: argparse.ArgumentParser) -> None:
    """--seed, for the command that computes values."""
    parser.add_argument("--seed", type=int, metavar="N",
                        help="seed of a model that generates random numbers without one, or of a kernel's "
                        "stochastic rounding (default 0)")  # fmt: skip


_FLAGS = {"settings": "--set, --tables"}  # of attributes that are called otherwise


def refuse_model_options(options: argparse.Namespace) -> None:
    """UsageError for options that say how a model is compiled or run, given for what is no model.

    --no-cache is none of them: what is no model is never taken from the cache. Kernels round stochastically too.
    """
    of_models = argparse.ArgumentParser(add_help=False)
    for add in (add_compilation, add_running, cli_sharded.add_options):
        add(of_models)
    refuse_options(options, of_models, "only for models, and this is none")


def refuse_options(options: argparse.Namespace, parser: argparse.ArgumentParser, why: str) -> None:
    """UsageError that names the options of `parser` with another value than their default."""
    refuse_given(options, vars(parser.parse_args([])), why)


def refuse_given(options: argparse.Namespace, defaults: dict[str, Any], why: str) -> None:
    """UsageError that names the options, by their attributes, with another value than `defaults` has: they would
    change nothing."""
    from opentrn.cli.kernel_file import UsageError

    given = [name for name, default in defaults.items() if getattr(options, name, default) != default]
    if given:
        names = ", ".join(_FLAGS.get(name, "--" + name.replace("_", "-")) for name in given)
        raise UsageError(
            f"{names}: {why}", label="cli.argument", hint=f"leave {'it' if len(given) == 1 else 'them'} out"
        )


def add_stochastic_rounding(parser: argparse.ArgumentParser) -> None:
    """--enable-stochastic-rounding, for the commands that make a file or run it."""
    _add_option(parser, "enable_stochastic_rounding")


def add_overrides(parser: argparse.ArgumentParser, what: str) -> None:
    """--set and --tables, in order, as opentrn.run(overrides=) takes them."""
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE",
                        help=f"what-if: {what}")  # fmt: skip
    parser.add_argument("--tables", action="append", type="@{}".format, dest="settings", metavar="FILE",
                        help="what-if: change table values by a TOML file")  # fmt: skip


def add_model(parser: argparse.ArgumentParser) -> None:
    """MODEL, for the commands that take a model alone."""
    parser.add_argument("model", metavar="MODEL", help=SOURCES)


def add_target(parser: Any) -> None:
    """--target, of commands that compile a model."""
    parser.add_argument("--target", help=f"trn1, inf2, trn2 or trn3 ({TARGET_DEFAULT})")


def add_input(parser: Any, what: str) -> None:
    """--input, as often as there are inputs."""
    parser.add_argument("--input", "-i", action="append", default=[], metavar="NAME=VALUE", help=what)


def add_json(parser: Any) -> None:
    """--json, for the commands that print a report."""
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """--no-cache, for every command that keeps what it compiles."""
    parser.add_argument("--no-cache", action="store_true",
                        help="compile even if the cache has the model, and do not keep it there")  # fmt: skip


def add_commands(commands: Any) -> None:
    """`compile` and `coverage` on the parser of the program."""
    compile_parser = commands.add_parser(
        "compile",
        description="Compile a whole model for one NeuronCore: StableHLO, HLO, ONNX or torch.export (.pt2). PyTorch "
        "reads .pt2 files with pickle, which runs code that is in them: open only those that you trust.",
        usage="opentrn compile [options] MODEL",
    )
    compile_parser.examples = (
        "opentrn compile model.onnx --dim batch=1 -o model.neuron    an ONNX model for one batch size",
        "opentrn compile model.onnx --dim batch=1,8 --target trn3    a program for each of two sizes",
        "opentrn compile examples/mlp.mlir --report                  and its time by layer",
    )
    add_model(compile_parser)
    target = compile_parser.add_argument_group("machine")
    add_target(target)
    add_overrides(target, "change a table value for the predicted time")
    how = compile_parser.add_argument_group("compilation")
    add_compilation(how)
    cli_sharded.add_options(how)
    add_stochastic_rounding(how)
    add_no_cache(how)
    how.add_argument("--strict", action="store_true",
                     help="refuse ops without a device kernel instead of running them on the host")  # fmt: skip
    how.add_argument("--loop-iterations", type=loop_iterations, metavar="N",
                     help="trip count of loops whose bounds depend on values, for the predicted time")  # fmt: skip
    cli_interrupts.add_option(how)
    output = compile_parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="FILE", help="default: the model's name with .neuron")
    output.add_argument("--weights", choices=["copy", "reference"], default="copy",
                        help="reference: refer to an ONNX model's weight files instead of copying them")  # fmt: skip
    output.add_argument("--report", nargs="?", const="-", metavar="FILE",
                        help="time by layer, memory and price: printed, or FILE.html or FILE.json")  # fmt: skip
    add_json(output)
    add_progress(output)
    compile_parser.set_defaults(command=compile_command)
    coverage_parser = commands.add_parser(
        "coverage",
        description="Say which ops of a model have a device kernel, without compiling it. "
        "Exit status 4 when one has none. Reading a .pt2 file runs code that is in it.",
    )  # fmt: skip
    coverage_parser.examples = (
        "opentrn coverage model.onnx --dim batch=1",
        "opentrn coverage exported.pt2 --json",
    )
    add_model(coverage_parser)
    add_dimensions(coverage_parser)
    add_input(
        coverage_parser,
        "an input on which shapes or branches depend: what is behind it is looked at for this value",
    )
    add_json(coverage_parser)
    coverage_parser.set_defaults(command=coverage_command)
    diff_parser = commands.add_parser(
        "diff",
        description="Run a model with every op's value kept, and compare each with float64: rounding, or a bug? "
        "Exit status 70 when an op's error is a bug. Reading a .pt2 file runs code that is in it.",
    )  # fmt: skip
    diff_parser.examples = (
        "opentrn diff model.onnx --dim batch=1",
        "opentrn diff model.onnx --dim batch=1 --auto-cast matmult -i 0=input.npy",
    )
    add_model(diff_parser)
    add_compilation(diff_parser)
    add_target(diff_parser)
    add_input(diff_parser, "an input: file.npy; others are seeded random numbers")
    diff_parser.add_argument("--lines", type=int, default=12, metavar="N", help="ops to show (default 12)")
    add_json(diff_parser)
    add_progress(diff_parser)
    diff_parser.set_defaults(command=diff_command)
    cache_parser = commands.add_parser(
        "cache",
        description="What `compile`, `run` and `profile` keep of compiled models. The folder is $OPENTRN_CACHE, else "
        "$NEURON_COMPILE_CACHE_URL, else ~/.cache/opentrn.",
    )  # fmt: skip
    cache_parser.add_argument("action", choices=["ls", "clear"])
    cache_parser.add_argument("--older-than", type=days, default=0.0, metavar="DAYS",
                              help="clear only models that were not used for this many days")  # fmt: skip
    add_json(cache_parser)
    cache_parser.set_defaults(command=cache_command)
