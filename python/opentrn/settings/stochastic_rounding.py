"""How the engines of a launch round to narrower floats: to nearest even, or stochastically from a seed."""

from __future__ import annotations

import collections
import itertools
from typing import Any, NamedTuple

from opentrn.errors import InputError
from opentrn.settings import environment

_SEED_END = 2**64
# Launches by the environment's seed, which holds for the process: each draws afresh.
_launches: dict[int, itertools.count] = collections.defaultdict(itertools.count)


class Draw(NamedTuple):
    """What a launch draws from: launch 0, 1, ... of a seed."""

    seed: int
    launch: int


def checked(asked: Any) -> int | bool | None:
    """`asked` if stochastic_rounding= takes it: a seed, True, False or None. ValueError otherwise."""
    if asked is None or isinstance(asked, bool):
        return asked
    if isinstance(asked, int) and 0 <= asked < _SEED_END:
        return asked
    raise InputError(
        "stochastic_rounding is a seed from 0 to 2**64 - 1, True for that of "
        f"NEURON_RT_STOCHASTIC_ROUNDING_SEED, or False; not {asked!r}",
        label="run.argument",
    )


def is_wanted(asked: int | bool | None) -> bool:
    """Whether a launch would round stochastically, for a machine that cannot."""
    if checked(asked) is None:
        return bool(environment.rounding().enabled)
    return asked is not False


def of_launch(asked: int | bool | None, number: int) -> Draw | None:
    """What a launch draws from; None: it rounds to nearest even.

    asked: as checked() gives it; None asks the environment. number: of the launch since `asked` was said.
    """
    stated = environment.rounding()
    if asked is None:
        return Draw(stated.seed, next(_launches[stated.seed])) if stated.enabled else None
    if asked is False:
        return None
    return Draw(stated.seed if asked is True else asked, number)
