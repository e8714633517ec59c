"""What flags for AWS's compiler mean for the predicted time of a kernel.

Other words than the one looked for are left alone: a kernel is not compiled with them here. Models are, and
src/compiler/flags.cc refuses what is no option.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

_DISABLE_DGE = "--disable-dge"
_FLAGS_ENV = "NEURON_CC_FLAGS"


def generates_descriptors(kernel: Any, asked: bool | None = None) -> bool:
    """Whether DMA descriptors are generated while the kernel runs (DGE, from NeuronCore-v3 on).

    asked: what the caller says. None: unless `--disable-dge` stands in the kernel's `additional_compile_opt`
    or in NEURON_CC_FLAGS. Raises ValueError for flags with an open quotation mark.
    """
    if asked is not None:
        return asked
    options = getattr(kernel, "options", None) or {}
    words = []
    sources = {
        "additional_compile_opt": options.get("additional_compile_opt"),
        _FLAGS_ENV: os.environ.get(_FLAGS_ENV),
    }
    for name, flags in sources.items():
        try:
            words += shlex.split(flags or "")
        except ValueError as error:
            raise ValueError(f"{name} is {flags!r}: {error}") from None
    return _DISABLE_DGE not in words
