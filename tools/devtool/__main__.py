"""./dev: one entry for everything that is done with this checkout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from devtool import (
    assumptions,
    coverage_fuzz,
    docsite,
    environment,
    release,
    sanitizers,
    status,
    style,
    suites,
    system,
    testing,
    wheel,
)
from devtool.build import build, has_all_parts
from devtool.paths import ROOT, TOOLS, venv_bin
from devtool.report import DevError, run, say

_EPILOG = """\
On a bare Debian 12 or Ubuntu 22.04 (or newer) machine, `./dev demo` and `./dev test` install what is
missing (apt packages of tools/apt.txt, a virtual environment in .venv, the pinned packages of
tools/requirements*.txt), build into build/, and do their work. A second run only does what changed.
A first `./dev demo` installs and builds what kernels and models on one core need; other commands add the rest.
"""

_FORWARDING = ("demo", "test", "bench", "conformance", "fidelity")
_PACKAGE = ("opentrn_python", "neuronpjrt")  # CMake targets: all that Python needs, without the C++ tests
_DEMO = ("opentrn_python",)
_DEMO_PARTS = "models"  # of opentrn._core, and all that the demo runs (decision 0298)
_PRESETS = ("release", "debug", "asan-ubsan", "tsan")


def _set_up(small: bool = False) -> None:
    system.install_missing()
    environment.prepare(small)


def _python_tool(module: str, arguments: list[str], small: bool = False) -> int:
    """Builds, then runs `python -m module` in the caller's folder, so that relative paths work.

    small: kernels and models on one core are enough; what is built already is not taken away.
    """
    package = (TOOLS if module.startswith("devtool.") else ROOT).joinpath(*module.split("."))
    if not (package / "__main__.py").exists() and not package.with_suffix(".py").exists():
        raise DevError(f"this checkout has no {module.replace('.', '/')} yet", "see docs/roadmap.md")
    small = small and not has_all_parts("release")
    _set_up(small)
    if small:
        build("release", _DEMO, parts=_DEMO_PARTS)
    else:
        build("release", _PACKAGE)
    search = os.pathsep.join([str(ROOT), str(ROOT / "python"), str(TOOLS)])
    command = [venv_bin("python"), "-m", module, *arguments]
    return run(command, hint="", env={"PYTHONPATH": search}, check=False)


def _demo(arguments: argparse.Namespace) -> int:
    if arguments.rest[:1] == ["chat"]:
        return _python_tool("examples.chat", arguments.rest[1:])
    return _python_tool("examples.minilm", arguments.rest, small=True)


def _test(arguments: argparse.Namespace) -> int:
    if {"-h", "--help"} & {*arguments.rest}:
        print(testing.HELP)
        return 0
    if "--record-slow" in arguments.rest:
        return testing.record_slow()
    _set_up()
    return testing.run_all(arguments.rest)


def _wheel_test(arguments: argparse.Namespace) -> int:
    _set_up()
    return wheel.check(venv_bin("python"))


def _release(arguments: argparse.Namespace) -> int:
    if not arguments.check:
        _set_up()
    return release.make(arguments)


def _bench(arguments: argparse.Namespace) -> int:
    if "--models" in arguments.rest:
        _set_up()
        suites.install_requirements("models")
    return _python_tool("benchmarks", arguments.rest)


def _conformance(arguments: argparse.Namespace) -> int:
    if not arguments.rest or arguments.rest[0].startswith("-"):
        print(suites.help_text())
        return 0 if arguments.rest else 2
    suite, *rest = arguments.rest
    runner = suites.module(suite)
    _set_up()
    suites.install_requirements(suite)
    return _python_tool(runner, rest)


def _fidelity(arguments: argparse.Namespace) -> int:
    return _python_tool("fidelity.run", arguments.rest)


def _assumptions(_: argparse.Namespace) -> int:
    return assumptions.write()


def _status(_: argparse.Namespace) -> int:
    return status.write()


def _stubs(_: argparse.Namespace) -> int:
    return _python_tool("devtool.stubs", [])


def _docs(arguments: argparse.Namespace) -> int:
    return docsite.build(arguments.serve)


def _lint(arguments: argparse.Namespace) -> int:
    _set_up()
    return style.lint(tidy=arguments.tidy)


def _format(arguments: argparse.Namespace) -> int:
    _set_up()
    return style.format_sources()


def _fuzz(arguments: argparse.Namespace) -> int:
    _set_up()
    if arguments.record:
        if arguments.target or arguments.coverage_guided or arguments.nice is not None or arguments.seed is not None:
            raise DevError("--record runs nothing, so that no other option means anything", "give it alone")
        return run([venv_bin("python"), "-m", "tests.fuzz.campaign", "--record"], hint="", cwd=ROOT, check=False)
    if arguments.cpu_minutes is not None:
        return _fuzz_campaign(arguments)
    if arguments.nice is not None:
        raise DevError("--nice needs --cpu-minutes", "add it, or start ./dev with nice(1)")
    if arguments.coverage_guided:
        return coverage_fuzz.run_targets(arguments.seconds, arguments.target)
    if arguments.target:
        raise DevError("--target needs --cpu-minutes or --coverage-guided", "add one of them")
    build("release")
    count = testing.run_fuzz(arguments.seconds, arguments.seed)
    if count.passed + count.failed == 0:
        raise DevError("this checkout has no tests/fuzz yet", "see docs/roadmap.md")
    return 0 if count.failed == 0 else 1


def _fuzz_campaign(arguments: argparse.Namespace) -> int:
    targets = arguments.target or []
    if arguments.coverage_guided:
        names = targets or [*coverage_fuzz.TARGETS]
        coverage_fuzz.prepare(names)
        targets = [f"guided:{name}" for name in names]
    else:
        build("release", ("opentrn_fuzz", *_PACKAGE))
    words = ["--cpu-minutes", str(arguments.cpu_minutes)]
    words += [word for target in targets for word in ("--target", target)]
    words += [] if arguments.seed is None else ["--seed", str(arguments.seed)]
    words += [] if arguments.nice is None else ["--nice", str(arguments.nice)]
    return run([venv_bin("python"), "-m", "tests.fuzz.campaign", *words], hint="", cwd=ROOT, check=False)


def _build(arguments: argparse.Namespace) -> int:
    _set_up()
    folder = build(arguments.preset, tuple(arguments.targets))
    say(f"built {folder.relative_to(ROOT)}/")
    return 0


def _sanitize(arguments: argparse.Namespace) -> int:
    _set_up()
    return sanitizers.run_sanitizers(
        arguments.preset or [*sanitizers.PRESETS], arguments.fuzz_seconds, arguments.tests
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev",
        description="Set up, build, test and show OpenTrn.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, action: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, add_help=name not in _FORWARDING)
        command.set_defaults(action=action)
        return command

    add("demo", _demo, "MiniLM as NKI kernels and as one model; `chat`: SmolLM2 answers")
    add("test", _test, "build and run every test; arguments go to pytest")
    add("bench", _bench, "side-by-side benchmarks")
    add(
        "conformance",
        _conformance,
        "another project's tests: nki-docs|nki-samples|nki-library|stablehlo|jax PATH, onnx, torch",
    )
    add("wheel-test", _wheel_test, "build the wheel, install it into a new environment, run a kernel with it")
    made = add("release", _release, "the files of a release in out/release: a wheel for each Python, sums, notes")
    made.add_argument("--tag", metavar="vX.Y.Z", help="refuse where this checkout is another version")
    made.add_argument("--check", action="store_true", help="print the notes, and build nothing")
    made.add_argument("--python", action="append", metavar="PYTHON", help="an interpreter to build for; several")
    add("fidelity", _fidelity, "predicted against published times")
    add("assumptions", _assumptions, "write docs/assumptions.md from the marks in the sources")
    add("status", _status, "write docs/status.md from the tables of the sources")
    add("stubs", _stubs, "write the type stubs of the C++ extensions and of nki.isa")
    docs = add("docs", _docs, "build the documents as a site, with the reference of the Python API, into out/docs")
    docs.add_argument("--serve", action="store_true", help="show it on a local port, and again after each change")
    lint = add("lint", _lint, "check layers, ruff, vermin, mypy and clang-format")
    lint.add_argument(
        "--tidy",
        nargs="*",
        metavar="FILE",
        help="also run clang-tidy on these files (default: all of src, which takes hours on few cores)",
    )
    add("format", _format, "rewrite the sources with clang-format and ruff")
    fuzz = add("fuzz", _fuzz, "run the fuzzers")
    length = fuzz.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=int, default=600, help="how long (default: 600)")
    length.add_argument(
        "--cpu-minutes",
        type=float,
        help="of processor time for each target, in turns at the lowest priority; out/fuzz/slices.tsv keeps what was "
        "done, from which the next call goes on",
    )
    length.add_argument(
        "--record",
        action="store_true",
        help="run nothing: add what out/fuzz/slices.tsv keeps to docs/measurements/fuzzing.tsv, which calls on other "
        "machines count too",
    )
    fuzz.add_argument(
        "--nice",
        type=int,
        help="with --cpu-minutes: priority, from 19, which takes what others leave, to 0, as others (default: 19)",
    )
    fuzz.add_argument(
        "--seed", type=int, help="the cases of an earlier run, which printed its seed (default: new)"
    )
    fuzz.add_argument(
        "--coverage-guided",
        action="store_true",
        help="libFuzzer on the readers of files, with clang, which this installs; --seconds is of each target",
    )
    fuzz.add_argument(
        "--target",
        action="append",
        help="with --coverage-guided or --cpu-minutes: which, again for more (default: all)",
    )
    build_command = add("build", _build, "configure and build")
    build_command.add_argument("--preset", default="release", choices=_PRESETS, help="default: release")
    build_command.add_argument("targets", nargs="*", help="CMake targets (default: all)")
    sanitize = add("sanitize", _sanitize, "C++ tests, Python tests and fuzzers under the sanitizers")
    sanitize.add_argument("--preset", action="append", choices=sanitizers.PRESETS, help="default: both")
    sanitize.add_argument(
        "--fuzz-seconds", type=int, default=60, help="of each preset (default: 60; 0: none)"
    )
    sanitize.add_argument(
        "tests", nargs="*", help="Python tests, for pytest (default: those of the C++ parts)"
    )
    return parser


def _parse(argv: list[str]) -> argparse.Namespace:
    """Arguments after a forwarding command are not looked at here: they belong to what it starts."""
    if argv and argv[0] in _FORWARDING:
        arguments = _parser().parse_args(argv[:1])
        arguments.rest = argv[1:]
        return arguments
    return _parser().parse_args(argv)


def main() -> int:
    # Set by the ./dev script for this process only.
    os.environ.pop("PYTHONPATH", None)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    arguments = _parse(sys.argv[1:])
    try:
        return arguments.action(arguments)
    except DevError as error:
        print(f"./dev {arguments.command}: {error}", file=sys.stderr)
        if error.hint:
            print(f"  try: {error.hint}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
