"""What flags for AWS's compiler mean for the predicted time of a kernel.

A kernel is not compiled with other words than `--disable-dge` here: each is named on stderr once. They are not refused,
as src/compiler/flags.cc does it for models: public kernels have internal flags of AWS's compiler
(`--internal-skip-backend-allocation-opt-nki` in nki-samples), which no document explains.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from opentrn import _core

_DISABLE_DGE = "--disable-dge"
_FLAGS_ENV = "NEURON_CC_FLAGS"

_told: set[str] = set()


def generates_descriptors(kernel: Any, asked: bool | None = None) -> bool:
    """Whether DMA descriptors are generated while the kernel runs (DGE, from NeuronCore-v3 on).

    asked: what the caller says. None: unless `--disable-dge` stands in the kernel's `additional_compile_opt`
    or in NEURON_CC_FLAGS. Names other flags that stand there on stderr, each once. Raises ValueError for flags with an
    open quotation mark.
    """
    options = getattr(kernel, "options", None) or {}
    words = []
    sources = {
        "additional_compile_opt": options.get("additional_compile_opt"),
        _FLAGS_ENV: os.environ.get(_FLAGS_ENV),
    }
    for name, flags in sources.items():
        words += _core.flag_words(flags or "", name)
    _tell_without_effect(words)
    return _DISABLE_DGE not in words if asked is None else asked


def _tell_without_effect(words: list[str]) -> None:
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("-") and flag != _DISABLE_DGE and flag not in _told:
            _told.add(flag)
            text = f"opentrn: the compiler option {flag} has no effect on the predicted time of a kernel"
            print(text, file=sys.stderr)
