#include "backend/passes/written_parts.h"

#include <algorithm>

namespace opentrn::backend {

bool WrittenParts::Rectangle::contains(const Rectangle& other) const {
  return row <= other.row && other.row + other.rows <= row + rows && column <= other.column &&
         other.column + other.columns <= column + columns;
}

bool WrittenParts::Rectangle::join(const Rectangle& other) {
  const auto touch = [](int64_t a, int64_t a_size, int64_t b, int64_t b_size) {
    return a <= b + b_size && b <= a + a_size;
  };
  const auto unite = [](int64_t& a, int64_t& a_size, int64_t b, int64_t b_size) {
    const int64_t end = std::max(a + a_size, b + b_size);
    a = std::min(a, b);
    a_size = end - a;
  };
  if (row == other.row && rows == other.rows && touch(column, columns, other.column, other.columns)) {
    unite(column, columns, other.column, other.columns);
    return true;
  }
  if (column == other.column && columns == other.columns && touch(row, rows, other.row, other.rows)) {
    unite(row, rows, other.row, other.rows);
    return true;
  }
  return false;
}

bool WrittenParts::to_rectangle(const isa::Tensor& tensor, const Part& part, Rectangle& rectangle) {
  const isa::Pattern& pattern = part.pattern;
  if (size_bytes(part.dtype) != size_bytes(tensor.dtype) || pattern.rank != 2) return false;
  const isa::Dim &rows = pattern.dims[0], &columns = pattern.dims[1];
  if ((rows.count > 1 && rows.step != tensor.row_elements) || (columns.count > 1 && columns.step != 1))
    return false;
  rectangle = {part.offset / tensor.row_elements, rows.count, part.offset % tensor.row_elements,
               columns.count};
  return rectangle.column + rectangle.columns <= tensor.row_elements;
}

void WrittenParts::add(Rectangle rectangle) {
  for (size_t i = 0; i < rectangles_.size();) {
    if (rectangles_[i].contains(rectangle)) return;
    if (!rectangle.contains(rectangles_[i]) && !rectangle.join(rectangles_[i])) {
      ++i;
      continue;
    }
    rectangles_.erase(rectangles_.begin() + static_cast<std::ptrdiff_t>(i));  // it is in `rectangle` now
    i = 0;
  }
  rectangles_.push_back(rectangle);
}

void WrittenParts::add(const isa::Tensor& tensor, const Part& part) {
  Rectangle rectangle;
  if (to_rectangle(tensor, part, rectangle)) {
    add(rectangle);
  } else if (std::ranges::find(others_, part) == others_.end()) {
    others_.push_back(part);
  }
}

std::vector<Part> WrittenParts::parts(const isa::Tensor& tensor) const {
  std::vector<Part> result;
  for (const Rectangle& r : rectangles_) {
    Part part{r.row * tensor.row_elements + r.column, {}, tensor.dtype};
    part.pattern.rank = 2;
    part.pattern.dims[0] = {tensor.row_elements, r.rows};
    part.pattern.dims[1] = {1, r.columns};
    if (r.rows == tensor.rows && r.columns == tensor.row_elements) return {part};
    result.push_back(part);
  }
  result.insert(result.end(), others_.begin(), others_.end());
  return result;
}

}  // namespace opentrn::backend
