"""`opentrn.profile_program()`: what a block of a JAX program would cost on the device.

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
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["ProgramProfile", "profile_program"]


class ProgramProfile:
    """The sums of a profiled block; empty until it ends.

    All of it is in `data`, as `opentrn profile --json` writes it: times in microseconds of one device, rates in
    USD per hour of one logical core, memory in bytes of the device that had most since the program began.
    """

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}

    @property
    def device_us(self) -> float:
        """Of all programs that ran, one after the other."""
        return self.data["device_s"] * 1e6

    @property
    def step_us(self) -> float | None:
        """Device time of one step: all of it over the runs of the program that takes most."""
        return self.data["step_us"]

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
        """Price of the device time by kind of rate; None where no rate is published."""
        return self.data["usd"]

    def __str__(self) -> str:
        from opentrn.cli_program import as_text

        return as_text(self.data, 12)


@contextlib.contextmanager
def profile_program() -> Iterator[ProgramProfile]:
    """Sum what JAX programs on the platform `neuron` do inside the block.

    RuntimeError when JAX has no such platform in use, or another block is being profiled. Values are unaffected.
    """
    import jax

    from opentrn.cli_program import summarise
    from opentrn.jax_plugin import library_path

    jax.devices("neuron")  # makes the client
    plugin = ctypes.CDLL(str(library_path()))
    plugin.opentrn_profile_end.restype = ctypes.c_void_p
    failed = plugin.opentrn_profile_begin()
    if failed:
        raise RuntimeError(
            "a block is being profiled already"
            if failed == 2
            else "JAX uses another library for the platform 'neuron'\n  try: unset PJRT_NAMES_AND_LIBRARY_PATHS"
        )
    profile = ProgramProfile()
    began = time.perf_counter()
    try:
        yield profile
    finally:
        text = plugin.opentrn_profile_end()
        seconds = time.perf_counter() - began
        if text:
            usage = json.loads(ctypes.string_at(text))
            libc = ctypes.CDLL(None)
            libc.free.argtypes = [ctypes.c_void_p]
            libc.free(text)
            profile.data = summarise(usage, seconds)
