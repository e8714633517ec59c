#include "backend/conflict_index.h"

#include <cstring>

namespace opentrn::backend {

Record* RecordArena::take(size_t count) {
  if (left_ < count) {
    constexpr size_t kChunkMax = size_t{1} << 14;  // records
    chunk_ = std::max(count, std::min(2 * chunk_, kChunkMax));
    chunks_.push_back(std::make_unique_for_overwrite<Record[]>(chunk_));
    next_ = chunks_.back().get();
    left_ = chunk_;
  }
  left_ -= count;
  Record* taken = next_;
  next_ += count;
  return taken;
}

void RecordList::grow(RecordArena& arena) {
  const uint32_t capacity = capacity_ == 0 ? 2 : 2 * capacity_;
  Record* larger = arena.take(capacity);
  if (size_ > 0) std::memcpy(larger, data_, size_ * sizeof(Record));
  data_ = larger;
  capacity_ = capacity;
}

ConflictIndex::ConflictIndex(RecordArena& arena, int64_t bytes, int64_t pitch, int64_t cell_rows,
                             int64_t cell_bytes)
    : arena_(arena),
      pitch_(pitch),
      cell_rows_(std::max<int64_t>(1, cell_rows)),
      cell_bytes_(std::max<int64_t>(1, cell_bytes)) {
  const int64_t all_rows = pitch > 0 ? (bytes + pitch - 1) / pitch : 1;
  const int64_t row_bytes = pitch > 0 ? pitch : bytes;
  rows_ = std::max<int64_t>(1, (all_rows + cell_rows_.value - 1) / cell_rows_.value);
  columns_ = std::max<int64_t>(1, (row_bytes + cell_bytes_.value - 1) / cell_bytes_.value);
  cells_.resize(static_cast<size_t>(rows_ * columns_));
  versions_.resize(cells_.size());
}

ConflictIndex::CellRange ConflictIndex::folded_cells_of(Record f) const {
  CellRange range;
  range.row_begin = cell_rows_.cut(f.byte_begin / pitch_);
  range.row_end = cell_rows_.cut((f.byte_end - 1) / pitch_) + 1;
  range.column_begin = 0;
  range.column_end = columns_;
  // Narrow the columns when every row of the pattern stays inside the same ones.
  int64_t length = f.steps != nullptr ? f.steps->run_elements * f.element_bytes() : pitch_;
  bool aligned = true;
  for (int i = 0; f.steps != nullptr && i < f.steps->count; ++i) {
    const Steps::Step& step = f.steps->steps[static_cast<size_t>(i)];
    const int64_t bytes = step.elements * f.element_bytes();
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

// A record has a footprint's fields under the same names, in fewer bytes.
Footprint ConflictIndex::footprint_of(const Record& record) const {
  if (record.moved() != 0) return moved_[record.moved() - 1];
  Footprint f;
  f.row_begin = record.row_begin();
  f.row_end = record.row_end();
  f.byte_begin = record.byte_begin;
  f.byte_end = record.byte_end;
  f.steps = record.steps;
  f.element_bytes = record.element_bytes();
  f.dense = record.dense();
  return f;
}

bool ConflictIndex::may_overlap_inside(const Record& a, const Record& b) const {
  return may_overlap(footprint_of(a), footprint_of(b));
}

bool ConflictIndex::covers_with_steps(const Record& cover, const Record& old) const {
  if (cover.moved() != 0) return footprint_of(cover).covers(footprint_of(old));
  return cover.row_begin() <= old.row_begin() && old.row_end() <= cover.row_end() &&
         cover.steps == old.steps && cover.element_bytes() == old.element_bytes() &&
         cover.byte_begin == old.byte_begin;
}

// Gives the records of this read one title, where some cells had it before.
void ConflictIndex::rename_reads(CellRange range, Record own) {
  for (int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (int64_t c = range.column_begin; c < range.column_end; ++c) {
      const auto at = static_cast<size_t>(r * columns_ + c);
      for (Record& read : cells_[at].reads) {
        const bool is_it = read.in_order() && read.stream() == own.stream() && own.is_at_place_of(read);
        if (!is_it || read.title() == own.title()) continue;
        read.set_title(own.title());
        ++versions_[at];
      }
    }
  }
}

void ConflictIndex::clear() {
  for (Cell& cell : cells_) cell.writes.clear(), cell.reads.clear();
  for (uint32_t& version : versions_) ++version;
  instructions_.clear();
  moved_.clear();
  last_ = nullptr;
}

}  // namespace opentrn::backend
