// RunMemory: what the runs of one program leave for the next.
//
// What an instruction touches, which instructions may run at the same time and which go band by band is the
// same in every run of a program under the same conditions, and a model runs thousands of times. A Core that
// is given a RunMemory reads each block once; later runs find the plan. Values do not depend on it: a plan
// that does not fit what is so at this point of this run is read anew.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/program.h"
#include "sim/functional/basic_block.h"
#include "sim/functional/placement.h"

namespace opentrn::sim {

// Beside the program itself, all that plans depend on.
struct RunConditions {
  const isa::Program* program = nullptr;  // lives as long as the memory is used
  size_t instructions = 0;
  std::vector<isa::TensorId> bound;   // ascending
  std::vector<isa::TensorId> merged;  // as BasicBlock::merge() takes them
  bool chains = true;
  int threads = 1;
  SharingLimits sharing;

  bool operator==(const RunConditions&) const = default;
};

// Not thread-safe: one run at a time.
class RunMemory {
 public:
  using Releases = std::vector<std::pair<isa::InstructionIndex, isa::TensorId>>;

  // A run begins: forgets everything if its conditions are others than those of the run before.
  void begin(RunConditions conditions);
  // The plan of the block that begins there; null if there is none, or if it gives a tensor memory for a
  // few rows that needs whole memory in this run.
  const BasicBlockPlan* find(isa::InstructionIndex begin, const BasicBlock::Foldable& foldable) const;
  // Keeps a plan, until one of the same block is kept, and gives it back; null when there is no room: it is
  // the caller's then. `runs`: whether its tasks will be wanted.
  const BasicBlockPlan* keep(BasicBlockPlan& plan, bool runs);

  size_t plans() const { return plans_.size(); }

  // Where a tile lies in another tensor; null when it has memory of its own.
  const Placement* placement(isa::TensorId tile) const;
  const std::vector<Placement>& placements() const { return placements_; }
  // Whether it was given that place in this run, and not its own memory.
  void set_placed(isa::TensorId tile, bool placed);
  bool is_placed(isa::TensorId tile) const { return tile < placed_.size() && placed_[tile]; }

  // Of a whole run, by instruction.
  std::optional<Releases> releases;

 private:
  // Instructions of all plans together; one takes about 100 bytes.
  static constexpr size_t kInstructionsMax = size_t{1} << 18;

  RunConditions conditions_;
  std::unordered_map<isa::InstructionIndex, BasicBlockPlan> plans_;
  std::vector<Placement> placements_;  // by tile
  std::vector<bool> placed_;           // by TensorId
  size_t instructions_ = 0;
};

}  // namespace opentrn::sim
