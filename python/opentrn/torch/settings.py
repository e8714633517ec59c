"""What a program is compiled for: options of torch.compile, and the variables that the JAX plugin reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Settings:
    """target: trn1, trn2, ...; the others are those of opentrn.compile. strict: nothing runs on the host."""

    target: str = "trn2"
    optlevel: int = 2
    auto_cast: str = "none"
    auto_cast_type: str = "bf16"
    enable_stochastic_rounding: bool = False
    strict: bool = False

    def compiler_options(self) -> dict[str, str]:
        """As _core.compile_model takes them."""
        from opentrn.model import compiler_options

        return compiler_options(
            optlevel=self.optlevel,
            auto_cast=self.auto_cast,
            auto_cast_type=self.auto_cast_type,
            enable_stochastic_rounding=self.enable_stochastic_rounding,
        )

    @property
    def rounding_seed(self) -> int | None:
        """Of stochastic rounding; None: to nearest even."""
        seed = int(os.environ.get("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "0"))
        return seed if self.enable_stochastic_rounding else None


def read(options: Mapping[str, Any] | None) -> Settings:
    """options of torch.compile(..., options={...}); TypeError for an unknown one."""
    given = dict(options or {})
    target = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2").split(".")[0]
    strict = os.environ.get("OPENTRN_STRICT") == "1"
    rounds = os.environ.get("NEURON_RT_STOCHASTIC_ROUNDING_EN", "0") == "1"
    settings = {"target": target, "strict": strict, "enable_stochastic_rounding": rounds} | given
    unknown = set(settings) - set(Settings.__dataclass_fields__)
    if unknown:
        known = ", ".join(Settings.__dataclass_fields__)
        raise TypeError(f"backend neuron has no option {', '.join(sorted(unknown))}; it has {known}")
    return Settings(**settings)
