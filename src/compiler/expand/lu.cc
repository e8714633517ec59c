#include "compiler/expand/lu.h"

#include <algorithm>
#include <limits>

namespace opentrn::compiler {

namespace {

// [batch, 1, 1], i32: the row of the largest entry of a column from `first` on, |re| + |im| of complex
// numbers; the first NaN where there is one.
Batch greatest(const Batch& column, const Batch& rows, const Batch& first) {
  Batch size = column.is_complex() ? column.real().abs() + column.imag().abs() : column.abs();
  size = size.where(rows >= first, -1);
  const Batch is_nan = size != size;
  const Batch best =
      size.number(std::numeric_limits<double>::infinity(), size.dims()).where(is_nan, size).max(1);
  const Batch none = rows.number(static_cast<double>(column.dim(1)), {});
  return rows.spread(size.dims()).where((size == best) | is_nan, none).min(1);
}

}  // namespace

Elimination eliminated(const Batch& a, bool pivots) {
  const int64_t batch = a.dim(0), count = std::min(a.dim(1), a.dim(2));
  const Batch rows = a.places({1, a.dim(1), 1}, 1), columns = a.places({1, 1, a.dim(2)}, 2);
  const Batch places = a.places({1, 1, count}, 2);
  const auto step = [&](const Batch& i, const std::vector<Batch>& state) -> std::vector<Batch> {
    Batch matrix = state[0];
    const Batch here = i.spread({batch, 1, 1});
    const Batch chosen = pivots ? greatest(matrix.at(i, 2), rows, i) : here;
    // Where nothing is chosen there may be infinities: a sum of what is selected, not a product.
    const Batch row = matrix.at(i, 1), other = matrix.where(rows == chosen, 0).sum(1);
    matrix = other.where(rows == i, row.where(rows == chosen, matrix));
    const Batch top = other.at(i, 2), is_zero = top == 0;
    const Batch quotient = matrix.at(i, 2) / top.number(1, top.dims()).where(is_zero, top);
    const Batch factors = quotient.where(rows > i, 0);
    matrix = (matrix - factors * other).where((rows > i) & (columns > i), matrix);
    matrix = factors.where((rows > i) & (columns == i), matrix);
    const Batch next = here + 1, is_first = is_zero & (state[2] == 0);
    const Batch from = state[3].where(rows == chosen, 0).sum(1);
    const Batch order = from.where(rows == i, state[3].at(i, 1).where(rows == chosen, state[3]));
    return {matrix, (chosen + 1).where(places == i, state[1]), next.where(is_first, state[2]), order};
  };
  const std::vector<Batch> made = loop(count,
                                       {a, places.number(0, {batch, 1, count}),
                                        places.number(0, {batch, 1, 1}), rows.spread({batch, a.dim(1), 1})},
                                       step);
  return {made[0], made[1], made[3], made[2]};
}

}  // namespace opentrn::compiler
