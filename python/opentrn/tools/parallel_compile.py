"""neuron_parallel_compile: the graphs of a program, collected in a run of it and compiled.

AWS's tool fills the cache of a compiler that takes minutes for a graph. OpenTrn's frameworks compile in memory and read
no such cache: what this tells is which graphs a program has, and whether each compiles, before a long run. The program
is run as it is, so that its results are valid; say how few steps it should take. Graphs are those of JAX programs, as
OPENTRN_DUMP keeps them, in the cache's folder, and what they are compiled to lies beside them. Programs of PyTorch
leave none.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from opentrn.errors import InputError
from opentrn.tools.neuronx_cc import parse_cache_dir

_DEFAULT = "/var/tmp/neuron-compile-cache"
_COMMANDS = ("collect", "compile", "clean", "clear-locks")
_USAGE = """\
usage: neuron_parallel_compile [--command collect|compile|clean|clear-locks] [PROGRAM ...]

Runs PROGRAM, collects the graphs that it compiles and compiles each; a summary says which failed.

  --command collect      only run PROGRAM and keep its graphs
  --command compile      only compile the graphs that were kept
  --command clean        remove kept graphs and what they were compiled to
  --command clear-locks  nothing: files appear by renaming, there are no locks

The folder: --cache_dir of NEURON_CC_FLAGS, else NEURON_COMPILE_CACHE_URL, else /var/tmp/neuron-compile-cache.
NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE=1: compile what a program that failed had until then.
"""


def folder() -> Path:
    """Raises InputError "tools.parallel_compile" for a place that is no folder of this machine."""
    place = parse_cache_dir(os.environ.get("NEURON_CC_FLAGS", ""))
    place = place or os.environ.get("NEURON_COMPILE_CACHE_URL") or _DEFAULT
    if "://" in place and not place.startswith("file://"):
        raise InputError(
            f"{place} is no folder", label="tools.parallel_compile", hint="name a path; s3:// is not read"
        )
    return Path(place.removeprefix("file://")) / "opentrn-graphs"


def _graphs(place: Path) -> list[Path]:
    return sorted(path for path in place.glob("*.mlirbc") if path.is_file()) if place.is_dir() else []


def _compiled(path: Path) -> str:
    """Compiles one graph; why it failed, or ""."""
    from opentrn.model.compiled import compile as compile_model

    try:
        compile_model(path).save(path.with_suffix(".neuron"))
    except (ValueError, NotImplementedError, RuntimeError, MemoryError, OSError) as error:
        return str(error)
    return ""


def collect(place: Path, program: list[str]) -> int:
    """The status of the program."""
    place.mkdir(parents=True, exist_ok=True)
    print(f"INFO ||NEURON_CACHE||: Compile cache path: {place}", flush=True)
    environment = dict(os.environ, NEURON_PARALLEL_COMPILE="1", OPENTRN_DUMP=str(place))
    try:
        return subprocess.run(program, env=environment, check=False).returncode
    except OSError as error:
        raise InputError(f"{program[0]}: {error.strerror}", label="tools.parallel_compile") from error


def compile_all(place: Path) -> int:
    """Prints AWS's summary; 1 where a graph does not compile."""
    graphs = _graphs(place)
    with ProcessPoolExecutor(max_workers=max(1, min(len(graphs), os.cpu_count() or 1))) as pool:
        reasons = list(pool.map(_compiled, graphs))
    report = {str(path): {"status": not why, "retry": 0} for path, why in zip(graphs, reasons, strict=True)}
    good = sum(not why for why in reasons)
    counts = {name: count for name, count in (("true", good), ("false", len(graphs) - good)) if count}
    text = json.dumps({"compilation_summary": counts, "compilation_report": report}, indent=4)
    print(f"INFO ||NEURON_PARALLEL_COMPILE||: {text}")
    for path, why in zip(graphs, reasons, strict=True):
        if why:
            print(f"ERROR ||NEURON_PARALLEL_COMPILE||: {path}: {why}", file=sys.stderr)
    for what, count in (
        ("graphs", len(graphs)),
        ("successful compilations", good),
        ("failed compilations", len(graphs) - good),
    ):
        print(f"INFO ||NEURON_PARALLEL_COMPILE||: Total {what}: {count}")
    return 0 if good == len(graphs) else 1


def run(words: list[str]) -> int:
    """The exit status of `neuron_parallel_compile WORDS`."""
    command, rest = "", list(words)
    try:
        if not rest or rest[0] in ("-h", "--help"):
            print(_USAGE, end="")
            return 0 if rest else 1
        if rest[0] == "--command" or rest[0].startswith("--command="):
            first = rest.pop(0)
            command = first.partition("=")[2] or (rest.pop(0) if rest else "")
            if command not in _COMMANDS:
                raise InputError(
                    f"--command {command[:40]!r}: one of {', '.join(_COMMANDS)}",
                    label="tools.parallel_compile",
                )
        place = folder()
        if command == "clean":
            shutil.rmtree(place, ignore_errors=True)
            return 0
        if command == "clear-locks":
            return 0
        if not rest and command != "compile":
            raise InputError(
                "no program is named", label="tools.parallel_compile", hint="neuron_parallel_compile --help"
            )
        if command != "compile":
            status = collect(place, rest)
            ignore = os.environ.get("NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE") == "1"
            if status and not ignore:
                raise InputError(f"{shlex.join(rest)} ended with {status}", label="tools.parallel_compile")
        return compile_all(place) if command != "collect" else 0
    except InputError as error:
        print(f"neuron_parallel_compile: {error}", file=sys.stderr)
        return 1
