"""What the adapters share."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class NotReproducible(Exception):
    """This row cannot be predicted; the text says why."""


@dataclass
class Predicted:
    """A prediction in microseconds and what bounds it."""

    microseconds: float
    bound_by: str


def checkout(checkouts: Path, name: str) -> Path:
    """The folder of repository `owner+name`."""
    path = checkouts / name
    if not path.is_dir():
        raise NotReproducible(f"checkout {name} is not in the folder given")
    return path


def file_at(repository: Path, commit: str, path: str) -> str:
    """The text of one file as of `commit`."""
    done = subprocess.run(
        ["git", "-C", str(repository), "show", f"{commit}:{path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotReproducible(f"{repository.name} has no {path} at {commit}")
    return done.stdout


def activate() -> None:
    """Make nki and neuronxcc.nki importable."""
    import opentrn

    opentrn.activate()


def module_from_text(text: str, name: str) -> types.ModuleType:
    """Execute source text as a module. Kernels' line numbers stay right: the text is also its file."""
    import linecache

    module = types.ModuleType(name)
    filename = f"<{name}>"
    module.__file__ = filename
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    sys.modules[name] = module
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


def module_from_file(path: Path, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def timed(
    kernel: Any, *args: Any, target: str, lnc: int = 1, launch: bool = False, **kwargs: Any
) -> Predicted:
    """Time `kernel`. `launch`: the published figure includes the launch of the kernel on the device."""
    from opentrn import run

    result = run(kernel, *args, target=target, lnc=lnc, execute=False, **kwargs)
    overhead_us = result.timing.launch_ns / 1e3 if launch else 0.0
    return Predicted(result.time_us + overhead_us, result.timing.bound_by)


def fields(row: dict[str, str]) -> dict[str, str]:
    """The `key=value; ...` items of a row's workload."""
    items = {}
    for part in row["workload"].split(";"):
        key, _, value = part.strip().partition("=")
        items[key] = value
    return items


def shape(dims: tuple[int, ...], dtype: str) -> Any:
    from opentrn.shapes import ShapeOf

    return ShapeOf(dims, dtype)
