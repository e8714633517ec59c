// Index expressions of NKI 0.1: what nl.arange and nl.mgrid give, arithmetic on them, and masks of them.
//
// Loops of that dialect run eagerly, so that every expression has concrete values. It is kept as a sum
//
//     value[i0, i1, ...] = constant + line0[i0] + line1[i1] + ... + dense[i0, i1, ...]
//
// which stays small for affine expressions, gives the stride along each axis directly, and still holds what
// is not affine along an axis (`i // 4`). Only what mixes axes in another way (`i * j`) has a dense array.
// Axes are numbered from the last one (-1), so that broadcasting moves none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nki/boxes.h"

namespace opentrn::nki {

using Shape = std::vector<int64_t>;

int64_t count_of_elements(std::span<const int64_t> shape);
std::string tuple_text(std::span<const int64_t> shape);  // as Python writes a tuple

// NumPy's broadcasting. Fault "nki.shape" where two shapes do not fit.
Shape broadcast_shapes(std::span<const Shape* const> shapes);
Shape broadcast_shapes(std::span<const Shape> shapes);

// The values along one axis; the first is 0.
struct IndexLine {
  int axis = -1;
  int64_t step = 0;             // where `values` is empty
  std::vector<int64_t> values;  // of a line without a constant step

  int64_t at(int64_t i) const { return values.empty() ? step * i : values[static_cast<size_t>(i)]; }
  bool is_affine() const { return values.empty(); }
  bool operator==(const IndexLine&) const = default;
};

struct IndexExpression {
  Shape shape;
  int64_t constant = 0;
  std::vector<IndexLine> lines;  // in the order of their axes; none along which nothing varies
  std::vector<int64_t> dense;    // row-major, of `shape`; empty where nothing mixes axes

  int rank() const { return static_cast<int>(shape.size()); }
  int64_t size(int axis) const { return shape[static_cast<size_t>(axis + rank())]; }
  bool is_affine() const;
  const IndexLine* line(int axis) const;      // null where nothing varies along the axis
  std::pair<int64_t, int64_t> range() const;  // smallest and largest value
  std::vector<int64_t> values() const;        // row-major
  bool operator==(const IndexExpression&) const = default;
};

IndexExpression index_number(int64_t value);
// `values` along an axis of an expression of this shape; at least one.
IndexExpression index_along(Shape shape, int axis, std::span<const int64_t> values);
IndexExpression index_range(int64_t count, int64_t first, int64_t step);

// a + sign * b
IndexExpression add(const IndexExpression& a, const IndexExpression& b, int sign);
IndexExpression multiply(const IndexExpression& a, int64_t factor);

enum class IndexOperator : uint8_t { kMultiply, kFloorDivide, kModulo };
// Exact along the one axis that both vary along, dense where there are several. Fault "nki.index" for a zero
// divisor.
IndexExpression combine(const IndexExpression& a, const IndexExpression& b, IndexOperator op);

// `i[:, None]`: an axis of size one wherever `added` holds, as many others as there are axes.
IndexExpression with_axes(const IndexExpression& a, std::span<const bool> added);

// -- masks

enum class IndexComparison : uint8_t { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual };
std::string_view name(IndexComparison comparison);  // of the Vector engine's operator

// `difference <comparison> 0`
struct IndexTest {
  IndexExpression difference;
  IndexComparison comparison = IndexComparison::kLess;
};

// Truth values that no single comparison gives (`|`, `~`), row-major.
struct IndexTruth {
  Shape shape;
  std::vector<bool> values;
};

// What `mask=` takes: all of the terms hold.
struct IndexMask {
  std::vector<std::variant<IndexTest, IndexTruth>> terms;

  Shape shape() const;
  std::vector<bool> values() const;  // of `shape()`
};

// The boxes of an index space of `shape` where the mask holds: one where each term is an interval of one
// axis. `what` names who is masked. Fault "nki.shape" for a mask that does not fit, "nki.mask" for one that
// leaves too many boxes.
std::vector<IndexBox> boxes_of(const IndexMask& mask, const Shape& shape, std::string_view what);

}  // namespace opentrn::nki
