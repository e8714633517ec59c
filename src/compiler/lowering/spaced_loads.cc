#include "compiler/lowering/spaced_loads.h"

#include <algorithm>
#include <vector>

#include "compiler/analysis/values.h"

namespace opentrn::compiler {

namespace {

// Of elements that rows show: a tile holds as much between them.
constexpr int64_t kFarthest = 16;

}  // namespace

int64_t spacing_of(const Matrix& m) {
  const std::vector<isa::Dim> dims = m.all().merged().dims;
  if (dims.size() != 1 || dims[0].step < 1 || dims[0].step > kFarthest) return 0;
  return dims[0].step;
}

bool lies_in_a_whole(Lowering& lowering, graph::ValueId value) {
  const graph::Op* op = maker(lowering.function(), value);
  while (op && is_view_op(op->kind) && !op->operands.empty()) {
    if (lowering.is_in_place(value)) return false;
    value = op->operands[0];
    op = maker(lowering.function(), value);
  }
  return !op || !lowering.is_in_place(value);
}

Matrix in_equal_rows(const Matrix& m, int64_t rows, int64_t columns) {
  const bool still = m.same_in_every_row() && m.same_in_every_column();
  const int64_t step = still ? 0 : std::max<int64_t>(1, spacing_of(m));
  return {m.all(), {{step * columns, rows}}, {{step, columns}}};
}

std::optional<Tile> spaced_columns(Lowering& lowering, graph::ValueId value, const Matrix& m, int64_t rows,
                                   int64_t column_begin, int64_t column_count) {
  constexpr int64_t kApartMost = 64, kColumnsMin = 8, kSpanMost = 4096;
  Emitter& emitter = lowering.emitter();
  std::vector<isa::Dim> columns = m.column_dims();
  std::erase_if(columns, [](const isa::Dim& dim) { return dim.count == 1; });
  if (columns.size() != 1 || column_count < kColumnsMin || rows < 2) return std::nullopt;
  const int64_t step = columns[0].step, span = (column_count - 1) * step + 1;
  if (step < 2 || step > kApartMost || span > kSpanMost || !lies_in_a_whole(lowering, value) ||
      m.kept(emitter, 0, rows, column_begin, column_count, false))
    return std::nullopt;
  View between = m.all();
  between.offset += column_begin * step;
  between.dims.clear();
  const Tile all = lowering.fetch({between, {{0, rows}}, {{1, span}}}, 0, rows, 0, span);
  const Tile picked = emitter.sbuf(rows, column_count, all.dtype, "picked");
  emitter.tensor_copy(picked, all.patch(0, 1, 0, column_count, step));
  return picked;
}

std::optional<Tile> SpacedLoads::loaded(const Matrix& m, const Rectangle& at) {
  if (m.row_dims().size() != 1 || m.column_dims().size() != 1) return std::nullopt;
  const isa::Dim row = m.row_dims()[0], column = m.column_dims()[0];
  if (column.step < 2 || column.step > kFarthest || row.step != column.step * column.count)
    return std::nullopt;
  View between = m.all();
  between.dims.clear();
  const int64_t first = between.offset + at.row_begin * row.step + at.column_begin * column.step,
                from = first - first % column.step, span = at.columns * column.step;
  const isa::Tensor& tensor = lowering_.emitter().program().tensor(between.tensor);
  if (from + (at.rows - 1) * row.step + span > tensor.row_elements ||
      lowering_.emitter().residency().holds(between.tensor))
    return std::nullopt;
  const auto [found, is_new] = tiles_.try_emplace({between.tensor, from, row.step, at.rows, span});
  if (is_new) {
    between.offset = from;
    found->second = lowering_.fetch({between, {{row.step, at.rows}}, {{1, span}}}, 0, at.rows, 0, span);
  }
  return found->second.patch(first - from, 1, 0, at.columns, column.step);
}

}  // namespace opentrn::compiler
