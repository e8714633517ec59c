"""nki.isa: every documented instruction is reachable under its name, bound to the backend's own function."""

import enum

import numpy as np

from opentrn import nki
from opentrn.nki import _machine, isa
from opentrn.nki import language as nl


def test_no_instruction_is_missing():
    assert isa.missing_instructions() == []


def test_functions_are_the_backend_s_own():
    backend = _machine.backend()
    for name in isa.INSTRUCTIONS:
        assert getattr(isa, name) is getattr(backend.isa, name)


def test_enumerations_and_engine_constants():
    for name in (
        "engine",
        "reduce_cmd",
        "dge_mode",
        "oob_mode",
        "nc_version",
        "dma_engine",
        "matmul_perf_mode",
    ):
        assert issubclass(getattr(isa, name), enum.Enum)
    assert isa.constants.oob_mode is isa.oob_mode
    assert isa.scalar_engine is isa.engine.scalar and isa.engine.vector.value == 5
    assert isa.get_nc_sub_version() == 0


def test_depends_on_returns_the_instruction():
    def kernel(x):
        tile = nl.load(x)
        first = isa.tensor_copy(tile, tile)
        second = isa.tensor_copy(tile, tile, name="second")
        assert isinstance(second, isa.NkiInstruction)
        assert second.depends_on(first) is second
        return x

    nki.simulate(kernel)(np.ones((2, 2), np.float32))


def test_tensors_are_of_the_public_class():
    def kernel(x):
        assert isinstance(x, nl.NkiTensor) and not isinstance(3, nl.NkiTensor)
        register = isa.register_alloc(3)
        assert isinstance(register, isa.VirtualRegister) and int(register) == 3
        return x

    nki.simulate(kernel)(np.ones((2, 2), np.float32))
