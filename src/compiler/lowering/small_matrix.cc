#include "compiler/lowering/small_matrix.h"

namespace opentrn::compiler {

Tile SmallMatrixWork::own(const Matrix& source, int64_t row) const {
  const Tile tile = fresh(source.columns(), source.dtype());
  if (const auto kept = source.kept(emitter_, row, rows_, 0, source.columns(), false))
    emitter_.tensor_copy(tile, *kept);
  else
    source.load(emitter_, tile, row, 0);
  return tile;
}

Tile SmallMatrixWork::counted(const View& from, int64_t count) const {
  const Tile tile = fresh(count);
  Matrix(from, {{0, rows_}}, {{1, count}}).load(emitter_, tile, 0, 0);
  return tile;
}

void SmallMatrixWork::subtract_product(const Tile& from, const Tile& left, const Tile& right, int64_t rows,
                                       int64_t columns) const {
  const Tile product = fresh(rows * columns).patch(0, rows, columns, columns, 1);
  emitter_.tensor_tensor(AluOp::kMultiply, product, left, right);
  emitter_.tensor_tensor(AluOp::kSubtract, from, from, product);
}

}  // namespace opentrn::compiler
