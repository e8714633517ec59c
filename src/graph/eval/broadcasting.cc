// chlo.broadcast_*: the operands are broadcast to one shape, then it is the plain op.
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

// Where the dimensions of an operand go in a result of `rank`: its last ones, or broadcast_dimensions for
// the operand of smaller rank.
Dims placement(const Call& call, const Tensor& operand, size_t rank) {
  const auto own = static_cast<size_t>(operand.rank());
  if (own < rank && call.op().has(Attr::broadcast_dimensions))
    return copy_dims(call.op().integers(Attr::broadcast_dimensions));
  Dims places;
  for (size_t axis = 0; axis < own; ++axis) places.push_back(static_cast<int64_t>(rank - own + axis));
  return places;
}

Tensor broadcast_to(const Call& call, const Tensor& operand, const Dims& dims) {
  const Dims places = placement(call, operand, dims.size());
  const Dims from = row_major_strides(operand.dims());
  Dims strides(dims.size(), 0);
  for (size_t axis = 0; axis < places.size(); ++axis)
    if (operand.dims()[axis] != 1) strides[static_cast<size_t>(places[axis])] = from[axis];
  return strided_view(operand, operand.type().with_dims(dims), 0, strides);
}

Dims common_dims(const Call& call) {
  size_t rank = 0;
  for (size_t i = 0; i < call.operand_count(); ++i)
    rank = std::max(rank, static_cast<size_t>(call.tensor(i).rank()));
  Dims dims(rank, 1);
  for (size_t i = 0; i < call.operand_count(); ++i) {
    const Tensor& operand = call.tensor(i);
    const Dims places = placement(call, operand, rank);
    if (places.size() != static_cast<size_t>(operand.rank()))
      call.fail(fmt::format("{} broadcast_dimensions for {}", places.size(), operand.type().to_string()));
    for (size_t axis = 0; axis < places.size(); ++axis) {
      if (places[axis] < 0 || static_cast<size_t>(places[axis]) >= rank)
        call.fail(fmt::format("broadcast dimension {} of rank {}", places[axis], rank));
      int64_t& dim = dims[static_cast<size_t>(places[axis])];
      const int64_t own = operand.dims()[axis];
      if (dim != 1 && own != 1 && dim != own)
        call.fail(fmt::format("dimensions {} and {} do not broadcast", dim, own));
      if (dim == 1) dim = own;
    }
  }
  return dims;
}

}  // namespace

Tensor broadcasting(Call& call) {
  const Dims dims = common_dims(call);
  for (size_t i = 0; i < call.operand_count(); ++i) {
    const Tensor& operand = call.tensor(i);
    const bool scalar_predicate =
        call.kind() == OpKind::chlo_broadcast_select_ && i == 0 && operand.rank() == 0;
    if (!scalar_predicate) call.set_operand(i, broadcast_to(call, operand, dims));
  }
  call.set_kind(without_broadcast(call.kind()));
  switch (call.kind()) {
    case OpKind::compare_: return compare_op(call);
    case OpKind::complex_: return complex(call);
    case OpKind::select_: return select(call);
    case OpKind::chlo_broadcast_acos_: return unary(call);
    default: return binary(call);
  }
}

Tensor constant_like(const Call& call) {
  const Tensor& like = call.tensor(0);
  const Type type = call.result(like.dims());
  const Attribute* value = call.op().find(Attr::value);
  if (value && value->get<Literal>()) return splat(type, from_literal(*value->get<Literal>()));
  double number = 0;
  if (value && value->get<double>())
    number = *value->get<double>();
  else if (value && value->get<int64_t>())
    number = static_cast<double>(*value->get<int64_t>());
  else
    call.fail("its value is not a number");
  Storage values = zeros(type.element(), type.element_count());
  std::visit(
      [&]<typename T>(std::vector<T>& elements) {
        for (T& element : elements) element = static_cast<T>(number);
      },
      values);
  return call.finish(type, std::move(values));
}

}  // namespace opentrn::graph::eval
