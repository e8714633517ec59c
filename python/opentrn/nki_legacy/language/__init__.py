"""`neuronxcc.nki.language` of NKI 0.1.

Signatures and rules: nki/api/nki/language/__init__.py at 1db4d74e.
"""

from __future__ import annotations

from opentrn.nki import _missing_name as missing_name
from opentrn.nki.language._tile_size import tile_size
from opentrn.nki_legacy.dtypes import (  # noqa: F401
    bfloat16,
    bfp16,
    bool_,
    finfo,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    fp32,
    int8,
    int16,
    int32,
    static_cast,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from opentrn.nki_legacy.index import arange, ds, mgrid  # noqa: F401
from opentrn.nki_legacy.language._control import (  # noqa: F401
    affine_range,
    all_reduce,
    device_print,
    loop_reduce,
    nc,
    num_programs,
    program_id,
    program_ndim,
    sequential_range,
    spmd_dim,
    static_range,
)
from opentrn.nki_legacy.language._create import (  # noqa: F401
    empty_like,
    full,
    hbm,
    ndarray,
    ones,
    par_dim,
    private_hbm,
    psum,
    rand,
    random_seed,
    sbuf,
    shared_constant,
    shared_hbm,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from opentrn.nki_legacy.language._math import (  # noqa: F401
    abs,
    add,
    all,
    arctan,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    ceil,
    cos,
    divide,
    dropout,
    equal,
    erf,
    erf_dx,
    exp,
    floor,
    fmod,
    gelu,
    gelu_apprx_sigmoid,
    gelu_apprx_tanh,
    gelu_dx,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    max,
    maximum,
    mean,
    min,
    minimum,
    mish,
    mod,
    multiply,
    negative,
    not_equal,
    power,
    prod,
    reciprocal,
    relu,
    right_shift,
    rms_norm,
    rsqrt,
    sigmoid,
    sign,
    silu,
    silu_dx,
    sin,
    softmax,
    softplus,
    sqrt,
    square,
    subtract,
    sum,
    tan,
    tanh,
    trunc,
    var,
)
from opentrn.nki_legacy.language._move import (  # noqa: F401
    atomic_rmw,
    broadcast_to,
    copy,
    expand_dims,
    gather_flattened,
    load,
    load_transpose2d,
    matmul,
    store,
    transpose,
    where,
)


def gemm_stationary_grid():
    """Index grid of a whole stationary operand of nc_matmul."""
    return mgrid[0 : tile_size.pmax, 0 : tile_size.gemm_stationary_fmax]


def gemm_grid():
    """Index grid of a whole moving operand, and of the result, of nc_matmul."""
    return mgrid[0 : tile_size.pmax, 0 : tile_size.gemm_moving_fmax]


__getattr__ = missing_name.refuses("neuronxcc.nki.language", globals())
