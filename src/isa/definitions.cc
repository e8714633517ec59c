// Source of names, engines and generations: nki/api/nki/isa/__init__.py (NKI 0.6.0 stub) and the
// architecture guides; nc_matmul_sparse: trainium2_arch.rst, "structured sparsity" (no public NKI call).
#include "isa/definitions.h"

#include <array>
#include <unordered_map>

#include "base/fault.h"

namespace opentrn::isa {

namespace {

constexpr uint8_t kTile = kAcceptsAccess;
constexpr uint8_t kIndirectTile = kAcceptsAccess | kAcceptsIndirect;
constexpr uint8_t kScalarOrVector = kAcceptsAccess | kAcceptsImmediate;
constexpr uint8_t kOptionalTile = kAcceptsAccess | kAcceptsNone;
constexpr uint8_t kOptionalScalarOrVector = kScalarOrVector | kAcceptsNone;

constexpr OperandSlot in(std::string_view name, SpaceMask spaces = kOnChip, uint8_t accepts = kTile) {
  return {name, Role::kIn, accepts, spaces};
}
constexpr OperandSlot out(std::string_view name, SpaceMask spaces = kOnChip, uint8_t accepts = kTile) {
  return {name, Role::kOut, accepts, spaces};
}
constexpr OperandSlot inout(std::string_view name, SpaceMask spaces = kOnChip, uint8_t accepts = kTile) {
  return {name, Role::kInOut, accepts, spaces};
}

using K = AttributeKind;

// Operand lists, in slot order.
constexpr OperandSlot kDmaCopyOps[] = {out("dst", kDmaSpaces), in("src", kDmaSpaces)};
constexpr OperandSlot kDmaComputeOps[] = {out("dst", kDmaSpaces), in("srcs", kDmaSpaces, kTile | kRepeats)};
constexpr OperandSlot kTensorCopyOps[] = {out("dst", kOnChip, kIndirectTile),
                                          in("src", kOnChip, kIndirectTile)};
constexpr OperandSlot kMemsetOps[] = {out("dst"), in("value", 0, kAcceptsImmediate)};
constexpr OperandSlot kCopyPredicatedOps[] = {inout("dst", kOnChip, kIndirectTile),
                                              in("src", kOnChip, kScalarOrVector),
                                              in("predicate", kOnChip, kIndirectTile)};
constexpr OperandSlot kNcTransposeOps[] = {out("dst"), in("data")};
constexpr OperandSlot kStreamShuffleOps[] = {inout("dst"), in("src")};
constexpr OperandSlot kLocalGatherOps[] = {out("dst", kInSbuf), in("src_buffer", kInSbuf),
                                           in("index", kInSbuf)};
constexpr OperandSlot kNcNGatherOps[] = {out("dst", kInSbuf), in("data", kInSbuf), in("indices", kInSbuf)};
constexpr OperandSlot kSendRecvOps[] = {out("dst", kDmaSpaces), in("src", kDmaSpaces)};
constexpr OperandSlot kCoreBarrierOps[] = {inout("data", kInHbm | kInSbuf)};
constexpr OperandSlot kMatmulOps[] = {inout("dst", kInPsum, kIndirectTile),
                                      in("stationary", kInSbuf, kIndirectTile),
                                      in("moving", kInSbuf, kIndirectTile)};
constexpr OperandSlot kMatmulMxOps[] = {
    inout("dst", kInPsum, kIndirectTile), in("stationary", kInSbuf, kIndirectTile),
    in("moving", kInSbuf, kIndirectTile), in("stationary_scale", kInSbuf, kIndirectTile),
    in("moving_scale", kInSbuf, kIndirectTile)};
constexpr OperandSlot kMatmulSparseOps[] = {inout("dst", kInPsum), in("stationary", kInSbuf),
                                            in("moving", kInSbuf), in("indices", kInSbuf)};
constexpr OperandSlot kTensorTensorOps[] = {out("dst", kOnChip, kIndirectTile),
                                            in("data1", kOnChip, kIndirectTile), in("data2")};
constexpr OperandSlot kTensorScalarOps[] = {
    out("dst", kOnChip, kIndirectTile), in("data", kOnChip, kIndirectTile),
    in("operand0", kOnChip, kOptionalScalarOrVector), in("operand1", kOnChip, kOptionalScalarOrVector)};
constexpr OperandSlot kScalarTensorTensorOps[] = {out("dst"), in("data"),
                                                  in("operand0", kOnChip, kScalarOrVector), in("operand1")};
constexpr OperandSlot kTensorReduceOps[] = {out("dst", kOnChip, kIndirectTile),
                                            in("data", kOnChip, kIndirectTile)};
constexpr OperandSlot kTensorScalarReduceOps[] = {
    out("dst", kOnChip, kIndirectTile), in("data", kOnChip, kIndirectTile),
    in("operand0", kOnChip, kOptionalScalarOrVector), out("reduce_res", kOnChip, kOptionalTile),
    in("reduce_init", kOnChip, kOptionalScalarOrVector)};
constexpr OperandSlot kTensorScalarCumulativeOps[] = {
    out("dst", kOnChip, kIndirectTile), in("src", kOnChip, kIndirectTile),
    in("imm0", kOnChip, kScalarOrVector), in("imm1", kOnChip, kOptionalScalarOrVector)};
constexpr OperandSlot kTensorTensorScanOps[] = {out("dst"), in("data0"), in("data1"),
                                                in("initial", kOnChip, kScalarOrVector)};
constexpr OperandSlot kPartitionReduceOps[] = {out("dst", kInSbuf), in("data", kInSbuf)};
constexpr OperandSlot kActivationOps[] = {
    out("dst", kOnChip, kIndirectTile), in("data", kOnChip, kIndirectTile),
    in("bias", kOnChip, kOptionalScalarOrVector), in("scale", kOnChip, kScalarOrVector),
    out("reduce_res", kOnChip, kOptionalTile)};
constexpr OperandSlot kActivate2Ops[] = {
    out("dst", kOnChip, kIndirectTile),           in("data", kOnChip, kIndirectTile),
    in("imm0", kOnChip, kOptionalScalarOrVector), in("imm1", kOnChip, kOptionalScalarOrVector),
    in("relu_param", kOnChip, kScalarOrVector),   out("reduce_res", kOnChip, kOptionalTile)};
constexpr OperandSlot kExponentialOps[] = {
    out("dst", kOnChip, kIndirectTile), in("src", kOnChip, kIndirectTile),
    in("max_value", kOnChip, kScalarOrVector), out("reduce_res", kOnChip, kOptionalTile),
    in("reduce_init", kOnChip, kScalarOrVector)};
constexpr OperandSlot kReciprocalOps[] = {out("dst"), in("data")};
constexpr OperandSlot kSelectReduceOps[] = {out("dst"), in("predicate"), in("on_true"),
                                            in("on_false", kOnChip, kScalarOrVector),
                                            out("reduce_res", kOnChip, kOptionalTile)};
constexpr OperandSlot kRangeSelectOps[] = {out("dst"), in("on_true_tile"), in("bound0"), in("bound1"),
                                           out("reduce_res", kOnChip, kOptionalTile)};
constexpr OperandSlot kAffineSelectOps[] = {out("dst", kInSbuf), in("on_true_tile", kInSbuf)};
constexpr OperandSlot kIotaOps[] = {out("dst", kInSbuf)};
constexpr OperandSlot kBnOps[] = {out("dst"), in("data")};
constexpr OperandSlot kMax8Ops[] = {out("dst"), in("src")};
constexpr OperandSlot kFindIndex8Ops[] = {out("dst"), in("data"), in("vals")};
constexpr OperandSlot kMatchReplace8Ops[] = {out("dst"), in("data"), in("vals"),
                                             out("dst_idx", kOnChip, kOptionalTile)};
constexpr OperandSlot kSequenceBoundsOps[] = {out("dst", kInSbuf), in("segment_ids", kInSbuf)};
constexpr OperandSlot kNonzeroOps[] = {inout("dst", kInSbuf), in("src", kInSbuf)};
constexpr OperandSlot kTopkOps[] = {out("val_dst", kInSbuf), out("idx_dst", kInSbuf), in("src", kInSbuf)};
constexpr OperandSlot kQuantizeMxOps[] = {out("dst", kInSbuf), in("src", kInSbuf), out("dst_scale", kInSbuf)};
constexpr OperandSlot kDropoutOps[] = {out("dst"), in("data"), in("prob", kOnChip, kScalarOrVector)};
constexpr OperandSlot kRngOps[] = {out("dst")};
constexpr OperandSlot kSeedOps[] = {in("src_seeds")};
constexpr OperandSlot kRandGetStateOps[] = {out("dst")};
constexpr OperandSlot kRand2Ops[] = {out("dst"), in("min", kOnChip, kScalarOrVector),
                                     in("max", kOnChip, kScalarOrVector)};
constexpr OperandSlot kCustomOps[] = {inout("operands", kOnChip | kInHbm, kScalarOrVector | kRepeats)};
constexpr OperandSlot kRegisterLoadOps[] = {out("dst", 0, kAcceptsRegister), in("src", kOnChip | kInHbm)};
constexpr OperandSlot kRegisterMoveOps[] = {out("dst", 0, kAcceptsRegister),
                                            in("src", 0, kAcceptsRegister | kAcceptsImmediate)};
constexpr OperandSlot kRegisterStoreOps[] = {out("dst", kOnChip | kInHbm), in("src", 0, kAcceptsRegister)};
constexpr OperandSlot kRegisterAluOps[] = {out("dst", 0, kAcceptsRegister),
                                           in("a", 0, kAcceptsRegister | kAcceptsImmediate),
                                           in("b", 0, kAcceptsRegister | kAcceptsImmediate)};
constexpr OperandSlot kLoopBeginOps[] = {out("register", 0, kAcceptsRegister),
                                         in("lower", 0, kAcceptsRegister | kAcceptsImmediate),
                                         in("upper", 0, kAcceptsRegister | kAcceptsImmediate)};
constexpr OperandSlot kLoopEndOps[] = {out("register", 0, kAcceptsRegister)};
constexpr OperandSlot kWhileOps[] = {in("condition", 0, kAcceptsRegister)};
constexpr OperandSlot kDevicePrintOps[] = {in("tensor", kOnChip | kInHbm)};

// Attribute lists, in slot order.
constexpr AttributeSlot kDmaCopyAttrs[] = {
    {"priority", K::kInt}, {"oob_mode", K::kOobMode}, {"dge_mode", K::kDgeMode}};
constexpr AttributeSlot kDmaTransposeAttrs[] = {
    {"axes", K::kIntList}, {"priority", K::kInt}, {"dge_mode", K::kDgeMode}, {"oob_mode", K::kOobMode}};
constexpr AttributeSlot kDmaComputeAttrs[] = {
    {"reduce_op", K::kAluOp}, {"unique_indices", K::kBool}, {"oob_mode", K::kOobMode}};
constexpr AttributeSlot kReversePredAttrs[] = {{"reverse_pred", K::kBool}};
constexpr AttributeSlot kShuffleAttrs[] = {{"shuffle_mask", K::kIntList}};
constexpr AttributeSlot kLocalGatherAttrs[] = {{"num_elem_per_idx", K::kInt}, {"num_valid_indices", K::kInt}};
constexpr AttributeSlot kSendRecvAttrs[] = {{"send_to_rank", K::kInt},
                                            {"recv_from_rank", K::kInt},
                                            {"pipe_id", K::kInt},
                                            {"dma_engine", K::kDmaEngine}};
constexpr AttributeSlot kCoreBarrierAttrs[] = {{"cores", K::kIntList}};
constexpr AttributeSlot kMatmulAttrs[] = {
    {"accumulate", K::kInt},         {"is_stationary_onezero", K::kBool},
    {"is_moving_onezero", K::kBool}, {"is_transpose", K::kBool},
    {"tile_row", K::kInt},           {"tile_column", K::kInt},
    {"tile_rows", K::kInt},          {"tile_columns", K::kInt},
    {"perf_mode", K::kPerfMode}};
constexpr AttributeSlot kMatmulMxAttrs[] = {{"accumulate", K::kInt},
                                            {"tile_row", K::kInt},
                                            {"tile_column", K::kInt},
                                            {"tile_rows", K::kInt},
                                            {"tile_columns", K::kInt}};
constexpr AttributeSlot kMatmulSparseAttrs[] = {{"accumulate", K::kInt}, {"pattern", K::kInt}};
constexpr AttributeSlot kOpAttrs[] = {{"op", K::kAluOp}};
constexpr AttributeSlot kTensorScalarAttrs[] = {
    {"op0", K::kAluOp}, {"reverse0", K::kBool}, {"op1", K::kOptionalAluOp}, {"reverse1", K::kBool}};
constexpr AttributeSlot kTwoOpAttrs[] = {
    {"op0", K::kAluOp}, {"op1", K::kAluOp}, {"reverse0", K::kBool}, {"reverse1", K::kBool}};
constexpr AttributeSlot kTensorReduceAttrs[] = {{"op", K::kAluOp}, {"axes", K::kInt}, {"negate", K::kBool}};
constexpr AttributeSlot kTensorScalarReduceAttrs[] = {{"op0", K::kAluOp},
                                                      {"reverse0", K::kBool},
                                                      {"reduce_op", K::kAluOp},
                                                      {"reduce_cmd", K::kReduceCmd},
                                                      {"reduce_res_negate", K::kBool}};
constexpr AttributeSlot kTensorScalarCumulativeAttrs[] = {
    {"op0", K::kAluOp}, {"op1", K::kAluOp}, {"reduce_cmd", K::kReduceCmd}, {"reverse0", K::kBool}};
constexpr AttributeSlot kActivationAttrs[] = {
    {"op", K::kActivation}, {"reduce_op", K::kOptionalAluOp}, {"reduce_cmd", K::kReduceCmd}};
constexpr AttributeSlot kActivate2Attrs[] = {{"op", K::kActivation},       {"op0", K::kAluOp},
                                             {"op1", K::kAluOp},           {"reverse0", K::kBool},
                                             {"reverse1", K::kBool},       {"reduce_op", K::kOptionalAluOp},
                                             {"reduce_cmd", K::kReduceCmd}};
constexpr AttributeSlot kReduceCmdAttrs[] = {{"reduce_cmd", K::kReduceCmd}};
constexpr AttributeSlot kSelectReduceAttrs[] = {
    {"reduce_cmd", K::kReduceCmd}, {"reduce_op", K::kOptionalAluOp}, {"reverse_pred", K::kBool}};
constexpr AttributeSlot kRangeSelectAttrs[] = {
    {"comp_op0", K::kAluOp},          {"comp_op1", K::kAluOp},   {"reduce_cmd", K::kReduceCmd},
    {"reduce_op", K::kOptionalAluOp}, {"range_start", K::kReal}, {"on_false_value", K::kReal}};
constexpr AttributeSlot kAffineSelectAttrs[] = {{"pattern", K::kIntList},
                                                {"channel_multiplier", K::kInt},
                                                {"offset", K::kInt},
                                                {"on_false_value", K::kReal},
                                                {"cmp_op", K::kAluOp}};
constexpr AttributeSlot kIotaAttrs[] = {
    {"pattern", K::kIntList}, {"offset", K::kInt}, {"channel_multiplier", K::kInt}};
constexpr AttributeSlot kMatchReplace8Attrs[] = {{"imm", K::kReal}};
constexpr AttributeSlot kNonzeroAttrs[] = {{"index_offset", K::kInt}, {"padding_val", K::kInt}};
constexpr AttributeSlot kTopkAttrs[] = {{"n", K::kInt}};
constexpr AttributeSlot kQuantizeMxAttrs[] = {{"scale_rule", K::kMxScaleRule}};
constexpr AttributeSlot kCustomOpAttrs[] = {
    {"op", K::kString}, {"outputs", K::kInt}, {"ns", K::kReal}, {"cycles_per_element", K::kReal}};
constexpr AttributeSlot kLoopAttrs[] = {{"step", K::kInt}, {"match", K::kInt}};
constexpr AttributeSlot kMatchAttrs[] = {{"match", K::kInt}};
constexpr AttributeSlot kDevicePrintAttrs[] = {{"text", K::kString}};
constexpr std::span<const AttributeSlot> kNoAttrs;

constexpr EngineMask kT = mask(Engine::kTensor), kS = mask(Engine::kScalar), kG = mask(Engine::kGpSimd),
                     kV = mask(Engine::kVector), kD = mask(Engine::kDma), kY = mask(Engine::kSync),
                     kControl = 0;

using O = Opcode;
constexpr InstructionDefinition kDefinitions[] = {
    {O::kDmaCopy, "dma_copy", kD | kY | kS | kG, 1, kDmaCopyOps, kDmaCopyAttrs},
    {O::kDmaTranspose, "dma_transpose", kD | kG, 2, kDmaCopyOps, kDmaTransposeAttrs},
    {O::kDmaCompute, "dma_compute", kD | kG, 2, kDmaComputeOps, kDmaComputeAttrs},
    {O::kTensorCopy, "tensor_copy", kV | kS | kG, 1, kTensorCopyOps, kNoAttrs},
    {O::kMemset, "memset", kV | kG, 1, kMemsetOps, kNoAttrs},
    {O::kTensorCopyPredicated, "tensor_copy_predicated", kV, 2, kCopyPredicatedOps, kReversePredAttrs},
    {O::kNcTranspose, "nc_transpose", kT | kV, 1, kNcTransposeOps, kNoAttrs},
    {O::kNcStreamShuffle, "nc_stream_shuffle", kV, 2, kStreamShuffleOps, kShuffleAttrs},
    {O::kLocalGather, "local_gather", kG, 2, kLocalGatherOps, kLocalGatherAttrs},
    {O::kNcNGather, "nc_n_gather", kG, 2, kNcNGatherOps, kNoAttrs},
    {O::kSendRecv, "sendrecv", kD | kG, 3, kSendRecvOps, kSendRecvAttrs},
    {O::kCoreBarrier, "core_barrier", kG | kV | kS | kT | kY, 3, kCoreBarrierOps, kCoreBarrierAttrs},
    {O::kNcMatmul, "nc_matmul", kT, 1, kMatmulOps, kMatmulAttrs},
    {O::kNcMatmulMx, "nc_matmul_mx", kT, 4, kMatmulMxOps, kMatmulMxAttrs},
    {O::kNcMatmulSparse, "nc_matmul_sparse", kT, 3, kMatmulSparseOps, kMatmulSparseAttrs},
    {O::kTensorTensor, "tensor_tensor", kV | kG, 1, kTensorTensorOps, kOpAttrs},
    {O::kTensorScalar, "tensor_scalar", kV | kS | kG, 1, kTensorScalarOps, kTensorScalarAttrs},
    {O::kScalarTensorTensor, "scalar_tensor_tensor", kV, 2, kScalarTensorTensorOps, kTwoOpAttrs},
    {O::kTensorReduce, "tensor_reduce", kV, 1, kTensorReduceOps, kTensorReduceAttrs},
    {O::kTensorScalarReduce, "tensor_scalar_reduce", kV, 2, kTensorScalarReduceOps, kTensorScalarReduceAttrs},
    {O::kTensorScalarCumulative, "tensor_scalar_cumulative", kV, 2, kTensorScalarCumulativeOps,
     kTensorScalarCumulativeAttrs},
    {O::kTensorTensorScan, "tensor_tensor_scan", kV, 2, kTensorTensorScanOps, kTwoOpAttrs},
    {O::kTensorPartitionReduce, "tensor_partition_reduce", kG, 2, kPartitionReduceOps, kOpAttrs},
    {O::kActivation, "activation", kS, 1, kActivationOps, kActivationAttrs},
    {O::kActivationReduce, "activation_reduce", kS, 2, kActivationOps, kActivationAttrs},
    {O::kActivate2, "activate2", kS, 4, kActivate2Ops, kActivate2Attrs},
    {O::kExponential, "exponential", kV, 4, kExponentialOps, kReduceCmdAttrs},
    {O::kReciprocal, "reciprocal", kV, 1, kReciprocalOps, kNoAttrs},
    {O::kSelectReduce, "select_reduce", kV, 2, kSelectReduceOps, kSelectReduceAttrs},
    {O::kRangeSelect, "range_select", kV, 3, kRangeSelectOps, kRangeSelectAttrs},
    {O::kAffineSelect, "affine_select", kG, 2, kAffineSelectOps, kAffineSelectAttrs},
    {O::kIota, "iota", kG, 2, kIotaOps, kIotaAttrs},
    {O::kBnStats, "bn_stats", kV, 2, kBnOps, kNoAttrs},
    {O::kBnAggr, "bn_aggr", kV, 2, kBnOps, kNoAttrs},
    {O::kMax8, "max8", kV, 2, kMax8Ops, kNoAttrs},
    {O::kNcFindIndex8, "nc_find_index8", kV, 2, kFindIndex8Ops, kNoAttrs},
    {O::kNcMatchReplace8, "nc_match_replace8", kV, 2, kMatchReplace8Ops, kMatchReplace8Attrs},
    {O::kSequenceBounds, "sequence_bounds", kG, 2, kSequenceBoundsOps, kNoAttrs},
    {O::kNonzeroWithCount, "nonzero_with_count", kG, 3, kNonzeroOps, kNonzeroAttrs},
    {O::kTopk, "topk", kG, 2, kTopkOps, kTopkAttrs},
    {O::kQuantizeMx, "quantize_mx", kV, 4, kQuantizeMxOps, kQuantizeMxAttrs},
    {O::kDropout, "dropout", kV, 2, kDropoutOps, kNoAttrs},
    {O::kRng, "rng", kV | kG, 2, kRngOps, kNoAttrs},
    {O::kSetRngSeed, "set_rng_seed", kV, 2, kSeedOps, kNoAttrs},
    {O::kRandSetState, "rand_set_state", kG | kV, 3, kSeedOps, kNoAttrs},
    {O::kRandGetState, "rand_get_state", kG | kV, 3, kRandGetStateOps, kNoAttrs},
    {O::kRand2, "rand2", kV, 4, kRand2Ops, kNoAttrs},
    {O::kCustomOp, "custom_op", kG, 2, kCustomOps, kCustomOpAttrs},
    {O::kRegisterLoad, "register_load", kControl, 2, kRegisterLoadOps, kNoAttrs},
    {O::kRegisterMove, "register_move", kControl, 2, kRegisterMoveOps, kNoAttrs},
    {O::kRegisterStore, "register_store", kControl, 2, kRegisterStoreOps, kNoAttrs},
    {O::kRegisterAlu, "register_alu", kControl, 2, kRegisterAluOps, kOpAttrs},
    {O::kLoopBegin, "loop_begin", kControl, 2, kLoopBeginOps, kLoopAttrs},
    {O::kLoopEnd, "loop_end", kControl, 2, kLoopEndOps, kLoopAttrs},
    {O::kWhileBegin, "while_begin", kControl, 2, kWhileOps, kMatchAttrs},
    {O::kWhileEnd, "while_end", kControl, 2, kWhileOps, kMatchAttrs},
    {O::kDevicePrint, "device_print", kControl, 1, kDevicePrintOps, kDevicePrintAttrs},
};
static_assert(std::size(kDefinitions) == kOpcodeCount);

constexpr bool table_is_in_opcode_order() {
  for (size_t i = 0; i < std::size(kDefinitions); ++i)
    if (kDefinitions[i].opcode != static_cast<Opcode>(i)) return false;
  return true;
}
static_assert(table_is_in_opcode_order());

constexpr std::array<std::string_view, kMemorySpaceCount> kSpaceNames = {"sbuf", "psum", "hbm", "private_hbm",
                                                                         "shared_hbm"};
constexpr std::array<std::string_view, kEngineCount> kEngineNames = {"unknown", "tensor", "scalar", "gpsimd",
                                                                     "dma",     "vector", "sync"};

template <typename T, size_t N>
std::optional<T> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<T>(i);
  return std::nullopt;
}

}  // namespace

const InstructionDefinition& definition(Opcode opcode) { return kDefinitions[static_cast<size_t>(opcode)]; }
std::span<const InstructionDefinition> definitions() { return kDefinitions; }

std::optional<Opcode> opcode_from_name(std::string_view name) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, Opcode>;
    for (const InstructionDefinition& row : kDefinitions) map->emplace(row.name, row.opcode);
    return map;
  }();
  const auto it = index->find(name);
  if (it == index->end()) return std::nullopt;
  return it->second;
}

std::string_view name(MemorySpace space) { return kSpaceNames[static_cast<size_t>(space)]; }
std::string_view name(Engine engine) { return kEngineNames[static_cast<size_t>(engine)]; }
std::optional<MemorySpace> memory_space_from_name(std::string_view name) {
  return find_name<MemorySpace>(kSpaceNames, name);
}
std::optional<Engine> engine_from_name(std::string_view name) {
  return find_name<Engine>(kEngineNames, name);
}

}  // namespace opentrn::isa
