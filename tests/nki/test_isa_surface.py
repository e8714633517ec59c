"""nki.isa: every documented instruction is reachable under its name, bound to the backend's own function."""

import enum

import numpy as np

from opentrn import nki
from opentrn.kernel import machine as core
from opentrn.nki import _machine, isa
from opentrn.nki import language as nl
from opentrn.oracle import isa as oracle


def test_no_instruction_is_missing():
    assert isa.missing_instructions() == []


def test_the_calls_are_those_of_the_instruction_table_and_the_registers():
    assert len(isa.INSTRUCTIONS) == len(set(isa.INSTRUCTIONS))
    registers = {name for name in isa.INSTRUCTIONS if name.startswith("register_")}
    assert registers == {"register_alloc", "register_load", "register_move", "register_store"}
    # opentrn.custom_op calls the sparse product; nki.isa has none.
    of_the_table = {name for name in dir(core.isa) if hasattr(getattr(core.isa, name), "first_generation")}
    assert of_the_table - set(isa.INSTRUCTIONS) == {"nc_matmul_sparse"}


def test_every_instruction_has_a_reference():
    for name in (*isa.INSTRUCTIONS, "nc_matmul_sparse"):
        assert callable(getattr(oracle, name, None)), name


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
