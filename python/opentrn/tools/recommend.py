"""neuron-explorer recommend: what would make a program faster, read off its predicted timeline.

AWS's command asks a language model on Amazon Bedrock. This one asks nobody (src/profile/recommendations.h).
"""

from __future__ import annotations

from pathlib import Path

from opentrn import _core
from opentrn.errors import InputError

_LINE_MAX = 120
_SOURCE_BYTES_MAX = 16 << 20


def _source(file: str, line: int, root: Path | None) -> str:
    """The text of a source line below `root`; "" where it is not there."""
    if root is None or line < 1:
        return ""
    path = root / file  # an absolute one stays itself
    if not path.exists():
        path = root / Path(file).name
    try:
        if not path.resolve().is_relative_to(root.resolve()) or path.stat().st_size > _SOURCE_BYTES_MAX:
            return ""
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[line - 1].strip()[:_LINE_MAX] if line <= len(lines) else ""


def report(profile: str, root: Path | None) -> str:
    """Markdown. `profile`: Timing.json() of a program."""
    return _core.recommendations(profile, lambda file, line: _source(file, line, root))


def recommend(model: Path, root: Path | None, loop_iterations: int | None) -> str:
    """The report of a compiled model. Raises as loading and timing it do, and InputError "tools.explorer"."""
    from opentrn.model import compiled

    if root is not None and not root.is_dir():
        raise InputError(f"{root} is not a folder", label="tools.explorer", hint="--nki-source-root names one")
    loaded = compiled.load(model)
    if not isinstance(loaded, compiled.CompiledModel):
        raise InputError(
            f"{model} has several programs", label="tools.explorer", hint="compile it for one size of its dimensions"
        )
    return report(loaded.time(loop_iterations=loop_iterations).json(), root)
