#include "isa/constraints.h"

#include <algorithm>

#include "isa/constraints_context.h"

namespace opentrn::isa {

namespace {

using constraint::Check;
using constraint::kHostOnly;
using constraint::kTiles;
using constraint::limits;
using constraint::Tile;

constexpr int64_t kQuadrantPartitions = 32;  // trainium_inferentia2_arch.rst, start_partition
constexpr int kOperatorsOfV4 = 4;            // release notes of NKI 0.4, 'New Features'
constexpr int kFreeDimensions = 4;           // of an access, within a partition; nki-aps.rst

std::string space_names(SpaceMask spaces) {
  std::string text;
  for (int i = 0; i < kMemorySpaceCount; ++i)
    if (spaces & (1u << i))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", name(static_cast<MemorySpace>(i)));
  return text;
}

std::string engine_names(EngineMask engines) {
  std::string text;
  for (int i = 0; i < kEngineCount; ++i)
    if (engines & (1u << i))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", name(static_cast<Engine>(i)));
  return text;
}

uint8_t acceptance(OperandKind kind) {
  switch (kind) {
    case OperandKind::kNone: return kAcceptsNone;
    case OperandKind::kAccess: return kAcceptsAccess;
    case OperandKind::kImmediate: return kAcceptsImmediate;
    case OperandKind::kRegister: return kAcceptsRegister;
  }
  return 0;
}

bool start_partition_allowed(int64_t start, int64_t partitions) {
  if (partitions > 2 * kQuadrantPartitions) return start == 0;
  if (partitions > kQuadrantPartitions) return start % (2 * kQuadrantPartitions) == 0;
  return start % kQuadrantPartitions == 0;
}

// Elements of the access's type from one partition of its tensor to the next.
int64_t row_elements(const Tile& tile) { return tile.tensor->row_bytes() / size_bytes(tile.dtype()); }

// The partition on which an access starts. Where the compiler places the tensor: counted from the tensor's
// own first partition, which lies on a multiple of 32, and of 64 where the tensor has over 32 partitions.
int64_t start_partition(const Tile& tile) {
  const int64_t first = tile.tensor->address ? tile.tensor->address->partition : 0;
  const int64_t row = row_elements(tile);
  return first + (row > 0 ? tile.operand->offset / row : 0);
}

void check_start_partition(const Check& c, int slot, const Tile& tile) {
  if (tile.operand->indirect != kNoIndirect) return;  // where it starts is known when it runs
  const int64_t start = start_partition(tile);
  if (start_partition_allowed(start, tile.partitions)) [[likely]]
    return;
  c.fail_shared(7, FaultKind::kProgram,
                fmt::format("{} starts on partition {} and has {} partitions; {}", c.slot_name(slot), start,
                            tile.partitions,
                            tile.partitions > 64   ? "with more than 64 it must start on 0"
                            : tile.partitions > 32 ? "with 33 to 64 it must start on 0 or 64"
                                                   : "it must start on 0, 32, 64 or 96"),
                tile.tensor->address
                    ? "place the tensor on an allowed partition, or let the compiler place it"
                    : "move the rows to an allowed partition with dma_copy first");
}

void check_partition_step(const Check& c, int slot, const Tile& tile) {
  const Dim& rows = tile.pattern->dims[0];
  if (rows.count <= 1 || rows.step == row_elements(tile)) [[likely]]
    return;
  c.fail_shared(11, FaultKind::kProgram,
                fmt::format("{} steps over its partitions by {} elements where a partition holds {}",
                            c.slot_name(slot), rows.step, row_elements(tile)),
                "move the rows together with dma_copy, or by a product with a selection matrix");
}

// The free dimensions that the hardware has to walk: those of one element fall away, neighbours that continue
// each other are one.
int free_dimensions(const Pattern& pattern) {
  int count = 0;
  const Dim* outer = nullptr;
  for (const Dim& dim : pattern.view().subspan(pattern.rank > 0 ? 1 : 0)) {
    if (dim.count == 1) continue;
    if (!outer || outer->step != dim.step * dim.count) ++count;
    outer = &dim;
  }
  return count;
}

void check_free_dimensions(const Check& c, int slot, const Tile& tile) {
  if (tile.pattern->rank <= 1 + kFreeDimensions) [[likely]]
    return;
  const int count = free_dimensions(*tile.pattern);
  if (count > kFreeDimensions)
    c.fail_shared(12, FaultKind::kProgram,
                  fmt::format("{} walks {} dimensions within a partition; {} are possible", c.slot_name(slot),
                              count, kFreeDimensions),
                  "issue one instruction for every index of the outermost dimension");
}

void check_tensor_indirection(const Check& c, int slot, const Tile& tile, uint8_t accepts) {
  const Indirect& indirect = c.program.indirect(*tile.operand);
  if (indirect.kind != IndirectKind::kTensor) return;
  if (c.generation < 4)
    c.fail_shared(10, FaultKind::kProgram,
                  fmt::format("{} uses .indirect(), which needs NeuronCore-v4 or newer", c.slot_name(slot)),
                  "gather with nc_n_gather or local_gather, or target trn3");
  if (!(accepts & kAcceptsIndirect))
    c.fail_shared(10, FaultKind::kProgram, fmt::format("{} does not take .indirect()", c.slot_name(slot)),
                  "gather into a tile with tensor_copy first");
  if (!indirect.index.is_access()) return;
  const Tile index = c.resolve(indirect.index);
  if (index.tensor->address && start_partition(index) % kQuadrantPartitions != 0)
    c.fail_shared(10, FaultKind::kProgram,
                  fmt::format("the index of {} starts on partition {}; it must be a multiple of {}",
                              c.slot_name(slot), start_partition(index), kQuadrantPartitions));
}

void check_memory(const Check& c, int slot, const Tile& tile) {
  const constraint::Limits& max = limits(c.generation);
  if (tile.partitions > max.partitions) [[unlikely]]
    c.fail_shared(6, FaultKind::kProgram,
                  fmt::format("{} has {} partitions; at most {} are possible", c.slot_name(slot),
                              tile.partitions, max.partitions),
                  "tile dimension 0 by nl.tile_size.pmax");
  const int64_t bytes = tile.in_psum() ? max.psum_bytes_per_partition : max.sbuf_bytes_per_partition;
  if (tile.tensor->row_bytes() > bytes) [[unlikely]]
    c.fail_shared(8, FaultKind::kCapacity,
                  fmt::format("{} lies in a tensor of {} bytes per partition; a partition of {} has {}",
                              c.slot_name(slot), tile.tensor->row_bytes(), name(tile.space()), bytes),
                  "tile the free dimension");
  if (kHostOnly.has(tile.dtype())) [[unlikely]]
    c.fail_shared(
        9, FaultKind::kProgram,
        fmt::format("{} is {}, which no engine computes with", c.slot_name(slot), name(tile.dtype())),
        "use a 32-bit type");
}

void check_operand(Check& c, int slot, const OperandSlot& rule) {
  const Operand& operand = c.operand(slot);
  if (!(rule.accepts & acceptance(operand.kind))) [[unlikely]]
    c.fail_shared(3, FaultKind::kProgram,
                  fmt::format("{} cannot be {}", rule.name,
                              operand.kind == OperandKind::kNone        ? "left out"
                              : operand.kind == OperandKind::kAccess    ? "a tensor"
                              : operand.kind == OperandKind::kImmediate ? "a number"
                                                                        : "a register"));
  if (!operand.is_access()) return;
  const Tile tile = c.resolve(operand);
  if (slot < kTiles) c.tiles[static_cast<size_t>(slot)] = tile;
  if (!(rule.spaces & mask(tile.space()))) [[unlikely]]
    c.fail_shared(
        4, FaultKind::kProgram,
        fmt::format("{} is in {}; it must be in {}", rule.name, name(tile.space()), space_names(rule.spaces)),
        is_hbm(tile.space()) ? "load it with dma_copy first" : "copy it with tensor_copy first");
  if (operand.indirect != kNoIndirect) [[unlikely]]
    check_tensor_indirection(c, slot, tile, rule.accepts);
  if (!is_on_chip(tile.space())) return;
  check_memory(c, slot, tile);
  if (is_dma(c.in.opcode)) return;
  if (tile.in_psum() && c.in.engine == Engine::kGpSimd && c.in.opcode != Opcode::kCustomOp) [[unlikely]]
    c.fail_shared(5, FaultKind::kProgram,
                  fmt::format("{} is in PSUM, which the GpSimd engine cannot access", rule.name),
                  "use another engine, or copy to SBUF first");
  if (c.definition.engines == 0) return;
  if (tile.tensor->address || !c.moves_rows) {
    check_start_partition(c, slot, tile);
    check_partition_step(c, slot, tile);
  }
  check_free_dimensions(c, slot, tile);
}

bool is_operator_of_v4(AluOp op) {
  return op == AluOp::kAbsMax || op == AluOp::kAbsMin || op == AluOp::kSquare || op == AluOp::kRelu;
}

void check_operators(const Check& c) {
  if (c.generation >= kOperatorsOfV4) return;
  const auto attributes = c.definition.attributes;
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (attributes[i].kind != AttributeKind::kAluOp && attributes[i].kind != AttributeKind::kOptionalAluOp)
      continue;
    const auto op = static_cast<AluOp>(c.integer(static_cast<int>(i)));
    if (is_operator_of_v4(op)) [[unlikely]]
      c.fail_shared(13, FaultKind::kProgram,
                    fmt::format("{} is {}, which exists from NeuronCore-v4 on", attributes[i].name, name(op)),
                    op == AluOp::kSquare || op == AluOp::kRelu
                        ? "use activation, or tensor_tensor of the tile with itself, or target trn3"
                        : "take the absolute values first, or target trn3");
  }
}

void check_shared(Check& c) {
  const InstructionDefinition& definition = c.definition;
  if (c.generation < definition.first_generation) [[unlikely]]
    c.fail_shared(1, FaultKind::kProgram,
                  fmt::format("it exists from NeuronCore-v{} on", definition.first_generation),
                  "choose a newer target");
  if (c.in.engine != Engine::kUnknown && !(definition.engines & mask(c.in.engine)) && definition.engines != 0)
      [[unlikely]]
    c.fail_shared(2, FaultKind::kProgram,
                  fmt::format("the {} engine cannot run it; {} can", name(c.in.engine),
                              engine_names(definition.engines)),
                  "leave engine unknown");
  const size_t slots = definition.operands.size();
  const bool repeats = slots > 0 && (definition.operands.back().accepts & kRepeats);
  if (repeats ? c.in.operand_count < slots : c.in.operand_count != slots) [[unlikely]]
    c.fail_shared(
        3, FaultKind::kProgram,
        fmt::format("{} operands; it takes {}{}", c.in.operand_count, repeats ? "at least " : "", slots));
  for (int i = 0; i < c.in.operand_count; ++i)
    check_operand(c, i, definition.operands[std::min(static_cast<size_t>(i), slots - 1)]);
}

void check_own(const Check& c) {
  using namespace constraint;
  switch (c.in.opcode) {
    case Opcode::kDmaCopy: return check_dma_copy(c);
    case Opcode::kDmaTranspose: return check_dma_transpose(c);
    case Opcode::kDmaCompute: return check_dma_compute(c);
    case Opcode::kTensorCopy: return check_tensor_copy(c);
    case Opcode::kMemset: return check_memset(c);
    case Opcode::kTensorCopyPredicated: return check_tensor_copy_predicated(c);
    case Opcode::kNcTranspose: return check_nc_transpose(c);
    case Opcode::kNcStreamShuffle: return check_nc_stream_shuffle(c);
    case Opcode::kLocalGather: return check_local_gather(c);
    case Opcode::kNcNGather: return check_nc_n_gather(c);
    case Opcode::kSendRecv: return check_sendrecv(c);
    case Opcode::kCoreBarrier: return check_core_barrier(c);
    case Opcode::kNcMatmul: return check_nc_matmul(c);
    case Opcode::kNcMatmulMx: return check_nc_matmul_mx(c);
    case Opcode::kNcMatmulSparse: return check_nc_matmul_sparse(c);
    case Opcode::kTensorTensor: return check_tensor_tensor(c);
    case Opcode::kTensorScalar: return check_tensor_scalar(c);
    case Opcode::kScalarTensorTensor: return check_scalar_tensor_tensor(c);
    case Opcode::kTensorReduce: return check_tensor_reduce(c);
    case Opcode::kTensorScalarReduce: return check_tensor_scalar_reduce(c);
    case Opcode::kTensorScalarCumulative: return check_tensor_scalar_cumulative(c);
    case Opcode::kTensorTensorScan: return check_tensor_tensor_scan(c);
    case Opcode::kTensorPartitionReduce: return check_tensor_partition_reduce(c);
    case Opcode::kActivation:
    case Opcode::kActivationReduce: return check_activation(c);
    case Opcode::kActivate2: return check_activate2(c);
    case Opcode::kExponential: return check_exponential(c);
    case Opcode::kReciprocal: return check_reciprocal(c);
    case Opcode::kSelectReduce: return check_select_reduce(c);
    case Opcode::kRangeSelect: return check_range_select(c);
    case Opcode::kAffineSelect: return check_affine_select(c);
    case Opcode::kIota: return check_iota(c);
    case Opcode::kBnStats: return check_bn_stats(c);
    case Opcode::kBnAggr: return check_bn_aggr(c);
    case Opcode::kMax8: return check_max8(c);
    case Opcode::kNcFindIndex8: return check_nc_find_index8(c);
    case Opcode::kNcMatchReplace8: return check_nc_match_replace8(c);
    case Opcode::kSequenceBounds: return check_sequence_bounds(c);
    case Opcode::kNonzeroWithCount: return check_nonzero_with_count(c);
    case Opcode::kTopk: return check_topk(c);
    case Opcode::kQuantizeMx: return check_quantize_mx(c);
    case Opcode::kDropout: return check_dropout(c);
    case Opcode::kRng: return check_rng(c);
    case Opcode::kSetRngSeed: return check_set_rng_seed(c);
    case Opcode::kRandSetState: return check_rand_set_state(c);
    case Opcode::kRandGetState: return check_rand_get_state(c);
    case Opcode::kRand2: return check_rand2(c);
    case Opcode::kRegisterLoad: return check_register_load(c);
    case Opcode::kRegisterStore: return check_register_store(c);
    case Opcode::kLoopBegin:
    case Opcode::kLoopEnd: return check_loop(c);
    // Nothing beyond the shared rules: the author of a custom operator checks its operands.
    case Opcode::kCustomOp:
    case Opcode::kRegisterMove:
    case Opcode::kRegisterAlu:
    case Opcode::kWhileBegin:
    case Opcode::kWhileEnd:
    case Opcode::kDevicePrint: return;
  }
}

}  // namespace

void check(const Program& program, const Instruction& instruction, int generation, bool moves_rows) {
  Check c(program, instruction, generation, moves_rows);
  check_shared(c);
  check_operators(c);
  check_own(c);
}

}  // namespace opentrn::isa
