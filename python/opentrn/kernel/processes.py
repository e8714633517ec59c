"""Launches whose ranks several processes of mpirun share: each runs its own, and all get the results of all."""

from __future__ import annotations

import atexit
import functools
import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.types import dtypes


def of_launch(ranks: int, lnc: int, target: Any) -> Any:
    """The processes of a launch of `ranks`, all of which have to call this; None where there is one process."""
    if ranks == 1 or not _core.is_one_of_several():
        return None
    processes = _core.processes_of_mpirun(ranks, f"a launch of {ranks} ranks of {lnc} cores on {target}")
    _end_with_the_process()
    return processes


@functools.cache
def _end_with_the_process() -> None:
    atexit.register(_core.end_processes_of_mpirun)


class _Writer(pickle.Pickler):
    """Tensors by value: their memory is this process's."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _core.NkiTensor):
            return _tensor_of, (value.to_numpy().tobytes(), tuple(value.shape), str(value.dtype))
        return NotImplemented


def _tensor_of(data: bytes, shape: tuple[int, ...], name: str) -> Any:
    from opentrn.kernel.machine import from_array

    dtype = dtypes.dtype_of(name)
    array = np.frombuffer(bytearray(data), dtypes.to_numpy_dtype(dtype)).reshape(shape)
    return from_array(array, "received", dtype=dtype)


def _written(machines: Sequence[Any], arguments: Sequence[Any]) -> list[bytes | None]:
    """What the arguments of a rank hold, of those that it writes."""
    return [
        tensor.to_numpy().tobytes()
        if any(_core.first_write(machine, tensor) is not None for machine in machines)
        else None
        for tensor in arguments
    ]


def share(
    processes: Any,
    results: list[list[Any]],
    machines: Sequence[Sequence[Any]],
    arguments: Sequence[Sequence[Any]],
    with_programs: bool,
) -> list[bytes]:
    """Complete `results`, by rank and core, with those of the ranks elsewhere, and their writes to `arguments`.

    `machines` by rank and core, and the HBM tensors of the `arguments` by rank; without them none are shared.
    Returns `with_programs` what every rank has recorded, for _core.time_ranks(). Raises what "mpi.peer" names when
    the launch failed elsewhere.
    """
    own = {
        rank: (
            results[rank],
            _written(machines[rank], arguments[rank]) if arguments else [],
            _core.encode_rank(machines[rank]) if with_programs else b"",
        )
        for rank in processes.ranks_here
    }
    programs = {rank: program for rank, (_, _, program) in own.items()}
    text = io.BytesIO()
    _Writer(text, pickle.HIGHEST_PROTOCOL).dump(own)
    for heard in processes.finish(text.getvalue()):
        for rank, (of_rank, written, program) in (pickle.loads(heard) if heard else {}).items():  # of our own
            results[rank], programs[rank] = of_rank, program
            for tensor, data in zip(arguments[rank] if arguments else [], written, strict=True):
                if data is not None:
                    memory = tensor.numpy()
                    memory[...] = np.frombuffer(data, memory.dtype).reshape(memory.shape)
    return [programs[rank] for rank in range(len(results))] if with_programs else []
