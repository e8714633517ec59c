#include "nki/index_expression.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::nki {

namespace {

constexpr size_t kBoxesMax = 4096;  // a mask that needs more instructions than this is surely a mistake

// Calls visit(flat index, index of each axis) for every element of a shape, in row-major order.
template <typename Visit>
void for_each_index(std::span<const int64_t> shape, Visit&& visit) {
  std::vector<int64_t> at(shape.size());
  const int64_t total = count_of_elements(shape);
  for (int64_t flat = 0; flat < total; ++flat) {
    visit(flat, at);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
}

// The elements of an array of `from`, repeated to give one of `to`.
template <typename Value>
std::vector<Value> spread(const std::vector<Value>& values, const Shape& from, const Shape& to) {
  if (from == to) return values;
  std::vector<Value> made;
  made.reserve(static_cast<size_t>(count_of_elements(to)));
  const size_t front = to.size() - from.size();
  for_each_index(to, [&](int64_t, const std::vector<int64_t>& at) {
    int64_t flat = 0;
    for (size_t axis = 0; axis < from.size(); ++axis)
      flat = flat * from[axis] + (from[axis] == 1 ? 0 : at[front + axis]);
    made.push_back(values[static_cast<size_t>(flat)]);
  });
  return made;
}

// A line of values, its first one apart.
void add_line(IndexExpression& to, int axis, std::vector<int64_t> values) {
  const int64_t first = values.front();
  to.constant += first;
  if (values.size() == 1) return;
  for (int64_t& value : values) value -= first;
  const int64_t step = values[1];
  bool is_affine = true;
  for (size_t i = 2; i < values.size(); ++i) is_affine &= values[i] == step * static_cast<int64_t>(i);
  if (is_affine && step == 0) return;
  IndexLine line{axis, is_affine ? step : 0, {}};
  if (!is_affine) line.values = std::move(values);
  to.lines.push_back(std::move(line));
}

std::vector<int64_t> values_along(const IndexExpression& of, int axis, int64_t size) {
  std::vector<int64_t> values(static_cast<size_t>(size), of.constant);
  if (const IndexLine* line = of.line(axis))
    for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i)] += line->at(i);
  return values;
}

// The sum of two lines along one axis.
IndexLine sum(const IndexLine& a, const IndexLine& b, int sign, int64_t size) {
  if (a.is_affine() && b.is_affine()) return {a.axis, a.step + sign * b.step, {}};
  IndexExpression made;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(a.at(i) + sign * b.at(i));
  add_line(made, a.axis, std::move(values));
  return made.lines.empty() ? IndexLine{a.axis, 0, {}} : std::move(made.lines.front());
}

IndexLine times(const IndexLine& line, int64_t factor) {
  IndexLine made{line.axis, line.step * factor, line.values};
  for (int64_t& value : made.values) value *= factor;
  return made;
}

int64_t apply(IndexOperator op, int64_t a, int64_t b) {
  if (op == IndexOperator::kMultiply) return a * b;
  if (b == 0) throw Fault(FaultKind::kProgram, "nki.index", "an index expression is divided by zero");
  const int64_t rest = a % b, floored = a / b - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0);
  return op == IndexOperator::kFloorDivide ? floored : a - floored * b;
}

bool holds(IndexComparison comparison, int64_t value) {
  switch (comparison) {
    case IndexComparison::kLess: return value < 0;
    case IndexComparison::kLessEqual: return value <= 0;
    case IndexComparison::kGreater: return value > 0;
    case IndexComparison::kGreaterEqual: return value >= 0;
    case IndexComparison::kEqual: return value == 0;
    case IndexComparison::kNotEqual: return value != 0;
  }
  return false;
}

}  // namespace

int64_t count_of_elements(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string tuple_text(std::span<const int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Shape broadcast_shapes(std::span<const Shape* const> shapes) {
  size_t rank = 0;
  for (const Shape* shape : shapes) rank = std::max(rank, shape->size());
  Shape made(rank, 1);
  bool fits = true;
  for (const Shape* shape : shapes) {
    const size_t front = rank - shape->size();
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      const int64_t own = (*shape)[axis];
      int64_t& size = made[front + axis];
      fits &= size == own || size == 1 || own == 1;
      if (size == 1) size = own;
    }
  }
  if (fits) return made;
  std::string listed;
  for (const Shape* shape : shapes) listed += (listed.empty() ? "" : ", ") + tuple_text(*shape);
  throw Fault(FaultKind::kProgram, "nki.shape", fmt::format("index shapes {} do not broadcast", listed));
}

Shape broadcast_shapes(std::span<const Shape> shapes) {
  std::vector<const Shape*> pointers;
  for (const Shape& shape : shapes) pointers.push_back(&shape);
  return broadcast_shapes(pointers);
}

bool IndexExpression::is_affine() const {
  return dense.empty() && std::ranges::all_of(lines, &IndexLine::is_affine);
}

const IndexLine* IndexExpression::line(int axis) const {
  const auto found = std::ranges::find(lines, axis, &IndexLine::axis);
  return found == lines.end() ? nullptr : &*found;
}

std::pair<int64_t, int64_t> IndexExpression::range() const {
  if (!dense.empty()) {
    const std::vector<int64_t> every = values();
    const auto [low, high] = std::ranges::minmax(every);
    return {low, high};
  }
  int64_t low = constant, high = constant;
  for (const IndexLine& each : lines) {
    const int64_t end = each.step * (size(each.axis) - 1);
    const std::pair<int64_t, int64_t> ends{std::min<int64_t>(0, end), std::max<int64_t>(0, end)};
    const auto [least, most] =
        each.is_affine() ? ends : std::pair(std::ranges::min(each.values), std::ranges::max(each.values));
    low += least;
    high += most;
  }
  return {low, high};
}

std::vector<int64_t> IndexExpression::values() const {
  std::vector<int64_t> made = dense;
  made.resize(static_cast<size_t>(count_of_elements(shape)));
  for_each_index(shape, [&](int64_t flat, const std::vector<int64_t>& at) {
    int64_t& value = made[static_cast<size_t>(flat)];
    value += constant;
    for (const IndexLine& each : lines) value += each.at(at[static_cast<size_t>(each.axis + rank())]);
  });
  return made;
}

IndexExpression index_number(int64_t value) { return {{}, value, {}, {}}; }

IndexExpression index_along(Shape shape, int axis, std::span<const int64_t> values) {
  IndexExpression made{std::move(shape), 0, {}, {}};
  add_line(made, axis, {values.begin(), values.end()});
  return made;
}

IndexExpression index_range(int64_t count, int64_t first, int64_t step) {
  IndexExpression made{{count}, first, {}, {}};
  if (count > 1 && step != 0) made.lines.push_back({-1, step, {}});
  return made;
}

IndexExpression add(const IndexExpression& a, const IndexExpression& b, int sign) {
  const Shape* const shapes[] = {&a.shape, &b.shape};
  IndexExpression made{
      a.shape == b.shape ? a.shape : broadcast_shapes(shapes), a.constant + sign * b.constant, {}, {}};
  made.lines.reserve(a.lines.size() + b.lines.size());
  auto x = a.lines.begin();
  auto y = b.lines.begin();
  while (x != a.lines.end() || y != b.lines.end()) {
    if (y == b.lines.end() || (x != a.lines.end() && x->axis < y->axis)) {
      made.lines.push_back(*x++);
    } else if (x == a.lines.end() || y->axis < x->axis) {
      made.lines.push_back(times(*y++, sign));
    } else {
      IndexLine line = sum(*x, *y, sign, made.size(x->axis));
      if (!line.is_affine() || line.step != 0) made.lines.push_back(std::move(line));
      ++x, ++y;
    }
  }
  if (!a.dense.empty()) made.dense = spread(a.dense, a.shape, made.shape);
  if (!b.dense.empty()) {
    made.dense.resize(static_cast<size_t>(count_of_elements(made.shape)));
    const std::vector<int64_t> other = spread(b.dense, b.shape, made.shape);
    for (size_t i = 0; i < other.size(); ++i) made.dense[i] += sign * other[i];
  }
  return made;
}

IndexExpression multiply(const IndexExpression& a, int64_t factor) {
  IndexExpression made{a.shape, a.constant * factor, {}, a.dense};
  if (factor == 0) return {a.shape, 0, {}, {}};
  for (const IndexLine& line : a.lines) made.lines.push_back(times(line, factor));
  for (int64_t& value : made.dense) value *= factor;
  return made;
}

IndexExpression combine(const IndexExpression& a, const IndexExpression& b, IndexOperator op) {
  const Shape* const shapes[] = {&a.shape, &b.shape};
  IndexExpression made{broadcast_shapes(shapes), 0, {}, {}};
  const bool is_mixed = !a.dense.empty() || !b.dense.empty() || a.lines.size() > 1 || b.lines.size() > 1 ||
                        (!a.lines.empty() && !b.lines.empty() && a.lines[0].axis != b.lines[0].axis);
  if (is_mixed) {
    made.dense = spread(a.values(), a.shape, made.shape);
    const std::vector<int64_t> other = spread(b.values(), b.shape, made.shape);
    for (size_t i = 0; i < other.size(); ++i) made.dense[i] = apply(op, made.dense[i], other[i]);
    return made;
  }
  if (a.lines.empty() && b.lines.empty()) {
    made.constant = apply(op, a.constant, b.constant);
    return made;
  }
  const int axis = a.lines.empty() ? b.lines[0].axis : a.lines[0].axis;
  std::vector<int64_t> values = values_along(a, axis, made.size(axis));
  const std::vector<int64_t> other = values_along(b, axis, made.size(axis));
  for (size_t i = 0; i < values.size(); ++i) values[i] = apply(op, values[i], other[i]);
  add_line(made, axis, std::move(values));
  return made;
}

IndexExpression with_axes(const IndexExpression& a, std::span<const bool> added) {
  IndexExpression made{{}, a.constant, a.lines, a.dense};
  const int rank = static_cast<int>(added.size());
  made.shape.reserve(added.size());
  int source = 0;
  size_t line = 0;
  for (int axis = 0; axis < rank; ++axis) {
    if (added[static_cast<size_t>(axis)]) {
      made.shape.push_back(1);
      continue;
    }
    if (line < a.lines.size() && a.lines[line].axis + a.rank() == source)
      made.lines[line++].axis = axis - rank;
    made.shape.push_back(a.shape[static_cast<size_t>(source++)]);
  }
  return made;
}

// -- masks

std::string_view name(IndexComparison comparison) {
  constexpr std::string_view kNames[] = {"less",          "less_equal", "greater",
                                         "greater_equal", "equal",      "not_equal"};
  return kNames[static_cast<size_t>(comparison)];
}

namespace {

const Shape& shape_of(const std::variant<IndexTest, IndexTruth>& term) {
  if (const auto* test = std::get_if<IndexTest>(&term)) return test->difference.shape;
  return std::get<IndexTruth>(term).shape;
}

std::vector<bool> truth_of(const std::variant<IndexTest, IndexTruth>& term) {
  if (const auto* given = std::get_if<IndexTruth>(&term)) return given->values;
  const auto& test = std::get<IndexTest>(term);
  std::vector<bool> made;
  for (const int64_t value : test.difference.values()) made.push_back(holds(test.comparison, value));
  return made;
}

void check_fits(const Shape& mask, const Shape& shape, std::string_view what) {
  bool fits = true;
  for (size_t i = 0; i < mask.size(); ++i) {
    const int64_t size = mask[mask.size() - 1 - i];
    fits &= size == 1 || (i < shape.size() && size == shape[shape.size() - 1 - i]);
  }
  if (fits) return;
  throw Fault(FaultKind::kProgram, "nki.shape",
              fmt::format("{}: a mask of shape {} does not fit a tile of shape {}", what, tuple_text(mask),
                          tuple_text(shape)));
}

// Indices i from `first` to before `end` with `constant + step * i <comparison> 0`, for a step other than 0.
struct Bounds {
  std::optional<int64_t> first, end;
};
Bounds solve(IndexComparison comparison, int64_t constant, int64_t step) {
  using enum IndexComparison;
  if (step < 0) {
    constexpr IndexComparison kMirrored[] = {kGreater, kGreaterEqual, kLess, kLessEqual, kEqual, kNotEqual};
    return solve(kMirrored[static_cast<size_t>(comparison)], -constant, -step);
  }
  const int64_t from_zero = -apply(IndexOperator::kFloorDivide, constant, step);  // a value of 0 or more
  const int64_t above = apply(IndexOperator::kFloorDivide, -constant, step) + 1;  // a value above 0
  switch (comparison) {
    case kLess: return {{}, from_zero};
    case kLessEqual: return {{}, above};
    case kGreater: return {above, {}};
    case kGreaterEqual: return {from_zero, {}};
    default: return {from_zero, above};
  }
}

// Narrows `ranges` to where a term holds; false where that is no interval of one axis.
bool narrow(std::vector<std::pair<int64_t, int64_t>>& ranges,
            const std::variant<IndexTest, IndexTruth>& term) {
  const auto* test = std::get_if<IndexTest>(&term);
  if (!test || !test->difference.is_affine()) return false;
  const IndexExpression& difference = test->difference;
  if (difference.lines.size() > 1 || test->comparison == IndexComparison::kNotEqual) return false;
  if (difference.lines.empty()) {  // holds everywhere or nowhere
    if (!holds(test->comparison, difference.constant)) ranges.assign(ranges.size(), {0, 0});
    return true;
  }
  const IndexLine& line = difference.lines[0];
  const Bounds bounds = solve(test->comparison, difference.constant, line.step);
  auto& [first, end] = ranges[ranges.size() - static_cast<size_t>(-line.axis)];
  first = std::max(first, bounds.first.value_or(first));
  end = std::min(end, bounds.end.value_or(end));
  return true;
}

// The boxes of any mask, from its truth values: of one set of indices per axis where no term needs more.
std::vector<IndexBox> boxes_by_values(const IndexMask& mask, const Shape& shape) {
  std::vector<std::vector<bool>> axes;
  for (const int64_t size : shape) axes.emplace_back(static_cast<size_t>(size), true);
  std::vector<bool> dense;
  for (const auto& term : mask.terms) {
    const auto* test = std::get_if<IndexTest>(&term);
    if (test && test->difference.dense.empty() && test->difference.lines.size() == 1) {
      const int axis = test->difference.lines[0].axis;
      std::vector<bool>& along = axes[shape.size() - static_cast<size_t>(-axis)];
      const std::vector<int64_t> values =
          values_along(test->difference, axis, static_cast<int64_t>(along.size()));
      for (size_t i = 0; i < along.size(); ++i) along[i] = along[i] && holds(test->comparison, values[i]);
      continue;
    }
    const Shape& own = shape_of(term);  // of more axes than the tile where those are of size one
    const Shape aligned(own.end() - static_cast<ptrdiff_t>(std::min(own.size(), shape.size())), own.end());
    const std::vector<bool> truth = spread(truth_of(term), aligned, shape);
    if (dense.empty()) dense.assign(truth.size(), true);
    for (size_t i = 0; i < truth.size(); ++i) dense[i] = dense[i] && truth[i];
  }
  if (dense.empty()) return boxes_of_axes(axes);
  const auto truth = std::make_unique<bool[]>(dense.size());
  for_each_index(shape, [&](int64_t flat, const std::vector<int64_t>& at) {
    bool is_left = dense[static_cast<size_t>(flat)];
    for (size_t axis = 0; axis < at.size(); ++axis)
      is_left = is_left && axes[axis][static_cast<size_t>(at[axis])];
    truth[static_cast<size_t>(flat)] = is_left;
  });
  return boxes_of(truth.get(), shape);
}

}  // namespace

Shape IndexMask::shape() const {
  std::vector<Shape> shapes;
  for (const auto& term : terms) shapes.push_back(shape_of(term));
  return broadcast_shapes(shapes);
}

std::vector<bool> IndexMask::values() const {
  const Shape all = shape();
  std::vector<bool> made(static_cast<size_t>(count_of_elements(all)), true);
  for (const auto& term : terms) {
    const std::vector<bool> own = spread(truth_of(term), shape_of(term), all);
    for (size_t i = 0; i < made.size(); ++i) made[i] = made[i] && own[i];
  }
  return made;
}

std::vector<IndexBox> boxes_of(const IndexMask& mask, const Shape& shape, std::string_view what) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const int64_t size : shape) ranges.emplace_back(0, size);
  bool are_intervals = true;
  for (const auto& term : mask.terms) {
    check_fits(shape_of(term), shape, what);
    are_intervals = are_intervals && narrow(ranges, term);
  }
  if (!are_intervals) {
    std::vector<IndexBox> boxes = boxes_by_values(mask, shape);
    if (boxes.size() <= kBoxesMax) return boxes;
    throw Fault(
        FaultKind::kNotModelled, "nki.mask",
        fmt::format("{}: the mask splits into {} instructions, at most {}", what, boxes.size(), kBoxesMax));
  }
  IndexBox box;
  for (const auto& [first, end] : ranges) {
    if (first >= end) return {};
    box.push_back({first, 1, end - first});
  }
  return {box};
}

}  // namespace opentrn::nki
