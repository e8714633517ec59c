// A view by rows and columns, each a list of dimensions; tiles are loaded from and stored to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

class Matrix {
 public:
  Matrix() = default;
  // The first `row_rank` dimensions of the view go over rows.
  Matrix(const View& view, int row_rank);
  Matrix(const View& base, std::vector<isa::Dim> row_dims, std::vector<isa::Dim> column_dims);

  DType dtype() const { return base_.dtype; }
  int64_t rows() const;
  int64_t columns() const;
  const std::vector<isa::Dim>& row_dims() const { return row_dims_; }
  const std::vector<isa::Dim>& column_dims() const { return column_dims_; }
  bool same_in_every_row() const { return all_still(row_dims_); }
  bool same_in_every_column() const { return all_still(column_dims_); }
  // Elements lie one after another in memory along the columns (rows).
  bool columns_are_runs() const { return !column_dims_.empty() && column_dims_.back().step == 1; }
  bool rows_are_runs() const { return !row_dims_.empty() && row_dims_.back().step == 1; }
  // Every element, rows outermost.
  View all() const;
  Matrix transposed() const { return {base_, column_dims_, row_dims_}; }
  Matrix moved(int64_t elements) const;
  // Columns of several matrices like this one, that many, each so many elements after the one before.
  Matrix beside(isa::Dim matrices) const;
  // Rows [row, row + rows * count) as `count` blocks of so many rows that lie side by side: a matrix of
  // `rows` rows, the columns of one block after those of the other. nullopt where the rows are not as
  // regular.
  std::optional<Matrix> blocks_beside(int64_t row, int64_t rows, int64_t count) const;
  // Rows [row, row + runs * count) as `runs` rows, each of so many that follow each other, with their
  // columns.
  std::optional<Matrix> runs_of_rows(int64_t row, int64_t runs, int64_t count) const;

  // tile: row_count x column_count, of the matrix's dtype or another that DMA converts to.
  void load(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin) const;
  // Rows from row_begin on, kPartitions at a time next to each other in one transfer. False, and nothing is
  // loaded, where rows are not one step apart or columns are not one box.
  bool load_blocks(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin,
                   int64_t column_count) const;
  // load(), all of it `offset` elements further on; the register holds a number in [0, bound).
  void load_at(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin,
               isa::RegisterId offset, int64_t bound) const;
  void store_at(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin,
                isa::RegisterId offset, int64_t bound) const;
  // The elements as a tile: the one they are kept in, or a new one that is loaded.
  Tile fetch(Emitter& emitter, int64_t row_begin, int64_t row_count, int64_t column_begin,
             int64_t column_count, const std::string& name) const;
  // Only where they are kept, and begin at partition 0 if `first_partition`.
  std::optional<Tile> kept(Emitter& emitter, int64_t row_begin, int64_t row_count, int64_t column_begin,
                           int64_t column_count, bool first_partition) const;
  void store(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin) const;

 private:
  static bool all_still(const std::vector<isa::Dim>& dims);
  template <typename Transfer>
  void for_parts(const Tile& tile, int64_t row_begin, int64_t column_begin, Transfer&& transfer) const;

  View base_;  // without dimensions
  std::vector<isa::Dim> row_dims_, column_dims_;
};

// Numbers that lie one after another, kPartitions in each of `blocks` columns: loaded as long runs and
// transposed on chip.
Tile load_transposed(Emitter& emitter, const View& numbers, int64_t blocks);

}  // namespace opentrn::compiler
