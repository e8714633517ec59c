"""Prints, as JSON, what kernels of the dialect are recorded as: the kernels of test_kernels.py, and random ones.

A program of its own, because a process has one form of tensors and views (opentrn.nki_legacy.base).
"""

from __future__ import annotations

import inspect
import json
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import test_kernels  # noqa: E402

import opentrn.nki_legacy as nki  # noqa: E402
import opentrn.nki_legacy.isa as nisa  # noqa: E402
import opentrn.nki_legacy.language as nl  # noqa: E402
from opentrn.errors import NkiValidationError, NotModelled, UndefinedBehavior  # noqa: E402
from opentrn.kernel import machine as core  # noqa: E402

RANDOM_KERNELS = 120
STATEMENTS = 14
REFUSALS = (NkiValidationError, NotModelled, UndefinedBehavior, TypeError, ValueError)


def recorded(launch: Callable[[], Any]) -> list[str]:
    """The programs of the launches, and what stopped them."""
    refusal = ""
    with core.observed_launches() as launches, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            launch()
        except REFUSALS as error:
            refusal = f"{type(error).__name__}: {error}"
    return [machine.program_text() for machines in launches for machine in machines] + [refusal]


class Writer:
    """Statements of one random kernel, over tiles of [32, 64] and blocks of them."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        memory = [("a", "nl.sbuf"), ("b", "nl.sbuf"), ("p", "nl.psum"), ("q", "nl.psum")]
        self.lines = [
            "x = nl.load(x_hbm)",
            "blocks = nl.zeros((3, nl.par_dim(32), 64), nl.float32)",
            "zeros = nl.zeros((32, 64), nl.float32, buffer=nl.psum)",
            "i, j = nl.mgrid[0:32, 0:64]",
        ]
        for name, buffer in memory:
            dtype = self.rng.choice(["nl.float32", "nl.float32", "nl.bfloat16"])
            self.lines.append(f"{name} = nl.ndarray((32, 64), dtype={dtype}, buffer={buffer})")

    def rows(self) -> str:
        return self.rng.choice([":", ":", "0:16", "16:32", "nl.ds(8, 8)", "5"])

    def columns(self) -> str:
        start, step = self.rng.choice([0, 16, 32]), self.rng.choice(["", "", ":2"])
        return self.rng.choice([":", f"{start}:{start + 32}{step}", "nl.ds(32, 32)", "0:64:2", "3", "60:70"])

    def view(self, of: str) -> str:
        shift = self.rng.choice([0, 0, 1, 32])
        return self.rng.choice([
            of, f"{of}[...]", f"{of}[{self.rows()}, {self.columns()}]", f"{of}[{self.rows()}]",
            f"{of}[i, j + {shift}]", f"{of}[i, 63 - j]", f"{of}[2 * i, j]", f"{of}.reshape((32, 8, 8))[:, 1]",
        ])  # fmt: skip

    def source(self) -> str:
        name = self.rng.choice(
            ["x", "x", "a", "b", "p", "q", "zeros", f"blocks[{self.rng.randrange(-1, 4)}]"]
        )
        return self.view(name)

    def mask(self) -> str:
        return self.rng.choice(
            ["", "", "", ", mask=j + 32 < 64", ", mask=i >= j", ", mask=False", ", mask=i % 2 == 0"]
        )

    def value(self) -> str:
        x, y, mask = self.source(), self.source(), self.mask()
        return self.rng.choice([
            f"nl.exp({x}{mask})", f"nl.copy({x}, dtype=nl.bfloat16{mask})", f"nl.add({x}, {y}{mask})",
            f"nl.multiply({x}, 2.0{mask})", f"nisa.tensor_reduce(np.add, {x}, axis=(1,), keepdims=True)", "0", "1.5",
            f"nisa.nc_matmul({x}, {y})", f"nisa.nc_transpose({x})", f"nl.loop_reduce({x}, np.add, [])", x,
            f"nisa.activation(nl.exp, {x}, bias=a[:, 0:1], scale=0.5{mask})", f"{x} + {y}", f"{x} > 0.0",
        ])  # fmt: skip

    def statement(self) -> str:
        target = self.view(self.rng.choice(["a", "b", "p", "q", "zeros", "blocks[1]", "blocks[k]"]))
        value = self.value()
        return self.rng.choice([
            f"{target} = {value}" if target.endswith("]") else f"{target}[...] = {value}",
            f"named = {value}; a[...] = named; b[...] = named",
            f"{target} += {value}", f"q += nisa.nc_matmul({self.source()}, {self.source()})", f"{value}",
            f"nl.store(out[0:32, 0:64], {self.source()}{self.mask()})", f"c = {value}; c += {self.source()}",
        ])  # fmt: skip

    def kernel(self) -> str:
        for _ in range(STATEMENTS):
            # A refused statement is passed over, so that the next ones are reached; its words count.
            self.lines += [
                "try:",
                f"    {self.statement()}",
                "except refusals as error:",
                "    said.append(str(error))",
            ]
        body = "".join(f"        {line}\n" for line in self.lines)
        return (
            "def kernel(x_hbm):\n"
            "    out = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.shared_hbm)\n"
            f"    for k in nl.affine_range(2):\n{body}"
            "    nl.store(out, a)\n    return out\n"
        )


def random_kernel(seed: int) -> list[str]:
    said: list[str] = []
    names = {"nl": nl, "nisa": nisa, "np": np, "refusals": REFUSALS, "said": said}
    text = Writer(seed).kernel()
    exec(compile(text, f"<random kernel {seed}>", "exec"), names)
    array = np.random.default_rng(seed).standard_normal((32, 64)).astype(np.float32)
    with core.observed_launches("never") as launches, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            nki.simulate_kernel(nki.jit(names["kernel"]), array)
        except REFUSALS as error:
            said.append(f"{type(error).__name__}: {error}")
    return [machine.program_text() for machines in launches for machine in machines] + said


def main() -> None:
    programs = {}
    for name, test in inspect.getmembers(test_kernels, inspect.isfunction):
        if name.startswith("test_") and not inspect.signature(test).parameters:
            programs[name] = recorded(test)
    for seed in range(RANDOM_KERNELS):
        programs[f"random kernel {seed}"] = random_kernel(seed)
    json.dump(programs, sys.stdout)


if __name__ == "__main__":
    main()
