"""The `neuron` platform of JAX: how JAX finds OpenTrn's PJRT plugin.

JAX calls `initialize()` through the entry point `jax_plugins` of an installed OpenTrn, or through
`jax_plugins/opentrn.py` of a checkout on PYTHONPATH. Without Python,
`PJRT_NAMES_AND_LIBRARY_PATHS=neuron:<library_path()>` does the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

from opentrn.errors import InputError, StateError

# Below the CPU's 0: a program moves to simulated devices only when it is told to, by JAX_PLATFORMS=neuron or
# jax.devices("neuron").
_PRIORITY = -100


class MissingLibrary(InputError, FileNotFoundError):
    """This OpenTrn was built without the plugin's library."""


def library_path() -> Path:
    """The plugin's shared library; FileNotFoundError where this OpenTrn was built without it."""
    path = Path(__file__).parents[1] / "libneuronpjrt.so"
    if not path.exists():
        raise MissingLibrary(
            f"{path} is missing", label="jax.library", hint="build OpenTrn (`./dev build`), or install its wheel"
        )
    return path


def initialize() -> None:
    """Registers the platform `neuron` with JAX, unless the environment names a library for it."""
    from jax._src import xla_bridge

    from opentrn.jax import callbacks as jax_callbacks
    from opentrn.jax import dlpack as jax_dlpack
    from opentrn.jax import interrupts as jax_interrupts
    from opentrn.jax import permutes as jax_permutes
    from opentrn.jax import solvers as jax_solvers
    from opentrn.jax import top_k as jax_top_k

    named = os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS", "").split(",")
    if any(entry.startswith("neuron:") for entry in named):
        return
    if "neuron" not in xla_bridge._backend_factories:
        xla_bridge.register_plugin(
            "neuron", priority=_PRIORITY, library_path=str(library_path()), options=_client_options
        )
        jax_callbacks.register(library_path())
        _add_cpu()
        jax_dlpack.register()
        jax_interrupts.register(library_path())
        jax_permutes.register()
        jax_solvers.register()
        jax_top_k.register()
        os.register_at_fork(after_in_child=_refuse_compilations)


def _client_options() -> dict[str, Any]:
    """Of the plugin's client: the command that starts Shardy, which spreads programs over devices."""
    return {"shardy": f"{sys.executable}\n{Path(__file__).with_name('shardy.py')}"}


def _refuse_compilations() -> None:
    """In the child of a fork: an error for a compilation, which waits for threads of jaxlib's that are not there.

    So does the end of jaxlib's clients, which therefore never comes there. The plugin itself refuses the rest
    (Client::expect_not_forked in src/pjrt/client.h).
    """
    from jax._src import compiler, xla_bridge

    forked = xla_bridge._backends.get("neuron")
    if forked is None:  # the platform starts here, with threads of its own
        return
    for backend in xla_bridge._backends.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(backend))
    compile_or_get_cached = compiler.compile_or_get_cached

    def compile_or_refuse(backend: Any, *arguments: Any, **options: Any) -> Any:
        if backend is forked:
            raise StateError(
                "this process was forked after the platform neuron had started its threads, which a fork does "
                "not copy",
                label="pjrt.fork",
                hint='start processes with multiprocessing.get_context("spawn"), or fork before JAX is first '
                "used",
            )
        return compile_or_get_cached(backend, *arguments, **options)

    compiler.compile_or_get_cached = compile_or_refuse


def _add_cpu() -> None:
    """Lets callbacks find a place for their arrays: JAX puts those of jax.debug.print on a CPU device of its own.

    JAX_PLATFORMS=neuron leaves JAX no other platform; the first one named stays the default.
    """
    import jax
    from jax._src import config

    named = config.jax_platforms.value
    if named and "neuron" in named.split(",") and "cpu" not in named.split(","):
        jax.config.update("jax_platforms", f"{named},cpu")
