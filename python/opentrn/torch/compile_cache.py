"""Graphs of torch.compile on disk: kept for neuron_parallel_compile, and what it compiled taken from its cache.

The cache is that of opentrn.model.cache, where the environment names one (OPENTRN_CACHE, --cache_dir of
NEURON_CC_FLAGS, NEURON_COMPILE_CACHE_URL); without that nothing is read or written. OPENTRN_DUMP names a folder for the
graphs as they come, and NEURON_EXTRACT_GRAPHS_ONLY=1 leaves compiling out: the host evaluates them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.base.files import new_file
from opentrn.errors import InputError
from opentrn.model import compiled


def only_collects() -> bool:
    """Whether graphs are kept and not compiled."""
    return os.environ.get("NEURON_EXTRACT_GRAPHS_ONLY") == "1"


def keep(text: str, target: str, options: Mapping[str, str]) -> None:
    """Writes a graph, and beside it what it is compiled for, into the folder of OPENTRN_DUMP, if that is set.

    Raises InputError "torch.dump" where that cannot be.
    """
    folder = os.environ.get("OPENTRN_DUMP")
    if not folder:
        return
    stated = json.dumps({"target": target, "options": dict(options)}, sort_keys=True)
    name = hashlib.sha256(f"{stated}\n{text}".encode()).hexdigest()[:16]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for suffix, content in ((".json", stated), (".mlir", text)):  # who sees the graph sees its options
            with new_file(Path(folder) / f"{name}{suffix}") as part:
                part.write_text(content)
    except OSError as error:
        raise InputError(
            f"OPENTRN_DUMP={folder}: {error.strerror}", label="torch.dump", hint="name a folder that can be written"
        ) from error


@dataclass(frozen=True)
class Compiled:
    """model: a _core.LoadedModel, or a _core.ShardedModel of the two physical cores of a logical one.

    one_core_because: why one of these two computes; empty where both do, and of a logical core that is one. narrowing:
    as CompiledModel's.
    """

    model: Any
    one_core_because: str
    narrowing: str


def compile_model(text: str, name: str, target: str, options: dict[str, str]) -> Compiled:
    """_core.compile_for_logical_core(), through the cache where the environment names one. Faults as that."""
    if _core.stated_cache_folder() is None:
        model, why = _core.compile_for_logical_core(text, name, target, options)
        return Compiled(model, why, model.narrowing)
    kept = compiled.text_through_cache(text, name, target, options)
    return Compiled(kept._loaded, kept.facts.get("one_core_because", ""), kept.facts.get("narrowing", ""))
