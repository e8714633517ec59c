"""Machines and tiles for the oracle's tests. Every test runs inside an active machine and prints nothing."""

from __future__ import annotations

import numpy as np
import pytest

from opentrn.oracle.machine import Machine
from opentrn.oracle.tensor import NkiTensor


class Tiles:
    """Makes tensors with given contents on one machine."""

    def __init__(self, machine: Machine):
        self.machine = machine

    def empty(self, shape, dtype="float32", buffer="sbuf") -> NkiTensor:
        return self.machine.ndarray(shape, dtype, buffer)

    def of(self, values, dtype=None, buffer="sbuf") -> NkiTensor:
        values = np.asarray(values)
        tile = self.machine.ndarray(values.shape, values.dtype if dtype is None else dtype, buffer)
        tile.numpy()[...] = values.astype(tile.numpy().dtype)
        return tile


@pytest.fixture
def machine():
    with Machine("trn2") as machine:
        yield machine


@pytest.fixture
def tiles(machine):
    return Tiles(machine)


@pytest.fixture
def tiles_v4():
    with Machine("trn3") as machine:
        yield Tiles(machine)


@pytest.fixture
def rng():
    return np.random.default_rng(20261121)
