"""The state that instructions share: engine accumulators, random generators, shared HBM, and the two cores of
an LNC2 launch, which run as two threads.

A `Machine` is one physical NeuronCore. `with machine:` makes it the current one of this thread; instructions
find it with `current()`. `run(kernel, args, lnc=2)` runs one program per core over one `Launch`, which holds
what the cores share: shared_hbm tensors (the same name, or the same place in creation order, is the same
memory), the barrier and the mailboxes of sendrecv.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, NotModelled, require
from opentrn.oracle.random_state import RandomState
from opentrn.oracle.tensor import NkiTensor, Storage, allocate
from opentrn.settings import stochastic_rounding as rounding
from opentrn.types.dtypes import dtype_of, to_numpy_dtype
from opentrn.types.isa_enums import MemoryRegion, nc_version, require_logical_core, target_version

PARTITIONS = 128

_thread = threading.local()


class PeerCoreFailed(RuntimeError):
    """The other core of the launch stopped while this one was waiting for it."""


class Launch:
    """What the cores of one logical NeuronCore share."""

    def __init__(self, num_cores: int = 1):
        self.num_cores = num_cores
        self.condition = threading.Condition()
        self.shared: dict[tuple[str, int], Storage] = {}
        self.mail: dict[tuple, deque] = defaultdict(deque)
        self.arrivals: Counter = Counter()
        self.running = num_cores

    def core_done(self) -> None:
        """A core finished or failed: wake whoever waits for it."""
        with self.condition:
            self.running -= 1
            self.condition.notify_all()

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        self.condition.wait_for(lambda: ready() or self.running < self.num_cores)
        if not ready():
            raise PeerCoreFailed(f"{what}: the other core ended without taking part")

    def barrier(self, core: int, name: Any) -> None:
        """Block until every core has arrived as often as this one."""
        with self.condition:
            self.arrivals[name, core] += 1
            mine = self.arrivals[name, core]
            self.condition.notify_all()
            self._wait(
                lambda: all(self.arrivals[name, c] >= mine for c in range(self.num_cores)), "core_barrier"
            )

    def exchange(self, core: int, send_to: int, recv_from: int, pipe: Any, payload: np.ndarray) -> np.ndarray:
        """Post `payload` for core `send_to` and wait for what `recv_from` posts to this core on the same
        pipe."""
        with self.condition:
            self.mail[pipe, core, send_to].append(payload)
            self.condition.notify_all()
            inbox = self.mail[pipe, recv_from, core]
            self._wait(lambda: len(inbox) > 0, "sendrecv")
            return inbox.popleft()


class Machine:
    """One NeuronCore: tensors, accumulator registers, random state.

    `sequential_matmul` replaces the BLAS product by one rank-1 update per row of the array, in row order:
    slower, but with a defined summation order (products and sums each rounded to float32).
    """

    def __init__(
        self,
        target: str | nc_version = "trn2",
        core_id: int = 0,
        num_cores: int = 1,
        launch: Launch | None = None,
        sequential_matmul: bool = False,
    ):
        self.nc_version = target_version(target)
        self.core_id = core_id
        self.num_cores = num_cores
        self.launch = launch or Launch(num_cores)
        self.sequential_matmul = sequential_matmul
        # One float32 per lane. An instruction on P partitions uses lanes 0..P-1.
        self.scalar_accumulators: np.ndarray = np.full(PARTITIONS, np.nan, np.float32)
        self.vector_accumulators: np.ndarray = np.full(PARTITIONS, np.nan, np.float32)
        self.random = RandomState()
        self._created: Counter = Counter()

    def __enter__(self) -> Machine:
        stack = getattr(_thread, "stack", None)
        if stack is None:
            stack = _thread.stack = []
        stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _thread.stack.pop()

    def ndarray(
        self,
        shape: Sequence[int],
        dtype: Any,
        buffer: MemoryRegion | str = MemoryRegion.sbuf,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> NkiTensor:
        """Fresh memory. `address` is recorded, not modelled: tensors at the same address do not alias
        here."""
        sizes = (shape,) if isinstance(shape, (int, np.integer)) else shape
        shape = tuple(int(size) for size in sizes)
        buffer = MemoryRegion(buffer)
        require(all(s > 0 for s in shape), f"ndarray {name!r}: shape {shape} must be positive")
        if buffer.is_on_chip:
            require(
                len(shape) >= 2, f"ndarray {name!r}: an on-chip tensor has at least 2 dimensions, got {shape}"
            )
            require(
                shape[0] <= PARTITIONS, f"ndarray {name!r}: {shape[0]} partitions, at most {PARTITIONS} exist"
            )
        if buffer is MemoryRegion.shared_hbm and self.num_cores > 1:
            return NkiTensor(shape, dtype, self._shared_storage(shape, dtype, name), name=name)
        return NkiTensor(shape, dtype, allocate(shape, dtype, buffer, address), name=name)

    def _shared_storage(self, shape: tuple[int, ...], dtype: Any, name: str) -> Storage:
        key = (name, self._created[name])
        self._created[name] += 1
        with self.launch.condition:
            if key not in self.launch.shared:
                self.launch.shared[key] = allocate(shape, dtype, MemoryRegion.shared_hbm)
            storage = self.launch.shared[key]
        need = int(np.prod(shape)) * to_numpy_dtype(dtype).itemsize
        require(
            storage.bytes.size == need,
            f"shared_hbm tensor {name!r} number {key[1]}: the cores disagree on its size "
            f"({storage.bytes.size} and {need} bytes)",
        )
        return storage

    def from_array(
        self,
        array: np.ndarray,
        name: str = "",
        buffer: MemoryRegion | str = MemoryRegion.private_hbm,
        dtype: Any = None,
    ) -> NkiTensor:
        """A tensor over the array's own memory when it is C-contiguous and writable, else over a copy."""
        return from_array(array, name, buffer, dtype)


def from_array(
    array: np.ndarray,
    name: str = "",
    buffer: MemoryRegion | str = MemoryRegion.private_hbm,
    dtype: Any = None,
) -> NkiTensor:
    """See Machine.from_array. `dtype` reinterprets the element type (x4 types over uint32 or uint16)."""
    array = np.asarray(array)
    dtype = dtype_of(array.dtype if dtype is None else dtype)
    if not (array.flags.c_contiguous and array.flags.writeable):
        array = np.array(array, order="C")
    shape = array.shape or (1,)
    flat = array.reshape(-1)
    data: np.ndarray = flat.view(np.uint8)
    require(
        to_numpy_dtype(dtype).itemsize == array.dtype.itemsize,
        f"array {name!r} of {array.dtype} cannot hold elements of {dtype}",
    )
    partition_bytes = data.size // max(1, shape[0])
    return NkiTensor(shape, dtype, Storage(data, MemoryRegion(buffer), partition_bytes), name=name)


def current_or_none() -> Machine | None:
    """The machine that this thread activated last, or None."""
    stack = getattr(_thread, "stack", None)
    return stack[-1] if stack else None


def current() -> Machine:
    """The machine that this thread activated last. Raises NkiValidationError when there is none."""
    machine = current_or_none()
    if machine is None:
        raise NkiValidationError(
            "no NeuronCore is active in this thread: use `with Machine(...):` or nki.simulate(kernel)"
        )
    return machine


def run_cores(
    program: Callable[[Machine], Any],
    lnc: int = 1,
    target: str | nc_version = "trn2",
    stochastic_rounding: int | bool | None = None,
    **machine_options: Any,
) -> list[Any]:
    """Call `program(machine)` once per core, each in its own thread with its machine active; the results by
    core.

    With lnc=1 the program runs in the calling thread. The first failure of a core is raised. NotModelled where
    `stochastic_rounding`, or the environment without it, asks for that: the oracle rounds to nearest even.
    """
    require_logical_core(target, lnc)
    if rounding.is_wanted(stochastic_rounding):
        raise NotModelled(
            "the oracle rounds to nearest even: stochastic rounding (stochastic_rounding=, "
            "NEURON_RT_STOCHASTIC_ROUNDING_EN) needs the backend 'core'"
        )
    launch = Launch(lnc)
    machines = [Machine(target, core, lnc, launch, **machine_options) for core in range(lnc)]
    if lnc == 1:
        with machines[0]:
            return [program(machines[0])]
    results: list[Any] = [None] * lnc
    failures: list[BaseException] = []

    def core_main(core: int) -> None:
        try:
            with machines[core]:
                results[core] = program(machines[core])
        except BaseException as error:
            failures.append(error)
        finally:
            launch.core_done()

    threads = [threading.Thread(target=core_main, args=(core,), name=f"core{core}") for core in range(lnc)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        own = [f for f in failures if not isinstance(f, PeerCoreFailed)]
        raise (own or failures)[0]
    return results


def run(
    kernel: Callable[..., Any],
    *args: Any,
    lnc: int = 1,
    target: str | nc_version = "trn2",
    **kwargs: Any,
) -> Any:
    """Run `kernel(*args, **kwargs)` eagerly: numpy arrays become HBM tensors, returned tensors become numpy
    arrays.

    Arrays are passed by reference, so a kernel that writes its input changes the caller's array. With lnc=2
    the result of core 0 is returned.
    """
    region = MemoryRegion.shared_hbm if lnc > 1 else MemoryRegion.private_hbm

    def wrap(value: Any) -> Any:
        return from_array(value, buffer=region) if isinstance(value, np.ndarray) else value

    args = tuple(wrap(a) for a in args)
    kwargs = {k: wrap(v) for k, v in kwargs.items()}
    return unwrap(run_cores(lambda machine: kernel(*args, **kwargs), lnc, target)[0])


def unwrap(value: Any) -> Any:
    """Tensors to numpy arrays, through tuples, lists and dicts."""
    if isinstance(value, NkiTensor):
        return value.to_numpy()
    if isinstance(value, (tuple, list)):
        return type(value)(unwrap(v) for v in value)
    if isinstance(value, dict):
        return {k: unwrap(v) for k, v in value.items()}
    return value
