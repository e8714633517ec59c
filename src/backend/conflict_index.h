// Finds, among the accesses made so far to one memory, those that a new access must come after.
//
// The memory is cut into cells (a row range by a byte range); each cell lists the accesses that touch it.
// A write that covers an older access inside a cell removes it there: whoever conflicts with the older
// one conflicts with the write too, and the write already comes after it. So cells stay short, and a pass
// over a program is near-linear. Reads that nothing stands for, such as those of DMA, stay until something is
// written over them: other reads do not look at them.
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
  // In the order in which they were added.
  struct Cell {
    std::vector<uint32_t> all;
    std::vector<uint32_t> writes;  // those of `all` that write
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
  std::vector<Cell> cells_;
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
      Cell& cell = cells_[static_cast<size_t>(r * columns_ + c)];
      const auto look = [&](uint32_t id) {
        Entry& entry = entries_[id];
        const Record& old = entry.record;
        if (entry.stamp == stamp || !(record.writes || old.writes)) return;
        entry.stamp = stamp;
        if (may_overlap(record.footprint, old.footprint)) visit(old);
      };
      if (!record.writes && !record.in_order) {
        for (const uint32_t id : cell.writes) look(id);
      } else {
        const auto replaced = [&](uint32_t id) {
          const Record& old = entries_[id].record;
          const bool replaces = record.writes || (!old.writes && old.in_order && old.stream == record.stream);
          return replaces && covers_in_cell(record.footprint, old.footprint, r, c);
        };
        size_t kept = 0, kept_writes = 0;
        for (const uint32_t id : cell.all) {
          look(id);
          if (replaced(id)) {
            drop(id);
            continue;
          }
          cell.all[kept++] = id;
          if (entries_[id].record.writes) cell.writes[kept_writes++] = id;
        }
        cell.all.resize(kept);
        cell.writes.resize(kept_writes);
      }
      cell.all.push_back(self);
      if (record.writes) cell.writes.push_back(self);
      ++entries_[self].cells;
    }
  }
  if (entries_[self].cells == 0) free_.push_back(self);  // touches nothing
}

}  // namespace opentrn::backend
