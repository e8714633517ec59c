"""Kernels of eight ranks, which tests/mpi starts under mpirun and alone: prints a digest of what every rank has.

    python kernel_with_ranks.py values | mismatch | absent | fails | dies | late | other
"""

from __future__ import annotations

import hashlib
import os
import sys
import time

import ml_dtypes
import numpy as np

import opentrn
import opentrn.nki.collectives as ncc
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl
from opentrn import nki

RANKS = 8
ALL = ncc.ReplicaGroup([list(range(RANKS))])
EVEN_ODD = ncc.ReplicaGroup([[0, 2, 4, 6], [7, 5, 3, 1]])
HALVES = ncc.ReplicaGroup([[0, 1, 2, 3], [4, 5, 6, 7]])


def hbm(like, shape=None):
    return nl.ndarray(shape or like.shape, dtype=like.dtype, buffer=nl.shared_hbm)


def copied(tensor, buffer=nl.shared_hbm):
    copy = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=buffer)
    nisa.dma_copy(dst=copy, src=tensor)
    return copy


def everything(x, seen):
    """Sums whose bits depend on their order, groups that lie across processes, both memories, and a write to `seen`."""
    src, total, halves = copied(x), hbm(x), hbm(x)
    ncc.all_reduce([src], [total], ALL, nl.add)
    ncc.all_reduce([total], [halves], HALVES, nl.maximum)
    on_chip = copied(halves, nl.sbuf)
    gathered = nl.ndarray((x.shape[0], 4 * x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    ncc.all_gather([on_chip], [gathered], EVEN_ODD, 1)
    part = hbm(x, (x.shape[0] // RANKS, x.shape[1]))
    ncc.reduce_scatter([src], [part], ALL, 0, nl.add)
    turned = hbm(x)
    ncc.all_to_all([src], [turned], ALL, 0)
    passed = copied(x)
    ncc.collective_permute([turned], [passed], [(i, (i + 3) % RANKS) for i in range(RANKS)])
    nisa.dma_copy(dst=seen, src=passed)
    return copied(total), copied(gathered), {"part": copied(part)}


def digest(value) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={digest(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ";".join(digest(item) for item in value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}:{hashlib.sha256(value.tobytes()).hexdigest()[:16]}"
    return str(value)


def values() -> None:
    random = np.random.default_rng(8)
    for lnc in (1, 2):
        x = [random.standard_normal((16, 24)).astype(ml_dtypes.bfloat16) for _ in range(RANKS)]
        seen = [np.zeros_like(part) for part in x]
        bound = nki.simulate(everything, target="trn2", ranks=RANKS)
        outputs = (bound[lnc] if lnc > 1 else bound)(x, seen)
        print(f"lnc {lnc}: {digest(outputs)} {digest(seen)}")
    result = opentrn.run(everything, x, seen, ranks=RANKS, stochastic_rounding=5)
    print(f"run: {digest(result.outputs)}")
    print(f"time: {[timing.total_ns for timing in result.timings]}")


def add_up(x, group, function=ncc.all_reduce):
    src, dst = copied(x), hbm(x)
    function([src], [dst], group, nl.add)
    return copied(dst)


def what_goes_wrong(what: str) -> None:
    ranks = np.arange(RANKS, dtype=np.float32)
    x = [np.full((8, 8), value, np.float32) for value in ranks]
    numbers = list(range(RANKS))

    def kernel(x, rank):
        if rank == RANKS - 1:
            if what == "absent":
                return copied(x)
            if what == "fails":
                raise ValueError("this rank has no weights")
            if what == "dies":
                time.sleep(3)  # the others wait by then
                os._exit(9)
            if what == "late":
                time.sleep(60)
            if what == "mismatch":
                src, dst = copied(x), hbm(x)
                ncc.all_to_all([src], [dst], ALL, 0)
                return dst
        return add_up(x, ALL)

    if what == "other" and os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
        x, numbers = x[:4], numbers[:4]
    print(digest(nki.simulate(kernel, target="trn2", ranks=len(x))(x, numbers)))


if __name__ == "__main__":
    values() if sys.argv[1] == "values" else what_goes_wrong(sys.argv[1])
