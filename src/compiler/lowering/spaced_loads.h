// Elements of memory that lie a few places apart, such as one coordinate of many points: loaded with what
// lies between them, and read where they are on chip. Each of them would be a descriptor of a transfer
// otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/prologue.h"

namespace opentrn::compiler {

// How far apart all elements are that the matrix shows; 0 where that is not one distance, or more than a few.
int64_t spacing_of(const Matrix& m);

// What lies between the value's elements was written before it: it is no part of a tensor whose other parts
// come later.
bool lies_in_a_whole(Lowering& lowering, graph::ValueId value);

// The elements as `rows` equal rows, whether they lie apart or one after the other.
Matrix in_equal_rows(const Matrix& m, int64_t rows, int64_t columns);

// Columns apart in memory that `rows` partitions get alike, picked on chip. Nothing where they are kept, not
// apart, too few, or too far from each other.
std::optional<Tile> spaced_columns(Lowering& lowering, graph::ValueId value, const Matrix& m, int64_t rows,
                                   int64_t column_begin, int64_t column_count);

// Tiles of matrices that in_equal_rows() made, of elements apart. Several that lie between one another are
// loaded once.
class SpacedLoads {
 public:
  explicit SpacedLoads(Lowering& lowering) : lowering_(lowering) {}

  // Nothing where the elements are not apart, or what lies behind the last one is no part of the tensor.
  std::optional<Tile> loaded(const Matrix& m, const Rectangle& at);

 private:
  Lowering& lowering_;
  std::map<std::tuple<isa::TensorId, int64_t, int64_t, int64_t, int64_t>, Tile> tiles_;
};

}  // namespace opentrn::compiler
