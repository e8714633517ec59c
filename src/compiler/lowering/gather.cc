// gather of whole rows: the embedding lookup, and indexing of the leading dimension.
//
// 128 indices go over partitions, are clamped into the table as StableHLO asks, and steer one indirect DMA.
// Of short rows a partition holds several, whose indices are loaded and clamped, and results stored,
// together.
#include <algorithm>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

namespace {

// Rows so short go several to a partition, so many at most.
constexpr int64_t kShortRow = 4, kRowsTogether = 64;
// Columns of one transfer.
constexpr int64_t kRowElements = 8192;
// Rounded to fp32, an index stays on its side of bounds below this: one instruction of the Vector engine.
constexpr int64_t kExactRows = int64_t{1} << 24;

bool is_leading(std::span<const int64_t> list) { return list.size() == 1 && list[0] == 0; }

bool takes_gather(const graph::Function& function, const Op& op) {
  if (op.kind != OpKind::gather_) return false;
  const graph::Type& table = function.type(op.operands[0]);
  const graph::Type& indices = function.type(op.operands[1]);
  const graph::Type& result = function.type(op.results[0]);
  if (table.quantization() || !device_dtype(table.element()) ||
      device_dtype(indices.element()) != DType::kInt32)
    return false;
  if (!op.has(Attr::collapsed_slice_dims) || !is_leading(op.integers(Attr::collapsed_slice_dims)))
    return false;
  if (!is_leading(op.integers_or(Attr::start_index_map, 0, 0))) return false;
  if (op.has(Attr::operand_batching_dims) && !op.integers(Attr::operand_batching_dims).empty()) return false;
  const int64_t vector_dim = op.integer(Attr::index_vector_dim);
  const bool implicit = vector_dim == indices.rank();
  if (!implicit && (vector_dim != indices.rank() - 1 || indices.dim(indices.rank() - 1) != 1)) return false;
  const auto sizes = op.integers(Attr::slice_sizes);
  for (int i = 1; i < table.rank(); ++i)
    if (sizes[static_cast<size_t>(i)] != table.dim(i)) return false;
  // Offset dimensions come last, in order.
  const std::vector<int64_t> offsets = op.integers_or(Attr::offset_dims, 0, 0);
  const auto first = static_cast<int64_t>(result.rank()) - static_cast<int64_t>(offsets.size());
  for (size_t i = 0; i < offsets.size(); ++i)
    if (offsets[i] != first + static_cast<int64_t>(i)) return false;
  return table.dim(0) > 0;
}

// Indices from `row` on, `each` in a partition, clamped into a table of so many rows.
Tile index_rows(Lowering& lowering, const View& list, int64_t row, int64_t rows, int64_t each,
                int64_t table_rows) {
  Emitter& emitter = lowering.emitter();
  const int64_t step = list.dims[0].step;
  return lowering.once({list.tensor, {list.offset, step, row, rows, each, table_rows}}, [&] {
    const auto fresh = [&](const char* name) { return emitter.sbuf(rows, each, DType::kInt32, name); };
    Tile asked;
    if (each == 1) {
      asked = Matrix(list, 1).fetch(emitter, row, rows, 0, 1, "index");
    } else {
      asked = emitter.sbuf(rows, each, list.dtype, "index");
      emitter.load(asked,
                   {list.tensor, list.dtype, list.offset + row * step, {{each * step, rows}, {step, each}}});
    }
    if (table_rows <= kExactRows) {
      const Tile inside = fresh("index");
      emitter.tensor_scalar(AluOp::kMaximum, 0.0, AluOp::kMinimum, static_cast<double>(table_rows - 1),
                            inside, asked);
      return inside;
    }
    const Tile low = fresh("low"), high = fresh("high");
    emitter.memset(low, 0.0);
    emitter.memset(high, static_cast<double>(table_rows - 1));
    const Tile above = fresh("index"), inside = fresh("index");
    emitter.tensor_tensor(AluOp::kMaximum, above, asked, low);
    emitter.tensor_tensor(AluOp::kMinimum, inside, above, high);
    return inside;
  });
}

// Rows [0, the returned number) of the result, of `width` elements each, several to a partition.
int64_t gather_together(Lowering& lowering, const View& table, const View& list, const View& whole) {
  Emitter& emitter = lowering.emitter();
  const int64_t table_rows = table.dims[0].count, width = table.dims[1].count, count = list.dims[0].count;
  if (width > kShortRow || count < 2 * kPartitions || !whole.contiguous()) return 0;
  int64_t row = 0;
  for (; count - row >= kPartitions;) {
    const int64_t each = std::min(kRowsTogether, (count - row) / kPartitions), columns = each * width;
    const Tile inside = index_rows(lowering, list, row, kPartitions, each, table_rows),
               tile = emitter.sbuf(kPartitions, columns, table.dtype, "gathered");
    for (int64_t i = 0; i < each; ++i)
      emitter.gather_rows(tile.column_range(i * width, width), table, inside.column_range(i, 1));
    emitter.store(
        {whole.tensor, whole.dtype, whole.offset + row * width, {{columns, kPartitions}, {1, columns}}},
        tile);
    row += each * kPartitions;
  }
  return row;
}

}  // namespace

bool has_gather(const graph::Function& function, const Op& op) { return takes_gather(function, op); }

bool lower_gather(Lowering& lowering, const Op& op) {
  const graph::Function& function = lowering.function();
  if (!takes_gather(function, op)) return false;
  Emitter& emitter = lowering.emitter();
  const int64_t table_rows = function.type(op.operands[0]).dim(0);
  const int64_t width = function.type(op.operands[0]).element_count() / table_rows;
  const int64_t count = function.type(op.operands[1]).element_count();
  const std::vector<int64_t> table_shape{table_rows, width}, list{count}, result_shape{count, width};
  View table = lowering.reshaped_or_copied(lowering.view(op.operands[0]), table_shape);
  if (width > 1 && table.dims[1].step != 1) {  // rows of elements that are apart: one descriptor each
    const View rows = emitter.hbm(table_shape, table.dtype, "rows");
    emitter.copy(rows, table);
    table = rows;
  }
  const View asked = lowering.reshaped_or_copied(lowering.view(op.operands[1]), list);
  const View whole = lowering.allocate(op.results[0]);
  const Matrix out(*Lowering::reshaped(whole, result_shape), 1);
  const int64_t done = gather_together(lowering, table, asked, whole);
  if (done == 0 && width <= kRowElements) emitter.residency().reserve(whole, count, width);
  for (int64_t row = done; row < count; row += kPartitions) {
    const int64_t rows = std::min(kPartitions, count - row);
    const Tile inside = index_rows(lowering, asked, row, rows, 1, table_rows);
    for (int64_t column = 0; column < width; column += kRowElements) {
      const int64_t columns = std::min(kRowElements, width - column);
      View part = table;
      part.offset += column * table.dims[1].step;
      part.dims[1].count = columns;
      const Tile rows_tile = emitter.sbuf(rows, columns, table.dtype, "gathered");
      emitter.gather_rows(rows_tile, part, inside);
      if (!emitter.residency().adopt(whole.tensor, row, rows_tile))
        out.store(emitter, rows_tile, row, column);
    }
  }
  return true;
}

}  // namespace opentrn::compiler
