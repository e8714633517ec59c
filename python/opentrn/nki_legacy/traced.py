"""Placements inside loops.

NKI 0.1 traces the body of a loop once: an address that a kernel counts up in the body is that of the first iteration
in all of them. Here the body runs once per iteration, so the placements of the first are kept, in order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentrn.nki_legacy.tile import Place


class TracedBody:
    """What the first iteration of a loop's body placed, and the loops in it; of a launch, its whole text."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._loops: list[TracedBody] = []
        self._places_seen = self._loops_seen = 0

    def begin_iteration(self) -> None:
        """The body begins again."""
        self._places_seen = self._loops_seen = 0

    def place(self, wanted: Place) -> Place:
        """Where the tensor goes that this iteration wants at `wanted`."""
        if self._places_seen == len(self._places):
            self._places.append(wanted)
        self._places_seen += 1
        return self._places[self._places_seen - 1]

    def loop(self) -> TracedBody:
        """The body of the next loop in this one."""
        if self._loops_seen == len(self._loops):
            self._loops.append(TracedBody())
        self._loops_seen += 1
        return self._loops[self._loops_seen - 1]


class Traced:
    """The innermost body that a launch is in."""

    def __init__(self) -> None:
        self.body = TracedBody()

    @contextlib.contextmanager
    def loop(self) -> Iterator[Callable[[], None]]:
        """A loop that is traced: call what is given at the beginning of each iteration."""
        outer, self.body = self.body, self.body.loop()
        try:
            yield self.body.begin_iteration
        finally:
            self.body = outer
