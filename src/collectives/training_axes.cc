#include "collectives/training_axes.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/interrupt.h"

namespace opentrn::collectives {

namespace {

[[noreturn]] void refuse_axes(const std::string& what, const std::string& hint) {
  throw Fault(FaultKind::kInput, "fabric.job", what, hint);
}

struct Steps {
  int size = 1, stride = 1;
};

// Of so many ranks, those that differ in the places of these axes only, the first axis fastest.
std::vector<std::vector<int>> groups_of(int ranks, const std::vector<Steps>& axes) {
  std::vector<std::vector<int>> groups;
  for (int first = 0; first < ranks; ++first) {
    interrupt::poll();
    const auto moves = [&](const Steps& axis) { return first / axis.stride % axis.size != 0; };
    if (std::ranges::any_of(axes, moves)) continue;
    std::vector<int> members = {first};
    for (const Steps& axis : axes) {
      std::vector<int> more;
      for (int i = 0; i < axis.size; ++i)
        for (const int member : members) more.push_back(member + i * axis.stride);
      members = std::move(more);
    }
    groups.push_back(std::move(members));
  }
  return groups;
}

}  // namespace

PlacedAxes::PlacedAxes(const std::vector<Axis>& axes, int ranks_of_unit, int units)
    : ranks_of_unit_(ranks_of_unit), units_(units) {
  const int64_t ranks = int64_t{units} * ranks_of_unit;
  int64_t stride = 1;
  std::set<std::string> names;
  for (const Axis& axis : axes) {
    if (axis.size < 1 || axis.size > 1 << 24)
      refuse_axes(fmt::format("axis {} of {}", axis.name, axis.size), "at least 1");
    if (!names.insert(axis.name).second)
      refuse_axes(fmt::format("two axes '{}'", axis.name), "names that differ");
    if (stride <= ranks) axes_.push_back(placed(axis.name, axis.size, static_cast<int>(stride)));
    stride = std::min<int64_t>(stride * axis.size, int64_t{1} << 40);
  }
  if (stride != ranks || ranks > std::numeric_limits<int>::max())
    refuse_axes(fmt::format("axes of {} ranks on a cluster of {} units of {}", stride, units, ranks_of_unit),
                fmt::format("axes whose product is {}", ranks));
}

PlacedAxis PlacedAxes::placed(std::string name, int size, int stride) const {
  PlacedAxis axis{.name = std::move(name), .size = size, .stride = stride};
  const int64_t end = int64_t{size} * stride, unit = ranks_of_unit_;
  if (size == 1) return axis;
  if (end <= unit)
    axis.is_even = unit % end == 0;
  else
    axis.is_even = end % unit == 0 && (stride >= unit ? stride % unit : unit % stride) == 0;
  if (!axis.is_even) return axis;
  axis.inner_stride = static_cast<int>(std::min<int64_t>(stride, unit));
  axis.inner = static_cast<int>(std::min<int64_t>(size, unit / axis.inner_stride));
  axis.outer_stride = static_cast<int>(std::max<int64_t>(stride / unit, 1));
  axis.outer = size / axis.inner;
  return axis;
}

std::vector<PlacedAxis> PlacedAxes::over(const TrainingStep& step, bool joins) const {
  std::vector<PlacedAxis> over;
  for (const std::string& name : step.over) {
    const auto found = std::ranges::find(axes_, name, &PlacedAxis::name);
    if (found == axes_.end()) {
      std::vector<std::string> names;
      for (const PlacedAxis& axis : axes_) names.push_back(axis.name);
      refuse_axes(fmt::format("{} over '{}', which is not an axis", name_of(*step.kind), name),
                  fmt::format("one of: {}", fmt::join(names, ", ")));
    }
    if (std::ranges::find(over, name, &PlacedAxis::name) != over.end())
      refuse_axes(fmt::format("{} over '{}' twice", name_of(*step.kind), name), "once");
    over.push_back(*found);
  }
  std::ranges::stable_sort(over, {}, &PlacedAxis::stride);
  if (is_even(over) && !joins) return over;
  std::vector<PlacedAxis> joined;
  for (const PlacedAxis& axis : over)
    if (!joined.empty() && joined.back().stride * joined.back().size == axis.stride)
      joined.back() =
          placed(joined.back().name + "+" + axis.name, joined.back().size * axis.size, joined.back().stride);
    else
      joined.push_back(axis);
  return joined;
}

std::vector<std::vector<int>> PlacedAxes::groups(const std::vector<PlacedAxis>& over) const {
  std::vector<Steps> steps;
  for (const PlacedAxis& axis : over) steps.push_back({axis.size, axis.stride});
  return groups_of(units_ * ranks_of_unit_, steps);
}

std::vector<std::vector<int>> PlacedAxes::groups_of_unit(const std::vector<PlacedAxis>& over) const {
  std::vector<Steps> steps;
  for (const PlacedAxis& axis : over) steps.push_back({axis.inner, axis.inner_stride});
  return groups_of(ranks_of_unit_, steps);
}

bool is_even(const std::vector<PlacedAxis>& over) { return std::ranges::all_of(over, &PlacedAxis::is_even); }

int ranks_of_group(const std::vector<PlacedAxis>& over) {
  int ranks = 1;
  for (const PlacedAxis& axis : over) ranks *= axis.size;
  return ranks;
}

}  // namespace opentrn::collectives
