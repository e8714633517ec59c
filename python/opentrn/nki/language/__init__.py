"""nki.language: dtypes, memories, tensors, element-wise functions, reductions, loops and program identity.

Dialects 0.3 to 0.6 in one module. Source: nki/api/nki/language (0.6.0).
"""

from __future__ import annotations

from opentrn.nki import _missing_name as missing_name
from opentrn.nki._machine import NkiTensor, VirtualRegister, ndarray
from opentrn.nki._objects import NKIObject
from opentrn.nki.language._buffers import ds, is_hbm, is_on_chip, is_psum, is_sbuf
from opentrn.nki.language._control import (
    affine_range,
    dynamic_range,
    fori_loop,
    no_reorder,
    num_programs,
    program_id,
    program_ndim,
    sequential_range,
    static_range,
    while_loop,
)
from opentrn.nki.language._create import (
    broadcast_to,
    device_print,
    empty_like,
    expand_dims,
    full,
    gather_flattened,
    load,
    load_transpose2d,
    matmul,
    ones,
    rand,
    random_seed,
    shared_constant,
    shared_identity_matrix,
    store,
    transpose,
    zeros,
    zeros_like,
)
from opentrn.nki.language._elementwise import (
    abs,
    abs_max,
    abs_min,
    add,
    arctan,
    average,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    bypass,
    ceil,
    copy,
    cos,
    divide,
    equal,
    erf,
    erf_dx,
    exp,
    floor,
    fmod,
    gelu,
    gelu_apprx_sigmoid,
    gelu_apprx_sigmoid_dx,
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
    maximum,
    minimum,
    mish,
    mod,
    multiply,
    negative,
    not_equal,
    power,
    prelu,
    reciprocal,
    relu,
    right_shift,
    rsqrt,
    sigmoid,
    sign,
    silu,
    silu_dx,
    sin,
    softplus,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from opentrn.nki.language._reduce import (
    all,
    dropout,
    max,
    mean,
    min,
    prod,
    rms_norm,
    softmax,
    sum,
    var,
)
from opentrn.nki.language._tile_size import tile_size
from opentrn.types.dtypes import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from opentrn.types.isa_enums import MemoryRegion

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
hbm = MemoryRegion.private_hbm
private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm

# Names that kernels of NKI 0.2-0.3 read.
bool = bool_
range = range


__getattr__ = missing_name.refuses("nki.language", globals())

__all__ = [
    "DType", "MemoryRegion", "NKIObject", "NkiTensor", "VirtualRegister", "abs", "abs_max", "abs_min",
    "add", "affine_range", "all", "arctan", "average", "bfloat16", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bool", "bool_", "broadcast_to", "bypass", "ceil", "copy", "cos", "device_print",
    "divide", "dropout", "ds", "dynamic_range", "empty_like", "equal", "erf", "erf_dx", "exp",
    "expand_dims", "float16", "float32", "float4_e2m1fn_x4", "float8_e4m3", "float8_e4m3fn",
    "float8_e4m3fn_x4", "float8_e5m2", "float8_e5m2_x4", "float8_e8m0fnu", "floor", "fmod", "fori_loop",
    "full", "gather_flattened", "gelu", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "gelu_apprx_tanh",
    "gelu_dx", "greater", "greater_equal", "hbm", "int16", "int32", "int8", "invert", "is_hbm",
    "is_on_chip", "is_psum", "is_sbuf", "left_shift", "less", "less_equal", "load", "load_transpose2d",
    "log", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "max", "maximum", "mean",
    "min", "minimum", "mish", "mod", "multiply", "ndarray", "negative", "no_reorder", "not_equal",
    "num_programs", "ones", "power", "prelu", "private_hbm", "prod", "program_id", "program_ndim", "psum",
    "rand", "random_seed", "range", "reciprocal", "relu", "right_shift", "rms_norm", "rsqrt", "sbuf",
    "sequential_range", "shared_constant", "shared_hbm", "shared_identity_matrix", "sigmoid", "sign",
    "silu", "silu_dx", "sin", "softmax", "softplus", "sqrt", "square", "static_range", "store",
    "subtract", "sum", "tan", "tanh", "tfloat32", "tile_size", "transpose", "trunc", "uint16", "uint32",
    "uint8", "var", "where", "while_loop", "zeros", "zeros_like",
]  # fmt: skip
