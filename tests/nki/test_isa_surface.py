"""nki.isa: every documented instruction is reachable under its name, bound to the backend's own function."""

import enum

from opentrn.nki import _machine, isa


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
