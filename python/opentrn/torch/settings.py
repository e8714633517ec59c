"""What a program is compiled for: options of torch.compile, and the variables that the JAX plugin reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentrn import environment


@dataclass(frozen=True)
class Settings:
    """target: trn1, trn2, ...; the others are those of opentrn.compile. strict: nothing runs on the host.

    check: the first run of a program is compared with float64 (opentrn.checking).
    """

    target: str = "trn2"
    optlevel: int = 2
    auto_cast: str = "none"
    auto_cast_type: str = "bf16"
    weight_dtype: str = "none"
    weight_sparsity: str = "none"
    prune_weights: bool = False
    enable_stochastic_rounding: bool = False
    strict: bool = False
    check: bool = False

    def model_options(self) -> dict[str, Any]:
        """Options that say which numbers are computed, by opentrn.compile's names."""
        names = (
            "optlevel",
            "auto_cast",
            "auto_cast_type",
            "weight_dtype",
            "weight_sparsity",
            "prune_weights",
        )
        return {name: getattr(self, name) for name in names}

    def compiler_options(self) -> dict[str, str]:
        """As _core.compile_model takes them."""
        from opentrn.model import compiler_options

        return compiler_options(
            **self.model_options(), enable_stochastic_rounding=self.enable_stochastic_rounding
        )

    @property
    def rounding_seed(self) -> int | None:
        """Of stochastic rounding; None: to nearest even."""
        return environment.read().rounding_seed if self.enable_stochastic_rounding else None


_told: set[str] = set()


def _flags(target: str) -> dict[str, Any]:
    """NEURON_CC_FLAGS; what changes nothing here is named on stderr once. ValueError for what is no option."""
    from opentrn import _core

    options, stated, without_effect = _core.compiler_flags(os.environ.get("NEURON_CC_FLAGS", ""))
    if stated and stated != target:
        raise ValueError(
            f"NEURON_CC_FLAGS has --target {stated} where the devices are those of {target}\n"
            "  try: set NEURON_PLATFORM_TARGET_OVERRIDE to the target"
        )
    for flag in without_effect:
        if flag not in _told:
            _told.add(flag)
            print(f"opentrn: the compiler option {flag} has no effect here", file=sys.stderr)
    kinds = Settings.__dataclass_fields__
    named = {name.replace("-", "_"): value for name, value in options.items()}
    return {
        name: value == "true" if kinds[name].type == "bool" else int(value) if name == "optlevel" else value
        for name, value in named.items()
    }


def read(options: Mapping[str, Any] | None) -> Settings:
    """options of torch.compile(..., options={...}), which win over the environment.

    TypeError for an unknown one, ValueError for a value that a variable does not take.
    """
    given = dict(options or {})
    stated = environment.read()
    target = given.get("target", stated.chip)
    variables = {"target": target, "strict": stated.strict, "check": stated.check}
    if stated.rounds_stochastically:
        variables["enable_stochastic_rounding"] = True
    settings = _flags(target) | variables | given
    unknown = set(settings) - set(Settings.__dataclass_fields__)
    if unknown:
        known = ", ".join(Settings.__dataclass_fields__)
        raise TypeError(f"backend neuron has no option {', '.join(sorted(unknown))}; it has {known}")
    return Settings(**settings)
