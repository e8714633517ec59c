// Finds, among the accesses made so far to one memory, those that a new access must come after.
//
// The memory is cut into cells (a row range by a byte range); each cell lists the accesses that touch it.
// A write that covers an older access inside a cell removes it there: whoever conflicts with the older
// one conflicts with the write too, and the write already comes after it. So cells stay short, and a pass
// over a program is near-linear.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/footprint.h"

namespace opentrn::backend {

struct Record {
  Footprint footprint;
  uint32_t instruction = 0;
  uint8_t stream = 0;
  bool writes = false;
  bool in_order = false;  // a later read of the same stream may stand for this read
};

class ConflictIndex {
 public:
  // `pitch` > 0 folds a flat memory into rows of that many bytes, for cells only.
  ConflictIndex(int64_t rows, int64_t bytes, int64_t pitch, int64_t cell_rows, int64_t cell_bytes);

  // Calls visit(record) once for each earlier access that conflicts, then remembers the new one.
  template <typename Visit>
  void add(const Record& record, Visit&& visit);
  void clear();

 private:
  struct Entry {
    Record record;
    uint32_t stamp = 0;  // last access that looked at it
    uint32_t cells = 0;  // cells that still list it; 0: free
  };
  struct CellRange {
    int64_t row_begin, row_end, column_begin, column_end;
  };
  CellRange cells_of(const Footprint& f) const;
  bool covers_in_cell(const Footprint& cover, const Footprint& old, int64_t cell_row,
                      int64_t cell_column) const;
  uint32_t allocate(const Record& record);
  void drop(uint32_t entry) {
    if (--entries_[entry].cells == 0) free_.push_back(entry);
  }

  int64_t pitch_, cell_rows_, cell_bytes_, columns_, rows_;
  std::vector<std::vector<uint32_t>> cells_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  uint32_t clock_ = 0;
};

template <typename Visit>
void ConflictIndex::add(const Record& record, Visit&& visit) {
  const CellRange range = cells_of(record.footprint);
  const uint32_t stamp = ++clock_;
  const uint32_t self = allocate(record);
  for (int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (int64_t c = range.column_begin; c < range.column_end; ++c) {
      std::vector<uint32_t>& cell = cells_[static_cast<size_t>(r * columns_ + c)];
      size_t kept = 0;
      for (const uint32_t id : cell) {
        Entry& entry = entries_[id];
        const Record& old = entry.record;
        const bool conflict = record.writes || old.writes;
        if (conflict && entry.stamp != stamp) {
          entry.stamp = stamp;
          if (may_overlap(record.footprint, old.footprint)) visit(old);
        }
        const bool replaces =
            record.writes || (!old.writes && old.in_order && record.in_order && old.stream == record.stream);
        if (replaces && covers_in_cell(record.footprint, old.footprint, r, c)) {
          drop(id);
        } else {
          cell[kept++] = id;
        }
      }
      cell.resize(kept);
      cell.push_back(self);
      ++entries_[self].cells;
    }
  }
  if (entries_[self].cells == 0) free_.push_back(self);  // touches nothing
}

}  // namespace opentrn::backend
