"""A compilation that nobody waits for any more is stopped.

jaxlib compiles on threads of its own. A signal handler that raises, as Ctrl-C does, ends the wait of the main thread
and not the compilation, for which the process would then wait at its end.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Any


def register(library: Path) -> None:
    """Makes JAX say when it gives up a compilation for `neuron`; `library` is the plugin, which has the function."""
    from jax._src import compiler

    compile_or_get_cached = compiler.compile_or_get_cached
    waiting = 0  # threads
    lock = threading.Lock()

    def compile_or_stop(backend: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal waiting
        if backend.platform != "neuron":
            return compile_or_get_cached(backend, *arguments, **options)
        with lock:
            waiting += 1
        given_up = True
        try:
            executable = compile_or_get_cached(backend, *arguments, **options)
            given_up = False
            return executable
        finally:
            with lock:
                waiting -= 1
                # Whose compilation is whose, only jaxlib knows; where nobody waits, they are all given up.
                if given_up and waiting == 0:
                    ctypes.CDLL(str(library)).opentrn_stop_compilations()

    def renew() -> None:
        nonlocal lock, waiting
        lock, waiting = threading.Lock(), 0

    compiler.compile_or_get_cached = compile_or_stop
    os.register_at_fork(after_in_child=renew)
