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
from math import prod
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
_STATE = ("ui32", (4,))  # of a random generator, a program's last input
_PLAIN = (int, float, complex, str, bool, type(None), torch.dtype, torch.device, torch.memory_format, torch.layout)


class _Foreign(Exception):
    """An entry's facts are not those of this call."""


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
    try:
        facts = json.loads(stated[_FACT])
        plan.draws = facts["draws"] is True
        plan.inputs = [_input(row, given, numbers) for row in facts["inputs"]]
        plan.outputs = _outputs(facts["outputs"], given)
        plan.returned = [_returned(row, len(given), len(plan.outputs)) for row in facts["returned"]]
        _hold(plan, loaded, given)
    except (_Foreign, KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        return False
    return True


def _number(value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value < high:
        raise _Foreign
    return value


def _input(row: Any, given: Sequence[Any], numbers: int) -> tuple[Any, ...]:
    kind = row[0]
    if kind == "number":
        return (kind, _number(row[1], 0, numbers), _DTYPES[row[2]])
    place = _number(row[1], 0, len(given))
    if kind == "scalar" and given[place].shape == ():
        return (kind, place, _DTYPES[row[2]])
    if kind == "tensor" and given[place].number is None:
        return (kind, place)
    raise _Foreign


def _outputs(rows: Any, given: Sequence[Any]) -> list[Any]:
    from opentrn.torch.eager.compiler import Output

    outputs: list[Output] = []
    for row in rows:
        output = Output(**row | {"dtype": _DTYPES[row["dtype"]]})
        _number(output.target, -1, len(given))
        _number(output.copied_from, -1, len(given))
        _number(output.repeats, -1, len(outputs))
        for number in (*output.sizes, *output.strides):
            _number(number, 0, 2**62)
        if len(output.sizes) != len(output.strides) or type(output.is_in_order) is not bool:
            raise _Foreign
        outputs.append(output)
    return outputs


def _returned(row: Any, tensors: int, outputs: int) -> tuple[Any, ...]:
    kind = row[0]
    if kind == "output":
        return (kind, _number(row[1], 0, outputs))
    if kind == "argument":
        return (kind, _number(row[1], 0, tensors))
    if kind == "list":
        return (kind, [_number(place, 0, outputs) for place in row[1]])
    if kind == "none":
        return (kind,)
    raise _Foreign


def _hold(plan: Any, loaded: Any, given: Sequence[Any]) -> None:
    """Raises _Foreign where a program's inputs and results are not the memory that the call hands over."""
    expected = [_memory(row, given) for row in plan.inputs] + [_STATE] * plan.draws
    if [(element, tuple(shape)) for _, element, shape in loaded.inputs] != expected:
        raise _Foreign
    written = [each for each in plan.outputs if each.copied_from < 0 and each.repeats < 0]
    if len(written) != len(loaded.outputs):
        raise _Foreign
    for output, (_, element, shape) in zip(written, loaded.outputs):
        if element != ELEMENTS[output.dtype] or prod(shape) != prod(output.sizes):
            raise _Foreign
        if output.is_in_order:
            _hold_dense(output, given)


def _memory(row: tuple[Any, ...], given: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    if row[0] == "tensor":
        tensor = given[row[1]]
        return ELEMENTS[tensor.dtype], tensor.memory_shape
    return ELEMENTS[row[2]], ()


def _hold_dense(output: Any, given: Sequence[Any]) -> None:
    """Raises _Foreign where a result's elements do not lie one after the other in the memory that it is written to."""
    from opentrn.torch.eager.compiler import dense_strides

    if sorted(output.order) != list(range(len(output.sizes))):
        raise _Foreign
    if output.target < 0:
        if dense_strides(output.sizes, output.order) != output.strides:
            raise _Foreign
        return
    target = given[output.target]
    if target.dtype != output.dtype:
        raise _Foreign
    if tuple(output.sizes) == target.shape and (target.expanded or target.is_scattered):
        raise _Foreign
