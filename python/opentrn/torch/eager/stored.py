"""Programs of eager ops on disk: a second process takes what a first one traced and compiled.

Where the environment names a cache (opentrn.torch.compile_cache), the program of a class of calls is an entry of it: a
.neuron file that has, among its facts, how the call's tensors are those of the program. The key is SHA-256 over all
that tracing depends on: the op, its arguments, the types, sizes and strides of its tensors, the settings, torch's
release and defaults, and the files of Python and C++ that write and compile programs.

An entry is data, and a foreign one may hold any program: what its facts say is held to the call and to the program's
own inputs and results before memory is handed to it, so that a wrong one gives wrong values and touches nothing else.
Ops of the user's own are not kept, nor programs with constants beside them, nor what the host or both physical cores of
a logical one run (what these compile to is in the cache by their graphs).
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opentrn import _core
from opentrn.model import cache
from opentrn.settings import environment
from opentrn.torch.settings import Settings
from opentrn.torch.types import ELEMENTS

_FACT = "eager_call"
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in ELEMENTS}
_ELEMENTS = {name: ELEMENTS[dtype] for name, dtype in _DTYPES.items()}
_PLAIN = (int, float, complex, str, bool, type(None), torch.dtype, torch.device, torch.memory_format, torch.layout)


@functools.cache
def _writers() -> str:
    """What writes programs: the files of opentrn.torch, by content, and torch's release."""
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted(Path(__file__).parents[1].glob("**/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(name: str, arguments: list[Any], rows: list[tuple[Any, ...]], settings: Settings) -> str:
    """The key of a class of calls; empty where none is kept. rows: of src/torch/module.cc."""
    if _core.stated_cache_folder() is None or settings.check or not name.startswith("aten::"):
        return ""
    from opentrn.torch.eager.compiler import Ref

    leaves = pytree.tree_leaves(arguments)
    if not all(isinstance(leaf, (Ref, *_PLAIN)) for leaf in leaves):
        return ""
    stated = environment.read()
    cores = stated.physical_cores_per_core if stated.uses_both_cores else 1
    state = (torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), cores)
    text = repr((name, arguments, rows, settings, state))
    return cache.key_of(text, "", {"eager": _writers()})


def find(key: str) -> tuple[dict[str, str], Any] | None:
    """(facts, program) of an entry."""
    found, _, notice = _core.look_up_in_cache(cache.kept(), key)
    if notice:
        _tell(notice)
    if found is None:
        return None
    facts, programs, _ = found
    return (facts, programs[0][1]) if len(programs) == 1 and isinstance(programs[0][1], _core.LoadedModel) else None


def keep(key: str, plan: Any, settings: Settings) -> None:
    """Makes a plan the entry of its class, where it is one that can be kept."""
    if plan.program is None or plan.program.device_model is None or any(row[0] == "constant" for row in plan.inputs):
        return
    kept, loaded = cache.kept(), plan.program.device_model
    if not isinstance(loaded, _core.LoadedModel):
        return
    entry = kept.path_of(key)
    if kept.why_not_trusted(entry):
        return  # look_up_in_cache() has said so
    facts = {
        "source": f"<{plan.name}>", "target": settings.target, "options": json.dumps(settings.compiler_options()),
        "narrowing": loaded.narrowing, "one_core_because": plan.program.one_core_because, _FACT: _stated(plan),
        _core.CACHE_KEY_FACT: key,
    }  # fmt: skip
    try:
        kept.make_folder_of(entry)
        _core.save_models([loaded], [{}], facts, str(entry), True, permissions=_core.CACHE_PERMISSIONS)
    except (OSError, ValueError) as error:
        _tell(f"the cache cannot be written: {error}".partition("\n")[0])


@functools.cache
def _tell(notice: str) -> None:
    print(f"opentrn: {notice}", file=sys.stderr)


def _stated(plan: Any) -> str:
    """How the tensors of a call are those of its program."""
    return json.dumps({
        "draws": plan.draws,
        "inputs": [[*row[:2], *(_name(dtype) for dtype in row[2:])] for row in plan.inputs],
        "outputs": [vars(output) | {"dtype": _name(output.dtype)} for output in plan.outputs],
        "returned": plan.returned,
    })  # fmt: skip


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def restore(plan: Any, stated: Mapping[str, str], loaded: Any, given: Sequence[Any], numbers: int) -> bool:
    """Fills in a plan as an entry's facts say; False where they are not of this call and this program.

    given: the call's tensors; numbers: how many of its numbers are inputs.
    """
    from opentrn.torch.eager.compiler import Output

    tensors = list(map(_tensor, given))
    found = _core.stored_call(stated.get(_FACT, ""), tensors, numbers, loaded.inputs, loaded.outputs, _ELEMENTS)
    if found is None:
        return False
    plan.draws, inputs, outputs, returned = found
    plan.inputs = list(map(_input, inputs))
    plan.outputs = [Output(*row[:4], _DTYPES[row[4]], *row[5:]) for row in outputs]
    plan.returned = list(map(_returned, returned))
    return True


def _tensor(given: Any) -> tuple[Any, ...]:
    is_dense = not (given.expanded or given.is_scattered)
    return given.shape, given.memory_shape, ELEMENTS[given.dtype], given.number is not None, is_dense


def _input(row: tuple[str, int, str]) -> tuple[Any, ...]:
    """A plan's: a tensor keeps its type."""
    kind, place, dtype = row
    return (kind, place, _DTYPES[dtype]) if dtype else (kind, place)


def _returned(row: tuple[str, list[int]]) -> tuple[Any, ...]:
    kind, places = row
    return (kind, places) if kind == "list" else (kind, *places)
