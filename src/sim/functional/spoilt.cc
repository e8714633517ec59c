#include "sim/functional/spoilt.h"

#include <algorithm>

#include "sim/functional/access.h"
#include "sim/functional/context.h"
#include "sim/functional/unwritten.h"

namespace opentrn::sim {

namespace {

using isa::Mixing;

// What an element of the result depends on.
Mixing mixing(const Context& cx) {
  for (const isa::Operand& operand : cx.program.operands(cx.in))
    if (operand.indirect != isa::kNoIndirect) return Mixing::kLanes;
  return isa::mixing(cx.program, cx.in);
}

}  // namespace

bool Spoilt::note(const Context& cx, const View& source, int slot) {
  const Mixing mixes = mixing(cx);
  const auto lanes = static_cast<size_t>(source.partitions);
  if (mixes == Mixing::kLanes || source.table != nullptr || (any() && lanes_.size() != lanes)) return false;
  std::vector<bool> unwritten;
  cx.list_unwritten(source, unwritten);
  const auto width = static_cast<size_t>(source.elements);
  std::vector<bool> bad(lanes);
  for (size_t i = 0; i < unwritten.size(); ++i)
    if (unwritten[i]) bad[i / width] = true;
  const auto& all_of = mixes == Mixing::kNone ? unwritten : bad;
  if (std::ranges::find(all_of, false) == all_of.end()) return false;
  const bool element_wise =
      mixes == Mixing::kNone && width > 1 && (!any() || elements_per_lane_ == source.elements);
  slot_ = slot;
  elements_per_lane_ = element_wise ? source.elements : 0;
  if (!any()) {
    lanes_ = std::move(bad);
    if (element_wise) elements_ = std::move(unwritten);
    return true;
  }
  for (size_t lane = 0; lane < lanes; ++lane) lanes_[lane] = lanes_[lane] || bad[lane];
  if (!element_wise) elements_.clear();
  for (size_t i = 0; i < elements_.size(); ++i) elements_[i] = elements_[i] || unwritten[i];
  return true;
}

void Spoilt::spoil(Context& cx, const View& destination) const {
  const bool one_by_one = !elements_.empty() && destination.elements == elements_per_lane_;
  for (int64_t lane = 0; lane < destination.partitions; ++lane) {
    // A result of other lanes than the source's is not expected; all of it is spoilt then.
    const bool known = static_cast<size_t>(destination.partitions) == lanes_.size();
    if (known && !lanes_[static_cast<size_t>(lane)]) continue;
    const View row = destination.part(lane, lane + 1);
    if (!known || !one_by_one) {
      leave_unwritten(cx, row, slot_);
      continue;
    }
    const size_t first = static_cast<size_t>(lane * elements_per_lane_);
    leave_unwritten(cx, row, slot_,
                    [&](int64_t element) { return elements_[first + static_cast<size_t>(element)]; });
  }
}

}  // namespace opentrn::sim
