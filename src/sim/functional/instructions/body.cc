#include "sim/functional/instructions/body.h"

#include <iterator>

namespace opentrn::sim {

namespace {

using O = isa::Opcode;

struct Row {
  O opcode;
  Body body;
};

constexpr Row kBodies[] = {
    {O::kDmaCopy, bodies::dma_copy},
    {O::kDmaTranspose, bodies::dma_transpose},
    {O::kDmaCompute, bodies::dma_compute},
    {O::kTensorCopy, bodies::tensor_copy},
    {O::kMemset, bodies::memset},
    {O::kTensorCopyPredicated, bodies::tensor_copy_predicated},
    {O::kNcTranspose, bodies::nc_transpose},
    {O::kNcStreamShuffle, bodies::nc_stream_shuffle},
    {O::kLocalGather, bodies::local_gather},
    {O::kNcNGather, bodies::nc_n_gather},
    {O::kSendRecv, nullptr},
    {O::kCoreBarrier, nullptr},
    {O::kNcMatmul, bodies::nc_matmul},
    {O::kNcMatmulMx, bodies::nc_matmul_mx},
    {O::kNcMatmulSparse, bodies::nc_matmul_sparse},
    {O::kTensorTensor, bodies::tensor_tensor},
    {O::kTensorScalar, bodies::tensor_scalar},
    {O::kScalarTensorTensor, bodies::scalar_tensor_tensor},
    {O::kTensorReduce, bodies::tensor_reduce},
    {O::kTensorScalarReduce, bodies::tensor_scalar_reduce},
    {O::kTensorScalarCumulative, bodies::tensor_scalar_cumulative},
    {O::kTensorTensorScan, bodies::tensor_tensor_scan},
    {O::kTensorPartitionReduce, bodies::tensor_partition_reduce},
    {O::kActivation, bodies::activation},
    {O::kActivationReduce, bodies::activation_reduce},
    {O::kActivate2, bodies::activate2},
    {O::kExponential, bodies::exponential},
    {O::kReciprocal, bodies::reciprocal},
    {O::kSelectReduce, bodies::select_reduce},
    {O::kRangeSelect, bodies::range_select},
    {O::kAffineSelect, bodies::affine_select},
    {O::kIota, bodies::iota},
    {O::kBnStats, bodies::bn_stats},
    {O::kBnAggr, bodies::bn_aggr},
    {O::kMax8, bodies::max8},
    {O::kNcFindIndex8, bodies::nc_find_index8},
    {O::kNcMatchReplace8, bodies::nc_match_replace8},
    {O::kSequenceBounds, bodies::sequence_bounds},
    {O::kNonzeroWithCount, bodies::nonzero_with_count},
    {O::kTopk, bodies::topk},
    {O::kQuantizeMx, bodies::quantize_mx},
    {O::kDropout, bodies::dropout},
    {O::kRng, bodies::rng},
    {O::kSetRngSeed, bodies::set_rng_seed},
    {O::kRandSetState, bodies::rand_set_state},
    {O::kRandGetState, bodies::rand_get_state},
    {O::kRand2, bodies::rand2},
    {O::kCustomOp, bodies::custom_op},
    {O::kRegisterLoad, nullptr},
    {O::kRegisterMove, nullptr},
    {O::kRegisterStore, nullptr},
    {O::kRegisterAlu, nullptr},
    {O::kLoopBegin, nullptr},
    {O::kLoopEnd, nullptr},
    {O::kWhileBegin, nullptr},
    {O::kWhileEnd, nullptr},
    {O::kDevicePrint, bodies::device_print},
};
static_assert(std::size(kBodies) == isa::kOpcodeCount);

constexpr bool table_is_in_opcode_order() {
  for (size_t i = 0; i < std::size(kBodies); ++i)
    if (kBodies[i].opcode != static_cast<O>(i)) return false;
  return true;
}
static_assert(table_is_in_opcode_order());

}  // namespace

Body body(isa::Opcode opcode) { return kBodies[static_cast<size_t>(opcode)].body; }

bool is_executed(isa::Opcode opcode) {
  return body(opcode) != nullptr || isa::is_control(opcode) || opcode == O::kSendRecv ||
         opcode == O::kCoreBarrier;
}

}  // namespace opentrn::sim
