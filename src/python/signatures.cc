#include "python/signatures.h"

namespace opentrn::python {

namespace {

using isa::Engine;
using isa::Opcode;
namespace s = isa::slot;

constexpr Parameter operand(std::string_view name, int slot) { return {name, Target::kOperand, slot, true}; }
constexpr Parameter optional(std::string_view name, int slot) { return {name, Target::kOperand, slot}; }
constexpr Parameter scalar(std::string_view name, int slot, double value) {
  return {name, Target::kOperand, slot, false, false, value};
}
constexpr Parameter attribute(std::string_view name, int slot) {
  return {name, Target::kAttribute, slot, true};
}
constexpr Parameter attribute(std::string_view name, int slot, double value) {
  return {name, Target::kAttribute, slot, false, false, value};
}
// None in Python, and -1 in the integer attribute.
constexpr Parameter unset(std::string_view name, int slot) {
  return {name, Target::kAttribute, slot, false, true, -1};
}
// What earlier releases took, False unless given.
constexpr Parameter ignored_flag(std::string_view name) { return {name, Target::kIgnored, 0, false, false}; }
constexpr Parameter engine() { return {"engine", Target::kEngine}; }
constexpr Parameter name() { return {"name", Target::kName}; }

constexpr double kFp32Min = -3.4028234663852886e38;
constexpr double kIdle = 0, kResetReduce = 3;
constexpr double kAdd = static_cast<double>(AluOp::kAdd), kMaximum = static_cast<double>(AluOp::kMaximum),
                 kEqual = static_cast<double>(AluOp::kEqual);

constexpr Parameter kDmaCopy[] = {operand("dst", s::dma_copy::kDst),
                                  operand("src", s::dma_copy::kSrc),
                                  unset("priority", s::dma_copy::kAPriority),
                                  attribute("oob_mode", s::dma_copy::kAOobMode, 0),
                                  attribute("dge_mode", s::dma_copy::kADgeMode, 0),
                                  engine(),
                                  name(),
                                  ignored_flag("unique_indices")};
constexpr Parameter kDmaTranspose[] = {operand("dst", s::dma_transpose::kDst),
                                       operand("src", s::dma_transpose::kSrc),
                                       {"axes", Target::kAxes, s::dma_transpose::kAAxes},
                                       unset("priority", s::dma_transpose::kAPriority),
                                       attribute("dge_mode", s::dma_transpose::kADgeMode, 0),
                                       attribute("oob_mode", s::dma_transpose::kAOobMode, 0),
                                       name()};
constexpr Parameter kDmaCompute[] = {operand("dst", s::dma_compute::kDst),
                                     {"srcs", Target::kSources, s::dma_compute::kSrc0, true},
                                     attribute("reduce_op", s::dma_compute::kAReduceOp),
                                     {"scales", Target::kScales},
                                     attribute("unique_indices", s::dma_compute::kAUniqueIndices, 1),
                                     attribute("oob_mode", s::dma_compute::kAOobMode, 0),
                                     name()};
// `dtype` is in no documented signature since NKI 0.2, but kernels of AWS's nki-samples
// (matrix_multiplication) and of others still say it.
constexpr Parameter kTensorCopy[] = {
    operand("dst", 0), operand("src", 1), engine(), name(), {"dtype", Target::kResultType}};
constexpr Parameter kMemset[] = {operand("dst", 0), operand("value", 1), engine(), name()};
constexpr Parameter kTensorCopyPredicated[] = {operand("dst", 0), operand("src", 1), operand("predicate", 2),
                                               attribute("reverse_pred", 0, 0), name()};
constexpr Parameter kNcTranspose[] = {operand("dst", 0), operand("data", 1), engine(), name()};
constexpr Parameter kNcStreamShuffle[] = {operand("dst", 0), operand("src", 1), attribute("shuffle_mask", 0),
                                          name()};
constexpr Parameter kLocalGather[] = {operand("dst", 0),
                                      operand("src_buffer", 1),
                                      operand("index", 2),
                                      attribute("num_elem_per_idx", 0, 1),
                                      unset("num_valid_indices", 1),
                                      name()};
constexpr Parameter kNcNGather[] = {operand("dst", 0), operand("data", 1), operand("indices", 2), name()};
constexpr Parameter kSendRecv[] = {operand("src", s::sendrecv::kSrc),
                                   operand("dst", s::sendrecv::kDst),
                                   attribute("send_to_rank", 0),
                                   attribute("recv_from_rank", 1),
                                   attribute("pipe_id", 2),
                                   attribute("dma_engine", 3, 1),
                                   name(),
                                   ignored_flag("use_gpsimd_dma")};
constexpr Parameter kCoreBarrier[] = {operand("data", 0), attribute("cores", 0), engine(), name()};
constexpr Parameter kNcMatmul[] = {
    operand("dst", s::nc_matmul::kDst),
    operand("stationary", s::nc_matmul::kStationary),
    operand("moving", s::nc_matmul::kMoving),
    attribute("is_stationary_onezero", s::nc_matmul::kAIsStationaryOneZero, 0),
    attribute("is_moving_onezero", s::nc_matmul::kAIsMovingOneZero, 0),
    attribute("is_transpose", s::nc_matmul::kAIsTranspose, 0),
    unset("accumulate", s::nc_matmul::kAAccumulate),
    {"tile_position", Target::kTilePosition, s::nc_matmul::kATileRow, false, false},
    {"tile_size", Target::kTilePosition, s::nc_matmul::kATileRows, false, false},
    attribute("perf_mode", s::nc_matmul::kAPerfMode, 0),
    name()};
constexpr Parameter kNcMatmulMx[] = {operand("dst", 0),
                                     operand("stationary", 1),
                                     operand("moving", 2),
                                     operand("stationary_scale", 3),
                                     operand("moving_scale", 4),
                                     {"tile_position", Target::kTilePosition, s::nc_matmul_mx::kATileRow},
                                     {"tile_size", Target::kTilePosition, s::nc_matmul_mx::kATileRows},
                                     unset("accumulate", s::nc_matmul_mx::kAAccumulate),
                                     name()};
constexpr Parameter kNcMatmulSparse[] = {operand("dst", 0),
                                         operand("stationary", 1),
                                         operand("moving", 2),
                                         operand("indices", 3),
                                         attribute("pattern", s::nc_matmul_sparse::kAPattern),
                                         unset("accumulate", s::nc_matmul_sparse::kAAccumulate),
                                         name()};
constexpr Parameter kTensorTensor[] = {
    operand("dst", 0), operand("data1", 1), operand("data2", 2), attribute("op", 0), engine(), name()};
constexpr Parameter kTensorScalar[] = {operand("dst", 0),
                                       operand("data", 1),
                                       attribute("op0", s::tensor_scalar::kAOp0),
                                       {"operand0", Target::kOperand, s::tensor_scalar::kOperand0, true},
                                       attribute("reverse0", s::tensor_scalar::kAReverse0, 0),
                                       unset("op1", s::tensor_scalar::kAOp1),
                                       optional("operand1", s::tensor_scalar::kOperand1),
                                       attribute("reverse1", s::tensor_scalar::kAReverse1, 0),
                                       engine(),
                                       name()};
constexpr Parameter kScalarTensorTensor[] = {operand("dst", 0),
                                             operand("data", 1),
                                             attribute("op0", s::scalar_tensor_tensor::kAOp0),
                                             operand("operand0", 2),
                                             attribute("op1", s::scalar_tensor_tensor::kAOp1),
                                             operand("operand1", 3),
                                             attribute("reverse0", s::scalar_tensor_tensor::kAReverse0, 0),
                                             attribute("reverse1", s::scalar_tensor_tensor::kAReverse1, 0),
                                             name(),
                                             engine()};
constexpr Parameter kTensorReduce[] = {operand("dst", 0),
                                       attribute("op", s::tensor_reduce::kAOp),
                                       operand("data", 1),
                                       {"axis", Target::kAxis, s::tensor_reduce::kAAxes, true},
                                       attribute("negate", s::tensor_reduce::kANegate, 0),
                                       ignored_flag("keepdims"),
                                       name()};
constexpr Parameter kTensorScalarReduce[] = {
    operand("dst", 0),
    operand("data", 1),
    attribute("op0", s::tensor_scalar_reduce::kAOp0),
    {"operand0", Target::kOperand, s::tensor_scalar_reduce::kOperand0, true},
    attribute("reduce_op", s::tensor_scalar_reduce::kAReduceOp),
    optional("reduce_res", s::tensor_scalar_reduce::kReduceRes),
    attribute("reverse0", s::tensor_scalar_reduce::kAReverse0, 0),
    attribute("reduce_cmd", s::tensor_scalar_reduce::kAReduceCmd, kResetReduce),
    optional("reduce_init", s::tensor_scalar_reduce::kReduceInit),
    attribute("reduce_res_negate", s::tensor_scalar_reduce::kAReduceResNegate, 0),
    name()};
constexpr Parameter kTensorScalarCumulative[] = {
    operand("dst", 0),
    operand("src", 1),
    attribute("op0", s::tensor_scalar_cumulative::kAOp0),
    attribute("op1", s::tensor_scalar_cumulative::kAOp1),
    operand("imm0", 2),
    optional("imm1", 3),
    attribute("reduce_cmd", s::tensor_scalar_cumulative::kAReduceCmd, kResetReduce),
    name(),
    attribute("reverse0", s::tensor_scalar_cumulative::kAReverse0, 0)};
constexpr Parameter kTensorTensorScan[] = {
    operand("dst", 0),           operand("data0", 1),         operand("data1", 2),
    operand("initial", 3),       attribute("op0", 0),         attribute("op1", 1),
    attribute("reverse0", 2, 0), attribute("reverse1", 3, 0), name()};
constexpr Parameter kTensorPartitionReduce[] = {operand("dst", 0), attribute("op", 0), operand("data", 1),
                                                name()};
constexpr Parameter kActivation[] = {operand("dst", 0),
                                     attribute("op", s::activation::kAOp),
                                     operand("data", 1),
                                     optional("bias", s::activation::kBias),
                                     scalar("scale", s::activation::kScale, 1.0),
                                     unset("reduce_op", s::activation::kAReduceOp),
                                     optional("reduce_res", s::activation::kReduceRes),
                                     attribute("reduce_cmd", s::activation::kAReduceCmd, kIdle),
                                     name()};
constexpr Parameter kActivationReduce[] = {operand("dst", 0),
                                           attribute("op", s::activation_reduce::kAOp),
                                           operand("data", 1),
                                           attribute("reduce_op", s::activation_reduce::kAReduceOp),
                                           optional("reduce_res", s::activation_reduce::kReduceRes),
                                           optional("bias", s::activation_reduce::kBias),
                                           scalar("scale", s::activation_reduce::kScale, 1.0),
                                           name()};
constexpr Parameter kActivate2[] = {operand("dst", 0),
                                    attribute("op", s::activate2::kAOp),
                                    operand("data", 1),
                                    operand("imm0", s::activate2::kImm0),
                                    operand("imm1", s::activate2::kImm1),
                                    attribute("op0", s::activate2::kAOp0),
                                    attribute("op1", s::activate2::kAOp1),
                                    scalar("relu_param", s::activate2::kReluParam, 0.0),
                                    attribute("reverse0", s::activate2::kAReverse0, 0),
                                    attribute("reverse1", s::activate2::kAReverse1, 0),
                                    unset("reduce_op", s::activate2::kAReduceOp),
                                    optional("reduce_res", s::activate2::kReduceRes),
                                    attribute("reduce_cmd", s::activate2::kAReduceCmd, kIdle),
                                    name()};
constexpr Parameter kExponential[] = {operand("dst", 0),
                                      operand("src", 1),
                                      scalar("max_value", 2, 0.0),
                                      optional("reduce_res", 3),
                                      attribute("reduce_cmd", 0, kIdle),
                                      scalar("reduce_init", 4, 0.0),
                                      name()};
constexpr Parameter kReciprocal[] = {operand("dst", 0), operand("data", 1), name()};
constexpr Parameter kSelectReduce[] = {operand("dst", 0),
                                       operand("predicate", 1),
                                       operand("on_true", 2),
                                       operand("on_false", 3),
                                       optional("reduce_res", 4),
                                       attribute("reduce_cmd", s::select_reduce::kAReduceCmd, kIdle),
                                       attribute("reduce_op", s::select_reduce::kAReduceOp, kMaximum),
                                       attribute("reverse_pred", s::select_reduce::kAReversePred, 0),
                                       name()};
constexpr Parameter kRangeSelect[] = {operand("dst", 0),
                                      operand("on_true_tile", 1),
                                      attribute("comp_op0", s::range_select::kACompOp0),
                                      attribute("comp_op1", s::range_select::kACompOp1),
                                      operand("bound0", 2),
                                      operand("bound1", 3),
                                      attribute("reduce_cmd", s::range_select::kAReduceCmd, kResetReduce),
                                      optional("reduce_res", 4),
                                      attribute("reduce_op", s::range_select::kAReduceOp, kMaximum),
                                      attribute("range_start", s::range_select::kARangeStart, 0),
                                      attribute("on_false_value", s::range_select::kAOnFalseValue, kFp32Min),
                                      name()};
constexpr Parameter kAffineSelect[] = {operand("dst", 0),
                                       attribute("pattern", s::affine_select::kAPattern),
                                       attribute("channel_multiplier", s::affine_select::kAChannelMultiplier),
                                       operand("on_true_tile", 1),
                                       attribute("on_false_value", s::affine_select::kAOnFalseValue),
                                       attribute("cmp_op", s::affine_select::kACmpOp, kEqual),
                                       attribute("offset", s::affine_select::kAOffset, 0),
                                       name()};
constexpr Parameter kIota[] = {operand("dst", 0), attribute("pattern", s::iota::kAPattern),
                               attribute("offset", s::iota::kAOffset, 0),
                               attribute("channel_multiplier", s::iota::kAChannelMultiplier, 0), name()};
constexpr Parameter kBn[] = {operand("dst", 0), operand("data", 1), name()};
constexpr Parameter kMax8[] = {operand("dst", 0), operand("src", 1), name()};
constexpr Parameter kNcFindIndex8[] = {operand("dst", 0), operand("data", 1), operand("vals", 2), name()};
constexpr Parameter kNcMatchReplace8[] = {operand("dst", 0),   operand("data", 1),     operand("vals", 2),
                                          attribute("imm", 0), optional("dst_idx", 3), name()};
constexpr Parameter kSequenceBounds[] = {operand("dst", 0), operand("segment_ids", 1), name()};
constexpr Parameter kNonzeroWithCount[] = {operand("dst", 0), operand("src", 1),
                                           attribute("index_offset", 0, 0), attribute("padding_val", 1, -1),
                                           name()};
constexpr Parameter kTopk[] = {operand("val_dst", 0), operand("idx_dst", 1), operand("src", 2),
                               attribute("n", 0), name()};
constexpr Parameter kQuantizeMx[] = {operand("dst", 0), operand("src", 1), operand("dst_scale", 2), name()};
constexpr Parameter kDropout[] = {operand("dst", 0), operand("data", 1), operand("prob", 2), name()};
constexpr Parameter kRng[] = {operand("dst", 0), engine(), name()};
constexpr Parameter kSetRngSeed[] = {operand("src_seeds", 0), name()};
constexpr Parameter kRandSetState[] = {operand("src_seeds", 0), engine(), name()};
constexpr Parameter kRandGetState[] = {operand("dst", 0), engine(), name()};
constexpr Parameter kRand2[] = {operand("dst", 0), operand("min", 1), operand("max", 2), name()};

constexpr Signature kSignatures[] = {
    {Opcode::kDmaCopy, Engine::kUnknown, kDmaCopy},
    {Opcode::kDmaTranspose, Engine::kUnknown, kDmaTranspose},
    {Opcode::kDmaCompute, Engine::kUnknown, kDmaCompute},
    {Opcode::kTensorCopy, Engine::kUnknown, kTensorCopy},
    {Opcode::kMemset, Engine::kUnknown, kMemset},
    {Opcode::kTensorCopyPredicated, Engine::kVector, kTensorCopyPredicated},
    {Opcode::kNcTranspose, Engine::kUnknown, kNcTranspose},
    {Opcode::kNcStreamShuffle, Engine::kVector, kNcStreamShuffle},
    {Opcode::kLocalGather, Engine::kGpSimd, kLocalGather},
    {Opcode::kNcNGather, Engine::kGpSimd, kNcNGather},
    {Opcode::kSendRecv, Engine::kUnknown, kSendRecv},
    {Opcode::kCoreBarrier, Engine::kGpSimd, kCoreBarrier},
    {Opcode::kNcMatmul, Engine::kTensor, kNcMatmul},
    {Opcode::kNcMatmulMx, Engine::kTensor, kNcMatmulMx},
    {Opcode::kNcMatmulSparse, Engine::kTensor, kNcMatmulSparse},
    {Opcode::kTensorTensor, Engine::kUnknown, kTensorTensor},
    {Opcode::kTensorScalar, Engine::kUnknown, kTensorScalar},
    {Opcode::kScalarTensorTensor, Engine::kVector, kScalarTensorTensor},
    {Opcode::kTensorReduce, Engine::kVector, kTensorReduce},
    {Opcode::kTensorScalarReduce, Engine::kVector, kTensorScalarReduce},
    {Opcode::kTensorScalarCumulative, Engine::kVector, kTensorScalarCumulative},
    {Opcode::kTensorTensorScan, Engine::kVector, kTensorTensorScan},
    {Opcode::kTensorPartitionReduce, Engine::kGpSimd, kTensorPartitionReduce},
    {Opcode::kActivation, Engine::kScalar, kActivation},
    {Opcode::kActivationReduce, Engine::kScalar, kActivationReduce},
    {Opcode::kActivate2, Engine::kScalar, kActivate2},
    {Opcode::kExponential, Engine::kVector, kExponential},
    {Opcode::kReciprocal, Engine::kVector, kReciprocal},
    {Opcode::kSelectReduce, Engine::kVector, kSelectReduce},
    {Opcode::kRangeSelect, Engine::kVector, kRangeSelect},
    {Opcode::kAffineSelect, Engine::kGpSimd, kAffineSelect},
    {Opcode::kIota, Engine::kGpSimd, kIota},
    {Opcode::kBnStats, Engine::kVector, kBn},
    {Opcode::kBnAggr, Engine::kVector, kBn},
    {Opcode::kMax8, Engine::kVector, kMax8},
    {Opcode::kNcFindIndex8, Engine::kVector, kNcFindIndex8},
    {Opcode::kNcMatchReplace8, Engine::kVector, kNcMatchReplace8},
    {Opcode::kSequenceBounds, Engine::kGpSimd, kSequenceBounds},
    {Opcode::kNonzeroWithCount, Engine::kGpSimd, kNonzeroWithCount},
    {Opcode::kTopk, Engine::kGpSimd, kTopk},
    {Opcode::kQuantizeMx, Engine::kVector, kQuantizeMx},
    {Opcode::kDropout, Engine::kVector, kDropout},
    {Opcode::kRng, Engine::kVector, kRng},
    {Opcode::kSetRngSeed, Engine::kVector, kSetRngSeed},
    {Opcode::kRandSetState, Engine::kGpSimd, kRandSetState},
    {Opcode::kRandGetState, Engine::kGpSimd, kRandGetState},
    {Opcode::kRand2, Engine::kVector, kRand2},
};

}  // namespace

std::span<const Signature> signatures() { return kSignatures; }

}  // namespace opentrn::python
