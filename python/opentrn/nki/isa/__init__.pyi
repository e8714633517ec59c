# Made by ./dev stubs; do not edit.
"""nki.isa: the instructions of a NeuronCore, as functions of the current backend."""

from collections.abc import Callable
from typing import Any

from opentrn.errors import NkiValidationError as NkiValidationError
from opentrn.nki._machine import NkiTensor as NkiTensor, VirtualRegister as VirtualRegister
from opentrn.nki._objects import NKIObject as NKIObject
from opentrn.nki.isa import constants as constants
from opentrn.types.isa_enums import (
    dge_mode as dge_mode,
    dma_engine as dma_engine,
    engine as engine,
    gpsimd_engine as gpsimd_engine,
    matmul_perf_mode as matmul_perf_mode,
    nc_version as nc_version,
    oob_mode as oob_mode,
    reduce_cmd as reduce_cmd,
    scalar_engine as scalar_engine,
    tensor_engine as tensor_engine,
    unknown_engine as unknown_engine,
    vector_engine as vector_engine,
)

NkiInstruction: Any
INSTRUCTIONS: list[str]

def dma_copy(
    dst: Any,
    src: Any,
    priority: Any = None,
    oob_mode: Any = ...,
    dge_mode: Any = ...,
    engine: Any = ...,
    name: str | None = None,
    unique_indices: Any = False,
) -> Any:
    """dst = src over DMA, converting through float32 when the dtypes differ.

    Engines: Scalar, GpSimd, DMA, Sync. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      dma_copy.C1: dst and src have the same number of elements.
      dma_copy.C2: dge_mode hwdge needs NeuronCore-v3.
      dma_copy.C3: A vector_offset needs dge_mode unknown or swdge.
      dma_copy.C4: Hardware DGE is triggered by the Scalar or the Sync engine.
      dma_copy.C5: priority is 0 to 3, on NeuronCore-v4.
      dma_copy.C6: With dge_mode hwdge dst and src have the same type.
      dma_copy.C7: An engine is chosen with dge_mode hwdge only."""

def dma_transpose(
    dst: Any,
    src: Any,
    axes: Any = None,
    priority: Any = None,
    dge_mode: Any = ...,
    oob_mode: Any = ...,
    name: str | None = None,
) -> Any:
    """dst = transpose of src over DMA: (1,0), (2,1,0) or (3,1,2,0) by rank; an indirect src gathers
    rows first.

    Engines: GpSimd, DMA. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      dma_transpose.C1: dst is in SBUF.
      dma_transpose.C2: dst and src have the same type.
      dma_transpose.C3: dst and src have the same number of elements.
      dma_transpose.C4: axes is (1, 0), (2, 1, 0) or (3, 1, 2, 0), of the rank of src.
      dma_transpose.C5: dge_mode hwdge needs NeuronCore-v3.
      dma_transpose.C6: Hardware DGE transposes 2-byte elements, at most 128 columns.
      dma_transpose.C7: A transpose with a vector_offset uses software DGE on 2-byte elements in
        HBM, a multiple of 16 rows, at most 128 columns.
      dma_transpose.C8: priority is 0 to 3, on NeuronCore-v4.
      dma_transpose.C9: Without a vector_offset dge_mode is not swdge."""

def dma_compute(
    dst: Any,
    srcs: Any,
    reduce_op: Any,
    scales: Any = None,
    unique_indices: Any = True,
    oob_mode: Any = ...,
    name: str | None = None,
) -> Any:
    """dst = sum of the sources in float32, in list order; with an indirect operand a gather or scatter
    accumulate.

    Engines: GpSimd, DMA. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      dma_compute.C1: There are at most 16 sources.
      dma_compute.C2: reduce_op is add.
      dma_compute.C3: Every source has as many elements as dst.
      dma_compute.C4: With a vector_offset there are exactly 2 sources.
      dma_compute.C5: With a vector_offset unique_indices is True."""

def tensor_copy(
    dst: Any,
    src: Any,
    engine: Any = ...,
    name: str | None = None,
    dtype: Any = None,
) -> Any:
    """dst = src on chip: same bits when the dtypes agree, else through float32.

    Engines: Scalar, GpSimd, Vector. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_copy.C1: dst and src have the same partitions and elements per partition.
      tensor_copy.C2: The Scalar engine copies from NeuronCore-v3 on.
      tensor_copy.C3: The Scalar engine cannot scatter into PSUM."""

def memset(
    dst: Any,
    value: Any,
    engine: Any = ...,
    name: str | None = None,
) -> Any:
    """Fill dst with a constant, rounded once to its dtype; integers outside the dtype's range are
    refused.

    Engines: GpSimd, Vector. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      memset.C1: A tile of a packed x4 type can only be set to 0."""

def tensor_copy_predicated(
    dst: Any,
    src: Any,
    predicate: Any,
    reverse_pred: Any = False,
    name: str | None = None,
) -> Any:
    """dst[i] = src[i] where predicate[i] is not 0 (0 when reverse_pred); other elements keep their
    value.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_copy_predicated.C1: dst, src and predicate have the same partitions and elements per
        partition.
      tensor_copy_predicated.C2: predicate is uint8, uint16 or uint32.
      tensor_copy_predicated.C3: src and dst have the same type.
      tensor_copy_predicated.C4: src and predicate are not both in PSUM."""

def nc_transpose(
    dst: Any,
    data: Any,
    engine: Any = ...,
    name: str | None = None,
) -> Any:
    """dst = transpose of data over (partition, all free dimensions flattened); bits stay.

    Engines: Tensor, Vector. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      nc_transpose.C1: dst is data with partitions and elements exchanged.
      nc_transpose.C2: dst and data have the same type.
      nc_transpose.C3: The Tensor engine transposes from SBUF to PSUM.
      nc_transpose.C4: The Vector engine transposes at most 32 x 32.
      nc_transpose.C5: Without a named engine, one of the two must be able to."""

def nc_stream_shuffle(
    dst: Any,
    src: Any,
    shuffle_mask: Any,
    name: str | None = None,
) -> Any:
    """In each quadrant of 32 partitions, dst partition i = src partition shuffle_mask[i]; 255 leaves
    it unchanged.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      nc_stream_shuffle.C1: dst and src have the same type.
      nc_stream_shuffle.C2: dst and src have the same number of elements per partition.
      nc_stream_shuffle.C3: shuffle_mask has 32 numbers.
      nc_stream_shuffle.C4: A number of shuffle_mask is 0 to 31, or 255 to keep dst."""

def local_gather(
    dst: Any,
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: Any = 1,
    num_valid_indices: Any = None,
    name: str | None = None,
) -> Any:
    """Each group of 16 partitions gathers num_elem_per_idx elements from every element offset in its
    index slice.

    The 16 x K indices of a group are read partition first; all its 16 partitions use all of them.
    Output per partition is [number of indices, num_elem_per_idx]. Without num_valid_indices every
    index of the slice is used.

    Engine: GpSimd. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      local_gather.C1: src_buffer and index have the same partitions.
      local_gather.C2: The partitions are a multiple of 16.
      local_gather.C3: num_elem_per_idx is 1, 2, 4, 8, 16 or 32.
      local_gather.C4: A core gathers 1 to 4096 indices, no more than its index slice has.
      local_gather.C5: index is uint16.
      local_gather.C6: dst and src_buffer have the same type.
      local_gather.C7: dst holds what is gathered."""

def nc_n_gather(
    dst: Any,
    data: Any,
    indices: Any,
    name: str | None = None,
) -> Any:
    """dst[p, i] = data[p, indices[p, i]] with the free dimensions flattened.

    Engine: GpSimd. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      nc_n_gather.C1: dst and indices have the same partitions and elements per partition.
      nc_n_gather.C2: dst and data have the same partitions.
      nc_n_gather.C3: dst and data have the same type.
      nc_n_gather.C4: indices is uint32."""

def sendrecv(
    src: Any,
    dst: Any,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: Any = ...,
    name: str | None = None,
    use_gpsimd_dma: Any = False,
) -> Any:
    """Send src to one core of the logical NeuronCore while receiving dst from one.

    Engines: GpSimd, DMA. NeuronCore-v3 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      sendrecv.C1: src and dst are in SBUF.
      sendrecv.C2: src and dst have the same type.
      sendrecv.C3: src and dst have the same partitions and elements per partition.
      sendrecv.C4: Ranks are 0 and 1.
      sendrecv.C5: The DMA of GpSimd exchanges at most 256 elements per partition (1024, 512 or 256
        bytes of 32, 16 or 8 bits)."""

def core_barrier(
    data: Any,
    cores: Any,
    engine: Any = ...,
    name: str | None = None,
) -> Any:
    """Wait until both cores of the logical NeuronCore have reached this barrier.

    Engines: Tensor, Scalar, GpSimd, Vector, Sync. NeuronCore-v3 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      core_barrier.C1: cores is (0, 1)."""

def nc_matmul(
    dst: Any,
    stationary: Any,
    moving: Any,
    is_stationary_onezero: Any = False,
    is_moving_onezero: Any = False,
    is_transpose: Any = False,
    accumulate: Any = None,
    tile_position: Any = ...,
    tile_size: Any = ...,
    perf_mode: Any = ...,
    name: str | None = None,
) -> Any:
    """dst[M, N] = or += stationary[K, M].T @ moving[K, N]; dst in PSUM.

    double_row: operands are [K, 2, M] and [K, 2, N], the second dimension belongs to the
    contraction. is_transpose (v3+): moving is an identity, the bits of stationary are transposed
    unchanged.

    Engine: Tensor. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      nc_matmul.C1: stationary and moving have the same partitions.
      nc_matmul.C2: The contraction is at most 128, or the rows of the tile.
      nc_matmul.C3: stationary has at most 128 columns, or the columns of the tile.
      nc_matmul.C4: moving has at most 512 columns; from NeuronCore-v4 on 4096 into float32 and 8192
        into bfloat16.
      nc_matmul.C5: dst has the columns of stationary as partitions and the columns of moving as
        elements.
      nc_matmul.C6: Operands are fp8, bfloat16, float16, tfloat32 or float32; float8_e4m3fn from
        NeuronCore-v4 on (unless transposing).
      nc_matmul.C7: tile_size is 64 or 128, or 32 from NeuronCore-v3 on; tile_position is a multiple
        of it inside the array; both are set.
      nc_matmul.C8: perf_mode double_row needs NeuronCore-v3.
      nc_matmul.C9: In double_row mode both operands are float8_e4m3 or float8_e5m2, or
        float8_e4m3fn from NeuronCore-v4 on.
      nc_matmul.C10: In double_row mode the first free dimension of both operands is 2.
      nc_matmul.C11: double_row cannot be combined with column tiling.
      nc_matmul.C12: A 32-bit operand needs a 32-bit partner.
      nc_matmul.C13: float8_e4m3 and float8_e4m3fn cannot be mixed.
      nc_matmul.C14: dst is float32, or bfloat16 from NeuronCore-v4 on (unless transposing).
      nc_matmul.C15: accumulate is None, False or True.
      nc_matmul.C16: With an indirect operand tile_position is (0, 0).
      nc_matmul.C17: With is_transpose moving is not indirect.
      nc_matmul.C18: Indirect operands are float16, bfloat16 or fp8.
      nc_matmul.C19: Up to NeuronCore-v3 dst lies in one bank of PSUM.
      nc_matmul.C20: With a row tile stationary and moving lie on the partitions of the tile's rows.
      nc_matmul.C21: With a column tile dst lies on the partitions of the tile's columns.
      nc_matmul.C22: stationary and moving start on the same partition."""

def nc_matmul_mx(
    dst: Any,
    stationary: Any,
    moving: Any,
    stationary_scale: Any,
    moving_scale: Any,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: Any = None,
    name: str | None = None,
) -> Any:
    """Matrix product of MX-quantized operands: contraction over partitions and the 4 packed values of
    each.

    Engine: Tensor. NeuronCore-v4 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      nc_matmul_mx.C1: stationary and moving have the same partitions.
      nc_matmul_mx.C2: The partitions are a multiple of 32.
      nc_matmul_mx.C3: stationary has an even number of columns, at most 128.
      nc_matmul_mx.C4: moving has at most 4096 columns into float32 and 8192 into bfloat16.
      nc_matmul_mx.C5: dst has the columns of stationary as partitions and the columns of moving as
        elements.
      nc_matmul_mx.C6: Operands are of a packed x4 type.
      nc_matmul_mx.C7: dst is float32 or bfloat16.
      nc_matmul_mx.C8: Scales are float8_e8m0fnu or uint8.
      nc_matmul_mx.C9: tile_size is 32, 64 or 128; tile_position is a multiple of it inside the
        array; both are set.
      nc_matmul_mx.C10: Only row tiling is possible: column_size 128, start_column 0.
      nc_matmul_mx.C11: The contraction fits the rows of the tile.
      nc_matmul_mx.C12: With a row tile stationary and moving lie on the partitions of the tile's
        rows.
      nc_matmul_mx.C13: stationary and moving start on the same partition."""

def tensor_tensor(
    dst: Any,
    data1: Any,
    data2: Any,
    op: Any,
    engine: Any = ...,
    name: str | None = None,
) -> Any:
    """dst = data1 <op> data2, element by element.

    Engines: GpSimd, Vector. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_tensor.C1: dst, data1 and data2 have the same partitions and elements per partition.
      tensor_tensor.C2: data1 and data2 are not both in PSUM.
      tensor_tensor.C3: Bit-vector operators take and give integers.
      tensor_tensor.C4: power runs on GpSimd, so no operand is in PSUM.
      tensor_tensor.C5: op is a binary operator.
      tensor_tensor.C6: Bit-vector operators, abs_max and abs_min run on the Vector engine."""

def tensor_scalar(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: Any = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: Any = False,
    engine: Any = ...,
    name: str | None = None,
) -> Any:
    """dst = (data <op0> operand0) <op1> operand1; operands are immediates or one value per partition.

    Engines: Scalar, GpSimd, Vector. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_scalar.C1: dst and data have the same partitions and elements per partition.
      tensor_scalar.C2: operand0 and operand1 are numbers or [P, 1] tiles.
      tensor_scalar.C3: op0 and op1 are both bit-vector or both arithmetic.
      tensor_scalar.C4: Up to NeuronCore-v3 the Scalar engine computes multiply, multiply-add and
        add only.
      tensor_scalar.C5: A binary operator has its operand.
      tensor_scalar.C6: Bit-vector operators take and give integers.
      tensor_scalar.C7: Bit-vector operators, abs_max and abs_min run on the Vector engine.
      tensor_scalar.C8: Operands of arithmetic operators are float32 (unless data is a 32-bit
        integer, which is address arithmetic).
      tensor_scalar.C9: The Scalar engine cannot scatter into PSUM.
      tensor_scalar.C10: GpSimd computes rsqrt only.
      tensor_scalar.C11: rsqrt runs on GpSimd, so no operand is in PSUM."""

def scalar_tensor_tensor(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: Any = False,
    reverse1: Any = False,
    name: str | None = None,
    engine: Any = ...,
) -> Any:
    """dst = (data <op0> operand0) <op1> operand1 with a scalar or per-partition operand0 and a tile
    operand1.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      scalar_tensor_tensor.C1: dst, data and operand1 have the same partitions and elements per
        partition.
      scalar_tensor_tensor.C2: operand0 is a number or a [P, 1] tile.
      scalar_tensor_tensor.C3: data and operand1 are not both in PSUM.
      scalar_tensor_tensor.C4: Both operators are arithmetic."""

def tensor_reduce(
    dst: Any,
    op: Any,
    data: Any,
    axis: Any,
    negate: Any = False,
    keepdims: Any = False,
    name: str | None = None,
) -> Any:
    """Reduce the trailing free dimensions named by `axis`, in order, in float32 (bit-vector operators
    on bits).

    Engine: Vector. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_reduce.C1: The reduced axes are the last contiguous free dimensions, never the
        partition dimension.
      tensor_reduce.C2: dst has the partitions of data and one element per kept element.
      tensor_reduce.C3: op is a reduction operator.
      tensor_reduce.C4: Bit-vector operators take and give integers.
      tensor_reduce.C5: negate needs an arithmetic operator."""

def tensor_scalar_reduce(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any = None,
    reverse0: Any = False,
    reduce_cmd: Any = ...,
    reduce_init: Any = None,
    reduce_res_negate: Any = False,
    name: str | None = None,
) -> Any:
    """dst = data <op0> operand0, and reduce_res = reduction of it along each partition.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_scalar_reduce.C1: dst and data have the same partitions and elements per partition.
      tensor_scalar_reduce.C2: operand0 and reduce_init are numbers or [P, 1] tiles.
      tensor_scalar_reduce.C3: reduce_res is a [P, 1] tile.
      tensor_scalar_reduce.C4: op0 is arithmetic.
      tensor_scalar_reduce.C5: reduce_op is add, multiply, maximum or minimum.
      tensor_scalar_reduce.C6: reduce_cmd is reset_reduce, reduce or load_reduce.
      tensor_scalar_reduce.C7: reduce_init is given with load_reduce, and only there."""

def tensor_scalar_cumulative(
    dst: Any,
    src: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: Any = ...,
    name: str | None = None,
    reverse0: Any = False,
) -> Any:
    """dst[i] = register = (src[i] <op0> imm0) <op1> register, along each partition.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_scalar_cumulative.C1: dst and src have the same partitions and elements per partition.
      tensor_scalar_cumulative.C2: imm0 and imm1 are numbers or [P, 1] tiles.
      tensor_scalar_cumulative.C3: op0 is arithmetic.
      tensor_scalar_cumulative.C4: op1 is add, subtract, multiply, maximum or minimum.
      tensor_scalar_cumulative.C5: dst and src are floats or 8- or 16-bit integers.
      tensor_scalar_cumulative.C6: imm0 and imm1 are float32.
      tensor_scalar_cumulative.C7: reduce_cmd is reset_reduce, reduce or load_reduce.
      tensor_scalar_cumulative.C8: load_reduce needs imm1."""

def tensor_tensor_scan(
    dst: Any,
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: Any = False,
    reverse1: Any = False,
    name: str | None = None,
) -> Any:
    """r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i] along each partition, r[-1] = initial; r stays
    float32.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_tensor_scan.C1: dst, data0 and data1 have the same partitions and elements per
        partition.
      tensor_tensor_scan.C2: data0 and data1 are not both in PSUM.
      tensor_tensor_scan.C3: initial is a number or a [P, 1] tile.
      tensor_tensor_scan.C4: op0 and op1 are binary arithmetic operators."""

def tensor_partition_reduce(
    dst: Any,
    op: Any,
    data: Any,
    name: str | None = None,
) -> Any:
    """Reduce over partitions to one row (GpSimd): add, average, maximum, bitwise_or, bitwise_and.

    Engine: GpSimd. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      tensor_partition_reduce.C1: dst has one partition and the elements of data.
      tensor_partition_reduce.C2: op is add, average, maximum, bitwise_or or bitwise_and.
      tensor_partition_reduce.C3: Bit-vector operators take and give integers."""

def activation(
    dst: Any,
    op: Any,
    data: Any,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = ...,
    name: str | None = None,
) -> Any:
    """dst = op(data * scale + bias), and optionally a running sum of the result along each partition.

    Engine: Scalar. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      activation.C1: dst and data have the same partitions and elements per partition.
      activation.C2: bias and scale are numbers or [P, 1] tiles.
      activation.C3: scale is float32.
      activation.C4: bias is not tfloat32.
      activation.C5: Before NeuronCore-v3 bias is a [P, 1] tile.
      activation.C6: reduce_res is a [P, 1] tile.
      activation.C7: reduce_op is add.
      activation.C8: The Scalar engine cannot scatter into PSUM.
      activation.C9: reduce_cmd is idle, reset, reduce or reset_reduce.
      activation.C10: Before NeuronCore-v3 reciprocal has no bias."""

def activation_reduce(
    dst: Any,
    op: Any,
    data: Any,
    reduce_op: Any,
    reduce_res: Any = None,
    bias: Any = None,
    scale: Any = 1.0,
    name: str | None = None,
) -> Any:
    """activation with reduce_cmd.reset_reduce.

    Engine: Scalar. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      activation_reduce.C1: dst and data have the same partitions and elements per partition.
      activation_reduce.C2: bias and scale are numbers or [P, 1] tiles.
      activation_reduce.C3: scale is float32.
      activation_reduce.C4: bias is not tfloat32.
      activation_reduce.C5: Before NeuronCore-v3 bias is a [P, 1] tile.
      activation_reduce.C6: reduce_res is a [P, 1] tile.
      activation_reduce.C7: Before NeuronCore-v3 reduce_op is add.
      activation_reduce.C8: The Scalar engine cannot scatter into PSUM.
      activation_reduce.C9: Before NeuronCore-v3 reciprocal has no bias."""

def activate2(
    dst: Any,
    op: Any,
    data: Any,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any = 0.0,
    reverse0: Any = False,
    reverse1: Any = False,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = ...,
    name: str | None = None,
) -> Any:
    """dst = op((data <op0> imm0) <op1> imm1), with an optional running reduction (NeuronCore-v4).

    Engine: Scalar. NeuronCore-v4 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      activate2.C1: dst and data have the same partitions and elements per partition.
      activate2.C2: imm0, imm1 and relu_param are numbers or [P, 1] tiles.
      activate2.C3: (op0, op1) is one of the six documented pairs.
      activate2.C4: imm0 and imm1 have the same type when both are tiles.
      activate2.C5: A bypassed operator is not reversed.
      activate2.C6: reduce_op is add, maximum, minimum, abs_max or abs_min.
      activate2.C7: reduce_res is a [P, 1] tile.
      activate2.C8: The Scalar engine cannot scatter into PSUM."""

def exponential(
    dst: Any,
    src: Any,
    max_value: Any = 0.0,
    reduce_res: Any = None,
    reduce_cmd: Any = ...,
    reduce_init: Any = 0.0,
    name: str | None = None,
) -> Any:
    """dst = exp(src - max_value), optionally with a running sum along each partition (NeuronCore-v4).

    Engine: Vector. NeuronCore-v4 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      exponential.C1: dst and src have the same partitions and elements per partition.
      exponential.C2: max_value and reduce_init are numbers or [P, 1] tiles.
      exponential.C3: reduce_res is a [P, 1] tile.
      exponential.C4: dst and src are floats or integers.
      exponential.C5: max_value is float32.
      exponential.C6: reduce_cmd is idle, reset_reduce, reduce or load_reduce.
      exponential.C7: reduce_init is used only with load_reduce.
      exponential.C8: reduce_res is a float."""

def reciprocal(
    dst: Any,
    data: Any,
    name: str | None = None,
) -> Any:
    """dst = 1 / data on the Vector engine.

    Engine: Vector. NeuronCore-v1 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      reciprocal.C1: dst and data have the same partitions and elements per partition."""

def select_reduce(
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = ...,
    reduce_op: Any = ...,
    reverse_pred: Any = False,
    name: str | None = None,
) -> Any:
    """dst = on_true where predicate is not 0, else on_false; optionally a running maximum along each
    partition.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      select_reduce.C1: dst, on_true and predicate have the same partitions and elements per
        partition.
      select_reduce.C2: on_false is a number or a [P, 1] tile.
      select_reduce.C3: reduce_res is a [P, 1] tile.
      select_reduce.C4: on_true and predicate are not both in PSUM.
      select_reduce.C5: on_true is not tfloat32, int32 or uint32.
      select_reduce.C6: predicate is an 8- or 16-bit integer.
      select_reduce.C7: reduce_res is a float.
      select_reduce.C8: reduce_op is maximum."""

def range_select(
    dst: Any,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = ...,
    reduce_res: Any = None,
    reduce_op: Any = ...,
    range_start: Any = 0.0,
    on_false_value: Any = -3.4028234663852886e+38,
    name: str | None = None,
) -> Any:
    """Keep elements whose index + range_start satisfies both comparisons, else FP32_MIN; running row
    maximum.

    Engine: Vector. NeuronCore-v3 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      range_select.C1: dst and on_true_tile have the same partitions and elements per partition.
      range_select.C2: bound0 and bound1 are [P, 1] tiles.
      range_select.C3: bound0 and bound1 are float32.
      range_select.C4: on_true_tile is a float.
      range_select.C5: The comparisons are equal, less, less_equal, greater or greater_equal.
      range_select.C6: reduce_op is maximum.
      range_select.C7: reduce_res is a [P, 1] tile.
      range_select.C8: on_false_value is FP32_MIN.
      range_select.C9: range_start plus the index stays within 2^24."""

def affine_select(
    dst: Any,
    pattern: Any,
    channel_multiplier: Any,
    on_true_tile: Any,
    on_false_value: Any,
    cmp_op: Any = ...,
    offset: Any = 0,
    name: str | None = None,
) -> Any:
    """dst = on_true_tile where (affine index value <cmp_op> 0), else on_false_value.

    Engine: GpSimd. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      affine_select.C1: dst and on_true_tile have the same partitions and elements per partition.
      affine_select.C2: pattern has 1 to 4 [step, num] pairs.
      affine_select.C3: pattern generates as many values as dst has elements per partition.
      affine_select.C4: cmp_op is a comparison."""

def iota(
    dst: Any,
    pattern: Any,
    offset: Any = 0,
    channel_multiplier: Any = 0,
    name: str | None = None,
) -> Any:
    """Fill dst with affine index values, computed in int32 and cast to its dtype.

    Engine: GpSimd. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      iota.C1: pattern has 1 to 4 [step, num] pairs.
      iota.C2: pattern generates as many values as dst has elements per partition.
      iota.C3: dst holds the values, if it is an 8- or 16-bit integer."""

def bn_stats(
    dst: Any,
    data: Any,
    name: str | None = None,
) -> Any:
    """Per partition: count, mean and variance * count of the even elements, then of the odd ones.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      bn_stats.C1: data has at most 512 elements per partition.
      bn_stats.C2: dst has 6 elements per partition.
      bn_stats.C3: dst and data have the same partitions."""

def bn_aggr(
    dst: Any,
    data: Any,
    name: str | None = None,
) -> Any:
    """Combine (count, mean, variance * count) triples of each partition into a mean and a variance.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      bn_aggr.C1: data has a multiple of 3 elements per partition.
      bn_aggr.C2: dst has 2 elements per partition.
      bn_aggr.C3: dst and data have the same partitions."""

def max8(
    dst: Any,
    src: Any,
    name: str | None = None,
) -> Any:
    """The 8 largest values of each partition, in descending order.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      max8.C1: src has 8 to 16384 elements per partition.
      max8.C2: dst has 8 elements per partition.
      max8.C3: dst and src have the same partitions."""

def nc_find_index8(
    dst: Any,
    data: Any,
    vals: Any,
    name: str | None = None,
) -> Any:
    """Index of the first occurrence of each of 8 values in its partition; all ones when absent.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      nc_find_index8.C1: data has 8 to 16384 elements per partition.
      nc_find_index8.C2: vals has 8 elements per partition.
      nc_find_index8.C3: dst has 8 elements per partition.
      nc_find_index8.C4: dst is uint16 or uint32.
      nc_find_index8.C5: dst, data and vals have the same partitions."""

def nc_match_replace8(
    dst: Any,
    data: Any,
    vals: Any,
    imm: Any,
    dst_idx: Any = None,
    name: str | None = None,
) -> Any:
    """dst = data with the first occurrence of each of 8 values replaced by imm; the values are taken
    last to first.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      nc_match_replace8.C1: dst and data have the same partitions and elements per partition.
      nc_match_replace8.C2: vals has 8 elements per partition.
      nc_match_replace8.C3: vals and data have the same partitions.
      nc_match_replace8.C4: dst_idx has 8 elements per partition and the partitions of data."""

def sequence_bounds(
    dst: Any,
    segment_ids: Any,
    name: str | None = None,
) -> Any:
    """For each element the start and end of its run of equal segment ids; padding (id 0) gets n and
    -1.

    Engine: GpSimd. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      sequence_bounds.C1: segment_ids has 1 partition.
      sequence_bounds.C2: dst has 1 partition and twice the elements of segment_ids.
      sequence_bounds.C3: dst and segment_ids are float32 or int32."""

def nonzero_with_count(
    dst: Any,
    src: Any,
    index_offset: Any = 0,
    padding_val: Any = -1,
    name: str | None = None,
) -> Any:
    """In partitions 0, 16, ..., 112: the indices of nonzero elements, padding, and their number in the
    last element.

    Engine: GpSimd. NeuronCore-v3 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      nonzero_with_count.C1: dst and src have the same partitions.
      nonzero_with_count.C2: dst has one element per partition more than src.
      nonzero_with_count.C3: src is float32 or int32.
      nonzero_with_count.C4: dst is int32."""

def topk(
    val_dst: Any,
    idx_dst: Any,
    src: Any,
    n: Any,
    name: str | None = None,
) -> Any:
    """The K largest of n bfloat16 values and their indices, values ascending.

    A group of 16 partitions holds one list in snake order (element i in partition i % 16, column i
    // 16). The text says both that a partition works alone and that the list spans 16 of them; here
    every partition of a group gets the group's result. Of equal values the one with the lower index
    counts as larger (undocumented).

    Engine: GpSimd. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      topk.C1: src and val_dst are bfloat16.
      topk.C2: idx_dst is uint32.
      topk.C3: val_dst, idx_dst and src have the same partitions; val_dst and idx_dst the same
        elements.
      topk.C4: n is 8 to 65535.
      topk.C5: K, the elements of val_dst, is 1 to 32767 and at most n.
      topk.C6: src has at least ceil(n / 16) elements per partition.
      topk.C7: The partitions are a multiple of 16."""

def quantize_mx(
    dst: Any,
    src: Any,
    dst_scale: Any,
    name: str | None = None,
) -> Any:
    """MXFP8 data and scales of src: groups of 8 partitions x 4 elements share the scale
    2^(floor(log2(largest magnitude)) - (Emax - 1)), at least 2^-127; a group with NaN or infinity
    gets the NaN scale (255, undocumented). Under NKI releases before 0.5 the scale is half of that.

    Engine: Vector. NeuronCore-v4 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      quantize_mx.C1: src is float16 or bfloat16.
      quantize_mx.C2: dst is float8_e5m2_x4 or float8_e4m3fn_x4.
      quantize_mx.C3: dst_scale is float8_e8m0fnu or uint8.
      quantize_mx.C4: src has a multiple of 32 partitions.
      quantize_mx.C5: src has a multiple of 4 elements per partition.
      quantize_mx.C6: dst has the partitions of src and a quarter of its elements."""

def dropout(
    dst: Any,
    data: Any,
    prob: Any,
    name: str | None = None,
) -> Any:
    """dst = data with each element replaced by 0 with probability prob; no rescaling.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      dropout.C1: dst and data have the same partitions and elements per partition.
      dropout.C2: dst and data have the same type.
      dropout.C3: prob is a number or a [P, 1] tile.
      dropout.C4: prob is float32 for integer data, and a float otherwise."""

def rng(
    dst: Any,
    engine: Any = ...,
    name: str | None = None,
) -> Any:
    """Fill an integer dst with random bits, the low bits of one 32-bit value per element.

    Engines: GpSimd, Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      rng.C1: dst is an integer type of up to 32 bits.
      rng.C2: GpSimd generates random numbers from NeuronCore-v3 on."""

def set_rng_seed(
    src_seeds: Any,
    name: str | None = None,
) -> Any:
    """Seed the Vector engine's generator from a [1, 1] tile of 32 bits.

    Engine: Vector. NeuronCore-v2 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      set_rng_seed.C1: src_seeds is one 32-bit value."""

def rand_set_state(
    src_seeds: Any,
    engine: Any = ...,
    name: str | None = None,
) -> Any:
    """Load the XORWOW state of lanes 0..P-1 from uint32 [P, 6] (GpSimd) or [P, 24] (Vector).

    Engines: GpSimd, Vector. NeuronCore-v3 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      rand_set_state.C1: src_seeds is uint32.
      rand_set_state.C2: src_seeds has 6 elements per partition (GpSimd) or 24 (Vector).
      rand_set_state.C3: The Vector engine takes a state from NeuronCore-v4 on.
      rand_set_state.C4: src_seeds is in SBUF."""

def rand_get_state(
    dst: Any,
    engine: Any = ...,
    name: str | None = None,
) -> Any:
    """Store the XORWOW state of lanes 0..P-1 as uint32 [P, 6] (GpSimd) or [P, 24] (Vector).

    Engines: GpSimd, Vector. NeuronCore-v3 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      rand_get_state.C1: dst is uint32.
      rand_get_state.C2: dst has 6 elements per partition (GpSimd) or 24 (Vector).
      rand_get_state.C3: The Vector engine gives its state from NeuronCore-v4 on.
      rand_get_state.C4: dst is in SBUF, or in PSUM for the Vector engine of NeuronCore-v4."""

def rand2(
    dst: Any,
    min: Any,
    max: Any,
    name: str | None = None,
) -> Any:
    """Uniform float32 values in [min, max), cast to dst (NeuronCore-v4, Vector engine).

    Engine: Vector. NeuronCore-v4 and later.

    Rules of its own, beside isa.C1 and on of all instructions:
      rand2.C1: dst is a float or an integer of up to 32 bits.
      rand2.C2: min and max are numbers or [P, 1] tiles.
      rand2.C3: min is smaller than max."""

def register_alloc(x: Any = None) -> Any:
    """A new register: not set, with a number, or with the one element of a tensor."""

def register_load(dst: Any, src: Any) -> None:
    """dst = the one element of a tensor in HBM or SBUF."""

def register_move(dst: Any, src: Any) -> None:
    """dst = a number or another register."""

def register_store(dst: Any, src: Any) -> None:
    """The one element of dst = the register src."""

def missing_instructions() -> list[str]:
    """Instructions of nki.isa that the current backend refuses."""

def get_nc_version() -> nc_version:
    """The NeuronCore generation the running kernel targets.

Outside a kernel, what the environment selects."""

def get_nc_sub_version() -> int:
    """Stepping within a generation. OpenTrn models one stepping of each, so this is 0."""

