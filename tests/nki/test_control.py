"""Loops with registers, no_reorder."""

import numpy as np
import pytest

from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl


def count(loop):
    """Run `loop(bump)`, where bump() adds 1 to a counter tile; the final count."""

    def kernel(bound):
        counter = nl.zeros((1, 1), nl.int32)
        register = nisa.register_alloc()
        nisa.register_load(register, nl.load(bound))

        def bump(*_):
            nisa.tensor_scalar(counter, counter, nl.add, 1)

        loop(bump, register)
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, counter)
        return out

    return int(nki.simulate(kernel)(np.array([[5]], np.int32))[0, 0])


def test_static_ranges_are_range():
    assert (
        list(nl.affine_range(1, 7, 2)) == list(nl.sequential_range(1, 7, 2)) == list(nl.static_range(1, 7, 2))
    )


RANGES = [nl.affine_range, nl.sequential_range, nl.static_range, nl.dynamic_range]


@pytest.mark.parametrize("loop", RANGES, ids=["affine_range", "sequential_range", "static_range", "dynamic_range"])
def test_ranges_take_a_start_a_stop_and_a_step(loop):
    """fori_loop takes the first two always."""
    assert count(lambda bump, _: [bump() for _ in loop(3)]) == 3
    assert count(lambda bump, _: [bump() for _ in loop(3, stop=7)]) == 4
    assert count(lambda bump, _: [bump() for _ in loop(3, stop=7, step=2)]) == 2
    assert count(lambda bump, _: nl.fori_loop(3, 7, bump, step=2)) == 2


def test_dynamic_range_with_register_bounds():
    def loop(bump, register):
        for _ in nl.dynamic_range(1, register, 2):
            bump()

    assert count(loop) == 2
    assert count(lambda bump, register: [bump() for _ in nl.dynamic_range(register)]) == 5


def test_fori_loop():
    assert count(lambda bump, register: nl.fori_loop(0, register, bump)) == 5


def test_while_loop_and_while_register():
    def structured(bump, register):
        def body(r):
            bump()
            return nisa.register_alloc(r - 1)

        nl.while_loop(register, body)

    def plain(bump, register):
        while register:
            bump()
            nisa.register_move(register, register - 1)

    assert count(structured) == count(plain) == 5


def test_loop_variable_is_an_offset():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

        def body(i):
            row = nl.ndarray((1, x.shape[1]), x.dtype)
            nisa.dma_copy(row, x.ap([[4, 1], [1, 4]], scalar_offset=i, indirect_dim=0))
            nisa.dma_copy(out.ap([[4, 1], [1, 4]], scalar_offset=i, indirect_dim=0), row)

        nl.fori_loop(0, x.shape[0], body)
        return out

    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    assert np.array_equal(nki.simulate(kernel)(x), x)


def test_loop_variable_is_read_only():
    def loop(bump, register):
        nl.fori_loop(0, 2, lambda i: nisa.register_move(i, 0))

    with pytest.raises(NkiValidationError, match="read-only"):
        count(loop)


def test_refusals():
    with pytest.raises(NkiValidationError, match="positive compile-time"):
        count(lambda bump, register: nl.fori_loop(0, 4, bump, step=0))
    with pytest.raises(NkiValidationError, match="returned None"):
        count(lambda bump, register: nl.while_loop(register, bump))

    def inside(bump, register):
        with nl.no_reorder():
            nl.fori_loop(0, 2, bump)

    with pytest.raises(NkiValidationError, match="no_reorder"):
        count(inside)

    def around(bump, register):
        for _ in range(2):
            with nl.no_reorder():
                bump()

    assert count(around) == 2


@pytest.mark.parametrize("use", ["store", "move", "offset", "bound", "int"])
def test_a_register_that_nothing_has_set_is_an_uninitialised_read(use):
    """nki.isa.register_alloc: without a value it allocates an uninitialized register."""

    def kernel(x):
        register = nisa.register_alloc()
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        tile = nl.zeros((1, 4), nl.int32)
        if use == "store":
            nisa.register_store(tile[:, 0:1], register)
        elif use == "move":
            nisa.register_move(nisa.register_alloc(), register)
        elif use == "offset":
            nisa.tensor_copy(tile[:, 0:1], tile.ap([[4, 1], [1, 1]], scalar_offset=register))
        elif use == "bound":
            for _ in nl.dynamic_range(register):
                nisa.memset(tile, 1)
        else:
            int(register)
        nisa.dma_copy(out, tile[:, 0:1])
        return out

    with pytest.raises(NkiValidationError, match=r"sim\.uninitialised_read.*nothing has set") as failure:
        nki.simulate(kernel)(np.zeros((1, 1), np.int32))
    assert "test_control.py" in str(failure.value)
