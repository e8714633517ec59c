// Lists of places that are windows of a table of several dimensions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace opentrn::compiler {

// A table of one dimension as one of several, by what is taken of it along each: `inner` places of it, and
// where there is an `outer` digit, windows of that many, which begin `step` (1 or -1) after one another.
// Digits are the places' own dimensions, outermost first; each is of one axis.
struct Axis {
  int64_t size = 0;
  bool is_flipped = false;  // counted from its end, so that the inner digit goes up
  int64_t first = 0;        // of window 0
  size_t inner = 0;
  std::optional<size_t> outer = {};
  int64_t step = 0;
};
struct NestedWindows {
  std::vector<int64_t> digits;  // how many places each is
  std::vector<Axis> axes;       // of the table, outermost first
};

// place = first + the sum of digit * step, with steps by which the table can be cut into dimensions: places
// relative to each other ((y - y' + h - 1) (2 w - 1) + x - x' + w - 1), and places counted down.
std::optional<NestedWindows> nested_windows(std::span<const int64_t> places, int64_t table_size);

}  // namespace opentrn::compiler
