#include "isa/constraints.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "isa/constraints_context.h"

namespace opentrn::isa {

namespace {

// The rules that all instructions share.
constexpr Constraint kShared[] = {
    {"isa.C1", "The instruction exists on this generation.",
     "nki.isa stub, notes 'Available only on'; architecture guides"},
    {"isa.C2", "The engine asked for is one that can run the instruction.",
     "nki.isa stub, 'Supported engines' and engine="},
    {"isa.C3", "Every operand is of a kind that its slot takes: tensor, number, register or nothing.",
     "nki.isa stub, signatures"},
    {"isa.C4", "Every tensor lies in a memory that its slot can reach.", "nki.isa stub, 'Memory types'"},
    {"isa.C5", "GpSimd cannot access PSUM.", "nki.isa.tensor_copy; trainium_inferentia2_arch.rst"},
    {"isa.C6", "An on-chip tile has at most 128 partitions.",
     "nki.isa stub, 'Tile size'; nki.language.tile_size.pmax"},
    {"isa.C7",
     "More than 64 partitions start on partition 0, 33 to 64 on 0 or 64, fewer on 0, 32, 64 or 96; a tensor "
     "that the compiler places begins on such a partition.",
     "trainium_inferentia2_arch.rst, start_partition"},
    {"isa.C8", "A row of a tensor is no longer than a partition of its memory.",
     "nki.isa stub, 'must not exceed the physical size of each SBUF partition'"},
    {"isa.C9", "int64, uint64 and float64 exist in HBM only.", "nki.api.shared.rst, supported data types"},
    {"isa.C10",
     ".indirect() needs NeuronCore-v4, a slot that takes it, and an index tile that starts on a "
     "multiple of 32 partitions.",
     "nki.isa stub, 'Tensor indirection'"},
    {"isa.C11", "An engine's access takes adjacent partitions: it does not step over some.",
     "trainium_inferentia2_arch.rst, 'hardware does not allow P dimension striding'"},
    {"isa.C12", "An engine's access has at most four dimensions within a partition.",
     "trainium_inferentia2_arch.rst; nki-aps.rst, 'Hardware Capability'"},
    {"isa.C13", "As ALU operators abs_max, abs_min, square and relu exist from NeuronCore-v4 on.",
     "release notes of 0.4, 'New Features': trn3 only, 'accepted as op0 on trn3'"},
};

using constraint::Check;
using constraint::kHostOnly;
using constraint::kTiles;
using constraint::limits;
using constraint::Tile;

constexpr int64_t kQuadrantPartitions = 32;  // trainium_inferentia2_arch.rst, start_partition
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
  if (!c.can.tile_indirection)
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
  if (c.can.alu_absolute_and_relu) return;
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
                  fmt::format("it exists from {} on", name(definition.first_generation)),
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

}  // namespace

std::span<const Constraint> constraints() {
  static const auto* const all = [] {
    auto* rules = new std::vector<Constraint>(std::begin(kShared), std::end(kShared));
    for (const InstructionDefinition& row : definitions())
      rules->insert(rules->end(), row.constraints.begin(), row.constraints.end());
    return rules;
  }();
  return *all;
}

void check(const Program& program, const Instruction& instruction, Generation generation, bool moves_rows) {
  Check c(program, instruction, generation, moves_rows);
  check_shared(c);
  check_operators(c);
  if (c.definition.check) c.definition.check(c);
}

}  // namespace opentrn::isa
