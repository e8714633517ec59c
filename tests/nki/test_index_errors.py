"""What may index a tensor, and rows that are spread over partitions."""

import numpy as np
import pytest

from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import collectives
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

X = np.arange(25 * 8, dtype=np.float32).reshape(25, 8)


@pytest.mark.parametrize("key", [range(4), 1.5, "0"])
def test_what_is_no_index_is_named(key):
    @nki.jit
    def kernel(x):
        x[key]

    with pytest.raises(NkiValidationError, match=f"a {type(key).__name__} is not an index of a tensor"):
        kernel(X)


@pytest.mark.parametrize("row", [0, 1, 24])
def test_any_row_is_spread_over_partitions(row):
    @nki.jit
    def kernel(x):
        tile = nl.ndarray((25, 8), x.dtype)
        out = nl.ndarray((128, 8), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, nl.broadcast_to(tile[row : row + 1, :], shape=(128, 8)))
        return out

    np.testing.assert_array_equal(kernel(X), np.broadcast_to(X[row], (128, 8)))


def test_a_collective_without_a_group_says_so():
    @nki.jit
    def kernel(x):
        tile = nl.ndarray((25, 8), x.dtype)
        collectives.all_reduce(srcs=[tile], dsts=[tile], op=nl.add, replica_group=None)

    with pytest.raises(NkiValidationError, match="all_reduce: replica_group is None"):
        kernel(X)
