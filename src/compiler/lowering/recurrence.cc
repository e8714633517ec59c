// @opentrn.recurrence (analysis/recurrence_call.h): rows lie over partitions, and the Vector engine's scan
// does one in a pass over its columns. Of longer rows a piece starts with what the one before ended with.
#include <algorithm>

#include "compiler/analysis/recurrence_call.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/exact_reduction.h"
#include "compiler/lowering/joint_transfers.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

bool has_recurrence(const graph::Function&, const graph::Op& op) {
  return RecurrenceCall::of(op).has_value();
}

bool lower_recurrence(Lowering& lowering, const graph::Op& op) {
  constexpr int64_t kColumns = 2048;
  const auto call = RecurrenceCall::of(op);
  if (!call) return false;
  Emitter& emitter = lowering.emitter();
  const auto matrix = [](const View& view) { return Matrix(view, static_cast<int>(view.dims.size()) - 1); };
  const Matrix factors = matrix(lowering.view(op.operands[0])), data = matrix(lowering.view(op.operands[1])),
               start = matrix(lowering.view(op.operands[2]));
  const Matrix result = matrix(lowering.allocate(op.results[0]));
  const int64_t length = result.columns();
  // One number for all is a column that is read again and again.
  const auto tile_of = [&](graph::ValueId value, const Matrix& m, const Rectangle& part) {
    const auto number = splat_of(lowering.function(), value);
    if (!number) return lowering.fetch(m, part.row_begin, part.rows, part.column_begin, part.columns);
    const Tile tile = emitter.sbuf(part.rows, 1, DType::kFloat32, "number");
    emitter.memset(tile, *number);
    return part.columns > 1 ? tile.repeated(part.columns) : tile;
  };
  for (int64_t row = 0; row < result.rows(); row += kPartitions) {
    const int64_t rows = std::min(kPartitions, result.rows() - row);
    Tile before = lowering.fetch(start, row, rows, 0, 1);
    for (int64_t done = 0; done < length; done += kColumns) {
      const int64_t columns = std::min(kColumns, length - done),
                    column = call->is_backward ? length - done - columns : done;
      const Tile by = tile_of(op.operands[0], factors, {row, rows, column, columns}),
                 each = tile_of(op.operands[1], data, {row, rows, column, columns}),
                 made = emitter.sbuf(rows, columns, DType::kFloat32, "recurrence");
      const auto walked = [&](const Tile& tile) {
        return call->is_backward && tile.column_step != 0 ? tile.patch(columns - 1, 1, 0, columns, -1) : tile;
      };
      emitter.scan(alu_of(call->first), alu_of(call->second), walked(made), walked(by), walked(each), before);
      result.store(emitter, made, row, column);
      before = made.column_range(call->is_backward ? 0 : columns - 1, 1);
    }
  }
  return true;
}

}  // namespace opentrn::compiler
