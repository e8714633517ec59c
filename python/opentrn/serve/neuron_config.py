"""Configurations of AWS's vLLM plugins for this server: which keys it honours, and what becomes of the others.

`neuron_config` is that of the plugin from 0.21 on (`--additional-config`); `override_neuron_config` that of the plugin
up to 0.5, over NxD Inference. The keys, and what each does, are in src/server/neuron_config_keys.cc.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentrn import _core

if TYPE_CHECKING:
    from opentrn.serve.build import Settings

__all__ = ["applied", "explained"]


def explained(config: Mapping[str, Any], *, nxdi: bool = False) -> list[list[Any]]:
    """[key, value, verdict, why] of every key, refused ones included. Raises InputError for an unknown one."""
    return json.loads(_core.explain_neuron_config(json.dumps(dict(config)), nxdi))


def applied(settings: Settings, config: Mapping[str, Any], *, nxdi: bool = False) -> Settings:
    """The settings with the configuration's values. Raises InputError for the first key that is refused."""
    changes = json.loads(_core.neuron_config_changes(json.dumps(dict(config)), nxdi))
    return dataclasses.replace(settings, **changes)
