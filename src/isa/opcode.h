// The instruction set: opcodes and the slots of their operands and attributes.
//
// One opcode per nki.isa call that reaches an engine, plus control flow. Operand and attribute slots
// are positions; the enums below name them, definitions.cc describes them (roles, kinds, engines,
// generations, constraints), and definitions_test.cc holds the two together.
#pragma once

#include <cstdint>

namespace opentrn::isa {

enum class Opcode : uint8_t {
  // data movement
  kDmaCopy,
  kDmaTranspose,
  kDmaCompute,
  kTensorCopy,
  kMemset,
  kTensorCopyPredicated,
  kNcTranspose,
  kNcStreamShuffle,
  kLocalGather,
  kNcNGather,
  kSendRecv,
  kCoreBarrier,
  // Tensor engine
  kNcMatmul,
  kNcMatmulMx,
  kNcMatmulSparse,
  // element-wise, scans and reductions
  kTensorTensor,
  kTensorScalar,
  kScalarTensorTensor,
  kTensorReduce,
  kTensorScalarReduce,
  kTensorScalarCumulative,
  kTensorTensorScan,
  kTensorPartitionReduce,
  kActivation,
  kActivationReduce,
  kActivate2,
  kExponential,
  kReciprocal,
  kSelectReduce,
  kRangeSelect,
  kAffineSelect,
  kIota,
  kBnStats,
  kBnAggr,
  kMax8,
  kNcFindIndex8,
  kNcMatchReplace8,
  kSequenceBounds,
  kNonzeroWithCount,
  kTopk,
  kQuantizeMx,
  kDropout,
  kRng,
  kSetRngSeed,
  kRandSetState,
  kRandGetState,
  kRand2,
  // user code on GpSimd
  kCustomOp,
  // sequencer registers and control flow
  kRegisterLoad,
  kRegisterMove,
  kRegisterStore,
  kRegisterAlu,
  kLoopBegin,
  kLoopEnd,
  kWhileBegin,
  kWhileEnd,
  // host visible
  kDevicePrint,
};
inline constexpr int kOpcodeCount = static_cast<int>(Opcode::kDevicePrint) + 1;

// Slot numbers, one namespace per instruction; operand slots first, attribute slots (kA...) second.
// "scalar or vector" operands are an immediate or a [P, 1] access.
namespace slot {
namespace dma_copy {
enum { kDst, kSrc };
enum { kAPriority, kAOobMode, kADgeMode };
}  // namespace dma_copy
namespace dma_transpose {
enum { kDst, kSrc };
enum { kAAxes, kAPriority, kADgeMode, kAOobMode };
}  // namespace dma_transpose
namespace dma_compute {
enum { kDst, kSrc0 };
enum { kAReduceOp, kAUniqueIndices, kAOobMode };
}  // namespace dma_compute
namespace tensor_copy {
enum { kDst, kSrc };
}
namespace memset {
enum { kDst, kValue };
}
namespace tensor_copy_predicated {
enum { kDst, kSrc, kPredicate };
enum { kAReversePred };
}  // namespace tensor_copy_predicated
namespace nc_transpose {
enum { kDst, kData };
}
namespace nc_stream_shuffle {
enum { kDst, kSrc };
enum { kAShuffleMask };
}  // namespace nc_stream_shuffle
namespace local_gather {
enum { kDst, kSrcBuffer, kIndex };
enum { kANumElemPerIdx, kANumValidIndices };
}  // namespace local_gather
namespace nc_n_gather {
enum { kDst, kData, kIndices };
}
namespace sendrecv {
enum { kDst, kSrc };
enum { kASendToRank, kARecvFromRank, kAPipeId, kADmaEngine };
}  // namespace sendrecv
namespace core_barrier {
enum { kData };
enum { kACores };
}  // namespace core_barrier
namespace nc_matmul {
enum { kDst, kStationary, kMoving };
// accumulate: -1 automatic, 0 overwrite, 1 accumulate. tile_*: 0 rows means no tiling.
enum {
  kAAccumulate,
  kAIsStationaryOneZero,
  kAIsMovingOneZero,
  kAIsTranspose,
  kATileRow,
  kATileColumn,
  kATileRows,
  kATileColumns,
  kAPerfMode
};
}  // namespace nc_matmul
namespace nc_matmul_mx {
enum { kDst, kStationary, kMoving, kStationaryScale, kMovingScale };
enum { kAAccumulate, kATileRow, kATileColumn, kATileRows, kATileColumns };
}  // namespace nc_matmul_mx
// Structured sparsity on the stationary side; `pattern` is M*100+N for M:N.
namespace nc_matmul_sparse {
enum { kDst, kStationary, kMoving, kIndices };
enum { kAAccumulate, kAPattern };
}  // namespace nc_matmul_sparse
namespace tensor_tensor {
enum { kDst, kData1, kData2 };
enum { kAOp };
}  // namespace tensor_tensor
namespace tensor_scalar {
enum { kDst, kData, kOperand0, kOperand1 };
enum { kAOp0, kAReverse0, kAOp1, kAReverse1 };
}  // namespace tensor_scalar
namespace scalar_tensor_tensor {
enum { kDst, kData, kOperand0, kOperand1 };
enum { kAOp0, kAOp1, kAReverse0, kAReverse1 };
}  // namespace scalar_tensor_tensor
// axes: number of trailing free dimensions reduced.
namespace tensor_reduce {
enum { kDst, kData };
enum { kAOp, kAAxes, kANegate };
}  // namespace tensor_reduce
namespace tensor_scalar_reduce {
enum { kDst, kData, kOperand0, kReduceRes, kReduceInit };
enum { kAOp0, kAReverse0, kAReduceOp, kAReduceCmd, kAReduceResNegate };
}  // namespace tensor_scalar_reduce
namespace tensor_scalar_cumulative {
enum { kDst, kSrc, kImm0, kImm1 };
enum { kAOp0, kAOp1, kAReduceCmd, kAReverse0 };
}  // namespace tensor_scalar_cumulative
namespace tensor_tensor_scan {
enum { kDst, kData0, kData1, kInitial };
enum { kAOp0, kAOp1, kAReverse0, kAReverse1 };
}  // namespace tensor_tensor_scan
namespace tensor_partition_reduce {
enum { kDst, kData };
enum { kAOp };
}  // namespace tensor_partition_reduce
namespace activation {
enum { kDst, kData, kBias, kScale, kReduceRes };
enum { kAOp, kAReduceOp, kAReduceCmd };
}  // namespace activation
namespace activation_reduce {
enum { kDst, kData, kBias, kScale, kReduceRes };
enum { kAOp, kAReduceOp, kAReduceCmd };
}  // namespace activation_reduce
namespace activate2 {
enum { kDst, kData, kImm0, kImm1, kReluParam, kReduceRes };
enum { kAOp, kAOp0, kAOp1, kAReverse0, kAReverse1, kAReduceOp, kAReduceCmd };
}  // namespace activate2
namespace exponential {
enum { kDst, kSrc, kMaxValue, kReduceRes, kReduceInit };
enum { kAReduceCmd };
}  // namespace exponential
namespace reciprocal {
enum { kDst, kData };
}
namespace select_reduce {
enum { kDst, kPredicate, kOnTrue, kOnFalse, kReduceRes };
enum { kAReduceCmd, kAReduceOp, kAReversePred };
}  // namespace select_reduce
namespace range_select {
enum { kDst, kOnTrueTile, kBound0, kBound1, kReduceRes };
enum { kACompOp0, kACompOp1, kAReduceCmd, kAReduceOp, kARangeStart, kAOnFalseValue };
}  // namespace range_select
// pattern: flat list step, num, step, num, ... outermost first.
namespace affine_select {
enum { kDst, kOnTrueTile };
enum { kAPattern, kAChannelMultiplier, kAOffset, kAOnFalseValue, kACmpOp };
}  // namespace affine_select
namespace iota {
enum { kDst };
enum { kAPattern, kAOffset, kAChannelMultiplier };
}  // namespace iota
namespace bn_stats {
enum { kDst, kData };
}
namespace bn_aggr {
enum { kDst, kData };
}
namespace max8 {
enum { kDst, kSrc };
}
namespace nc_find_index8 {
enum { kDst, kData, kVals };
}
namespace nc_match_replace8 {
enum { kDst, kData, kVals, kDstIdx };
enum { kAImm };
}  // namespace nc_match_replace8
namespace sequence_bounds {
enum { kDst, kSegmentIds };
}
namespace nonzero_with_count {
enum { kDst, kSrc };
enum { kAIndexOffset, kAPaddingVal };
}  // namespace nonzero_with_count
namespace topk {
enum { kValDst, kIdxDst, kSrc };
enum { kAN };
}  // namespace topk
namespace quantize_mx {
enum { kDst, kSrc, kDstScale };
enum { kAScaleRule };
}  // namespace quantize_mx
namespace dropout {
enum { kDst, kData, kProb };
}
namespace rng {
enum { kDst };
}
namespace set_rng_seed {
enum { kSrcSeeds };
}
namespace rand_set_state {
enum { kSrcSeeds };
}
namespace rand_get_state {
enum { kDst };
}
namespace rand2 {
enum { kDst, kMin, kMax };
}
// operands: n_out outputs, then inputs; op is the operator's name (isa/custom_ops.h). Its author states its
// time: ns + cycles_per_element * (elements per partition of the longest operand) cycles of GpSimd; both are
// negative when it is not stated.
namespace custom_op {
enum { kOperand0 };
enum { kAOp, kAOutputs, kANs, kACyclesPerElement };
}  // namespace custom_op
namespace register_load {
enum { kDst, kSrc };
}  // namespace register_load
namespace register_move {
enum { kDst, kSrc };
}  // namespace register_move
namespace register_store {
enum { kDst, kSrc };
}  // namespace register_store
namespace register_alu {
enum { kDst, kA, kB };
enum { kAOp };
}  // namespace register_alu
namespace loop {
enum { kRegister, kLower, kUpper };
enum { kAStep, kAMatch };
}  // namespace loop
namespace while_loop {
enum { kCondition };
enum { kAMatch };
}  // namespace while_loop
namespace device_print {
enum { kTensor };
enum { kAText };
}  // namespace device_print
}  // namespace slot

// Values of the enumerated attributes; they equal those of the nki.isa enums.
enum class ReduceCmd : uint8_t { kIdle = 0, kReset = 1, kReduce = 2, kResetReduce = 3, kLoadReduce = 4 };
enum class DgeMode : uint8_t { kUnknown = 0, kSwdge = 1, kHwdge = 2, kNone = 3 };
enum class OobMode : uint8_t { kError = 0, kSkip = 1 };
enum class DmaEngine : uint8_t { kDma = 1, kGpSimdDma = 2 };
enum class MatmulPerfMode : uint8_t { kNone = 0, kDoubleRow = 1 };

}  // namespace opentrn::isa
