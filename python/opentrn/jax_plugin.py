"""The `neuron` platform of JAX: how JAX finds OpenTrn's PJRT plugin.

JAX calls `initialize()` through the entry point `jax_plugins` of an installed OpenTrn, or through
`jax_plugins/opentrn.py` of a checkout on PYTHONPATH. Without Python,
`PJRT_NAMES_AND_LIBRARY_PATHS=neuron:<library_path()>` does the same.
"""

from __future__ import annotations

import os
from pathlib import Path

# Below the CPU's 0: a program moves to simulated devices only when it is told to, by JAX_PLATFORMS=neuron or
# jax.devices("neuron").
_PRIORITY = -100


def library_path() -> Path:
    """The plugin's shared library; FileNotFoundError where this OpenTrn was built without it."""
    path = Path(__file__).with_name("libneuronpjrt.so")
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: build OpenTrn (`./dev build`), or install its wheel")
    return path


def initialize() -> None:
    """Registers the platform `neuron` with JAX, unless the environment names a library for it."""
    from jax._src import xla_bridge

    from opentrn import jax_callbacks, jax_dlpack, jax_linalg, jax_qr, jax_top_k

    named = os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS", "").split(",")
    if any(entry.startswith("neuron:") for entry in named):
        return
    if "neuron" not in xla_bridge._backend_factories:
        xla_bridge.register_plugin("neuron", priority=_PRIORITY, library_path=str(library_path()))
        jax_callbacks.register(library_path())
        _add_cpu()
        jax_dlpack.register()
        jax_linalg.register()
        jax_qr.register()
        jax_top_k.register()


def _add_cpu() -> None:
    """Lets callbacks find a place for their arrays: JAX puts those of jax.debug.print on a CPU device of its own.

    JAX_PLATFORMS=neuron leaves JAX no other platform; the first one named stays the default.
    """
    import jax
    from jax._src import config

    named = config.jax_platforms.value
    if named and "neuron" in named.split(",") and "cpu" not in named.split(","):
        jax.config.update("jax_platforms", f"{named},cpu")
