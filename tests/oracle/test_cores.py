"""Registers, machines, and launches over two cores."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from opentrn.errors import NkiValidationError, UndefinedBehavior
from opentrn.nki import isa as nki_isa
from opentrn.oracle import isa as nisa
from opentrn.oracle.machine import Machine, PeerCoreFailed, current, run, run_cores
from opentrn.types.isa_enums import MemoryRegion, engine, nc_version, oob_mode, reduce_cmd


def test_registers_load_store_and_count(tiles):
    register = nisa.register_alloc()
    with pytest.raises(UndefinedBehavior):
        int(register)
    nisa.register_load(register, tiles.of([[41]], "int32"))
    nisa.register_move(register, register + 1)
    dst = tiles.empty((1, 1), "int32")
    nisa.register_store(dst, register)
    assert dst.numpy()[0, 0] == 42
    assert list(range(register))[-1] == 41
    assert register == 42 and register > 41 and 2 * register == 84 and 100 - register == 58
    nisa.register_move(register, 2**31)
    assert int(register) == -(2**31)  # 32 bits
    assert not nisa.register_alloc(0)
    assert nisa.register_alloc(tiles.of([[7]], "int32")) == 7  # the 0.2 form


def test_while_on_a_register_runs(tiles):
    counter = tiles.of([[3]], "int32")
    register, turns = nisa.register_alloc(counter), 0
    while register:
        nisa.tensor_scalar(counter, counter, "subtract", 1.0)
        nisa.register_load(register, counter)
        turns += 1
    assert turns == 3


def test_machines_nest_and_end():
    with Machine("trn1") as outer:
        assert nisa.get_nc_version() is nc_version.gen2
        with Machine("gen4"):
            assert nisa.get_nc_version() >= nc_version.gen4
        assert current() is outer
    with pytest.raises(NkiValidationError, match="no NeuronCore"):
        current()


def test_ndarray_limits(machine):
    with pytest.raises(NkiValidationError, match="at most 128"):
        machine.ndarray((129, 4), "float32")
    with pytest.raises(NkiValidationError, match="at least 2"):
        machine.ndarray((4,), "float32")
    assert machine.ndarray((4,), "float32", "hbm").buffer is MemoryRegion.private_hbm


def test_run_wraps_arrays_by_reference_and_unwraps_results():
    def kernel(x, factor):
        machine = current()
        tile = machine.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        nisa.tensor_scalar(tile, tile, "multiply", factor)
        nisa.dma_copy(x[0:1], tile[0:1])
        return tile, {"n": 1}

    array = np.ones((2, 3), np.float32)
    result, extra = run(kernel, array, 4.0)
    np.testing.assert_array_equal(result, np.full((2, 3), 4))
    np.testing.assert_array_equal(array, [[4, 4, 4], [1, 1, 1]])
    assert extra == {"n": 1}


def test_two_cores_exchange_tiles_and_share_hbm():
    def program(machine):
        mine, theirs = machine.ndarray((2, 4), "float32"), machine.ndarray((2, 4), "float32")
        nisa.memset(mine, float(machine.core_id + 1))
        other = 1 - machine.core_id
        nisa.sendrecv(mine, theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0)
        out = machine.ndarray((4, 4), "float32", "shared_hbm", "out")
        nisa.dma_copy(out[2 * machine.core_id : 2 * machine.core_id + 2], theirs)
        nisa.core_barrier(out, (0, 1))
        return out.to_numpy()

    for result in run_cores(program, lnc=2):
        np.testing.assert_array_equal(result, np.repeat([2.0, 1.0], 2)[:, None] * np.ones((4, 4)))


def test_pipes_are_independent():
    def program(machine):
        received = []
        order = (0, 1) if machine.core_id == 0 else (0, 1)
        tiles = {p: machine.ndarray((1, 1), "int32") for p in order}
        for pipe in order:
            tile = machine.ndarray((1, 1), "int32")
            nisa.memset(tile, 10 * machine.core_id + pipe)
            nisa.sendrecv(tile, tiles[pipe], 1 - machine.core_id, 1 - machine.core_id, pipe)
            received.append(int(tiles[pipe].numpy()[0, 0]))
        return received

    assert run_cores(program, lnc=2) == [[10, 11], [0, 1]]


def test_unnamed_shared_tensors_match_by_creation_order():
    def program(machine):
        first = machine.ndarray((1, 2), "int32", "shared_hbm")
        second = machine.ndarray((1, 2), "int32", "shared_hbm")
        if machine.core_id == 1:
            second.numpy()[...] = 9
        nisa.core_barrier(first)
        return int(second.numpy()[0, 0])

    assert run_cores(program, lnc=2) == [9, 9]


def test_a_core_that_never_arrives_is_reported_instead_of_waited_for():
    def program(machine):
        if machine.core_id == 0:
            nisa.core_barrier(machine.ndarray((1, 1), "float32", "shared_hbm"))

    with pytest.raises(PeerCoreFailed, match="core_barrier"):
        run_cores(program, lnc=2)


def test_the_failure_of_one_core_is_the_failure_of_the_launch():
    def program(machine):
        if machine.core_id == 1:
            raise ValueError("core 1")
        tile = machine.ndarray((1, 1), "float32")
        nisa.sendrecv(tile, tile, 1, 1, 0)

    with pytest.raises(ValueError, match="core 1"):
        run_cores(program, lnc=2)


def test_exchange_is_refused_on_one_core(tiles):
    tile = tiles.empty((1, 1))
    with pytest.raises(NkiValidationError, match="LNC2"):
        nisa.sendrecv(tile, tile, 1, 1, 0)


def test_enumerations_have_the_documented_values():
    assert [e.value for e in (engine.tensor, engine.scalar, engine.gpsimd, engine.vector)] == [1, 2, 3, 5]
    assert (reduce_cmd.load_reduce.value, oob_mode.skip.value) == (4, 1)
    assert MemoryRegion("hbm") is MemoryRegion.private_hbm
    assert MemoryRegion.sbuf == "sbuf"


def test_the_instruction_set_is_complete():
    """The reference has the instructions of nki.isa and no others; all but registers take a name."""
    assert len(nisa.INSTRUCTIONS) == len(set(nisa.INSTRUCTIONS))
    assert set(nisa.INSTRUCTIONS) == set(nki_isa.INSTRUCTIONS)
    for name in nisa.INSTRUCTIONS:
        parameters = list(inspect.signature(getattr(nisa, name)).parameters)
        assert name.startswith("register_") or parameters[-1] == "name"
