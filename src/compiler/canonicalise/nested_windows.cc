#include "compiler/canonicalise/nested_windows.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

namespace opentrn::compiler {

namespace {

struct Digit {
  int64_t count, step;
};

// Outermost first. Each is as long as places go on in equal steps.
std::optional<std::vector<Digit>> digits_of(std::vector<int64_t> places) {
  std::vector<Digit> digits;
  while (places.size() > 1) {
    const auto total = static_cast<int64_t>(places.size());
    const auto at = [&](int64_t i) { return places[static_cast<size_t>(i)]; };
    Digit digit{.count = 1, .step = at(1) - at(0)};
    while (digit.count < total && at(digit.count) == at(0) + digit.count * digit.step) ++digit.count;
    if (digit.step == 0 || total % digit.count != 0) return std::nullopt;
    std::vector<int64_t> firsts;
    for (int64_t i = 0; i < total; ++i) {
      if (i % digit.count == 0) firsts.push_back(at(i));
      if (at(i) != firsts.back() + i % digit.count * digit.step) return std::nullopt;
    }
    digits.insert(digits.begin(), digit);
    places = std::move(firsts);
  }
  return digits;
}

// The axis of the digits with that step up or down; `first`: where they all are 0.
std::optional<Axis> axis_of(const std::vector<Digit>& digits, int64_t unit, int64_t size, int64_t first) {
  Axis axis{.size = size, .first = first};
  std::vector<size_t> members;
  for (size_t d = 0; d < digits.size(); ++d)
    if (std::abs(digits[d].step) == unit) members.push_back(d);
  if (members.size() > 2) return std::nullopt;
  int64_t lowest = first, highest = first;
  for (const size_t d : members)
    (digits[d].step < 0 ? lowest : highest) += digits[d].step / unit * (digits[d].count - 1);
  if (lowest < 0 || highest >= size) return std::nullopt;
  axis.inner = members.back();
  axis.is_flipped = digits[axis.inner].step < 0;
  if (axis.is_flipped) axis.first = size - 1 - first;
  if (members.size() == 2) {
    axis.outer = members[0];
    axis.step = (digits[members[0]].step < 0) == axis.is_flipped ? 1 : -1;
  }
  return axis;
}

}  // namespace

std::optional<NestedWindows> nested_windows(std::span<const int64_t> places, int64_t table_size) {
  const auto digits = digits_of({places.begin(), places.end()});
  if (!digits || digits->empty()) return std::nullopt;
  std::vector<int64_t> units;
  for (const Digit& digit : *digits) units.push_back(std::abs(digit.step));
  std::ranges::sort(units, std::greater<>());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  if (units.back() != 1) return std::nullopt;
  NestedWindows result;
  int64_t whole = table_size;
  for (const int64_t unit : units) {
    // Of the outermost axis, what is left over is never reached.
    if (unit != units.front() && whole % unit != 0) return std::nullopt;
    const auto axis = axis_of(*digits, unit, whole / unit, places[0] % whole / unit);
    if (!axis) return std::nullopt;
    result.axes.push_back(*axis);
    whole = unit;
  }
  for (const Digit& digit : *digits) result.digits.push_back(digit.count);
  return result;
}

}  // namespace opentrn::compiler
