"""Tensor engine: nc_matmul, nc_matmul_mx, nc_matmul_sparse, nc_transpose; and quantize_mx, which prepares operands.

Products and sums are float32 (BLAS, so the summation order along the contraction is the library's; `Machine(
sequential_matmul=True)` sums row by row). A PSUM location that no matmul has written yet is overwritten when
accumulate is None. Source: nisa.nc_matmul, nisa.nc_matmul_mx, nisa.nc_transpose; trainium2_arch.rst of
nc_matmul_sparse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn import strict
from opentrn.errors import UndefinedBehavior, require
from opentrn.oracle.instruction import NkiInstruction
from opentrn.oracle.machine import current_or_none
from opentrn.oracle.numerics import load_f32, rows_f32, rows_raw, store, store_raw
from opentrn.oracle.tensor import TENSOR_ENGINE_GROUP, NkiTensor
from opentrn.types.dtypes import is_packed_x4, pack_x4, unpack_x4
from opentrn.types.isa_enums import MemoryRegion, engine, matmul_perf_mode, nc_version

MX_GROUP_PARTITIONS = 8  # a scale covers 8 partitions x 4 packed values
QUADRANT = 32
_WIDE = frozenset({"float32", "tfloat32"})


def _generation() -> nc_version:
    machine = current_or_none()
    return machine.nc_version if machine else nc_version.gen3


def _product(stationary: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """stationary[K, M].T @ moving[K, N] in float32."""
    machine = current_or_none()
    with np.errstate(all="ignore"):
        if machine is None or not machine.sequential_matmul:
            return np.matmul(stationary.T, moving)
        total = np.zeros((stationary.shape[1], moving.shape[1]), np.float32)
        for a, b in zip(stationary, moving, strict=True):
            total += np.multiply.outer(a, b)
        return total


def _accumulate(dst: NkiTensor, product: np.ndarray, accumulate: Any) -> None:
    """Write or add [M, N] to PSUM and mark it as written by a matmul."""
    require(
        product.shape[0] == dst.shape[0] and product.size == dst.size,
        f"matmul: the product is {product.shape}, dst is {dst!r}",
    )
    product = product.reshape(dst.shape)
    if dst.is_indirect():
        require(accumulate is not None, "matmul: an indirect dst needs an explicit accumulate")
        before = load_f32(dst, TENSOR_ENGINE_GROUP) if accumulate else np.float32(0)
        store(dst, before + product, TENSOR_ENGINE_GROUP)
        return
    written = dst.accumulate_mask()
    if accumulate is None:
        add = written
    else:
        add = np.broadcast_to(np.bool_(bool(accumulate)), dst.shape)
        if accumulate and not written.all():
            raise UndefinedBehavior(
                f"matmul: accumulate=True into {dst!r}, part of which no matmul has initialised; "
                "the first matmul of a group needs accumulate=False or None"
            )
    with np.errstate(all="ignore"):
        if add.all():
            product = load_f32(dst) + product
        elif add.any():
            product = np.where(add, load_f32(dst) + product, product)
    store(dst, product)
    written[...] = True


def _check_memories(instruction: str, dst: NkiTensor, *sources: NkiTensor) -> None:
    for src in sources:
        require(src.buffer is MemoryRegion.sbuf, f"{instruction}: {src!r} must be in SBUF")
    require(dst.buffer is MemoryRegion.psum, f"{instruction}: {dst!r} must be in PSUM")


def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple = (),
    tile_size: tuple = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """dst[M, N] = or += stationary[K, M].T @ moving[K, N]; dst in PSUM.

    double_row: operands are [K, 2, M] and [K, 2, N], the second dimension belongs to the contraction.
    is_transpose (v3+): moving is an identity, the bits of stationary are transposed unchanged.
    """
    _check_memories("nc_matmul", dst, stationary, moving)
    require(
        stationary.shape[0] == moving.shape[0],
        f"nc_matmul: {stationary!r} and {moving!r} must have the same partitions",
    )
    wide = [t.dtype in _WIDE for t in (stationary, moving)]
    require(wide[0] == wide[1], f"nc_matmul: {stationary!r} and {moving!r}: float32 goes with float32 only")
    if is_transpose and _generation() >= nc_version.gen3:
        return _transpose_by_matmul(dst, stationary, moving, name)
    a = load_f32(stationary, TENSOR_ENGINE_GROUP)
    b = load_f32(moving, TENSOR_ENGINE_GROUP)
    if perf_mode is not matmul_perf_mode.none:
        require(
            a.ndim >= 3 and b.ndim >= 3 and a.shape[1] == b.shape[1] == 2,
            f"nc_matmul: double_row needs a first free dimension of 2 in {stationary!r} and {moving!r}",
        )
        # Contraction order: partition outermost, the two values of a partition together.
        a = a.reshape(a.shape[0] * 2, -1)
        b = b.reshape(b.shape[0] * 2, -1)
    product = _product(a.reshape(a.shape[0], -1), b.reshape(b.shape[0], -1))
    _accumulate(dst, product, accumulate)
    return NkiInstruction(name)


def _transpose_by_matmul(
    dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, name: str | None
) -> NkiInstruction:
    """Transpose mode: one operand is an identity (or a permutation), the other one's bits move unchanged.

    Which operand carries the data: the documents load the data as stationary and the identity as moving;
    kernels in the wild also do the reverse. dst[m, n] = data[k, m] where identity[k, n] is not 0 -- for
    either order.
    """
    left = rows_raw(stationary, TENSOR_ENGINE_GROUP)
    right = rows_raw(moving, TENSOR_ENGINE_GROUP)
    if _is_selection(load_f32(moving).reshape(right.shape)):
        chosen = np.argmax(right != 0, axis=0)  # the row that column n selects
        result = left[chosen].T
    else:
        require(
            _is_selection(load_f32(stationary).reshape(left.shape)),
            f"nc_matmul: transpose mode needs an identity in {stationary!r} or {moving!r}",
        )
        chosen = np.argmax(left != 0, axis=0)
        result = right[chosen]
    require(result.size == dst.size, f"nc_matmul: the transpose is {result.shape}, dst is {dst!r}")
    _store_transposed(dst, result, stationary if result.dtype == left.dtype else moving)
    return NkiInstruction(name)


def _is_selection(rows: np.ndarray) -> bool:
    """Every column holds a single 1 and zeros."""
    return bool(((rows == 0) | (rows == 1)).all() and ((rows != 0).sum(axis=0) == 1).all())


def _store_transposed(dst: NkiTensor, values: np.ndarray, data: NkiTensor) -> None:
    """Bits into dst when the dtypes agree, else a conversion through float32."""
    if dst.dtype == data.dtype:
        store_raw(dst, values, TENSOR_ENGINE_GROUP)
    else:
        with np.errstate(all="ignore"):
            store(dst, values.astype(np.float32), TENSOR_ENGINE_GROUP)
    if dst.storage.accumulates is not None and not dst.is_indirect():
        dst.accumulate_mask()[...] = True


def nc_transpose(
    dst: NkiTensor, data: NkiTensor, engine: engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """dst = transpose of data over (partition, all free dimensions flattened); bits stay."""
    values = rows_raw(data)
    partitions, free = values.shape
    limit = 32 if engine.value == 5 else 128
    require(
        partitions <= limit and free <= limit,
        f"nc_transpose: {data!r} is {partitions} x {free}, at most {limit} x {limit}",
    )
    require(
        dst.shape[0] == free and dst.size == data.size,
        f"nc_transpose: dst {dst!r} must be {free} x {partitions}",
    )
    _store_transposed(dst, np.ascontiguousarray(values.T), data)
    return NkiInstruction(name)


def mx_scale_rows(partitions: int, scale_partitions: int) -> np.ndarray:
    """Row of the scale tile that belongs to each data partition.

    Group g of 8 partitions has its scale in the same quadrant of 32 partitions, at row (g mod 4) of it; a
    tile of at most one quadrant may also be packed into P/8 rows, which is the same rule. Source: nki/deep-
    dives/mxfp-matmul.rst.
    """
    p = np.arange(partitions)
    rows = p // QUADRANT * QUADRANT + p % QUADRANT // MX_GROUP_PARTITIONS
    require(
        int(rows.max()) < scale_partitions,
        f"MX scales of {partitions} partitions need a scale tile of at least {int(rows.max()) + 1}, "
        f"got {scale_partitions}",
    )
    return rows


def scale_values(scale: NkiTensor) -> np.ndarray:
    """Power-of-two scales as float64 [P, N]; code 255 is NaN."""
    codes: np.ndarray = rows_raw(scale).view(np.uint8)
    return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(np.int32) - 127))


def dequantize_mx(data: NkiTensor, scale: NkiTensor) -> np.ndarray:
    """Packed values times their scales, float32 [P * 4, N]: row p * 4 + j is packed value j of partition
    p."""
    require(is_packed_x4(data.dtype), f"nc_matmul_mx: {data!r} must be a packed x4 tile")
    require(
        scale.dtype in ("float8_e8m0fnu", "uint8"), f"nc_matmul_mx: {scale!r} must be float8_e8m0fnu or uint8"
    )
    values = unpack_x4(rows_raw(data, TENSOR_ENGINE_GROUP), data.dtype)  # [P, N, 4]
    scales = scale_values(scale)
    require(
        scales.shape[1] == values.shape[1],
        f"nc_matmul_mx: scales {scale!r} must have the {values.shape[1]} columns of {data!r}",
    )
    scales = scales[mx_scale_rows(values.shape[0], scales.shape[0])]
    with np.errstate(all="ignore"):
        wide = (values * scales[:, :, None]).astype(np.float32)
    return wide.transpose(0, 2, 1).reshape(-1, values.shape[1])


def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: tuple | None = None,
    tile_size: tuple | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Matrix product of MX-quantized operands: contraction over partitions and the 4 packed values of
    each."""
    require(_generation() >= nc_version.gen4, "nc_matmul_mx needs NeuronCore-v4")
    _check_memories("nc_matmul_mx", dst, stationary, moving, stationary_scale, moving_scale)
    require(
        stationary.shape[0] == moving.shape[0] and stationary.shape[0] % QUADRANT == 0,
        f"nc_matmul_mx: {stationary!r} and {moving!r} must have the same partitions, a multiple of 32",
    )
    product = _product(dequantize_mx(stationary, stationary_scale), dequantize_mx(moving, moving_scale))
    _accumulate(dst, product, accumulate)
    return NkiInstruction(name)


# (M, N) of the M:N patterns that the Tensor engine has; neuron-core-v3.rst.
_SPARSITY_PATTERNS = frozenset({(4, 16), (4, 12), (4, 8), (2, 8), (2, 4), (1, 4), (1, 2)})


def sparse_tags(indices: NkiTensor, kept: int, group: int) -> np.ndarray:
    """The tags of `indices`, one for each kept value: places in its group, different within a group."""
    require(indices.dtype == "uint16", f"nc_matmul_sparse: {indices!r} must be uint16")
    codes: np.ndarray = rows_raw(indices).astype(np.int64)
    tags = (codes[:, :, None] >> np.arange(0, 16, 4) & 15).reshape(codes.shape[0], -1)  # [K, M]
    require(
        tags.shape[0] % kept == 0,
        f"nc_matmul_sparse: {indices!r} must have a multiple of {kept} partitions, which are a group",
    )
    require(bool((tags < group).all()), f"nc_matmul_sparse: {indices!r} has a tag of {group} or more")
    ordered = np.sort(tags.reshape(-1, kept, tags.shape[1]), axis=1)
    require(
        bool((ordered[:, 1:] != ordered[:, :-1]).all()),
        f"nc_matmul_sparse: {indices!r} has a tag twice in a group",
    )
    return tags


def nc_matmul_sparse(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    indices: NkiTensor,
    pattern: int,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Matrix product with a stationary matrix of M:N structured sparsity; `pattern` is 100 M + N.

    Of every N values along the contraction stationary[K, m] keeps M, in M neighbouring partitions. moving is
    [K, R, n] with R = N / M. A value's tag t chooses partition t // R of its group and index t % R of moving; indices
    has four tags of 4 bits in a uint16, the first in the low bits. What no tag chooses is not read.
    """
    require(_generation() >= nc_version.gen3, "nc_matmul_sparse needs NeuronCore-v3")
    _check_memories("nc_matmul_sparse", dst, stationary, moving, indices)
    kept, group = divmod(pattern, 100)
    require((kept, group) in _SPARSITY_PATTERNS, f"nc_matmul_sparse: there is no pattern {kept}:{group}")
    ratio = group // kept
    weights = rows_f32(stationary, TENSOR_ENGINE_GROUP)
    values = rows_f32(moving, TENSOR_ENGINE_GROUP)
    tags = sparse_tags(indices, kept, group)
    require(
        values.shape[0] == weights.shape[0] and values.shape[1] % ratio == 0 and tags.shape == weights.shape,
        f"nc_matmul_sparse: {stationary!r}, {moving!r} and {indices!r} must be [K, M], [K, {ratio}, n], [K, M / 4]",
    )
    values = values.reshape(values.shape[0], ratio, -1)
    first: np.ndarray = np.arange(weights.shape[0]) // kept * kept  # partition on which the group begins
    product = np.stack(
        [
            _product(weights[:, m : m + 1], values[first + tags[:, m] // ratio, tags[:, m] % ratio])[0]
            for m in range(weights.shape[1])
        ]
    )
    _accumulate(dst, product, accumulate)
    return NkiInstruction(name)


_EXPONENT_MAX = {"float8_e4m3fn_x4": 8, "float8_e5m2_x4": 15}  # largest unbiased exponent; nisa.quantize_mx


def quantize_mx(
    dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """MXFP8 data and scales of src: groups of 8 partitions x 4 elements share the scale 2^(floor(log2(largest
    magnitude)) - (Emax - 1)), at least 2^-127; a group with NaN or infinity gets the NaN scale (255,
    undocumented). Under NKI releases before 0.5 the scale is half of that.
    """
    require(_generation() >= nc_version.gen4, "quantize_mx needs NeuronCore-v4")
    require(src.dtype in ("float16", "bfloat16"), f"quantize_mx: {src!r} must be float16 or bfloat16")
    require(dst.dtype in _EXPONENT_MAX, f"quantize_mx: {dst!r} must be float8_e4m3fn_x4 or float8_e5m2_x4")
    require(
        dst_scale.dtype in ("float8_e8m0fnu", "uint8"),
        f"quantize_mx: {dst_scale!r} must be float8_e8m0fnu or uint8",
    )
    require(
        all(t.buffer is MemoryRegion.sbuf for t in (dst, src, dst_scale)),
        "quantize_mx: tiles must be in SBUF",
    )
    values = rows_f32(src)
    partitions, width = values.shape
    require(
        partitions % QUADRANT == 0 and width % 4 == 0,
        f"quantize_mx: {src!r} must have a multiple of 32 partitions and of 4 elements",
    )
    require(
        dst.shape[0] == partitions and dst.size * 4 == src.size,
        f"quantize_mx: {dst!r} must have a quarter of the elements of {src!r}",
    )
    groups = values.reshape(partitions // 8, 8, width // 4, 4)
    largest = np.abs(groups).max(axis=(1, 3))  # [P / 8, F / 4]
    _, exponent = np.frexp(largest)  # largest = m * 2^exponent, 0.5 <= m < 1
    reserve = 0 if strict.uses_ocp_scales() else 1
    codes = np.clip(exponent - 1 - (_EXPONENT_MAX[str(dst.dtype)] - reserve) + 127, 0, 254)
    codes = np.where(largest == 0, 0, np.where(np.isfinite(largest), codes, 255)).astype(np.uint8)
    with np.errstate(all="ignore"):
        scale = np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(np.int32) - 127))
        scaled = (groups / scale[:, None, :, None]).astype(np.float32)
    packed = pack_x4(scaled.reshape(partitions, width // 4, 4), dst.dtype)
    store_raw(dst, packed)
    rows = mx_scale_rows(partitions, dst_scale.shape[0])[::MX_GROUP_PARTITIONS]
    tile = rows_raw(dst_scale).copy()
    require(tile.shape[1] == width // 4, f"quantize_mx: {dst_scale!r} must have {width // 4} columns")
    tile.view(np.uint8)[rows] = codes
    store_raw(dst_scale, tile)
    return NkiInstruction(name)


__all__ = ["nc_matmul", "nc_matmul_mx", "nc_matmul_sparse", "nc_transpose", "quantize_mx"]
