"""What a user may say to the platform: `--additional-config '{"opentrn": {...}, "neuron_config": {...}}'`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.serve.build import Settings
from opentrn.serve.neuron_config import applied

__all__ = ["TOTALS_KEY", "PluginSettings", "plugin_settings", "sizes_of"]

# Where the engine's process tells the server's process its totals; the platform writes it into additional_config.
TOTALS_KEY = "opentrn_totals"
_CHOICES = {"policy": ("neuron", "vllm"), "time": ("wall", "paced")}


@dataclasses.dataclass(frozen=True)
class PluginSettings:
    """target: of the simulated core, "trn2". policy: whose scheduler, AWS's (neuron) or vLLM's own. time: a step takes
    as long as it runs here (wall), or at least the predicted time (paced). trace: a file of steps and requests."""

    target: str | None = None
    policy: str = "neuron"
    time: str = "wall"
    trace: str | None = None
    totals: str | None = None
    buckets: Settings = Settings()


def _refuse(message: str, hint: str = "") -> InputError:
    return InputError(message, label="vllm.settings", hint=hint)


def plugin_settings(additional: Any) -> PluginSettings:
    """Of vLLM's additional_config. Raises InputError for what is not known or not possible."""
    if not isinstance(additional, Mapping):
        raise _refuse(f"additional_config is {type(additional).__name__}, no object of JSON")
    unknown = set(additional) - {"opentrn", "neuron_config", TOTALS_KEY}
    if unknown:
        raise _refuse(f"additional_config has {sorted(unknown)[0]!r}", "opentrn and neuron_config are known")
    stated = additional.get("opentrn", {})
    if not isinstance(stated, Mapping):
        raise _refuse(f"opentrn in additional_config is {stated!r}, no object of JSON")
    known = ("target", "policy", "time", "trace")
    for key, value in stated.items():
        if key not in known:
            raise _refuse(f"opentrn in additional_config has {key!r}", f"{', '.join(known)} are known")
        if not isinstance(value, str) or value not in _CHOICES.get(key, (value,)):
            raise _refuse(f"{key} is {value!r}", " or ".join(_CHOICES.get(key, ("a text",))))
    neuron = additional.get("neuron_config", {})
    if not isinstance(neuron, Mapping):
        raise _refuse(f"neuron_config in additional_config is {neuron!r}, no object of JSON")
    return PluginSettings(**stated, totals=additional.get(TOTALS_KEY), buckets=applied(Settings(), neuron))


def sizes_of(
    settings: PluginSettings, block: int, context: int, sequences: int, tokens: int
) -> tuple[list[int], list[int], list[int]]:
    """Sequences, new tokens and positions of the programs, each ascending: the neuron_config's, else as opentrn serve.

    context: positions of a request; sequences, tokens: of a step at most. Raises InputError.
    """
    longest = -(-context // block) * block
    _, _, contexts = _core.program_sizes(longest, 1)
    chosen = settings.buckets
    found = (
        list(chosen.sequence_buckets) or _core.power_of_two_sizes(1, sequences),
        list(chosen.token_buckets) or _token_sizes(tokens),
        sorted({*chosen.context_buckets, longest}) if chosen.context_buckets else contexts,
    )
    for what, sizes, last in (("num_seqs", found[0], sequences), ("num_batched_tokens", found[1], tokens)):
        if sizes[-1] != last:
            raise _refuse(f"the last of the {what} buckets is {sizes[-1]}, and a step has {last} at most",
                          f"--max-{what.replace('_', '-')} {sizes[-1]}")  # fmt: skip
    return found


def _token_sizes(last: int) -> list[int]:
    """A short prompt, or the rest behind a found prefix; then as opentrn serve has them."""
    return [16, *_core.power_of_two_sizes(min(64, last), last)] if last > 16 else [last]
