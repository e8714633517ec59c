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
    strict: bool = False


def read(options: Mapping[str, Any] | None) -> Settings:
    """options of torch.compile(..., options={...}); TypeError for an unknown one."""
    given = dict(options or {})
    target = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2").split(".")[0]
    strict = os.environ.get("OPENTRN_STRICT", "") not in ("", "0")
    settings = {"target": target, "strict": strict} | given
    unknown = set(settings) - set(Settings.__dataclass_fields__)
    if unknown:
        known = ", ".join(Settings.__dataclass_fields__)
        raise TypeError(f"backend neuron has no option {', '.join(sorted(unknown))}; it has {known}")
    return Settings(**settings)
