// Transfers of a row-wise group that bring or take what several of its tiles need: of neighbouring columns,
// or of several parts of a source, such as heads of attention. A transfer takes a DMA engine 600 ns or more
// (dma_transfer_min_ns of the tables), in which it moves 1.3 KiB for each of its eight partitions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/prologue.h"
#include "compiler/lowering/tile_source.h"

namespace opentrn::compiler {

// Columns that are loaded and stored together, at least.
inline constexpr int64_t kTransferColumns = 1000;
// Where an address is computed: the unit that makes descriptors then is busy for as long as many columns
// move.
inline constexpr int64_t kMovedTransferColumns = 2048;

bool any_moved(const Emitter& emitter, const auto& matrices) {
  return std::ranges::any_of(matrices,
                             [&](const auto& each) { return emitter.is_moved(each.second.all().tensor); });
}

// How many parts of a source of `columns` move together: where each is one small tile, as many as make a
// transfer worth its time; a divisor of their number, so that they lie as regularly as all of them.
int64_t parts_in_a_transfer(const TileSource& source, int64_t columns, bool whole_rows);

class JointTransfers {
 public:
  using Key = std::pair<graph::ValueId, bool>;  // value, and whether a column op reads it

  explicit JointTransfers(Emitter& emitter) : emitter_(emitter) {}

  // The tiles that follow are of these columns.
  void begin_columns(const ColumnBlock& columns);
  // The tiles that follow are `count` parts of so many rows and all `columns`.
  void begin_parts(int64_t first_row, int64_t rows, int64_t count, int64_t columns);
  bool joins_parts() const { return parts_.count > 1; }
  // Stores what was computed since, at rows from `row` on.
  void store(const std::map<graph::ValueId, Matrix>& outputs, int64_t row);

  // Whether the tile `at` of an operand is a part of a longer transfer.
  bool joins(const Matrix& m, const Rectangle& at) const;
  // Likewise of a result, whose parts are all stored together or none is.
  bool joins_store(graph::ValueId value, const Matrix& m, const Rectangle& at) const;
  // The tile `at` of what is loaded, or will be stored.
  Tile loaded(const Key& key, const Matrix& m, const Rectangle& at);
  Tile stored(graph::ValueId value, const Matrix& m, const Rectangle& at);

 private:
  struct Parts {
    int64_t first_row = 0, rows = 0, count = 1, columns = 0;
  };
  Tile part(const Tile& all, const Rectangle& at) const;
  int64_t columns() const { return joins_parts() ? parts_.count * parts_.columns : columns_.count; }

  Emitter& emitter_;
  ColumnBlock columns_{0, 0};
  Parts parts_;
  std::map<Key, Tile> loads_;
  std::map<graph::ValueId, Tile> stores_;
};

}  // namespace opentrn::compiler
