#include "nki/boxes.h"

#include <algorithm>

namespace opentrn::nki {

namespace {

int64_t count_of(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

// Ascending indices as one range; nothing where their steps differ, or there are none.
std::optional<IndexRange> progression(const std::vector<int64_t>& indices) {
  if (indices.empty()) return std::nullopt;
  IndexRange made{indices[0], 1, static_cast<int64_t>(indices.size())};
  if (indices.size() == 1) return made;
  made.step = indices[1] - indices[0];
  for (size_t i = 1; i < indices.size(); ++i)
    if (indices[i] - indices[i - 1] != made.step) return std::nullopt;
  return made;
}

std::vector<IndexRange> runs(const std::vector<int64_t>& indices) {
  std::vector<IndexRange> found;
  for (const int64_t index : indices) {
    if (found.empty() || found.back().start + found.back().count != index) found.push_back({index, 1, 0});
    ++found.back().count;
  }
  return found;
}

// Of each axis the indices at which any value is true; how many values are.
int64_t indices_by_axis(const bool* truth, std::span<const int64_t> shape,
                        std::vector<std::vector<int64_t>>* indices) {
  std::vector<std::vector<bool>> seen;
  for (const int64_t size : shape) seen.emplace_back(size, false);
  std::vector<int64_t> at(shape.size(), 0);
  int64_t total = 0;
  for (int64_t i = 0; i < count_of(shape); ++i) {
    if (truth[i]) {
      ++total;
      for (size_t axis = 0; axis < shape.size(); ++axis) seen[axis][at[axis]] = true;
    }
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
  indices->assign(shape.size(), {});
  for (size_t axis = 0; axis < shape.size(); ++axis)
    for (int64_t i = 0; i < shape[axis]; ++i)
      if (seen[axis][i]) (*indices)[axis].push_back(i);
  return total;
}

std::optional<IndexBox> one_box(const std::vector<std::vector<int64_t>>& indices, int64_t total) {
  IndexBox box;
  int64_t covered = 1;
  for (const auto& axis : indices) {
    const auto range = progression(axis);
    if (!range) return std::nullopt;
    box.push_back(*range);
    covered *= range->count;
  }
  return covered == total ? std::optional(box) : std::nullopt;
}

}  // namespace

std::vector<IndexBox> boxes_of(const bool* truth, std::span<const int64_t> shape) {
  std::vector<std::vector<int64_t>> indices;
  const int64_t total = indices_by_axis(truth, shape, &indices);
  if (total == 0) return {};
  if (const auto box = one_box(indices, total)) return {*box};
  std::vector<IndexBox> boxes;
  if (shape.size() == 1) {
    for (const IndexRange& run : runs(indices[0])) boxes.push_back({run});
    return boxes;
  }
  const auto row = shape.subspan(1);
  const int64_t width = count_of(row);
  const auto same = [&](int64_t a, int64_t b) {
    return std::equal(truth + a * width, truth + (a + 1) * width, truth + b * width);
  };
  int64_t start = 0;
  for (int64_t i = 1; i <= shape[0]; ++i) {
    if (i < shape[0] && same(i, start)) continue;
    for (IndexBox& rest : boxes_of(truth + start * width, row)) {
      rest.insert(rest.begin(), {start, 1, i - start});
      boxes.push_back(std::move(rest));
    }
    start = i;
  }
  return boxes;
}

std::vector<IndexBox> boxes_of_axes(const std::vector<std::vector<bool>>& axes) {
  std::vector<IndexBox> boxes = {{}};
  for (const auto& truth : axes) {
    std::vector<int64_t> indices;
    for (size_t i = 0; i < truth.size(); ++i)
      if (truth[i]) indices.push_back(static_cast<int64_t>(i));
    const auto whole = progression(indices);
    const auto options = whole ? std::vector{*whole} : runs(indices);
    std::vector<IndexBox> further;
    for (const IndexBox& box : boxes)
      for (const IndexRange& option : options) {
        further.push_back(box);
        further.back().push_back(option);
      }
    boxes = std::move(further);
  }
  return boxes;
}

}  // namespace opentrn::nki
