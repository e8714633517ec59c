"""What tests of kernels on several ranks share."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn.nki.collectives as ncc
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl
from opentrn import nki

LNC = pytest.mark.parametrize("lnc", [1, 2])


def data(ranks, *shape, dtype=np.float32):
    """Small whole numbers, which every format and every order of adding has exactly; different on each rank."""
    values = np.random.default_rng(sum(shape) + ranks).integers(
        0, 2 if np.dtype(dtype).itemsize == 1 else 7, (ranks, *shape)
    )
    return [np.ascontiguousarray(part) for part in values.astype(dtype)]


def hbm(like, shape=None):
    return nl.ndarray(shape or like.shape, dtype=like.dtype, buffer=nl.shared_hbm)


def copied(tensor, buffer=nl.shared_hbm):
    copy = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=buffer)
    nisa.dma_copy(dst=copy, src=tensor)
    return copy


def returned(tensor):
    """A kernel returns tensors in HBM."""
    return copied(tensor)


def launched(kernel, ranks, lnc, *args, target="trn2", **kwargs):
    bound = nki.simulate(kernel, target=target, ranks=ranks)
    return (bound[lnc] if lnc > 1 else bound)(*args, **kwargs)


def group_of(ranks):
    return ncc.ReplicaGroup([list(range(ranks))])


def add_up(x, group):
    src, dst = copied(x), hbm(x)
    ncc.all_reduce([src], [dst], group, nl.add, name="sum")
    return returned(dst)
