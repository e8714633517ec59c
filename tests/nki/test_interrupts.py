"""Signals end kernels that would run for long, and what runs next is right. docs/decisions/0034."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

import numpy as np
import pytest

import opentrn
from opentrn import graph, nki
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from tests import endless as tests_endless
from tests.alarms import SECONDS, longest_deafness, raises_soon
from tests.endless import endless

X = np.ones((128, 512), np.float32)


@nki.jit
def counted(x, rounds):
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in nl.dynamic_range(rounds):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def written_out(x, rounds):
    """Batches of instructions, which another thread computes."""
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(rounds):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def meeting(x, rounds):
    """Two cores that meet, one of which then counts for long while the other waits for it."""
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    out = nl.ndarray((2, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    nisa.dma_copy(dst=out[core], src=tile)
    nisa.core_barrier(data=out, cores=(0, 1))
    if core == 0:
        for _ in nl.dynamic_range(rounds):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.core_barrier(data=out, cores=(0, 1))
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def check_next_kernel() -> None:
    """What a launch behind an interrupted one computes."""
    np.testing.assert_array_equal(opentrn.run(counted, X, 5).outputs, X + 5)


@pytest.mark.parametrize(
    "kernel, arguments", [(endless, ()), (counted, (20_000_000,)), (written_out, (1_000_000,))]
)
def test_alarm_ends_a_kernel(kernel, arguments) -> None:
    with raises_soon():
        opentrn.run(kernel, X, *arguments)
    check_next_kernel()


def test_where_a_loop_stood_is_told() -> None:
    with raises_soon(after=3) as where:  # the loop runs by then, on a busy machine too
        opentrn.run(endless, X)
    assert f"{tests_endless.__file__}:" in where[0] and " in endless" in where[0]


def test_time_only_run_ends() -> None:
    with raises_soon():
        opentrn.run(written_out, X, 1_000_000, execute=False)
    check_next_kernel()


def test_timing_listens_all_along() -> None:
    """A million instructions: every phase of compiling and timing them is interruptible."""
    shape = opentrn.ShapeOf(X.shape)
    assert longest_deafness(lambda: opentrn.run(written_out, shape, 1_000_000, execute=False)) < 0.3


def test_two_cores_end_together() -> None:
    with raises_soon():
        opentrn.run(meeting, X, 20_000_000, lnc=2, time=False)
    result = opentrn.run(meeting, X, 3, lnc=2, time=False).outputs
    np.testing.assert_array_equal(result, np.stack([X + 3, X]))


def test_ctrl_c_is_keyboard_interrupt() -> None:
    threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        opentrn.run(endless, X)
    assert time.perf_counter() - begin < 0.4 + SECONDS
    check_next_kernel()


def test_handler_that_raises_nothing_changes_nothing() -> None:
    calls = 0

    def count(number: int, frame: FrameType | None) -> None:
        nonlocal calls
        calls += 1

    before = signal.signal(signal.SIGALRM, count)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        begin = time.perf_counter()
        result = opentrn.run(counted, X, 20_000, time=False).outputs
        seconds = time.perf_counter() - begin
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(result, X + 20_000)
    assert calls >= min(2, int(seconds / 0.2))


def test_handler_may_not_call_the_core() -> None:
    def nested(number: int, frame: FrameType | None) -> None:
        graph.parse("func.func @main() { return }")

    before = signal.signal(signal.SIGALRM, nested)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(NkiValidationError, match=r"interrupt\.handler.*signal handler"):
            opentrn.run(endless, X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    check_next_kernel()


# -- loops that never end


@nki.jit
def forgets_to_load(x):
    again = nisa.register_alloc(1)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    while again:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def writes_in_an_inner_loop(x):
    again = nisa.register_alloc(1)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    while again:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        for _ in nl.dynamic_range(2):
            nisa.register_move(again, 0)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("execute", [True, False])
def test_body_that_never_writes_the_condition_is_refused(execute: bool) -> None:
    line = forgets_to_load.func.__code__.co_firstlineno + 5
    with pytest.raises(
        NkiValidationError, match="register that ends it is not written in the body"
    ) as caught:
        opentrn.run(forgets_to_load, X, execute=execute)
    assert "[loop.endless]" in str(caught.value)
    assert f"{__file__}:{line} in forgets_to_load" in str(caught.value)


def test_condition_may_be_written_in_an_inner_loop() -> None:
    np.testing.assert_array_equal(opentrn.run(writes_in_an_inner_loop, X, time=False).outputs, X + 1)


def test_limit_of_a_while() -> None:
    with pytest.raises(NkiValidationError, match=r"sim\.while_iterations.*ran 100 times") as caught:
        opentrn.run(endless, X, loop_limit=100)
    assert "--loop-limit N, loop_limit=N or OPENTRN_LOOP_LIMIT=N" in str(caught.value)


def test_limit_of_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("OPENTRN_LOOP_LIMIT", "50")
    with pytest.raises(NkiValidationError, match="ran 50 times"):
        opentrn.run(endless, X)
    with pytest.raises(NkiValidationError, match="ran 70 times"):
        opentrn.run(endless, X, loop_limit=70)
    monkeypatch.setenv("OPENTRN_LOOP_LIMIT", "0")
    with pytest.raises(ValueError, match="OPENTRN_LOOP_LIMIT is '0'"):
        opentrn.run(endless, X)


@nki.jit
def counts_to_a_value(x, count):
    bound = nisa.register_alloc(None)
    held = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=count)
    nisa.register_load(bound, held)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in nl.dynamic_range(bound):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_limit_of_counted_loops_is_of_those_that_values_bound() -> None:
    ten = np.array([[10]], np.int32)
    result = opentrn.run(counts_to_a_value, X, ten, loop_limit=10, time=False).outputs
    np.testing.assert_array_equal(result, X + 10)
    with pytest.raises(NkiValidationError, match=r"sim\.loop_iterations.*10 times; the limit is 9"):
        opentrn.run(counts_to_a_value, X, ten, loop_limit=9, time=False)
    np.testing.assert_array_equal(opentrn.run(counted, X, 10, loop_limit=9, time=False).outputs, X + 10)


@pytest.mark.parametrize("limit", [0, -1, 1 << 31])
def test_limits_that_no_loop_has_are_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"loop_limit is {limit}"):
        opentrn.run(counted, X, 1, loop_limit=limit)
