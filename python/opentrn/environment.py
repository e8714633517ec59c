"""What Neuron's variables say, read as the JAX plugin reads them (src/runtime/settings.h)."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Environment:
    """target: as NEURON_PLATFORM_TARGET_OVERRIDE has it, of a chip or an instance; cores: ids of logical cores.

    rounding_seed: NEURON_RT_STOCHASTIC_ROUNDING_SEED. strict, check: OPENTRN_STRICT, OPENTRN_CHECK.
    """

    target: str
    cores: list[int]
    physical_cores_per_core: int
    strict: bool
    check: bool
    rounds_stochastically: bool
    rounding_seed: int

    @property
    def chip(self) -> str:
        """The target without an instance's size: trn2 of trn2u.48xlarge."""
        name, dot, _ = self.target.strip().lower().partition(".")
        return name.rstrip("nu") if dot else name


@dataclass(frozen=True)
class Rounding:
    """enabled: as NEURON_RT_STOCHASTIC_ROUNDING_EN says, None without it. seed: 0 where none is stated."""

    enabled: bool | None
    seed: int


def of_results(variable: str) -> str:
    """What a variable says to do about a kernel's results: "warn", "error" or "off". ValueError for another value."""
    what = os.environ.get(variable, "warn")
    if what not in ("warn", "error", "off"):
        raise ValueError(f"{variable} is 'warn', 'error' or 'off', not {what!r}")
    return what


def uninitialised(asked: str | None = None) -> str:
    """What reading memory that nothing wrote does, "fault" or "fill": as asked, or else as OPENTRN_UNINITIALISED says.

    ValueError for another value.
    """
    name, what = "uninitialised", asked
    if asked is None:
        name, what = "OPENTRN_UNINITIALISED", os.environ.get("OPENTRN_UNINITIALISED", "fault")
    if what not in ("fault", "fill"):
        raise ValueError(f"{name} is 'fault' or 'fill', not {what!r}")
    return what


def checks_core_races() -> bool:
    """Whether launches on two cores are checked for races: OPENTRN_CORE_RACES. ValueError as read()."""
    from opentrn import _core

    return bool(_core.environment_core_races())


def rounding() -> Rounding:
    """The variables of stochastic rounding alone. ValueError as read()."""
    from opentrn import _core

    return Rounding(*_core.environment_rounding())


def read() -> Environment:
    """At every call. ValueError for a value that a variable does not take, with its name and what it takes."""
    from opentrn import _core

    return Environment(**_core.environment_settings())
