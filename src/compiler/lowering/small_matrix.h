// Matrices that lie in one partition each, a batch over partitions: for the kernels of decompositions
// (small_lu.cc, small_factors.cc, small_qr.cc, small_rotations.cc). A step of elimination is then a few
// instructions on columns of a partition, with nothing to bring from one partition to another.
#pragma once

#include <algorithm>

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

// Rows and columns by steps over the columns of a tile.
class SmallMatrix {
 public:
  SmallMatrix(Tile tile, int64_t row_step, int64_t column_step, int64_t begin = 0)
      : tile_(std::move(tile)), begin_(begin), row_step_(row_step), column_step_(column_step) {}

  SmallMatrix transposed() const { return {tile_, column_step_, row_step_, begin_}; }
  // Of `rows` rows, or columns, the last one first.
  SmallMatrix rows_reversed(int64_t rows) const {
    return {tile_, -row_step_, column_step_, begin_ + (rows - 1) * row_step_};
  }
  SmallMatrix columns_reversed(int64_t columns) const {
    return {tile_, row_step_, -column_step_, begin_ + (columns - 1) * column_step_};
  }
  SmallMatrix as(DType other) const { return {tile_.as(other), row_step_, column_step_, begin_}; }

  // A part, row by row.
  Tile part(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    return tile_.patch(at(row, column), rows, row_step_, columns, column_step_);
  }
  // The same column by column.
  Tile transposed_part(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    return tile_.patch(at(row, column), columns, column_step_, rows, row_step_);
  }
  // `count` columns from `column` on, every second one.
  Tile every_second_column(int64_t row, int64_t rows, int64_t column, int64_t count) const {
    return tile_.patch(at(row, column), rows, row_step_, count, 2 * column_step_);
  }
  Tile element(int64_t row, int64_t column) const { return tile_.patch(at(row, column), 1, 0, 1, 1); }
  Tile row(int64_t row, int64_t column, int64_t columns) const {
    return tile_.patch(at(row, column), 1, 0, columns, column_step_);
  }
  Tile column(int64_t column, int64_t row, int64_t rows) const {
    return tile_.patch(at(row, column), 1, 0, rows, row_step_);
  }
  Tile diagonal(int64_t count) const { return tile_.patch(begin_, 1, 0, count, row_step_ + column_step_); }
  // For `rows` rows the same one, and for `columns` columns.
  Tile row_for(int64_t rows, int64_t row, int64_t column, int64_t columns) const {
    return tile_.patch(at(row, column), rows, 0, columns, column_step_);
  }
  Tile column_for(int64_t columns, int64_t column, int64_t row, int64_t rows) const {
    return tile_.patch(at(row, column), rows, row_step_, columns, 0);
  }

 private:
  int64_t at(int64_t row, int64_t column) const { return begin_ + row * row_step_ + column * column_step_; }

  Tile tile_;
  int64_t begin_, row_step_, column_step_;
};

// What such a kernel needs of the emitter, on tiles of `rows` partitions.
class SmallMatrixWork {
 public:
  SmallMatrixWork(Emitter& emitter, int64_t rows) : emitter_(emitter), rows_(rows) {}

  // Calls run(work, first) for each block of as many of `count` matrices as there are partitions.
  template <typename Run>
  static void each(Emitter& emitter, int64_t count, Run run) {
    for (int64_t first = 0; first < count; first += kPartitions)
      run(SmallMatrixWork(emitter, std::min(kPartitions, count - first)), first);
  }

  Tile fresh(int64_t columns, DType dtype = DType::kFloat32) const {
    return emitter_.sbuf(rows_, columns, dtype, "small_matrix");
  }
  // Room for a matrix whose rows follow each other.
  SmallMatrix matrix(int64_t rows, int64_t columns, DType dtype = DType::kFloat32) const {
    return {fresh(rows * columns, dtype), columns, 1};
  }
  // A tile of this kernel's own, as it is written to.
  Tile own(const Matrix& source, int64_t row) const;
  // 0, 1, 2, ... in every partition; `from`: lowering.counted(count).
  Tile counted(const View& from, int64_t count) const;
  // a[rows, columns] -= left[rows] right[columns], from (row, column) on: `left` is a column of `a` or of
  // another matrix, `right` a row, as parts for all of it.
  void subtract_product(const Tile& from, const Tile& left, const Tile& right, int64_t rows,
                        int64_t columns) const;

 private:
  Emitter& emitter_;
  int64_t rows_;
};

}  // namespace opentrn::compiler
