// Finds, among the accesses made so far to one memory, those that a new access must come after.
//
// The memory is cut into cells (a row range by a byte range); each cell holds the accesses that touch it.
// A write that covers an older access inside a cell removes it there: whoever conflicts with the older
// one conflicts with the write too, and the write already comes after it. So cells stay short, and a pass
// over a program is near-linear. Reads that nothing stands for, such as those of DMA, stay until something is
// written over them: other reads do not look at them.
//
// A read of what its stream read before, where nothing was written since, comes after nothing new: it takes
// the place of the one before in all cells by one store, as reads are named through one table.
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
  // Of a read in a cell: where the index has the instruction's number.
  uint32_t title() const { return static_cast<uint32_t>(name); }
  void set_title(uint32_t title) { name = title | uint64_t{moved()} << 32; }
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
  // Cells take all rows of the memory and so many bytes. `arena` outlives the index.
  ConflictIndex(RecordArena& arena, int64_t bytes, int64_t cell_bytes)
      : ConflictIndex(arena, bytes, 0, 1, cell_bytes) {}
  // `pitch` > 0 folds a flat memory into rows of that many bytes, of which a cell takes some; for cells only.
  ConflictIndex(RecordArena& arena, int64_t bytes, int64_t pitch, int64_t cell_rows, int64_t cell_bytes);

  // Where a read that was added is found again: in which cells, as of which state of them.
  struct Again {
    uint32_t cell : 28 = 0, count : 4 = 0;  // cells side by side; none: it cannot be found
    uint32_t version = 0, title = 0;
  };

  // Calls visit(instruction, stream, writes) for each earlier access that conflicts, once in each cell that
  // both touch, then remembers the new one. `moved`: the same access where a register moves it, else null.
  // `again`: where a read of a stream that keeps its order will be found.
  // Part of its caller, so that the words of the new one stay in registers.
  template <typename Visit>
  [[gnu::always_inline]] inline void add(Record record, const Footprint* moved, Visit&& visit,
                                         Again* again = nullptr);
  // Adds a read of the same place by the same stream, if that comes after nothing new.
  [[gnu::always_inline]] bool read_again(const Again& again, uint32_t instruction) {
    if (again.count == 0) return false;
    const uint32_t* versions = versions_.data() + again.cell;
    uint32_t version = versions[0];
    for (uint32_t c = 1; c < again.count; ++c) version += versions[c];
    if (version != again.version) return false;
    instructions_[again.title] = instruction;
    return true;
  }
  // The last access was a write: adds one of the same place by the same stream, and returns who wrote before.
  // kNone where that is not to be seen.
  static constexpr uint32_t kNone = UINT32_MAX;
  [[gnu::always_inline]] uint32_t write_again(uint32_t instruction) {
    if (last_ == nullptr || last_->moved() != 0) return kNone;
    const uint32_t before = last_->instruction();
    last_->name = instruction;
    ++versions_[last_cell_];
    return before;
  }
  void clear();

 private:
  struct Cell {
    RecordList writes, reads;
  };
  static constexpr uint32_t kFoundAgainMax = 8;                // cells of a read
  static constexpr size_t kCellsFoundAgain = size_t{1} << 28;  // and all cells
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
  Footprint footprint_of(const Record& record) const;
  [[gnu::always_inline]] bool overlap(const Record& a, const Record& b) const {
    if (((a.name | b.name) >> 32) == 0) [[likely]] {
      if (a.row_end() <= b.row_begin() || b.row_end() <= a.row_begin()) return false;
      if (a.byte_end <= b.byte_begin || b.byte_end <= a.byte_begin) return false;
      if (a.dense() || b.dense() || a.steps == nullptr || b.steps == nullptr) return true;
    }
    return may_overlap_inside(a, b);
  }
  bool may_overlap_inside(const Record& a, const Record& b) const;
  // Whether who conflicts with `old` inside this cell conflicts with `cover` too.
  template <bool kFolded>
  [[gnu::always_inline]] bool covers(const Record& cover, const Record& old, int64_t cell_column) const {
    if (!cover.solid()) [[unlikely]]
      return covers_with_steps(cover, old);
    int64_t byte_begin = old.byte_begin, byte_end = old.byte_end;
    if (!kFolded) {
      byte_begin = std::max(byte_begin, cell_column * cell_bytes_.value);
      byte_end = std::min(byte_end, (cell_column + 1) * cell_bytes_.value);
    }
    return cover.row_begin() <= old.row_begin() && old.row_end() <= cover.row_end() &&
           cover.byte_begin <= byte_begin && byte_end <= cover.byte_end;
  }
  bool covers_with_steps(const Record& cover, const Record& old) const;
  // The words of a record one by one, which keeps them in registers.
  template <bool kFolded, typename Visit>
  [[gnu::noinline]] void write(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows,
                               uint64_t name, uint64_t traits, Visit& visit);
  template <bool kFolded, typename Visit>
  [[gnu::noinline]] void read(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows,
                              uint64_t name, uint64_t traits, Visit& visit, Again* again);
  template <bool kFolded, bool kReads, typename Visit>
  [[gnu::always_inline]] inline void write_over(RecordList& list, const Record& own, int64_t cell_column,
                                                Visit& visit);
  template <bool kFolded>
  [[gnu::always_inline]] inline Record* read_over(size_t cell, const Record& own, int64_t cell_column);
  void rename_reads(CellRange range, Record own);

  RecordArena& arena_;
  int64_t pitch_;
  Size cell_rows_, cell_bytes_;
  int64_t columns_, rows_;
  std::vector<Cell> cells_;
  // By cell: counts up where something is written, and where a read goes or gets another title.
  std::vector<uint32_t> versions_;
  std::vector<uint32_t> instructions_;  // of reads, by title
  std::vector<Footprint> moved_;
  Record* last_ = nullptr;  // of the last access, where that was a write in one cell
  size_t last_cell_ = 0;    // and its cell
};

template <bool kFolded>
inline ConflictIndex::CellRange ConflictIndex::cells_of(Record f) const {
  CellRange range = kFolded
                        ? folded_cells_of(f)
                        : CellRange{0, 1, cell_bytes_.cut(f.byte_begin), cell_bytes_.cut(f.byte_end - 1) + 1};
  const bool is_inside = (range.row_begin | range.column_begin) >= 0 &&
                         (!kFolded || range.row_end <= rows_) && range.column_end <= columns_;
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
template <bool kFolded, bool kReads, typename Visit>
inline void ConflictIndex::write_over(RecordList& list, const Record& own, int64_t cell_column,
                                      Visit& visit) {
  const auto visit_old = [&](const Record& old) {
    visit(kReads ? instructions_[old.title()] : old.instruction(), old.stream(), !kReads);
  };
  Record* kept = list.begin();
  for (Record* old = kept; old != list.end(); ++old) {
    if (own.is_at_place_of(*old)) {
      visit_old(*old);
      continue;
    }
    if (overlap(own, *old)) visit_old(*old);
    if (covers<kFolded>(own, *old, cell_column)) continue;
    if (kept != old) *kept = *old;
    ++kept;
  }
  list.cut_at(kept);
}

// `own` takes the place of the reads of its stream that it stands for. The one of the same place, if that is
// there, which stays as it is; else null, and `own` is in the list.
template <bool kFolded>
inline Record* ConflictIndex::read_over(size_t cell, const Record& own, int64_t cell_column) {
  RecordList& reads = cells_[cell].reads;
  Record* kept = reads.begin();
  for (Record* old = kept; old != reads.end(); ++old) {
    if (old->in_order() && old->stream() == own.stream()) {
      if (kept == old && own.is_at_place_of(*old)) return old;
      if (covers<kFolded>(own, *old, cell_column)) continue;
    }
    if (kept != old) *kept = *old;
    ++kept;
  }
  if (kept != reads.end()) ++versions_[cell];
  reads.cut_at(kept);
  reads.push_back(own, arena_);
  return nullptr;
}

template <typename Visit>
inline void ConflictIndex::add(Record own, const Footprint* moved, Visit&& visit, Again* again) {
  if (last_ != nullptr && own.writes_again(*last_)) {
    visit(last_->instruction(), last_->stream(), true);
    last_->name = own.name;
    ++versions_[last_cell_];
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
      read<true>(byte_begin, byte_end, steps, rows, name, traits, visit, again);
  } else {
    if (own.writes())
      write<false>(byte_begin, byte_end, steps, rows, name, traits, visit);
    else
      read<false>(byte_begin, byte_end, steps, rows, name, traits, visit, again);
  }
}

template <bool kFolded, typename Visit>
void ConflictIndex::write(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows,
                          uint64_t name, uint64_t traits, Visit& visit) {
  const Record own(byte_begin, byte_end, steps, rows, name, traits);
  const CellRange range = cells_of<kFolded>(own);
  for (int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (int64_t c = range.column_begin; c < range.column_end; ++c) {
      const auto at = static_cast<size_t>(r * columns_ + c);
      Cell& cell = cells_[at];
      ++versions_[at];
      write_over<kFolded, false>(cell.writes, own, c, visit);
      write_over<kFolded, true>(cell.reads, own, c, visit);
      cell.writes.push_back(own, arena_);
      last_ = cell.writes.end() - 1;
      last_cell_ = at;
    }
  }
  if (range.row_end - range.row_begin != 1 || range.column_end - range.column_begin != 1) last_ = nullptr;
}

template <bool kFolded, typename Visit>
void ConflictIndex::read(int64_t byte_begin, int64_t byte_end, const Steps* steps, uint64_t rows,
                         uint64_t name, uint64_t traits, Visit& visit, Again* again) {
  const auto fresh = static_cast<uint32_t>(instructions_.size());
  Record own(byte_begin, byte_end, steps, rows, name, traits);
  const uint32_t instruction = own.instruction();
  own.set_title(fresh);
  const CellRange range = cells_of<kFolded>(own);
  uint32_t title = fresh;  // that all cells have, where they have one
  bool is_added = false, is_renamed = false;
  for (int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (int64_t c = range.column_begin; c < range.column_end; ++c) {
      const auto at = static_cast<size_t>(r * columns_ + c);
      uint32_t seen = 0;  // instructions before this one were come after before
      if (!own.in_order()) {
        cells_[at].reads.push_back(own, arena_);
        is_added = true;
      } else if (const Record* same = read_over<kFolded>(at, own, c)) {
        seen = instructions_[same->title()];
        is_renamed = is_renamed || (title != fresh && title != same->title());
        title = same->title();
      } else {
        is_added = true;
      }
      for (const Record& old : cells_[at].writes)
        if (old.instruction() >= seen && overlap(own, old)) visit(old.instruction(), old.stream(), true);
    }
  }
  if (is_added || is_renamed) {
    instructions_.push_back(instruction);
    if (title != fresh) rename_reads(range, own);
    title = fresh;
  } else if (title != fresh) {
    instructions_[title] = instruction;
  }
  const auto count = static_cast<uint32_t>(range.column_end - range.column_begin);
  if (again == nullptr || range.row_end - range.row_begin != 1 || count > kFoundAgainMax) return;
  const auto first = static_cast<size_t>(range.row_begin * columns_ + range.column_begin);
  if (first + count > kCellsFoundAgain) return;
  again->cell = static_cast<uint32_t>(first);
  again->count = count;
  again->title = title;
  uint32_t version = 0;
  for (size_t c = first; c < first + count; ++c) version += versions_[c];
  again->version = version;
}

}  // namespace opentrn::backend
