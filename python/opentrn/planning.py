"""Plans, goodput and claims as Python objects: the JSON of the commands of these names.

Options have the names of the command line, with _ for -; a list is several values, True a flag.
"""

from __future__ import annotations

import json
from typing import Any

from opentrn import _core


def plan(model: str, **options: Any) -> dict[str, Any]:
    """The layouts of a training job, fastest first, or with serve=True plans of inference: `opentrn plan MODEL --json`.

    `model` is a config.json, a name of the catalogue or a job file in YAML. Every number under "plans" is
    {"value", "low", "high", "source"}; times are seconds, memory bytes. Raises opentrn.errors.InputError, or
    CapacityExceeded where no layout fits.
    """
    return _ask(["plan", model], options)


def goodput(**options: Any) -> dict[str, Any]:
    """What failures, checkpoints and restarts leave of a job: `opentrn goodput --json`."""
    return _ask(["goodput"], options)


def claims(*names: str, **options: Any) -> dict[str, Any]:
    """Headlines about Trainium, recomputed; all of them, or those named: `opentrn claims --json`."""
    return _ask(["claims", *(["--only", *names] if names else [])], options)


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
