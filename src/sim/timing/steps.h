// A core's schedule, read once: what the run looks up at every instruction, in 16 bytes for each.
//
// What an instruction costs follows from its kind (isa/kinds.h) and its engine, and of a transfer from the
// partitions that it touches, too. Costs are asked for once for all that have these in common, the first time
// that one of them is at hand.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/large_pages.h"
#include "isa/executable.h"
#include "isa/kinds.h"
#include "sim/timing/dma_engines.h"
#include "sim/timing/machine.h"

namespace opentrn::sim::timing {

// An engine's place in tables of engines.
constexpr size_t index(isa::Engine engine) { return static_cast<size_t>(engine); }

// Of all instructions that cost the same.
struct StepKind {
  InstructionCost cost;                  // not of DMA
  bool known = false;                    // the cost was asked for
  bool control = false, marker = false;  // of a loop
  bool dma = false;
  bool on_array = false;      // a product or a transpose of the Tensor engine
  bool synchronises = false;  // cores wait for each other
  // Its start depends on when other engines use a port, or theirs on when it does.
  bool shares_vector_gpsimd = false, shares_vector_scalar = false;
  bool shares_nothing = false;  // neither that nor DMA engines nor a meeting of cores
  int table = -1;               // the function whose table it needs, if any
  // DMA only.
  isa::Engine trigger = isa::Engine::kUnknown;
  isa::DgeMode dge = isa::DgeMode::kNone;
  int queue = 0;
  bool transfer_known = false;
  DmaWork transfer;
};

// By schedule index.
struct Step {
  uint32_t kind;
  uint32_t waits;  // first of wait_count entries in Executable::waits
  uint32_t wait_count;
  uint32_t next;  // schedule index of the next on its issuing engine, in the block; or kNobody
};

class Steps {
 public:
  Steps(const isa::Executable& executable, const Machine& machine);
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  const Step& operator[](uint32_t at) const { return steps_[at]; }
  // kNotModelled where the table has no cost for it.
  const StepKind& kind(uint32_t at) {
    StepKind& kind = kinds_[steps_[at].kind];
    if (!kind.known) [[unlikely]]
      find_cost(at, kind);
    return kind;
  }
  // kNotModelled where the table has no rate for it.
  const DmaWork& transfer(uint32_t at) {
    StepKind& kind = kinds_[steps_[at].kind];
    if (!kind.transfer_known) [[unlikely]]
      find_transfer(at, kind);
    return kind.transfer;
  }
  // The engine that does the work, and the one whose queue it is in.
  isa::Engine engine(uint32_t at) const { return static_cast<isa::Engine>(engines_[at] & 0xF); }
  isa::Engine issuer(uint32_t at) const { return static_cast<isa::Engine>(engines_[at] >> 4); }
  // Schedule indices of loop markers, and of all control instructions.
  const std::vector<uint32_t>& markers() const { return markers_; }
  std::span<const uint32_t> controls(uint32_t begin, uint32_t end) const;
  // The first of each engine's queue in the block between two markers that begins at `begin`.
  const std::array<uint32_t, isa::kEngineCount>& first_of_block(uint32_t begin) const;
  // Whether all transfers of that block are in the queue of one engine.
  bool one_engine_starts_transfers(uint32_t begin) const {
    return std::popcount(starting_transfers_[block_of(begin)]) <= 1;
  }
  size_t transfer_count() const { return transfer_count_; }
  const std::vector<PatternFacts>& patterns() const { return patterns_; }

 private:
  void read(uint32_t at, std::array<uint32_t, isa::kEngineCount>& last);
  uint32_t kind_of(const isa::ScheduledInstruction& entry);
  uint32_t kind_of_transfer(const isa::ScheduledInstruction& entry);
  void fetch_ahead(uint32_t at) const;
  struct RowsOperand {
    int slot = -1;
    int64_t elements = 1;
  };
  void find_rows_operands(uint32_t kind);
  uint64_t row_of(const RowsOperand& of, const isa::Operand* operands) const;
  uint32_t look_up_transfer(uint32_t kind, uint64_t how, const isa::Operand* operands);
  void find_cost(uint32_t at, StepKind& kind) const;
  void find_transfer(uint32_t at, StepKind& kind) const;

  const isa::Executable& executable_;
  const isa::Program& program_;
  const Machine& machine_;
  std::vector<PatternFacts> patterns_;
  LargeVector<Step> steps_;
  LargeVector<uint8_t> engines_;  // by schedule index: the engine, and 16 times the issuing one
  std::vector<uint32_t> markers_, controls_;
  size_t block_of(uint32_t begin) const;
  std::vector<std::array<uint32_t, isa::kEngineCount>> first_;  // by block
  std::vector<uint32_t> starting_transfers_;                    // by block: bits of engines
  std::vector<StepKind> kinds_;
  std::shared_ptr<const isa::Kinds> program_kinds_;
  // By kind of the program and engine; kNobody: not yet met.
  std::vector<std::array<uint32_t, isa::kEngineCount>> compute_;
  // Of a kind of the program that is a transfer: its last one.
  struct TransfersOfKind {
    uint64_t how = UINT64_MAX, row = 0;  // its queue and descriptors, and where it begins
    RowsOperand only;                    // where there is one with partitions
    uint32_t last = 0;                   // its kind
    bool known = false;
    std::vector<RowsOperand> with_rows;
  };
  std::vector<TransfersOfKind> transfers_of_kind_;
  std::vector<int32_t> partitions_;  // by tensor: the first
  isa::KeyTable transfers_;
  size_t transfer_count_ = 0;
  std::vector<uint32_t> of_transfer_;  // by number in transfers_
};

}  // namespace opentrn::sim::timing
