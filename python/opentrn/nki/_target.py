"""Which NeuronCore generation a launch targets.

Order: an explicit argument, the environment, then trn3. Sources: NEURON_PLATFORM_TARGET_OVERRIDE and the
default in nki/guides/nki_simulator.rst; NKI_NC_VERSION is what nki-library's simulation mode sets.
"""

from __future__ import annotations

import os

from opentrn.errors import InputError
from opentrn.types.isa_enums import nc_version, target_version

DEFAULT_TARGET = "trn3"
PLATFORM_ENV = "NEURON_PLATFORM_TARGET_OVERRIDE"
NC_VERSION_ENV = "NKI_NC_VERSION"


def environment_target(nc_version_first: bool = False) -> nc_version:
    """The generation the environment asks for, read at every call."""
    order = (NC_VERSION_ENV, PLATFORM_ENV) if nc_version_first else (PLATFORM_ENV, NC_VERSION_ENV)
    for variable in order:
        value = os.environ.get(variable)
        if value:
            try:
                return target_version(value.strip().lower())
            except InputError as error:
                raise error.restated(message=f"{variable}={value!r}: {error.message}", label="environment") from None
    return target_version(DEFAULT_TARGET)


def resolve_target(target: str | nc_version | None, nc_version_first: bool = False) -> nc_version:
    """The generation of an explicit `target`, or the environment's when it is None."""
    return environment_target(nc_version_first) if target is None else target_version(target)
