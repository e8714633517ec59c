// scatter of whole rows that no two indices name, which replace what is there: the new keys and values of a
// cache. 128 rows are one indirect DMA, written where the operand lies if nobody reads that any more.
//
// Rows with an index outside the operand are not written, as StableHLO asks; the DMA skips them.
#include <algorithm>

#include "compiler/analysis/device_type.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Op;
using graph::OpKind;

namespace {

// Elements of a row: what one tile holds of it.
constexpr int64_t kRowElementsMax = 8192;

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
  if (!op.boolean_or(Attr::unique_indices, false) || !replaces(function, op)) return false;
  const graph::Type &table = function.type(op.operands[0]), &indices = function.type(op.operands[1]),
                    &updates = function.type(op.operands[2]);
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

bool lower_scatter_rows(Lowering& lowering, const Op& op) {
  const graph::Function& function = lowering.function();
  if (!scatters_rows(function, op)) return false;
  Emitter& emitter = lowering.emitter();
  const View updates = lowering.view(op.operands[2]), indices = lowering.view(op.operands[1]);
  const View table = place_of_update(lowering, op);
  const Matrix rows_of(updates, 1), index_of(indices, 1);
  const int64_t count = function.type(op.operands[2]).dim(0), width = function.type(op.operands[2]).dim(1);
  for (int64_t row = 0; row < count; row += kPartitions) {
    const int64_t rows = std::min(kPartitions, count - row);
    const Tile index = emitter.sbuf(rows, 1, DType::kInt32, "index");
    index_of.load(emitter, index, row, 0);
    emitter.scatter_rows(table, index, rows_of.fetch(emitter, row, rows, 0, width, "update"));
  }
  return true;
}

}  // namespace opentrn::compiler
