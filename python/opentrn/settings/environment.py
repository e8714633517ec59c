"""What Neuron's variables say, read as the JAX plugin reads them (src/runtime/settings.h)."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from typing import Any, overload

from opentrn.errors import InputError, TargetWarning
from opentrn.types.isa_enums import nc_version, target_version

TARGET_ENV = "NEURON_PLATFORM_TARGET_OVERRIDE"
DEFAULT_TARGET = "trn2"

LOOP_LIMIT_ENV = "OPENTRN_LOOP_LIMIT"


@dataclass(frozen=True)
class Environment:
    """target: as NEURON_PLATFORM_TARGET_OVERRIDE has it, of a chip or an instance; cores: ids of logical cores.

    uses_both_cores: whether both physical cores of a logical one compute, where there are two (OPENTRN_LOGICAL_CORE).
    rounding_seed: NEURON_RT_STOCHASTIC_ROUNDING_SEED. strict, check: OPENTRN_STRICT, OPENTRN_CHECK.
    """

    target: str
    cores: list[int]
    physical_cores_per_core: int
    uses_both_cores: bool
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


@overload
def target(given: str | None) -> str: ...
@overload
def target(given: str | nc_version | None, of_kernel: Any = None) -> str | nc_version: ...
def target(given: str | nc_version | None, of_kernel: Any = None) -> str | nc_version:
    """The target of a run or of a compilation that was `given` one, or None for what else states it.

    In this order: `given`; that which the kernel's decorator states (platform_target); the environment's; trn2. Warns
    where the environment states another generation than the one that is taken. Raises ValueError for a name that is no
    target's.
    """
    stated = os.environ.get(TARGET_ENV, "").strip()
    own = None
    if of_kernel is not None:
        own = getattr(of_kernel, "target", None) or (getattr(of_kernel, "options", None) or {}).get("platform_target")
    chosen = given or own
    if not stated:
        return chosen or DEFAULT_TARGET
    try:
        stated_version = target_version(stated)
    except InputError as error:
        raise error.restated(message=f"{TARGET_ENV}={stated!r}: {error.message}", label="environment") from None
    if chosen is None:
        return stated
    if target_version(chosen) != stated_version:
        name = chosen.name if isinstance(chosen, nc_version) else chosen
        who = "a target that is given" if given else "the target of the kernel's decorator"
        text = f"{TARGET_ENV} is {stated}, the target is {name}: {who} wins"
        warnings.warn(TargetWarning(text), stacklevel=3)
    return chosen


def of_results(variable: str) -> str:
    """What a variable says to do about a kernel's results: "warn", "error" or "off". ValueError for another value."""
    what = os.environ.get(variable, "warn")
    if what not in ("warn", "error", "off"):
        raise InputError(f"{variable} is 'warn', 'error' or 'off', not {what!r}", label="environment")
    return what


def uninitialised(asked: str | None = None) -> str:
    """What reading memory that nothing wrote does, "fault" or "fill": as asked, or else as OPENTRN_UNINITIALISED says.

    ValueError for another value.
    """
    name, what = "uninitialised", asked
    if asked is None:
        name, what = "OPENTRN_UNINITIALISED", os.environ.get("OPENTRN_UNINITIALISED", "fault")
    if what not in ("fault", "fill"):
        raise InputError(f"{name} is 'fault' or 'fill', not {what!r}", label="environment")
    return what


def checks_core_races() -> bool:
    """Whether launches on two cores are checked for races: OPENTRN_CORE_RACES. ValueError as read()."""
    from opentrn import _core

    return bool(_core.environment_core_races())


def loop_limit() -> int | None:
    """Iterations of a device loop whose end depends on values: OPENTRN_LOOP_LIMIT. ValueError as read()."""
    from opentrn import _core

    return _core.environment_loop_limit()


EAGER_PROGRAMS_ENV = "OPENTRN_EAGER_PROGRAMS"
EAGER_PROGRAMS = 4096
SIZED_PROGRAMS_ENV = "OPENTRN_SIZED_PROGRAMS"
SIZED_PROGRAMS = 64


def _programs(variable: str, otherwise: int) -> int:
    stated = os.environ.get(variable, "")
    if not stated:
        return otherwise
    if not stated.isdecimal() or len(stated) > 9:
        raise InputError(
            f"{variable} is {stated!r}; it takes a number from 0 (all are kept) on", label="environment",
            hint=f"set {variable} to such a value, or unset it",
        )  # fmt: skip
    return int(stated)


def eager_programs() -> int:
    """How many programs of ops PyTorch's device keeps: OPENTRN_EAGER_PROGRAMS, 0 for all. ValueError as read()."""
    return _programs(EAGER_PROGRAMS_ENV, EAGER_PROGRAMS)


def sized_programs() -> int:
    """How many programs a graph of dynamic sizes keeps: OPENTRN_SIZED_PROGRAMS, 0 for all. ValueError as read()."""
    return _programs(SIZED_PROGRAMS_ENV, SIZED_PROGRAMS)


DEADLOCK_SECONDS_ENV = "OPENTRN_DEADLOCK_SECONDS"
DEADLOCK_SECONDS = 60.0


def deadlock_seconds() -> float:
    """How long PyTorch's ranks wait for each other in a circle: OPENTRN_DEADLOCK_SECONDS. ValueError as read()."""
    stated = os.environ.get(DEADLOCK_SECONDS_ENV, "")
    if not stated:
        return DEADLOCK_SECONDS
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", stated):
        raise InputError(
            f"{DEADLOCK_SECONDS_ENV} is {stated!r}; it takes seconds from 0 (ranks that wait for each other are no "
            "error) to 999999", label="environment", hint=f"set {DEADLOCK_SECONDS_ENV} to such a value, or unset it",
        )  # fmt: skip
    return float(stated)


def rounding() -> Rounding:
    """The variables of stochastic rounding alone. ValueError as read()."""
    from opentrn import _core

    return Rounding(*_core.environment_rounding())


def read() -> Environment:
    """At every call. ValueError for a value that a variable does not take, with its name and what it takes."""
    from opentrn import _core

    return Environment(**_core.environment_settings())
