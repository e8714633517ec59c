// Finds, among the accesses made so far to one memory, those that a new access must come after.
//
// The memory is cut into cells (a row range by a byte range); each cell lists the accesses that touch it.
// A write that covers an older access inside a cell removes it there: whoever conflicts with the older
// one conflicts with the write too, and the write already comes after it. So cells stay short, and a pass
// over a program is near-linear. Reads that nothing stands for, such as those of DMA, stay until something is
// written over them: other reads do not look at them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "backend/footprint.h"

namespace opentrn::backend {

// An access: a footprint at its place in the memory.
struct Record {
  int64_t byte_begin = 0, byte_end = 0;
  int32_t row_begin = 0, row_end = 0;
  const Steps* steps = nullptr;
  int32_t element_bytes = 1;
  bool dense = false;
  const Footprint* moved = nullptr;  // the same, where a register moves it
  uint32_t instruction = 0;
  uint8_t stream = 0;
  bool writes = false;
  bool in_order = false;  // a later read of the same stream may stand for this read

  bool solid() const { return moved == nullptr && (dense || steps == nullptr); }
};

class ConflictIndex {
 public:
  // `pitch` > 0 folds a flat memory into rows of that many bytes, for cells only.
  ConflictIndex(int64_t rows, int64_t bytes, int64_t pitch, int64_t cell_rows, int64_t cell_bytes);

  // Calls visit(instruction, writes) once for each earlier access that conflicts, then remembers the new one.
  template <typename Visit>
  void add(const Record& record, Visit&& visit);
  void clear();

 private:
  // A record in one cache line. What a register moves is kept apart: there is little of it.
  struct Entry {
    int64_t byte_begin = 0, byte_end = 0;
    int32_t row_begin = 0, row_end = 0;
    const Steps* steps = nullptr;
    uint32_t instruction = 0;
    int32_t element_bytes = 1;
    uint32_t moved = 0;  // 1 + index in moved_; 0: no register moves it
    uint32_t stamp = 0;  // last access that looked at it
    uint32_t cells = 0;  // cells that still list it; 0: free
    uint8_t stream = 0;
    bool dense = false, writes = false, in_order = false;
  };
  static Footprint footprint_of(const Record& record);
  Footprint footprint_of(const Entry& entry) const;
  bool overlap(const Record& a, const Entry& b) const {
    if (a.moved == nullptr && b.moved == 0) [[likely]] {
      if (a.row_end <= b.row_begin || b.row_end <= a.row_begin) return false;
      if (a.byte_end <= b.byte_begin || b.byte_end <= a.byte_begin) return false;
      if (a.dense || b.dense || a.steps == nullptr || b.steps == nullptr) return true;
    }
    return may_overlap(footprint_of(a), footprint_of(b));
  }
  bool covers(const Record& cover, const Entry& old) const {
    if (cover.moved != nullptr) return cover.moved->covers(footprint_of(old));
    const bool same = cover.steps != nullptr && cover.steps == old.steps &&
                      cover.element_bytes == old.element_bytes && cover.byte_begin == old.byte_begin;
    return cover.row_begin <= old.row_begin && old.row_end <= cover.row_end &&
           (same || (cover.solid() && cover.byte_begin <= old.byte_begin && old.byte_end <= cover.byte_end));
  }
  // In the order in which they were added.
  struct Cell {
    std::vector<uint32_t> all;
    std::vector<uint32_t> writes;  // those of `all` that write
  };
  struct CellRange {
    int64_t row_begin, row_end, column_begin, column_end;
  };
  CellRange cells_of(const Record& record) const;
  CellRange folded_cells_of(const Record& record) const;
  bool covers_in_cell(const Record& cover, const Entry& old, int64_t cell_row, int64_t cell_column) const;
  // Most cells have a size that is a power of two, and this is asked for at every access.
  struct Size {
    explicit Size(int64_t value)
        : value(value),
          shift(std::has_single_bit(static_cast<uint64_t>(value))
                    ? std::countr_zero(static_cast<uint64_t>(value))
                    : -1) {}
    // As division of what is not negative; of what is, some number below 1.
    int64_t cut(int64_t at) const { return shift >= 0 ? at >> shift : at / value; }
    int64_t value;
    int shift;
  };
  uint32_t allocate(const Record& record);
  void drop(uint32_t entry) {
    if (--entries_[entry].cells == 0) free_.push_back(entry);
  }

  int64_t pitch_;
  Size cell_rows_, cell_bytes_;
  int64_t columns_, rows_;
  std::vector<Cell> cells_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  std::vector<Footprint> moved_;
  uint32_t clock_ = 0;
};

inline ConflictIndex::CellRange ConflictIndex::cells_of(const Record& f) const {
  CellRange range = pitch_ > 0
                        ? folded_cells_of(f)
                        : CellRange{cell_rows_.cut(f.row_begin), cell_rows_.cut(f.row_end - 1) + 1,
                                    cell_bytes_.cut(f.byte_begin), cell_bytes_.cut(f.byte_end - 1) + 1};
  // A footprint beyond the memory is the checker's business; here it only must not write outside.
  range.row_begin = std::clamp<int64_t>(range.row_begin, 0, rows_);
  range.row_end = std::clamp<int64_t>(range.row_end, 0, rows_);
  range.column_begin = std::clamp<int64_t>(range.column_begin, 0, columns_);
  range.column_end = std::clamp<int64_t>(range.column_end, 0, columns_);
  return range;
}

inline bool ConflictIndex::covers_in_cell(const Record& cover, const Entry& old, int64_t cell_row,
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

// Field by field: what was just written must not be read again in pieces of another size.
inline uint32_t ConflictIndex::allocate(const Record& record) {
  uint32_t id = 0;
  if (free_.empty()) {
    id = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[id];
  entry.byte_begin = record.byte_begin;
  entry.byte_end = record.byte_end;
  entry.row_begin = record.row_begin;
  entry.row_end = record.row_end;
  entry.steps = record.steps;
  entry.instruction = record.instruction;
  entry.element_bytes = record.element_bytes;
  entry.moved = 0;
  if (record.moved != nullptr) [[unlikely]] {
    moved_.push_back(*record.moved);
    entry.moved = static_cast<uint32_t>(moved_.size());
  }
  entry.stamp = 0;
  entry.stream = record.stream;
  entry.dense = record.dense;
  entry.writes = record.writes;
  entry.in_order = record.in_order;
  return id;
}

template <typename Visit>
void ConflictIndex::add(const Record& record, Visit&& visit) {
  const CellRange range = cells_of(record);
  const uint32_t stamp = ++clock_;
  const uint32_t self = allocate(record);
  const Record& own = record;
  uint32_t cells = 0;
  for (int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (int64_t c = range.column_begin; c < range.column_end; ++c) {
      Cell& cell = cells_[static_cast<size_t>(r * columns_ + c)];
      const auto look = [&](Entry& entry) {
        if (entry.stamp == stamp || !(own.writes || entry.writes)) return;
        entry.stamp = stamp;
        if (overlap(own, entry)) visit(entry.instruction, entry.writes);
      };
      if (!own.writes && !own.in_order) {
        for (const uint32_t id : cell.writes) look(entries_[id]);
      } else {
        size_t kept = 0, kept_writes = 0;
        for (const uint32_t id : cell.all) {
          Entry& entry = entries_[id];
          look(entry);
          const bool replaces = own.writes || (!entry.writes && entry.in_order && entry.stream == own.stream);
          if (replaces && covers_in_cell(own, entry, r, c)) {
            drop(id);
            continue;
          }
          cell.all[kept++] = id;
          if (entry.writes) cell.writes[kept_writes++] = id;
        }
        cell.all.resize(kept);
        cell.writes.resize(kept_writes);
      }
      cell.all.push_back(self);
      if (own.writes) cell.writes.push_back(self);
      ++cells;
    }
  }
  entries_[self].cells = cells;
  if (cells == 0) free_.push_back(self);  // touches nothing
}

}  // namespace opentrn::backend
