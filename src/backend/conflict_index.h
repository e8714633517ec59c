// Finds, among the accesses made so far to one memory, those that a new access must come after.
//
// The memory is cut into cells (a row range by a byte range); each cell holds the accesses that touch it.
// A write that covers an older access inside a cell removes it there: whoever conflicts with the older
// one conflicts with the write too, and the write already comes after it. So cells stay short, and a pass
// over a program is near-linear. Reads that nothing stands for, such as those of DMA, stay until something is
// written over them: other reads do not look at them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/footprint.h"

namespace opentrn::backend {

// An access: a footprint at its place in the memory. Every cell has its own, side by side with the others.
// Six words, so that those of the access at hand stay in registers: what was just written to memory piece by
// piece, and is read again in larger pieces, waits for the stores.
struct Record {
  // Of which nothing but the stream and how it is used may differ where two are of one place.
  struct Traits {
    uint16_t element_bytes = 1;
    bool dense = false;
    uint8_t stream = 0;
    bool writes = false;
    bool in_order = false;  // a later read of the same stream may stand for this read
  };

  Record() = default;
  Record(int64_t byte_begin, int64_t byte_end, const Steps* steps, int32_t row_begin, int32_t row_end,
         uint32_t instruction, Traits traits)
      : byte_begin(byte_begin),
        byte_end(byte_end),
        steps(steps),
        rows(static_cast<uint32_t>(row_begin) | uint64_t{static_cast<uint32_t>(row_end)} << 32),
        name(instruction),
        traits(traits.element_bytes | uint64_t{traits.dense} << 16 | uint64_t{traits.stream} << 24 |
               uint64_t{traits.writes} << 32 | uint64_t{traits.in_order} << 40) {}

  Record(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows, uint64_t name,
         uint64_t traits)
      : byte_begin(byte_begin), byte_end(byte_end), steps(steps), rows(rows), name(name), traits(traits) {}

  int32_t row_begin() const { return static_cast<int32_t>(rows); }
  int32_t row_end() const { return static_cast<int32_t>(rows >> 32); }
  uint32_t instruction() const { return static_cast<uint32_t>(name); }
  // For the index: which of the footprints that a register moves; 0: none.
  uint32_t moved() const { return static_cast<uint32_t>(name >> 32); }
  void set_moved(uint32_t number) { name = instruction() | uint64_t{number} << 32; }
  int32_t element_bytes() const { return static_cast<int32_t>(traits & 0xFFFF); }
  bool dense() const { return (traits >> 16 & 1) != 0; }
  uint8_t stream() const { return static_cast<uint8_t>(traits >> 24); }
  bool writes() const { return (traits >> 32 & 1) != 0; }
  bool in_order() const { return (traits >> 40 & 1) != 0; }

  bool solid() const { return moved() == 0 && (dense() || steps == nullptr); }
  // No register moves them, and they touch the same bytes.
  [[gnu::always_inline]] bool is_at_place_of(const Record& other) const {
    constexpr uint64_t kPlace = 0xFFFFFF;  // of the traits
    return byte_begin == other.byte_begin && byte_end == other.byte_end && steps == other.steps &&
           rows == other.rows && ((traits ^ other.traits) & kPlace) == 0 && ((name | other.name) >> 32) == 0;
  }

  // As the next access of the memory, behind `other`, which writes: nobody else came between.
  [[gnu::always_inline]] bool writes_again(const Record& other) const {
    return in_order() && traits == other.traits && is_at_place_of(other);
  }

  int64_t byte_begin, byte_end;
  const Steps* steps;
  uint64_t rows, name, traits;
};

// Where lists of records grow.
class RecordArena {
 public:
  Record* take(size_t count);

 private:
  std::vector<std::unique_ptr<Record[]>> chunks_;
  size_t left_ = 0, chunk_ = 64;
  Record* next_ = nullptr;
};

class RecordList {
 public:
  Record* begin() { return data_; }
  Record* end() { return data_ + size_; }
  [[gnu::always_inline]] void push_back(Record record, RecordArena& arena) {
    if (size_ == capacity_) [[unlikely]]
      grow(arena);
    data_[size_++] = record;
  }
  void cut_at(const Record* end) { size_ = static_cast<uint32_t>(end - data_); }
  void clear() { size_ = 0; }

 private:
  void grow(RecordArena& arena);

  Record* data_ = nullptr;
  uint32_t size_ = 0, capacity_ = 0;
};

class ConflictIndex {
 public:
  // `pitch` > 0 folds a flat memory into rows of that many bytes, for cells only. `arena` outlives the index.
  ConflictIndex(RecordArena& arena, int64_t rows, int64_t bytes, int64_t pitch, int64_t cell_rows,
                int64_t cell_bytes);

  // Calls visit(earlier) for each earlier access that conflicts, once in each cell that both touch, then
  // remembers the new one. `moved`: the same access where a register moves it, else null.
  // Part of its caller, so that the words of the new one stay in registers.
  template <typename Visit>
  [[gnu::always_inline]] inline void add(Record record, const Footprint* moved, Visit&& visit);
  void clear();

 private:
  struct Cell {
    RecordList writes, reads;
  };
  struct CellRange {
    int64_t row_begin, row_end, column_begin, column_end;
  };
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

  template <bool kFolded>
  [[gnu::always_inline]] CellRange cells_of(Record record) const;
  CellRange folded_cells_of(Record record) const;
  Footprint footprint_of(Record record) const;
  [[gnu::always_inline]] bool overlap(Record a, const Record& b) const {
    if (((a.name | b.name) >> 32) == 0) [[likely]] {
      if (a.row_end() <= b.row_begin() || b.row_end() <= a.row_begin()) return false;
      if (a.byte_end <= b.byte_begin || b.byte_end <= a.byte_begin) return false;
      if (a.dense() || b.dense() || a.steps == nullptr || b.steps == nullptr) return true;
    }
    return may_overlap_inside(a, b);
  }
  bool may_overlap_inside(Record a, Record b) const;
  // Whether who conflicts with `old` inside this cell conflicts with `cover` too.
  template <bool kFolded>
  [[gnu::always_inline]] bool covers(Record cover, const Record& old, int64_t cell_row,
                                     int64_t cell_column) const {
    if (!cover.solid()) [[unlikely]]
      return covers_with_steps(cover, old);
    int64_t row_begin = old.row_begin(), row_end = old.row_end();
    int64_t byte_begin = old.byte_begin, byte_end = old.byte_end;
    if (!kFolded) {
      row_begin = std::max(row_begin, cell_row * cell_rows_.value);
      row_end = std::min(row_end, (cell_row + 1) * cell_rows_.value);
      byte_begin = std::max(byte_begin, cell_column * cell_bytes_.value);
      byte_end = std::min(byte_end, (cell_column + 1) * cell_bytes_.value);
    }
    return cover.row_begin() <= row_begin && row_end <= cover.row_end() && cover.byte_begin <= byte_begin &&
           byte_end <= cover.byte_end;
  }
  bool covers_with_steps(Record cover, Record old) const;
  // The words of a record one by one, which keeps them in registers.
  template <bool kFolded, typename Visit>
  [[gnu::noinline]] void write(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows,
                               uint64_t name, uint64_t traits, Visit& visit);
  template <bool kFolded, typename Visit>
  [[gnu::noinline]] void read(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows,
                              uint64_t name, uint64_t traits, Visit& visit);
  template <bool kFolded, typename Visit>
  [[gnu::always_inline]] inline void write_over(RecordList& list, Record own, int64_t cell_row,
                                                int64_t cell_column, Visit& visit);
  template <bool kFolded>
  [[gnu::always_inline]] inline uint32_t read_again(RecordList& reads, Record own, int64_t cell_row,
                                                    int64_t cell_column);

  RecordArena& arena_;
  int64_t pitch_;
  Size cell_rows_, cell_bytes_;
  int64_t columns_, rows_;
  std::vector<Cell> cells_;
  std::vector<Footprint> moved_;
  Record* last_ = nullptr;  // of the last access, where that was a write in one cell
};

template <bool kFolded>
inline ConflictIndex::CellRange ConflictIndex::cells_of(Record f) const {
  CellRange range = kFolded ? folded_cells_of(f)
                            : CellRange{cell_rows_.cut(f.row_begin()), cell_rows_.cut(f.row_end() - 1) + 1,
                                        cell_bytes_.cut(f.byte_begin), cell_bytes_.cut(f.byte_end - 1) + 1};
  const bool is_inside =
      (range.row_begin | range.column_begin) >= 0 && range.row_end <= rows_ && range.column_end <= columns_;
  if (is_inside) [[likely]]
    return range;
  // A footprint beyond the memory is the checker's business; here it only must not write outside.
  range.row_begin = std::clamp<int64_t>(range.row_begin, 0, rows_);
  range.row_end = std::clamp<int64_t>(range.row_end, 0, rows_);
  range.column_begin = std::clamp<int64_t>(range.column_begin, 0, columns_);
  range.column_end = std::clamp<int64_t>(range.column_end, 0, columns_);
  return range;
}

// What is left of the list when `own` was written.
template <bool kFolded, typename Visit>
inline void ConflictIndex::write_over(RecordList& list, Record own, int64_t cell_row, int64_t cell_column,
                                      Visit& visit) {
  Record* kept = list.begin();
  for (Record* old = kept; old != list.end(); ++old) {
    if (own.is_at_place_of(*old)) {
      visit(*old);
      continue;
    }
    if (overlap(own, *old)) visit(*old);
    if (covers<kFolded>(own, *old, cell_row, cell_column)) continue;
    if (kept != old) *kept = *old;
    ++kept;
  }
  list.cut_at(kept);
}

// `own` takes the place of the reads of its stream that it stands for. The instruction of one of the same
// place, if there is one, else 0: what that came after, the new one comes after too.
template <bool kFolded>
inline uint32_t ConflictIndex::read_again(RecordList& reads, Record own, int64_t cell_row,
                                          int64_t cell_column) {
  Record* kept = reads.begin();
  for (Record* old = kept; old != reads.end(); ++old) {
    if (old->in_order() && old->stream() == own.stream()) {
      if (kept == old && own.is_at_place_of(*old)) {
        const uint32_t before = old->instruction();
        old->name = own.name;
        return before;
      }
      if (covers<kFolded>(own, *old, cell_row, cell_column)) continue;
    }
    if (kept != old) *kept = *old;
    ++kept;
  }
  reads.cut_at(kept);
  reads.push_back(own, arena_);
  return 0;
}

template <typename Visit>
inline void ConflictIndex::add(Record own, const Footprint* moved, Visit&& visit) {
  if (last_ != nullptr && own.writes_again(*last_)) {
    visit(*last_);
    last_->name = own.name;
    return;
  }
  last_ = nullptr;
  if (moved != nullptr) [[unlikely]] {
    moved_.push_back(*moved);
    own.set_moved(static_cast<uint32_t>(moved_.size()));
  }
  const auto [byte_begin, byte_end, steps, rows, name, traits] = own;
  if (pitch_ > 0) {
    if (own.writes())
      write<true>(byte_begin, byte_end, steps, rows, name, traits, visit);
    else
      read<true>(byte_begin, byte_end, steps, rows, name, traits, visit);
  } else {
    if (own.writes())
      write<false>(byte_begin, byte_end, steps, rows, name, traits, visit);
    else
      read<false>(byte_begin, byte_end, steps, rows, name, traits, visit);
  }
}

template <bool kFolded, typename Visit>
void ConflictIndex::write(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows,
                          uint64_t name, uint64_t traits, Visit& visit) {
  const Record own(byte_begin, byte_end, steps, rows, name, traits);
  const CellRange range = cells_of<kFolded>(own);
  for (int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (int64_t c = range.column_begin; c < range.column_end; ++c) {
      Cell& cell = cells_[static_cast<size_t>(r * columns_ + c)];
      write_over<kFolded>(cell.writes, own, r, c, visit);
      write_over<kFolded>(cell.reads, own, r, c, visit);
      cell.writes.push_back(own, arena_);
      last_ = cell.writes.end() - 1;
    }
  }
  if (range.row_end - range.row_begin != 1 || range.column_end - range.column_begin != 1) last_ = nullptr;
}

template <bool kFolded, typename Visit>
void ConflictIndex::read(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows,
                         uint64_t name, uint64_t traits, Visit& visit) {
  const Record own(byte_begin, byte_end, steps, rows, name, traits);
  const CellRange range = cells_of<kFolded>(own);
  for (int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (int64_t c = range.column_begin; c < range.column_end; ++c) {
      Cell& cell = cells_[static_cast<size_t>(r * columns_ + c)];
      uint32_t seen = 0;  // instructions before this one were come after before
      if (own.in_order())
        seen = read_again<kFolded>(cell.reads, own, r, c);
      else
        cell.reads.push_back(own, arena_);
      for (const Record& old : cell.writes)
        if (old.instruction() >= seen && overlap(own, old)) visit(old);
    }
  }
}

}  // namespace opentrn::backend
