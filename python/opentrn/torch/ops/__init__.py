"""Rules that write ATen's ops as StableHLO, by family; importing this package registers all of them."""

from opentrn.torch.ops import (  # noqa: F401
    arithmetic,
    convolution,
    create,
    decompositions,
    effects,
    fourier,
    functions,
    index,
    interpolation,
    pool,
    product,
    rearrange,
    reduction,
    scan,
    scatter,
    special,
    triangular,
)
from opentrn.torch.ops import random as _random  # noqa: F401
