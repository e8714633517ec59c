"""neuron_parallel_compile: the graphs of a program, collected in a run of it and compiled in parallel into a cache.

Graphs are those of torch.compile's backend and of JAX programs, as OPENTRN_DUMP keeps them. In the run, torch.compile
leaves compiling out and the host evaluates its graphs (NEURON_EXTRACT_GRAPHS_ONLY); JAX compiles as it always does,
into its own persistent cache, which lies in the same folder. Results of the run are valid; say how few steps it should
take.

CACHE/neuronxcc-opentrn-VERSION/MODULE_<graph>+<options>/ holds a graph (model.mlir, of JAX model.mlirbc), what it is
compiled for (options.json), and then model.done, or model.failed with the reason. Programs of PyTorch lie in
CACHE/models, the cache of opentrn.model.cache, which torch.compile reads where the environment names it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from opentrn import _core
from opentrn.base.files import new_file
from opentrn.errors import InputError

_DEFAULT = "/var/tmp/neuron-compile-cache"
_USAGE = """\
usage: neuron_parallel_compile [--command COMMAND] [PROGRAM ...]

Runs PROGRAM, collects the graphs that it compiles and compiles each into a cache; a summary says which failed.

  --command collect      only run PROGRAM and keep its graphs
  --command compile      only compile the graphs that were kept
  --command clean        remove kept graphs and what they were compiled to
  --command clear-locks  remove files that interrupted compilations left half written
  --command analyze      run PROGRAM and write which operations of its graphs a device takes
    --analyze-output DIR       where result.json is written (default: model_analysis_result)
    --analyze-verbosity 1|2    1: operations; 2: and where the program has the first of each (default: 2)

The folder: --cache_dir of NEURON_CC_FLAGS, else NEURON_COMPILE_CACHE_URL, else /var/tmp/neuron-compile-cache. The run
that is to read the cache needs one of these variables too.
NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE=1: compile what a program that failed had until then.
NEURON_PARALLEL_COMPILE_MAX_RETRIES=N: try so often again. NEURON_CC_FLAGS=--retry_failed_compilation: try graphs again
that failed in an earlier run.
"""


def _refuse(message: str, hint: str = "") -> InputError:
    return InputError(message, label="tools.parallel_compile", hint=hint)


def _say(who: str, text: str) -> None:
    print(f"INFO ||NEURON_{who}||: {text}", flush=True)


def folder() -> Path:
    """Raises InputError "tools.parallel_compile" for a place that is no folder of this machine."""
    place = _core.cache_dir_of_flags(os.environ.get("NEURON_CC_FLAGS", ""))
    place = place or os.environ.get("NEURON_COMPILE_CACHE_URL") or _DEFAULT
    if "://" in place and not place.startswith("file://"):
        raise _refuse(f"{place} is not a folder", "name a path; s3:// is not read")
    return Path(place.removeprefix("file://")).absolute()


def _of_version(place: Path) -> Path:
    from opentrn import __version__

    return place / f"neuronxcc-opentrn-{__version__}"


def graphs(place: Path) -> list[Path]:
    """The graphs that the cache keeps, of this version of OpenTrn."""
    return sorted(_of_version(place).glob("MODULE_*/model.mlir*"))


def _sort_in(found: Path, place: Path) -> Path:
    """A graph from the folder of a run into its own, which its content names."""
    graph = found.read_bytes()
    beside = found.with_suffix(".json")
    options = beside.read_text() if beside.is_file() else "{}"
    names = [hashlib.sha256(each).hexdigest() for each in (graph, options.encode())]
    module = _of_version(place) / f"MODULE_{names[0][:20]}+{names[1][:8]}"
    module.mkdir(parents=True, exist_ok=True)
    for name, content in (("options.json", options.encode()), (f"model{found.suffix}", graph)):
        with new_file(module / name) as part:
            part.write_bytes(content)
    return module / f"model{found.suffix}"


def collect(place: Path, program: list[str]) -> int:
    """Runs the program and keeps its graphs; its status. Raises InputError for a folder that cannot be written."""
    _say("CACHE", f"Compile cache path: {place}")
    try:
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, prefix="collect-") as run:
            environment = dict(
                os.environ, NEURON_PARALLEL_COMPILE="1", NEURON_EXTRACT_GRAPHS_ONLY="1", OPENTRN_DUMP=run
            )
            # JAX's own cache keeps what the run compiles, however small: it would leave out what takes no second.
            environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(place / "jax"))
            environment.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
            environment.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
            try:
                status = subprocess.run(program, env=environment, check=False).returncode
            except OSError as error:
                raise _refuse(f"{program[0]}: {error.strerror}") from error
            found = [path for path in sorted(Path(run).iterdir()) if path.suffix in (".mlir", ".mlirbc")]
            for path in found:
                kept = _sort_in(path, place)
                _say("CC_WRAPPER", f"Extracting graphs ({kept}) for ahead-of-time parallel compilation. "
                     "No compilation was done.")  # fmt: skip
            return status
    except OSError as error:
        raise _refuse(f"{error.filename or place}: {error.strerror}", "name a folder that can be written") from error


@dataclass
class _Outcome:
    why: str = ""  # it failed; empty: it did not
    retries: int = 0
    was_there: bool = False


def _options_of(graph: Path) -> tuple[str | None, dict[str, str]]:
    """(target or None, options). InputError for a file that is damaged."""
    file = graph.parent / "options.json"
    try:
        stated = json.loads(file.read_bytes())
        target, options = stated.get("target"), stated.get("options", {})
        good = isinstance(target, str | None) and isinstance(options, dict)
    except (ValueError, RecursionError, AttributeError):
        good = False
    if not good:
        raise _refuse(f"{file} is damaged", "neuron_parallel_compile --command clean")
    return target, {str(key): str(value) for key, value in options.items()}


def _compile_once(graph: Path) -> None:
    from opentrn.model import compiled

    target, options = _options_of(graph)
    if graph.suffix == ".mlir" and target:
        compiled.text_through_cache(graph.read_text(), "<graph>", target, options)
    else:  # of JAX, whose own cache has it: whether it compiles
        compiled.compile(graph)


def _compiled(graph: Path, retries: int, again: bool) -> _Outcome:
    """Compiles one graph, and writes what came of it beside it."""
    done, failed = graph.parent / "model.done", graph.parent / "model.failed"
    outcome = _Outcome()
    if failed.exists() and not again:
        return _Outcome(f"failed before ({failed.read_text().strip()}); --retry_failed_compilation tries again")
    outcome.was_there = done.exists()
    while True:
        try:
            _compile_once(graph)
            failed.unlink(missing_ok=True)
            with new_file(done) as part:
                part.write_text("")
            outcome.why = ""
            return outcome
        except (ValueError, NotImplementedError, RuntimeError, MemoryError, OSError) as error:
            outcome.why = str(error) or type(error).__name__
        if outcome.retries == retries:
            break
        outcome.retries += 1
    done.unlink(missing_ok=True)
    with new_file(failed) as part:
        part.write_text(outcome.why + "\n")
    return outcome


def compile_all(place: Path) -> int:
    """Prints AWS's summary; 1 where a graph does not compile."""
    found = graphs(place)
    flags = os.environ.get("NEURON_CC_FLAGS", "")
    retries = _core.parallel_compile_retries(os.environ.get("NEURON_PARALLEL_COMPILE_MAX_RETRIES", ""))
    again = _core.has_compiler_flag(flags, "--retry_failed_compilation")
    _say("CACHE", f"Current remaining items are {len(found)}, locked are 0, failed are 0, done are 0, "
         f"total is {len(found)}")  # fmt: skip
    _say("PARALLEL_COMPILE", f"master grab hlos to compile: {[str(path) for path in found]}")
    os.environ["OPENTRN_CACHE"] = str(place)
    with ProcessPoolExecutor(max_workers=max(1, min(len(found), os.cpu_count() or 1))) as pool:
        count = len(found)
        outcomes = list(pool.map(_compiled, found, [retries] * count, [again] * count))
    rows = [(str(path), each.why, each.retries) for path, each in zip(found, outcomes, strict=True)]
    text, totals, failures = _core.parallel_compile_summary(rows)
    _say("CACHE", f"Current remaining items are 0, locked are 0, failed are {len(failures)}, "
         f"done are {len(found) - len(failures)}, total is {len(found)}")  # fmt: skip
    _say("PARALLEL_COMPILE", text)
    for failure in failures:
        print(f"ERROR ||NEURON_PARALLEL_COMPILE||: {failure}", file=sys.stderr)
    for total in totals:
        _say("PARALLEL_COMPILE", total)
    if (place / "jax").is_dir():
        _say("CACHE", f"JAX takes its programs from the cache with JAX_COMPILATION_CACHE_DIR={place / 'jax'}")
    return 1 if failures else 0


def _ops_of(graph: Path) -> tuple[str, str, str]:
    """(path, its ops as JSON, why they are not known)"""
    from opentrn.model import compiled

    try:
        return str(graph), json.dumps(list(map(asdict, compiled.coverage(graph)))), ""
    except (ValueError, NotImplementedError) as error:
        return str(graph), "", str(error) or type(error).__name__


def analyze(place: Path, output: Path, verbosity: int) -> int:
    """Writes OUTPUT/result.json: 1 where an operation has no kernel. Raises InputError where it cannot."""
    text, lacking, complete = _core.parallel_compile_analysis(list(map(_ops_of, graphs(place))), verbosity)
    try:
        output.mkdir(parents=True, exist_ok=True)
        with new_file(output / "result.json") as part:
            part.write_text(text + "\n")
    except OSError as error:
        raise _refuse(f"{output}: {error.strerror}", "--analyze-output names a folder") from error
    print(output / "result.json")
    _say("PARALLEL_COMPILE", f"operations that no device kernel takes: {', '.join(lacking) or 'none'}")
    return 0 if complete else 1


def _clean(place: Path) -> int:
    """Removes what this tool wrote, and nothing else of the folder."""
    for path in (*place.glob("neuronxcc-opentrn-*"), place / "models", place / "jax"):
        shutil.rmtree(path, ignore_errors=True)
    return 0


def _clear_locks(place: Path) -> int:
    from opentrn.model import cache

    os.environ["OPENTRN_CACHE"] = str(place)
    removed = cache.sweep()
    for left in place.glob("collect-*"):
        shutil.rmtree(left, ignore_errors=True)
    _say("CACHE", f"{removed[0]} half-written files removed; there are no locks")
    return 0


def _help(_: _core.ParallelCompile) -> int:
    print(_USAGE, end="")
    return 0


def _collect(asked: _core.ParallelCompile) -> int:
    _collect_or_refuse(folder(), asked.program)
    return 0


def _collect_and_compile(asked: _core.ParallelCompile) -> int:
    _collect(asked)
    return compile_all(folder())


def _analyze(asked: _core.ParallelCompile) -> int:
    with tempfile.TemporaryDirectory() as own:  # of this run alone
        _collect_or_refuse(Path(own), asked.program)
        return analyze(Path(own), Path(asked.output), asked.verbosity)


_RUNS = {
    "help": _help, "": _collect_and_compile, "collect": _collect, "compile": lambda _: compile_all(folder()),
    "clean": lambda _: _clean(folder()), "clear-locks": lambda _: _clear_locks(folder()), "analyze": _analyze,
}  # fmt: skip


def run(words: list[str]) -> int:
    """The exit status of `neuron_parallel_compile WORDS`."""
    try:
        asked = _core.parallel_compile(words)
        status = _RUNS[asked.command](asked)
        return status if words else 1
    except InputError as error:
        print(f"neuron_parallel_compile: {error}", file=sys.stderr)
        return 1


def _collect_or_refuse(place: Path, program: list[str]) -> None:
    status = collect(place, program)
    if status and os.environ.get("NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE") != "1":
        raise _refuse(f"{shlex.join(program)} ended with {status}")
