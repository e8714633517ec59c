// scatter of whole rows which replace what is there: the new keys and values of a cache. 128 rows are one
// indirect DMA, written where the operand lies if nobody reads that any more. Of rows with one index the last
// stays: where the program does not say that indices differ, those of a tile are compared with each other,
// and rows that another one follows are sent outside.
//
// Rows with an index outside the operand are not written, as StableHLO asks; the DMA skips them.
#include <algorithm>
#include <optional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

namespace {

// Elements of a row: what one tile holds of it.
constexpr int64_t kRowElementsMax = 8192;
// fp32 keeps indices apart up to here.
constexpr int64_t kComparedRowsMax = int64_t{1} << 24;

bool is_leading(const Op& op, Attr attr) {
  const std::vector<int64_t> list = op.integers_or(attr, 0, 0);
  return list.size() == 1 && list[0] == 0;
}

bool is_empty(const Op& op, Attr attr) { return !op.has(attr) || op.integers(attr).empty(); }

// The region returns the update.
bool replaces(const graph::Function& function, const Op& op) {
  const graph::Block& body = function.block(op.regions[0]);
  return body.ops.size() == 1 && body.arguments.size() == 2 &&
         function.op(body.ops[0]).operands == std::vector{body.arguments[1]};
}

}  // namespace

bool scatters_rows(const graph::Function& function, const Op& op) {
  if (op.kind != OpKind::scatter_ || op.results.size() != 1 || op.operands.size() != 3) return false;
  if (!replaces(function, op)) return false;
  const graph::Type &table = function.type(op.operands[0]), &indices = function.type(op.operands[1]),
                    &updates = function.type(op.operands[2]);
  if (!op.boolean_or(Attr::unique_indices, false) && (table.rank() == 0 || table.dim(0) > kComparedRowsMax))
    return false;
  if (table.quantization() || !device_dtype(table.element()) ||
      device_dtype(indices.element()) != DType::kInt32)
    return false;
  if (!is_leading(op, Attr::inserted_window_dims) || !is_leading(op, Attr::scatter_dims_to_operand_dims) ||
      !is_empty(op, Attr::input_batching_dims))
    return false;
  const bool is_list = indices.rank() == 2 && indices.dim(1) == 1 && op.integer(Attr::index_vector_dim) == 1;
  if (!is_list || table.rank() != 2 || updates.rank() != 2 || updates.dim(1) != table.dim(1)) return false;
  const std::vector<int64_t> window = op.integers_or(Attr::update_window_dims, 0, 0);
  return window == std::vector<int64_t>{1} && table.dim(0) > 0 && table.dim(1) > 0 &&
         table.dim(1) <= kRowElementsMax;
}

namespace {

// Indices of a tile, those that come again in it replaced by one outside of the table.
class LastOnes {
 public:
  LastOnes(Lowering& lowering, const View& indices, int64_t table_rows)
      : emitter_(lowering.emitter()), indices_(indices), outside_(static_cast<double>(table_rows)) {
    const View counted = lowering.counted(kPartitions);
    columns_ = emitter_.sbuf(kPartitions, kPartitions, DType::kFloat32, "column");
    emitter_.load(columns_,
                  {counted.tensor, counted.dtype, counted.offset, {{0, kPartitions}, {1, kPartitions}}});
    rows_ = emitter_.sbuf(kPartitions, 1, DType::kFloat32, "row");
    emitter_.load(rows_, {counted.tensor, counted.dtype, counted.offset, {{1, kPartitions}, {1, 1}}});
  }

  void keep(const Tile& index, int64_t row) {
    const int64_t count = index.rows, step = indices_.dims[0].step;
    const auto floats = [&](const Tile& integers) {
      const Tile tile = emitter_.sbuf(count, integers.columns, DType::kFloat32, "index");
      emitter_.tensor_copy(tile, integers);
      return tile;
    };
    const Tile all = emitter_.sbuf(count, count, DType::kInt32, "indices");
    emitter_.load(
        all, {indices_.tensor, indices_.dtype, indices_.offset + row * step, {{0, count}, {step, count}}});
    const Tile same = emitter_.sbuf(count, count, DType::kFloat32, "same"),
               later = emitter_.sbuf(count, count, DType::kFloat32, "later"),
               again = emitter_.sbuf(count, 1, DType::kFloat32, "again"),
               outside = emitter_.sbuf(count, 1, DType::kInt32, "outside");
    emitter_.tensor_scalar(AluOp::kEqual, same, floats(all), floats(index));
    emitter_.scalar_tensor_tensor(AluOp::kGreater, rows_.row_range(0, count), AluOp::kMultiply, later,
                                  columns_.row_range(0, count).column_range(0, count), same);
    emitter_.reduce(AluOp::kMaximum, again, later);
    emitter_.memset(outside, outside_);
    emitter_.copy_where(index, outside, again.as(DType::kUint32));
  }

 private:
  Emitter& emitter_;
  View indices_;
  double outside_;
  Tile columns_, rows_;  // numbers of both
};

}  // namespace

bool lower_scatter_rows(Lowering& lowering, const Op& op) {
  const graph::Function& function = lowering.function();
  if (!scatters_rows(function, op)) return false;
  Emitter& emitter = lowering.emitter();
  const View updates = lowering.view(op.operands[2]), indices = lowering.view(op.operands[1]);
  const View table = place_of_update(lowering, op);
  const Matrix rows_of(updates, 1), index_of(indices, 1);
  const int64_t count = function.type(op.operands[2]).dim(0), width = function.type(op.operands[2]).dim(1);
  std::optional<LastOnes> last_ones;
  if (!op.boolean_or(Attr::unique_indices, false) && count > 1)
    last_ones.emplace(lowering, indices, function.type(op.operands[0]).dim(0));
  for (int64_t row = 0; row < count; row += kPartitions) {
    const int64_t rows = std::min(kPartitions, count - row);
    const auto loaded = [&] {
      const Tile index = emitter.sbuf(rows, 1, DType::kInt32, "index");
      index_of.load(emitter, index, row, 0);
      return index;
    };
    const bool changes = last_ones && rows > 1;
    const Tile index =
        changes
            ? loaded()
            : lowering.once({indices.tensor, {indices.offset, indices.dims[0].step, row, rows, 0}}, loaded);
    if (changes) last_ones->keep(index, row);
    emitter.scatter_rows(table, index, rows_of.fetch(emitter, row, rows, 0, width, "update"));
  }
  return true;
}

}  // namespace opentrn::compiler
