#include "backend/conflict_index.h"

namespace opentrn::backend {

ConflictIndex::ConflictIndex(int64_t rows, int64_t bytes, int64_t pitch, int64_t cell_rows,
                             int64_t cell_bytes)
    : pitch_(pitch),
      cell_rows_(std::max<int64_t>(1, cell_rows)),
      cell_bytes_(std::max<int64_t>(1, cell_bytes)) {
  const int64_t all_rows = pitch > 0 ? (bytes + pitch - 1) / pitch : rows;
  const int64_t row_bytes = pitch > 0 ? pitch : bytes;
  rows_ = std::max<int64_t>(1, (all_rows + cell_rows_ - 1) / cell_rows_);
  columns_ = std::max<int64_t>(1, (row_bytes + cell_bytes_ - 1) / cell_bytes_);
  cells_.resize(static_cast<size_t>(rows_ * columns_));
}

ConflictIndex::CellRange ConflictIndex::cells_of(const Footprint& f) const {
  CellRange range{f.row_begin / cell_rows_, (f.row_end - 1) / cell_rows_ + 1, f.byte_begin / cell_bytes_,
                  (f.byte_end - 1) / cell_bytes_ + 1};
  if (pitch_ > 0) {
    range.row_begin = f.byte_begin / pitch_ / cell_rows_;
    range.row_end = (f.byte_end - 1) / pitch_ / cell_rows_ + 1;
    range.column_begin = 0;
    range.column_end = columns_;
    // Narrow the columns when every row of the pattern stays inside the same ones.
    int64_t length = f.steps != nullptr ? f.steps->run_elements * f.element_bytes : pitch_;
    bool aligned = true;
    for (int i = 0; f.steps != nullptr && i < f.steps->count; ++i) {
      const Steps::Step& step = f.steps->steps[static_cast<size_t>(i)];
      const int64_t bytes = step.elements * f.element_bytes;
      if (bytes >= pitch_) {
        aligned = aligned && bytes % pitch_ == 0;
      } else {
        length += bytes * (step.count - 1);
      }
    }
    const int64_t begin = f.byte_begin % pitch_;
    if (aligned && begin + length <= pitch_) {
      range.column_begin = begin / cell_bytes_;
      range.column_end = (begin + length - 1) / cell_bytes_ + 1;
    }
  }
  // A footprint beyond the memory is the checker's business; here it only must not write outside.
  range.row_begin = std::clamp<int64_t>(range.row_begin, 0, rows_);
  range.row_end = std::clamp<int64_t>(range.row_end, 0, rows_);
  range.column_begin = std::clamp<int64_t>(range.column_begin, 0, columns_);
  range.column_end = std::clamp<int64_t>(range.column_end, 0, columns_);
  return range;
}

bool ConflictIndex::covers_in_cell(const Footprint& cover, const Footprint& old, int64_t cell_row,
                                   int64_t cell_column) const {
  if (cover.covers(old)) return true;
  if (!cover.solid() || pitch_ > 0) return false;
  const int64_t byte_begin = std::max(old.byte_begin, cell_column * cell_bytes_);
  const int64_t byte_end = std::min(old.byte_end, (cell_column + 1) * cell_bytes_);
  const int64_t row_begin = std::max<int64_t>(old.row_begin, cell_row * cell_rows_);
  const int64_t row_end = std::min<int64_t>(old.row_end, (cell_row + 1) * cell_rows_);
  return cover.row_begin <= row_begin && row_end <= cover.row_end && cover.byte_begin <= byte_begin &&
         byte_end <= cover.byte_end;
}

uint32_t ConflictIndex::allocate(const Record& record) {
  if (!free_.empty()) {
    const uint32_t id = free_.back();
    free_.pop_back();
    entries_[id] = {record, 0, 0};
    return id;
  }
  entries_.push_back({record, 0, 0});
  return static_cast<uint32_t>(entries_.size() - 1);
}

void ConflictIndex::clear() {
  for (Cell& cell : cells_) cell.all.clear(), cell.writes.clear();
  entries_.clear();
  free_.clear();
}

}  // namespace opentrn::backend
