"""Rules that write ATen's ops as StableHLO, by family; importing this package registers all of them."""

from opentrn.torch.ops import (  # noqa: F401
    arithmetic,
    control,
    convolution,
    create,
    decompositions,
    effects,
    flex,
    folding,
    fourier,
    functions,
    grouped,
    histogram,
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
