#include "backend/conflict_index.h"

namespace opentrn::backend {

ConflictIndex::ConflictIndex(int64_t rows, int64_t bytes, int64_t pitch, int64_t cell_rows,
                             int64_t cell_bytes)
    : pitch_(pitch),
      cell_rows_(std::max<int64_t>(1, cell_rows)),
      cell_bytes_(std::max<int64_t>(1, cell_bytes)) {
  const int64_t all_rows = pitch > 0 ? (bytes + pitch - 1) / pitch : rows;
  const int64_t row_bytes = pitch > 0 ? pitch : bytes;
  rows_ = std::max<int64_t>(1, (all_rows + cell_rows_.value - 1) / cell_rows_.value);
  columns_ = std::max<int64_t>(1, (row_bytes + cell_bytes_.value - 1) / cell_bytes_.value);
  cells_.resize(static_cast<size_t>(rows_ * columns_));
}

ConflictIndex::CellRange ConflictIndex::folded_cells_of(const Record& f) const {
  CellRange range;
  range.row_begin = cell_rows_.cut(f.byte_begin / pitch_);
  range.row_end = cell_rows_.cut((f.byte_end - 1) / pitch_) + 1;
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
    range.column_begin = cell_bytes_.cut(begin);
    range.column_end = cell_bytes_.cut(begin + length - 1) + 1;
  }
  return range;
}

// Entries and records have a footprint's fields under the same names, in fewer bytes.
template <typename Packed>
static Footprint unpacked(const Packed& from) {
  Footprint f;
  f.row_begin = from.row_begin;
  f.row_end = from.row_end;
  f.byte_begin = from.byte_begin;
  f.byte_end = from.byte_end;
  f.steps = from.steps;
  f.element_bytes = from.element_bytes;
  f.dense = from.dense;
  return f;
}

Footprint ConflictIndex::footprint_of(const Entry& entry) const {
  return entry.moved != 0 ? moved_[entry.moved - 1] : unpacked(entry);
}

Footprint ConflictIndex::footprint_of(const Record& record) {
  return record.moved != nullptr ? *record.moved : unpacked(record);
}

void ConflictIndex::clear() {
  for (Cell& cell : cells_) cell.all.clear(), cell.writes.clear();
  entries_.clear();
  free_.clear();
  moved_.clear();
}

}  // namespace opentrn::backend
