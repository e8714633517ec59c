#include "sim/functional/run_memory.h"

#include <algorithm>

namespace opentrn::sim {

void RunMemory::begin(RunConditions conditions) {
  placed_.clear();
  if (conditions == conditions_) return;
  conditions_ = std::move(conditions);
  plans_.clear();
  instructions_ = 0;
  releases.reset();
  const auto alone = [&](isa::TensorId id) { return std::ranges::binary_search(conditions_.merged, id); };
  const auto bound = [&](isa::TensorId id) { return std::ranges::binary_search(conditions_.bound, id); };
  placements_ = find_placements(*conditions_.program, alone);
  std::erase_if(placements_, [&](const Placement& place) { return bound(place.tile); });
}

const Placement* RunMemory::placement(isa::TensorId tile) const {
  const auto found = std::ranges::lower_bound(placements_, tile, {}, &Placement::tile);
  return found != placements_.end() && found->tile == tile ? &*found : nullptr;
}

void RunMemory::set_placed(isa::TensorId tile, bool placed) {
  if (tile >= placed_.size()) placed_.resize(tile + size_t{1});
  placed_[tile] = placed;
}

const BasicBlockPlan* RunMemory::find(isa::InstructionIndex begin,
                                      const BasicBlock::Foldable& foldable) const {
  const auto found = plans_.find(begin);
  if (found == plans_.end()) return nullptr;
  for (const Chain& chain : found->second.chains())
    for (const FoldedTile& tile : chain.folded)
      if (!foldable(tile.tensor, chain.end)) return nullptr;
  return &found->second;
}

const BasicBlockPlan* RunMemory::keep(BasicBlockPlan& plan, bool runs) {
  const size_t size = plan.end() - plan.begin();
  if (instructions_ + size > kInstructionsMax) return nullptr;
  instructions_ += size;
  if (!runs) plan.forget_tasks();
  BasicBlockPlan& kept = plans_[plan.begin()];
  instructions_ -= kept.end() - kept.begin();
  kept = std::move(plan);
  return &kept;
}

}  // namespace opentrn::sim
