"""Arguments of a launch on several ranks: which of them each rank gets.

A list has one value for each rank. Anything else is given to all ranks; a sequence that all of them get is a
tuple. Ranks have memories of their own, so what one rank writes into an array that several ranks were given
stays in that rank's copy; the caller's array is the one of the lowest of these ranks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opentrn.errors import InputError
from opentrn.nki import _machine

# rank -> keyword arguments of the kernel
RankInputs = Callable[[int], Mapping[str, Any]]


def checked_count(ranks: Any) -> int:
    """`ranks` as an int of 1 or more, and no more than the largest machine has cores. InputError otherwise."""
    if isinstance(ranks, bool) or not isinstance(ranks, (int, np.integer)) or ranks < 1:
        raise InputError(f"ranks is {ranks!r}; it is 1 or more", label="launch.ranks")
    if _machine.core_available():  # else no backend runs several
        most = importlib.import_module("opentrn._core").most_ranks()
        if ranks > most:
            raise InputError(
                f"ranks is {ranks}, and the largest machine has {most} NeuronCores", label="launch.ranks"
            )
    return int(ranks)


def arguments_of(
    rank: int, ranks: int, args: tuple[Any, ...], kwargs: Mapping[str, Any], inputs: RankInputs | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that `rank` calls the kernel with. InputError for a list of another length than `ranks`."""
    own = dict(named_inputs(inputs(rank), rank)) if inputs is not None else {}
    positional = tuple(_of_rank(value, f"argument {i}", rank, ranks) for i, value in enumerate(args))
    named = {name: _of_rank(value, f"argument {name!r}", rank, ranks) for name, value in kwargs.items()}
    return positional, {**named, **own}


def named_inputs(own: Any, rank: int) -> Mapping[str, Any]:
    """What a function of ranks gave for one: keyword arguments by name. InputError otherwise."""
    if isinstance(own, Mapping) and all(isinstance(name, str) for name in own):
        return own
    raise InputError(
        f"rank_inputs gave {own!r:.60} for rank {rank}",
        label="launch.ranks",
        hint='give keyword arguments of the kernel by name, {"x": array}, or {} for none',
    )


def _of_rank(value: Any, what: str, rank: int, ranks: int) -> Any:
    if type(value) is not list:
        return value
    if len(value) != ranks:
        raise InputError(
            f"{what} is a list of {len(value)} values, and the launch has {ranks} ranks",
            label="launch.ranks",
            hint="give a list with one value for each rank, or a tuple that every rank gets whole",
        )
    return value[rank]


class SharedMemory:
    """The memory of the arrays that earlier ranks were given."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def holds(self, array: np.ndarray) -> bool:
        """Whether an earlier rank was given some of the array's memory."""
        return any(_share(array, other) for other in self._arrays)

    def add(self, array: np.ndarray) -> None:
        """Of a rank whose arguments are complete."""
        if not any(array is other for other in self._arrays):
            self._arrays.append(array)


def _share(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # the stubs know 0 and -1 only
    except RuntimeError:  # too hard to tell: numpy's TooHardError, whose module depends on the release
        return True
