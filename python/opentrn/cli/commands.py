"""`opentrn run`, `profile` and `disasm` of kernels; of whole models in models.py. dispatch.py calls them.

Exit status: 0, or whose fault it is: 1 the kernel's, 2 the input's or the command line's, 3 the program does
not fit, 4 OpenTrn does not model it, 5 the public specification does not say, 70 a bug of OpenTrn's. 124: longer
than --deadline, 130: interrupted by Ctrl-C, 143: ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.base.files import new_file
from opentrn.cli import help as cli_help
from opentrn.cli import interrupts as cli_interrupts
from opentrn.cli import loops as cli_loops
from opentrn.cli import sharded as cli_sharded
from opentrn.cli import streams as cli_streams
from opentrn.cli import style as cli_style
from opentrn.cli.dispatch import main
from opentrn.cli.errors import CAPACITY, INPUT, INTERNAL, NOT_MODELLED, PROGRAM, UNSPECIFIED
from opentrn.cli.progress import Progress
from opentrn.errors import InputError

__all__ = ["CAPACITY", "INPUT", "INTERNAL", "NOT_MODELLED", "PROGRAM", "UNSPECIFIED", "main"]


# -- options -------------------------------------------------------------------------------------------------


def add_run(commands: Any) -> None:
    """`run` on the parser of the program."""
    from opentrn.cli import models as cli_model

    run = commands.add_parser(
        "run",
        description="Run a kernel or a model.",
        **_kernel_help("run"),
    )
    run.examples = (
        "opentrn run examples/03_softmax.py                          a kernel with its file's inputs",
        "opentrn run kernel.py:softmax -i x=256x512:bfloat16         one of a file, with your inputs",
        "opentrn run model.onnx --dim batch=1 --target trn3          a model",
    )
    groups = _add_kernel_options(run)
    groups.output.add_argument(
        "--json", action="store_true", help="print JSON; what a kernel prints is on stderr"
    )
    groups.output.add_argument("--save-outputs", metavar="DIR", help="write outputs as DIR/<kernel>.<n>.npy")
    groups.output.add_argument(
        "--save-program",
        metavar="FILE",
        help="write the program, for profile and disasm; as text if FILE ends in .txt",
    )
    groups.output.add_argument(
        "--scheduled",
        action="store_true",
        help="with --save-program: write the compiled program, with placements, streams and schedule",
    )
    cli_model.add_running(groups.model)
    cli_model.add_seed(groups.inputs)
    groups.inputs.add_argument("--no-time", action="store_true", help="compute values only")
    run.set_defaults(command=_run)


def add_profile(commands: Any) -> None:
    """`profile` on the parser of the program."""
    profile = commands.add_parser(
        "profile",
        description="Predict the time of a kernel or a model and show where it goes. `opentrn profile -- COMMAND` "
        "runs a JAX or PyTorch program on simulated devices and sums its device time.", **_kernel_help("profile"),
    )  # fmt: skip
    profile.examples = (
        "opentrn profile kernel.py --html profile.html               tables, and a page with a timeline",
        "opentrn profile model.onnx --dim batch=1 --no-execute       a model's time by layer",
        "opentrn profile -- python train.py                          a JAX or PyTorch program",
    )
    output = _add_kernel_options(profile, ", a saved program").output
    output.add_argument("--html", metavar="FILE", help="write a page with a timeline")
    output.add_argument("--embed-source", action="append", default=[], metavar="FILE",
                        help="with --html: include the text of this file if the program names it (default: "
                        "the files of the kernel)")  # fmt: skip
    output.add_argument("--perfetto", metavar="FILE", help="write the events for ui.perfetto.dev")
    output.add_argument("--json", metavar="FILE", help="write the profile as JSON ('-' prints it)")
    output.add_argument("--lines", type=int, default=12, metavar="N", help="rows of each table (default 12)")
    output.add_argument("--depth", type=int, default=0, metavar="N",
                        help="levels of a model's layers to show (default: as many as fit a screen)")  # fmt: skip
    profile.set_defaults(command=_profile)


def add_disasm(commands: Any) -> None:
    """`disasm` on the parser of the program."""
    disasm = commands.add_parser(
        "disasm",
        description="List what a kernel issues, in program order, or what a saved program holds.",
        **_kernel_help("disasm"),
    )  # fmt: skip
    disasm.examples = (
        "opentrn disasm kernel.py                                    a kernel, as it is written",
        "opentrn disasm kernel.py --scheduled                        as compiled, with its schedule",
        "opentrn disasm model.neuron                                 a compiled model",
    )
    output = _add_kernel_options(disasm, ", a saved program").output
    output.add_argument("--scheduled", action="store_true",
                        help="list the compiled program, with placements, streams and schedule")  # fmt: skip
    disasm.set_defaults(command=_disasm, no_execute=True, prints_aside=True)


def _kernel_help(command: str) -> dict[str, Any]:
    from opentrn.cli import kernel_file

    return {
        "usage": f"opentrn {command} [options] KERNEL|MODEL",
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "epilog": _wrapped((kernel_file.__doc__ or "").split("\n", 2)[2]),
    }


def _wrapped(text: str) -> str:
    """Paragraphs at the width of a terminal that nobody has resized; indented ones are examples and stay."""
    return "\n\n".join(
        part if part.startswith("    ") else textwrap.fill(part, 79, break_on_hyphens=False)
        for part in text.strip("\n").split("\n\n")
    )


def _add_kernel_options(parser: argparse.ArgumentParser, also: str = "") -> cli_help.Groups:
    """What the commands that take kernels share; `also`: what else this command takes."""
    from opentrn.cli import models as cli_model

    parser.add_argument("kernel", metavar="KERNEL|MODEL",
                        help=f"file.py:function, package.module:function{also} or a model")  # fmt: skip
    groups = cli_help.Groups.of(parser)
    cli_model.add_input(groups.inputs, "an argument: 128x512:bfloat16:randn(1), 1024x, file.npy, 3, True")
    groups.inputs.add_argument(
        "--no-execute", action="store_true", help="predict the time without computing values"
    )
    groups.inputs.add_argument("--loop-iterations", type=cli_model.loop_iterations, metavar="N",
                               help="trip count of device loops whose bounds depend on unknown values")  # fmt: skip
    groups.inputs.add_argument("--strict", metavar="VERSION", nargs="?", const="",
                               help="for a kernel: apply the documented refusals of this NKI release, 0.1, 0.3 to "
                               "0.6; for a model, without a version: refuse ops without a device kernel")  # fmt: skip
    cli_loops.add_option(groups.inputs)
    cli_interrupts.add_option(groups.inputs)
    cli_model.add_stochastic_rounding(groups.inputs)
    groups.target.add_argument(
        "--target",
        help="trn1, inf1, inf2, trn2, trn3, or an instance, chip or core as opentrn ls names it "
        f"({cli_model.TARGET_DEFAULT})",
    )
    cli_model.add_overrides(groups.target, "change a table value, timing.v3.constant.hbm_sustained_gb_s=300")
    _add_kernel_only(groups.kernel)
    cli_model.add_compilation(groups.model)
    cli_sharded.add_options(groups.model)
    cli_model.add_no_cache(groups.model)
    cli_model.add_progress(groups.output)
    groups.output.add_argument(
        "--traceback", action="store_true", help="show the Python traceback of an error"
    )
    return groups


def _add_kernel_only(parser: Any) -> None:
    """How a kernel is launched; a model is none of it."""
    parser.add_argument("--grid", type=_grid, metavar="N[,N]", help="launch grid of an NKI 0.1 kernel")
    parser.add_argument("--lnc", type=int, default=1, choices=(1, 2),
                        help="cores of the logical core; 2 from trn2 on")  # fmt: skip
    parser.add_argument("--ranks", type=_rank_count, metavar="N",
                        help="logical cores that run the kernel and communicate by nki.collectives")  # fmt: skip
    parser.add_argument(
        "--compiler",
        choices=("nki", "neuronx-cc"),
        help="the compiler that the backend emulates (default: nki; neuronx-cc for NKI 0.1 kernels)",
    )
    parser.add_argument("--disable-dge", action="store_true",
                        help="prepare DMA descriptors before the launch, as neuronx-cc with this flag")  # fmt: skip
    parser.add_argument("--eager", action="store_true",
                        help="execute instruction by instruction, for a debugger or print()")  # fmt: skip
    parser.add_argument("--uninitialised", choices=("fault", "fill"),
                        help="uninitialised memory is an error (fault, the default) or reads as NaN and 4")  # fmt: skip


def _rank_count(text: str) -> int:
    """The number of --ranks."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks; write 1 or more")
    return int(text)


def _grid(text: str) -> tuple[int, ...]:
    """The sizes of --grid."""
    sizes = text.split(",")
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not a grid; write its sizes, as in 4 or 4,2")
    return tuple(int(size) for size in sizes)


def _refuse_kernel_options(options: argparse.Namespace) -> None:
    """UsageError for options that say how a kernel is launched, given for a model."""
    from opentrn.cli import models as cli_model

    of_kernels = argparse.ArgumentParser(add_help=False)
    _add_kernel_only(of_kernels)
    cli_model.refuse_options(options, of_kernels, "only for kernels, and this is a model")


# What a kernel's launch, its values and its compilation take, by default.
_OF_VALUES = {"eager": False, "uninitialised": None, "enable_stochastic_rounding": False, "loop_limit": None}
_OF_SCHEDULING: dict[str, Any] = {"settings": [], "compiler": None, "disable_dge": False, "loop_iterations": None}
_OF_A_LAUNCH: dict[str, Any] = {**_OF_VALUES, "input": [], "strict": None, "grid": None, "ranks": None}


# -- commands ------------------------------------------------------------------------------------------------


def _launch(options: argparse.Namespace, progress: Progress, execute: bool, timed: bool = True) -> Any:
    """Load the kernel, make its inputs, run it."""
    with cli_streams.prints_aside(cli_streams.is_read_by_machines(options)):
        return _launch_and_print(options, progress, execute, timed)


def _launch_and_print(options: argparse.Namespace, progress: Progress, execute: bool, timed: bool) -> Any:
    from opentrn.cli import kernel_file
    from opentrn.cli import models as cli_model
    from opentrn.compat import activate
    from opentrn.kernel.run import is_legacy, run
    from opentrn.settings import environment
    from opentrn.types.isa_enums import require_logical_core

    cli_model.refuse_model_options(options)
    if options.strict == "":
        raise kernel_file.UsageError(
            "--strict of a kernel takes an NKI release, as in --strict 0.6", label="cli.argument"
        )
    activate()
    progress.begin("loading the kernel")
    kernel, module = kernel_file.load_kernel(options.kernel)
    options.target = environment.target(options.target, kernel)
    require_logical_core(options.target, options.lnc)
    if options.grid:
        if not is_legacy(kernel):
            raise kernel_file.UsageError(
                "--grid: only for NKI 0.1 kernels, and this is none",
                label="cli.argument",
                hint="--lnc 2 for two cores",
            )
        kernel = kernel[options.grid]
    progress.begin("making inputs")
    if options.ranks and is_legacy(kernel):
        raise kernel_file.UsageError(
            "--ranks: of kernels with nki.collectives, which NKI 0.1 has not", label="cli.argument"
        )
    inputs = kernel_file.inputs_of(kernel, module, options.input, execute, options.ranks)
    _require_arguments(kernel, inputs)
    return run(
        kernel, target=options.target, lnc=options.lnc, execute=execute, time=timed,
        overrides=options.settings, compiler=options.compiler, strict=options.strict,
        eager=options.eager, loop_iterations=options.loop_iterations, dge=False if options.disable_dge else None,
        uninitialised=options.uninitialised, stochastic_rounding=_rounding(options),
        loop_limit=options.loop_limit, on_progress=progress.begin, ranks=options.ranks, **inputs,
    )  # fmt: skip


def _rounding(options: argparse.Namespace) -> int | bool | None:
    """Of a kernel, as opentrn.run takes it; NEURON_RT_STOCHASTIC_ROUNDING_EN=0 wins over the command, as for models."""
    from opentrn.cli.kernel_file import UsageError
    from opentrn.settings import environment, stochastic_rounding

    stated = environment.rounding()
    seed = getattr(options, "seed", None)
    wanted = options.enable_stochastic_rounding or stated.enabled
    if seed is not None and not wanted:
        raise UsageError(
            "--seed of a kernel is that of stochastic rounding",
            label="cli.argument",
            hint="add --enable-stochastic-rounding",
        )
    if stated.enabled is False or not wanted:
        return False
    try:
        return stochastic_rounding.checked(True if seed is None else seed)
    except InputError as error:
        raise UsageError(f"--seed: {error.message}", label="cli.argument", hint=error.hint) from None


def _require_arguments(kernel: Any, inputs: dict[str, Any]) -> None:
    """Say which inputs are missing or unknown before anything runs."""
    import inspect

    from opentrn.cli.kernel_file import UsageError

    parameters = inspect.signature(getattr(kernel, "func", kernel)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    required = [n for n, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    missing = [name for name in required if name not in inputs]
    if missing:
        example = " ".join(f"--input {name}=128x512:bfloat16" for name in missing)
        raise UsageError(f"inputs without a value: {', '.join(missing)}", label="cli.input", hint=example)
    unknown = sorted(set(inputs) - set(parameters))
    if unknown:
        raise UsageError(
            f"the kernel has no input {', '.join(unknown)}",
            label="cli.input",
            hint=f"it has: {', '.join(parameters)}",
        )


def _run(options: argparse.Namespace) -> int:
    from opentrn.cli import models as cli_model
    from opentrn.cli.kernel_file import UsageError
    from opentrn.kernel.run import predicted_text

    if options.no_execute and options.no_time:
        raise UsageError(
            "--no-execute and --no-time leave nothing to do",
            label="cli.argument",
            hint="leave one of them out",
        )
    if options.scheduled and (not options.save_program or options.no_time):
        raise UsageError(
            "--scheduled is of --save-program, and needs the compiler",
            label="cli.argument",
            hint="leave --no-time out",
        )
    if options.no_execute and options.save_outputs:
        raise UsageError("--save-outputs needs values", label="cli.argument", hint="leave --no-execute out")
    if options.save_outputs and Path(options.save_outputs).is_file():
        raise UsageError(f"--save-outputs {options.save_outputs}: a file, not a folder", label="cli.output")
    cli_streams.require_writable(options, "save_program")
    if _is_program_file(options.kernel):
        raise UsageError(
            f"{options.kernel} is a saved program, which holds no values of its inputs to run with",
            label="cli.kernel",
            hint="opentrn profile or opentrn disasm, or opentrn run with the kernel",
        )
    if cli_model.is_model(options.kernel):
        _refuse_kernel_options(options)
        why = "only for kernels, and this is a model: opentrn compile"
        cli_model.refuse_given(options, {"save_program": None}, why)
        with cli_loops.limited_loops(options.loop_limit):
            return cli_model.run_command(options)
    with Progress(options) as progress:
        result = _launch(options, progress, execute=not options.no_execute, timed=not options.no_time)
        progress.begin("reading outputs")
        outputs = [_output_facts(value) for value in _core.leaves_of(result.outputs)]
        if len(result.machines) == 1:
            for unwritten in result.unwritten:
                outputs[unwritten.number] |= {
                    "unwritten": unwritten.count,
                    "first_unwritten": list(unwritten.first),
                }
        saved = _save(result.outputs, options) if options.save_outputs else []
    if options.save_program:
        saved += [str(path) for path in result.save_program(options.save_program, options.scheduled)]
    if options.json:
        print(json.dumps({
            "kernel": options.kernel, "target": result.target, "lnc": options.lnc, "ranks": options.ranks,
            "outputs": outputs, "collectives": [dataclasses.asdict(row) for row in result.collectives],
            "saved": saved, "instructions": result.instruction_count,
            "time_us": result.time_us if result.timings else None,
            "profiles": [timing.profile() for timing in result.timings],
            "bands": [timing.band for timing in result.timings],
            "traffic": json.loads(result.traffic.json()) if result.traffic is not None else None,
        }, indent=1))  # fmt: skip
        return 0
    names = _output_names(result)
    for name, facts in zip(names, outputs):
        print(f"{name}: {_output_text(facts)}")
    for path in saved:
        print(f"saved {path}")
    for line in collective_texts(result):
        print(cli_style.fitted(line, sys.stdout))
    if options.ranks and len(result.timings) > 1:
        print(f"the slowest of {options.ranks} ranks:")
    for timing in [result.timing] if options.ranks and result.timings else result.timings:
        print(predicted_text(timing, result.target))
        print_assumptions(timing)
    if not result.timings:
        print(f"{result.instruction_count} instructions")
    return 0


def _output_names(result: Any) -> list[str]:
    """Of each output, in the order of _core.leaves_of()."""
    if result.ranks is None:
        return [f"output {number}" for number in range(len(_core.leaves_of(result.outputs)))]
    return [
        f"rank {rank} output {number}"
        for rank, outputs in enumerate(result.outputs)
        for number in range(len(_core.leaves_of(outputs)))
    ]


def collective_texts(result: Any) -> list[str]:
    """The collectives of a run, equal ones on one line, and what they did to the fabric where they were timed."""
    counts: dict[str, int] = {}
    for row in result.collectives:
        size = f"{row.bytes} bytes of each rank" if row.bytes else "no bytes"
        text = f"{row.what}: group {row.group}, {size}, {Path(row.file).name}:{row.line}"
        counts[text] = counts.get(text, 0) + 1
    lines = [
        f"collective: {text}" + (f" ({count} times)" if count > 1 else "") for text, count in counts.items()
    ]
    if result.traffic is not None and lines:
        lines.append(result.traffic.text(4).rstrip())
    return lines


def print_assumptions(timing: Any) -> None:
    """What a predicted time rests on besides published facts, and how far to trust it, a line each."""
    print(cli_style.fitted(assumptions_text(timing), sys.stdout), end="")


def assumptions_text(timing: Any) -> str:
    """The lines of print_assumptions()."""
    lines = "".join(map("rests on an assumption: {}\n".format, timing.assumptions))
    return textwrap.indent(lines + (timing.trust_text() if timing.total_ns else ""), "  ")


def _is_program_file(name: str) -> bool:
    """True for what save_program() writes, in either form."""
    if not Path(name).is_file():
        return False  # a FIFO is not waited for
    try:
        with open(name, "rb") as file:
            return file.read(8).startswith((b"OTRN", b"opentrn "))
    except OSError:
        return False


def _time_program_file(options: argparse.Namespace) -> Any:
    from opentrn.kernel.run import RunResult
    from opentrn.settings import environment
    from opentrn.types.isa_enums import require_logical_core

    options.target = environment.target(options.target)
    require_logical_core(options.target, options.lnc)
    neuronx_cc = options.compiler == "neuronx-cc"
    timing = _core.time_files(
        options.kernel, options.lnc, options.target, options.settings, neuronx_cc=neuronx_cc,
        dge=not options.disable_dge, default_trip_count=options.loop_iterations,
    )  # fmt: skip
    return RunResult(None, timing.profile()["program"], options.target, [], [timing])


def _time_model(model: Any, options: argparse.Namespace) -> Any:
    from opentrn.kernel.run import RunResult

    timing = model.time(options.settings, loop_iterations=options.loop_iterations)
    return RunResult(None, timing.profile()["program"], model.target, [], [timing])


def _profile(options: argparse.Namespace) -> int:
    from opentrn.cli import models as cli_model

    cli_streams.require_writable(options, "html", "perfetto", "json")
    if not options.html:
        cli_model.refuse_given(options, {"embed_source": []}, "only for the page that --html writes")
    if _is_program_file(options.kernel):
        cli_model.refuse_model_options(options)
        cli_model.refuse_given(options, {**_OF_A_LAUNCH, "depth": 0}, "only for a launch, and this is a saved program")
        result = _time_program_file(options)
    elif cli_model.is_model(options.kernel):
        _refuse_kernel_options(options)
        if cli_sharded.is_wanted(options, options.kernel):
            return cli_sharded.profile_command(options)
        with Progress(options) as progress:
            cli_model.begin_loading(progress, options.kernel)
            model = cli_model.load_one(options, options.kernel)
        if model.is_staged:
            return cli_model.profile_stages(model, options)
        cli_model.refuse_given(options, {"input": [], "loop_limit": None, "enable_stochastic_rounding": False},
                               "only for values, and the time of this model does not depend on them")  # fmt: skip
        with Progress(options) as progress:
            progress.begin("timing")
            result = _time_model(model, options)
    else:
        cli_model.refuse_given(options, {"depth": 0}, "only for a model's layers, and this is a kernel")
        with Progress(options) as progress:
            result = _launch(options, progress, execute=not options.no_execute)
    # Files come first: who reads the text may stop reading (`| head`), which ends the command.
    if options.html:
        print(f"page: {result.save_html(options.html, options.embed_source)}", file=sys.stderr)
    if options.perfetto:
        print(f"Perfetto trace: {result.save_perfetto(options.perfetto)}", file=sys.stderr)
    if options.json == "-":
        print(json.dumps(result.timing.profile(), indent=1))
        return 0
    if options.json:
        print(f"JSON: {result.save_json(options.json)}", file=sys.stderr)
    timings = result.timings if result.ranks is None else [result.timing]
    for number, timing in enumerate(timings):
        report = timing.text(options.lines) + timing.model_text(options.lines, options.depth)
        print(("\n" if number else "") + cli_style.headed(report, sys.stdout), end="")
    for line in collective_texts(result):
        print(line)
    return 0


def _disasm(options: argparse.Namespace) -> int:
    from opentrn.cli import models as cli_model

    if _is_program_file(options.kernel):
        cli_model.refuse_model_options(options)
        unused = {**_OF_A_LAUNCH, **_OF_SCHEDULING, "scheduled": False, "target": None, "lnc": 1}
        cli_model.refuse_given(options, unused, "a saved program is listed as it is")
        sys.stdout.write(_core.listing_of_file(options.kernel))
        return 0
    if cli_model.is_model(options.kernel):
        _refuse_kernel_options(options)
        if cli_sharded.is_wanted(options, options.kernel):
            raise InputError(
                "disasm lists the program of one NeuronCore", label="cli.argument", hint="leave --mesh out"
            )
        unused = {"input": [], "scheduled": False, "loop_limit": None, "loop_iterations": None, "settings": []}
        cli_model.refuse_given(options, unused, "a compiled model is listed as it is")
        with Progress(options) as progress:
            cli_model.begin_loading(progress, options.kernel)
            text = cli_model.load_one(options, options.kernel).program_text()
        sys.stdout.write(text)
        return 0
    cli_model.refuse_given(options, _OF_VALUES, "only for values, and disasm computes none")
    if not options.scheduled:
        cli_model.refuse_given(options, _OF_SCHEDULING, "only for a program as compiled, which --scheduled lists")
    with Progress(options) as progress:
        result = _launch(options, progress, execute=False, timed=options.scheduled)
    for number, machines in enumerate(result.machines):
        for core in range(len(machines)):
            if len(result.machines) > 1 or len(machines) > 1:
                print(f"# launch {number}, core {core}")
            sys.stdout.write(result.program_text(number, core, options.scheduled))
    return 0


def _output_facts(value: Any) -> dict[str, Any]:
    import numpy as np

    from opentrn.types.shapes import ShapeOf

    if isinstance(value, ShapeOf):
        return {"shape": list(value.shape), "dtype": value.dtype}
    if not isinstance(value, np.ndarray):
        return {"value": repr(value)}
    facts: dict[str, Any] = {"shape": list(value.shape), "dtype": str(value.dtype)}
    if value.size and value.dtype.names is None:
        try:
            numbers: np.ndarray = value.astype(np.float64)
        except (TypeError, ValueError):
            return facts  # packed formats have no plain numbers
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            facts |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
        facts["not_finite"] = int(numbers.size - finite.size)
    return facts


def _output_text(facts: dict[str, Any]) -> str:
    return _core.output_text(json.dumps(facts))


def _save(outputs: Any, options: argparse.Namespace) -> list[str]:
    import numpy as np

    folder = Path(options.save_outputs)
    folder.mkdir(parents=True, exist_ok=True)
    name = options.kernel.rpartition(":")[2].removesuffix(".py").replace("/", "_")
    saved = []
    for number, value in enumerate(_core.leaves_of(outputs)):
        path, array = folder / f"{name}.{number}.npy", np.asarray(value)
        with new_file(path) as part, open(part, "wb") as file:
            np.save(file, array)
        plain = array.dtype.isbuiltin == 1  # numpy's own; .npy keeps only the size of the others
        saved.append(str(path) if plain else f"{path} ({array.dtype}: read it as {path}:{array.dtype})")
    return saved
