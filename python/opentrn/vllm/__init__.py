"""vLLM's platform of simulated NeuronCores: vLLM's own server, scheduler and clients over OpenTrn's engine.

    python -m vllm.entrypoints.openai.api_server --model FOLDER

finds it by the entry point `vllm.platform_plugins` wherever both packages are installed. The tokens are computed on a
simulated NeuronCore, from the blocks that the scheduler gives; `opentrn:predicted_...` in /metrics and the trace say
how long the device would have taken. docs/serve.md has the settings.
"""

from __future__ import annotations

__all__ = ["platform"]


def platform() -> str:
    """For vLLM: the class of the platform. Nothing of vLLM is imported before it asks."""
    return "opentrn.vllm.platform.NeuronPlatform"
