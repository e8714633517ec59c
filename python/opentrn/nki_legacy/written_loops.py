"""Which instructions of the recorded program belong to which iteration of the kernel's loops.

A kernel's loops are written out while it is recorded. neuronx-cc sees the loops, so the program keeps a mark for each
instruction (isa::WrittenLoop) and the backend can do what that compiler does with them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from opentrn.nki._machine import machine_or_none


@contextlib.contextmanager
def written_loop(independent: bool) -> Iterator[Callable[[], None]]:
    """A loop of the kernel: call what is given at the beginning of each iteration.

    `independent`: the author says that iterations do not depend on each other (nl.affine_range).
    """
    machine = machine_or_none()
    if not hasattr(machine, "begin_written_loop"):  # the oracle records no program
        yield lambda: None
        return
    outer = machine.iteration
    loop: int | None = None

    def next_iteration() -> None:
        nonlocal loop
        if loop is None:
            machine.iteration = outer
            loop = machine.begin_written_loop(independent)
        else:
            machine.next_iteration(loop)

    try:
        yield next_iteration
    finally:
        machine.iteration = outer
