"""`opentrn.profile_program()`: what a block of a JAX or PyTorch program would cost on the device.

with opentrn.profile_program() as profile:
    for batch in batches:
        state = step(state, batch)
print(profile)                     # a table, at most 80 columns
profile.step_us, profile.mfu       # device time of a step, Tensor engine utilisation
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from opentrn.errors import StateError

__all__ = ["ProgramProfile", "profile_program"]


class ProgramProfile:
    """The sums of a profiled block; empty until it ends.

    All of it is in `data`, as `opentrn profile --json` writes it: times in microseconds of one device, rates in
    USD per hour of one logical core, memory in bytes of the device that had most since the program began. A run of
    a program is its launch (`launch_us` of its row) and its instructions (`device_us`); totals count both.
    """

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}

    @property
    def device_us(self) -> float:
        """Of all programs that ran, one after the other, with their launches."""
        return self.data["device_s"] * 1e6

    @property
    def step_us(self) -> float | None:
        """Device time of one step, launches included.

        A step is a run of the function that takes most (forward pass, backward pass, optimizer: `data["step"]`) with
        the programs that run at least as often as it; what runs less often is in `beside_us`.
        """
        return self.data["step_us"]

    @property
    def beside_us(self) -> float:
        """Device time of programs that run less often than once a step, such as an evaluation; of all their runs."""
        return self.data["beside_us"]

    @property
    def mfu(self) -> float | None:
        """Share of the Tensor engine's BF16 peak; None where no time is known."""
        return self.data["mfu"]

    @property
    def host_gap_s(self) -> float:
        """Seconds of the block in which this host ran no program: Python, tracing, compilation."""
        return self.data["host_gap_s"]

    @property
    def bytes_peak(self) -> int:
        """HBM at most."""
        return self.data["bytes_peak"]

    @property
    def usd(self) -> dict[str, float | None]:
        """Price of the device time by kind of rate; None where no rate is published. `data["rented"]` has the
        instance of each: the one that is named as target, else the cheapest of its family."""
        return self.data["usd"]

    def __str__(self) -> str:
        from opentrn.cli.program import as_text

        return as_text(self.data, 12)


class _Jax:
    """The block's facts from the plugin that JAX runs programs with."""

    def __init__(self) -> None:
        from opentrn.jax.plugin import library_path

        self._plugin = ctypes.CDLL(str(library_path()))
        self._plugin.opentrn_profile_end.restype = ctypes.c_void_p
        failed = self._plugin.opentrn_profile_begin()
        if failed:
            if failed == 2:
                raise StateError(
                    "a block is being profiled already", label="pjrt.usage", hint="profile one block at a time"
                )
            raise StateError(
                "JAX uses another library for the platform 'neuron'",
                label="jax.library",
                hint="unset PJRT_NAMES_AND_LIBRARY_PATHS",
            )

    def end(self) -> dict[str, Any] | None:
        text = self._plugin.opentrn_profile_end()
        if not text:
            return None
        usage = json.loads(ctypes.string_at(text))
        libc = ctypes.CDLL(None)
        libc.free.argtypes = [ctypes.c_void_p]
        libc.free(text)
        return usage


class _Torch:
    """The block's facts from the backend of torch.compile."""

    def __init__(self) -> None:
        from opentrn.torch import usage

        self._usage = usage
        usage.begin_block()

    def end(self) -> dict[str, Any] | None:
        return self._usage.end_block()


def _frameworks() -> list[Callable[[], _Jax | _Torch]]:
    """Those that this process has imported; JAX where it has imported neither. RuntimeError: JAX lacks the platform."""
    found: list[Callable[[], _Jax | _Torch]] = []
    if "torch" in sys.modules:
        found.append(_Torch)
    if "jax" in sys.modules or not found:
        import jax

        try:
            jax.devices("neuron")  # makes the client
            found.append(_Jax)
        except RuntimeError:
            if not found:  # a program of PyTorch's may import JAX without its platform
                raise
    return found


@contextlib.contextmanager
def profile_program() -> Iterator[ProgramProfile]:
    """Sum what JAX programs on the platform `neuron`, and graphs of torch.compile(backend="neuron"), do in the block.

    RuntimeError when JAX has no such platform in use, or another block is being profiled. Values are unaffected.
    """
    from opentrn.cli.program import joined, summarise

    profile = ProgramProfile()
    begun: list[_Jax | _Torch] = []
    try:
        for make in _frameworks():
            begun.append(make())
        began = time.perf_counter()
        yield profile
    finally:
        parts = [part for each in begun if (part := each.end())]
        # A framework that ran nothing only says which machine it has.
        used = [part for part in parts if part["programs"]] or parts
        if used:
            profile.data = summarise(joined([json.dumps(part) for part in used]), time.perf_counter() - began)
