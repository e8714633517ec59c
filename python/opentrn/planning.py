"""Plans, goodput and claims as Python objects: the JSON of the commands of these names.

Options have the names of the command line, with _ for -; a list is several values, True a flag.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentrn import _core


def plan(model: Any, **options: Any) -> dict[str, Any]:
    """The layouts of a training job, fastest first, or with serve=True plans of inference: `opentrn plan MODEL --json`.

    `model` is a config.json, a name of the catalogue, a job file in YAML, or a program: a file (StableHLO, HLO, ONNX,
    .pt2, .jax), a torch.export.ExportedProgram or a jax.export.Exported. Every number under "plans" is {"value", "low",
    "high", "source"}; times are seconds, memory bytes. Raises opentrn.errors.InputError, or CapacityExceeded where no
    layout fits.
    """
    with _file_of(model) as path:
        return _ask(["plan", path], options)


def goodput(**options: Any) -> dict[str, Any]:
    """What failures, checkpoints and restarts leave of a job: `opentrn goodput --json`."""
    return _ask(["goodput"], options)


def claims(*names: str, **options: Any) -> dict[str, Any]:
    """Headlines about Trainium, recomputed; all of them, or those named: `opentrn claims --json`."""
    return _ask(["claims", *(["--only", *names] if names else [])], options)


@contextmanager
def _file_of(model: Any) -> Iterator[str]:
    """The command's argument: of an exported program a file, which is gone afterwards."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    from opentrn.model import exported

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.mlirbc"
        path.write_bytes(exported.stablehlo_of_object(model))
        yield str(path)


def _ask(words: list[str], options: dict[str, Any]) -> dict[str, Any]:
    command, words = words[0], [*words]
    names = {name for of, each, _, _ in _core.cli_options() if of == command for name in each}
    for name, value in options.items():
        word = "--" + name.replace("_", "-")
        # The command itself refuses an option that it does not have, whatever the value.
        if word in names and (value is None or value is False):
            continue
        words.append(word)
        if value is not True:
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [str(each) for each in values]
    return json.loads(_core.ask_cli([*words, "--json"]))
