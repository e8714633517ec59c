"""AWS's framework packages that OpenTrn has no stand-in for: their import says what to use instead."""

from __future__ import annotations

import importlib.abc
import sys
from types import FrameType
from typing import Any

from opentrn.errors import MissingModule

_COMPILE = 'torch.compile(model, backend="neuron") runs a PyTorch model here (docs/pytorch.md)'
ADVICE: dict[str, str] = {
    "torch_neuronx": _COMPILE,
    "torch_xla": _COMPILE,
    "neuronx_distributed": f"{_COMPILE}, on one core",
    "neuronx_distributed_inference": f"{_COMPILE}, on one core",
    "optimum.neuron": f"{_COMPILE}; the models of transformers need nothing else",
}


class Finder(importlib.abc.MetaPathFinder):
    """The last on sys.meta_path: asked only for what nothing installed provides."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        # importlib.util.find_spec() asks whether a package is there; libraries do, and take None for an answer.
        if fullname in ADVICE and _is_import():
            raise MissingModule(
                f"No module named {fullname!r}: OpenTrn has no stand-in for it",
                name=fullname,
                label="compat.name",
                hint=ADVICE[fullname],
            )


def _is_import() -> bool:
    """Whether an import statement, or importlib.import_module(), asks the finder that calls this."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "_find_spec":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "_find_and_load_unlocked"


_finder = Finder()


def install() -> None:
    """For this process; once."""
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
