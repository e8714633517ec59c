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

ConflictIndex::CellRange ConflictIndex::cells_of(const Footprint& f) const {
  CellRange range{cell_rows_.cut(f.row_begin), cell_rows_.cut(f.row_end - 1) + 1,
                  cell_bytes_.cut(f.byte_begin), cell_bytes_.cut(f.byte_end - 1) + 1};
  if (pitch_ > 0) {
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
  }
  // A footprint beyond the memory is the checker's business; here it only must not write outside.
  range.row_begin = std::clamp<int64_t>(range.row_begin, 0, rows_);
  range.row_end = std::clamp<int64_t>(range.row_end, 0, rows_);
  range.column_begin = std::clamp<int64_t>(range.column_begin, 0, columns_);
  range.column_end = std::clamp<int64_t>(range.column_end, 0, columns_);
  return range;
}

bool ConflictIndex::covers_in_cell(const Entry& cover, const Entry& old, int64_t cell_row,
                                   int64_t cell_column) const {
  if (covers(cover, old)) return true;
  if (!cover.solid() || pitch_ > 0) return false;
  const int64_t byte_begin = std::max(old.byte_begin, cell_column * cell_bytes_.value);
  const int64_t byte_end = std::min(old.byte_end, (cell_column + 1) * cell_bytes_.value);
  const int64_t row_begin = std::max<int64_t>(old.row_begin, cell_row * cell_rows_.value);
  const int64_t row_end = std::min<int64_t>(old.row_end, (cell_row + 1) * cell_rows_.value);
  return cover.row_begin <= row_begin && row_end <= cover.row_end && cover.byte_begin <= byte_begin &&
         byte_end <= cover.byte_end;
}

Footprint ConflictIndex::footprint_of(const Entry& entry) const {
  if (entry.moved != 0) return moved_[entry.moved - 1];
  Footprint f;
  f.row_begin = entry.row_begin;
  f.row_end = entry.row_end;
  f.byte_begin = entry.byte_begin;
  f.byte_end = entry.byte_end;
  f.steps = entry.steps;
  f.element_bytes = entry.element_bytes;
  f.dense = entry.dense;
  return f;
}

uint32_t ConflictIndex::allocate(const Record& record) {
  const Footprint& f = record.footprint;
  uint32_t moved = 0;
  if (f.moved_by != 0) {
    moved_.push_back(f);
    moved = static_cast<uint32_t>(moved_.size());
  }
  const Entry entry{
      f.byte_begin, f.byte_end, f.row_begin, f.row_end,     f.steps, record.instruction, f.element_bytes,
      moved,        0,          0,           record.stream, f.dense, record.writes,      record.in_order};
  if (!free_.empty()) {
    const uint32_t id = free_.back();
    free_.pop_back();
    entries_[id] = entry;
    return id;
  }
  entries_.push_back(entry);
  return static_cast<uint32_t>(entries_.size() - 1);
}

void ConflictIndex::clear() {
  for (Cell& cell : cells_) cell.all.clear(), cell.writes.clear();
  entries_.clear();
  free_.clear();
  moved_.clear();
}

}  // namespace opentrn::backend
