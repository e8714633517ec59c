#include "compiler/expand/lu.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/takes.h"

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

// Column by column, each step over the whole matrix.
Elimination by_columns(const Batch& a, bool pivots) {
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

// Columns of a block. Half of what a step of the kernel reads is columns of the block that are done, so that
// more blocks are faster than wide ones, until what stands between them takes as long.
constexpr int64_t kPanelColumns = 16, kPanelColumnsLeast = 8, kLoopColumns = 64;

// Of fp32 as many columns as the kernel takes of so many rows; of other numbers, and of more rows, those of a
// loop.
int64_t panel_columns(const Batch& a) {
  const int64_t most = kSmallMatrixElements / a.dim(1) - 1;
  const bool has_kernel = a.element() == ElementType::kF32 && most >= kPanelColumnsLeast;
  return has_kernel ? std::min(most, kPanelColumns) : kLoopColumns;
}

// The kernel of small matrices.
Elimination by_kernel(const Batch& a, bool pivots) {
  const int64_t batch = a.dim(0), count = std::min(a.dim(1), a.dim(2));
  graph::Builder& builder = a.writer().builder();
  const auto whole = [&](Dims dims) { return Type::tensor(ElementType::kI32, std::move(dims)); };
  const graph::OpId made = builder.add_with_regions(
      OpKind::custom_call_, {a.id()},
      {{Attr::call_target_name, Attribute(std::string("opentrn.getrf"))},
       {Attr::backend_config, Attribute(std::string(pivots ? "permutation" : "permutation no_pivot"))}},
      {a.type(), whole({batch, count}), whole({batch}), whole({batch, a.dim(1)})}, {});
  const auto result = [&](size_t i) { return Batch(a.writer(), builder.function().op(made).results[i]); };
  return {result(0), result(1).reshape({batch, 1, count}), result(3).reshape({batch, a.dim(1), 1}),
          result(2).reshape({batch, 1, 1})};
}

Elimination panel(const Batch& a, bool pivots) {
  const bool has_kernel =
      a.element() == ElementType::kF32 && a.dim(1) * (a.dim(2) + 1) <= kSmallMatrixElements;
  return has_kernel ? by_kernel(a, pivots) : by_columns(a, pivots);
}

// As LAPACK's getrf: block by block from the left, each taken from what is left of the matrix.
class Blocks {
 public:
  Blocks(const Batch& a, bool exchanges)
      : exchanges_(exchanges),
        left_(a),
        // The number of each row goes along as a number of the matrix, which is exact.
        before_(a.places({1, a.dim(1), 1}, 1).as(a.element()).spread({a.dim(0), a.dim(1), 1})) {}

  Elimination run() {
    const int64_t count = std::min(left_.dim(1), left_.dim(2)), width = panel_columns(left_);
    const bool is_tall = left_.dim(1) > count;
    while (done_ < count) step(std::min(width, count - done_));
    if (is_tall) {
      rows_.push_back(before_.part(2, 1, 1 + done_));
      orders_.push_back(before_.part(2, 0, 1));
    }
    return {joined(rows_, 1), joined(pivots_, 2), joined(orders_, 1).real().as(ElementType::kI32), *info_};
  }

 private:
  void step(int64_t width) {
    const int64_t rows = left_.dim(1), right_columns = left_.dim(2) - width, known = 1 + done_;
    const Elimination lu = panel(left_.part(2, 0, width), exchanges_);
    Batch others =
        right_columns > 0 ? before_.beside(left_.part(2, width, width + right_columns), 2) : before_;
    if (exchanges_) others = others.rows_taken(lu.order);
    const Batch top = lu.packed.part(1, 0, width), above = others.part(1, 0, width);
    std::vector<Batch> row{above.part(2, 1, known), top};
    if (done_ == 0) row.erase(row.begin());
    if (right_columns > 0)
      row.push_back(top.solved_with_ones(above.part(2, known, known + right_columns), /*lower=*/true));
    rows_.push_back(joined(row, 2));
    orders_.push_back(above.part(2, 0, 1));
    note(lu);
    done_ += width;
    if (rows == width) return;
    const Batch bottom = lu.packed.part(1, width, rows), below = others.part(1, width, rows);
    before_ = below.part(2, 0, known).beside(bottom, 2);
    if (right_columns > 0) left_ = below.part(2, known, known + right_columns) - bottom.product(row.back());
  }

  void note(const Elimination& lu) {
    const auto offset = static_cast<double>(done_);
    pivots_.push_back(lu.pivots + offset);
    const Batch info = (lu.info + offset).where(lu.info != lu.info.number(0, {}), 0);
    info_ = info_ ? info_->where(*info_ != info_->number(0, {}), info) : info;
  }

  bool exchanges_;
  int64_t done_ = 0;  // columns
  // What is still to be taken apart, and beside it, of the same rows, their numbers and the factors so far.
  Batch left_, before_;
  std::vector<Batch> rows_, orders_, pivots_;
  std::optional<Batch> info_;
};

}  // namespace

Elimination eliminated(const Batch& a, bool pivots) {
  const bool is_one_block = a.dim(2) <= panel_columns(a);
  return is_one_block ? panel(a, pivots) : Blocks(a, pivots).run();
}

}  // namespace opentrn::compiler
