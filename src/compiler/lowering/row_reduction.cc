#include "compiler/lowering/row_reduction.h"

#include <optional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/exact_reduction.h"

namespace opentrn::compiler {

Tile all_columns(Emitter& emitter, const Term& data, int64_t rows, int64_t columns) {
  if (!data.splat) return data.column ? data.tile.repeated(columns) : data.tile;
  const Tile number = emitter.sbuf(rows, 1, *device_dtype(data.element), "splat");
  emitter.memset(number, *data.splat);
  return number.repeated(columns);
}

Tile with_initial(Emitter& emitter, const graph::Function& function, const graph::Op& op,
                  const Tile& reduced) {
  const graph::OpKind combiner = *combiner_of(function, op);
  const double initial = *splat_of(function, op.operands[1]);
  if (is_neutral(combiner, function.type(op.results[0]).element(), initial)) return reduced;
  const Tile dst = emitter.sbuf(reduced.rows, 1, reduced.dtype, "reduce");
  emitter.tensor_scalar(alu_of(combiner), dst, reduced, initial);
  return dst;
}

Term reduce_rows(Emitter& emitter, const graph::Function& function, const graph::Op& op, const Tile& data) {
  const graph::OpKind combiner = *combiner_of(function, op);
  const graph::ElementType element = function.type(op.results[0]).element();
  Term result{.element = element, .splat = {}, .tile = {}, .column = true};
  if (!graph::is_float(element)) {
    result.tile = reduce_exactly(emitter, combiner, element, data, *splat_of(function, op.operands[1]),
                                 magnitude_bits(function, op.operands[0]));
    return result;
  }
  const Tile dst = emitter.sbuf(data.rows, 1, *device_dtype(element), "reduce");
  emitter.reduce(alu_of(combiner), dst, data);
  result.tile = with_initial(emitter, function, op, dst);
  return result;
}

Tile reduce_parts(Emitter& emitter, const graph::Function& function, const graph::Op& op, int64_t columns,
                  int64_t widest, const std::function<Tile(int64_t begin)>& columns_from) {
  const AluOp alu = alu_of(*combiner_of(function, op));
  std::optional<Tile> total;
  for (int64_t column = 0; column < columns; column += widest) {
    const Tile data = columns_from(column);
    const Tile part = emitter.sbuf(data.rows, 1, DType::kFloat32, "reduce");
    emitter.reduce(alu, part, data);
    if (total) {
      const Tile sum = emitter.sbuf(data.rows, 1, DType::kFloat32, "reduce");
      emitter.tensor_tensor(alu, sum, *total, part);
      total = sum;
    } else {
      total = part;
    }
  }
  return with_initial(emitter, function, op, *total);
}

}  // namespace opentrn::compiler
