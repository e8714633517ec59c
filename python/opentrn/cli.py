"""The `opentrn` program: kernels here, whole models in cli_model.py; ls and describe are the C++ core's.

Exit status: 0, or whose fault it is: 1 the kernel's, 2 the input's or the command line's, 3 the program does
not fit, 4 OpenTrn does not model it, 5 the public specification does not say, 70 a bug of OpenTrn's.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentrn import cli_streams
from opentrn.cli_errors import CAPACITY, INPUT, INTERNAL, NOT_MODELLED, PROGRAM, UNSPECIFIED, report
from opentrn.cli_progress import Progress

__all__ = ["CAPACITY", "INPUT", "INTERNAL", "NOT_MODELLED", "PROGRAM", "UNSPECIFIED", "main"]

_CPP_COMMANDS = ("ls", "describe")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    if sys.stdout is None:
        print("opentrn: standard output is closed\n    try: >/dev/null", file=sys.stderr)
        return INPUT
    return cli_streams.flushed(_main(list(sys.argv[1:] if arguments is None else arguments)), INPUT)


def _main(words: list[str]) -> int:
    if words and words[0] in _CPP_COMMANDS:
        return _describe_or_list(words)
    if words[:1] == ["profile"] and "--" in words:
        from opentrn import cli_program

        return cli_program.main(words[1:])
    parser = _parser()
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help()
        return INPUT
    try:
        with _warnings_as_messages():
            return options.command(options)
    except KeyboardInterrupt:
        print("opentrn: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        cli_streams.discard_stdout()
        return 0
    except Exception as error:  # the API edge: every failure becomes a message and a status
        return report(error, options)


def _describe_or_list(words: list[str]) -> int:
    """A compiled model is described here, everything else by the C++ core."""
    from opentrn import _core, cli_model

    files = [word for word in words[1:] if not word.startswith("-")]
    try:
        if words[0] != "describe" or len(files) != 1 or not _core.is_model_file(files[0]):
            return _core.run_cli(words)
        return cli_model.describe_command(files[0], "--json" in words)
    except BrokenPipeError:
        cli_streams.discard_stdout()
        return 0
    except Exception as error:  # the API edge
        return report(error, argparse.Namespace())


@contextmanager
def _warnings_as_messages() -> Iterator[None]:
    """What is said of a kernel's results is about the kernel's line, not about ours."""
    from opentrn.errors import RESULT_WARNINGS

    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **options: Any) -> None:
        if issubclass(category, RESULT_WARNINGS):
            print(f"opentrn: warning: {message}", file=sys.stderr)
        else:
            shown(message, category, *rest, **options)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


# -- options -------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    from opentrn import __version__, cli_compare, cli_model

    parser = argparse.ArgumentParser(
        prog="opentrn",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="AWS Trainium in software: run NKI kernels, predict their time, see where it goes.",
        epilog="Exit status: 1 the kernel's fault, 2 the command line's or an input's, 3 does not fit,\n"
        "4 not modelled, 5 unspecified by the public documents, 70 a bug of OpenTrn's.",
    )
    parser.add_argument("--version", action="version", version=f"opentrn {__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    run = commands.add_parser(
        "run",
        help="run a kernel or a model: outputs and predicted time",
        description="Run a kernel or a model.",
        **_kernel_help(),
    )
    _add_kernel_options(run)
    run.add_argument("--json", action="store_true", help="print JSON; what a kernel prints is on stderr")
    run.add_argument("--save-outputs", metavar="DIR", help="write outputs as DIR/<kernel>.<n>.npy")
    run.add_argument(
        "--save-program",
        metavar="FILE",
        help="write the program, for profile and disasm; as text if FILE ends in .txt",
    )
    run.add_argument(
        "--scheduled",
        action="store_true",
        help="with --save-program: as compiled, with placements, streams and schedule",
    )
    cli_model.add_running(run)
    cli_model.add_seed(run)
    run.add_argument("--no-time", action="store_true", help="values only")
    run.set_defaults(command=_run)

    profile = commands.add_parser(
        "profile", help="predict a kernel's time and show where it goes",
        description="Predict the time of a kernel or a model and show where it goes. `opentrn profile -- COMMAND` "
        "runs a JAX program on simulated devices and sums its device time.", **_kernel_help(),
    )  # fmt: skip
    _add_kernel_options(profile, ", a saved program")
    profile.add_argument("--html", metavar="FILE", help="write a page with a timeline")
    profile.add_argument("--perfetto", metavar="FILE", help="write the events for ui.perfetto.dev")
    profile.add_argument("--json", metavar="FILE", help="write the profile as JSON ('-' prints it)")
    profile.add_argument("--lines", type=int, default=12, metavar="N", help="rows of each table (default 12)")
    profile.add_argument("--depth", type=int, default=0, metavar="N",
                         help="levels of a model's layers to show (default: as many as fit a screen)")  # fmt: skip
    profile.set_defaults(command=_profile)

    disasm = commands.add_parser(
        "disasm", help="list the instructions a kernel issues",
        description="List what a kernel issues, in program order, or what a saved program holds.",
        **_kernel_help(),
    )  # fmt: skip
    _add_kernel_options(disasm, ", a saved program")
    disasm.add_argument("--scheduled", action="store_true",
                        help="as compiled: then placements, streams and schedule")  # fmt: skip
    disasm.set_defaults(command=_disasm, no_execute=True, prints_aside=True)

    cli_model.add_commands(commands)
    cli_compare.add_command(commands)
    for name, text in (("ls", "list the machines OpenTrn knows"), ("describe", "everything the tables say")):
        commands.add_parser(name, help=text, add_help=False)
    return parser


def _kernel_help() -> dict[str, Any]:
    from opentrn import kernel_file

    return {
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "epilog": _wrapped((kernel_file.__doc__ or "").split("\n", 2)[2]),
    }


def _wrapped(text: str) -> str:
    """Paragraphs at the width of a terminal that nobody has resized; indented ones are examples and stay."""
    return "\n\n".join(
        part if part.startswith("    ") else textwrap.fill(part, 79, break_on_hyphens=False)
        for part in text.strip("\n").split("\n\n")
    )


def _add_kernel_options(parser: argparse.ArgumentParser, also: str = "") -> None:
    """What the commands that take kernels share; `also`: what else this command takes."""
    from opentrn import cli_model

    parser.add_argument("kernel", help=f"file.py:function, package.module:function{also} or a model")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="NAME=VALUE",
                        help="an argument: 128x512:bfloat16:randn(1), file.npy, 3, True")  # fmt: skip
    cli_model.add_compilation(parser)
    cli_model.add_stochastic_rounding(parser)
    cli_model.add_no_cache(parser)
    _add_kernel_only(parser)
    parser.add_argument(
        "--target",
        default="trn2",
        help="trn1, inf2, trn2, trn3, or an instance, chip or core as opentrn ls names it (default trn2); "
        "inf1 with --set for what is not public",
    )
    cli_model.add_overrides(parser, "change a table value, timing.v3.constant.hbm_sustained_gb_s=300")
    parser.add_argument("--strict", metavar="VERSION", nargs="?", const="",
                        help="of a kernel: refuse what this NKI release documents that it refuses, 0.1, 0.3 to 0.6; "
                        "of a model, without a version: refuse what no device kernel takes")  # fmt: skip
    parser.add_argument("--loop-iterations", type=cli_model.loop_iterations, metavar="N",
                        help="of device loops whose bounds depend on values that are not computed")  # fmt: skip
    parser.add_argument("--no-execute", action="store_true", help="predict the time without computing values")
    parser.add_argument("--progress", action="store_true", help="show progress even if stderr is no terminal")
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")


def _add_kernel_only(parser: argparse.ArgumentParser) -> None:
    """How a kernel is launched; a model is none of it."""
    parser.add_argument("--grid", type=_grid, metavar="N[,N]", help="launch grid of an NKI 0.1 kernel")
    parser.add_argument("--lnc", type=int, default=1, choices=(1, 2),
                        help="cores of the logical core; 2 from trn2 on")  # fmt: skip
    parser.add_argument(
        "--compiler",
        choices=("nki", "neuronx-cc"),
        help="whose habits the backend follows (default: neuronx-cc for NKI 0.1 kernels)",
    )
    parser.add_argument("--disable-dge", action="store_true",
                        help="prepare DMA descriptors before the launch, as neuronx-cc with this flag")  # fmt: skip
    parser.add_argument("--eager", action="store_true",
                        help="execute instruction by instruction, for a debugger or print()")  # fmt: skip
    parser.add_argument("--uninitialised", choices=("fault", "fill"),
                        help="what reading unwritten memory does; fill reads NaN and 4 (default fault)")  # fmt: skip


def _grid(text: str) -> tuple[int, ...]:
    """The sizes of --grid."""
    sizes = text.split(",")
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is no grid; write its sizes, as in 4 or 4,2")
    return tuple(int(size) for size in sizes)


def _refuse_kernel_options(options: argparse.Namespace) -> None:
    """UsageError for options that say how a kernel is launched, given for a model."""
    from opentrn import cli_model

    of_kernels = argparse.ArgumentParser(add_help=False)
    _add_kernel_only(of_kernels)
    cli_model.refuse_options(options, of_kernels, "of kernels, and this is a model")


# -- commands ------------------------------------------------------------------------------------------------


def _launch(options: argparse.Namespace, progress: Progress, execute: bool, timed: bool = True) -> Any:
    """Load the kernel, make its inputs, run it."""
    with cli_streams.prints_aside(cli_streams.is_read_by_machines(options)):
        return _launch_and_print(options, progress, execute, timed)


def _launch_and_print(options: argparse.Namespace, progress: Progress, execute: bool, timed: bool) -> Any:
    import opentrn
    from opentrn import cli_model, kernel_file
    from opentrn._run import is_legacy
    from opentrn.isa_enums import require_logical_core

    cli_model.refuse_model_options(options)
    require_logical_core(options.target, options.lnc)
    if options.strict == "":
        raise kernel_file.UsageError("--strict of a kernel takes an NKI release, as in --strict 0.6")
    opentrn.activate()
    progress.begin("loading the kernel")
    kernel, module = kernel_file.load_kernel(options.kernel)
    if options.grid:
        if not is_legacy(kernel):
            raise kernel_file.UsageError(
                "--grid: of NKI 0.1 kernels, and this is none; two cores are --lnc 2"
            )
        kernel = kernel[options.grid]
    progress.begin("making inputs")
    inputs = kernel_file.inputs_of(kernel, module, options.input, execute)
    _require_arguments(kernel, inputs)
    return opentrn.run(
        kernel, target=options.target, lnc=options.lnc, execute=execute, time=timed,
        overrides=options.settings, compiler=options.compiler, strict=options.strict,
        eager=options.eager, loop_iterations=options.loop_iterations, dge=False if options.disable_dge else None,
        uninitialised=options.uninitialised, stochastic_rounding=_rounding(options),
        on_progress=progress.begin, **inputs,
    )  # fmt: skip


def _rounding(options: argparse.Namespace) -> int | bool | None:
    """Of a kernel, as opentrn.run takes it; NEURON_RT_STOCHASTIC_ROUNDING_EN=0 wins over the command, as for models."""
    from opentrn import environment, stochastic_rounding
    from opentrn.kernel_file import UsageError

    stated = environment.rounding()
    seed = getattr(options, "seed", None)
    wanted = options.enable_stochastic_rounding or stated.enabled
    if seed is not None and not wanted:
        raise UsageError(
            "--seed of a kernel is that of stochastic rounding: add --enable-stochastic-rounding"
        )
    if stated.enabled is False or not wanted:
        return False
    try:
        return stochastic_rounding.checked(True if seed is None else seed)
    except ValueError as error:
        raise UsageError(f"--seed: {error}") from None


def _require_arguments(kernel: Any, inputs: dict[str, Any]) -> None:
    """Say which inputs are missing or unknown before anything runs."""
    import inspect

    from opentrn.kernel_file import UsageError

    parameters = inspect.signature(getattr(kernel, "func", kernel)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    required = [n for n, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    missing = [name for name in required if name not in inputs]
    if missing:
        example = " ".join(f"--input {name}=128x512:bfloat16" for name in missing)
        raise UsageError(f"inputs without a value: {', '.join(missing)}\n    try: {example}")
    unknown = sorted(set(inputs) - set(parameters))
    if unknown:
        raise UsageError(f"the kernel has no input {', '.join(unknown)}; it has: {', '.join(parameters)}")


def _run(options: argparse.Namespace) -> int:
    from opentrn import cli_model
    from opentrn._run import predicted_text
    from opentrn.kernel_file import UsageError

    if options.no_execute and options.no_time:
        raise UsageError("--no-execute and --no-time leave nothing to do")
    if options.scheduled and (not options.save_program or options.no_time):
        raise UsageError("--scheduled is of --save-program, and needs the compiler: leave --no-time out")
    if options.no_execute and options.save_outputs:
        raise UsageError("--save-outputs needs values: leave --no-execute out")
    if options.save_outputs and Path(options.save_outputs).is_file():
        raise UsageError(f"--save-outputs {options.save_outputs}: a file, not a folder")
    cli_streams.require_writable(options, "save_program")
    if _is_program_file(options.kernel):
        raise UsageError(
            f"{options.kernel} is a saved program, which holds no values of its inputs to run with\n"
            "    try: opentrn profile or opentrn disasm, or opentrn run with the kernel"
        )
    if cli_model.is_model(options.kernel):
        _refuse_kernel_options(options)
        return cli_model.run_command(options)
    with Progress(options) as progress:
        result = _launch(options, progress, execute=not options.no_execute, timed=not options.no_time)
        progress.begin("reading outputs")
        outputs = [_output_facts(value) for value in _flat(result.outputs)]
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
            "kernel": options.kernel, "target": result.target, "lnc": options.lnc, "outputs": outputs,
            "saved": saved, "instructions": result.instruction_count,
            "time_us": result.time_us if result.timings else None,
            "profiles": [timing.profile() for timing in result.timings],
        }, indent=1))  # fmt: skip
        return 0
    for number, facts in enumerate(outputs):
        print(f"output {number}: {_output_text(facts)}")
    for path in saved:
        print(f"saved {path}")
    for timing in result.timings:
        print(predicted_text(timing, result.target))
        print_assumptions(timing)
    if not result.timings:
        print(f"{result.instruction_count} instructions")
    return 0


def print_assumptions(timing: Any) -> None:
    """What a predicted time rests on besides published facts, a line each."""
    for text in timing.assumptions:
        print(f"  rests on an assumption: {text}")


def _is_program_file(name: str) -> bool:
    """True for what save_program() writes, in either form."""
    try:
        with open(name, "rb") as file:
            return file.read(8).startswith((b"OTRN", b"opentrn "))
    except OSError:
        return False


def _time_program_file(options: argparse.Namespace) -> Any:
    from opentrn import _core
    from opentrn._run import RunResult
    from opentrn.isa_enums import require_logical_core

    require_logical_core(options.target, options.lnc)
    cores = [options.kernel, *(f"{options.kernel}.core{core}" for core in range(1, options.lnc))]
    timing = _core.time_files(
        cores, options.target, options.settings, neuronx_cc=options.compiler == "neuronx-cc",
        dge=not options.disable_dge, default_trip_count=options.loop_iterations,
    )  # fmt: skip
    return RunResult(None, timing.profile()["program"], options.target, [], [timing])


def _time_model(model: Any, options: argparse.Namespace) -> Any:
    from opentrn._run import RunResult

    timing = model.time(options.settings, loop_iterations=options.loop_iterations)
    return RunResult(None, timing.profile()["program"], model.target, [], [timing])


def _profile(options: argparse.Namespace) -> int:
    from opentrn import cli_model
    from opentrn.stages import StagedModel

    cli_streams.require_writable(options, "html", "perfetto", "json")
    if _is_program_file(options.kernel):
        cli_model.refuse_model_options(options)
        result = _time_program_file(options)
    elif cli_model.is_model(options.kernel):
        _refuse_kernel_options(options)
        with Progress(options) as progress:
            cli_model.begin_loading(progress, options.kernel)
            model = cli_model.load_one(options, options.kernel)
        if isinstance(model, StagedModel):
            return cli_model.profile_stages(model, options)
        with Progress(options) as progress:
            progress.begin("timing")
            result = _time_model(model, options)
    else:
        with Progress(options) as progress:
            result = _launch(options, progress, execute=not options.no_execute)
    if options.json != "-":
        for number, timing in enumerate(result.timings):
            print(("\n" if number else "") + timing.text(options.lines), end="")
            print(timing.model_text(options.lines, options.depth), end="")
    if options.html:
        print(f"\npage: {result.save_html(options.html)}", file=sys.stderr)
    if options.perfetto:
        print(f"Perfetto trace: {result.save_perfetto(options.perfetto)}", file=sys.stderr)
    if options.json == "-":
        print(json.dumps(result.timing.profile(), indent=1))
    elif options.json:
        print(f"JSON: {result.save_json(options.json)}", file=sys.stderr)
    return 0


def _disasm(options: argparse.Namespace) -> int:
    from opentrn import _core, cli_model

    if _is_program_file(options.kernel):
        sys.stdout.write(_core.listing_of_file(options.kernel))
        return 0
    if cli_model.is_model(options.kernel):
        _refuse_kernel_options(options)
        sys.stdout.write(cli_model.load_one(options, options.kernel).program_text())
        return 0
    with Progress(options) as progress:
        result = _launch(options, progress, execute=False, timed=options.scheduled)
    for number, machines in enumerate(result.machines):
        for core in range(len(machines)):
            if len(result.machines) > 1 or len(machines) > 1:
                print(f"# launch {number}, core {core}")
            sys.stdout.write(result.program_text(number, core, options.scheduled))
    return 0


def _flat(outputs: Any) -> list[Any]:
    if outputs is None:
        return []
    if isinstance(outputs, (tuple, list)):
        return [leaf for item in outputs for leaf in _flat(item)]
    if isinstance(outputs, dict):
        return [leaf for item in outputs.values() for leaf in _flat(item)]
    return [outputs]


def _output_facts(value: Any) -> dict[str, Any]:
    import numpy as np

    from opentrn.shapes import ShapeOf

    if isinstance(value, ShapeOf):
        return {"shape": list(value.shape), "dtype": value.dtype}
    if not isinstance(value, np.ndarray):
        return {"value": repr(value)}
    facts: dict[str, Any] = {"shape": list(value.shape), "dtype": str(value.dtype)}
    if value.size and value.dtype.names is None:
        try:
            numbers = value.astype(np.float64)
        except (TypeError, ValueError):
            return facts  # packed formats have no plain numbers
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            facts |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
        facts["not_finite"] = int(numbers.size - finite.size)
    return facts


def _output_text(facts: dict[str, Any]) -> str:
    if "value" in facts:
        return facts["value"]
    text = f"{facts['dtype']} [{', '.join(map(str, facts['shape']))}]"
    if "min" in facts:
        text += f"  min {facts['min']:.6g}  max {facts['max']:.6g}  mean {facts['mean']:.6g}"
    if facts.get("not_finite"):
        text += f"  {facts['not_finite']} not finite"
    if "unwritten" in facts:
        text += f"  {facts['unwritten']} never written, from {facts['first_unwritten']}"
    return text


def _save(outputs: Any, options: argparse.Namespace) -> list[str]:
    import numpy as np

    folder = Path(options.save_outputs)
    folder.mkdir(parents=True, exist_ok=True)
    name = options.kernel.rpartition(":")[2].removesuffix(".py").replace("/", "_")
    saved = []
    for number, value in enumerate(_flat(outputs)):
        path, array = folder / f"{name}.{number}.npy", np.asarray(value)
        np.save(path, array)
        plain = array.dtype.isbuiltin == 1  # numpy's own; .npy keeps only the size of the others
        saved.append(str(path) if plain else f"{path} ({array.dtype}: read it as {path}:{array.dtype})")
    return saved


if __name__ == "__main__":
    sys.exit(main())
