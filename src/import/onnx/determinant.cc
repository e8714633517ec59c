// Det: the product of the pivots of an LU decomposition, with the sign of its exchanges of rows.
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

using Direction = graph::ComparisonDirection;

// The diagonal of matrices [..., size, size]. Beside it there may be infinities: sums, not products.
ValueId diagonal(const Emit& e, ValueId matrix) {
  const int64_t rank = e.rank(matrix);
  const ValueId rows = e.iota(ElementType::kI32, e.dims(matrix), rank - 2);
  const ValueId columns = e.iota(ElementType::kI32, e.dims(matrix), rank - 1);
  const ValueId chosen = e.select(e.compare(Direction::kEq, rows, columns), matrix, e.like(matrix, 0));
  return e.sum(chosen, {rank - 1}, false);
}

// -1 for every exchange of two rows; pivots count rows from 1.
ValueId signs(const Emit& e, ValueId pivots, ElementType element) {
  const ValueId own = e.add(e.iota(ElementType::kI32, e.dims(pivots), e.rank(pivots) - 1), 1);
  const ValueId one = e.full(element, e.dims(pivots), 1);
  return e.select(e.compare(Direction::kEq, pivots, own), one, e.like(one, -1));
}

}  // namespace

void import_det(Node& n) {
  const Emit& e = n.emit;
  Dims dims = n.dims(0);
  const auto rank = static_cast<int64_t>(dims.size());
  n.check(rank >= 2 && dims[dims.size() - 1] == dims[dims.size() - 2], "the input is not a square matrix: {}",
          e.type(n.in(0)).to_string());
  n.check(graph::is_float(n.element(0)), "the input is {}", graph::name(n.element(0)));
  const int64_t size = dims.back();
  const ElementType wide = n.element(0) == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
  dims.resize(dims.size() - 2);
  if (size == 0) return n.set(0, e.full(n.element(0), dims, 1));
  const graph::OpId made =
      e.builder().add_op(OpKind::custom_call_, {e.cast(n.in(0), wide)},
                         {{graph::Attr::call_target_name, graph::Attribute(std::string("opentrn.getrf"))}});
  const std::vector<ValueId> results = e.builder().function().op(made).results;
  const ValueId factors = e.mul(diagonal(e, results[0]), signs(e, results[1], wide));
  n.set(0, e.cast(e.reduce(OpKind::multiply_, factors, {rank - 2}, false), n.element(0)));
}

}  // namespace opentrn::import::onnx
