#include "sim/timing/steps.h"

#include <algorithm>

#include "base/interrupt.h"

namespace opentrn::sim::timing {

using isa::Engine;
using isa::Opcode;

// What is looked at of a transfer is one miss behind the other: they are fetched for transfers ever nearer.
// Of others nothing is, but without a branch, which nobody could foretell in a stream of transfers.
[[gnu::always_inline]] inline void Steps::fetch_ahead(uint32_t at) const {
  constexpr size_t kInstruction = 24, kOperands = 12;
  const std::vector<isa::ScheduledInstruction>& schedule = executable_.schedule;
  if (at + kInstruction >= schedule.size()) return;
  const auto fetch = [&](size_t ahead, const void* of_transfer) {
    __builtin_prefetch(schedule[at + ahead].engine == Engine::kDma ? of_transfer : &schedule[at]);
  };
  const auto instruction = [&](size_t ahead) {
    return &program_.instruction(schedule[at + ahead].instruction);
  };
  fetch(kInstruction, instruction(kInstruction));
  const isa::Operand* operands = program_.operands(*instruction(kOperands)).data();
  fetch(kOperands, operands);
  fetch(kOperands, operands + 2);  // the first two may lie in two lines of the cache
}

// The operands of a kind that have partitions, and how many elements of theirs a partition holds.
void Steps::find_rows_operands(uint32_t kind) {
  TransfersOfKind& found = transfers_of_kind_[kind];
  found.known = true;
  const isa::Instruction& in = program_.instruction(program_kinds_->first(kind));
  for (int slot = 0; slot < in.operand_count; ++slot) {
    const isa::Operand& operand = program_.operand(in, slot);
    if (!operand.is_access()) continue;
    const isa::Tensor& tensor = program_.tensor(operand.tensor);
    if (!isa::is_on_chip(tensor.space)) continue;
    const bool as_declared = operand.dtype == tensor.dtype;
    const int64_t elements =
        as_declared ? tensor.row_elements : tensor.row_bytes() / size_bytes(operand.dtype);
    found.with_rows.push_back({slot, std::max<int64_t>(1, elements)});
  }
  if (found.with_rows.size() == 1) found.only = found.with_rows[0];
}

uint64_t Steps::row_of(const RowsOperand& of, const isa::Operand* operands) const {
  const isa::Operand& operand = operands[of.slot];
  const int64_t row = operand.offset == 0 ? 0 : operand.offset / of.elements;
  return static_cast<uint64_t>(partitions_[operand.tensor] + row);
}

// What a transfer costs depends on the partitions it touches.
[[gnu::always_inline]] inline uint32_t Steps::kind_of_transfer(const isa::ScheduledInstruction& entry) {
  ++transfer_count_;
  const uint32_t kind = program_kinds_->of(entry.instruction);
  TransfersOfKind& of_kind = transfers_of_kind_[kind];
  const uint64_t how = entry.stream | static_cast<uint64_t>(entry.dge) << 16 | index(entry.trigger) << 24;
  const isa::Operand* operands = program_.operands(program_.instruction(entry.instruction)).data();
  // Most are like the last of their kind.
  if (of_kind.only.slot >= 0 && of_kind.how == how && of_kind.row == row_of(of_kind.only, operands))
      [[likely]]
    return of_kind.last;
  return look_up_transfer(kind, how, operands);
}

uint32_t Steps::look_up_transfer(uint32_t kind, uint64_t how, const isa::Operand* operands) {
  TransfersOfKind& of_kind = transfers_of_kind_[kind];
  if (!of_kind.known) find_rows_operands(kind);
  transfers_.begin();
  transfers_.add(kind | how << 32);
  for (const RowsOperand& of : of_kind.with_rows) transfers_.add(row_of(of, operands));
  bool fresh = false;
  const uint32_t number = transfers_.number(&fresh);
  if (fresh) {
    of_transfer_.push_back(static_cast<uint32_t>(kinds_.size()));
    kinds_.emplace_back();
  }
  of_kind.how = how;
  if (of_kind.only.slot >= 0) of_kind.row = row_of(of_kind.only, operands);
  return of_kind.last = of_transfer_[number];
}

[[gnu::always_inline]] inline uint32_t Steps::kind_of(const isa::ScheduledInstruction& entry) {
  uint32_t& kind = compute_[program_kinds_->of(entry.instruction)][index(entry.engine)];
  if (kind == kNobody) [[unlikely]] {
    const isa::Opcode opcode = program_.instruction(entry.instruction).opcode;
    kind = static_cast<uint32_t>(kinds_.size());
    StepKind& made = kinds_.emplace_back();
    made.control = isa::is_control(opcode);
    made.marker = isa::is_loop_marker(opcode);
  }
  return kind;
}

[[gnu::always_inline]] inline void Steps::read(uint32_t at, std::array<uint32_t, isa::kEngineCount>& last) {
  const isa::ScheduledInstruction& entry = executable_.schedule[at];
  const Engine issuer = entry.engine == Engine::kDma ? entry.trigger : entry.engine;
  const uint32_t kind = entry.engine == Engine::kDma ? kind_of_transfer(entry) : kind_of(entry);
  steps_[at] = {kind, entry.waits, entry.wait_count, kNobody};
  engines_[at] = static_cast<uint8_t>(index(entry.engine) | index(issuer) << 4);
  if (kinds_[kind].control) [[unlikely]]
    controls_.push_back(at);
  if (kinds_[kind].marker) [[unlikely]] {
    markers_.push_back(at);
    last.fill(kNobody);
    first_.emplace_back().fill(kNobody);
    starting_transfers_.push_back(0);
    return;
  }
  starting_transfers_.back() |= static_cast<uint32_t>(entry.engine == Engine::kDma) << index(issuer);
  uint32_t& before = last[index(issuer)];
  (before == kNobody ? first_.back()[index(issuer)] : steps_[before].next) = at;
  before = at;
}

Steps::Steps(const isa::Executable& executable, const Machine& machine)
    : executable_(executable),
      program_(*executable.program),
      machine_(machine),
      patterns_(all_pattern_facts(program_)),
      program_kinds_(executable.kinds != nullptr ? executable.kinds : std::make_shared<isa::Kinds>(program_)),
      compute_(program_kinds_->count()),
      transfers_of_kind_(program_kinds_->count()) {
  for (auto& engines : compute_) engines.fill(kNobody);
  for (const isa::Placement& placement : executable.placements)
    partitions_.push_back(placement.address.partition);
  const auto size = static_cast<uint32_t>(executable.schedule.size());
  steps_.resize(size);
  engines_.resize(size);
  std::array<uint32_t, isa::kEngineCount> last;
  last.fill(kNobody);
  first_.emplace_back().fill(kNobody);
  starting_transfers_.push_back(0);
  for (uint32_t at = 0; at < size; ++at) {
    interrupt::poll();
    fetch_ahead(at);
    read(at, last);
  }
}

void Steps::find_cost(uint32_t at, StepKind& kind) const {
  const isa::ScheduledInstruction& entry = executable_.schedule[at];
  const isa::Instruction& in = program_.instruction(entry.instruction);
  kind.synchronises = isa::has(in.opcode, isa::kSynchronisesCores);
  if (entry.engine == Engine::kDma) {
    kind.dma = true;
    kind.trigger = entry.trigger;
    kind.dge = entry.dge;
    kind.queue = executable_.streams[entry.stream].queue;
    kind.known = true;
    return;
  }
  kind.cost = machine_.costs.of(program_, in, entry.engine, patterns_);
  kind.on_array =
      entry.engine == Engine::kTensor && (isa::is_matmul(in.opcode) || in.opcode == Opcode::kNcTranspose);
  if (in.opcode == Opcode::kActivation || in.opcode == Opcode::kActivationReduce ||
      in.opcode == Opcode::kActivate2) {
    const auto function = program_.attribute_activation(in, isa::slot::activation::kAOp);
    if (machine_.needs_table(function)) kind.table = static_cast<int>(function);
  }
  const bool on_bus = machine_.vector_gpsimd_share_sbuf || kind.cost.fast_mode;
  kind.shares_vector_gpsimd =
      kind.cost.uses_sbuf && (entry.engine == Engine::kGpSimd || (entry.engine == Engine::kVector && on_bus));
  kind.shares_vector_scalar = kind.cost.uses_psum && machine_.vector_scalar_share_psum &&
                              (entry.engine == Engine::kVector || entry.engine == Engine::kScalar);
  kind.shares_nothing = !kind.synchronises && !kind.shares_vector_gpsimd && !kind.shares_vector_scalar;
  kind.known = true;
}

void Steps::find_transfer(uint32_t at, StepKind& kind) const {
  const isa::Instruction& in = program_.instruction(executable_.schedule[at].instruction);
  kind.transfer = machine_.costs.of_transfer(program_, in, executable_.placements, patterns_);
  kind.transfer_known = true;
}

std::span<const uint32_t> Steps::controls(uint32_t begin, uint32_t end) const {
  const auto from = std::ranges::lower_bound(controls_, begin);
  return {from, std::lower_bound(from, controls_.end(), end)};
}

const std::array<uint32_t, isa::kEngineCount>& Steps::first_of_block(uint32_t begin) const {
  return first_[block_of(begin)];
}

size_t Steps::block_of(uint32_t begin) const {
  return static_cast<size_t>(std::ranges::lower_bound(markers_, begin) - markers_.begin());
}

}  // namespace opentrn::sim::timing
