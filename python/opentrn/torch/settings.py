"""What a program is compiled for: options of torch.compile, and the variables that the JAX plugin reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentrn.errors import InputError, InputTypeError
from opentrn.settings import environment
from opentrn.settings.compiler_options import OPTIONS, CompilerOptions, option_texts, option_values


@dataclass(frozen=True)
class Settings(CompilerOptions):
    """target: trn1, trn2, ...; beside the options of opentrn.compile. strict: nothing runs on the host.

    check: the first run of a program is compared with float64 (opentrn.model.checking).
    """

    target: str = "trn2"
    strict: bool = False
    check: bool = False

    def compiler_options(self) -> dict[str, str]:
        """As _core.compile_model takes them."""
        return option_texts({name: getattr(self, name) for name in OPTIONS})

    @property
    def rounding_seed(self) -> int | None:
        """Of stochastic rounding; None: to nearest even."""
        return environment.read().rounding_seed if self.enable_stochastic_rounding else None


_told: set[str] = set()
_OF_THE_CACHE = ("--cache_dir", "--retry_failed_compilation")  # opentrn.torch.compile_cache, neuron_parallel_compile


def _flags(target: str) -> dict[str, Any]:
    """NEURON_CC_FLAGS; what changes nothing here is named on stderr once. ValueError for what is no option."""
    from opentrn import _core

    options, stated, without_effect = _core.compiler_flags(os.environ.get("NEURON_CC_FLAGS", ""))
    if stated and stated != target:
        raise InputError(
            f"NEURON_CC_FLAGS has --target {stated} where the devices are those of {target}",
            label="environment", hint="set NEURON_PLATFORM_TARGET_OVERRIDE to the target",
        )
    for flag in without_effect:
        if flag.partition("=")[0] in _OF_THE_CACHE:
            continue
        if flag not in _told:
            _told.add(flag)
            print(f"opentrn: the compiler option {flag} has no effect here", file=sys.stderr)
    return option_values(options)


# torch.compile's modes, which are Inductor's. The first ask for a longer search for faster programs.
_MODES: dict[str, dict[str, Any]] = {
    "max-autotune": {"optlevel": 3},
    "max-autotune-no-cudagraphs": {"optlevel": 3},
    "reduce-overhead": {},
    "lite": {},
}


def _of_mode(mode: str | None) -> dict[str, Any]:
    if mode in (None, "default"):
        return {}
    if mode not in _MODES:
        raise InputError(
            f"torch.compile has no mode {mode!r} for the backend neuron",
            label="torch.option",
            hint=f"one of {', '.join(['default', *_MODES])}, or options={{'optlevel': 1}}",
        )
    if not _MODES[mode] and mode not in _told:
        _told.add(mode)
        print(f"opentrn: torch.compile's mode {mode!r} has no effect on the backend neuron", file=sys.stderr)
    return _MODES[mode]


def read(options: Mapping[str, Any] | None, mode: str | None = None) -> Settings:
    """options of torch.compile(..., options={...}), which win over the environment, and its mode.

    TypeError for an unknown option, ValueError for an unknown mode and for a value that a variable does not take.
    """
    given = _of_mode(mode) | dict(options or {})
    stated = environment.read()
    if "target" in given:
        environment.target(given["target"])  # tells where the environment states another one
    target = given.get("target", stated.chip)
    variables = {"target": target, "strict": stated.strict, "check": stated.check}
    if stated.rounds_stochastically:
        variables["enable_stochastic_rounding"] = True
    settings = _flags(target) | variables | given
    unknown = set(settings) - set(Settings.__dataclass_fields__)
    if unknown:
        known = ", ".join(Settings.__dataclass_fields__)
        raise InputTypeError(
            f"backend neuron has no option {', '.join(sorted(unknown))}",
            label="torch.option", hint=f"one of {known}",
        )
    return Settings(**settings)
